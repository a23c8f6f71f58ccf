"""Copy a worktree to a place that no person looks at, so that no tree that one looks at ever contains a mutant."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from understudy.files import tree_walk
from understudy.model.errors import ErrorKind, UnderstudyError

_MOST_FILES = 200_000
_MOST_BYTES = 4 << 30
_MOST_LEVELS = 200
"""``shutil.copytree`` calls itself for each level."""
_GIT = ".git"


def copy_tree(source: Path, target: Path) -> int:
    """Copy the folder ``source`` to ``target``, which must not exist, and return its size in bytes; links stay links.

    Pipes, sockets and devices are left out, and a ``.git`` that is not a folder: it leads to a repository whose index
    a test could change. Raise ``file_too_large`` above 200,000 files, 4 GiB or 200 levels.
    """
    files = size = 0
    top = os.fsencode(source)
    for folder, _, entries in tree_walk.walk(top):
        files += len(entries)
        for name in entries:
            found = os.lstat(folder + b"/" + name)
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
        if files > _MOST_FILES or size > _MOST_BYTES or folder[len(top) :].count(b"/") > _MOST_LEVELS:
            raise UnderstudyError(
                ErrorKind.FILE_TOO_LARGE,
                "The worktree is too large to be copied for mutation testing.",
                hint="Keep large untracked files out of it: see `[worktrees] copy` of the configuration.",
            )

    def left_out(folder: str, names: list[str]) -> set[str]:
        found = {name for name in names if not _can_be_copied(Path(folder, name))}
        return found | ({_GIT} if folder == str(source) and not (source / _GIT).is_dir() else set())

    shutil.copytree(source, target, symlinks=True, ignore=left_out)
    return size


def copies_that_fit(size: int, folder: Path) -> int:
    """Return how many more copies of this size there may be: 4 GiB together, and half of the free disk."""
    room = min(_MOST_BYTES - size, shutil.disk_usage(folder).free // 2)
    return max(0, room // max(1, size))


def _can_be_copied(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
