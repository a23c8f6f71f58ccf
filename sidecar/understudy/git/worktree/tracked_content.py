"""Compare the tracked files of a worktree with a commit by content."""

# pathlib has no paths of bytes:
# ruff: noqa: PTH115

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from understudy.git.command import check_not_aborted
from understudy.git.object_store import ObjectStore
from understudy.git.path_rules import collisions
from understudy.git.verification import require_tree

_SETTLED_NS = 50_000_000
"""A file that changed this recently can change again without a new time: clocks of file systems tick every 4 ms."""

_KEPT_COMMITS = 3

_Stamp = tuple[int, int, int, int, int, int]


class TrackedContent:
    """Hashes the files of one worktree. A file is hashed again only if its inode, size or times changed.

    No program can set the time of an inode's last change, so an edit that restores the modification time is noticed.
    """

    def __init__(self, store: ObjectStore, path: Path) -> None:
        """Read nothing yet."""
        self._store = store
        self._top = os.fsencode(path)
        self._hashed: dict[bytes, tuple[_Stamp, str]] = {}
        self._wanted: dict[str, dict[bytes, tuple[str, str]]] = {}

    def differing(self, commit: str, extra: Iterable[bytes] = ()) -> list[bytes]:
        """Return the tracked files that differ from ``commit`` in content, kind or executable bit, or are missing.

        Left out: submodules, files that the worktree does not show, ``extra``, and untracked files. Errors:
        ``base_unavailable`` if the commit or one of its trees is damaged and has no good copy.
        """
        files = self._files_of(commit)
        with_mode = self._setting("core.filemode", default=True)
        left_out = set(extra)
        folders: dict[bytes, bool] = {b"": True}
        differing = []
        for number, (path, (mode, identifier)) in enumerate(files.items()):
            if number % 256 == 0:
                check_not_aborted()
            if path in left_out:
                continue
            if not self._below_real_folders(path, folders) or not self._is(path, mode, identifier, with_mode=with_mode):
                differing.append(path)
        return differing

    def _files_of(self, commit: str) -> dict[bytes, tuple[str, str]]:
        if commit not in self._wanted:
            files = require_tree(self._store, commit)
            skipped: Collection[bytes] = self._store.hidden(commit)
            if self._setting("core.ignorecase", default=False):
                skipped = {*skipped, *(path for group in collisions(files) for path in group)}
            while len(self._wanted) >= _KEPT_COMMITS:
                self._wanted.pop(next(iter(self._wanted)))
            self._wanted[commit] = {
                path: entry for path, entry in files.items() if entry[0] != "160000" and path not in skipped
            }
        return self._wanted[commit]

    def _setting(self, name: str, *, default: bool) -> bool:
        value = self._store.description["settings"].get(name)
        return default if value is None else str(value).strip().lower() in {"true", "yes", "on", "1"}

    def _below_real_folders(self, path: bytes, folders: dict[bytes, bool]) -> bool:
        unknown: list[bytes] = []
        parent = path.rpartition(b"/")[0]
        while parent not in folders:
            unknown.append(parent)
            parent = parent.rpartition(b"/")[0]
        real = folders[parent]
        for folder in reversed(unknown):
            try:
                real = real and stat.S_ISDIR(os.lstat(self._top + b"/" + folder).st_mode)
            except OSError:
                real = False
            folders[folder] = real
        return real

    def _is(self, path: bytes, mode: str, identifier: str, *, with_mode: bool) -> bool:
        full = self._top + b"/" + path
        try:
            facts = os.lstat(full)
            link = stat.S_ISLNK(facts.st_mode)
            if not link and not stat.S_ISREG(facts.st_mode):
                return False
            # Without support for links, git writes a file that contains the target.
            if link != (mode == "120000") and (link or self._setting("core.symlinks", default=True)):
                return False
            if with_mode and not link and mode != "120000" and bool(facts.st_mode & 0o100) != (mode == "100755"):
                return False
            return self._hash(path, full, facts, link=link) == identifier
        except OSError:
            return False

    def _hash(self, path: bytes, full: bytes, facts: os.stat_result, *, link: bool) -> str:
        stamp = (facts.st_dev, facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        cached = self._hashed.get(path)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        self._hashed.pop(path, None)
        now = time.time_ns()
        digest = hashlib.new(self._store.object_format, usedforsecurity=False)
        if link:
            target = os.readlink(full)
            digest.update(b"blob %d\0" % len(target) + target)
        else:
            descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb", buffering=0) as stream:
                size = os.fstat(descriptor).st_size
                digest.update(b"blob %d\0" % size)
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
        value = digest.hexdigest()
        if max(facts.st_ctime_ns, facts.st_mtime_ns) < now - _SETTLED_NS:
            self._hashed[path] = (stamp, value)
        return value
