"""Set limits, enter namespaces, and start a program: ``python -I confine_child.py PLAN``, with the plan as JSON.

In the namespaces there is no network and no other process, all file systems are read-only except one folder, and the
program has no capabilities. With an empty command it prints ``confined`` or the reason why it cannot.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

CLONE_FLAGS = 0x00020000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""New mount, IPC, user, PID and network namespaces."""
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, READ_ONLY = 442, -100, 0x8000, 1
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
NOBODY = 65534


class CannotConfineError(Exception):
    """A namespace cannot be made; the message has the reason."""


class MountAttributes(ctypes.Structure):
    """``struct mount_attr`` of ``mount_setattr(2)``."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def main() -> int:
    """Carry out the plan."""
    plan = json.loads(sys.argv[1])
    command = plan["command"]
    set_limits(plan["limits"])
    if plan["namespaces"]:
        try:
            enter_namespaces(plan["writable"])
        except (CannotConfineError, OSError, AttributeError) as error:
            sys.stdout.write(f"{error}\n")
            return 1
        # Only a child is in the new PID namespace.
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF
        _call("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() not in {0, 1}:
            return 1
    if not command:
        sys.stdout.write(check(plan["writable"]) + "\n")
        return 0
    return os.execv(command[0], command)  # noqa: S606 - an argument vector


def set_limits(limits: dict[str, int]) -> None:
    """Set resource limits; the number of processes is meant in addition to those that the user has now."""
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:
            continue
        amount = value + _processes() if name == "NPROC" else value
        hard = resource.getrlimit(number)[1]
        limit = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        try:
            resource.setrlimit(number, (limit, limit))
        except (OSError, ValueError):  # macOS refuses some of them
            continue


def _processes() -> int:
    """Count the user's threads, as far as ``/proc`` shows them."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            count += len([*(entry / "task").iterdir()]) if entry.stat().st_uid == os.getuid() else 0
        except OSError:
            continue
    return count


def enter_namespaces(writable: str) -> None:
    """Enter new namespaces and make everything but ``writable`` read-only."""
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", CLONE_FLAGS)
    # Not root inside: the program that is started then has no capabilities, so it cannot mount anything.
    Path("/proc/self/setgroups").write_text("deny", "ascii")
    Path("/proc/self/uid_map").write_text(f"{uid or NOBODY} {uid} 1", "ascii")
    Path("/proc/self/gid_map").write_text(f"{gid or NOBODY} {gid} 1", "ascii")
    _call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    folder = os.fsencode(writable)
    _call("mount", folder, folder, None, MS_BIND, None)
    _set_attributes(b"/", AT_RECURSIVE, MountAttributes(READ_ONLY, 0, 0, 0))
    _set_attributes(folder, 0, MountAttributes(0, READ_ONLY, 0, 0))
    os.chdir(writable)  # the folder below the new mount is read-only
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def check(writable: str) -> str:
    """Return ``confined`` when files can be written in the folder and nowhere else."""
    inside, outside = Path(writable, "probe"), Path(writable).parent / "probe"
    try:
        inside.write_text("", "ascii")
        inside.unlink()
        outside.write_text("", "ascii")
    except OSError as error:
        return "confined" if error.filename == str(outside) else str(error)
    outside.unlink()
    return "the file system is still writable"


def _set_attributes(path: bytes, flags: int, attributes: MountAttributes) -> None:
    _call(
        "syscall",
        MOUNT_SETATTR,
        AT_FDCWD,
        path,
        flags,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )


def _call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    converted = [ctypes.c_ulong(value) if isinstance(value, int) and value >= 0 else value for value in arguments]
    if getattr(libc, name)(*converted):
        raise CannotConfineError(f"{name}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    sys.exit(main())
