"""The difference of one file as the review shows it, without git."""

from __future__ import annotations

from difflib import SequenceMatcher

from understudy.git.merge.line_edits import split_lines
from understudy.model.hunks import FileDiff, Hunk, HunkState


def file_difference(path: str, before: bytes | None, after: bytes | None, *, source: str | None = None) -> FileDiff:
    """Return hunks without context; a file that is new, gone or renamed is one hunk."""
    old, new = split_lines(before or b""), split_lines(after or b"")
    edits = [edit[1:] for edit in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if edit[0] != "equal"]
    status = "added" if before is None else "deleted" if after is None else "renamed" if source else "modified"
    if status != "modified":
        edits = [(0, len(old), 0, len(new))]
    hunks = [
        Hunk(
            id=f"{path} {number}",
            old_start=first + (last > first),
            old_lines=last - first,
            new_start=start + (end > start),
            new_lines=end - start,
            state=HunkState.PENDING,
            conflict=False,
            edited=False,
        )
        for number, (first, last, start, end) in enumerate(edits)
    ]
    return FileDiff(path=path, from_=source, status=status, binary=False, hunks=hunks)
