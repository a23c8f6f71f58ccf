"""Write files into a worktree without following links out of it.

Each component of the path is opened relative to its parent without following symbolic links, so neither ``..`` nor a
link that an agent created, even in the meantime, leads outside.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

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


def remove(tree: Path, relative: str) -> None:
    """Remove the file ``relative`` if it exists; of a link, remove the link and not its target."""
    with _parent(tree, relative) as (folder, name), suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def exists(tree: Path, relative: str) -> bool:
    """Return whether anything has this name, even a dangling link."""
    return os.path.lexists(tree.joinpath(*safe_parts(relative)))


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
        hint="Nothing was written there. Name a path relative to the workspace.",
    )
