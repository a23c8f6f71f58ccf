"""Width, colour and TTY detection."""

from __future__ import annotations

import os
import shutil
import signal
import unicodedata
from datetime import datetime
from types import FrameType
from typing import IO, Any, Self

import click

from understudy.model.text.sanitize import one_line, path, sanitize, visible

__all__ = [  # with the functions that sanitize text for a terminal
    "Paint",
    "can_redraw",
    "cut",
    "has_colour",
    "is_terminal",
    "one_line",
    "path",
    "sanitize",
    "short_path",
    "visible",
    "width",
    "width_of",
]
DEFAULT_WIDTH = 80
NARROWEST = 20


def width_of(text: str) -> int:
    """Return how many columns ``text`` takes: two for wide characters, none for combining ones (UAX #11)."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def short_path(text: str) -> str:
    """Return a sanitized absolute path, with ``~`` for the home folder, as a shell understands it."""
    shown, home = one_line(text), os.environ.get("HOME", "").rstrip(os.sep)
    return f"~{shown.removeprefix(home)}" if home and shown.startswith(home + os.sep) else shown


def cut(text: str, columns: int) -> str:
    """Return ``text`` cut to ``columns`` columns; a cut is marked with ``…``."""
    if width_of(text) <= columns:
        return text
    taken, kept = 0, []
    for character in text:
        taken += _columns(character)
        if taken > columns - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def width() -> int:
    """Return the width of the terminal (``COLUMNS`` first), 80 if it is unknown."""
    return max(NARROWEST, shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns)


def is_terminal(stream: IO[Any]) -> bool:
    """Return whether ``stream`` is a terminal."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def can_redraw(stream: IO[Any]) -> bool:
    """Return whether a line on ``stream`` can be redrawn: it is a terminal, and not a dumb one."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") not in {"", "dumb"}


def has_colour(stream: IO[Any]) -> bool:
    """Return whether to use colours on ``stream``: it can redraw, and NO_COLOR is not set (https://no-color.org)."""
    return can_redraw(stream) and not os.environ.get("NO_COLOR")


class Paint:
    """Colours, or none."""

    def __init__(self, *, on: bool) -> None:
        """Paint when ``on``."""
        self._on = on

    def __call__(self, text: str, **style: Any) -> str:
        """Return ``text`` in a style (as ``click.style`` takes it)."""
        return click.style(text, **style) if self._on else text


def _columns(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def local_time(at: str) -> str:
    """Return a time in RFC 3339 as the user's clock shows it: ``14:05:00``, or with the date on another day."""
    try:
        moment = datetime.fromisoformat(at).astimezone()
    except ValueError:
        return at
    today = datetime.now().astimezone().date()
    return f"{moment:%H:%M:%S}" if moment.date() == today else f"{moment:%Y-%m-%d %H:%M:%S}"


class HeldInterrupt:
    """Holds the first Ctrl-C back while it is entered; the second one interrupts at once.

    May be entered again later; only in the main thread.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.pressed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        """Begin to hold."""
        self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        """End holding; what was pressed stays until `release`."""
        signal.signal(signal.SIGINT, self._before)

    def release(self) -> None:
        """Interrupt now if Ctrl-C was held back."""
        if self.pressed:
            self.pressed = False
            raise KeyboardInterrupt

    def explain_detached(self, cancel: str) -> None:
        """After a start that nothing follows, tell that Ctrl-C came too late, and the command that cancels."""
        if self.pressed:
            click.echo(f"Already started; to cancel: {cancel}", err=True)

    def _press(self, _: int, __: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        click.echo("Stopping as soon as the start is complete (Ctrl-C again to exit at once).", err=True)
