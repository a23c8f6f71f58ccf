"""Patches as git writes them, and ``review.diff``, which is one with the user's notes. Pure."""

from __future__ import annotations

import re

from understudy.model.text.path_quoting import quote, unquote

HEADER = b"diff --git "
_NOTES = re.compile(rb"(?m)^>.*(?:\n|\Z)")


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
