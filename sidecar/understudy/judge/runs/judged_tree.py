"""Define the worktree that the checks need; copy one, and put files in place in it for a while: hidden ones, mutants.

The files of a hidden check come from the user's own configuration folder, so that no repository and no agent decides
what they contain. Their names are recorded before they are copied: if the worker is killed, the process that records
its end removes them (``journal.worker_files``).
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from understudy.config.locations import user_folder
from understudy.files import durable, nofollow
from understudy.files.durable import failpoint
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check
from understudy.model.hunks import FileDiff

Change = tuple[str, str]
"""A letter of ``git diff --name-status`` (``A M D R T``) and a POSIX path. For ``R`` it is the new path; an
implementation that detects renames lists the old path as ``D``."""
MOST_FILES = 200
"""Most files of a hidden check."""
FILE_BYTES = 16 * 1024 * 1024
_MOST_BYTES = 16 * 1024 * 1024
_MOST_COPIED_FILES = 200_000
_MOST_COPIED_BYTES = 4 << 30
_MOST_LEVELS = 200
"""``shutil.copytree`` calls itself for each level."""
_GIT = ".git"


class JudgedTree(Protocol):
    """A worktree that can be reset to exactly a commit. Methods block; they are called from a thread, one at a time."""

    @property
    def path(self) -> Path:
        """Return the folder of the worktree, an absolute path outside the user's checkout."""
        ...

    def materialise(self, commit: str) -> None:
        """Reset the worktree to exactly ``commit``: keep extra files, remove all others, even ignored ones."""
        ...

    def differing(self, commit: str) -> list[str]:
        """Return the tracked files whose content, kind or executable bit differs from ``commit``, or that are gone."""
        ...

    def tree_of(self, commit: str) -> str:
        """Return the id of the tree object of ``commit``."""
        ...

    def changed_paths(self, base: str, head: str) -> list[Change]:
        """Return what changed from ``base`` to ``head``."""
        ...

    def file_diffs(self, base: str, head: str) -> list[FileDiff]:
        """Return the difference as the review shows it, by files and hunks; a rename is one file."""
        ...

    def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in ``commit``; None if there is no such file."""
        ...

    def read_many(self, commit: str, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of the files of ``commit`` among ``paths`` that are not large, within a bound."""
        ...

    def paths(self, commit: str) -> list[str]:
        """Return the paths of all files of ``commit``."""
        ...

    def compose(self, head: str, base: str, files: Mapping[str, bytes | None]) -> str:
        """Return a commit that is ``head`` with some files replaced, or ``head`` itself if nothing differs.

        A file gets the given content; for None it becomes as it is in ``base``, or is removed if ``base`` lacks it.
        """
        ...


def read_unless_large(tree: JudgedTree, commit: str, path: str) -> bytes | None:
    """Return the content of a file in ``commit``; None if there is no such file, or if it is too large."""
    try:
        return tree.read(commit, path)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.FILE_TOO_LARGE:
            raise
        return None


@contextmanager
def hidden_files_placed(check: Check, tree: Path, record: Path) -> Iterator[None]:
    """Copy the files of ``check`` to the same paths of ``tree``; remove them and the record afterwards.

    Files of the result at these paths are replaced, so reset the worktree afterwards. Nothing happens for a check
    without files. ``record`` is a file outside of the worktree. Errors: ``config_invalid`` (a file is missing or too
    large), ``path_escape``.
    """
    if not check.hidden or not check.files:
        yield
        return
    contents = _read_hidden(check)
    record.write_text(json.dumps(sorted(contents)))
    try:
        failpoint("hidden files recorded")
        for path, content in contents.items():
            _clear(tree, path)
            nofollow.write_over(tree, path, content)
        failpoint("hidden files placed")
        yield
    finally:
        _remove(tree, list(contents))
        record.unlink(missing_ok=True)


def _remove(tree: Path, paths: list[str]) -> None:
    for path in paths:
        with suppress(OSError, UnderstudyError):
            nofollow.remove(tree, path)


def _clear(tree: Path, path: str) -> None:
    """Remove a link, folder or special file of the result that is in the place of a hidden file."""
    target = tree.joinpath(*nofollow.safe_parts(path))
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = os.lstat(target).st_mode
        if stat.S_ISDIR(mode) and target.parent.resolve() == tree.resolve().joinpath(*nofollow.safe_parts(path)[:-1]):
            shutil.rmtree(target)
        elif not stat.S_ISREG(mode):
            nofollow.remove(tree, path)


def _read_hidden(check: Check) -> dict[str, bytes]:
    folder = user_folder()
    contents: dict[str, bytes] = {}
    if len(check.files) > MOST_FILES:
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The hidden check {check.name} has {len(check.files)} files; at most {MOST_FILES} are allowed.",
            hint="Put the tests into fewer files, or into several checks.",
        )
    for path in check.files:
        source = folder.joinpath(*nofollow.safe_parts(path))
        why = f"it has over {FILE_BYTES >> 20} MiB"
        try:
            contents[path] = durable.read_whole(source, FILE_BYTES + 1)
        except (OSError, UnderstudyError) as error:
            contents.pop(path, None)
            why = str(error).rstrip(".")
        if path not in contents or len(contents[path]) > FILE_BYTES:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"The file {path} of the hidden check {check.name} cannot be read from {folder}: {why}.",
                hint="Put it into your configuration folder, or correct `files`.",
            )
    return contents


def read_file(tree: Path, path: str) -> bytes:
    """Return the content of a regular file of the tree; raise ``path_escape`` if it is a link or not there."""
    file = tree.joinpath(*nofollow.safe_parts(path))
    inside = file.resolve() == tree.resolve().joinpath(*nofollow.safe_parts(path))
    if not inside or not file.is_file() or file.stat().st_size > _MOST_BYTES:
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{path} is not a regular file of the worktree, so it cannot be mutated.",
            hint="Replace the link by a file.",
        )
    return file.read_bytes()


@contextmanager
def file_replaced(tree: Path, path: str, content: bytes) -> Iterator[None]:
    """Replace a file of the tree by ``content`` within the block."""
    before = read_file(tree, path)
    try:
        _put(tree, path, content)
        yield
    finally:
        _put(tree, path, before)


def _put(tree: Path, path: str, content: bytes) -> None:
    nofollow.write_over(tree, path, content)
    # A compiled file of the same size and time would run instead.
    file = tree / path
    if file.suffix == ".py":
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink(missing_ok=True)


def copy_tree(source: Path, target: Path) -> int:
    """Copy the folder ``source`` to ``target``, which must not exist, and return its size in bytes; links stay links.

    Pipes, sockets and devices are left out, and a ``.git`` that is not a folder: it leads to a repository whose index
    a test could change. Raise ``file_too_large`` above 200,000 files, 4 GiB or 200 levels.
    """
    files = size = 0
    top = os.fsencode(source)
    for folder, _, entries in nofollow.walk_any_depth(top):
        files += len(entries)
        for name in entries:
            facts = os.lstat(folder + b"/" + name)
            size += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
        if files > _MOST_COPIED_FILES or size > _MOST_COPIED_BYTES or folder[len(top) :].count(b"/") > _MOST_LEVELS:
            raise UnderstudyError(
                ErrorKind.FILE_TOO_LARGE,
                "The worktree is too large to be copied for mutation testing.",
                hint="Keep large untracked files out of it: see `[worktrees] copy` of the configuration.",
            )

    def left_out(folder: str, names: list[str]) -> set[str]:
        uncopied = {name for name in names if not _can_be_copied(Path(folder, name))}
        return uncopied | ({_GIT} if folder == str(source) and not (source / _GIT).is_dir() else set())

    shutil.copytree(source, target, symlinks=True, ignore=left_out)
    return size


def copies_that_fit(size: int, folder: Path) -> int:
    """Return how many more copies of this size there may be: 4 GiB together, and half of the free disk."""
    room = min(_MOST_COPIED_BYTES - size, shutil.disk_usage(folder).free // 2)
    return max(0, room // max(1, size))


def _can_be_copied(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
