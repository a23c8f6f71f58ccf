"""Private files written atomically and durably, bounded reads, file locks, and one form for disk errors.

Tests kill a process at named points between two writes (``failpoint``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    import ctypes

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Not inherited by children, follows no planted link, and does not block on a planted pipe."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""``EFBIG`` is the error of a file size limit (``ulimit -f``)."""
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""What flock and fcntl report on a file system without locks."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What a limit on open files, memory or processes reports."""
_REFUSED = frozenset({errno.EPERM, errno.EACCES})
_BROKEN = {
    errno.EROFS: "Mount its file system writable; until then, results can be read. Linux mounts a disk read-only after "
    "errors: see `dmesg`.",
    errno.EIO: "Its disk or network drive reports errors (see `dmesg`). Save what is on it.",
}
MACHINE_ERRORS = (*_BROKEN, *_NO_ROOM, errno.EPERM)
"""What git, too, reports of a machine, not of a repository."""
FEW_FILES = 16
"""Up to so many files are made durable one by one; for more, ``sync_file_system`` is faster."""
_CHUNK = 256 * 1024
LOCK_SECONDS = 10.0
"""An edit takes milliseconds; a process that holds a lock this long hangs."""
_POLL_SECONDS = 0.002
"""Locks are held for a few system calls, so waiting in short steps is cheap."""
FAILPOINT_VARIABLE = "UNDERSTUDY_FAILPOINT"
"""The environment variable that arms a failpoint: ``<name>:<n>`` kills the process at its n-th pass.

``*`` as the name matches every failpoint, so a test can visit all of them in order.
"""
_armed = os.environ.get(FAILPOINT_VARIABLE)
"""Read once: an accept of thousands of files passes hundreds of thousands of failpoints."""
_passed: dict[str, int] = {}


def failure(error: OSError, path: Path) -> UnderstudyError:
    """Return the error for what the operating system reported about ``path``, a file of the state folder.

    Its kind is ``disk_full``, ``overloaded`` or ``state_unavailable``.
    """
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return UnderstudyError(
            ErrorKind.DISK_FULL,
            f"No space left to write {path}: {reason}.",
            hint="Free some space on that disk, or set UNDERSTUDY_STATE to a folder on another disk.",
        )
    if error.errno in _NO_ROOM:
        return _no_room(f"Cannot use {path}: {reason}.")
    if error.errno in _NO_LOCKS:
        return UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"The file system of {path} cannot lock files: {reason}.",
            hint="Set UNDERSTUDY_STATE to a folder on a local disk.",
        )
    cure = _BROKEN.get(error.errno or 0, "Make the folder readable and writable for your user.")
    return UnderstudyError(
        ErrorKind.STATE_UNAVAILABLE,
        f"Cannot use {path}: {reason}.",
        hint=f"{cure} Or set UNDERSTUDY_STATE to another folder.",
    )


def system_failure(error: BaseException) -> UnderstudyError | None:
    """Return the error for a failure of the machine where none is expected; None for a bug.

    The file is any file, also one of the user's.
    """
    if isinstance(error, MemoryError):
        return _no_room("This process is out of memory.")
    if not isinstance(error, OSError):
        return None
    reason = error.strerror or str(error)
    what = f"Cannot use {_named(error.filename)}: {reason}." if error.filename else f"The machine reports: {reason}."
    if error.errno in _FULL:
        return UnderstudyError(ErrorKind.DISK_FULL, what, hint="Free some space on that disk, then try again.")
    if error.errno in _NO_ROOM:
        return _no_room(what)
    if error.errno in _BROKEN:
        return UnderstudyError(ErrorKind.STATE_UNAVAILABLE, what, hint=_BROKEN[error.errno])
    if error.errno in _REFUSED:
        return UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            what,
            hint="Check owner, permissions and attributes (lsattr) of the file and its folder. Some network drives "
            "allow neither chmod nor links: set UNDERSTUDY_STATE to a folder on a local disk.",
        )
    return None


def _named(name: str | bytes | int) -> str:
    return name if isinstance(name, str) else repr(name) if isinstance(name, int) else os.fsdecode(name)


def _no_room(what: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.OVERLOADED,
        what,
        hint="Run fewer delegations at once, or raise the limits on open files, memory and processes (`ulimit -a`).",
    )


@contextlib.contextmanager
def named_failures(path: Path) -> Iterator[None]:
    """Turn every ``OSError`` of the block into the error of ``failure``."""
    try:
        yield
    except OSError as error:
        raise failure(error, path) from error


def open_regular(path: Path, flags: int, mode: int = PRIVATE_FILE) -> int:
    """Open ``path``, creating it with ``mode`` if ``flags`` say so; refuse anything but a regular file."""
    descriptor = os.open(path, flags | OPEN_FLAGS, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``, in one system call unless the kernel writes less."""
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        written += os.pwrite(descriptor, memoryview(data)[written:], offset + written)


def create(path: Path, data: bytes, *, mode: int = PRIVATE_FILE, sync: bool = False) -> None:
    """Write a file; with ``sync``, its content is on disk when this returns."""
    descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        if data and not sync and hasattr(os, "posix_fallocate"):
            # ext4 flushes a file whose blocks are not allocated yet when it is renamed over another one (auto_da_alloc,
            # ext4(5)): up to 200 ms on a busy disk. With blocks allocated beforehand there is nothing to flush.
            with contextlib.suppress(OSError):
                os.posix_fallocate(descriptor, 0, len(data))
        write_at(descriptor, data, 0)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(
    path: Path, data: bytes, *, mode: int = PRIVATE_FILE, sync: bool = False, several_writers: bool = False
) -> None:
    """Replace ``path`` atomically: readers see the old content or the new one. With ``sync``, survive a power cut.

    The name of the temporary file is fixed, so that a killed writer leaves one at most; the caller must be the only
    writer of ``path``. With ``several_writers``, each has a temporary file of its own, and the last one wins.
    """
    writer = f".{os.getpid()}-{threading.get_ident()}" if several_writers else ""
    temporary = path.with_name(f".{path.name}{writer}.new")
    try:
        # A file of that name was left by a process that died, or planted: never write through it.
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        create(temporary, data, mode=mode, sync=sync)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(descriptor: int) -> None:
    """Make everything on the file system of an open file or folder durable.

    The disk is asked to flush once, however many files were written; each fsync of a file asks it again.
    """
    function = _syncfs()
    if function is None:
        os.sync()
    elif function(descriptor) != 0:
        import ctypes

        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@functools.cache
def _syncfs() -> ctypes._NamedFuncPointer | None:
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


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
    """Return the offset after the last newline of the file; bytes after it are a torn line."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _CHUNK)
        index = os.pread(descriptor, end - start, start).rfind(b"\n")
        if index >= 0:
            return start + index + 1
        end = start
    return 0


def cut_torn_tail(descriptor: int) -> int:
    """Cut the bytes after the last newline; return the new size."""
    end = end_of_last_line(descriptor)
    if end != os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, end)
    return end


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
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        flock_within(descriptor, path, seconds)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def try_file_lock(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold the lock of a file if it is free within ``seconds``; yield whether it is held."""
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
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
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
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
        descriptor = open_regular(path, os.O_RDONLY)
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


def failpoint(name: str) -> None:
    """Kill this process with SIGKILL if a test armed this failpoint."""
    if _armed is not None:
        for each in (name, "*"):
            _passed[each] = _passed.get(each, 0) + 1
        if _armed in {f"{each}:{_passed[each]}" for each in (name, "*")}:
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
