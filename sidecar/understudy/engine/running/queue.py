"""Slots and the queue: how many delegations run at once, and which is next.

A slot is a file under ``<state>/slots`` that a worker keeps locked until it exits, so a killed worker frees it. A
worker that finds no free slot creates an entry under ``<state>/queue``, writes ``queued`` and exits. A process that
frees a slot, or finds a free one and an entry, starts the oldest. Only a worker that needs keys from its own
environment stays and waits, because no other process has them. Every step holds ``<state>/queue.lock``, so that no
worker starts to wait just after a slot became free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.journal import change_notifications, delegation_folder, worker_lock
from understudy.journal.summaries import summary
from understudy.journal.writer import Writer
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.events import Finished
from understudy.model.states import State
from understudy.model.verdicts import Verdict
from understudy.model.wire import ready

LOCK_SECONDS = 10.0
"""The lock is held for milliseconds; after this time a process raises an error instead of hanging."""

BELL = "queue"
"""The name of the change notification that a slot may be free."""

STARTS = 3
"""The most worker starts for a delegation whose worker dies before it writes ``started``."""


class QueueEntry(msgspec.Struct):
    """The content of an entry in the queue."""

    waits: bool = False
    """Whether its worker is alive and waits."""
    starts: int = 0
    """How often a worker was started for the delegation."""


def acquire(root: Path) -> int:
    """Return a descriptor that holds ``<state>/queue.lock`` until it is closed.

    Raises ``state_unavailable`` when it is not free within ``LOCK_SECONDS``.
    """
    descriptor = os.open(root / "queue.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise UnderstudyError(
                    ErrorKind.STATE_UNAVAILABLE,
                    f"{root / 'queue.lock'} has been held for {LOCK_SECONDS:g} s.",
                    hint=f"Another Understudy process hangs. Find it with: fuser -v {root / 'queue.lock'}",
                ) from None
            time.sleep(0.005)
        else:
            return descriptor


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold ``<state>/queue.lock``; raises what ``acquire`` raises."""
    descriptor = acquire(root)
    try:
        yield
    finally:
        os.close(descriptor)


def take_slot(root: Path, slots: int) -> int | None:
    """Return the descriptor of a free slot, locked and close-on-exec, or None when all are taken."""
    folder = root / "slots"
    folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(max(1, slots)):
        descriptor = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return descriptor
    return None


class SpareSlot:
    """A slot that a delegation holds beside its own, as long as no other delegation waits for one."""

    def __init__(self, root: Path, descriptor: int) -> None:
        """Hold what ``take_slot`` returned."""
        self._root = root
        self._descriptor: int | None = descriptor

    @property
    def wanted(self) -> bool:
        """Return whether a delegation waits."""
        return bool(waiting(self._root))

    def close(self) -> None:
        """Free it and start what waits; do nothing if it is free."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
            with contextlib.suppress(UnderstudyError):  # the queue is locked: the next free slot serves it
                start_next(self._root)


def spare_slot(root: Path, slots: int) -> SpareSlot | None:
    """Return a free slot if there is one and no delegation waits for it."""
    descriptor = None
    with contextlib.suppress(UnderstudyError), locked(root):
        descriptor = None if waiting(root) else take_slot(root, slots)
    return SpareSlot(root, descriptor) if descriptor is not None else None


def enqueue(root: Path, identifier: str, *, waits: bool = False) -> int:
    """Put ``identifier`` at the end of the queue; return its position, first is 1. Call it under the lock."""
    folder = root / "queue"
    folder.mkdir(mode=0o700, exist_ok=True)
    _write(root, identifier, QueueEntry(waits=waits))
    return waiting(root).index(identifier) + 1


def dequeue(root: Path, identifier: str) -> None:
    """Remove ``identifier`` from the queue, if it is there."""
    with contextlib.suppress(OSError):
        (root / "queue" / identifier).unlink()


def waiting(root: Path) -> list[str]:
    """Return the ids in the queue, oldest first (an id begins with its time)."""
    try:
        return sorted(entry.name for entry in (root / "queue").iterdir() if delegation_folder.is_id(entry.name))
    except FileNotFoundError:
        return []


def start_next(root: Path) -> None:
    """Start as many waiting delegations as there are free slots, oldest first. Cheap when nothing waits.

    Entries of delegations that no longer wait are removed. A delegation that cannot be started is finished, so that
    it does not block others. Never raises for a problem of a single delegation.
    """
    if waiting(root):
        with locked(root):
            _serve(root, None)


def take_turn(root: Path, identifier: str) -> int | None:
    """Return a slot for a waiting worker when it is next; else None. Call it under the lock."""
    return _serve(root, identifier)


def _serve(root: Path, me: str | None) -> int | None:
    for identifier in waiting(root):
        try:
            folder = delegation_folder.open_folder(identifier)
            found = summary.load(folder)
        except UnderstudyError:
            dequeue(root, identifier)
            continue
        if found.state is State.FINISHED:
            dequeue(root, identifier)
        if found.state is not State.QUEUED:
            continue
        try:
            slots = delegation_folder.read_spec(folder).slots
        except UnderstudyError as error:
            _give_up(root, folder, found, error.info())
            continue
        slot = take_slot(root, slots)
        if slot is None:
            continue  # another one may be allowed more slots
        if identifier == me:
            return slot
        try:
            if _serve_one(root, folder, found, slot):
                continue
        finally:
            os.close(slot)
        # The next delegation has a waiting worker, which takes the slot.
        change_notifications.notify(BELL)
        return None
    return None


def _serve_one(root: Path, folder: delegation_folder.Folder, found: Delegation, slot: int) -> bool:
    """Start a worker with ``slot``; return False when a waiting worker will take it."""
    from understudy.engine.running import start

    lock = worker_lock.try_lock(folder)
    standing = _read(root, folder.id)
    if lock is None:
        return not standing.waits  # if not waiting, its worker has a slot and is about to write `started`
    try:
        if standing.starts >= STARTS:
            _finish(folder, lock, found, ErrorInfo(ErrorKind.INTERRUPTED, f"Its worker died {STARTS} times."))
            dequeue(root, folder.id)
        elif summary.load(folder).state is State.QUEUED:
            # The entry stays until the worker writes `started`: if it dies first, the delegation is still queued.
            _write(root, folder.id, QueueEntry(starts=standing.starts + 1))
            start.spawn_worker(folder, lock, slot=slot)
    except (UnderstudyError, OSError) as error:
        info = error.info() if isinstance(error, UnderstudyError) else ErrorInfo(ErrorKind.INTERNAL, str(error))
        _finish(folder, lock, found, info)
        dequeue(root, folder.id)
    finally:
        os.close(lock)
    return True


def _give_up(root: Path, folder: delegation_folder.Folder, found: Delegation, error: ErrorInfo) -> None:
    lock = worker_lock.try_lock(folder)
    if lock is None:
        return
    try:
        _finish(folder, lock, found, error)
    finally:
        os.close(lock)
    dequeue(root, folder.id)


def _finish(folder: delegation_folder.Folder, lock: int, found: Delegation, error: ErrorInfo) -> None:
    verdict = Verdict.INTERRUPTED if error.kind is ErrorKind.INTERRUPTED else Verdict.FAILED
    with contextlib.suppress(UnderstudyError), Writer(folder, lock) as writer:
        if writer.delegation.state is State.QUEUED:
            attempt = max((one.number for one in found.attempts), default=0)
            writer.append(Finished(verdict=verdict, reservations=[], error=error), attempt=attempt)


def _read(root: Path, identifier: str) -> QueueEntry:
    try:
        return msgspec.json.decode((root / "queue" / identifier).read_bytes(), type=ready(QueueEntry))
    except (OSError, msgspec.DecodeError):
        return QueueEntry()


def _write(root: Path, identifier: str, mark: QueueEntry) -> None:
    temporary = root / "queue" / f".{identifier}"
    temporary.write_bytes(msgspec.json.encode(mark))
    temporary.replace(root / "queue" / identifier)
