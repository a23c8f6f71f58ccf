"""Unix sockets: a folder whose path is short enough, and the process at the other end."""

from __future__ import annotations

import os
import socket
import struct
import sys
import tempfile
from pathlib import Path

LONGEST_PATH = 100
"""``sun_path`` holds 108 bytes on Linux and 104 on macOS, the final zero included (unix(7))."""
_LONGEST_NAME = 12
_SOL_LOCAL, _LOCAL_PEERPID = 0, 2
"""Of sys/un.h on macOS."""


def socket_folder(wanted: Path) -> Path:
    """Return a private folder for sockets: ``wanted``, or a new one with a shorter path where that is too long.

    The folder belongs to one run, which removes it.
    """
    if len(os.fsencode(wanted)) + 1 + _LONGEST_NAME <= LONGEST_PATH:
        wanted.mkdir(mode=0o700, exist_ok=True)
        return wanted
    short = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="understudy-", dir=short if len(os.fsencode(short)) < 50 else "/tmp"))  # noqa: S108 - mkdtemp makes it private


def peer_pid(connection: socket.socket) -> int | None:
    """Return the process that connected, 0 if it is in another PID namespace, None where the kernel does not tell.

    The process may have ended since, and handed the connection to another one.
    """
    try:
        if hasattr(socket, "SO_PEERCRED"):
            packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", packed)[0])
        if sys.platform == "darwin":
            return connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
    except OSError:
        return None
    return None
