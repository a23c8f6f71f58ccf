"""Serve on stdio, or on a Unix socket that only its owner can use."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from understudy.api import caller
from understudy.api.caller import current_folder
from understudy.api.serving import waiting_delegations
from understudy.frontends import json_rpc
from understudy.frontends.rpc.session import Peer, Session
from understudy.model.errors import ErrorKind, UnderstudyError

CHUNK = 64 * 1024
MOST_CLIENTS = 64
LONGEST_PATH = 100
"""``sun_path`` has 108 bytes on Linux, 104 on macOS, including the final zero (unix(7))."""
ANSWER_SECONDS = 1.0
"""How long to wait for a server that may still listen on the path before treating it as dead."""


def stdio() -> int:
    """Serve the client on stdin and stdout until stdin ends."""
    reading, writing = json_rpc.take_stdio()
    # The parent process is the client, and passed this environment on.
    waiting_delegations.watch()
    session = Session(lambda data: _write(writing, data), Peer(os.getppid(), current_folder(), os.environ))
    with contextlib.suppress(KeyboardInterrupt):
        while not session.broken and (data := _read(reading)):
            session.feed(data)
    session.end()
    return 0


def unix_socket(path: str) -> int:
    """Serve clients on a socket at ``path`` until SIGINT or SIGTERM."""
    place = Path(path).expanduser().absolute()
    with _stopped_by_signals() as stopping, _listening(place) as listener:
        waiting_delegations.watch()
        sys.stderr.write(f"Listening on {place}.\n")
        sys.stderr.flush()
        poller = select.poll()
        poller.register(listener, select.POLLIN)
        poller.register(stopping, select.POLLIN)
        clients = threading.BoundedSemaphore(MOST_CLIENTS)
        while True:
            ready = [descriptor for descriptor, _ in poller.poll()]
            if stopping in ready:
                return 0
            with contextlib.suppress(OSError):  # a client that disconnected before it was accepted
                _admit(listener.accept()[0], clients)


def peer_of(connection: socket.socket) -> Peer:
    """Return the process at the other end of a Unix socket, as far as the platform shows it."""
    pid = caller.peer_pid(connection)
    if pid is None:
        return Peer(None, None, {})
    process = Path("/proc") / str(pid)
    environ: dict[str, str] = {}
    cwd = None
    with contextlib.suppress(OSError):  # it is gone, or belongs to another PID namespace
        cwd = (process / "cwd").readlink()
        for entry in (process / "environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            environ[os.fsdecode(name)] = os.fsdecode(value)
    return Peer(pid, cwd, environ, run=caller.surrounding_run(pid))


def _admit(connection: socket.socket, clients: threading.BoundedSemaphore) -> None:
    uid = caller.peer_uid(connection)
    if (uid is not None and uid != os.geteuid()) or not clients.acquire(blocking=False):
        connection.close()
        return
    threading.Thread(target=_serve, args=(connection, clients), name="client", daemon=True).start()


def _serve(connection: socket.socket, clients: threading.BoundedSemaphore) -> None:
    try:
        with connection:
            session = Session(connection.sendall, peer_of(connection))
            with contextlib.suppress(OSError):
                while not session.broken and (data := connection.recv(CHUNK)):
                    session.feed(data)
            session.end()
    finally:
        clients.release()


@contextlib.contextmanager
def _listening(place: Path) -> Iterator[socket.socket]:
    if len(os.fsencode(place)) > LONGEST_PATH:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{place} is longer than {LONGEST_PATH} bytes, the limit for the path of a socket.",
            hint="Choose a shorter path.",
        )
    folder = _own_folder(place.parent)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            # Serialize two servers that start at once; the second one finds the first one listening.
            fcntl.flock(folder, fcntl.LOCK_EX)
            _make_way(place)
            before = os.umask(0o177)
            try:
                listener.bind(str(place))
            finally:
                os.umask(before)
            listener.listen(MOST_CLIENTS)
        except OSError as error:
            raise UnderstudyError(
                ErrorKind.PERMISSION_DENIED,
                f"The socket {place} cannot be created: {error.strerror}.",
                hint="Choose a path in one of your folders, on a local disk.",
            ) from error
        finally:
            os.close(folder)
        inode = place.stat().st_ino
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                if place.stat().st_ino == inode:
                    place.unlink()
    finally:
        listener.close()


def _own_folder(folder: Path) -> int:
    """Return a descriptor of the socket's folder, created with mode 0700; refuse one that others can write to."""
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        folder.mkdir(mode=0o700)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"The folder {folder} cannot be used: {error.strerror}.",
            hint="Choose a path in one of your folders.",
        ) from error
    facts = os.fstat(descriptor)
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        os.close(descriptor)
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"Other users can write to {folder} and could replace the socket.",
            hint="Choose a folder that only you can write to (chmod 700).",
        )
    return descriptor


def _make_way(place: Path) -> None:
    """Remove the socket of a dead server; refuse if a server listens, or if the path is not a socket."""
    try:
        facts = place.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISSOCK(facts.st_mode):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(ANSWER_SECONDS)
            if probe.connect_ex(str(place)) in {errno.ECONNREFUSED, errno.ENOENT}:
                place.unlink(missing_ok=True)
                return
        what = "A server is already listening on this socket"
    else:
        what = "This path exists and is not a socket"
    raise UnderstudyError(
        ErrorKind.ALREADY_EXISTS, f"{what}: {place}.", hint="Choose another path, or remove it first."
    )


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[int]:
    """Yield a descriptor that becomes readable on SIGINT or SIGTERM."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def stop(_: int, __: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(writing, b"!")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _read(descriptor: int) -> bytes:
    """Wait for data and return it, empty at the end. The other end may have made the pipe non-blocking."""
    while True:
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:
            select.select([descriptor], [], [])
        except OSError:
            return b""


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
