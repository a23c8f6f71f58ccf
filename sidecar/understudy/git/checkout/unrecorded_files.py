"""Notice changes of files in the checkout that no result contains: ignored files, and those that the base left out."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection
from pathlib import Path

MOST_FILES = 50_000
LONGEST_SECONDS = 20.0
"""Time limit for one look."""
_CACHES = frozenset(
    {b"__pycache__", b".cache", b".vite", b".vitest", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".git"}
)
"""Folders that programs write to whenever they run; the repository is compared as a whole (``repository_state``)."""

Stamps = dict[bytes, tuple[int, int, int, int]]
"""Path → inode, mode, size and time of the last change of each file."""


def look(top: Path, recorded: Collection[bytes], seconds: float = LONGEST_SECONDS) -> Stamps | None:
    """Return the files below ``top`` that are not ``recorded``; None if there are too many to look at."""
    deadline = time.monotonic() + seconds
    prefix = os.fsencode(top) + b"/"
    stamps: Stamps = {}
    seen = 0
    waiting = [prefix]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        seen += len(entries)
        if seen > MOST_FILES + len(recorded) or time.monotonic() > deadline:
            return None
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(facts.st_mode):
                if entry.name not in _CACHES:
                    waiting.append(entry.path)
            elif entry.name != b".git" and not entry.name.endswith(b".pyc"):
                path = entry.path[len(prefix) :]
                if path not in recorded:
                    stamps[path] = (facts.st_ino, facts.st_mode, facts.st_size, facts.st_ctime_ns)
    return stamps


def differing(before: Stamps, after: Stamps) -> list[bytes]:
    """Return the files that were changed, added or removed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
