"""File-system operations below a folder that never follow a link.

They open a path folder by folder from the top, without following links, and operate relative to the last folder. So a
link planted at any moment has no effect.
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
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git.changes import OTHER, Entry

EXCHANGE = 2
"""``RENAME_EXCHANGE`` of renameat2(2); ``RENAME_SWAP`` of macOS's renameatx_np(2) has the same number."""

_NOREPLACE = 4 if sys.platform == "darwin" else 1
"""``RENAME_EXCL`` of macOS, ``RENAME_NOREPLACE`` of Linux."""

_HELD = 10_000
_DEEP = 100
"""Most files and folders that are examined in a folder that blocks a path."""

REMOVED = 100_000
"""Most entries that ``remove_tree`` removes."""

_NOT_REMOVED = frozenset(
    {errno.EACCES, errno.EPERM, errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST}
    | {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
)
"""Errors for an entry of another program that cannot be removed, or that changes meanwhile."""

_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})

_BLOCK = 512
"""Bytes that a disk writes completely or not at all (a sector)."""

_WRITER_SECONDS = 0.25
"""How long to wait for a program that is writing the file; a save takes a few milliseconds."""


class UnsupportedError(Exception):
    """The file system does not support this kind of rename."""


@contextlib.contextmanager
def opened(top: Path, folder: bytes) -> Iterator[int]:
    """Yield a descriptor of ``folder`` below ``top`` (empty: ``top`` itself); raise OSError if one is missing."""
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folder.split(b"/") if folder else []:
            deeper = os.open(part, _WALK, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)


class KeptFolder:
    """A folder below ``top`` that stays open while the files in it are changed one after the other.

    Most files are in the folder of the one before them, so that most need no walk from the top. A folder that is let go
    must still be where it was opened: if it was moved or replaced meanwhile, this raises FileNotFoundError.
    """

    def __init__(self, top: Path) -> None:
        """Open nothing yet."""
        self._top = top
        self._folder = b""
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the folder; check where it is, unless there was an error."""
        self._let_go(check=kind is None)

    def opened(self, folder: bytes) -> int:
        """Return a descriptor of ``folder``, valid until the next call; raise OSError as ``opened`` does."""
        if self._descriptor < 0 or folder != self._folder:
            self._let_go(check=True)
            with opened(self._top, folder) as descriptor:
                self._descriptor = os.dup(descriptor)
            self._folder = folder
        return self._descriptor

    def _let_go(self, *, check: bool) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            if check:
                with opened(self._top, self._folder) as now:
                    if not os.path.samestat(os.fstat(descriptor), os.fstat(now)):
                        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._folder)
        finally:
            os.close(descriptor)


def parent_and_name(path: bytes) -> tuple[bytes, bytes]:
    """Return the folder (empty: the top) and the name of a path."""
    folder, _, name = path.rpartition(b"/")
    return folder, name


def exists(folder: int, name: bytes) -> bool:
    """Return whether anything has this name."""
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def same_file(folder: int, name: bytes, other_folder: int, other: bytes) -> bool:
    """Return whether two existing names are the same file."""
    return os.path.samestat(os.lstat(name, dir_fd=folder), os.lstat(other, dir_fd=other_folder))


def read_at(folder: int, name: bytes, limit: int) -> Entry | None:
    """Return the entry of this name; raise the disk's OSError, and ``EFBIG`` above ``limit`` bytes."""
    try:
        facts = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(facts.st_mode):
            return Entry("120000", os.readlink(name, dir_fd=folder))
        if stat.S_ISDIR(facts.st_mode):
            return Entry(OTHER, b"", _held(folder, name))
        if not stat.S_ISREG(facts.st_mode):
            return Entry(OTHER, b"")
        descriptor = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return Entry(OTHER, b"")
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    return Entry("100755" if facts.st_mode & 0o100 else "100644", content)


def _held(folder: int, name: bytes) -> tuple[bytes, ...]:
    """Return ``Entry.holds`` of a folder; if it cannot be read, a value that no listing equals."""
    paths: list[bytes] = []
    try:
        _look_into(folder, name, b"", paths)
    except OSError:
        paths.append(b"/")
    return tuple(paths)


def _look_into(folder: int, name: bytes, prefix: bytes, paths: list[bytes]) -> None:
    if len(paths) > _HELD or prefix.count(b"/") > _DEEP:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    descriptor = os.open(name, _WALK, dir_fd=folder)
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                path = prefix + os.fsencode(entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    paths.append(path)
                    continue
                before = len(paths)
                _look_into(descriptor, os.fsencode(entry.name), path + b"/", paths)
                if len(paths) == before:
                    paths.append(path + b"/")
    finally:
        os.close(descriptor)


def signature(entry: Entry | None) -> str | None:
    """Return the mode and the digest of an entry; None for None."""
    return None if entry is None else f"{entry.mode}:{hashlib.sha256(entry.content).hexdigest()}"


def signature_at(folder: int, name: bytes) -> str | None:
    """Return the signature of a name's entry, of any size; folders and pipes have that of ``OTHER``."""
    try:
        facts = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(facts.st_mode):
            return signature(Entry("120000", os.readlink(name, dir_fd=folder)))
        if not stat.S_ISREG(facts.st_mode):
            return signature(Entry(OTHER, b""))
        descriptor = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        return signature_of(descriptor)
    finally:
        os.close(descriptor)


def signature_of(descriptor: int) -> str:
    """Return the signature of an open regular file."""
    mode = "100755" if os.fstat(descriptor).st_mode & 0o100 else "100644"
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return f"{mode}:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def settled(folder: int, name: bytes) -> bool | None:
    """Return whether no program has the file open for writing; None when the system cannot tell.

    F_SETLEASE (fcntl(2)) succeeds only for a file that no process has open for writing. The file was just renamed, so
    no other process can open it by its known name: if F_SETLEASE succeeds, its contents are final.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return True  # a link cannot be written
    deadline = time.monotonic() + _WRITER_SECONDS
    try:
        # If another process opens the file, this process gets a signal: SIGIO would end it, SIGURG is ignored by
        # default.
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


def overwrite(descriptor: int, content: bytes) -> None:
    """Replace the content of an open file; if it is killed in between, the file has parts of both (``is_torn``)."""
    durable.write_at(descriptor, content[: len(content) // 2], 0)
    failpoint("half written")
    durable.write_at(descriptor, content[len(content) // 2 :], len(content) // 2)
    failpoint("not cut yet")
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def is_torn(content: bytes, before: bytes, after: bytes) -> bool:
    """Return whether a file's content is what an interrupted ``overwrite`` of ``before`` by ``after`` leaves.

    Each byte is from one of the two, or its block is zero, as a power cut can leave it.
    """
    if not min(len(before), len(after)) <= len(content) <= max(len(before), len(after)):
        return False
    new = after + before[len(after) :]
    old = before.ljust(len(new), b"\0")
    for at in range(0, len(content), _BLOCK):
        part = content[at : at + _BLOCK]
        pair = new[at : at + len(part)], old[at : at + len(part)]
        if part not in pair and any(part) and any(byte not in both for byte, *both in zip(part, *pair, strict=True)):
            return False
    return True


@contextlib.contextmanager
def alone(descriptor: int) -> Iterator[None]:
    """Keep other programs from opening a file that is open for writing, where the system can (fcntl(2), F_SETLEASE).

    A program that has it open for reading prevents that; it may then see a part of what is written.
    """
    held = False
    if hasattr(fcntl, "F_SETLEASE"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            held = True
    try:
        yield
    finally:
        if held:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


@contextlib.contextmanager
def open_to_read(folder: int, name: bytes) -> Iterator[int]:
    """Yield a descriptor of a file, without following a link."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_to_write(folder: int, name: bytes) -> Iterator[int]:
    """Yield a descriptor of a file, for reading and writing; an owner who may not write it gets that permission."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except PermissionError:
        with open_to_read(folder, name) as readable:
            os.fchmod(readable, stat.S_IMODE(os.fstat(readable).st_mode) | stat.S_IWUSR)
        failpoint("made writable")
        descriptor = os.open(name, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def set_mode(folder: int, name: bytes, mode: int) -> None:
    """Set the permission bits of a file, if they differ."""
    with open_to_read(folder, name) as descriptor:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
            os.fchmod(descriptor, mode)


def content_of(folder: int, name: bytes) -> bytes | None:
    """Return the content of a regular file; None if there is none."""
    try:
        with open_to_read(folder, name) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            with os.fdopen(os.dup(descriptor), "rb") as stream:
                return stream.read()
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP}:
            return None
        raise


def exchange(folder: int, name: bytes, other_folder: int, other: bytes) -> None:
    """Exchange two names in one step; raise ``UnsupportedError`` where the system cannot."""
    _rename(folder, name, other_folder, other, EXCHANGE)


def move(folder: int, name: bytes, other_folder: int, other: bytes) -> None:
    """Rename to a free name in one step; raise ``FileExistsError`` if it is taken.

    Where the system has no such rename, create a second link and remove the first.
    """
    try:
        _rename(folder, name, other_folder, other, _NOREPLACE)
    except UnsupportedError:
        os.link(name, other, src_dir_fd=folder, dst_dir_fd=other_folder, follow_symlinks=False)
        failpoint("linked")
        os.unlink(name, dir_fd=folder)


def move_folder(parent: int, name: bytes, other: bytes) -> None:
    """Rename a folder to a free name beside it, in one step; raise OSError or ``UnsupportedError``."""
    _rename(parent, name, parent, other, _NOREPLACE)


def remove_tree(folder: int, name: bytes) -> None:
    """Remove a folder with all that is in it, without following links.

    What is above ``REMOVED`` entries or ``_DEEP`` folders stays, as does what cannot be removed.
    """
    _remove_tree(folder, name, _DEEP, iter(range(REMOVED)))


def _remove_tree(folder: int, name: bytes, deep: int, left: Iterator[int]) -> None:
    try:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            os.unlink(name, dir_fd=folder)
            return
        descriptor = os.open(name, _WALK, dir_fd=folder)
        try:
            with os.scandir(descriptor) as entries:
                names = [os.fsencode(entry.name) for entry in entries]
            for child in names:
                if not deep or next(left, None) is None:
                    return
                _remove_tree(descriptor, child, deep - 1, left)
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NOT_REMOVED:
            raise


def sync_files(top: Path, files: Sequence[tuple[bytes, bytes]]) -> None:
    """Make files, each by its folder and name, durable; more than a few all at once."""
    if len(files) > durable.FEW_FILES:
        _sync_file_systems(top, {folder for folder, _ in files})
        return
    for folder, name in files:
        with opened(top, folder) as place, open_to_read(place, name) as descriptor:
            os.fsync(descriptor)


def sync_folders(top: Path, folders: Collection[bytes]) -> None:
    """Make the entries of folders durable, if the file system supports it; more than a few all at once."""
    with contextlib.suppress(OSError):
        if len(folders) > durable.FEW_FILES:
            _sync_file_systems(top, folders)
            return
    for folder in folders:
        with contextlib.suppress(OSError), opened(top, folder) as descriptor:
            os.fsync(descriptor)


def _sync_file_systems(top: Path, folders: Iterable[bytes]) -> None:
    devices: set[int] = set()
    for folder in folders:
        with contextlib.suppress(FileNotFoundError), opened(top, folder) as descriptor:
            device = os.fstat(descriptor).st_dev
            if device not in devices:
                durable.sync_file_system(descriptor)
                devices.add(device)


def sync(descriptor: int) -> None:
    """Make a folder's entries durable, if the file system supports it."""
    with contextlib.suppress(OSError):
        os.fsync(descriptor)


@functools.cache
def _function() -> ctypes._NamedFuncPointer | None:
    library = ctypes.CDLL(None, use_errno=True)
    function = getattr(library, "renameatx_np" if sys.platform == "darwin" else "renameat2", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def _rename(folder: int, name: bytes, other_folder: int, other: bytes, flags: int) -> None:
    function = _function()
    if function is None:
        raise UnsupportedError
    if function(folder, name, other_folder, other, flags) != 0:
        code = ctypes.get_errno()
        if code in _UNSUPPORTED:
            raise UnsupportedError
        raise OSError(code, os.strerror(code), os.fsdecode(other))
