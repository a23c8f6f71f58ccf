"""Finish or roll back interrupted decisions, and record that a finished run no longer needs the user's attention.

The user's files and the journal agree even if the deciding process is killed: a decision writes an *intent* before it
changes a file, and the next process that opens the delegation (``recover_delegation``) completes or rolls back.

::

    intent written ─► transaction.apply ─► transaction.commit { decided… applied } ─► intent removed

While the transaction's own journal exists, it shows whether the transaction was committed. An intent without a file
transaction, or whose transaction is over, is ``final``: recovery always completes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.engine.review import review_state
from understudy.engine.review.review_state import (
    DecisionIntent,
    HunkRef,
    exchange_file,
    has_interrupted_decision,
    intent_file,
    read_record,
    undo_file,
)
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import WorktreeRecord, load_record
from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git.apply import rollback
from understudy.git.object_store import ObjectStore
from understudy.journal import delegation_folder, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import HunkState
from understudy.model.states import State

LOCK_SECONDS = 3.0
"""How long to wait for the lock of a delegation; a finishing worker or another decision holds it only briefly."""
WORKSPACE_SECONDS = 10.0


# -- recovery ------------------------------------------------------------------------------------------------------


def recover_delegation(folder: Folder) -> bool:
    """Recover from a process that died during a decision or a follow-up; return whether this call did anything."""
    follow_up_failed = worktree_record.has_failed_follow_up(reader.load(folder))
    if not follow_up_failed and not has_interrupted_decision(folder):
        return False
    lock = worker_files.try_lock(folder)
    if lock is None:
        return False
    try:
        with Writer(folder, lock) as writer:
            recover_decision(folder, writer)
            if follow_up_failed:
                with contextlib.suppress(UnderstudyError):  # the worktree may have been removed since
                    return_hunks(folder, writer, *load_record(folder))
    finally:
        os.close(lock)
    return True


def recover_decision(folder: Folder, writer: Writer) -> None:
    """Complete or roll back an interrupted decision; the caller holds the delegation's lock."""
    if not has_interrupted_decision(folder):
        return
    if not intent_file(folder).exists():
        rollback.recover(exchange_file(folder))
        return
    intent = read_record(intent_file(folder), DecisionIntent)
    if intent.final:
        complete(folder, writer, intent)
        return
    rollback.recover(exchange_file(folder), lambda: append_events(folder, writer, intent))
    failpoint("recovered")
    if intent.kind == "accept" and intent.token not in review_state.read(folder).applied:
        undo_file(folder, intent.token).unlink(missing_ok=True)
    intent_file(folder).unlink()


def complete(folder: Folder, writer: Writer, intent: DecisionIntent) -> None:
    """Complete a final intent from where it was interrupted; the caller holds the delegation's lock."""
    if intent.kind == "discard":
        worktree_record.move_to_trash(Path(intent.paths[0]).parent, intent.token)
        failpoint("moved to trash")
    elif intent.kind == "restore":
        worktree_record.mark_removed(Path(intent.paths[0]).parent, None)
        failpoint("restored")
    append_events(folder, writer, intent)
    failpoint("before removing intent")
    intent_file(folder).unlink()


def return_hunks(folder: Folder, writer: Writer, record: WorktreeRecord, objects: ObjectStore) -> None:
    """Make hunks pending again whose follow-up never took them over; the caller holds the delegation's lock."""
    root = Path(record.root)
    if not worktree_record.follow_up_failed(root, folder.id):
        return
    now = review_state.read(folder)
    head = writer.delegation.head or record.base_commit
    files = review_state.files_of(folder, objects, record.base_commit, head) if now.lapsed else []
    for path, hunk in review_state.in_state(files, HunkState.PENDING):
        if hunk not in now.marks:
            back = events.Decided(path=path, hunk=hunk, decision="pending", was="superseded", by="understudy")
            writer.append(back, attempt=0)
            failpoint("hunk returned")
    for identifier in worktree_record.listed_owners(root)[len(worktree_record.chain(root)) :]:
        worktree_record.unpin(identifier, root)
    worktree_record.forget_failed_follow_ups(root)


# -- taking locks -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def lock_delegation(folder: Folder) -> Iterator[Writer]:
    """Hold the lock of a delegation for one decision; raise ``conflict`` while another process holds it."""
    lock = worker_files.lock_within(folder, LOCK_SECONDS)
    if lock is None:
        state = reader.load(folder).state
        # The other process may be its worker.
        raise unfinished(folder.id, state) if state is not State.FINISHED else worker_files.in_use(folder.id)
    try:
        with Writer(folder, lock) as writer:
            recover_decision(folder, writer)
            yield writer
    finally:
        os.close(lock)


@contextlib.contextmanager
def lock_finished(folder: Folder) -> Iterator[Writer]:
    """Hold the lock of a finished delegation; raise ``conflict`` if it has not finished."""
    with lock_delegation(folder) as writer:
        if writer.delegation.state is not State.FINISHED:
            raise unfinished(folder.id, writer.delegation.state)
        yield writer


def unfinished(identifier: str, state: State) -> UnderstudyError:
    """Return the error of what needs a finished delegation."""
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"{identifier} is {state}.",
        hint=f"Wait until it has finished (understudy wait {identifier}), or "
        + (
            f"stop its checks and decide on what they have shown: understudy cancel {identifier} --checks"
            if state is State.CHECKING
            else f"cancel it: understudy cancel {identifier}"
        ),
    )


@contextlib.contextmanager
def lock_workspace(workspace: Path, folder: Folder) -> Iterator[None]:
    """Hold the lock on the files of a workspace for one decision; first recover an interrupted decision on them.

    The lock file names the delegation being decided, so that the next decision can recover it.
    """
    path = _workspace_file(workspace)
    with durable.named_failures(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = durable.open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        with durable.named_failures(path):
            durable.flock_within(descriptor, path, WORKSPACE_SECONDS)
        _recover_other(path, folder)
        with durable.named_failures(path):
            os.ftruncate(descriptor, 0)
            durable.write_at(descriptor, folder.id.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def recover_workspace(workspace: Path) -> None:
    """Recover an interrupted decision on the files of a workspace, before they are read as a whole."""
    other = _last_delegation(_workspace_file(workspace))
    if other is not None:
        recover_delegation(other)


def _recover_other(path: Path, folder: Folder) -> None:
    other = _last_delegation(path)
    if other is None or other.id == folder.id:
        return
    deadline = time.monotonic() + WORKSPACE_SECONDS
    while has_interrupted_decision(other) and not recover_delegation(other):
        if time.monotonic() > deadline:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"A decision on {other.id}, which changes the same files, is in progress in another process.",
                hint="Try again in a moment.",
            )
        time.sleep(0.01)


def _last_delegation(path: Path) -> Folder | None:
    with contextlib.suppress(OSError, UnderstudyError):
        name = durable.read_whole(path, 256).decode("ascii", "replace")
        return worktree_record.folder_of(name) if delegation_folder.is_id(name) else None
    return None


def _workspace_file(workspace: Path) -> Path:
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    return delegation_folder.state_root() / "deciding" / name


# -- journal events ---------------------------------------------------------------------------------------------------


def reopen(writer: Writer, now: review_state.ReviewState, ref: HunkRef, by: str) -> None:
    """Make a rejected hunk pending, before it is accepted."""
    mark = now.marks.get(ref.hunk)
    if mark is not None and mark.state is HunkState.REJECTED:
        back = events.Decided(path=ref.path, hunk=ref.hunk, decision="pending", was="reject", by=by)
        writer.append(back, attempt=0)


def append_events(folder: Folder, writer: Writer, intent: DecisionIntent) -> None:
    """Append the events of the intent that the journal does not have yet."""
    now = review_state.read(folder)
    if intent.kind == "accept":
        if intent.token in now.applied:
            return
        with writer.together():
            for ref in intent.hunks:
                mark = now.marks.get(ref.hunk)
                if mark is None or mark.state is not HunkState.ACCEPTED:
                    reopen(writer, now, ref, intent.by)
                    failpoint("before event")
                    decided = events.Decided(path=ref.path, hunk=ref.hunk, decision="accept", by=intent.by)
                    writer.append(decided, attempt=0)
            failpoint("before event")
            writer.append(events.Applied(paths=intent.paths, undo_token=intent.token, by=intent.by), attempt=0)
    elif intent.kind == "undo":
        if not now.applied.get(intent.token):
            return
        accepted, undone = set(now.accepted_by(intent.token)), set(intent.hunks)
        with writer.together():
            for ref in intent.hunks:
                if ref in accepted:
                    decided = events.Decided(
                        path=ref.path, hunk=ref.hunk, decision="pending", was="accept", by=intent.by
                    )
                    writer.append(decided, attempt=0)
                    failpoint("before event")
        if accepted <= undone:
            writer.append(events.Undone(undo_token=intent.token), attempt=0)
    elif intent.kind == "discard":
        if now.discarded == intent.token:
            return
        writer.append(events.Discarded(rescue_ref=intent.token), attempt=0)
    else:
        if writer.delegation.worktree == intent.paths[0]:
            return
        writer.append(events.Worktree(path=intent.paths[0], seconds=intent.seconds), attempt=0)
    failpoint("events appended")
    writer.sync()


def dismiss(folder: Folder, by: str) -> None:
    """Dismiss a finished delegation, until its checks run again. Dismissing it twice changes nothing.

    Errors: ``conflict`` (it has not finished, or another process uses it).
    """
    with lock_finished(folder) as writer:
        if not writer.delegation.dismissed:
            writer.append(events.Dismissed(by=by), attempt=0)
            writer.sync()
