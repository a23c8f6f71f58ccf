"""Who is at work on a delegation: one flock, and beside it the identity of its holder.

The lock is a fact of the kernel: it ends with the last descriptor of its open file, whatever happened
to the process. The file's content is advice about whom to end; it may be missing or of a dead process.
"""

from __future__ import annotations

import fcntl
import os
import time

import msgspec

from understudy.journal import disk
from understudy.journal.store import Folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.process.identity import Identity

MAX_CHILDREN = 64
"""Guardians recorded beside a holder; one is usual."""

_CONTENT_LIMIT = 64 * 1024
_LOOKS = 20


class Holder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The worker that holds a lock, and the processes that must end with it."""

    pid: int
    start_time: int
    boot_id: str
    children: list[Identity] = []

    @property
    def identity(self) -> Identity:
        """Return the worker's own identity."""
        return Identity(pid=self.pid, start_time=self.start_time, boot_id=self.boot_id)


def try_lock(folder: Folder) -> int | None:
    """Take the lock of a folder without waiting; return the close-on-exec descriptor that holds it, or None.

    ``unknown_delegation`` when the folder is gone.
    """
    # Whoever asks ``is_held`` holds a shared lock for some microseconds, so one refusal is not yet an answer.
    for pause in (0.001, 0.002, 0.0):
        descriptor = _open(folder, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            time.sleep(pause)
            continue
        if _is_the_file_of(folder, descriptor):
            return descriptor
        os.close(descriptor)
    return None


def holds(folder: Folder, descriptor: int) -> bool:
    """Tell whether ``descriptor`` is the folder's lock file and holds it (taking it when it was free)."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return _is_the_file_of(folder, descriptor)


def is_held(folder: Folder) -> bool:
    """Tell whether some process holds the lock now."""
    try:
        descriptor = _open(folder, os.O_RDONLY)
    except (OSError, UnderstudyError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def write_holder(descriptor: int, identity: Identity, children: list[Identity]) -> None:
    """Say in the held lock file who holds it. Safe against being read or killed in the middle.

    The file keeps its inode (the lock is on it), so it is overwritten in place: one write of one line, with
    blanks over what was longer before.
    """
    holder = Holder(identity.pid, identity.start_time, identity.boot_id, children[:MAX_CHILDREN])
    line = msgspec.json.encode(holder) + b"\n"
    length = os.fstat(descriptor).st_size
    disk.write_at(descriptor, line.ljust(length, b" "), 0)
    os.ftruncate(descriptor, len(line))


def read_holder(folder: Folder) -> Holder | None:
    """Return who says to hold, or last held, the lock; None when nobody wrote it yet or it is damaged."""
    # A read beside a write may see the beginning of one and the end of the other (the kernel locks neither);
    # holders are written twice or thrice in a delegation's life, so the next look sees one of them whole.
    for _ in range(_LOOKS):
        try:
            content = disk.read_whole(folder.lock, _CONTENT_LIMIT)
        except OSError:
            return None
        line, newline, _rest = content.partition(b"\n")
        if not content:
            return None
        try:
            holder = msgspec.json.decode(line if newline else b"", type=ready(Holder))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # 0 and negative numbers mean groups to kill(2), 1 is the machine's first process.
        return holder if all(one.pid > 1 for one in (holder.identity, *holder.children)) else None
    return None


def _open(folder: Folder, flags: int) -> int:
    try:
        return disk.open_regular(folder.lock, flags)
    except FileNotFoundError as error:
        if folder.path.is_dir():
            raise disk.failure(error, folder.lock) from error
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"The folder of delegation {folder.id} is gone.",
            hint="`understudy list` shows the ids.",
        ) from None
    except OSError as error:
        raise disk.failure(error, folder.lock) from error


def _is_the_file_of(folder: Folder, descriptor: int) -> bool:
    """Tell whether the lock is on the file that others find: on one that was moved or replaced it protects nothing."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.lock.stat(follow_symlinks=False))
    except OSError:
        return False
