"""Decide on a permission request by the user's rules, and propose the rule that would decide on it the next time.

A rule that allows is read narrowly, one that rejects or asks broadly: when in doubt, the user is asked. A rule allows
nothing outside the worktree or in ``.git``, and no command line that may run more than its first words say.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from understudy.model.config.delegators import PermissionRule
from understudy.runners.runner import Question

_MORE_THAN_ONE = frozenset(";&|<>()$`\n\r\\{}*?[]~!#")
"""Characters that a shell may read as more than words; quoting is not interpreted."""
_LONGEST_RULE = 500


def decide(
    rules: Sequence[PermissionRule], question: Question, tree: Path | None
) -> Literal["allow", "reject", "ask"] | None:
    """Return what the first matching rule says, None if none matches; ``tree`` is the worktree."""
    for rule in rules:
        if rule.kind is not None and rule.kind != question.kind:
            continue
        if rule.decision == "allow":
            # What is shown of a question may not be all that would run.
            if not question.altered and _allows(rule, question, tree):
                return "allow"
        elif _concerns(rule, question):
            return rule.decision
    return None


def rule_for(question: Question, tree: Path | None) -> PermissionRule | None:
    """Return a rule that allows exactly what ``question`` asks; None if there is none."""
    if question.altered:
        return None
    if question.kind == "execute":
        words = _simple_words(question.command)
        if not words:
            return None
        # Further words may be further files: `rm -r build` says nothing about `rm -r build src`.
        rule = PermissionRule(decision="allow", kind="execute", command=shlex.join(words), exact=True)
    elif question.kind in {"read", "edit"} and question.paths is not None and len(question.paths) == 1:
        [path] = question.paths
        if tree is None or Path(tree, path).is_dir():
            return None  # the pattern of a folder means everything in it
        rule = PermissionRule(decision="allow", kind=question.kind, path=f"/{_escaped(path)}")
    else:
        return None
    too_long = len(rule.command or rule.path or "") > _LONGEST_RULE
    return rule if not too_long and _allows(rule, question, tree) else None


def _allows(rule: PermissionRule, question: Question, tree: Path | None) -> bool:
    names_files = question.kind in {"read", "edit"} or bool(question.paths)
    if names_files and not _all_inside(question.paths, tree):
        return False
    if rule.command is not None:
        first, words = _simple_words(rule.command), _simple_words(question.command)
        if not first or words[: None if rule.exact else len(first)] != first:
            return False
    if rule.path is not None:
        paths = question.paths or []
        return bool(paths) and len(_matching(rule.path, paths)) == len(paths)
    return True


def _concerns(rule: PermissionRule, question: Question) -> bool:
    if rule.command is not None:
        words = rule.command.split()
        anywhere = r"\s+".join(map(re.escape, words))
        line = question.command or ""
        # Quotes and backslashes inside a word hide it from a shell's reader, not from the shell.
        plain = re.sub(r"[\"'\\]", "", line)
        if not words or not any(re.search(rf"(?<![\w.-]){anywhere}(?![\w-])", text) for text in (line, plain)):
            return False
    return rule.path is None or bool(_matching(rule.path, question.paths or []))


def _simple_words(line: str | None) -> list[str]:
    """Return the words of a command line that is nothing but words; an empty list for every other."""
    if line is None or _MORE_THAN_ONE & set(line):
        return []
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    # NAME=value before a command changes what it runs.
    return words if words and "=" not in words[0] else []


def _all_inside(paths: Sequence[str] | None, tree: Path | None) -> bool:
    """Return whether all paths are known and lead into the worktree, links resolved, and none into ``.git``."""
    if not paths or tree is None:
        return False
    top = os.path.realpath(tree)
    for path in paths:
        real = os.path.realpath(Path(top, path))
        if real != top and not real.startswith(f"{top}/"):
            return False
        if ".git" in os.path.relpath(real, top).lower().split("/"):
            return False
    return True


def _matching(pattern: str, paths: Sequence[str]) -> list[str]:
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines([pattern])
    return [path for path in paths if spec.match_file(os.path.normpath(path))]


def _escaped(path: str) -> str:
    return re.sub(r"([*?\[\]\\! #])", r"\\\1", path)
