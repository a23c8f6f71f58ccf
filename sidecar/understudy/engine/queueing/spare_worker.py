"""Keep a worker ready: a process that has read its modules, and waits for the delegation that it is to run.

Starting Python and reading the modules takes a worker longer than everything else that it does before its agent
starts. So a process that lives long, such as a language server, starts its workers in advance, one at a time::

    owner ── socket ── spare        pid ─►   ◄─ order, lock, slot   ready ─►   ◄─ go

A spare is a detached process like every worker, and after ``go`` it is the worker of its delegation.

- The owner dies: the socket closes, and a spare without ``go`` exits. The delegation, if it was about to get one,
  waits again, as after the death of any worker that wrote nothing (``launcher``).
- The spare dies, does not answer in time, or has another environment than the owner has now: the owner ends it and
  starts a worker as usual. It cannot run the delegation later: it got no ``go``.
- Nothing is started within ten minutes: it exits.

The first one is started when a client looks at what a start would send, or after the first start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.journal import state_folder
from understudy.model.errors import UnderstudyError
from understudy.model.wire import ready
from understudy.process.failpoints import failpoint
from understudy.process.programs import detached

OPTION = "--spare"
IDLE_SECONDS = 600.0
"""How long a spare waits for an order: it holds about 35 MB."""
ANSWER_SECONDS = 1.0
"""How long each side waits for the other during a hand-over, which takes a millisecond."""
PAUSE_SECONDS = 3.0
"""How long after a start the next spare is started: not while an agent starts."""
_MESSAGE_BYTES = 4096
_READY, _GO = b"r", b"g"


class Order(msgspec.Struct, frozen=True):
    """What a worker is to run. Its descriptors, lock and slot, are sent beside it."""

    identifier: str
    slot: int | None = None
    only_check: bool = False

    def arguments(self, descriptors: Sequence[int]) -> list[str]:
        """Return the worker's arguments, with the numbers that its descriptors have in its process."""
        found = [self.identifier, str(descriptors[0])]
        if self.slot is not None:
            found.append(f"--slot={self.slot}:{descriptors[1]}")
        return [*found, "--check"] if self.only_check else found


def environment() -> dict[str, str]:
    """Return the environment of a worker: Understudy's own, because it resolves keys by name.

    Programs that it starts get an environment made from an allow-list.
    """
    return dict(os.environ) | {"UNDERSTUDY_STATE": str(state_folder.state_root())}


# -- the owner's side ------------------------------------------------------------------------------------------------


@dataclass
class _Spare:
    """A spare, as its owner sees it."""

    control: socket.socket
    environment: Mapping[str, str]
    process: int = -1
    """A handle of its process (pidfd), once it is ready."""

    def is_ready(self) -> bool:
        """Return whether it has read its modules and waits; raise ``OSError`` if it is gone."""
        if self.process >= 0:
            self._require_alive()
            return True
        try:
            said = self.control.recv(_MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        process = os.pidfd_open(int(said))
        try:
            self._require_alive()  # otherwise another process may have its number by now
        except OSError:
            os.close(process)
            raise
        self.process = process
        return True

    def _require_alive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if not self.control.recv(1, socket.MSG_DONTWAIT):
                raise BrokenPipeError

    def run(self, order: Order, descriptors: Sequence[int]) -> None:
        """Hand over the delegation; after an ``OSError`` the spare does not run it."""
        self.control.settimeout(ANSWER_SECONDS)
        socket.send_fds(self.control, [msgspec.json.encode(order)], descriptors)
        failpoint("order sent")
        if self.control.recv(1) != _READY:
            raise BrokenPipeError
        self.control.send(_GO)
        failpoint("handed over")

    def release(self) -> None:
        """Let it run what it was given; without ``go``, it exits."""
        self.control.close()
        if self.process >= 0:
            os.close(self.process)
            self.process = -1

    def kill(self) -> None:
        """End it, also if it hangs. One that is not ready exits when it sees that the socket is closed."""
        if self.process >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.process, signal.SIGKILL)
        self.release()


class _Keeper:
    """The spare of this process. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare: _Spare | None = None
        self._starting = False
        self.enabled = False

    def prepare(self, after_seconds: float) -> None:
        """Start a spare soon, in a thread, unless there is one."""
        with self._lock:
            if not self.enabled or self._starting or self._spare is not None:
                return
            self._starting = True
        timer = threading.Timer(after_seconds, self._start)
        timer.daemon = True
        timer.start()

    def hand_over(self, order: Order, descriptors: Sequence[int]) -> bool:
        """Let the spare run a delegation; return False if there is none, or it cannot."""
        with self._lock:
            spare = self._spare
            if spare is None:
                return False
            try:
                usable = spare.environment == environment()
                if usable and not spare.is_ready():
                    return False  # it is for a later start
            except (OSError, ValueError):
                usable = False
            self._spare = None
        if not usable:
            spare.kill()
            return False
        try:
            spare.run(order, descriptors)
        except OSError:
            spare.kill()
            return False
        spare.release()
        return True

    def is_preparing(self) -> bool:
        """Return whether a spare is being started and not ready yet."""
        with self._lock:
            try:
                return self._starting or (self._spare is not None and not self._spare.is_ready())
            except (OSError, ValueError):
                return False

    def stop(self) -> None:
        """End the spare, and start no other."""
        with self._lock:
            self.enabled = False
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.kill()

    def _start(self) -> None:
        with self._lock:
            if not self.enabled:  # stopped since the timer was set
                self._starting = False
                return
        ours, theirs = socket.socketpair()
        spare: _Spare | None = _Spare(ours, variables := environment())
        try:
            with theirs:
                detached.start_detached(
                    worker_command(OPTION, str(theirs.fileno())),
                    env=variables,
                    cwd=Path("/"),
                    pass_fds=(theirs.fileno(),),
                )
        except (UnderstudyError, OSError):
            ours.close()  # the next start meets the same problem, and reports it
            spare = None
        with self._lock:
            self._starting = False
            if self.enabled and spare is not None:
                self._spare, spare = spare, None
        if spare is not None:
            spare.kill()


_keeper = _Keeper()


def enable() -> None:
    """Let this process keep a worker ready; for those that live long."""
    _keeper.enabled = hasattr(os, "pidfd_open")


def prepare(after_seconds: float = 0.0) -> None:
    """Start a spare soon, if this process keeps one."""
    _keeper.prepare(after_seconds)


def hand_over(order: Order, descriptors: Sequence[int]) -> bool:
    """Let the spare run a delegation; return False if there is none, or it cannot. The caller keeps its descriptors."""
    return _keeper.hand_over(order, descriptors)


def is_preparing() -> bool:
    """Return whether a spare is being started and not ready yet."""
    return _keeper.is_preparing()


def stop() -> None:
    """End the spare of this process, and start no other."""
    _keeper.stop()


def worker_command(*arguments: str) -> list[str]:
    """Return the command that starts a worker process."""
    return [sys.executable, "-P", "-m", "understudy", "worker", *arguments]


# -- the spare's side ------------------------------------------------------------------------------------------------


def wait(descriptor: int) -> list[str] | None:
    """Wait for an order on the socket ``descriptor``, and return a worker's arguments; None: there is nothing to do."""
    with socket.socket(fileno=descriptor) as control:
        found: list[int] = []
        try:
            control.settimeout(IDLE_SECONDS)
            control.send(b"%d" % os.getpid())
            message, found, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 2)
            order = msgspec.json.decode(message, type=ready(Order))
            arguments = order.arguments(found)
            control.settimeout(ANSWER_SECONDS)
            control.send(_READY)
            if control.recv(1) == _GO:
                return arguments
        except (OSError, IndexError, msgspec.MsgspecError):
            pass  # the owner is gone, or waited too long
        for number in found:
            os.close(number)
    return None
