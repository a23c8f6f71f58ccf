"""A pseudo-terminal for a guarded child."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from understudy.process.pipes import Input


def open_terminal(rows: int, columns: int) -> tuple[int, int]:
    """Return the owner's end and the child's end of a new terminal (pty(7)) of this size; raises ``OSError``."""
    ours, theirs = os.openpty()
    resize(ours, rows, columns)
    return ours, theirs


def resize(descriptor: int, rows: int, columns: int) -> None:
    """Set the size; the kernel tells the terminal's foreground processes (SIGWINCH)."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class TerminalInput(Input):
    """The child's terminal, as the user types into it."""

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; nothing happens after the terminal's end."""
        if self._transport is not None and not self._transport.is_closing():
            resize(self._transport.get_extra_info("pipe").fileno(), rows, columns)
