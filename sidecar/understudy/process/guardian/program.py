"""Guardian program: own one process tree and end it with its owner.

``owner`` starts it as ``python -I -S`` with one socket, whose other end the owner keeps. It imports nothing else of
Understudy and little of the standard library, because one guardian runs beside every running program.

    owner ── socket ── guardian ── init (pid 1 of a namespace) ── program ── …      with a PID namespace
    owner ── socket ── guardian ── program ── …                                     without one

1. *The owner dies, in any way*: its end of the socket closes, and the guardian kills everything below it.
2. *The guardian dies*: the init gets SIGKILL as its parent-death signal, and its bond pipe closes; when the init of a
   PID namespace dies, the kernel kills every process inside (pid_namespaces(7)). Nothing inside can leave: not by
   setsid, not by a double fork, not by clearing its environment or its own parent-death signal.
3. *Without a namespace* the guardian is a subreaper (prctl(2)), so orphans become its children. It kills by walking:
   stop every descendant until no new one appears, kill them all, and repeat until no child is left.
4. *The program ends*: the guardian counts and kills its leftover processes.

Wire, owner to guardian: eight bytes of length and the call (``encode_call`` in ``owner``), then lines ``E<ms>``: send
SIGTERM to the whole tree, and SIGKILL after that many milliseconds. Guardian to owner: one JSON object per line,
``started`` or ``failed`` first, ``ended`` last; the end of the stream means that the guardian has ended.
"""

import os
import resource

from .linux import LINUX, PR_SET_CHILD_SUBREAPER, prctl
from .process_tree import (
    Call,
    DescendantTree,
    close_standard_streams,
    launch,
    receive,
    supervise,
    tell,
    watch_signals,
)


def main(control: int) -> None:
    """Receive the call, run it, and kill everything that outlives it."""
    os.set_inheritable(control, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    frame = receive_frame(control)
    if frame is None:
        return
    call = Call(frame)
    if LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = watch_signals()
    reason = "not asked for"
    if call.confinement != b"none":
        # Each level is a module with its name, which runs the call, or returns the reason why it cannot.
        reason = __import__(f"{__package__}.{call.confinement.decode()}", fromlist=["run"]).run(call, control, wake)
        if not reason:
            return
        if call.restricted:
            tell(control, f'{{"event":"refused","reason":"{reason}"}}')
            return
    program = launch(call, control, reason=reason, reached="none")
    close_standard_streams()
    if program:
        supervise(program, DescendantTree(program), control, wake, bond=None, bounds=call.bounds)


def receive_frame(control: int) -> bytes | None:
    """Return the frame with the call, or ``None`` when the owner is gone."""
    frame = b""
    parts: list[bytes] = []
    missing = 8
    for last in (False, True):
        parts = []
        while missing:
            part = receive(control, min(missing, 1 << 20))
            if not part:
                return None
            parts.append(part)
            missing -= len(part)
        frame = b"".join(parts)
        if not last:
            missing = int.from_bytes(frame, "big")
    return frame
