"""Record what the user saw when they asked, for delegations that wait for a slot.

One process at a time does this, for all that wait: ``understudy worker --record-bases``. Otherwise a thousand starts at
once would be a thousand processes that read the repository. It captures the checkout for all of them at once
(``base_snapshots``), then makes the object store of each, oldest first, and captures again whenever others were started
meanwhile. If it dies, the next ``launcher.start_waiting`` starts another one. The worker of a delegation that gets a
slot first records the base itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from understudy.engine.bases import base_snapshots, follow_up_base
from understudy.engine.queueing import launcher
from understudy.engine.review import decision_recovery
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.git import command, repository
from understudy.journal import delegation_folder, state_folder, worker_lock
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries import summary
from understudy.journal.writing.writer import Writer
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.events import Event
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process import identity, leftovers
from understudy.store import store

MOST_TRIES = 4
"""After this many tries at the same base killed their process, it is left to the delegation's worker. A capture and
making the store are two tries."""

START_SECONDS = 0.5
"""A start holds its delegation for milliseconds after it added the entry."""


def is_recorded(delegation: Delegation, worktree: DelegationWorktree) -> bool:
    """Return whether an earlier process recorded the base completely; ``worktree`` then has its record."""
    return delegation.base is not None and worktree.load()


def record_base(
    folder: Folder, spec: Spec, worktree: DelegationWorktree, root: Path, emit: Callable[[Event], None]
) -> None:
    """Record the base of a delegation. Raises the errors of ``git`` and of follow-ups."""
    workspace, origin = Path(spec.workspace), spec.origin
    # An interrupted decision may have left the user's files partly changed.
    decision_recovery.recover_workspace(workspace)
    if origin is None:
        worktree.make_base(emit, base_snapshots.find(root, folder.id))
        return
    repo = repository.locate(workspace)
    if origin.kind == "retry":
        base = follow_up_base.same_base(origin, lambda: worktree.claim(repo), worktree.name)
    else:
        base = follow_up_base.next_base(origin, folder.id, repo, worktree.buffers(), root)
    worktree.adopt(base, emit)


def record_all(root: Path, lock: int) -> None:
    """Record the bases of all that wait, and of those that are added meanwhile; ``lock`` is the recorder's."""
    held: int | None = lock
    looked: set[str] = set()
    left: set[str] = set()
    while held is not None:
        base_snapshots.remove_unused(root)
        while todo := {one: snapshot for one, snapshot in store.unrecorded(root).items() if one not in left}:
            if new := [one for one, snapshot in todo.items() if snapshot is None and one not in looked]:
                looked.update(new)
                base_snapshots.capture(root, new, MOST_TRIES)
                continue
            # Those without a snapshot, such as follow-ups, are first: they may become late.
            identifier = next(iter(todo))
            if not _record(root, identifier):
                left.add(identifier)
            launcher.start_waiting(root)
        base_snapshots.remove_unused(root)
        os.close(held)
        # An entry that was added just now found this recorder.
        held = launcher.lock_recorder(root) if set(store.unrecorded(root)) - left else None


def tidy(root: Path) -> None:
    """Remove snapshots that workers used after the process that captured them had ended."""
    if base_snapshots.any_left(root) and (held := launcher.lock_recorder(root)) is not None:
        try:
            base_snapshots.remove_unused(root)
        finally:
            os.close(held)
        # An entry that was added just now took this process for a recorder.
        launcher.ensure_recorder(root)


def _record(root: Path, identifier: str) -> bool:
    """Record one base; return False if another process has the delegation: its worker records the base itself."""
    try:
        folder = delegation_folder.open_folder(identifier)
        lock = _lock_within(folder, START_SECONDS)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNKNOWN_DELEGATION:
            return False
        store.leave(root, identifier)
        return True
    if lock is None:
        return False
    try:
        if summary.load(folder).state in launcher.NOT_STARTED and store.count_try(root, identifier) < MOST_TRIES:
            worker_lock.write_holder(lock, identity.current(), [])
            command.mark_calls(leftovers.MARK, identifier)
            spec = delegation_folder.read_spec(folder)
            with Writer(folder, lock) as writer:
                worktree = DelegationWorktree(folder, spec, root)
                if not is_recorded(writer.delegation, worktree):
                    record_base(folder, spec, worktree, root, lambda event: _append(writer, event))
    except (UnderstudyError, OSError):
        pass  # The delegation's worker meets the same problem, and reports it.
    finally:
        store.recorded(root, identifier)
        os.close(lock)
    return True


def _lock_within(folder: Folder, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while (lock := worker_lock.try_lock(folder)) is None:
        if time.monotonic() > deadline or folder.id in store.launched(state_folder.state_root()):
            return None
        time.sleep(0.01)
    return lock


def _append(writer: Writer, event: Event) -> None:
    writer.append(event, attempt=0)
