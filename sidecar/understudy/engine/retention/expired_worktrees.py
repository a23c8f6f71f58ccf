"""Remove expired worktrees, finish interrupted removals, and empty the trash.

Each worker does this at its end, after its delegation has finished. A worktree is moved to ``<state>/trash`` after its
rescue ref is written; one with pending hunks never expires.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

from understudy.config.configuration import Retention
from understudy.engine.check_setup import check_trial
from understudy.engine.retention.delegation_files import expire_files
from understudy.engine.retention.discard import remove
from understudy.engine.retention.inventory import WorktreeInfo, expiry_lock, list_worktrees, size_of, trash
from understudy.engine.review import decision_recovery
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import read_record
from understudy.files import locks
from understudy.git.worktree import cleanup
from understudy.journal import delegation_folder, worker_lock
from understudy.journal.summaries import summary
from understudy.model.errors import UnderstudyError
from understudy.model.states import State

TIDY_SECONDS = 60.0
"""About how long one worker cleans up; the next one continues."""


def expire(state: Path, *, keep_days: float, keep_bytes: int, files: Retention | None = None) -> list[str]:
    """Remove expired files; return the rescue refs that were written.

    One process does this at a time; the others return at once.
    """
    with expiry_lock(state) as mine:
        if not mine:
            return []
        deadline = time.monotonic() + TIDY_SECONDS
        _complete_removals(state)
        _clear_unused(state)
        check_trial.remove_abandoned(state)
        empty_trash(state)
        refs = []
        for place in _due(state, keep_days, keep_bytes):
            if time.monotonic() > deadline:
                break
            if not _is_in_use(place):
                with contextlib.suppress(UnderstudyError, OSError):
                    # Measuring all worktrees takes time, and an undo meanwhile can make hunks pending.
                    refs.append(remove(place.id, undecided=False))
        expire_files(state, files or Retention(), deadline)
        empty_trash(state)
        return refs


def _is_in_use(place: WorktreeInfo) -> bool:
    """Return whether a process has the delegation now: its worker, which is about to exit, or a decision or check."""
    folder = worktree_record.folder_of(place.id)
    return folder is not None and worker_lock.is_held(folder)


def empty_trash(state: Path) -> None:
    """Delete what is in the trash."""
    for entry in trash(state):
        with contextlib.suppress(OSError):
            cleanup.delete_folder(entry)


def _due(state: Path, keep_days: float, keep_bytes: int) -> list[WorktreeInfo]:
    """Return the expired worktrees and, while all together are too large, the oldest ones without pending hunks."""
    every = list_worktrees(state, keep_days)
    due = [place for place in every if place.state == "expired"]
    rest = sorted((place for place in every if place.state == "decided"), key=lambda place: place.last)
    if rest:
        sizes = {place.root: size_of(place.root) for place in every}
        total = sum(sizes.values()) - sum(sizes[place.root] for place in due)
        for place in rest:
            if total <= keep_bytes:
                break
            due.append(place)
            total -= sizes[place.root]
    return due


def _complete_removals(state: Path) -> None:
    """Finish the removals and restorations whose process died."""
    for root in worktree_record.roots(state):
        with contextlib.suppress(UnderstudyError, OSError):
            folder = worktree_record.folder_of(next(reversed(worktree_record.chain(root)), ""))
            if folder is None:
                _complete_removal(root)
            elif (
                not decision_recovery.recover_delegation(folder) and (lock := worker_lock.try_lock(folder)) is not None
            ):
                try:
                    _complete_removal(root)
                finally:
                    os.close(lock)


def _complete_removal(root: Path) -> None:
    reference = worktree_record.removed(root)
    if reference is not None and worktree_record.leftovers(root):
        worktree_record.move_to_trash(root, reference)


def _clear_unused(state: Path) -> None:
    """Free paths that were claimed by processes that died before they wrote a base."""
    for root in worktree_record.roots(state):
        names = worktree_record.listed_owners(root)
        with contextlib.suppress(UnderstudyError, OSError):
            if worktree_record.removed(root) is not None or len(names) > 1:
                continue
            if not names:
                with locks.try_file_lock(root.with_name(f"{root.name}.lock")) as mine:  # paths are claimed under it
                    if mine and not worktree_record.listed_owners(root) and not worktree_record.leftovers(root):
                        _free(state, root)
                continue
            folder = worktree_record.folder_of(names[0])
            if folder is None or (lock := worker_lock.try_lock(folder)) is None:
                continue
            try:
                if not (folder.path / "worktree.json").exists():
                    if summary.load(folder).state is State.FINISHED:
                        _free(state, root, folder)
                elif Path(read_record(folder).root) != root:
                    _free(state, root)  # the next process that prepared the delegation claimed another path
            finally:
                os.close(lock)


def _free(state: Path, root: Path, folder: delegation_folder.Folder | None = None) -> None:
    if folder is not None:
        worktree_record.unpin(folder.id, root)
    aside = state / "trash"
    aside.mkdir(mode=0o700, exist_ok=True)
    root.rename(aside / f"{root.parent.name}-{root.name}-{secrets.token_hex(6)}")
