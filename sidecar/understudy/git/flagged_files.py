"""List the files that other programs execute or obey; a change of one needs explicit consent before it is accepted.

A file belongs here when opening its folder in an editor, changing into it, or running a usual command there (build,
test, format, commit) executes it, or lets it name what is executed. ``flagged_files.txt`` lists them, ``find`` looks a
path up.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

_TABLE = Path(__file__).with_name("flagged_files.txt")


@functools.cache
def table() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return reason → patterns, in the order of the file; the first reason that fits is shown."""
    groups: list[tuple[str, list[str]]] = []
    for line in _TABLE.read_text().splitlines():
        if line.startswith("[") and line.endswith("]"):
            groups.append((line[1:-1], []))
        elif line and not line.startswith("#"):
            groups[-1][1].extend(line.split())
    return tuple((reason, tuple(patterns)) for reason, patterns in groups)


def find(path: str) -> str | None:
    """Return why a change of ``path`` needs consent, or None; ``path`` is relative to the repository, with slashes."""
    text = path.casefold()
    names = text.split("/")
    ranks = [_rank_of_folder(name) for name in names] + [_rank(_compiled().files, names[-1])]
    ranks.append(_rank(_compiled().paths, text))
    best = min(ranks)
    return table()[best][0] if best < len(table()) else None


class _Expressions(NamedTuple):
    """One kind of patterns: fast enough for tens of thousands of files, of which few are flagged."""

    any: re.Pattern[str]
    by_rank: list[tuple[int, str]]
    """Compiled when ``any`` matches."""


class _Compiled(NamedTuple):
    """The table as expressions, each for the reason at its rank."""

    files: _Expressions
    """For the last name of a path."""
    folders: _Expressions
    """For each name of a path."""
    paths: _Expressions
    """For whole paths."""


@functools.cache
def _compiled() -> _Compiled:
    kinds: tuple[list[tuple[int, str]], ...] = ([], [], [])
    for rank, (_, patterns) in enumerate(table()):
        groups: tuple[list[str], list[str], list[str]] = ([], [], [])
        for pattern in patterns:
            names = pattern.rstrip("/")
            body = "".join(map(_regular, re.split(r"(\*|\[[^]]*\])", names.lstrip("/"))))
            if "/" in names:
                start = "" if pattern.startswith("/") else "(?:.*/)?"
                groups[2].append(f"{start}{body}{'(?:/.*)?' if pattern.endswith('/') else ''}")
            else:
                groups[1 if pattern.endswith("/") else 0].append(body)
        for kind, group in zip(kinds, groups, strict=True):
            if group:
                kind.append((rank, "|".join(group)))
    return _Compiled(*map(_expressions, kinds))


def _expressions(bodies: list[tuple[int, str]]) -> _Expressions:
    return _Expressions(re.compile("|".join(body for _, body in bodies), re.DOTALL), bodies)


def _regular(part: str) -> str:
    return "[^/]*" if part == "*" else part if part.startswith("[") else re.escape(part)


def _rank(expressions: _Expressions, text: str) -> int:
    """Return the rank of the first expression that matches ``text``, one after the last when none does."""
    if not expressions.any.fullmatch(text):
        return len(table())
    return next(rank for rank, body in expressions.by_rank if re.fullmatch(body, text, re.DOTALL))


@functools.lru_cache(maxsize=4096)
def _rank_of_folder(name: str) -> int:
    return _rank(_compiled().folders, name)
