"""Unified diffs in bounded time. Pure."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

MOST_LINES = 5000
"""Lines that difflib compares: with many equal lines, its time grows with the cube of their number."""
_CONTEXT = 3


def unified(before: str, after: str, old_name: str, new_name: str) -> str:
    """Return the unified diff, empty for equal texts; what differs over too many lines is shown as replaced."""
    import difflib

    old, new = (io.StringIO(text, newline="\n").readlines() for text in (before, after))
    if max(len(old), len(new)) > MOST_LINES:
        return "" if old == new else _joined(_one_hunk(old, new, old_name, new_name))
    return _joined(difflib.unified_diff(old, new, old_name, new_name))


def of_file(path: str, before: bytes | None, after: bytes | None) -> str:
    """Return the unified diff of a file's contents; None: there is no file."""
    old, new = ((content or b"").decode("utf-8", "replace") for content in (before, after))
    return unified(old, new, "/dev/null" if before is None else path, "/dev/null" if after is None else path)


def _one_hunk(old: Sequence[str], new: Sequence[str], old_name: str, new_name: str) -> Iterable[str]:
    """Return the lines of a diff with one hunk, from the first difference to the last."""
    shorter = min(len(old), len(new))
    start = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    left = shorter - start
    end = next((place for place in range(left) if old[-1 - place] != new[-1 - place]), left)
    first = max(0, start - _CONTEXT)
    above, below = old[first:start], old[len(old) - end :][:_CONTEXT]
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    ranges = []
    for changed in (removed, added):
        count = len(above) + len(changed) + len(below)
        ranges.append(f"{first + 1 if count else 0},{count}")
    yield f"--- {old_name}\n"
    yield f"+++ {new_name}\n"
    yield f"@@ -{ranges[0]} +{ranges[1]} @@\n"
    for mark, lines in ((" ", above), ("-", removed), ("+", added), (" ", below)):
        yield from (mark + line for line in lines)


def _joined(lines: Iterable[str]) -> str:
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
