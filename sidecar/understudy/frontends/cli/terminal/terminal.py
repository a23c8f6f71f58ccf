"""What a terminal can show: width, colours, and text of others made harmless."""

from __future__ import annotations

import os
import shutil
import unicodedata
from typing import IO, Any

import click

from understudy.faces.harmless import clean, one_line, path, visible

__all__ = [  # what is harmless is harmless in a terminal
    "Paint",
    "can_redraw",
    "clean",
    "cut",
    "has_colour",
    "is_terminal",
    "one_line",
    "path",
    "visible",
    "width",
    "width_of",
]

DEFAULT_WIDTH = 80
NARROWEST = 20


def width_of(text: str) -> int:
    """Return how many columns ``text`` takes: wide characters two, combining ones none (UAX #11)."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def cut(text: str, columns: int) -> str:
    """Return ``text`` in at most ``columns`` columns; a cut is marked with ``…``."""
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
    """Return the columns of the terminal (``COLUMNS`` first), 80 where nobody knows."""
    return max(NARROWEST, shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns)


def is_terminal(stream: IO[Any]) -> bool:
    """Tell whether ``stream`` is a terminal that a person looks at."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def can_redraw(stream: IO[Any]) -> bool:
    """Tell whether a line on ``stream`` can be drawn again: a terminal that is not a dumb one."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") not in {"", "dumb"}


def has_colour(stream: IO[Any]) -> bool:
    """Tell whether to use colours on ``stream``: https://no-color.org and a terminal that can."""
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
