"""Read, write and walk folders without following links out of them, at any depth.

Each component of the path is opened relative to its parent without following symbolic links, so neither ``..`` nor a
link that an agent created, even in the meantime, leads outside.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from understudy.model.errors import ErrorKind, UnderstudyError

_MAX_PATH = 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def safe_parts(relative: str) -> tuple[str, ...]:
    """Return the components of a POSIX path; raise ``path_escape`` if it is not inside the worktree."""
    parts = PurePosixPath(relative).parts
    bad = (
        not parts
        or relative.startswith(("/", "~"))
        or len(relative) > _MAX_PATH
        or any(part == ".." or part.lower() == ".git" for part in parts)
        or any(character in "\\:" or ord(character) < 0x20 or ord(character) == 0x7F for character in relative)
    )
    if bad:
        raise _escape(relative, "is not a plain path inside the worktree")
    return parts


def write_new(tree: Path, relative: str, content: bytes) -> None:
    """Create ``relative`` with ``content``; raise ``target_exists`` if it exists, or ``path_escape``."""
    with _parent(tree, relative) as (folder, name):
        try:
            descriptor = os.open(
                name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder
            )
        except FileExistsError:
            raise UnderstudyError(
                ErrorKind.TARGET_EXISTS, f"{relative} already exists.", hint="Choose another file name."
            ) from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def write_over(tree: Path, relative: str, content: bytes) -> bool:
    """Create or replace the regular file ``relative``, keeping its mode; return whether it existed before."""
    with _parent(tree, relative) as (folder, name):
        mode = 0o644
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            existed = False
        else:
            existed = True
            if not stat.S_ISREG(status.st_mode):
                raise _escape(relative, "is a symbolic link or a special file")
            mode = status.st_mode & 0o777
        temporary = f".{secrets.token_hex(8)}.part"
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
        return existed


def read(tree: Path, relative: str, most_bytes: int) -> bytes | None:
    """Return the content of the regular file ``relative``; None if it does not exist.

    Raises ``path_escape`` for a link or anything else that is not a regular file, ``file_too_large``, and
    ``permission_denied``.
    """
    with opened(tree, relative) as file:
        if file is None:
            return None
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UnderstudyError(ErrorKind.FILE_TOO_LARGE, f"{relative} is longer than {most_bytes} bytes.")
    return content


@contextmanager
def opened(tree: Path, relative: str) -> Iterator[BinaryIO | None]:
    """Open the regular file ``relative`` for reading; None if it does not exist. Raises as ``read`` does."""
    *folders, name = safe_parts(relative)
    try:
        current = _descend(tree, folders)
        try:
            # Without O_NONBLOCK, opening a pipe waits for its writer.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=current)
        finally:
            os.close(current)
    except FileNotFoundError:
        yield None
        return
    except PermissionError as error:
        raise UnderstudyError(ErrorKind.PERMISSION_DENIED, f"{relative} cannot be read: {error.strerror}.") from error
    except OSError as error:
        raise _escape(relative, f"is or passes through a link or a special file ({error.strerror})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a folder cannot be made a file object
        os.close(descriptor)
        raise _escape(relative, "is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def walk(tree: Path, relative: str = "") -> Iterator[tuple[str, bool]]:
    """Yield every file below the folder ``relative``, sorted: its path, and whether it is a link; no link is followed.

    ``.git`` is left out, and so are folders whose path is too long to open a file in them. Raises ``path_escape`` if
    ``relative`` is not a folder inside the worktree.
    """
    parts = safe_parts(relative) if relative else ()
    try:
        top = _descend(tree, list(parts))
    except OSError as error:
        raise _escape(relative, f"is not a folder inside the worktree ({error.strerror})") from error
    try:
        prefix = "".join(f"{part}/" for part in parts)
        for folder, folders, files, descriptor in os.fwalk(".", follow_symlinks=False, dir_fd=top):
            below = prefix + (folder[2:] + "/" if folder != "." else "")
            links = [name for name in folders if _is_link(name, descriptor)]
            # Each level holds a descriptor and a stack frame.
            deeper = [] if len(below) > _MAX_PATH else folders
            folders[:] = sorted(name for name in deeper if name.lower() != ".git" and name not in links)
            for name in sorted([*files, *links]):
                if name.lower() != ".git":
                    yield below + name, name in links or _is_link(name, descriptor)
    finally:
        os.close(top)


def remove(tree: Path, relative: str) -> None:
    """Remove whatever has the name ``relative``: a file, a link (not its target), or a folder with all it contains.

    Raises ``path_escape``, and ``permission_denied`` for what cannot be removed.
    """
    with _parent(tree, relative) as (folder, name), suppress(FileNotFoundError):
        try:
            # Linux says EISDIR for a folder, macOS EPERM.
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UnderstudyError(
                ErrorKind.PERMISSION_DENIED,
                f"{relative} in {tree} cannot be removed: {error.strerror}.",
                hint="Remove it yourself, then try again.",
            ) from error


def exists(tree: Path, relative: str) -> bool:
    """Return whether anything has this name, even a dangling link."""
    return os.path.lexists(tree.joinpath(*safe_parts(relative)))


def _descend(tree: Path, folders: list[str]) -> int:
    """Return a descriptor of a folder of the worktree; raise ``OSError`` if one of ``folders`` is not a folder."""
    current = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in folders:
        try:
            below = os.open(part, _FOLDER, dir_fd=current)
        finally:
            os.close(current)
        current = below
    return current


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return True  # it is gone, or cannot be examined


@contextmanager
def _parent(tree: Path, relative: str) -> Iterator[tuple[int, str]]:
    *folders, name = safe_parts(relative)
    current = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=current)
            try:
                below = os.open(part, _FOLDER, dir_fd=current)
            except OSError as error:
                raise _escape(
                    relative, f"passes through {part!r}, which is not a folder inside the worktree ({error.strerror})"
                ) from None
            os.close(current)
            current = below
        yield current, name
    finally:
        os.close(current)


def _escape(relative: str, why: str) -> UnderstudyError:
    shown = relative[:120].encode("unicode_escape", "replace").decode("ascii")
    return UnderstudyError(
        ErrorKind.PATH_ESCAPE,
        f"The path {shown!r} {why}.",
        hint="It was not opened. Name a path relative to the workspace.",
    )


def walk_any_depth(
    top: bytes, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]:
    """Yield each folder with the names of its folders and of its other entries, from the top down, as ``os.walk`` does.

    No link is followed; a link to a folder is listed among the folders. Names that the caller removes from the list of
    folders are not walked. ``onerror`` gets the error of a folder that cannot be read, which is left out.
    """
    waiting = [top]
    while waiting:
        current = waiting.pop()
        folders: list[bytes] = []
        names: list[bytes] = []
        linked: set[bytes] = set()
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    is_folder = _is_folder(entry)
                    (folders if is_folder else names).append(entry.name)
                    if is_folder and entry.is_symlink():
                        linked.add(entry.name)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            continue
        yield current, folders, names
        waiting += [current + b"/" + name for name in reversed(folders) if name not in linked]


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
