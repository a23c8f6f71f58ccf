"""Find by its mark, and end, what a double kill left behind.

Every guarded process carries ``UNDERSTUDY_DELEGATION=<mark>`` in the environment it was started with. Where there are
PID namespaces nothing is ever left to sweep. Where they are refused, and owner and guardian were killed together, this
ends every process that kept its mark, and the descendants of those. A process that started over with an empty
environment, and whose marked ancestors are gone, is not found: nothing links it to us any more.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from understudy.process import identity

MARK = "UNDERSTUDY_DELEGATION"
"""The name of the variable that every process of a delegation carries."""

CHILD_MARK = "UNDERSTUDY_CHILD"
"""The name of the variable that tells one guarded child of a delegation from its siblings."""

_FREEZE_ROUNDS = 20
"""A stopped process starts no other, so each round finds only what was started before it; a few are enough."""


def sweep(mark: str, *, name: str = MARK, limit_seconds: float = 5.0) -> int:
    """End every process of this user that carries ``name=mark``, with its descendants; return how many there were.

    Never this process nor its ancestors. Blocks for at most ``limit_seconds``; 0 where there is no ``/proc``.
    """
    if sys.platform != "linux":
        return 0
    entry = f"{name}={mark}".encode()
    ended: set[identity.Identity] = set()
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        frozen = _freeze(entry)
        if not frozen:
            break
        for process in frozen:
            identity.end(process, signal.SIGKILL)
        ended |= frozen
        while time.monotonic() < deadline and any(identity.alive(process) for process in frozen):
            time.sleep(0.001)
    return len(ended)


def _freeze(entry: bytes) -> set[identity.Identity]:
    """Stop every process with the mark, again and again until no new one appears."""
    frozen: set[identity.Identity] = set()
    for _ in range(_FREEZE_ROUNDS):
        new = _marked(entry) - frozen
        if not new:
            break
        for process in new:
            identity.end(process, signal.SIGSTOP)
        frozen |= new
    return frozen


def _marked(entry: bytes) -> set[identity.Identity]:
    parents: dict[int, int] = {}
    marked: set[int] = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            line = (folder / "stat").read_bytes()
            pid, parents_pid = int(folder.name), int(line[line.rfind(b")") + 2 :].split()[1])
            parents[pid] = parents_pid
            if folder.stat().st_uid == os.getuid() and entry in (folder / "environ").read_bytes().split(b"\0"):
                marked.add(pid)
        except OSError:  # ended meanwhile, or another user's
            continue
    spared = set(_line_of(os.getpid(), parents, set()))
    chosen = {pid for pid in parents if marked.intersection(_line_of(pid, parents, spared))}
    return {process for pid in chosen if (process := identity.of(pid)) is not None}


def _line_of(pid: int, parents: dict[int, int], spared: set[int]) -> list[int]:
    """Return ``pid`` and its ancestors, up to the first one that is spared."""
    line: list[int] = []
    while pid > 0 and pid not in line and pid not in spared:
        line.append(pid)
        pid = parents.get(pid, 0)
    return line
