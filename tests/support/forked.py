"""Start `understudy` by forking a process that has imported it: its imports take longer than most of what tests ask it.

What is started is a process of its own, with its own arguments, environment, folder and streams. Only what concerns the
start itself (imports, the interpreter's options, ``PYTHONPATH``, the command line that ``/proc`` shows) needs a program
that starts cold. ``start_detached`` does the same for the workers that a test, or what it started here, starts.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from understudy.files import durable
from understudy.process import unguarded
from understudy.process.program_spec import Program

_WORKER = (sys.executable, "-P", "-m", "understudy")
_READ_AT_START = {"PYTHONPATH", durable.FAILPOINT_VARIABLE}
"""Environment variables that a process reads before it does anything else."""
_start_cold = unguarded.start_detached
_MOST_BYTES = 1 << 20
FOLDERS = (
    *("frontends.cli", "frontends.lsp", "frontends.rpc", "api.handlers", "engine", "judge", "journal", "model"),
    *("runners.driver", "runners.agent_clis"),
)
IMPORTED_LATER = ("sqlite3", "platformdirs", "encodings.ascii")
"""What functions import in nearly every process."""
SDKS = ("acp", "mcp")
"""Frontends that import a large package, which a test pays for when it starts the first of them."""


def start_detached(started: Program, *, pass_fds: Sequence[int] = ()) -> None:
    """Start a worker; in place of ``understudy.process.unguarded.start_detached``."""
    if tuple(started.argv[:4]) != _WORKER or _READ_AT_START & started.environment.keys():
        _start_cold(started, pass_fds=pass_fds)
        return
    request = {
        "arguments": list(started.argv[4:]),
        "cwd": str(started.cwd),
        "environment": dict(started.environment),
        "leads": True,
        "detached": True,
        "numbers": [0, 1, 2, *pass_fds],
    }
    with open(os.devnull, "rb") as nothing, open(started.stdout_log or os.devnull, "ab") as log:
        _ask(request, [nothing.fileno(), log.fileno(), log.fileno(), *pass_fds])


class Forked(subprocess.Popen[Any]):
    """A running ``understudy`` with these arguments; everything else is as for ``subprocess.Popen``."""

    def __init__(self, arguments: Iterable[object], *, start_new_session: bool = False, **popen: Any) -> None:
        self._leads = start_new_session
        self._alive, self._held = os.pipe()
        super().__init__([os.fspath(word) for word in arguments], **popen)

    def wait(self, timeout: float | None = None) -> int:
        # The write end of the pipe is open in that process alone, so the read end tells when it ends.
        if self.returncode is None and not select.select([self._alive], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return super().wait()

    def _execute_child(self, args: Any, executable: Any, preexec: Any, close: Any, keep: Any, *rest: Any) -> None:
        assert preexec is None
        assert not keep
        cwd, environment, _startup, _flags, _shell, *pipes = rest[:11]
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = pipes
        request = {
            "arguments": args,
            "cwd": os.fspath(cwd or os.getcwd()),
            "environment": dict(os.environ if environment is None else environment),
            "leads": self._leads,
            "detached": False,
            "numbers": [0, 1, 2],
        }
        streams = [own if end == -1 else end for own, end in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = _ask(request, [*streams, self._held])
        os.close(self._held)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        status = _ask({"wait": self.pid, "flags": flags}, [])
        if status < 0:
            return 0, 0
        os.close(self._alive)
        return self.pid, status


def run(
    arguments: Iterable[object],
    *,
    input: Any = None,  # noqa: A002 - like subprocess.run
    capture_output: bool = False,
    check: bool = False,
    timeout: float = 60,
    **popen: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run ``understudy`` with these arguments; everything is as for ``subprocess.run``."""
    if input is not None:
        popen["stdin"] = subprocess.PIPE
    if capture_output:
        popen["stdout"] = popen["stderr"] = subprocess.PIPE
    with Forked(arguments, **popen) as process:
        try:
            out, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, errors)
    if check:
        done.check_returncode()
    return done


_asking = threading.Lock()
_addresses: list[str] = []
"""In a process that was forked: where to ask for another one."""


def _ask(request: dict[str, Any], streams: list[int]) -> int:
    with _asking:
        if not _addresses:
            return _answer(_parent(os.getpid()), request, streams)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(_addresses[0])
            return _answer(connection, request, streams)


def _answer(connection: socket.socket, request: dict[str, Any], streams: list[int]) -> int:
    socket.send_fds(connection, [json.dumps(request).encode()], streams)
    return int(connection.recv(64))


@functools.cache
def _parent(_pid: int) -> socket.socket:
    """Start the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, "-P", __file__, str(theirs.fileno())]
    # It outlives the test that needs it first: it must not look like a process of that test's state folder.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("UNDERSTUDY_", "XDG_"))}
    forking = subprocess.Popen(
        argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd="/", env=environment | {"HOME": "/"}
    )
    theirs.close()
    atexit.register(forking.wait)
    atexit.register(ours.close)
    return ours


# -- in the process that forks ---------------------------------------------------------------------------------------


def _serve(connection: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a terminal also sends to this process
    for name in IMPORTED_LATER:
        importlib.import_module(name)
    _import(FOLDERS)
    unguarded.start_detached = start_detached
    folder = tempfile.mkdtemp(prefix="forked-")
    _addresses.append(f"{folder}/socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(_addresses[0])
        listener.listen()
        while True:
            readable, _, _ = select.select([connection, listener], [], [])
            if connection not in readable:
                asking, _ = listener.accept()
                with asking:
                    _serve_one(asking, [connection, listener, asking])
            elif not _serve_one(connection, [connection, listener]):
                break
    shutil.rmtree(folder)


def _serve_one(asking: socket.socket, opened: list[socket.socket]) -> bool:
    """Answer one request; return whether there was one."""
    message, streams, _, _ = socket.recv_fds(asking, _MOST_BYTES, 64)
    if not message:
        return False
    request = json.loads(message)
    if "wait" in request:
        pid, status = os.waitpid(request["wait"], request["flags"])
        asking.send(str(status if pid else -1).encode())
        return True
    _import(f"frontends.{word}" for word in request["arguments"][:1] if word in SDKS)
    pid = os.fork()
    if pid == 0:
        for socket_ in opened:
            socket_.close()
        if request["detached"] and os.fork():
            os._exit(0)
        _become(request, streams)
    if request["detached"]:
        os.waitpid(pid, 0)
    for stream in streams:
        os.close(stream)
    asking.send(str(pid).encode())
    return True


def _import(folders: Iterable[str]) -> None:
    """Import the modules of these folders, and forget them as garbage: so that no fork copies their pages.

    Those of ``injected`` are left out: they are for the interpreter of a project.
    """
    for folder in folders:
        package = importlib.import_module(f"understudy.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__") and ".injected." not in module.name:
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Run the command, and end this process as the interpreter ends it, without taking it apart."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Above all numbers that are wanted, so that none is overwritten before it is used.
        moved = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, 512) for stream in streams]
        for stream in streams:
            os.close(stream)
        for stream, number in zip(moved, request["numbers"], strict=False):
            os.dup2(stream, number)
            os.close(stream)
        if request["leads"]:
            os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        sys.argv = ["understudy", *request["arguments"]]
        sys.stdin, sys.stdout, sys.stderr = (_text_stream(number) for number in range(3))
        from understudy.__main__ import main

        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code or 0)


def _text_stream(number: int) -> Any:
    return open(
        number,
        "w" if number else "r",
        buffering=1 if number == 2 or os.isatty(number) else -1,
        encoding="utf-8",
        errors="surrogateescape" if number < 2 else "backslashreplace",
        closefd=False,
    )


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
