"""The doors: stdio, and a Unix socket that only its owner can use."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from understudy.faces.rpc.session import Session
from understudy.model.errors import ErrorKind, UnderstudyError

CHUNK = 64 * 1024
MOST_CLIENTS = 64
LONGEST_PATH = 100
"""``sun_path`` holds 108 bytes on Linux, 104 on macOS, the final zero included (unix(7))."""
ANSWER_SECONDS = 1.0
"""How long a server that holds the path may take to accept before it counts as dead."""


def stdio() -> int:
    """Serve the client on stdin and stdout until stdin ends."""
    # From here on nothing that any library prints can come between two messages, and no child inherits them.
    reading, writing = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    os.close(nowhere)
    session = Session(lambda data: _write(writing, data))
    with contextlib.suppress(KeyboardInterrupt):
        while not session.broken and (data := _read(reading)):
            session.feed(data)
    session.end()
    return 0


def unix_socket(path: str) -> int:
    """Serve clients on a socket at ``path`` until SIGINT or SIGTERM."""
    place = Path(path).expanduser().absolute()
    with _stopped_by_signals() as stopping, _listening(place) as listener:
        sys.stderr.write(f"listening on {place}\n")
        sys.stderr.flush()
        poller = select.poll()
        poller.register(listener, select.POLLIN)
        poller.register(stopping, select.POLLIN)
        clients = threading.BoundedSemaphore(MOST_CLIENTS)
        while True:
            ready = [descriptor for descriptor, _ in poller.poll()]
            if stopping in ready:
                return 0
            with contextlib.suppress(OSError):  # a client that left before it was accepted
                _admit(listener.accept()[0], clients)


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user at the other end of a Unix socket, None where the platform does not say."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])
    try:
        # LOCAL_PEERCRED of sys/un.h on macOS and the BSDs: struct xucred is version, uid, groups.
        credentials = connection.getsockopt(0, 1, 76)
    except OSError:
        return None
    return int(struct.unpack_from("II", credentials)[1])


def _admit(connection: socket.socket, clients: threading.BoundedSemaphore) -> None:
    uid = peer_uid(connection)
    if (uid is not None and uid != os.geteuid()) or not clients.acquire(blocking=False):
        connection.close()
        return
    threading.Thread(target=_serve, args=(connection, clients), name="client", daemon=True).start()


def _serve(connection: socket.socket, clients: threading.BoundedSemaphore) -> None:
    try:
        with connection:
            session = Session(connection.sendall)
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
            f"{place} is longer than the {LONGEST_PATH} bytes that a socket's path may have.",
            hint="Choose a shorter path.",
        )
    folder = _own_folder(place.parent)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            # Two servers that start at once take turns; the second one then finds the first one answering.
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
                f"{place} cannot be made a socket: {error.strerror}.",
                hint="Choose a path in a folder of your own on a local disk.",
            ) from error
        finally:
            os.close(folder)
        own = place.stat().st_ino
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                if place.stat().st_ino == own:
                    place.unlink()
    finally:
        listener.close()


def _own_folder(folder: Path) -> int:
    """Return a descriptor of the socket's folder, made 0700 where it is missing; nobody else may write in it."""
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        folder.mkdir(mode=0o700)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"The folder {folder} cannot be used: {error.strerror}.",
            hint="Choose a path in a folder of your own.",
        ) from error
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        os.close(descriptor)
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"Others may write in {folder}, and could put a socket of theirs in place of this one.",
            hint="Choose a folder that only you can write in (chmod 700).",
        )
    return descriptor


def _make_way(place: Path) -> None:
    """Remove the socket of a server that is gone; refuse when one answers, or when it is anything else."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISSOCK(found.st_mode):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(ANSWER_SECONDS)
            if probe.connect_ex(str(place)) in {errno.ECONNREFUSED, errno.ENOENT}:
                place.unlink(missing_ok=True)
                return
        what = "A server answers there already"
    else:
        what = "There is a file that is no socket"
    raise UnderstudyError(
        ErrorKind.ALREADY_EXISTS, f"{what}: {place}.", hint="Choose another path, or remove it first."
    )


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[int]:
    """Give a descriptor that becomes readable at SIGINT or SIGTERM."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def stop(number: int, frame: FrameType | None) -> None:
        _ = number, frame
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
    """Return what is there, waiting for it; nothing at the end. The other end may have made the pipe non-blocking."""
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
