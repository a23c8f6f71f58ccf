"""Width, colour and TTY detection, and prose that fits a terminal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from types import FrameType
from typing import IO, Any, Self

import click

from understudy.model.text.sanitize import one_line, path, sanitize, visible

__all__ = [  # with the functions that sanitize text for a terminal
    "Paint",
    "can_redraw",
    "cut",
    "fit",
    "for_people",
    "has_colour",
    "is_terminal",
    "one_line",
    "path",
    "sanitize",
    "short_ids",
    "short_path",
    "visible",
    "width",
    "width_of",
    "words",
    "wrap",
]
DEFAULT_WIDTH = 80
NARROWEST = 20
_COMMAND = r"(?:^|(?<=: )|(?<=; )|\()(?:understudy |less (?=[/~']))[^;)]*[;)]*"
"""A command in a sentence without backticks: it begins the text, or follows one of `: ; (`."""
_WORDS = re.compile(rf"( *)((?:`[^`]*`|{_COMMAND}|[^ ])*(?: +\Z)?)")
_START = re.compile(r"(?:\x1b\[[\d;]*m| )*")
"""The indentation of a line, with the styles that begin there."""
_WHOLE_ID = re.compile(r"(?<= )\d{8}-\d{6}-([0-9a-z]{5})(?![\w-]|\.\w)")
_OWN_COMMAND = re.compile(r"(?<![\w./~-])understudy [^`;)]*")
_QUOTED = re.compile(r" +\| | {3,}[+-] ")
"""How a line begins that a program wrote, such as output or a line of a diff; an item of a list is indented by less."""


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


def words(prose: str) -> list[str]:
    """Return the words of a line, which ``" ".join`` puts together again exactly; a command is one word."""
    spaced = [spaces + word for spaces, word in _WORDS.findall(prose) if spaces or word]
    return spaced[:1] + [word[1:] for word in spaced[1:]]


def fit(parts: Sequence[str], columns: int, separator: str = " ") -> list[str]:
    """Return parts on as few lines as they fit on; one that is too long for a line is left to the terminal.

    People copy paths, commands and references from here, so they are never cut.
    """
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}{separator}{part}" if lines else ""
        if lines and width_of(click.unstyle(longer)) <= columns:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def wrap(text: str, columns: int, hanging: int = 2) -> str:
    """Return ``text`` wrapped at words; what continues a line is indented by ``hanging`` below its beginning."""
    return "\n".join(_wrapped(line, columns, hanging) for line in text.split("\n"))


def _wrapped(line: str, columns: int, hanging: int) -> str:
    plain = click.unstyle(line)
    if width_of(plain) <= columns or _QUOTED.match(plain):
        return line
    start = _START.match(line)[0]  # type: ignore[index]  # it matches everywhere
    indent = " " * (width_of(click.unstyle(start)) + hanging)
    return start + f"\n{indent}".join(fit(words(line.removeprefix(start)), columns - len(indent)))


def for_people(text: str, stream: IO[Any], hanging: int = 2) -> str:
    """Return prose as it is printed on ``stream``: wrapped on a terminal, with short IDs in its commands."""
    return wrap(short_ids(text), width(), hanging) if is_terminal(stream) else text


def short_ids(text: str) -> str:
    """Return ``text`` with the ends of IDs in its commands, which are enough for every command.

    Lines that a program wrote stay as they are.
    """
    return "\n".join(
        line
        if _QUOTED.match(click.unstyle(line))
        else _OWN_COMMAND.sub(lambda command: _WHOLE_ID.sub(r"\1", command[0]), line)
        for line in text.split("\n")
    )


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
