"""What a terminal can show: width, colours, and text of others made harmless."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from typing import IO, Any

import click

from understudy.git import names

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI … final byte (ECMA-48 §5.4); a cut-off one too
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, SOS, PM, APC up to BEL or ST
    r"|\x1b[ -/]*[0-~]?"  # every other escape
    r"|\x9b[0-?]*[ -/]*[@-~]?"  # CSI as one C1 byte
    r"|[\x9d\x90\x98\x9e\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
)
# The second row is about direction and invisibility: text that reads otherwise than it is.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 (but tab and line feed), DEL, C1
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff]"
)

DEFAULT_WIDTH = 80
NARROWEST = 20


def clean(text: str) -> str:
    """Return text of an agent without anything that a terminal would obey; tabs and line feeds stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def visible(line: str) -> str:
    """Return one line with everything that a terminal would obey, or hide, spelled out: what is reviewed is seen."""
    return _CONTROLS.sub(_spelled, line.removesuffix("\n"))


def one_line(text: str) -> str:
    """Return cleaned text with every run of white space as one space."""
    return " ".join(clean(text).split())


def path(wire: str) -> str:
    """Return a path of the contract as it is printed; it can be typed like that again (``targets.wire``)."""
    return names.readable(wire)


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


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    # `^[`, `^M`: what every pager writes for C0.
    return f"^{chr(code ^ 0x40)}" if code < 0x80 else f"<U+{code:04X}>"


def _columns(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
