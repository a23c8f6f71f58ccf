"""Find marked processes that survived their owner and guardian, and kill them.

Every guarded process carries ``UNDERSTUDY_DELEGATION=<mark>`` in the environment it was started with. With PID
namespaces there are no leftovers. Without them, when owner and guardian were killed together, this kills every process
that kept its mark, and its descendants. A process with an emptied environment whose marked ancestors are gone is not
found: nothing links it to Understudy.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from understudy.process import identity

MARK = "UNDERSTUDY_DELEGATION"
"""Environment variable of every process of a delegation."""

CHILD_MARK = "UNDERSTUDY_CHILD"
"""Environment variable that distinguishes the guarded children of one delegation."""

_FREEZE_ROUNDS = 20
"""A stopped process cannot fork, so a few rounds find every process that was started before."""


def kill_leftovers(mark: str, *, name: str = MARK, limit_seconds: float = 5.0) -> int:
    """Kill every process of this user that carries ``name=mark``, with its descendants; return how many there were.

    Never kills this process or its ancestors. Blocks for at most ``limit_seconds``; 0 where there is no ``/proc``.
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
    """Stop every process with the mark, repeatedly, until no new one appears."""
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
        except OSError:  # it ended meanwhile, or belongs to another user
            continue
    spared = set(_ancestry(os.getpid(), parents, set()))
    chosen = {pid for pid in parents if marked.intersection(_ancestry(pid, parents, spared))}
    return {process for pid in chosen if (process := identity.of(pid)) is not None}


def _ancestry(pid: int, parents: dict[int, int], spared: set[int]) -> list[int]:
    """Return ``pid`` and its ancestors, up to the first one that is spared."""
    line: list[int] = []
    while pid > 0 and pid not in line and pid not in spared:
        line.append(pid)
        pid = parents.get(pid, 0)
    return line
