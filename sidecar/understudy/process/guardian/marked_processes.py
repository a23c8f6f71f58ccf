"""Tell to which run a process belongs, and from which process it descends; kill what is left of a run.

A program that Understudy runs can clear its environment, leave its session and lose its parent. It stays below its
guardian all the same: orphans become children of the guardian, or of the first process of its PID namespace. In a PID
namespace that such a program made itself, that process is not visible, but the name of ``/proc`` is, unless the program
has a root of its own, too. On Linux without ``/proc``, only the environment of this process tells anything.

Every guarded process carries ``UNDERSTUDY_DELEGATION=<mark>`` in the environment it was started with. With PID
namespaces there are no leftovers. Without them, when owner and guardian were killed together, ``kill_leftovers`` kills
every process that kept its mark, and its descendants. A process with an emptied environment whose marked ancestors are
gone is not found: nothing links it to Understudy.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.process import identity
from understudy.process.guardian import MOUNT, SIGN
from understudy.process.guardian.linux import LINUX, stat_of

_WALKS = 10
"""How often the ancestors of a process are read again because one of them ended meanwhile."""
MARK = "UNDERSTUDY_DELEGATION"
"""Environment variable of every process of a delegation."""
CHILD_MARK = "UNDERSTUDY_CHILD"
"""Environment variable that distinguishes the guarded children of one delegation."""
_FREEZE_ROUNDS = 20
"""A stopped process cannot fork, so a few rounds find every process that was started before."""


def has_proc() -> bool:
    """Return whether ``/proc`` shows processes."""
    return LINUX and Path("/proc/self/stat").exists()


def lineage(pid: int) -> Iterator[identity.Identity]:
    """Yield a process, its parent, and so on, as far as they can be seen; nothing if it has ended."""
    seen: set[int] = set()
    while pid > 0 and pid not in seen and (process := identity.of(pid)) is not None:
        seen.add(pid)
        yield process
        pid = _parent(pid)


def is_below(pid: int, ancestor: int) -> bool:
    """Return whether a process is ``ancestor`` or descends from it; true where there is no ``/proc``."""
    return not has_proc() or any(process.pid == ancestor for process in lineage(pid))


def surrounding_run(pid: int | None = None) -> str | None:
    """Return the mark of the run that a process belongs to, None outside of all; without ``pid``, this process.

    The mark is empty if it is unknown, also for a process that has ended: it may have left a connection to another one.
    """
    if pid is None:
        return os.environ.get(MARK) or _run_of_this_process()
    return _run_of(pid)


@functools.cache
def _run_of_this_process() -> str | None:
    # A process does not change its run, and without /proc each answer needs several programs.
    return _run_of(_own_pid())


def _run_of(pid: int) -> str | None:
    if LINUX and not has_proc():
        return None
    mounted = _mounted_mark(pid)
    if mounted is not None:
        return mounted
    missing = 0
    for _ in range(_WALKS):
        process = pid
        while process > 0:
            mark = _environ_mark(process)
            if mark or _is_guardian(process):
                return mark
            parent = _parent(process)
            if identity.of(process) is None:
                break  # nothing was read of it
            process = parent
        if process == pid:
            return ""
        # The children of a process that has ended get another parent; those of one that is hidden keep theirs.
        if process in {0, missing}:
            return None
        missing = process
    return ""


def _own_pid() -> int:
    # Another PID namespace than that of /proc has another number for this process.
    return int(os.readlink("/proc/self")) if has_proc() else os.getpid()  # noqa: PTH115 - a number, not a path


def _mounted_mark(pid: int) -> str | None:
    """Return the mark in the name of ``/proc`` of the process's PID namespace, None if it has no such name."""
    for line in _read(pid, "mountinfo").splitlines():
        kind, _, source = line.rpartition(b" - ")[2].decode("utf-8", "replace").partition(" ")
        if kind == "proc" and source.startswith(MOUNT):
            return source.removeprefix(MOUNT).partition(" ")[0]
    return None


def _environ_mark(pid: int) -> str:
    for entry in _read(pid, "environ").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == MARK.encode():
            return os.fsdecode(value)
    return ""


def _is_guardian(pid: int) -> bool:
    if not LINUX:
        return SIGN in (identity.ps("command=", pid) or "")
    return SIGN.encode() in _read(pid, "cmdline")


def _parent(pid: int) -> int:
    return int(stat_of(pid)[1] if LINUX else identity.ps("ppid=", pid) or 0)


def _read(pid: int, name: str) -> bytes:
    """Return a file of ``/proc``, nothing if it is not readable or there is no ``/proc``."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


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
