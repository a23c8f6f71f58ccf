"""Finish delegations whose worker died: the state requires a worker, but no process holds the lock.

Any process that notices this writes the end. Several may try at once: they take the lock first and check the state
again under it, so the journal gets exactly one terminal event.
"""

from __future__ import annotations

import os
import time
from signal import SIGKILL

from understudy.journal import ledger, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.reader import Tail
from understudy.journal.worker_files import Holder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation.events import Finished, Note
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.states import STATES_WITH_WORKER, State
from understudy.model.verdicts import Reservation, Verdict
from understudy.process import identity
from understudy.process.identity import Identity

END_SECONDS = 5.0
"""How long to wait for a killed process: usually it is gone within milliseconds, but not in an uninterruptible call."""

GUARDIAN_SECONDS = 0.5
"""How long a guardian may take to end its process tree before it is killed itself; usually 20 ms."""

_INTERRUPTED = ErrorInfo(
    ErrorKind.INTERRUPTED,
    "The worker process of this delegation died.",
    "Retry. If it happens again, look for what kills processes on this machine, such as too little memory.",
)
_CANCELLED = ErrorInfo(
    ErrorKind.CANCELLED,
    "The delegation was cancelled; its worker did not respond and was killed.",
)
_CANCELLED_IN_QUEUE = ErrorInfo(ErrorKind.CANCELLED, "The delegation was cancelled before it started.")


def recover(folder: Folder) -> bool:
    """End a delegation whose worker died; return whether this call did.

    This takes the lock, ends the leftover processes of the dead worker (by identity, never by pid alone, and not across
    a reboot), cuts a torn line, and appends ``finished {interrupted}``. Return False when there is nothing to do: a
    worker is running the delegation, another process is recovering it, it waits in the queue, or it has ended. Raises
    ``disk_full`` and ``state_unavailable``; the next caller then tries again.
    """
    if worker_files.is_held(folder):
        return False
    if reader.load(folder).state not in STATES_WITH_WORKER:
        complete_ledger(folder)
        return False
    lock = worker_files.try_lock(folder)
    if lock is None:
        return False
    try:
        # The previous holder of the lock may have written the end.
        if reader.load(folder).state not in STATES_WITH_WORKER:
            return False
        end_leftovers(folder)
        _finish(folder, lock, Verdict.INTERRUPTED, _INTERRUPTED)
    finally:
        os.close(lock)
    return True


def complete_ledger(folder: Folder) -> None:
    """Record the attempts of a finished delegation whose worker was killed before it wrote them to the ledger."""
    if not ledger.is_open(folder):
        return
    lock = worker_files.try_lock(folder)
    if lock is None:
        return
    try:
        delegation = reader.load(folder)
        if delegation.state is State.FINISHED:
            ledger.record(folder, delegation)
    finally:
        os.close(lock)


def end_and_finish(folder: Folder, verdict: Verdict = Verdict.CANCELLED, *, seconds: float = END_SECONDS) -> bool:
    """Kill an unresponsive worker and write the end of its delegation; return whether this call wrote it.

    This also ends a delegation that waits in the queue. Return False if it has finished in the meantime. Raises
    ``timed_out`` when the worker cannot be identified or killed within ``seconds``, or belongs to another boot or
    machine.
    """
    deadline = time.monotonic() + seconds
    while (lock := worker_files.try_lock(folder)) is None:
        holder = worker_files.read_holder(folder)
        # A lock that was just taken names no holder yet, or still the previous one: read it again each time.
        if holder is not None:
            _kill([holder.identity])
        if time.monotonic() >= deadline:
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"The worker of delegation {folder.id} could not be killed within {seconds:g} s.",
                hint=f"Run `fuser -v {folder.lock}` to find the process that holds its lock, and kill that process.",
            )
        time.sleep(0.01)
    try:
        state = reader.load(folder).state
        if state is State.FINISHED:
            return False
        end_leftovers(folder)
        cancelled = _CANCELLED_IN_QUEUE if state is State.QUEUED else _CANCELLED
        _finish(folder, lock, verdict, cancelled if verdict is Verdict.CANCELLED else None)
    finally:
        os.close(lock)
    return True


def end_leftovers(folder: Folder) -> None:
    """Kill what a dead worker left running: its guardians, then all that carries the delegation's mark.

    The caller holds the lock. Nothing is killed across a reboot.
    """
    holder = worker_files.read_holder(folder)
    if holder is None or holder.boot_id == identity.boot_id():
        _end_everything(folder, holder)


def _finish(folder: Folder, lock: int, verdict: Verdict, error: ErrorInfo | None) -> None:
    worker_files.remove_check_leftovers(folder)
    before = _earlier_end(folder)
    with Writer(folder, lock) as writer:
        attempts = writer.delegation.attempts
        attempt = max((attempt.number for attempt in attempts), default=0)
        if before is None:
            reservations = []
            if folder.checkout.exists():
                reservations.append(Reservation.NOT_ISOLATED)
                hint = (
                    f"What the agent changed is in your checkout. `understudy check {folder.id}` collects it, unless "
                )
                hint += "that is done already, so that you can review and undo it."
                error = ErrorInfo(error.kind, error.message, hint) if error is not None else None
            writer.append(Finished(verdict=verdict, reservations=reservations, error=error), attempt=attempt)
            return
        # Checks that were running again were stopped. This does not change how the work itself ended.
        text = "The re-run of the checks did not finish, so the previous verdict applies."
        writer.append(Note(level="warning", text=text), attempt=attempt)
        again = Finished(
            verdict=before.verdict,
            reservations=before.reservations,
            reservation_facts=before.reservation_facts,
            places=before.places,
            error=before.error,
        )
        writer.append(again, attempt=attempt)


def _earlier_end(folder: Folder) -> Finished | None:
    """Return the last ``finished`` event of the journal, if there is one."""
    tail, finished = Tail(folder), None
    while events := tail.read(1000):
        finished = next((event for event in reversed(events) if isinstance(event, Finished)), finished)
    return finished


def _end_everything(folder: Folder, holder: Holder | None) -> None:
    from understudy.process.guardian.marked_processes import kill_leftovers

    if holder is not None:
        _kill([holder.identity])
        # A guardian whose worker died ends its process tree itself, more completely than other processes can.
        if not _gone_within(holder.children, GUARDIAN_SECONDS):
            _kill(holder.children)
            _gone_within(holder.children, END_SECONDS)
    kill_leftovers(folder.id)


def _kill(processes: list[Identity]) -> None:
    for process in processes:
        # A worker that died in another boot has no processes here: ``end`` compares boots, and would refuse.
        # This process is listed only when a worker ends its own delegation.
        if process.pid != os.getpid():
            identity.end(process, SIGKILL)


def _gone_within(processes: list[Identity], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(identity.alive(process) for process in processes):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True
