"""The owner's side of a guardian: start it, send it the call, read how the program ended.

Nothing here refers to ``Child``: the event loop keeps these objects alive, and a ``Child`` that is dropped must still
be garbage-collected, because its collection closes the socket, which ends the tree.
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
from collections.abc import Mapping
from pathlib import Path

import msgspec

from understudy.model.confinement import Confinement, Sandbox
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.process import identity
from understudy.process.call_checks import start_failure
from understudy.process.guardian import SIGN
from understudy.process.guardian.marked_processes import CHILD_MARK, MARK, kill_leftovers
from understudy.process.program_spec import Exceeded, Program

_START_SECONDS = 20.0
"""A guardian answers after about 30 ms; a machine that needs longer than this cannot run an agent."""

_SWEEP_SECONDS = 0.3
"""Limit of the search for survivors of a killed guardian; part of the second that ``end`` promises."""

_LAST_RECORD_SECONDS = 1.0
"""How long to wait for the last record of a guardian that ended; it takes one iteration of the event loop."""

_RECORD_BYTES = 4096
"""A guardian's records are below 200 bytes."""

_PROGRAM = (
    # Imported, not run as a script, because only an import uses the compiled file, which saves 6 ms at each start.
    f"import sys; sys.path.append({str(Path(__file__).absolute().parents[1])!r}); "
    f"{SIGN}; import os; program.main(int(sys.argv[1])); os._exit(0)"
)


LEVELS = frozenset(
    {Confinement.NONE, *(level for level in Confinement if Path(__file__).with_name(f"{level.value}.py").is_file())}
)
"""The levels of isolation that there are: each is a file here, named after its value."""


class Exit(msgspec.Struct, frozen=True):
    """How a program ended.

    ``code`` or ``signal`` is set, or neither if the guardian was killed before the program ended. ``leftovers``: how
    many other processes were still alive then and were killed. ``sandbox``: their isolation. ``exceeded``: the limit
    for which they were killed.
    """

    code: int | None
    signal: int | None
    leftovers: int
    sandbox: Sandbox
    exceeded: Exceeded = ""


class _Record(msgspec.Struct, frozen=True):
    event: str
    reached: Confinement = Confinement.NONE
    reason: str = ""
    errno: int = 0
    step: str = "exec"
    code: int | None = None
    signal: int | None = None
    leftovers: int = 0
    exceeded: Exceeded = ""


class GuardianProcess(asyncio.Protocol):
    """One guardian process and the socket to it."""

    def __init__(self, asked: Confinement) -> None:
        """Prepare a guardian; ``spawn`` starts its process."""
        loop = asyncio.get_running_loop()
        self.child_mark = uuid.uuid4().hex
        self.sandbox = Sandbox(asked, Confinement.NONE)
        self.reason = ""
        self.first: asyncio.Future[_Record | None] = loop.create_future()
        self.exited: asyncio.Future[Exit] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
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
        # It is our child and not reaped yet, so its pid cannot have been reused.
        return identity.of(self._process.pid) or identity.Identity(self._process.pid, -1, identity.boot_id())

    def end(self, grace_seconds: float) -> None:
        """Request SIGTERM for all processes, and SIGKILL after the grace period."""
        if self._transport and not self._transport.is_closing():
            self._transport.write(b"E%d\n" % max(0, int(grace_seconds * 1000)))

    def release(self) -> None:
        """Close the socket: the guardian kills everything and ends. Safe from any thread and more than once."""
        if self._transport is None or self.exited.done():
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its sockets with it
            self._loop.call_soon_threadsafe(self._transport.abort)

    def kill(self) -> None:
        """Kill the guardian itself, when it does not respond."""
        if self._process and self._process.returncode is None:
            self._process.kill()

    async def started(self, program: str, cwd: Path) -> None:
        """Wait until the program runs; raise a typed error if it does not start."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                record = await asyncio.shield(self.first)
        except TimeoutError:
            self.kill()
            raise start_failure(errno.EAGAIN, program, cwd, step="fork") from None
        if record is None:
            raise UnderstudyError(
                ErrorKind.TOOL_CRASHED,
                f"The process that supervises {program!r} ended before it could start it.",
                hint="It was killed, or Understudy's Python is damaged. Try again, then run `understudy doctor`.",
            )
        if record.event == "refused":
            raise UnderstudyError(
                ErrorKind.ISOLATION_UNAVAILABLE,
                f"{program!r} was not started, because its access cannot be restricted here: {record.reason}.",
                hint="Allow user namespaces, in a container those of the host, too.",
            )
        if record.event == "failed":
            raise start_failure(record.errno, program, cwd, step=record.step)
        self.sandbox, self.reason = Sandbox(self.sandbox.asked, record.reached), record.reason

    async def gone(self) -> None:
        """Wait until a guardian whose socket was closed has been reaped; return at once when there is none."""
        if self._process:
            await asyncio.wait([self.exited], timeout=_LAST_RECORD_SECONDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the socket."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read the guardian's records."""
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
        """Close our end too; the end of the process is watched separately."""
        self._no_more_records()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason makes no difference
        """Note that no more records will arrive."""
        self._no_more_records()

    def _no_more_records(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        if not self.first.done():
            self.first.set_result(None)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Arrange for the process to be reaped when it ends, whether or not this object is still referenced."""
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
        """Turn the guardian's end into an ``Exit``; when it was killed, kill its leftover processes."""
        # Its last record may still be in the socket, whose other end is closed.
        await asyncio.wait([self._closed], timeout=_LAST_RECORD_SECONDS)
        last, leftovers = self._last, 0
        if last is None and self._process and self._process.returncode != 0:
            with contextlib.suppress(RuntimeError):  # the loop is shutting down and cannot start a thread
                leftovers = await asyncio.to_thread(
                    kill_leftovers, self.child_mark, name=CHILD_MARK, limit_seconds=_SWEEP_SECONDS
                )
        if self._transport:
            self._transport.abort()
        if not self.exited.done():
            if last is None:
                self.exited.set_result(Exit(None, None, leftovers, self.sandbox))
            else:
                self.exited.set_result(Exit(last.code, last.signal, last.leftovers, self.sandbox, last.exceeded))


def encode_call(path: str, program: Program, marks: Mapping[str, str]) -> bytes:
    """Return the frame for a guardian: eight bytes of length, then the fields, joined by NULs."""
    limits, access = program.limits, program.access
    rlimits = [f"{name}={value}" for name, value in limits.rlimits().items()]
    writable = [str(folder) for folder in access.writable or ()]
    fields = [program.confinement.value, path, str(program.cwd), str(limits.memory_bytes), str(limits.processes)]
    fields += ["" if access.writable is None else "read-only", "network" if access.network else ""]
    covers = [f"{cover}{path}" for path, cover in access.covers()]
    for group in (rlimits, writable, covers, program.argv):
        fields += [str(len(group)), *group]
    fields += [f"{name}={value}" for name, value in {**program.environment, **marks}.items()]
    body = b"\0".join(os.fsencode(field) for field in fields)
    return len(body).to_bytes(8, "big") + body
