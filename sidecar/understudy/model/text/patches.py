"""Patches as git writes them, ``review.diff``, which is one with the user's notes, and diffs in bounded time. Pure."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote, unquote

HEADER = b"diff --git "
_NOTES = re.compile(rb"(?m)^>.*(?:\n|\Z)")
MOST_LINES = 5000
"""Lines that difflib compares: with many equal lines, its time grows with the cube of their number."""
_CONTEXT = 3


def split(patch: bytes) -> list[bytes]:
    """Split a patch into one part per file, at ``diff --git``; content lines have a prefix, so none begins with it."""
    if not patch:
        return []
    starts = [0]
    place = patch.find(b"\n" + HEADER)
    while place >= 0:
        starts.append(place + 1)
        place = patch.find(b"\n" + HEADER, place + 1)
    return [patch[start:end] for start, end in zip(starts, [*starts[1:], len(patch)], strict=True)]


def without_notes(review: bytes) -> bytes:
    """Return only the patch of a ``review.diff``, without its header and the user's notes.

    Notes begin with ``>``, and no line of a patch does.
    """
    start = 0 if review.startswith(HEADER) else review.find(b"\n" + HEADER) + 1
    patch = review[start:] if start or review.startswith(HEADER) else b""
    return _NOTES.sub(b"", patch)


def concerns(part: bytes, names: set[str]) -> bool:
    """Return whether one file's part of a patch is about a path in ``names`` (quoted as on the wire)."""
    header = part.partition(b"\n")[0]
    if header.endswith(b'"'):  # git quotes all but plain ASCII
        quoted = header[header.rindex(b' "b/') + 1 :].decode("ascii")
        return quote(unquote(quoted)[len(b"b/") :]) in names
    return any(header.endswith(b" b/" + name.encode()) for name in names)


def chosen(patch: bytes, changed: Sequence[str], files: Sequence[str]) -> bytes:
    """Return the parts about what is in ``files``, paths or folders of the workspace; everything for no ``files``.

    Errors: ``invalid_params`` if none of the ``changed`` paths is.
    """
    if not files:
        return patch
    names = {path for path in changed if any(_is_below(path, named) for named in files)}
    if not names:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "The result does not change these files.",
            hint="Name files of the result, relative to the workspace.",
            names=list(changed[:20]) or None,
            parameter="files",
        )
    return b"".join(part for part in split(patch) if concerns(part, names))


def _is_below(path: str, folder: str) -> bool:
    top = folder.removeprefix("./").rstrip("/")
    return top in {"", "."} or path == top or path.startswith(f"{top}/")


def lines_of(text: str) -> list[str]:
    """Return lines with their line feeds, split as git does: only there."""
    *complete, last = text.split("\n")
    return [f"{line}\n" for line in complete] + ([last] if last else [])


def unified(before: str, after: str, old_name: str, new_name: str) -> str:
    """Return the unified diff, empty for equal texts; what differs over too many lines is shown as replaced."""
    import difflib

    old, new = (io.StringIO(text, newline="\n").readlines() for text in (before, after))
    if max(len(old), len(new)) > MOST_LINES:
        return "" if old == new else _joined(_one_hunk(old, new, old_name, new_name))
    return _joined(difflib.unified_diff(old, new, old_name, new_name))


def unified_file(path: str, before: bytes | None, after: bytes | None) -> str:
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
