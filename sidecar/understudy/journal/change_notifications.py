"""The bell: whoever changes a file wakes whoever waits for it, with one datagram.

A listener binds a datagram socket of its own in a folder that all processes of the user agree on; a
ringer sends the name of what changed to every socket there. A bell carries no data and may get lost
(a full queue, another ``XDG_RUNTIME_DIR``): every waiter also looks once a second.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import select
import socket
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

POLL_SECONDS = 1.0
"""What a lost bell costs at most."""

EVERYTHING = "*"
"""In an answer of ``wait`` and ``drain``: names may have been lost, look at everything you follow."""

_LONGEST_NAME = 255
_LONGEST_PATH = 100
"""``sun_path`` holds 108 bytes on Linux and 104 on macOS, the final zero included (unix(7))."""

_FILTER = "@"
"""Between a socket's own name and the marks of what its owner wants to hear; without it, everything."""
_MARK = 8
_LONGEST_FILE = 1 + 10 + 1 + 8 + 1 + 4 * _MARK

_MOST_DATAGRAMS = 4096
_QUEUE_FILE = Path("/proc/sys/net/unix/max_dgram_qlen")

_ringer: tuple[int, socket.socket] | None = None
_known: dict[tuple[str, str], tuple[str, int]] = {}


def folder() -> Path:
    """Return the folder of the sockets: in ``$XDG_RUNTIME_DIR`` where that is usable, else in the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _is_mine(runtime):
        return Path(runtime) / "understudy" / "bell"
    return Path(tempfile.gettempdir()) / f"understudy-{os.geteuid()}" / "bell"


def ring(name: str) -> None:
    """Tell every listener that ``name`` changed. Never waits, never raises; sockets of the dead are removed."""
    with contextlib.suppress(OSError, ValueError):
        _ring(name.encode("utf-8", "replace")[:_LONGEST_NAME])


class Bell:
    """A listener; use it as a context manager.

    ``fileno`` is readable when something rang. Where no socket can be bound (no writable runtime folder), the
    bell is deaf: ``wait`` then just takes its time, and the caller's poll finds what changed.
    """

    def __init__(self, only: Iterable[str] | None = None) -> None:
        """Bind a socket, or be deaf. ``only``: at most four names; whoever rings leaves this bell alone for others.

        Twenty workers that each write thirty events a second would wake each other twelve thousand times.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._path: str | None = None
        self._pid = os.getpid()
        self._only = "" if only is None else _FILTER + "".join(sorted(_mark(name.encode()) for name in only))
        # The kernel queues so many datagrams per socket; as many in hand mean that more may have been refused.
        try:
            self._full = max(1, int(_QUEUE_FILE.read_bytes()))
        except (OSError, ValueError):
            self._full = 10
        with contextlib.suppress(OSError):
            self._bind()

    def __enter__(self) -> Self:
        """Return the bell itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def deaf(self) -> bool:
        """Whether no socket could be bound."""
        return self._path is None

    def fileno(self) -> int:
        """Return the descriptor to watch for reading."""
        return self._socket.fileno()

    def drain(self) -> set[str]:
        """Return the names that rang since the last call, without waiting (``EVERYTHING``: some were lost)."""
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
        """Wait until something rings, at most ``timeout`` seconds; return the names, none after the time."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        poller.poll(max(0.0, timeout) * 1000)
        return self.drain()

    def close(self) -> None:
        """Remove the socket."""
        self._socket.close()
        # A forked child that ends must not take its parent's socket away.
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
        name = f"{os.getpid()}-{secrets.token_hex(4)}{self._only}"
        with _short(str(place)) as short:
            self._socket.bind(f"{short}/{name}")
        self._path = str(place / name)


def wait_for(predicate: Callable[[], bool], bell: Bell, timeout: float) -> bool:
    """Wait until ``predicate()`` is true, at most ``timeout`` seconds; return whether it is.

    It is asked first, after every bell, and once a second. Open the bell before looking for the first time.
    """
    deadline = time.monotonic() + timeout
    while not predicate():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        bell.wait(min(left, POLL_SECONDS))
    return True


def _ring(data: bytes) -> None:
    global _ringer  # noqa: PLW0603 - one socket per process; a fork makes its own
    # ``folder()`` costs more than the datagram; it follows from these two and from who owns what.
    inputs = (os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("TMPDIR", ""))
    place, inode = _known.get(inputs, ("", -1))
    try:
        found = os.lstat(place) if place else None
    except OSError:
        found = None
    if found is None or found.st_ino != inode:
        place = str(folder())
        found = os.lstat(place)
        if not _is_mine(place) or not _is_mine(str(Path(place).parent)):
            return
        if len(_known) > 16:
            _known.clear()
        _known[inputs] = (place, found.st_ino)
    names = os.listdir(place)  # noqa: PTH208 - one of the few calls made for every event
    if not names:
        return
    if _ringer is None or _ringer[0] != os.getpid():
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.setblocking(False)
        _ringer = (os.getpid(), sender)
        atexit.register(sender.close)
    sender, mark = _ringer[1], _mark(data)
    with _short(place) as short:
        for name in names:
            _, filtered, wanted = name.partition(_FILTER)
            if filtered and mark not in {wanted[at : at + _MARK] for at in range(0, len(wanted), _MARK)}:
                continue
            try:
                sender.sendto(data, f"{short}/{name}")
            except ConnectionRefusedError:
                # Nobody will ever receive on it again: its process is gone.
                with contextlib.suppress(OSError):
                    path = Path(place, name)
                    if path.is_socket():
                        path.unlink()
            except OSError:
                continue  # a full queue (its owner has enough to wake up for), or no socket of ours


def _mark(name: bytes) -> str:
    """Return a short stand-in for a name in the name of a socket, whose path must be short; two may share one."""
    return f"{zlib.crc32(name):0{_MARK}x}"


@contextlib.contextmanager
def _short(place: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator behind the decorator
    """Give a way to name files of ``place`` that fits into a socket address."""
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
    """Tell whether ``path`` is a folder, not a link, of this user, in which nobody else may write."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
