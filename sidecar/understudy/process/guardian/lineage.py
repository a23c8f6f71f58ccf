"""Tell from which process another one descends, and to which run it belongs.

A program that Understudy runs can clear its environment, leave its session and lose its parent. It stays below its
guardian all the same: orphans become children of the guardian, or of the first process of its PID namespace. In a PID
namespace that such a program made itself, that process is not visible, but the name of ``/proc`` is, unless the program
has a root of its own, too. On Linux without ``/proc``, only the environment of this process tells anything.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from understudy.process import identity
from understudy.process.guardian import MOUNT, SIGN
from understudy.process.guardian.linux import LINUX, stat_of
from understudy.process.leftovers import MARK

_WALKS = 10
"""How often the ancestors of a process are read again because one of them ended meanwhile."""


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
