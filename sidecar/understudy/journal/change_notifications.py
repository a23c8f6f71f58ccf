"""Change notifications: a process that changes a file wakes the processes that wait for it, with one datagram.

Each listener binds its own datagram socket in a folder that all processes of the user share; a sender sends the
name of what changed to every socket in it. A notification carries no data and may get lost (a full queue, another
``XDG_RUNTIME_DIR``), so every listener also polls once a second.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import socket
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

POLL_SECONDS = 1.0
"""The interval of polling: the longest delay that a lost notification causes."""

EVERYTHING = "*"
"""In the result of ``wait`` and ``drain``: names may have been lost, so check everything you follow."""

_LONGEST_NAME = 255
_LONGEST_PATH = 100
"""``sun_path`` holds 108 bytes on Linux and 104 on macOS, the final zero included (unix(7))."""

_FILTER = "@"
"""Separates a socket's name from the marks of the names that its owner wants; without marks it wants all."""
_MARK = 8
_LONGEST_FILE = 1 + 10 + 1 + 8 + 1 + 4 * _MARK

_MOST_DATAGRAMS = 4096
_QUEUE_FILE = Path("/proc/sys/net/unix/max_dgram_qlen")

_sender: tuple[int, socket.socket] | None = None
_known: dict[tuple[str, str], tuple[str, int]] = {}


def folder() -> Path:
    """Return the folder of the sockets: in ``$XDG_RUNTIME_DIR`` if that is usable, else in the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _is_mine(runtime):
        return Path(runtime) / "understudy" / "changes"
    import tempfile  # the commands of a terminal start without it

    return Path(tempfile.gettempdir()) / f"understudy-{os.geteuid()}" / "changes"


def notify(name: str) -> None:
    """Notify every listener that ``name`` changed, and remove sockets of dead processes. Never waits, never raises."""
    with contextlib.suppress(OSError, ValueError):
        _send(name.encode("utf-8", "replace")[:_LONGEST_NAME])


class ChangeListener:
    """Receive change notifications; a context manager.

    ``fileno`` is readable when a notification has arrived. If no socket can be bound (there is no writable runtime
    folder), none arrive: ``wait`` then returns after its timeout, and the caller's polling finds the changes.
    """

    def __init__(self, only: Iterable[str] | None = None) -> None:
        """Bind a socket if possible. ``only``: at most four names; senders skip this listener for all others.

        Without ``only``, twenty workers that write thirty events a second each would cause twelve thousand wake-ups a
        second.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._path: str | None = None
        self._pid = os.getpid()
        self._only = "" if only is None else _FILTER + "".join(sorted(_mark(name.encode()) for name in only))
        # The kernel queues this many datagrams per socket; if we receive as many at once, more may have been dropped.
        try:
            self._full = max(1, int(_QUEUE_FILE.read_bytes()))
        except (OSError, ValueError):
            self._full = 10
        with contextlib.suppress(OSError):
            self._bind()

    def __enter__(self) -> Self:
        """Return the listener."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the listener."""
        self.close()

    def fileno(self) -> int:
        """Return the descriptor to watch for reading."""
        return self._socket.fileno()

    def drain(self) -> set[str]:
        """Return the names received since the last call, without waiting (``EVERYTHING``: some were lost)."""
        names: set[str] = set()
        for count in range(1, _MOST_DATAGRAMS + 1):
            try:
                data = self._socket.recv(_LONGEST_NAME)
            except OSError:
                break
            names.add(data.decode("utf-8", "replace"))
            if count == self._full:
                names.add(EVERYTHING)
        return names

    def wait(self, timeout: float) -> set[str]:
        """Wait up to ``timeout`` seconds for a notification; return the names, none on a timeout."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        poller.poll(max(0.0, timeout) * 1000)
        return self.drain()

    def close(self) -> None:
        """Remove the socket."""
        self._socket.close()
        # A forked child that exits must not remove its parent's socket.
        if self._path is not None and os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                Path(self._path).unlink()
        self._path = None

    def _bind(self) -> None:
        place = folder()
        for part in (place.parent, place):
            with contextlib.suppress(FileExistsError):
                part.mkdir(mode=0o700)
            if not _is_mine(str(part)):
                return
        name = f"{os.getpid()}-{os.urandom(4).hex()}{self._only}"
        with _short(str(place)) as short:
            self._socket.bind(f"{short}/{name}")
        self._path = str(place / name)


def wait_for(predicate: Callable[[], bool], listener: ChangeListener, timeout: float) -> bool:
    """Wait up to ``timeout`` seconds until ``predicate()`` is true; return whether it is.

    It is called at once, after every notification, and once a second. Open the listener before you first read the
    state.
    """
    deadline = time.monotonic() + timeout
    while not predicate():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        listener.wait(min(left, POLL_SECONDS))
    return True


def _send(data: bytes) -> None:
    global _sender  # noqa: PLW0603 - one socket per process; a fork makes its own
    # ``folder()`` costs more than the datagram. Its result depends on these two variables and on who owns the folders.
    inputs = (os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("TMPDIR", ""))
    place, inode = _known.get(inputs, ("", -1))
    try:
        facts = os.lstat(place) if place else None
    except OSError:
        facts = None
    if facts is None or facts.st_ino != inode:
        place = str(folder())
        facts = os.lstat(place)
        if not _is_mine(place) or not _is_mine(str(Path(place).parent)):
            return
        if len(_known) > 16:
            _known.clear()
        _known[inputs] = (place, facts.st_ino)
    names = os.listdir(place)  # noqa: PTH208 - one of the few calls made for every event
    if not names:
        return
    if _sender is None or _sender[0] != os.getpid():
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.setblocking(False)
        _sender = (os.getpid(), sender)
        atexit.register(sender.close)
    sender, mark = _sender[1], _mark(data)
    with _short(place) as short:
        for name in names:
            _, filtered, marks = name.partition(_FILTER)
            if filtered and mark not in {marks[at : at + _MARK] for at in range(0, len(marks), _MARK)}:
                continue
            try:
                sender.sendto(data, f"{short}/{name}")
            except ConnectionRefusedError:
                # The process that owned this socket is gone.
                with contextlib.suppress(OSError):
                    path = Path(place, name)
                    if path.is_socket():
                        path.unlink()
            except OSError:
                continue  # a full queue (its owner wakes up anyway), or not one of our sockets


def _mark(name: bytes) -> str:
    """Return a short hash of a name for a socket's path, which must be short; two names may have the same hash."""
    return f"{zlib.crc32(name):0{_MARK}x}"


@contextlib.contextmanager
def _short(place: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator behind the decorator
    """Yield a path of the folder ``place`` that is short enough for a socket address."""
    if len(os.fsencode(place)) + _LONGEST_FILE <= _LONGEST_PATH:
        yield place
        return
    if sys.platform != "linux":
        raise OSError("the path is too long for a socket")
    descriptor = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _is_mine(path: str) -> bool:
    """Return whether ``path`` is a folder (not a link) that this user owns and only this user may write to."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
