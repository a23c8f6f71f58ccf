"""Slots: how many delegations run at once, and who is next.

A slot is a file under ``<state>/slots`` whose flock its holder keeps for life, so a killed worker frees it.
Who finds no slot leaves a mark under ``<state>/queue``, writes ``queued`` and exits; who frees a slot, or
sees a free one beside a mark, starts the oldest. Both happen under ``<state>/queue.lock``, so nobody can go
to sleep between another's look and leave.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.journal import locks, store, summary
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

LOCK_SECONDS = 10.0
"""The lock is held for milliseconds; who cannot get it for this long reports it instead of hanging."""


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold ``<state>/queue.lock``; raise ``store_unavailable`` when it is not to be had in ``LOCK_SECONDS``."""
    descriptor = os.open(root / "queue.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UnderstudyError(
                        ErrorKind.STORE_UNAVAILABLE,
                        f"{root / 'queue.lock'} has been held for {LOCK_SECONDS:g} s.",
                        hint="Another Understudy process hangs; `understudy doctor` names it.",
                    ) from None
                time.sleep(0.005)
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


def mark(root: Path, identifier: str) -> int:
    """Put ``identifier`` at the end of the queue; return its position, first is 1. Call it under ``locked``."""
    folder = root / "queue"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / identifier).touch(mode=0o600)
    return waiting(root).index(identifier) + 1


def unmark(root: Path, identifier: str) -> None:
    """Take ``identifier`` out of the queue, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        (root / "queue" / identifier).unlink()


def waiting(root: Path) -> list[str]:
    """Return the ids in the queue, oldest first (an id begins with its time)."""
    try:
        return sorted(entry.name for entry in (root / "queue").iterdir())
    except FileNotFoundError:
        return []


def start_next(root: Path) -> list[str]:
    """Start as many waiting delegations as there are free slots, oldest first; return their ids.

    Cheap when nothing waits. Marks of delegations that are not waiting any more are removed.
    """
    if not waiting(root):
        return []
    from understudy.engine import start  # noqa: PLC0415 - start imports this module

    started: list[str] = []
    with locked(root):
        for identifier in waiting(root):
            try:
                folder = store.open_folder(identifier)
                state = summary.load(folder).state
            except UnderstudyError:
                unmark(root, identifier)
                continue
            if state is State.FINISHED:
                unmark(root, identifier)
            if state is not State.QUEUED:
                continue
            spec = store.read_spec(folder)
            slot = take_slot(root, spec.slots)
            if slot is None:
                continue  # another one may be allowed more slots
            lock = locks.try_lock(folder)
            try:
                if lock is not None and summary.load(folder).state is State.QUEUED:
                    # The mark stays until the worker says `started`: should it die before, it is still in line.
                    start.spawn_worker(folder, lock, slot=slot)
                    started.append(identifier)
            finally:
                os.close(slot)
                if lock is not None:
                    os.close(lock)
    return started
