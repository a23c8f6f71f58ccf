"""Lock a delegation for one worker: a flock on a file that contains the holder's identity.

The kernel releases the lock with the last descriptor of its open file, however the process ended. The content of
the file only helps to find the worker; it may be missing or name a dead process.
"""

from __future__ import annotations

import fcntl
import os
import time

import msgspec

from understudy.files import durable
from understudy.journal.delegation_folder import Folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.process.identity import Identity

MAX_CHILDREN = 64
"""The most guardians recorded with a holder; usually there is one."""

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
    """Lock a folder without waiting; return the close-on-exec descriptor that holds the lock, or None.

    Raises ``unknown_delegation`` when the folder is gone.
    """
    # ``is_held`` in another process holds a shared lock for some microseconds, so try more than once.
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
    """Return whether ``descriptor`` is the folder's lock file and holds the lock (taking it if it was free)."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return _is_the_file_of(folder, descriptor)


def is_held(folder: Folder) -> bool:
    """Return whether some process holds the lock now."""
    return durable.is_locked(folder.lock)


def write_holder(descriptor: int, identity: Identity, children: list[Identity]) -> None:
    """Write the holder into its lock file. A concurrent reader or a kill in the middle does no harm.

    The file must keep its inode (the lock is on it), so it is overwritten in place: one write of one line, padded with
    blanks to the previous length.
    """
    holder = Holder(identity.pid, identity.start_time, identity.boot_id, children[:MAX_CHILDREN])
    line = msgspec.json.encode(holder) + b"\n"
    length = os.fstat(descriptor).st_size
    durable.write_at(descriptor, line.ljust(length, b" "), 0)
    os.ftruncate(descriptor, len(line))


def read_holder(folder: Folder) -> Holder | None:
    """Return the current or last holder that the lock file names; None if the file is empty or damaged."""
    # A read during a write may see parts of both contents (the kernel locks neither). Holders are written only
    # two or three times per delegation, so the next read succeeds.
    for _ in range(_LOOKS):
        try:
            content = durable.read_whole(folder.lock, _CONTENT_LIMIT)
        except OSError:
            return None
        line, newline, _rest = content.partition(b"\n")
        if not content:
            return None
        try:
            holder = msgspec.json.decode(line if newline else b"", type=ready(Holder))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # For kill(2), 0 and negative numbers are process groups, and 1 is the init process.
        return holder if all(process.pid > 1 for process in (holder.identity, *holder.children)) else None
    return None


def _open(folder: Folder, flags: int) -> int:
    try:
        return durable.open_regular(folder.lock, flags)
    except FileNotFoundError as error:
        if folder.path.is_dir():
            raise durable.failure(error, folder.lock) from error
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"The folder of delegation {folder.id} is gone.",
            hint="`understudy list` shows the IDs.",
        ) from None
    except OSError as error:
        raise durable.failure(error, folder.lock) from error


def _is_the_file_of(folder: Folder, descriptor: int) -> bool:
    """Return whether the locked file is still at its path; a lock on a moved or replaced file protects nothing."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.lock.stat(follow_symlinks=False))
    except OSError:
        return False
