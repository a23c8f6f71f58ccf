"""Start a program that outlives its parent, and so the editor that requested it.

Editors end the process tree of their language server. So a worker is started through an intermediate process that exits
at once: the worker's parent becomes init or the nearest subreaper, and the worker has its own session.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.executables import check_call, start_failure
from understudy.process.program_spec import Program

_SETSID = ("/usr/bin/setsid", "/bin/setsid")
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


def start_detached(started: Program, *, pass_fds: Sequence[int] = ()) -> None:
    """Start a program independent of this process, and return when the intermediate has exited.

    Input is ``/dev/null``; output and errors are appended to ``stdout_log`` (links are not followed) or dropped. It
    inherits only the descriptors in ``pass_fds``, with the same numbers. Errors that can be detected before the start
    are raised as by ``start``; later ones, such as a missing interpreter, are in the log.
    """
    program, log = check_call(started.argv, started.cwd, started.environment), started.stdout_log
    command = _through_intermediate(program, started.argv)
    output = subprocess.DEVNULL if log is None else _open_log(log)
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
    setsid = next((path for path in _SETSID if _is_util_linux(path)), None)
    # setsid sets argv[0] to the program's path, so another argv[0] needs the other intermediate.
    if setsid and argv[0] in {program, program.rpartition("/")[2]}:
        return [setsid, "--fork", program, *argv[1:]]
    return [sys.executable, "-I", "-S", "-c", _INTERMEDIATE, program, *argv]


def _is_util_linux(path: str) -> bool:
    # busybox has a setsid without --fork; there the file is a link to busybox.
    return os.access(path, os.X_OK) and not Path(path).resolve().name.startswith("busybox")


def _open_log(log: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(log, flags, 0o600)
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"The log {str(log)!r} cannot be written: {error.strerror}.",
            hint="Check that its folder exists and belongs to you, and that the disk has space.",
        ) from error
