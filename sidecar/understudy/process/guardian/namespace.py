"""Run a process tree in a PID namespace, and where its access is restricted, in others.

Then there is no network but a loopback of its own, all file systems are read-only except some folders, and the program
has no capabilities, so it cannot undo that. A program from which only folders are hidden keeps its capabilities, if it
has some, except the one to mount.
"""

import _signal as signal  # type: ignore[import-not-found]  # "signal" imports enum: 6 ms of every start
import ctypes
import os
import select

from . import MOUNT
from .linux import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NUMBERS,
    LINUX,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_REC,
    MS_SLAVE,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    allow_writing,
    clone,
    cover,
    map_ids,
    mount,
    prctl,
)
from .process_tree import (
    Call,
    NamespaceTree,
    Shutdown,
    close_standard_streams,
    drain,
    launch,
    supervise,
    watch_signals,
)


def run(call: Call, control: int, wake: int) -> str:
    """Run the call in a namespace until it ends and return ``""``; return the reason when there is no namespace."""
    number = CLONE_NUMBERS.get(os.uname().machine) if LINUX else None
    if number is None:
        return "this system has no usable PID namespaces"
    bond_read, bond_write = os.pipe()
    ready_read, ready_write = os.pipe()
    flags = CLONE_NEWPID | CLONE_NEWNS
    if call.powerless:
        flags |= 0 if call.network else CLONE_NEWNET
    if call.restricted:
        flags |= CLONE_NEWIPC  # shared memory and queues outlive those who made them
    # In a user namespace of its own, and not as its root, the program has no capabilities.
    init, reason, ids = -1 if call.powerless else clone(number, flags), "", None
    if init < 0:
        ids = os.getuid(), os.getgid()  # a user namespace has no ids until they are mapped
        init = clone(number, flags | CLONE_NEWUSER)
    if init < 0:
        reason = f"clone: {os.strerror(ctypes.get_errno())}"
    elif init == 0:
        code = 1
        try:
            os.close(bond_write)
            os.close(ready_read)
            code = be_init(call, control, bond_read, ready_write, ids)
        finally:
            os._exit(code)
    os.close(bond_read)
    os.close(ready_write)
    if init > 0:
        reason = os.read(ready_read, 200).decode("ascii", "replace")
        if reason == "ready":
            reason = ""
            close_standard_streams()
            watch_init(init, control, wake)
        else:
            os.waitpid(init, 0)
            reason = reason or "the first process of the namespace died"
    os.close(ready_read)
    os.close(bond_write)
    return reason


def watch_init(init: int, control: int, wake: int) -> None:
    """Wait until the namespace ends; kill it when the owner is gone or the guardian is asked to end."""
    waiter = select.poll()
    waiter.register(control, select.POLLRDHUP)
    waiter.register(wake, select.POLLIN)
    while os.waitpid(init, os.WNOHANG)[0] == 0:
        ready = dict(waiter.poll(1000))
        drain(wake)
        if control in ready or Shutdown.requested:
            # The kernel kills every process inside before the init can be reaped.
            os.kill(init, signal.SIGKILL)
            os.waitpid(init, 0)
            return


def be_init(call: Call, control: int, bond: int, ready: int, ids: tuple[int, int] | None) -> int:
    """Run as pid 1 of the namespace: set it up, run the call, reap; return the exit code."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        if ids is not None:
            map_ids(*ids, as_root=not call.powerless)
        # Mounts and unmounts of the host propagate here; ours do not propagate to the host.
        mount(b"none", b"/", None, MS_REC | MS_SLAVE)
        # The name tells a process inside where it is, whatever it does to its environment and its parents.
        name = MOUNT.encode() + os.environb.get(b"UNDERSTUDY_DELEGATION", b"")
        mount(name, b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        if call.covers:
            cover(call.covers)
        if call.read_only:
            allow_writing(call.writable)
    except OSError as error:
        os.write(ready, f"{error.filename or 'namespace'}: {error.strerror}".encode("ascii", "replace"))
        return 1
    prctl(PR_SET_DUMPABLE, 0)  # the program runs as the same user and must not trace the init
    os.write(ready, b"ready")
    os.close(ready)
    wake = watch_signals()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # these come from inside; the guardian uses SIGKILL
    program = launch(call, control, reason="", reached="namespace")
    close_standard_streams()
    if program:
        supervise(program, NamespaceTree(), control, wake, bond=bond, bounds=call.bounds)
    return 0
