"""The configuration as it was read last, for as long as its files are the same.

A process that answers many requests reads its files once. What is kept is used again only if every file and folder that
went into it is as it was, by inode, size, both times and mode, and if they were old enough when they were read that a
later change cannot have the same times.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from understudy.config import locations
from understudy.config.configuration import Configuration
from understudy.config.load import load as read
from understudy.config.locality import KEPT_SECONDS
from understudy.model.config.delegators import Scope

SETTLED_SECONDS = 0.1
"""The clock of a file system is this coarse, or finer: what changed less long ago may change again unseen."""
MOST_KEPT = 16
"""Workspaces."""


@dataclass(frozen=True)
class _Kept:
    configuration: Configuration
    stamps: Stamps
    until: float
    """Entries limited to this machine were judged by what the resolver said, which is as old as they are."""


@dataclass(frozen=True)
class Stamps:
    """What the files of a configuration looked like."""

    facts: tuple[object, ...]
    newest: float
    """The latest time of a change (``time.time``)."""

    @property
    def settled(self) -> bool:
        """Whether another change would be noticed."""
        return self.newest < time.time() - SETTLED_SECONDS


_kept: dict[tuple[Path | None, bool], _Kept] = {}
_lock = threading.Lock()


def load(workspace: Path | None, *, trusted: bool) -> Configuration:
    """Return what ``config.load`` returns; the caller must not change it."""
    key = workspace, trusted
    found = _kept.get(key)
    now = stamps(workspace, trusted=trusted)
    if found is not None and found.stamps.facts == now.facts and found.until > time.monotonic():
        return found.configuration
    until = time.monotonic() + KEPT_SECONDS
    configuration = read(workspace, trusted=trusted)
    with _lock:
        _kept.pop(key, None)
        if now.settled:
            while len(_kept) >= MOST_KEPT:
                del _kept[next(iter(_kept))]
            # A change since the stamps were taken is newer than they are, so the next request notices it.
            _kept[key] = _Kept(configuration, now, until)
    return configuration


def stamps(workspace: Path | None, *, trusted: bool) -> Stamps:
    """Return what the files look like that ``config.load`` would read now; opens none of them."""
    facts: list[object] = []
    newest = 0.0
    places = [] if workspace is None else [os.fspath(workspace / locations.WORKSPACE_FOLDER)]
    for layer in locations.layers(workspace, trusted=trusted):
        if layer.scope is Scope.BUILTIN:  # part of the program
            continue
        root = os.fspath(layer.root)
        places += [root, *(f"{root}/{name}" for name in locations.SINGLE.values())]
        for name, suffix in locations.PLACES.values():
            folder = f"{root}/{name}"
            places.append(folder)
            places += map(os.fspath, locations.names_in(Path(folder), suffix) if os.path.isdir(folder) else ())  # noqa: PTH112 - the cheaper call
    for place in places:
        newest = max(newest, _look(place, facts))
    return Stamps(tuple(facts), newest)


def _look(path: str, facts: list[object]) -> float:
    """Add what ``path`` looks like, and what a link there leads to; return the time of its last change."""
    facts.append(path)
    newest = 0.0
    for follow in (False, True):
        try:
            found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - the cheaper call
        except OSError as error:
            facts.append(error.errno)
            break
        facts.append((found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
        newest = max(newest, found.st_mtime, found.st_ctime)
        if not stat.S_ISLNK(found.st_mode):
            break
    return newest
