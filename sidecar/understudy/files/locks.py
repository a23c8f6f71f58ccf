"""File locks (flock) with a time limit. The kernel releases a lock when its process ends, in any way."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.files import durable
from understudy.model.errors import ErrorKind, UnderstudyError

LOCK_SECONDS = 10.0
"""An edit takes milliseconds; a process that holds a lock this long hangs."""

_POLL_SECONDS = 0.002
"""Locks are held for a few system calls, so waiting in short steps is cheap."""


def flock_within(descriptor: int, path: Path, seconds: float = LOCK_SECONDS) -> None:
    """Take an exclusive lock on ``descriptor``, an open ``path``; raise ``timed_out`` after ``seconds``."""
    if not _locked_within(descriptor, seconds):
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"Another process has held the lock on {path} for {seconds:g} s.",
            hint=f"Try again. If it stays locked, find the process that hangs: fuser -v {path}",
        )


@contextlib.contextmanager
def file_lock(path: Path, seconds: float = LOCK_SECONDS) -> Iterator[int]:
    """Hold the lock of a file, created if missing; yield its descriptor. Raise ``timed_out`` after ``seconds``."""
    descriptor = durable.open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        flock_within(descriptor, path, seconds)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def try_file_lock(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold the lock of a file if it is free within ``seconds``; yield whether it is held."""
    descriptor = durable.open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        yield _locked_within(descriptor, seconds)
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """Lock a file, created if missing, without waiting; return the close-on-exec descriptor that holds the lock.

    Return None when another process holds it. The holder may remove the file before it lets go.
    """
    # A process that only asks whether the lock is held has a shared one for some microseconds.
    for pause in (0.001, 0.002, 0.0):
        descriptor = durable.open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(descriptor)
        time.sleep(pause)
    return None


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file now."""
    try:
        descriptor = durable.open_regular(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def folder_lock(folder: Path, *, timeout_seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock of a folder itself, so that a repository gets no lock file; may raise ``timed_out``."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flock_within(descriptor, folder, timeout_seconds)
        yield
    finally:
        os.close(descriptor)


def _locked_within(descriptor: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True
