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
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
"""Of sys/un.h on macOS."""


def socket_folder(folder: Path) -> Path:
    """Return a private folder for sockets: ``folder``, or a new one with a shorter path where that is too long.

    The folder belongs to one run, which removes it.
    """
    if len(os.fsencode(folder)) + 1 + _LONGEST_NAME <= LONGEST_PATH:
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder
    short = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="understudy-", dir=short if len(os.fsencode(short)) < 50 else "/tmp"))  # noqa: S108 - mkdtemp makes it private


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
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", packed)
