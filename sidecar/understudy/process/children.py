"""Guarded children: start a program, talk to it, and be sure of its end.

    async with await start(argv, cwd=tree, env=base_environment(), mark=delegation_id) as child:
        async for line in child.stdout_lines():
            ...
        exit = await child.wait()

Leaving the block, cancelling ``wait``, dropping the last reference, or dying in any way ends the whole tree. Standard
error is always drained; standard output waits for its reader, and so does the child once pipe and buffer are full.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from understudy.process.failures import check_call, start_failure
from understudy.process.guard import Exit, Guard, encode_call
from understudy.process.identity import Identity
from understudy.process.pipes import CappedFile, Input, Output, Tail
from understudy.process.short import Completed, run_short
from understudy.process.sweep import CHILD_MARK, MARK

__all__ = ["Child", "Completed", "Exit", "run", "run_short", "start"]

MAX_LINE_BYTES = 16 * 1024 * 1024
"""The default bound on one line of output: agent CLIs put a whole tool result, images included, into one line."""

STDERR_TAIL_BYTES = 64 * 1024
"""How much of standard error is kept for messages."""

FILE_CAP_BYTES = 32 * 1024 * 1024
"""How much of a stream goes into its log file."""

_BEYOND_GRACE_SECONDS = 0.5
"""When a guardian has not finished so long after the grace, it is killed itself."""

_RUN_GRACE_SECONDS = 2.0
"""What ``run`` grants between SIGTERM and SIGKILL after its limit."""


class Child:
    """A running program and everything it started. Made by ``start``."""

    def __init__(self, guard: Guard, guardian: Identity, stdout: Output, stderr: Tail) -> None:
        """Take over what ``start`` has set up."""
        self._guard = guard
        self._stdout = stdout
        self._stderr = stderr
        self.guardian = guardian
        """The guardian's identity: ending it ends the tree (see the table in the room's docstring)."""
        self.stdin: Input | None = None
        """With ``keep_stdin``: ``await write(bytes)``, which waits while the program is behind, and ``close()``."""
        self.last_line_complete = True
        """After ``stdout_lines``: whether the last line had its end, or the program died in the middle of it."""

    @property
    def namespaced(self) -> bool:
        """Whether the tree runs in a PID namespace, which nothing can leave."""
        return self._guard.namespaced

    @property
    def why_not_namespaced(self) -> str:
        """What refused the namespace; empty when there is one."""
        return self._guard.reason

    @property
    def ended(self) -> Exit | None:
        """How it ended, or ``None`` while it runs."""
        return self._guard.exited.result() if self._guard.exited.done() else None

    async def stdout_lines(self, max_line_bytes: int = MAX_LINE_BYTES) -> AsyncIterator[bytes]:
        """Yield each line of standard output without its end; the bytes are as written, valid UTF-8 or not.

        A last line without an end is yielded too (see ``last_line_complete``). Raises ``malformed_output`` for
        a line longer than the bound. One reader at a time. Cancelling the wait for a line harms nothing.
        """
        while (read := await self._stdout.read_line(max_line_bytes)) is not None:
            line, self.last_line_complete = read
            yield line

    async def read_stdout(self, size: int = 65536) -> bytes:
        """Return up to ``size`` bytes of standard output as soon as there are some; ``b""`` at its end."""
        return await self._stdout.read(size)

    def stderr_tail(self) -> bytes:
        """Return the last of what came on standard error."""
        return self._stderr.bytes()

    async def wait(self) -> Exit:
        """Wait until the program has ended and nothing it started lives. Cancelling this wait ends the tree.

        Somebody must read standard output meanwhile, or the program may wait for that for ever.
        """
        try:
            return await asyncio.shield(self._guard.exited)
        except asyncio.CancelledError:
            self._guard.let_go()
            raise

    async def end(self, grace_seconds: float) -> Exit:
        """End the tree: SIGTERM to everybody, SIGKILL after the grace; at once with a grace of 0.

        Returns within the grace and one second. Ending what has ended returns the same ``Exit`` again.
        """
        exited = self._guard.exited
        try:
            self._guard.end(grace_seconds)
            await asyncio.wait([exited], timeout=grace_seconds + _BEYOND_GRACE_SECONDS)
            if not exited.done():  # stopped or starved: the kernel, or the sweep that follows, does its work
                self._guard.kill()
            return await asyncio.shield(exited)
        except asyncio.CancelledError:
            self._guard.let_go()
            raise

    def close(self) -> None:
        """End the tree without waiting for it, and read no more; from any thread, more than once is fine."""
        self._guard.let_go()
        self._stdout.let_go()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what still runs, and wait until it has."""
        try:
            await self.end(0)
        finally:
            self.close()

    def __del__(self) -> None:
        """End the tree that nobody can ask for any more."""
        self.close()


_observer: Callable[[Identity, bool], None] | None = None


def observe(observer: Callable[[Identity, bool], None] | None) -> None:
    """Have each guardian of this process reported: with True when its program runs, with False when it has ended.

    Whoever owns a run keeps the list where others find it, so that they can end what is left after a kill.
    """
    global _observer  # noqa: PLW0603 - one owner per process: a worker
    _observer = observer


async def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    mark: str,
    stdin: bytes | None = None,
    keep_stdin: bool = False,
    own_namespace: bool = True,
    stdout_file: Path | None = None,
    stderr_file: Path | None = None,
    file_cap_bytes: int = FILE_CAP_BYTES,
) -> Child:
    """Start ``argv`` in ``cwd`` under a guardian and return it once it runs.

    ``env`` is the whole environment (see ``base_environment``); marks are added. ``stdin``: ``None`` is ``/dev/null``,
    bytes are written in the background and then the input ends; ``keep_stdin`` leaves it open as ``Child.stdin``, after
    those bytes. ``own_namespace=False`` does without a PID namespace even where there could be one. Output is also
    written to the given files, 0600, up to the cap and then a marker. The program may be started from any thread.

    Raises ``tool_missing``, ``permission_denied``, ``invalid_params`` (no such folder, a NUL, arguments too long),
    ``overloaded`` (no descriptors, processes or memory left), ``tool_crashed``, ``store_unavailable`` (a log file).
    """
    streams = _Streams(stdin, keep_stdin, stdout_file, stderr_file, file_cap_bytes)
    child, _ = await _start(argv, cwd, env, mark, streams, own_namespace=own_namespace)
    return child


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    mark: str,
    timeout_seconds: float,
    stdin: bytes | None = None,
    output_limit: int = 1024 * 1024,
    own_namespace: bool = True,
) -> Completed:
    """Run ``argv`` to its end under a guardian and return what it said; at the limit its tree is ended (``timed_out``).

    Of each stream the last ``output_limit`` bytes are kept. Raises as ``start`` does. Cancelling ends the tree.
    """
    began = time.monotonic()
    tail = Tail(output_limit)
    streams = _Streams(stdin, stdout_tail=tail, stderr_limit=output_limit)
    child, stdout = await _start(argv, cwd, env, mark, streams, own_namespace=own_namespace)
    async with child:
        timed_out = False
        try:
            async with asyncio.timeout(timeout_seconds - (time.monotonic() - began)):
                # Not ``wait``, whose cancellation would end the tree without grace.
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
        )


class _Streams(msgspec.Struct, frozen=True):
    """Where the standard streams lead."""

    stdin: bytes | None = None
    keep_stdin: bool = False
    stdout_file: Path | None = None
    stderr_file: Path | None = None
    file_cap_bytes: int = FILE_CAP_BYTES
    stdout_tail: Tail | None = None
    stderr_limit: int = STDERR_TAIL_BYTES


async def _start(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], mark: str, streams: _Streams, *, own_namespace: bool
) -> tuple[Child, Output]:
    program = check_call(argv, cwd, env)
    loop = asyncio.get_running_loop()
    guard = Guard()
    errors = Tail(streams.stderr_limit)
    feeder: Input | None = None
    try:
        # What is ours is closed when the start fails, which ends the guardian; what is theirs once the guardian has it.
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            try:
                control, far_control = socket.socketpair()
                ours.callback(control.close)
                theirs.callback(far_control.close)
                control.setblocking(False)
                out_read, out_write = _pipe(ours, theirs)
                err_read, err_write = _pipe(ours, theirs)
                in_write: FileIO | None = None
                in_read: FileIO | None = None
                if streams.stdin is not None or streams.keep_stdin:
                    in_read, in_write = _pipe(theirs, ours)
                stdout_log = _log(streams.stdout_file, streams.file_cap_bytes, ours)
                stderr_log = _log(streams.stderr_file, streams.file_cap_bytes, ours)
                stdin = subprocess.DEVNULL if in_read is None else in_read.fileno()
                guardian = guard.spawn(far_control, mark, stdin, out_write.fileno(), err_write.fileno())
                theirs.close()
                transport, _ = await loop.create_unix_connection(lambda: guard, sock=control)
                ours.callback(transport.abort)
                out_pipe, stdout = await loop.connect_read_pipe(
                    lambda: Output(streams.stdout_tail, stdout_log), out_read
                )
                ours.callback(out_pipe.close)
                err_pipe, stderr = await loop.connect_read_pipe(lambda: Output(errors, stderr_log), err_read)
                ours.callback(err_pipe.close)
                if in_write is not None:
                    in_pipe, feeder = await loop.connect_write_pipe(Input, in_write)
                    ours.callback(in_pipe.abort)
            except OSError as error:
                raise start_failure(error.errno or 0, program, cwd, step="fork") from error
            environment = {**env, MARK: mark, CHILD_MARK: guard.child_mark}
            transport.write(encode_call(program, argv, cwd, environment, own_namespace=own_namespace))
            await guard.started(program, cwd)
            ours.pop_all()
    except BaseException:
        await guard.gone()
        raise
    guard.exited.add_done_callback(lambda _: _settle(stdout, stderr, feeder))
    if _observer is not None:
        _observer(guardian, True)  # the second argument: it lives
        told = _observer
        guard.exited.add_done_callback(lambda _: told(guardian, False))
    child = Child(guard, guardian, stdout, errors)
    if feeder:
        feeder.feed(streams.stdin or b"")
        if streams.keep_stdin:
            child.stdin = feeder
        else:
            feeder.close()
    return child, stdout


_settling: set[asyncio.Task[None]] = set()
"""Keeps the tasks below alive: the event loop itself holds a task only weakly."""


def _settle(stdout: Output, stderr: Output, feeder: Input | None) -> None:
    """Close the pipes of a tree that has ended, once what is in them has been read."""
    if feeder:
        feeder.abort()
    for stream in (stdout, stderr):
        task = asyncio.get_running_loop().create_task(stream.settle())
        _settling.add(task)
        task.add_done_callback(_settling.discard)


def _pipe(reads: contextlib.ExitStack, writes: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """Return a new pipe, each end in the care of its own stack."""
    read_end, write_end = os.pipe()
    return (
        reads.enter_context(FileIO(read_end, "rb")),
        writes.enter_context(FileIO(write_end, "wb")),
    )


def _log(path: Path | None, cap_bytes: int, stack: contextlib.ExitStack) -> CappedFile | None:
    if path is None:
        return None
    log = CappedFile(path, cap_bytes)
    stack.callback(log.close)
    return log
