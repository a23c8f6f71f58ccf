"""Claim a free path for a worktree, and delete the files of an agent there.

That is done at any depth, even if their permissions prevent it, without following links.
"""

# pathlib has neither descriptors nor paths of bytes:
# ruff: noqa: PTH101, PTH118, PTH208

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import re
import secrets
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from understudy.files import nofollow
from understudy.git.command import check_not_aborted
from understudy.git.repository import Repository
from understudy.model.errors import ErrorKind, UnderstudyError

_LEVELS = 40
"""Folders that are nested no deeper are deleted where they are, with as many open files."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_other_files(root: Path, modes: Mapping[bytes, str], keep: Iterable[bytes]) -> int:
    """Remove everything from ``root`` that is in neither ``modes`` nor ``keep``; return the number of removed entries.

    ``modes`` maps paths to git's modes. Entries of another type, files with permissions that git does not set, files
    with another name elsewhere (hard links), and anything at the path of a submodule are removed too, so that writing
    them again cannot change anything outside. ``keep`` lists files, links or folders that stay unchanged, unless one
    blocks a path of ``modes``. The top `.git` is always removed.
    """
    kept = set(keep)
    needed: set[bytes] = set()
    for path in (*modes, *kept):
        parts = path.split(b"/")
        needed.update(b"/".join(parts[:length]) for length in range(1, len(parts)))
    mask = _mask()
    removed = 0
    top = os.open(root, _FOLDER)
    try:
        waiting = [b""]
        while waiting:
            check_not_aborted()
            folder = waiting.pop()
            with _open_folder(top, folder or b".", 0o777 & ~mask if folder else None) as descriptor:
                for name in [os.fsencode(entry) for entry in os.listdir(descriptor)]:
                    path = folder + b"/" + name if folder else name
                    facts = os.lstat(name, dir_fd=descriptor)
                    if path != b".git" and path in kept and path not in modes:
                        continue
                    if path != b".git" and path in needed and stat.S_ISDIR(facts.st_mode) and path not in modes:
                        waiting.append(path)
                    elif not _as_git_wrote(facts, modes.get(path), mask):
                        _remove_entry(top, descriptor, name, facts.st_mode)
                        removed += 1
    finally:
        os.close(top)
    return removed


def delete_folder(path: Path) -> None:
    """Delete a folder with all its contents; a missing folder is not an error.

    Folders nested very deeply are first moved up, so that recursion, path length and the number of open files do not
    limit the depth.
    """
    try:
        top = os.open(path, _FOLDER)
    except NotADirectoryError:
        path.unlink(missing_ok=True)
        return
    except FileNotFoundError:
        return
    except OSError as error:
        if path.is_symlink():
            path.unlink(missing_ok=True)
            return
        if not isinstance(error, PermissionError):
            raise
        path.chmod(0o700)
        top = os.open(path, _FOLDER)
    try:
        os.fchmod(top, 0o700)
        for name in os.listdir(top):
            _remove_entry(top, top, os.fsencode(name), os.lstat(name, dir_fd=top).st_mode)
    finally:
        os.close(top)
    path.rmdir()


def make_readable(root: Path) -> None:
    """Give the owner permission to read every file and folder below ``root``; links are not followed."""
    for folder, folders, files in nofollow.walk_any_depth(os.fsencode(root)):
        for name in folders:
            full = os.path.join(folder, name)
            mode = os.lstat(full).st_mode
            if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                os.chmod(full, stat.S_IMODE(mode) | 0o700)
        for name in files:
            full = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                facts = os.lstat(full)
                if stat.S_ISREG(facts.st_mode) and not facts.st_mode & 0o400 and facts.st_nlink == 1:
                    os.chmod(full, stat.S_IMODE(facts.st_mode) | 0o600)


def _as_git_wrote(facts: os.stat_result, mode: str | None, mask: int) -> bool:
    if mode == "120000":
        return stat.S_ISLNK(facts.st_mode)
    if mode in {"100644", "100755"}:
        expected = (0o777 if mode == "100755" else 0o666) & ~mask
        return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1 and stat.S_IMODE(facts.st_mode) == expected
    return False


@contextlib.contextmanager
def _open_folder(top: int, path: bytes, mode: int | None):  # type: ignore[no-untyped-def]  # noqa: ANN202
    try:
        descriptor = os.open(path, _FOLDER, dir_fd=top)
    except PermissionError:
        os.chmod(path, 0o700, dir_fd=top)
        descriptor = os.open(path, _FOLDER, dir_fd=top)
    try:
        if mode is not None and stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
            os.fchmod(descriptor, mode)
        yield descriptor
    finally:
        os.close(descriptor)


def _remove_entry(top: int, parent: int, name: bytes, mode: int) -> None:
    """Remove an entry of the folder ``parent``, which is ``top`` or below it.

    Only folders more than ``_LEVELS`` below it are moved into ``top``: a process that is killed now leaves them there
    under names that tell a user nothing.
    """
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=parent)
        return
    token = secrets.token_hex(8)
    moved: list[bytes] = []
    numbers = itertools.count()

    def move_up(folder: int, entry: str) -> None:
        moved.append(f".{token}.{next(numbers)}".encode())
        os.rename(entry, moved[-1], src_dir_fd=folder, dst_dir_fd=top)

    _remove_folder(parent, os.fsdecode(name), _LEVELS, move_up)
    while moved:
        _remove_folder(top, os.fsdecode(moved.pop()), _LEVELS, move_up)


def _remove_folder(parent: int, name: str, levels: int, move_up: Callable[[int, str], None]) -> None:
    """Remove a folder; ``move_up`` gets its folders that are ``levels`` below it."""
    _own(parent, os.fsencode(name))
    descriptor = os.open(name, _FOLDER, dir_fd=parent)
    try:
        for entry in os.listdir(descriptor):
            if not stat.S_ISDIR(os.lstat(entry, dir_fd=descriptor).st_mode):
                os.unlink(entry, dir_fd=descriptor)
            elif levels:
                _remove_folder(descriptor, entry, levels - 1, move_up)
            else:
                _own(descriptor, os.fsencode(entry))
                move_up(descriptor, entry)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)


def _own(parent: int, name: bytes) -> None:
    # Moving a folder needs write permission on it, because its ".." changes.
    if os.lstat(name, dir_fd=parent).st_mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)


def _mask() -> int:
    # The mask can only be read by setting it; a strict value is safe for a file that another thread creates now.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@dataclass(frozen=True, slots=True)
class Claim:
    """A path for a worktree, claimed by this process. The path is taken as long as the folder exists."""

    path: Path
    descriptor: int

    def release(self) -> None:
        """Release the lock; the folder keeps the path reserved."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


def repository_key(repository: Repository) -> str:
    """Return a repository's folder name under `<state>/worktrees`: its name and 10 hex digits of its path's hash."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", repository.top.name).strip(".")[:40] or "root"
    return f"{name}-{hashlib.sha256(os.fsencode(repository.top)).hexdigest()[:10]}"


def tree_name(workspace: Path, *, reserved: Collection[str]) -> str:
    """Return a name for a worktree's folder: the workspace's name, with unusual characters as underscores.

    Tools show this name, and the tests of some projects depend on it. ``reserved`` are names of other files beside it.
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in workspace.name)
    name = plain.strip(".-")
    return name if name and name not in reserved else "tree"


def claim_worktree_path(trees_root: Path, key: str) -> Claim:
    """Return a new, empty folder `<trees_root>/<key>/<n>`, claimed by a lock, with the lowest free ``n``.

    Numbers are reused after ``Worktree.remove``, so tools that remember paths find the same ones. An existing folder is
    never returned.
    """
    root = trees_root / key
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(1, 100_000):
            descriptor = os.open(root / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (root / str(number)).mkdir(mode=0o700)
            except (BlockingIOError, FileExistsError):
                os.close(descriptor)
                continue
            return Claim(root / str(number), descriptor)
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE, f"{root} cannot be used: {error.strerror}.", hint="Check the permissions."
        ) from error
    raise UnderstudyError(ErrorKind.STATE_UNAVAILABLE, f"{root} contains too many worktrees.", hint="Remove some.")
