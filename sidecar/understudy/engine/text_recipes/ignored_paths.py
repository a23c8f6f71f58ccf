"""Decide which files of a named folder are not sent: default excludes, and ``.gitignore`` rules without starting git.

Files that git tracks although a rule ignores them are left out too, because the index is not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.files import durable
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

EXCLUDED_FOLDERS = frozenset(
    {
        *(".git", ".hg", ".svn", ".next", "build", "dist", "node_modules", ".venv", "venv", "__pycache__"),
        *(".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
    }
)
"""Folders that are never read unless they are named themselves: histories, dependencies, and what a build makes."""
EXCLUDED_FILES = frozenset({".DS_Store", ".coverage"})
EXCLUDED_ENDINGS = (".pyc",)

_RULES_LIMIT = 1 << 20
"""Most bytes of one file of rules; rules that are not read would let files through."""
_MOST_RULES = 20_000
_MOST_STARS = 4
_MOST_DOUBLE_STARS = 3
"""Matching takes the length of a path to the power of the number of stars."""
_NO_STARS = r"(?:\\.|\[[^\]\\]+\]|[^\\\[*])*"
_TO_STARS, _REST = re.compile(_NO_STARS + r"(\*+)"), re.compile(_NO_STARS)


class IgnoreRules:
    """The rules that apply in one folder, those of the folders above it included."""

    def __init__(self, specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        """Apply ``specs``: each with the folder it belongs to, and the later ones first."""
        self._specs = specs

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Return whether the rules ignore an absolute path; the caller has asked for the folders above it."""
        for base, spec in reversed(self._specs):
            relative = path[len(base) :] + ("/" if folder else "")
            decided = spec.check_file(relative).include
            if decided is not None:
                return decided
        return False

    def entered(self, folder: str, names: Sequence[str]) -> IgnoreRules:
        """Return the rules inside ``folder``, which has entries with these ``names``."""
        if ".gitignore" not in names:
            return self
        spec = _spec_of(Path(folder, ".gitignore"))
        return self if spec is None else IgnoreRules((*self._specs, (_base(folder), spec)))


def rules_above(folder: str, top: str | None) -> IgnoreRules:
    """Return the rules that apply to the named ``folder`` from outside of it.

    ``top`` is the repository around it. If the rules ignore the folder itself, none applies: the user named it.
    """
    if top is None:
        return IgnoreRules()
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - a string is wanted
    specs = [
        (_base(top), spec)
        for path in (Path(home, "git", "ignore"), Path(top, ".git", "info", "exclude"))
        if (spec := _spec_of(path)) is not None
    ]
    rules = IgnoreRules(tuple(specs))
    parts = Path(os.path.relpath(folder, top)).parts
    current = top
    for part in parts:
        if (spec := _spec_of(Path(current, ".gitignore"))) is not None:
            rules = IgnoreRules((*rules._specs, (_base(current), spec)))  # noqa: SLF001 - the same class
        current = os.path.join(current, part)  # noqa: PTH118 - a string is wanted
        if rules.ignores(current, folder=True):
            return IgnoreRules()
    return rules


def is_excluded(name: str, *, folder: bool) -> bool:
    """Return whether a name inside a named folder is excluded by default."""
    if folder:
        return name in EXCLUDED_FOLDERS
    return name in EXCLUDED_FILES or name.endswith(EXCLUDED_ENDINGS)


def _base(folder: str) -> str:
    return folder.rstrip("/") + "/"


def _spec_of(path: Path) -> GitIgnoreSpec | None:
    """Return the rules of a file; None if it is missing, a link, or cannot be read. Git follows no link here either.

    Raises ``input_too_large`` for too many rules.
    """
    try:
        content = durable.read_whole(path, _RULES_LIMIT + 1)
    except OSError:
        return None
    text = content.decode("utf-8", "surrogateescape")
    lines = [line for line in text.removeprefix("\ufeff").splitlines() if line.strip() and not line.startswith("#")]
    if len(content) > _RULES_LIMIT or len(lines) > _MOST_RULES:
        raise UnderstudyError(
            ErrorKind.INPUT_TOO_LARGE,
            f"{path_quoting.quote(os.fsencode(path))} has more rules than are applied ({_MOST_RULES}, 1 MiB).",
            hint="Name the files themselves, and no folder.",
        )
    lines = [line for rule in lines if (line := simplified(rule)) is not None]
    if not lines:
        return None
    import pathspec

    try:
        return pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError:  # git ignores a pattern that it cannot read
        return pathspec.GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def simplified(rule: str) -> str | None:
    """Return a rule that is matched in bounded time, and that lets no file through that ``rule`` leaves out.

    A rule with many stars is cut after some of them, so it leaves out more; None for an exception to the rules.
    """
    if rule.count("*") <= _MOST_DOUBLE_STARS:
        return rule
    negated = rule.startswith("!")
    end, stars, double = int(negated), 0, 0
    while (match := _TO_STARS.match(rule, end)) is not None:
        stars, double = stars + 1, double + (len(match[1]) > 1)
        if stars > _MOST_STARS or double > _MOST_DOUBLE_STARS:
            return None if negated else rule[:end] or "*"
        end = match.end()
    if _REST.fullmatch(rule, end):
        return rule
    return None if negated else rule[:end] or "*"  # a bracket without an end or with an escape may hide stars


def _is_pattern(line: str) -> bool:
    import pathspec

    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
