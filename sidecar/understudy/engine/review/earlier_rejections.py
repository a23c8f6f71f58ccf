"""Find pending hunks that repeat a change which the user rejected in an earlier result of the same task.

Earlier results are those that a delegation follows: the result that was sent back, the run that was retried, and what
those follow in turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from understudy.engine.review import review_state
from understudy.engine.worktrees import worktree_record
from understudy.git import diff as git_diff
from understudy.git.object_store import ObjectStore
from understudy.journal import reader
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.hunks import EarlierRejection, FileDiff, Hunk, HunkState
from understudy.model.text import path_quoting

_MOST_EARLIER = 20
"""Earlier results that are compared, the latest first."""

_Lines = tuple[str, ...]
"""Lines that are not blank, without the white space around them."""


class DiffTexts:
    """The lines of the hunks between two commits; each file is read once."""

    def __init__(self, store: ObjectStore, base: str, head: str) -> None:
        """Read nothing yet."""
        self._store = store
        self._sides = (base, head)
        self._read: dict[tuple[str, str], list[str]] = {}

    def of(self, file: FileDiff, hunk: Hunk) -> tuple[_Lines, _Lines]:
        """Return the old and the new lines of a hunk; both are empty for a mode or a binary change."""
        base, head = self._sides
        return (
            self._lines(base, file.from_ or file.path, hunk.old_start, hunk.old_lines),
            self._lines(head, file.path, hunk.new_start, hunk.new_lines),
        )

    def _lines(self, commit: str, path: str, start: int, count: int) -> _Lines:
        if not count:
            return ()
        lines = self._read.get((commit, path))
        if lines is None:
            blob = git_diff.read_file(self._store, commit, path_quoting.unquote(path))
            lines = blob[0].decode("utf-8", "replace").split("\n") if blob is not None else []
            self._read[commit, path] = lines
        return tuple(line.strip() for line in lines[start - 1 : start - 1 + count] if line.strip())


def marked(folder: Folder, files: list[FileDiff], texts: DiffTexts) -> list[FileDiff]:
    """Return ``files`` with ``rejected_before`` in each pending hunk that was rejected in an earlier result."""
    if not any(hunk.state is HunkState.PENDING for file in files for hunk in file.hunks):
        return files
    rejections = list(_rejections(folder))

    def mark(file: FileDiff, hunk: Hunk) -> Hunk:
        candidates = [rejection for rejection in rejections if rejection[0] == file.path]
        if hunk.state is not HunkState.PENDING or not candidates:
            return hunk
        now = texts.of(file, hunk)
        same = (rejection for _, before, rejection in candidates if _repeats(now, before))
        return msgspec.structs.replace(hunk, rejected_before=next(same, None))

    return [msgspec.structs.replace(file, hunks=[mark(file, hunk) for hunk in file.hunks]) for file in files]


def _rejections(folder: Folder) -> Iterator[tuple[str, tuple[_Lines, _Lines], EarlierRejection]]:
    """Yield path and lines of the rejected hunks of earlier results, the latest result first."""
    parent = reader.load(folder).parent_id
    for _ in range(_MOST_EARLIER):
        earlier = worktree_record.folder_of(parent) if parent is not None else None
        if earlier is None:
            return
        try:
            delegation = reader.load(earlier)
        except UnderstudyError:
            return
        # A removed worktree has no text to compare.
        with contextlib.suppress(UnderstudyError):
            yield from _rejected_in(earlier, delegation)
        parent = delegation.parent_id


def _rejected_in(
    earlier: Folder, delegation: Delegation
) -> Iterator[tuple[str, tuple[_Lines, _Lines], EarlierRejection]]:
    if delegation.head is None or delegation.review.rejected == 0:
        return
    record, store = worktree_record.load_record(earlier)
    texts = DiffTexts(store, record.base_commit, delegation.head)
    for file in review_state.files_of(earlier, store, record.base_commit, delegation.head):
        for hunk in file.hunks:
            if hunk.state is HunkState.REJECTED:
                yield file.path, texts.of(file, hunk), EarlierRejection(id=earlier.id, reason=hunk.reason)


def _repeats(now: tuple[_Lines, _Lines], before: tuple[_Lines, _Lines]) -> bool:
    """Return whether a hunk makes an earlier change again, perhaps together with a change next to it."""
    (old, new), (old_before, new_before) = now, before
    if not new_before:
        return bool(old_before) and not new and old == old_before
    if new == new_before:
        return True
    # One line may be there by chance, such as a closing bracket.
    size = len(new_before)
    return size > 1 and any(new[start : start + size] == new_before for start in range(len(new) - size + 1))
