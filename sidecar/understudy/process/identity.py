"""Identify a process even if its pid is reused, and the process at the other end of a Unix socket.

A pid alone identifies the process that has that number now. Together with the start time of the process, in the
kernel's clock ticks, and the boot of that clock, it identifies one process forever.
"""

from __future__ import annotations

import functools
import os
import signal as signals
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import socket

_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
"""Of sys/un.h on macOS."""
_FIRST_USER_PID = 2
"""0 and negative numbers address groups, and 1 is init: no process that we start has such a pid."""

_ANSWER_SECONDS = 5.0
"""How long ``ps`` and ``sysctl`` may take where there is no ``/proc``."""


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """One process: ``pid``, ``startTime`` and ``bootId`` on the wire and in lock files.

    ``start_time`` is field 22 of ``/proc/<pid>/stat`` (clock ticks since boot; see proc(5)); without
    ``/proc`` it is seconds since the epoch, from ``ps``. ``boot_id`` is the kernel's random boot id.
    """

    pid: int
    start_time: int
    boot_id: str


def current() -> Identity:
    """Return the identity of this process."""
    identity_of_process = of(os.getpid())
    if (
        identity_of_process is None
    ):  # pragma: no cover - neither /proc nor ps: no identity can be compared, so none will match
        return Identity(os.getpid(), -1, boot_id())
    return identity_of_process


def of(pid: int) -> Identity | None:
    """Return the identity of the process that has this pid now; ``None`` if there is none or it is a zombie."""
    start_time = _start_time_if_running(pid)
    return None if start_time is None else Identity(pid, start_time, boot_id())


def alive(identity: Identity) -> bool:
    """Return whether exactly this process still runs; a zombie does not."""
    return of(identity.pid) == identity


def end(identity: Identity, signal: signals.Signals = signals.SIGKILL) -> bool:
    """Send ``signal`` to exactly this process; return ``False`` if it has ended or may not be signalled.

    A pidfd is opened before the identity is compared, so that the pid cannot be reused between the comparison and the
    signal (pidfd_open(2)). Without pidfds, only the comparison protects.
    """
    if identity.pid < _FIRST_USER_PID:
        return False
    if not hasattr(os, "pidfd_open"):
        return _end_by_number(identity, signal)
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except OSError:  # refused by a seccomp filter or an old kernel
        return _end_by_number(identity, signal)
    try:
        if not alive(identity):
            return False
        signals.pidfd_send_signal(handle, signal)
    except (ProcessLookupError, PermissionError):
        return False
    else:
        return True
    finally:
        os.close(handle)


@functools.cache
def boot_id() -> str:
    """Return the id of this boot of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return _answer_of("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid") or ""


def _start_time_if_running(pid: int) -> int | None:
    if pid < 1:
        return None
    if sys.platform != "linux":
        return _start_time_from_ps(pid)
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the name in parentheses, which may contain parentheses and spaces: count from the last ")".
    fields = line[line.rfind(b")") + 2 :].split()
    state, threads, start_time = fields[0], int(fields[17]), int(fields[19])
    # A leader that ended before its other threads is shown as a zombie although the process still runs.
    if state in {b"Z", b"X"} and threads < 2:
        return None
    return start_time


def _end_by_number(identity: Identity, signal: signals.Signals) -> bool:
    if not alive(identity):
        return False
    try:
        os.kill(identity.pid, signal)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def peer_pid(connection: socket.socket) -> int | None:
    """Return the process that connected, 0 if it is in another PID namespace, None where the kernel does not tell.

    The process may have ended since, and handed the connection to another one.
    """
    try:
        if sys.platform == "linux":
            return _peer_credentials(connection)[0]
        if sys.platform == "darwin":
            return connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
    except OSError:
        return None
    return None


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of the process that connected, None if the platform cannot tell."""
    try:
        if sys.platform == "linux":
            return _peer_credentials(connection)[1]
        # On macOS and the BSDs, struct xucred is version, uid, groups.
        credentials = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
    except OSError:
        return None
    return int(struct.unpack_from("II", credentials)[1])


def _peer_credentials(connection: socket.socket) -> tuple[int, int, int]:
    """Return the process, user and group of a peer on Linux (struct ucred)."""
    import socket  # commands of a terminal start without it

    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", packed)


def _start_time_from_ps(pid: int) -> int | None:
    answer = ps("stat=,lstart=", pid)
    if not answer or answer.startswith("Z"):
        return None
    import time

    try:
        return int(time.mktime(time.strptime(answer.split(None, 1)[1], "%a %b %d %H:%M:%S %Y")))
    except (ValueError, IndexError):
        return None


def ps(columns: str, pid: int) -> str | None:
    """Return columns of ``ps`` for one process, where there is no ``/proc``; None if it has ended."""
    return _answer_of("/bin/ps", "-o", columns, "-p", str(pid)) or None


def _answer_of(*argv: str) -> str | None:
    import subprocess

    try:
        # TZ is fixed so that two readers of the same start time, in two time zones, get the same number.
        answer = subprocess.run(
            argv, capture_output=True, check=False, timeout=_ANSWER_SECONDS, env={"LC_ALL": "C", "TZ": "UTC"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode("ascii", "replace").strip()
