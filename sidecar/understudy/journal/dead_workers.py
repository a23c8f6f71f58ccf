"""Ending what died: a delegation whose state needs a holder while its lock is free has lost its worker.

Whoever sees it ends it. Several may try at once: the lock decides, and what is true is looked at again
under it, so there is exactly one terminal event.
"""

from __future__ import annotations

import os
import time
from signal import SIGKILL

from understudy.journal import locks, store, summary
from understudy.journal.locks import Holder
from understudy.journal.reader import Tail
from understudy.journal.store import Folder
from understudy.journal.writer import Writer
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.events import Finished, Note
from understudy.model.states import NEEDS_HOLDER, State, Verdict
from understudy.process import identity
from understudy.process.identity import Identity

END_SECONDS = 5.0
"""A killed process is gone within milliseconds; one in an uninterruptible call is waited for this long."""

GUARDIAN_SECONDS = 0.5
"""How long a guardian has to end its tree before it is killed itself; it takes some 20 ms."""

_INTERRUPTED = ErrorInfo(
    ErrorKind.INTERRUPTED,
    "The worker of this delegation was gone before the end.",
    "What it left is kept; start it again when you want it.",
)
_CANCELLED = ErrorInfo(
    ErrorKind.CANCELLED,
    "The delegation was cancelled; its worker did not answer and was ended.",
    "What it left is kept.",
)


def recover(folder: Folder) -> bool:
    """End a delegation whose worker died; return whether this call did.

    Takes the lock, ends the processes that the dead worker left (by identity, never by number alone, and not
    across a reboot), cuts a torn line, appends ``finished {interrupted}``. False when nothing is to be
    done: somebody is at work on it, somebody else recovers it, it waits in the queue, or it has ended.
    Raises ``store_full`` and ``store_unavailable``; then the next caller tries again.
    """
    if locks.is_held(folder):
        return False
    if summary.load(folder).state not in NEEDS_HOLDER:
        return False
    lock = locks.try_lock(folder)
    if lock is None:
        return False
    try:
        # Whoever held the lock a moment ago may have written the end.
        if summary.load(folder).state not in NEEDS_HOLDER:
            return False
        holder = locks.read_holder(folder)
        if holder is None or holder.boot_id == identity.boot_id():
            _end_everything(folder, holder)
        _finish(folder, lock, Verdict.INTERRUPTED, _INTERRUPTED)
    finally:
        os.close(lock)
    return True


def recover_all(limit: int = 1000, seconds: float = 2.0) -> list[str]:
    """Recover what died among the ``limit`` newest delegations, for at most about ``seconds``; return the ids.

    Folders that cannot be read, and disks that are full, are passed over: this is called on the way to something
    else. What it does not reach is recovered when somebody looks at it.
    """
    deadline = time.monotonic() + seconds
    store.remove_abandoned()
    root = store.delegations_root()
    recovered: list[str] = []
    for delegation_id in store.ids()[:limit]:
        if time.monotonic() >= deadline:
            break
        folder = Folder(delegation_id, root / delegation_id)
        try:
            if summary.peek(folder).state in NEEDS_HOLDER and recover(folder):
                recovered.append(delegation_id)
        except (UnderstudyError, OSError):
            continue
    return recovered


def end_and_finish(folder: Folder, verdict: Verdict = Verdict.CANCELLED, *, seconds: float = END_SECONDS) -> bool:
    """End a delegation whose worker does not react, and write its end; return whether this call wrote it.

    Also ends one that waits in the queue. False when it finished meanwhile. ``timed_out`` when the worker can be
    neither identified nor ended within ``seconds``, or belongs to another boot or machine.
    """
    deadline = time.monotonic() + seconds
    while (lock := locks.try_lock(folder)) is None:
        holder = locks.read_holder(folder)
        # A lock taken a moment ago says nothing yet, or still names its former holder: look again each time.
        if holder is not None:
            _kill([holder.identity])
        if time.monotonic() >= deadline:
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"The worker of delegation {folder.id} could not be ended within {seconds:g} s.",
                hint=f"`fuser -v {folder.lock}` names the process that holds it; end that one.",
            )
        time.sleep(0.01)
    try:
        if summary.load(folder).state is State.FINISHED:
            return False
        holder = locks.read_holder(folder)
        if holder is None or holder.boot_id == identity.boot_id():
            _end_everything(folder, holder)
        _finish(folder, lock, verdict, _CANCELLED if verdict is Verdict.CANCELLED else None)
    finally:
        os.close(lock)
    return True


def _finish(folder: Folder, lock: int, verdict: Verdict, error: ErrorInfo | None) -> None:
    before = _earlier_end(folder)
    with Writer(folder, lock) as writer:
        attempts = writer.delegation.attempts
        attempt = max((one.n for one in attempts), default=0)
        if before is None:
            writer.append(Finished(verdict=verdict, reservations=[], error=error), attempt=attempt)
            return
        # Checks that ran again were stopped. How the work itself ended is not changed by that.
        text = "The checks that ran again did not come to their end; the verdict is the one from before."
        writer.append(Note(level="warning", text=text), attempt=attempt)
        again = Finished(verdict=before.verdict, reservations=before.reservations, error=before.error)
        writer.append(again, attempt=attempt)


def _earlier_end(folder: Folder) -> Finished | None:
    """Return the last ``finished`` of the journal, if there is one."""
    tail, found = Tail(folder), None
    while events := tail.read(1000):
        found = next((event for event in reversed(events) if isinstance(event, Finished)), found)
    return found


def _end_everything(folder: Folder, holder: Holder | None) -> None:
    """End what a dead worker left: its guardians, then everything that carries the delegation's mark."""
    from understudy.process.sweep import sweep  # noqa: PLC0415 - quick commands recover nothing

    if holder is not None:
        _kill([holder.identity])
        # A guardian whose worker died ends its whole tree by itself, and finds more of it than anybody else can.
        if not _gone_within(holder.children, GUARDIAN_SECONDS):
            _kill(holder.children)
            _gone_within(holder.children, END_SECONDS)
    sweep(folder.id)


def _kill(processes: list[Identity]) -> None:
    for one in processes:
        # A worker that died in another boot has nobody left here: ``end`` compares, and would refuse.
        # This process is named only when a worker ends its own delegation.
        if one.pid != os.getpid():
            identity.end(one, SIGKILL)


def _gone_within(processes: list[Identity], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(identity.alive(one) for one in processes):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True
