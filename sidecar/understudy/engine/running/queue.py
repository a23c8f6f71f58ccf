"""Slots: how many delegations run at once, and who is next.

A slot is a file under ``<state>/slots`` whose flock its holder keeps for life, so a killed worker frees it.
Who finds no slot leaves a mark under ``<state>/queue`` and writes ``queued``. Its worker then exits, and who
frees a slot, or sees a free one beside a mark, starts the oldest. Only a worker that needs keys from its own
environment stays and waits: nobody else has them. All of this happens under ``<state>/queue.lock``, so nobody
can go to sleep between another's look and leave.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.journal import bell, locks, store, summary
from understudy.journal.writer import Writer
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.events import Finished
from understudy.model.states import State, Verdict
from understudy.model.wire import ready

LOCK_SECONDS = 10.0
"""The lock is held for milliseconds; who cannot get it for this long reports it instead of hanging."""

BELL = "queue"
"""The name that is rung when a slot may be free."""

STARTS = 3
"""A delegation whose worker died so often before it said ``started`` will not start at the next try either."""


class Mark(msgspec.Struct):
    """What stands in a mark."""

    waits: bool = False
    """Its worker lives and waits."""
    starts: int = 0
    """How often a worker was started for it."""


def acquire(root: Path) -> int:
    """Return a descriptor that holds ``<state>/queue.lock`` until it is closed.

    Raises ``store_unavailable`` when it is not to be had in ``LOCK_SECONDS``.
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
                    ErrorKind.STORE_UNAVAILABLE,
                    f"{root / 'queue.lock'} has been held for {LOCK_SECONDS:g} s.",
                    hint=f"Another Understudy process hangs: `fuser -v {root / 'queue.lock'}` names it.",
                ) from None
            time.sleep(0.005)
        else:
            return descriptor


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold ``<state>/queue.lock``; raises as ``acquire``."""
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


def mark(root: Path, identifier: str, *, waits: bool = False) -> int:
    """Put ``identifier`` at the end of the queue; return its position, first is 1. Call it under the lock."""
    folder = root / "queue"
    folder.mkdir(mode=0o700, exist_ok=True)
    _write(root, identifier, Mark(waits=waits))
    return waiting(root).index(identifier) + 1


def unmark(root: Path, identifier: str) -> None:
    """Take ``identifier`` out of the queue, if it is there."""
    with contextlib.suppress(OSError):
        (root / "queue" / identifier).unlink()


def waiting(root: Path) -> list[str]:
    """Return the ids in the queue, oldest first (an id begins with its time)."""
    try:
        return sorted(entry.name for entry in (root / "queue").iterdir() if store.is_id(entry.name))
    except FileNotFoundError:
        return []


def start_next(root: Path) -> None:
    """Start as many waiting delegations as there are free slots, oldest first. Cheap when nothing waits.

    Marks of delegations that are not waiting any more are removed; what cannot be started is finished, so that it
    does not stand in the way of others. Never raises for what is wrong with one of them.
    """
    if waiting(root):
        with locked(root):
            _serve(root, None)


def turn(root: Path, identifier: str) -> int | None:
    """Return a slot for a worker that waits itself, when it is its turn. Call it under the lock."""
    return _serve(root, identifier)


def _serve(root: Path, me: str | None) -> int | None:
    for identifier in waiting(root):
        try:
            folder = store.open_folder(identifier)
            found = summary.load(folder)
        except UnderstudyError:
            unmark(root, identifier)
            continue
        if found.state is State.FINISHED:
            unmark(root, identifier)
        if found.state is not State.QUEUED:
            continue
        try:
            slots = store.read_spec(folder).slots
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
        # It is the turn of a worker that waits itself: leave the slot to it.
        bell.ring(BELL)
        return None
    return None


def _serve_one(root: Path, folder: store.Folder, found: Delegation, slot: int) -> bool:
    """Start a worker with ``slot``; return False when one that waits itself is there to take it."""
    from understudy.engine import start  # noqa: PLC0415 - start imports this module

    lock = locks.try_lock(folder)
    standing = _read(root, folder.id)
    if lock is None:
        return not standing.waits  # without waiting: its worker has a slot and is about to say `started`
    try:
        if standing.starts >= STARTS:
            _finish(folder, lock, found, ErrorInfo(ErrorKind.INTERRUPTED, f"Its worker died {STARTS} times."))
            unmark(root, folder.id)
        elif summary.load(folder).state is State.QUEUED:
            # The mark stays until the worker says `started`: should it die before, it is still in line.
            _write(root, folder.id, Mark(starts=standing.starts + 1))
            start.spawn_worker(folder, lock, slot=slot)
    except (UnderstudyError, OSError) as error:
        info = error.info() if isinstance(error, UnderstudyError) else ErrorInfo(ErrorKind.INTERNAL, str(error))
        _finish(folder, lock, found, info)
        unmark(root, folder.id)
    finally:
        os.close(lock)
    return True


def _give_up(root: Path, folder: store.Folder, found: Delegation, error: ErrorInfo) -> None:
    lock = locks.try_lock(folder)
    if lock is None:
        return
    try:
        _finish(folder, lock, found, error)
    finally:
        os.close(lock)
    unmark(root, folder.id)


def _finish(folder: store.Folder, lock: int, found: Delegation, error: ErrorInfo) -> None:
    verdict = Verdict.INTERRUPTED if error.kind is ErrorKind.INTERRUPTED else Verdict.FAILED
    with contextlib.suppress(UnderstudyError), Writer(folder, lock) as writer:
        if writer.delegation.state is State.QUEUED:
            attempt = max((one.n for one in found.attempts), default=0)
            writer.append(Finished(verdict=verdict, reservations=[], error=error), attempt=attempt)


def _read(root: Path, identifier: str) -> Mark:
    try:
        return msgspec.json.decode((root / "queue" / identifier).read_bytes(), type=ready(Mark))
    except (OSError, msgspec.DecodeError):
        return Mark()


def _write(root: Path, identifier: str, mark: Mark) -> None:
    temporary = root / "queue" / f".{identifier}"
    temporary.write_bytes(msgspec.json.encode(mark))
    temporary.replace(root / "queue" / identifier)
