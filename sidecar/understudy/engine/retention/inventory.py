"""List the worktrees on disk with the state of each, the trash, and the rescue refs."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import WorktreeRecord, read_record
from understudy.files import locks
from understudy.git.worktree import rescue
from understudy.journal import delegation_folder
from understudy.journal.summaries import summary
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.states import State

WorktreeState = Literal["working", "pending", "decided", "expired", "orphaned"]
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class WorktreeInfo:
    """A worktree on disk, and its state."""

    root: Path
    chain: tuple[str, ...]
    state: WorktreeState
    last: float
    """Seconds since 1970 of the last event of the delegation that has it (or of the folder)."""
    delegation: Delegation | None

    @property
    def id(self) -> str:
        """Return the id by which it is removed: the id of its delegation, or its path."""
        return self.chain[-1] if self.chain else f"{self.root.parent.name}/{self.root.name}"

    @property
    def tree(self) -> Path:
        """Return the folder of the worktree itself, or its parent folder if it is unknown."""
        record = _record(self.chain)
        return Path(record.tree) if record is not None else self.root


def list_worktrees(state: Path, keep_days: float) -> list[WorktreeInfo]:
    """Return every worktree that was created and not removed."""
    return [_place(root, keep_days) for root in worktree_record.roots(state) if worktree_record.removed(root) is None]


def trash(state: Path) -> list[Path]:
    """Return the removed worktrees that are not deleted yet."""
    folder = state / "trash"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def rescues(state: Path) -> list[rescue.Rescue]:
    """Return every removed worktree that can be restored, newest first; nothing exists at its path."""
    return [entry for entry in rescue.list_rescues(state) if not entry.path.is_dir()]


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk; files that vanish meanwhile do not count."""
    total = 0
    waiting = [os.fsencode(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _place(root: Path, keep_days: float) -> WorktreeInfo:
    chain = tuple(worktree_record.chain(root))
    folder = worktree_record.folder_of(chain[-1]) if chain else None
    if folder is None:
        return WorktreeInfo(root, chain, "orphaned", _modified(root), None)
    try:
        delegation = summary.load(folder)
    except UnderstudyError:
        return WorktreeInfo(root, chain, "orphaned", _modified(root), None)
    last = last_event(folder, delegation)
    state: WorktreeState
    if delegation.state is not State.FINISHED:
        state = "working"
    elif (
        delegation.review.pending
        or len(worktree_record.listed_owners(root)) > len(chain)
        or never_collected(delegation)
    ):
        # Also when a follow-up failed: its hunks are pending again. Pending work never expires.
        state = "pending"
    else:
        state = "expired" if time.time() - last > keep_days * DAY_SECONDS > 0 else "decided"
    return WorktreeInfo(root, chain, state, last, delegation)


def last_event(folder: delegation_folder.Folder, delegation: Delegation) -> float:
    """Return when the last event of a delegation was written, in seconds since 1970."""
    return max(_seconds(delegation.finished_at), _modified(folder.events))


def never_collected(delegation: Delegation) -> bool:
    """Return whether the worker died while an agent ran, and the user has not looked at the partial work."""
    return bool(delegation.attempts) and delegation.worktree is not None and delegation.result is None


def _record(chain: Iterable[str]) -> WorktreeRecord | None:
    for identifier in reversed(list(chain)):
        folder = worktree_record.folder_of(identifier)
        if folder is not None:
            with contextlib.suppress(UnderstudyError):
                return read_record(folder)
    return None


def _seconds(at: str | None) -> float:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(at).timestamp() if at else 0.0
    return 0.0


def _modified(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def expiry_lock(state: Path, seconds: float = 0.0) -> contextlib.AbstractContextManager[bool]:
    """Lock the removal of expired files; yield False when another process still holds the lock after ``seconds``."""
    return locks.try_file_lock(state / "expiry.lock", seconds)
