"""What a person sees: the screen of a terminal in which a program runs."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import termios
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path

import pyte
from forked import Forked

LINES = 200
"""Enough that no test scrolls."""


def rows(output: bytes | str, columns: int) -> list[str]:
    """Return the rows of a screen after ``output``, without the empty ones at its end."""
    screen = pyte.Screen(columns, LINES)
    # What a terminal does to the line feeds of a program that leaves ONLCR on.
    data = output.encode().replace(b"\n", b"\r\n") if isinstance(output, str) else output
    pyte.ByteStream(screen).feed(data)
    shown = [row.rstrip() for row in screen.display]
    while shown and not shown[-1]:
        shown.pop()
    return shown


def run(arguments: Sequence[str], columns: int, folder: Path, *, code: int = 0) -> list[str]:
    """Run `understudy` in a terminal to its end; return the rows of its screen."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    process = Forked(
        arguments,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = bytearray()
    try:
        while piece := os.read(ours, 65536):
            written += piece
    except OSError:  # EIO: the program has ended
        pass
    finally:
        os.close(ours)
        ended = process.wait(60)
    assert ended == code, written.decode(errors="replace")
    return rows(bytes(written), columns)
