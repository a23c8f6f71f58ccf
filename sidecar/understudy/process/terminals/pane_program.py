"""The program in a tmux pane: connect to the owner, send it what is typed, show what it sends.

tmux starts it as ``python -I -S pane_program.py SOCKET``, so it imports only the standard library. It ends, and its
pane closes, when the owner closes the socket or dies.

Wire, to the owner: one line of JSON (``pid``, ``term``, ``rows``, ``columns``), then frames: ``I`` (input) or ``S``
(size: two 16-bit numbers, rows and columns), four bytes of length, the data. From the owner: the bytes to show.
"""

# pathlib would double the start-up time:
# ruff: noqa: PTH120, PTH119

import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import tty

CONNECT_SECONDS = 10.0
MOST_BYTES = 64 * 1024
"""Bytes that wait for a reader; then nothing more is read for it."""


def main(path: str) -> int:
    """Relay until the owner is gone; return the exit code."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(CONNECT_SECONDS)
    os.chdir(os.path.dirname(path))  # a socket address holds about a hundred bytes
    try:
        link.connect(os.path.basename(path))
    except OSError as error:
        sys.stderr.write(f"Understudy no longer waits for this pane: {error.strerror or error}\n")
        return 1
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    rows, columns = size()
    hello = {"pid": os.getpid(), "term": os.environ.get("TERM", ""), "rows": rows, "columns": columns}
    link.sendall(json.dumps(hello).encode() + b"\n")
    saved = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        relay(link, wake)
    finally:
        termios.tcsetattr(0, termios.TCSANOW, saved)
    return 0


def relay(link: socket.socket, wake: int) -> None:
    """Copy in both directions until the owner or the pane is gone."""
    link.setblocking(False)
    os.set_blocking(0, False)
    os.set_blocking(1, False)
    shown, typed = bytearray(), bytearray()
    while True:
        waiter = select.poll()
        waiter.register(wake, select.POLLIN)
        waiter.register(link, (select.POLLIN if len(shown) < MOST_BYTES else 0) | (select.POLLOUT if typed else 0))
        if len(typed) < MOST_BYTES:
            waiter.register(0, select.POLLIN)
        if shown:
            waiter.register(1, select.POLLOUT)
        ready = dict(waiter.poll())
        try:
            if wake in ready:
                os.read(wake, 4096)
                typed += frame(b"S", struct.pack("!HH", *size()))
            if 0 in ready:
                data = os.read(0, 4096)
                if not data:
                    return
                typed += frame(b"I", data)
            if 1 in ready and shown:
                del shown[: os.write(1, shown)]
            state = ready.get(link.fileno(), 0)
            if state & (select.POLLHUP | select.POLLERR):
                while len(shown) < 2 * MOST_BYTES and (data := link.recv(MOST_BYTES)):
                    shown += data
                os.write(1, shown)  # what fits: a tmux server that does not read must not keep this process
                return
            if state & select.POLLIN:
                data = link.recv(MOST_BYTES)
                if not data:
                    return
                shown += data
            if state & select.POLLOUT and typed:
                del typed[: link.send(typed)]
        except BlockingIOError:
            if ready.get(link.fileno(), 0) & (select.POLLHUP | select.POLLERR):
                return
        except OSError:
            return


def frame(kind: bytes, data: bytes) -> bytes:
    """Return one frame for the owner."""
    return kind + len(data).to_bytes(4, "big") + data


def size() -> tuple[int, int]:
    """Return the rows and columns of the pane."""
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
    return rows or 24, columns or 80


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))
