"""Claim a free worktree path."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from understudy.git.repository import Repository
from understudy.model.errors import ErrorKind, UnderstudyError


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
