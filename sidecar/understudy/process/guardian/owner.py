"""The owner's side of a guardian: start it, hand it the call, hear how it ended.

Nothing here refers to ``Child``: the event loop keeps these objects, so a forgotten ``Child`` can be collected, and its
collection closes the socket, which ends the tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.process import identity
from understudy.process.failures import start_failure
from understudy.process.sweep import CHILD_MARK, MARK, sweep

_START_SECONDS = 20.0
"""A guardian answers after some 30 ms; a machine that needs longer than this is not going to run an agent."""

_SWEEP_SECONDS = 0.3
"""How long the search for survivors of a killed guardian may take: it is part of ``end``'s promised second."""

_LAST_WORDS_SECONDS = 1.0
"""How long the socket of an ended guardian may take to say so; it takes one turn of the event loop."""

_RECORD_BYTES = 4096
"""A guardian's records are below 200 bytes."""

_PROGRAM = (
    # Imported, not run as a script, because only an import uses the compiled file: 6 ms less at each start.
    f"import sys; sys.path.append({str(Path(__file__).absolute().parent)!r}); "
    "import guardian, os; guardian.main(int(sys.argv[1])); os._exit(0)"
)


class Exit(msgspec.Struct, frozen=True):
    """How a program ended.

    ``code`` or ``signal`` is set; neither when nobody saw it end because the guardian was killed. ``leftovers``: how
    many other processes were still alive then, and were killed. ``namespaced``: whether they could not have escaped.
    """

    code: int | None
    signal: int | None
    leftovers: int
    namespaced: bool


class _Record(msgspec.Struct, frozen=True):
    event: str
    namespaced: bool = False
    reason: str = ""
    errno: int = 0
    step: str = "exec"
    code: int | None = None
    signal: int | None = None
    leftovers: int = 0


class Guard(asyncio.Protocol):
    """One guardian process and the socket to it."""

    def __init__(self) -> None:
        """Begin before the process exists."""
        loop = asyncio.get_running_loop()
        self.child_mark = uuid.uuid4().hex
        self.namespaced = False
        self.reason = ""
        self.first: asyncio.Future[_Record | None] = loop.create_future()
        self.exited: asyncio.Future[Exit] = loop.create_future()
        self._silent: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._last: _Record | None = None
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._handle = -1
        self._conclusion: asyncio.Task[None] | None = None

    def spawn(self, control: socket.socket, mark: str, stdin: int, stdout: int, stderr: int) -> identity.Identity:
        """Start the guardian with these descriptors as its program's; raises ``OSError``."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(control.fileno())],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd="/",
            env={MARK: mark, CHILD_MARK: self.child_mark},
            pass_fds=[control.fileno()],
            start_new_session=True,
        )
        self._watch(self._process)
        # It is our child and not collected yet, so its pid is still its own.
        return identity.of(self._process.pid) or identity.Identity(self._process.pid, -1, identity.boot_id())

    def end(self, grace_seconds: float) -> None:
        """Ask for SIGTERM to all and SIGKILL after the grace."""
        if self._transport and not self._transport.is_closing():
            self._transport.write(b"E%d\n" % max(0, int(grace_seconds * 1000)))

    def let_go(self) -> None:
        """Close the socket: the guardian kills everything and ends. Safe from any thread and more than once."""
        if self._transport is None or self.exited.done():
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its sockets with it
            self._loop.call_soon_threadsafe(self._transport.abort)

    def kill(self) -> None:
        """Kill the guardian itself: the last resort when it does not answer."""
        if self._process and self._process.returncode is None:
            self._process.kill()

    async def started(self, program: str, cwd: Path) -> None:
        """Wait until the program runs; raises the typed reason why it does not."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                record = await asyncio.shield(self.first)
        except TimeoutError:
            self.kill()
            raise start_failure(errno.EAGAIN, program, cwd, step="fork") from None
        if record is None:
            raise UnderstudyError(
                ErrorKind.TOOL_CRASHED,
                f"The guardian of {program!r} ended before it could start it.",
                hint="It was killed, or Understudy's Python is damaged; try again, then run `understudy doctor`.",
            )
        if record.event == "failed":
            raise start_failure(record.errno, program, cwd, step=record.step)
        self.namespaced, self.reason = record.namespaced, record.reason

    async def gone(self) -> None:
        """Wait until a guardian whose socket was closed has been collected; at once when there is none."""
        if self._process:
            await asyncio.wait([self.exited], timeout=_LAST_WORDS_SECONDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the socket."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the guardian's records."""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError):
                record = msgspec.json.decode(line, type=ready(_Record))
                if record.event == "ended":
                    self._last = record
                if not self.first.done():
                    self.first.set_result(record)
        if len(self._received) > _RECORD_BYTES:
            self._received = b""

    def eof_received(self) -> bool:
        """Close our end too; the process's own end is watched separately."""
        self._fall_silent()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter: it is the end
        """Note that nothing more will be said."""
        self._fall_silent()

    def _fall_silent(self) -> None:
        if not self._silent.done():
            self._silent.set_result(None)
        if not self.first.done():
            self.first.set_result(None)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Arrange that the process is collected when it ends, whoever still holds this object."""
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._handle = os.pidfd_open(process.pid)
                self._loop.add_reader(self._handle, self._collect)
                return

        def wait() -> None:
            process.wait()
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._collect)

        threading.Thread(target=wait, name="guardian-watch", daemon=True).start()

    def _collect(self) -> None:
        if self._handle >= 0:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1
        if self._process:
            self._process.wait()
        self._conclusion = self._loop.create_task(self._conclude())

    async def _conclude(self) -> None:
        """Turn the guardian's end into an ``Exit``; where it was killed, end what it could not."""
        # Its last words may still be in the socket, and nobody is left to hold the other end open.
        await asyncio.wait([self._silent], timeout=_LAST_WORDS_SECONDS)
        last, leftovers = self._last, 0
        if last is None and self._process and self._process.returncode != 0:
            with contextlib.suppress(RuntimeError):  # the loop is shutting down and starts no thread any more
                leftovers = await asyncio.to_thread(
                    sweep, self.child_mark, name=CHILD_MARK, limit_seconds=_SWEEP_SECONDS
                )
        if self._transport:
            self._transport.abort()
        if not self.exited.done():
            if last is None:
                self.exited.set_result(Exit(None, None, leftovers, self.namespaced))
            else:
                self.exited.set_result(Exit(last.code, last.signal, last.leftovers, self.namespaced))


def encode_call(program: str, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, own_namespace: bool) -> bytes:
    """Return the frame a guardian expects: eight bytes of length, then the fields, joined by NULs."""
    fields = ["1" if own_namespace else "0", program, str(cwd), str(len(argv)), *argv]
    fields += [f"{name}={value}" for name, value in env.items()]
    body = b"\0".join(os.fsencode(field) for field in fields)
    return len(body).to_bytes(8, "big") + body
