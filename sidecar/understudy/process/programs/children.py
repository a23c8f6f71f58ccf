"""Run guarded children: start a program, exchange data with it, and end it with everything it started.

    async with await start(Program(argv, tree, base_environment(), access, mark=delegation_id)) as child:
        async for line in child.stdout_lines():
            ...
        exit = await child.wait()

The whole tree ends when the block is left, ``wait`` is cancelled, the last reference is dropped, or this process dies.
Standard error is always drained. Standard output waits for its reader, and so does the child when pipe and buffer are
full.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from understudy.model.confinement import Confinement, Sandbox
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process import identity
from understudy.process.call_checks import base_environment, check_call, start_failure
from understudy.process.guardian.linux import LINUX, children_of
from understudy.process.guardian.marked_processes import CHILD_MARK, MARK
from understudy.process.guardian.owner import LEVELS, Exit, GuardianProcess, encode_call
from understudy.process.identity import Identity
from understudy.process.pipes import CappedFile, Input, Output, Tail
from understudy.process.program_spec import AccessProfile, Program, Role, failed_at_file, limit_error
from understudy.process.unguarded import Completed

__all__ = ["Child", "Completed", "Exit", "run", "start"]
MAX_LINE_BYTES = 16 * 1024 * 1024
"""Default limit of one line of output: agent CLIs put a whole tool result, images included, on one line."""
STDERR_TAIL_BYTES = 64 * 1024
"""How many bytes of standard error are kept for messages."""
_OUTPUT_PIPE_BYTES = 512 * 1024
"""A prompt of 256 KiB that a program repeats fits. Not more: the kernel limits the sum of a user's pipes."""
_BEYOND_GRACE_SECONDS = 0.5
"""A guardian that has not finished this long after the grace period is killed itself."""
_PROBE_SECONDS = 20.0
_RUN_GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL when ``run`` reaches its time limit."""


class Child:
    """A running program and everything it started, created by ``start``."""

    def __init__(
        self, started: Program, guard: GuardianProcess, guardian: Identity, stdout: Output, stderr: Tail
    ) -> None:
        """Store what ``start`` has set up."""
        self.started = started
        """What was started."""
        self._guard = guard
        self._stdout = stdout
        self._stderr = stderr
        self.guardian = guardian
        """The guardian's identity: ending it ends the tree (see the table in the package's docstring)."""
        self.stdin: Input | None = None
        """With ``keep_stdin``: ``await write(bytes)`` waits until the program reads, ``close()`` ends the input."""
        self.terminal: TerminalInput | None = None
        """With ``terminal``: the program's terminal, for what is typed, and its size."""
        self.last_line_complete = True
        """After ``stdout_lines``: whether the last line ended with a newline, or the program died inside it."""

    @property
    def sandbox(self) -> Sandbox:
        """The requested isolation, and the level that this machine could provide."""
        return self._guard.sandbox

    @property
    def refusal(self) -> str:
        """Why the requested isolation was not reached; empty when it was."""
        return self._guard.reason

    @property
    def ended(self) -> Exit | None:
        """How the program ended, or ``None`` while it runs."""
        return self._guard.exited.result() if self._guard.exited.done() else None

    def limit_error(self, stdout: bytes = b"") -> UnderstudyError | None:
        """Return the error for a tree that was ended because it exceeded a limit of its program, or failed at one.

        ``stdout`` is the end of its output, where some programs report why they failed.
        """
        ended = self.ended
        if ended is None:
            return None
        exceeded = ended.exceeded
        if not exceeded and ended.code and failed_at_file(self.started, self.stderr_tail(), stdout):
            exceeded = "file"
        return limit_error(self.started, exceeded) if exceeded else None

    @property
    def program(self) -> Identity | None:
        """The program itself: not its guardian, and nothing it started. None if it has ended, or without ``/proc``."""
        pid = self.guardian.pid
        # The first process of a namespace is between the two. A process lists its oldest child first; orphans follow.
        for _ in range(2 if self.sandbox.reached is Confinement.NAMESPACE else 1):
            pid = next(iter(children_of(pid)), 0) if LINUX else 0
        return identity.of(pid)

    async def stdout_lines(self, max_line_bytes: int = MAX_LINE_BYTES) -> AsyncIterator[bytes]:
        """Yield each line of standard output without its newline, as raw bytes that may not be valid UTF-8.

        A last line without a newline is yielded too (see ``last_line_complete``). Raises ``malformed_output`` for a
        line above the limit. Only one reader at a time is allowed. Cancelling the wait for a line loses no data.
        """
        while (read := await self._stdout.read_line(max_line_bytes)) is not None:
            line, self.last_line_complete = read
            yield line

    async def read_stdout(self, size: int = 65536) -> bytes:
        """Return up to ``size`` bytes of standard output as soon as some are available; ``b""`` at its end."""
        return await self._stdout.read(size)

    def stderr_tail(self) -> bytes:
        """Return the last bytes of standard error."""
        return self._stderr.bytes()

    async def wait(self) -> Exit:
        """Wait until the program and everything it started have ended. Cancelling this wait ends the tree.

        Read standard output at the same time, or the program may block on a full pipe.
        """
        try:
            return await asyncio.shield(self._guard.exited)
        except asyncio.CancelledError:
            self._guard.release()
            raise

    async def end(self, grace_seconds: float) -> Exit:
        """End the tree: SIGTERM to every process, SIGKILL after the grace period; with 0, SIGKILL at once.

        Returns within the grace period and one second. Ending it again returns the same ``Exit``.
        """
        exited = self._guard.exited
        try:
            self._guard.end(grace_seconds)
            await asyncio.wait([exited], timeout=grace_seconds + _BEYOND_GRACE_SECONDS)
            # A guardian that is stopped or starved is killed; the kernel, or ``kill_leftovers``, then ends the tree.
            if not exited.done():
                self._guard.kill()
            return await asyncio.shield(exited)
        except asyncio.CancelledError:
            self._guard.release()
            raise

    def close(self) -> None:
        """End the tree without waiting for it, and stop reading. Callable from any thread and more than once."""
        self._guard.release()
        self._stdout.release()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the tree, and wait until it has ended."""
        try:
            await self.end(0)
        finally:
            self.close()

    def __del__(self) -> None:
        """End a tree that is no longer referenced."""
        self.close()


_observer: Callable[[Identity, bool], None] | None = None
_nothing_is_hidden: str | None = None
"""Why no folder can be hidden; None: not asked yet."""


def on_child_change(observer: Callable[[Identity, bool], None] | None) -> None:
    """Call ``observer`` with each guardian of this process: True when its program runs, False when it has ended.

    A worker records the guardians in its lock, so that other processes can end them after it was killed.
    """
    global _observer  # noqa: PLW0603 - one observer per process: the worker
    _observer = observer


async def start(program: Program) -> Child:
    """Start a program under a guardian and return it once it runs. Callable from any thread.

    Raises ``tool_missing``, ``permission_denied``, ``invalid_params`` (no such folder, a NUL, arguments too long),
    ``overloaded`` (no descriptors, processes or memory left), ``tool_crashed``, ``isolation_unavailable`` (a level
    or a restriction that this version cannot hold), ``state_unavailable`` (a log file).
    """
    child, _ = await _start(program)
    return child


async def why_nothing_is_hidden() -> str:
    """Return why this machine cannot hide folders from a program; empty if it can. It is asked only once."""
    global _nothing_is_hidden  # noqa: PLW0603 - one machine
    if _nothing_is_hidden is None:
        access = AccessProfile(Role.UNDERSTUDY, hidden=(Path(__file__).parent,))
        program = Program([sys.executable, "-I", "-S", "-c", ""], Path("/"), base_environment(), access)
        try:
            await run(program, timeout_seconds=_PROBE_SECONDS)
            _nothing_is_hidden = ""
        except UnderstudyError as error:
            if error.kind is not ErrorKind.ISOLATION_UNAVAILABLE:
                raise
            _nothing_is_hidden = error.message
    return _nothing_is_hidden


async def run(
    program: Program,
    *,
    timeout_seconds: float,
    output_limit: int = 1024 * 1024,
    started: Callable[[Identity | None], None] | None = None,
) -> Completed:
    """Run a program under a guardian until it ends and return its output; at the limit, end its tree (``timed_out``).

    The last ``output_limit`` bytes of each stream are kept. A tree that exceeds a limit of the program is killed
    (``limit_error``). ``started`` is called with the identity of the program once it runs (None as in
    ``Child.program``). Raises as ``start`` does. Cancelling ends the tree.
    """
    began = time.monotonic()
    tail = Tail(output_limit)
    child, stdout = await _start(program, stdout_tail=tail, stderr_limit=output_limit)
    async with child:
        if started is not None:
            started(child.program)
        timed_out = False
        try:
            async with asyncio.timeout(timeout_seconds - (time.monotonic() - began)):
                # Not ``wait``, whose cancellation would end the tree without a grace period.
                ended = await asyncio.shield(child._guard.exited)  # noqa: SLF001 - made a few lines above
        except TimeoutError:
            timed_out = True
            ended = await child.end(_RUN_GRACE_SECONDS)
        await asyncio.wait([stdout.closed], timeout=1.0)
        return Completed(
            code=ended.code,
            signal=ended.signal,
            stdout=tail.bytes(),
            stderr=child.stderr_tail(),
            stdout_bytes=tail.total,
            timed_out=timed_out,
            seconds=time.monotonic() - began,
            leftovers=ended.leftovers,
            sandbox=ended.sandbox,
            limit_error=child.limit_error(tail.bytes()),
        )


async def _start(
    started: Program, *, stdout_tail: Tail | None = None, stderr_limit: int = STDERR_TAIL_BYTES
) -> tuple[Child, Output]:
    program = check_call(started.argv, started.cwd, started.environment)
    asked, cwd = started.confinement, started.cwd
    access = started.access
    if asked not in LEVELS or access.readable is not None or (asked is Confinement.NONE and access.restricted):
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{program!r} cannot be started in the sandbox {asked.value!r}: this version does not support it.",
            hint="Use `namespace` or `none`.",
        )
    loop = asyncio.get_running_loop()
    guard = GuardianProcess(asked)
    errors = Tail(stderr_limit)
    feeder: Input | None = None
    try:
        # A failed start closes our ends, which ends the guardian. The child's ends are closed once the guardian has
        # them.
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            try:
                control, far_control = socket.socketpair()
                ours.callback(control.close)
                theirs.callback(far_control.close)
                control.setblocking(False)
                in_write: FileIO | None = None
                in_read: FileIO | None = None
                err_read, err_write = _pipe(ours, theirs)
                if started.terminal is not None:
                    out_read, in_write, out_write = _terminal(ours, theirs, started.terminal)
                    in_read = err_write = out_write
                else:
                    out_read, out_write = _pipe(ours, theirs)
                    _enlarge(out_write)
                    if started.join_output:
                        err_write = out_write
                    if started.stdin is not None or started.keep_stdin:
                        in_read, in_write = _pipe(theirs, ours)
                stdout_log = _log(started.stdout_log, started.log_cap_bytes, ours)
                stderr_log = _log(started.stderr_log, started.log_cap_bytes, ours)
                stdin = subprocess.DEVNULL if in_read is None else in_read.fileno()
                guardian = guard.spawn(far_control, started.mark, stdin, out_write.fileno(), err_write.fileno())
                theirs.close()
                transport, _ = await loop.create_unix_connection(lambda: guard, sock=control)
                ours.callback(transport.abort)
                out_pipe, stdout = await loop.connect_read_pipe(lambda: Output(stdout_tail, stdout_log), out_read)
                ours.callback(out_pipe.close)
                err_pipe, stderr = await loop.connect_read_pipe(lambda: Output(errors, stderr_log), err_read)
                ours.callback(err_pipe.close)
                if in_write is not None:
                    kind = Input if started.terminal is None else TerminalInput
                    _, feeder = await loop.connect_write_pipe(kind, in_write)
                    # Not the transport's own method, which raises after the guardian has closed the other end.
                    ours.callback(feeder.abort)
            except OSError as error:
                raise start_failure(error.errno or 0, program, cwd, step="fork") from error
            transport.write(encode_call(program, started, {MARK: started.mark, CHILD_MARK: guard.child_mark}))
            await guard.started(program, cwd)
            ours.pop_all()
    except BaseException:
        await guard.gone()
        raise
    guard.exited.add_done_callback(lambda _: _close_pipes(stdout, stderr, feeder))
    if _observer is not None:
        _observer(guardian, True)  # True: the program runs
        observer = _observer
        guard.exited.add_done_callback(lambda _: observer(guardian, False))
    child = Child(started, guard, guardian, stdout, errors)
    if isinstance(feeder, TerminalInput):
        child.terminal = feeder
    elif feeder:
        feeder.feed(started.stdin or b"")
        if started.keep_stdin:
            child.stdin = feeder
        else:
            feeder.close()
    return child, stdout


_closing: set[asyncio.Task[None]] = set()
"""Keeps the tasks below alive: the event loop holds only weak references to tasks."""


def _close_pipes(stdout: Output, stderr: Output, feeder: Input | None) -> None:
    """Close the pipes of a tree that has ended, after their contents have been read."""
    if feeder:
        feeder.abort()
    for stream in (stdout, stderr):
        task = asyncio.get_running_loop().create_task(stream.drain_and_close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


def _pipe(reads: contextlib.ExitStack, writes: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """Return a new pipe; each stack closes one end."""
    read_end, write_end = os.pipe()
    return (
        reads.enter_context(FileIO(read_end, "rb")),
        writes.enter_context(FileIO(write_end, "wb")),
    )


def _terminal(
    ours: contextlib.ExitStack, theirs: contextlib.ExitStack, size: tuple[int, int]
) -> tuple[FileIO, FileIO, FileIO]:
    """Return a new terminal: our end for reading and for writing, and the child's end."""
    master, slave = open_terminal(*size)
    child_end = theirs.enter_context(FileIO(slave, "r+b"))
    reads = ours.enter_context(FileIO(master, "rb"))
    return reads, ours.enter_context(FileIO(os.dup(master), "wb")), child_end


def _enlarge(pipe: FileIO) -> None:
    """Let a pipe take more than 64 KiB at once, where that is possible.

    A program on Node that calls ``process.exit`` loses what its output has not taken yet, which may be its result.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # the pipes of this user have too many pages already
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _OUTPUT_PIPE_BYTES)


def _log(path: Path | None, cap_bytes: int, stack: contextlib.ExitStack) -> CappedFile | None:
    if path is None:
        return None
    log = CappedFile(path, cap_bytes)
    stack.callback(log.close)
    return log


def open_terminal(rows: int, columns: int) -> tuple[int, int]:
    """Return the owner's end and the child's end of a new terminal (pty(7)) of this size; raises ``OSError``."""
    ours, theirs = os.openpty()
    resize(ours, rows, columns)
    return ours, theirs


def resize(descriptor: int, rows: int, columns: int) -> None:
    """Set the size; the kernel tells the terminal's foreground processes (SIGWINCH)."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class TerminalInput(Input):
    """The child's terminal, as the user types into it."""

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; nothing happens after the terminal's end."""
        if self._transport is not None and not self._transport.is_closing():
            resize(self._transport.get_extra_info("pipe").fileno(), rows, columns)
