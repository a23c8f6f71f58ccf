"""Read command lines out of shell scripts, Makefiles and the scripts of ``package.json``, where that is plain.

Nothing is run and nothing is expanded but plain ``NAME = value`` variables of make: what cannot be read is left out.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

Argv = list[str]

_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "(", "time", "exec", "command"})
_SEPARATORS = frozenset(";&|()\n")
_VARIABLE = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*(?:::?|\?|\+)?=[ \t]*(.*)$")
_RULE = re.compile(r"^([^\s#:=][^#:=]*)::?(?!=)([^;#]*)(?:;(.*))?$")
_REFERENCE = re.compile(r"\$\(([\w.-]+)\)|\$\{([\w.-]+)\}")
_INCLUDE = re.compile(r"^[-s]?include[ \t]+(.+)$")
_DEEPEST_VARIABLE = 5


def shell_commands(text: str) -> Iterator[Argv]:
    """Yield the simple commands of a shell script; a line that cannot be split is skipped."""
    for line in text.replace("\\\n", " ").splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        for inner in re.findall(r"\$\(([^()]*)\)|`([^`]*)`", stripped):
            yield from shell_commands(" ".join(inner))
        lexer = shlex.shlex(stripped, posix=True, punctuation_chars=";&|()")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        try:
            words = list(lexer)
        except ValueError:
            continue
        command: Argv = []
        for word in [*words, ";"]:
            if word and set(word) <= _SEPARATORS:
                if command:
                    yield command
                command = []
            elif command or not (word in _KEYWORDS or _ASSIGNMENT.match(word)):
                command.append(word)


def make_commands(text: str, targets: Sequence[str]) -> tuple[list[Argv], list[str]]:
    """Return the commands of the targets (none: the first) with their prerequisites, and the included files.

    If a target has no rule of its own, the commands of all rules are returned.
    """
    variables: dict[str, str] = {}
    rules: dict[str, tuple[list[str], list[str]]] = {}
    included: list[str] = []
    current: list[tuple[list[str], list[str]]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for _, recipe in current:
                recipe.append(line.strip().lstrip("@-+"))
            continue
        if match := _INCLUDE.match(line.strip()):
            included += match.group(1).split()
        elif match := _VARIABLE.match(line):
            variables[match.group(1)] = match.group(2).strip()
        elif match := _RULE.match(line):
            current = []
            for name in match.group(1).split():
                rule = rules.setdefault(name, ([], []))
                rule[0].extend(match.group(2).split())
                if match.group(3):
                    rule[1].append(match.group(3).strip())
                current.append(rule)
    waiting = list(targets) or [name for name in rules if not name.startswith(".")][:1]
    reached: list[str] = []
    if all(name in rules for name in waiting):
        while waiting:
            name = waiting.pop(0)
            if name in rules and name not in reached:
                reached.append(name)
                waiting += [_expanded(part, variables) for part in rules[name][0]]
    else:
        reached = list(rules)
    commands = [
        command for name in reached for line in rules[name][1] for command in shell_commands(_expanded(line, variables))
    ]
    return commands, [word for name in included for word in _expanded(name, variables).split()]


def _expanded(text: str, variables: dict[str, str]) -> str:
    for _ in range(_DEEPEST_VARIABLE):
        if "$" not in text:
            break
        text = _REFERENCE.sub(lambda match: variables.get(match.group(1) or match.group(2), ""), text)
    return text.replace("$$", "$").lstrip("@-+")


def package_commands(data: bytes, script: str) -> list[Argv]:
    """Return the commands of a script of ``package.json`` and of its ``pre`` and ``post`` scripts."""
    try:
        scripts = json.loads(data).get("scripts")
    except (ValueError, AttributeError, RecursionError):
        return []
    if not isinstance(scripts, dict):
        return []
    texts = [scripts.get(name) for name in (f"pre{script}", script, f"post{script}")]
    return [command for text in texts if isinstance(text, str) for command in shell_commands(text)]


def program_of(word: str) -> str:
    """Return the name of a program without its folder and version: ``python`` for ``/usr/bin/python3.12``."""
    name = PurePosixPath(word).name.removesuffix(".exe")
    return re.sub(r"(?<=[a-z])[\d.]+$", "", name) or name
