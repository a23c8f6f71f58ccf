"""The few ways in which this room touches the disk, and how their failures are named."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Never inherited, never through a planted link, never waiting for the other end of a planted pipe."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""``EFBIG`` is what a file size limit (``ulimit -f``) answers."""

_CHUNK = 256 * 1024


def failure(error: OSError, path: Path) -> UnderstudyError:
    """Return ``store_full`` or ``store_unavailable`` for what the operating system said about ``path``."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return UnderstudyError(
            ErrorKind.STORE_FULL,
            f"No room to write {path}: {reason}.",
            hint="Free space on that disk, or set UNDERSTUDY_STATE to a folder on another one.",
        )
    return UnderstudyError(
        ErrorKind.STORE_UNAVAILABLE,
        f"Cannot use {path}: {reason}.",
        hint="Make the folder readable and writable for you, or set UNDERSTUDY_STATE to another one.",
    )


@contextlib.contextmanager
def named_failures(path: Path) -> Iterator[None]:
    """Turn every ``OSError`` of the block into the error of ``failure``."""
    try:
        yield
    except OSError as error:
        raise failure(error, path) from error


def open_regular(path: Path, flags: int) -> int:
    """Open ``path`` (created 0600 where ``flags`` say so) and refuse anything that is no regular file."""
    descriptor = os.open(path, flags | OPEN_FLAGS, PRIVATE_FILE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``: one system call, and more only where the kernel took less."""
    done = os.pwrite(descriptor, data, offset)
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:], offset + done)


def create(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a new file, 0600; with ``sync``, it is on the disk when this returns."""
    descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        if data and not sync and hasattr(os, "posix_fallocate"):
            # ext4 flushes a file whose blocks are not allocated yet when it is renamed over another one (auto_da_alloc,
            # ext4(5)): up to 200 ms beside a busy disk. With blocks allocated beforehand there is nothing to flush.
            with contextlib.suppress(OSError):
                os.posix_fallocate(descriptor, 0, len(data))
        write_at(descriptor, data, 0)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Put ``data`` in the place of ``path``: readers see the old content or the new one, never a mixture.

    The temporary name is fixed, so the caller must be the only writer of ``path``.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        create(temporary, data, sync=sync)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_whole(path: Path, limit: int) -> bytes:
    """Return the content of a regular file, at most ``limit`` bytes of it."""
    descriptor = open_regular(path, os.O_RDONLY)
    try:
        parts: list[bytes] = []
        while limit > 0 and (part := os.read(descriptor, min(limit, 1 << 20))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def end_of_last_line(descriptor: int) -> int:
    """Return the offset behind the last newline of the file: what follows it is torn."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _CHUNK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def cut_torn_tail(descriptor: int) -> int:
    """Cut what follows the last newline; return the size that is left."""
    end = end_of_last_line(descriptor)
    if end != os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, end)
    return end


def flock_within(descriptor: int, seconds: float, path: Path) -> None:
    """Take an exclusive flock, waiting at most ``seconds``; ``store_unavailable`` names who is waited for."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise UnderstudyError(
                    ErrorKind.STORE_UNAVAILABLE,
                    f"Another process has held {path} for {seconds:g} s.",
                    hint="Try again; if it stays, look for a stopped process that uses the file (`fuser -v` names it).",
                ) from None
            # Held for a few system calls only, so waiting in short steps is cheap.
            time.sleep(0.002)
        else:
            return
