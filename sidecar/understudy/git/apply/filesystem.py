"""Steps of the file system below a folder, none of which follows a link.

A path is walked folder by folder from the top, each opened without following; what is done at its end is done relative
to the folder that was reached. So a link planted at any moment leads nowhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import hashlib
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.git.faults import point
from understudy.git.merge import OTHER, Entry

EXCHANGE = 2
"""``RENAME_EXCHANGE`` of renameat2(2); ``RENAME_SWAP`` of macOS's renameatx_np(2) has the same number."""

_NOREPLACE_LINUX = 1
_NOREPLACE_MACOS = 4  # RENAME_EXCL

_HELD = 10_000
_DEEP = 100
"""Files and folders below each other that are looked at in a folder which is in the way."""
_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})

_WRITER_SECONDS = 0.25
"""How long a program that is just writing the file is waited for; a save takes some milliseconds."""


class UnsupportedError(Exception):
    """This file system cannot rename in the way asked for."""


@contextlib.contextmanager
def opened(top: Path, folder: bytes) -> Iterator[int]:
    """Give a descriptor of ``folder`` below ``top`` (empty: ``top`` itself); OSError when a part is not a folder."""
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folder.split(b"/") if folder else []:
            deeper = os.open(part, _WALK, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)


def parent_and_name(path: bytes) -> tuple[bytes, bytes]:
    """Return the folder (empty: the top) and the last part of a path."""
    folder, _, name = path.rpartition(b"/")
    return folder, name


def exists(folder: int, name: bytes) -> bool:
    """Say whether there is anything of this name."""
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def same_file(folder: int, name: bytes, other_folder: int, other: bytes) -> bool:
    """Say whether two names, which both exist, are one file."""
    return os.path.samestat(os.lstat(name, dir_fd=folder), os.lstat(other, dir_fd=other_folder))


def read_at(folder: int, name: bytes, limit: int) -> Entry | None:
    """Return what is there; OSError as the disk says, ``EFBIG`` above ``limit`` bytes."""
    try:
        found = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(found.st_mode):
            return Entry("120000", os.readlink(name, dir_fd=folder))
        if stat.S_ISDIR(found.st_mode):
            return Entry(OTHER, b"", _held(folder, name))
        if not stat.S_ISREG(found.st_mode):
            return Entry(OTHER, b"")
        descriptor = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return Entry(OTHER, b"")
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    return Entry("100755" if found.st_mode & 0o100 else "100644", content)


def _held(folder: int, name: bytes) -> tuple[bytes, ...]:
    """Return what ``Entry.holds`` says of a folder; where it cannot be known, something that is nothing's name."""
    found: list[bytes] = []
    try:
        _look_into(folder, name, b"", found)
    except OSError:
        found.append(b"/")
    return tuple(found)


def _look_into(folder: int, name: bytes, prefix: bytes, found: list[bytes]) -> None:
    if len(found) > _HELD or prefix.count(b"/") > _DEEP:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    descriptor = os.open(name, _WALK, dir_fd=folder)
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                path = prefix + os.fsencode(entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    found.append(path)
                    continue
                before = len(found)
                _look_into(descriptor, os.fsencode(entry.name), path + b"/", found)
                if len(found) == before:
                    found.append(path + b"/")
    finally:
        os.close(descriptor)


def signature(entry: Entry | None) -> str | None:
    """Return mode and digest of an entry; None for None."""
    return None if entry is None else f"{entry.mode}:{hashlib.sha256(entry.content).hexdigest()}"


def signature_at(folder: int, name: bytes) -> str | None:
    """Return the signature of what is there, whatever its size; a folder or pipe has that of ``OTHER``."""
    try:
        found = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(found.st_mode):
            return signature(Entry("120000", os.readlink(name, dir_fd=folder)))
        if not stat.S_ISREG(found.st_mode):
            return signature(Entry(OTHER, b""))
        descriptor = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        mode = "100755" if os.fstat(descriptor).st_mode & 0o100 else "100644"
        return f"{mode}:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def settled(folder: int, name: bytes) -> bool | None:
    """Say whether no program has the file open for writing; None when the system cannot tell.

    A lease (fcntl(2), F_SETLEASE) is given only for a file that nobody has open for writing. The file has just lost the
    name that others know it by, so nobody can open it any more: what it holds after a lease was given is final.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return True  # a link: nobody writes it
    deadline = time.monotonic() + _WRITER_SECONDS
    try:
        # Whoever breaks a lease has its holder sent SIGIO, which would end this process; SIGURG is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        while True:
            try:
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    return None
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.01)
            else:
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                return True
    except OSError:
        return None
    finally:
        os.close(descriptor)


def exchange(folder: int, name: bytes, other_folder: int, other: bytes) -> None:
    """Let two names change places in one step; ``UnsupportedError`` where the system cannot."""
    _rename(folder, name, other_folder, other, EXCHANGE)


def move(folder: int, name: bytes, other_folder: int, other: bytes) -> None:
    """Rename to a name that must be free: ``FileExistsError`` otherwise, in one step.

    Where the system has no such rename, a second link and the removal of the first do the same.
    """
    try:
        _rename(folder, name, other_folder, other, _NOREPLACE_MACOS if sys.platform == "darwin" else _NOREPLACE_LINUX)
    except UnsupportedError:
        os.link(name, other, src_dir_fd=folder, dst_dir_fd=other_folder, follow_symlinks=False)
        point("linked")
        os.unlink(name, dir_fd=folder)


def sync(descriptor: int) -> None:
    """Make a folder's entries durable where the file system can."""
    with contextlib.suppress(OSError):
        os.fsync(descriptor)


@functools.cache
def _function() -> ctypes._NamedFuncPointer | None:
    library = ctypes.CDLL(None, use_errno=True)
    found = getattr(library, "renameatx_np" if sys.platform == "darwin" else "renameat2", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return found


def _rename(folder: int, name: bytes, other_folder: int, other: bytes, flags: int) -> None:
    function = _function()
    if function is None:
        raise UnsupportedError
    if function(folder, name, other_folder, other, flags) != 0:
        code = ctypes.get_errno()
        if code in _UNSUPPORTED:
            raise UnsupportedError
        raise OSError(code, os.strerror(code), os.fsdecode(other))
