"""Name mutants so that a person can speak of one, and so that a dismissed one stays dismissed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from understudy.mutants.mutant import Mutant

_MOST_LINES = 6
_MOST_CHARACTERS = 300
_AROUND = 100
"""Bytes shown on both sides of a change in a longer line."""


def identities(path: str, source: bytes, mutants: Iterable[Mutant]) -> dict[Mutant, str]:
    """Return for each of all mutants of a file 12 hexadecimal digits that no other one has.

    They stay the same while the line, its function and the change do. Lines may move: a change elsewhere in the file
    keeps them. The same changes of equal lines in one function are numbered from the top.
    """
    names: dict[Mutant, str] = {}
    numbers: Counter[bytes] = Counter()
    for mutant in sorted(mutants):
        key = _key(path, source, mutant)
        number = numbers[key]
        numbers[key] += 1
        names[mutant] = hashlib.sha256(key + (b"\0%d" % number if number else b"")).hexdigest()[:12]
    return names


def _key(path: str, source: bytes, mutant: Mutant) -> bytes:
    start, end = _lines_around(source, mutant.start, mutant.end)
    return b"\0".join(
        (
            path.encode("utf-8", "surrogateescape"),
            mutant.function.encode("utf-8", "surrogateescape"),
            mutant.operator.encode(),
            source[start : mutant.start].lstrip(),
            source[mutant.start : mutant.end],
            mutant.text,
            source[mutant.end : end].rstrip(),
        )
    )


def as_change(source: bytes, mutant: Mutant) -> tuple[str, str]:
    """Return the changed lines before and after, without their common indentation, at most 300 characters each."""
    start, end = _lines_around(source, mutant.start, mutant.end)
    if end - start > _MOST_CHARACTERS:
        start, end = max(start, mutant.start - _AROUND), min(end, mutant.end + _AROUND)
    before = source[start:end]
    after = source[start : mutant.start] + mutant.text + source[mutant.end : end]
    return _shown(before), _shown(after)


def _lines_around(source: bytes, start: int, end: int) -> tuple[int, int]:
    first = source.rfind(b"\n", 0, start) + 1
    last = source.find(b"\n", end)
    return first, len(source) if last < 0 else last


def _shown(data: bytes) -> str:
    text = data.decode("utf-8", "replace").replace("\r", "")
    lines = text.split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    lines = [line[indent:] for line in lines]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], "…"]
    text = "\n".join(lines)
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
