"""Start programs without a guardian: a short trusted one to its end, or one that outlives its parent.

A short program gets its own session and, at the limit, its process group is killed. That is enough for one that only
prints something; use ``children`` for everything that runs an agent's or a project's code.

Editors end the process tree of their language server. So a worker is started through an intermediate process that exits
at once: the worker's parent becomes init or the nearest subreaper, and the worker has its own session.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from understudy.model.confinement import Confinement, Sandbox
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import check_call, open_log, start_failure
from understudy.process.program_spec import Program

_AFTER_KILL_SECONDS = 0.5
"""How long a killed program may take to be reaped."""
SETSID = ("/usr/bin/setsid", "/bin/setsid")
"""setsid of util-linux; with ``--fork`` it is the intermediate. It takes 2 ms, a Python 15 ms."""
_INTERMEDIATE = (
    "import os,sys\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "try: os.execv(sys.argv[1], sys.argv[2:])\n"
    "except OSError as error: sys.stderr.write(f'cannot start {sys.argv[1]}: {error.strerror}\\n')\n"
    "finally: os._exit(127)\n"
)
_INTERMEDIATE_SECONDS = 10.0
"""Time limit of the intermediate, which only forks."""


class Completed(msgspec.Struct, frozen=True):
    """A program that ran to its end or to its time limit.

    ``code`` or ``signal`` as in ``Exit``. ``stdout`` and ``stderr`` are the last bytes of each stream; ``stdout_bytes``
    is how many there were, so ``stdout_bytes > len(stdout)`` means that the beginning is missing. ``seconds`` is wall
    time; ``leftovers`` counts processes that outlived the program and were killed (always 0 from ``run_unguarded``).
    ``limit_error`` is the error for a tree that was ended because it exceeded a limit of its program.
    """

    code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    timed_out: bool
    seconds: float
    leftovers: int
    sandbox: Sandbox
    limit_error: UnderstudyError | None = None


def run_unguarded(started: Program, *, timeout_seconds: float, output_limit: int = 64 * 1024) -> Completed:
    """Run a program with no input and return its output; at the limit its process group is killed (``timed_out``).

    Only its time is limited: its limits and level are for a guardian. Keeps the last ``output_limit`` bytes of each
    stream. Blocks, so use it in a thread or for quick commands. When it cannot start, raises ``tool_missing``,
    ``permission_denied``, ``invalid_params``, ``overloaded`` or ``tool_crashed``.
    """
    program = check_call(started.argv, started.cwd, started.environment)
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            started.argv,
            executable=program,
            cwd=started.cwd,
            env=dict(started.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise start_failure(error.errno or 0, program, started.cwd) from error
    tails = (bytearray(), bytearray())
    try:
        totals, in_time = _collect(process, tails, began + timeout_seconds, output_limit)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_AFTER_KILL_SECONDS)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
    code = process.returncode
    return Completed(
        code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stdout=bytes(tails[0][-output_limit:]),
        stderr=bytes(tails[1][-output_limit:]),
        stdout_bytes=totals[0],
        timed_out=not in_time,
        seconds=time.monotonic() - began,
        leftovers=0,
        sandbox=Sandbox(Confinement.NONE, Confinement.NONE),
    )


def _collect(
    process: subprocess.Popen[bytes], tails: tuple[bytearray, bytearray], deadline: float, limit: int
) -> tuple[list[int], bool]:
    """Read both streams to their end and wait for the program; return the totals and whether it ended in time."""
    totals = [0, 0]
    with selectors.DefaultSelector() as selector:
        for index, pipe in enumerate((process.stdout, process.stderr)):
            if pipe:
                selector.register(pipe, selectors.EVENT_READ, index)
        while selector.get_map():
            rest = deadline - time.monotonic()
            if rest <= 0:
                return totals, False
            # A daemon may hold the pipe open after the program ended, so poll now and then; before the look at the
            # pipes, which then have all that the program wrote.
            ended = process.poll() is not None
            ready = selector.select(0 if ended else min(rest, 0.1))
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                totals[key.data] += len(data)
                tails[key.data].extend(data)
                if len(tails[key.data]) > 2 * limit:
                    del tails[key.data][:-limit]
            if ended and not ready:
                return totals, True
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return totals, False
    return totals, True


def start_detached(started: Program, *, pass_fds: Sequence[int] = ()) -> None:
    """Start a program independent of this process, and return when the intermediate has exited.

    Input is ``/dev/null``; output and errors are appended to ``stdout_log`` (links are not followed) or dropped. It
    inherits only the descriptors in ``pass_fds``, with the same numbers. Errors that can be detected before the start
    are raised as by ``start``; later ones, such as a missing interpreter, are in the log.
    """
    program, log = check_call(started.argv, started.cwd, started.environment), started.stdout_log
    command = _through_intermediate(program, started.argv)
    output = subprocess.DEVNULL if log is None else open_log(log)
    try:
        process = subprocess.Popen(
            command,
            env=dict(started.environment),
            cwd=started.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
    except OSError as error:
        raise start_failure(error.errno or 0, program, started.cwd) from error
    finally:
        if output >= 0:
            os.close(output)
    try:
        code = process.wait(_INTERMEDIATE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = -1
    if code != 0:
        raise UnderstudyError(
            ErrorKind.TOOL_CRASHED,
            f"{program!r} could not be started in the background (its starter exited with code {code}).",
            hint="Its log says why; then try again." if log else "Start it in a terminal to see why.",
            log_paths=[str(log)] if log else None,
        )


def _through_intermediate(program: str, argv: Sequence[str]) -> list[str]:
    setsid = next((path for path in SETSID if _is_util_linux(path)), None)
    # setsid sets argv[0] to the program's path, so another argv[0] needs the other intermediate.
    if setsid and argv[0] in {program, program.rpartition("/")[2]}:
        return [setsid, "--fork", program, *argv[1:]]
    return [sys.executable, "-I", "-S", "-c", _INTERMEDIATE, program, *argv]


def _is_util_linux(path: str) -> bool:
    # busybox has a setsid without --fork; there the file is a link to busybox.
    return os.access(path, os.X_OK) and not Path(path).resolve().name.startswith("busybox")
