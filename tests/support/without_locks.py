"""A program that lets its process be on a file system without locks, as some network and overlay file systems are."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_NUMBERS = {"x86_64": {"fcntl": 72, "flock": 73}, "aarch64": {"fcntl": 25, "flock": 32}}
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.ENOLCK
_SETLK, _SETLKW = 6, 7


def lose(*calls: str) -> None:
    """Let ``fcntl``'s locks, ``flock`` or both fail with ``ENOLCK``, in this process and its children."""
    numbers = _NUMBERS[platform.machine()]
    # Without ``fcntl`` or ``flock``, its number is one that no call has.
    fcntl, flock = (numbers[name] if name in calls else 0xFFFFFF for name in ("fcntl", "flock"))
    program = [
        (_LOAD, 0, 0, 0),  # the number of the call
        (_EQUAL, 5, 0, flock),
        (_EQUAL, 0, 3, fcntl),
        (_LOAD, 0, 0, 24),  # its second argument
        (_EQUAL, 2, 0, _SETLK),
        (_EQUAL, 1, 0, _SETLKW),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, header, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")
