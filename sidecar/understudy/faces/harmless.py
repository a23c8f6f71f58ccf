"""Text of others, made harmless: nothing in it steers a terminal, hides, or reads otherwise than it is."""

from __future__ import annotations

import re

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
    """Return a path of the contract so that it can be told from every other: in git's quotes where it hides something.

    What this returns can be typed as a path again on the command line.
    """
    return names.readable(wire)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    # `^[`, `^M`: what every pager writes for C0.
    return f"^{chr(code ^ 0x40)}" if code < 0x80 else f"<U+{code:04X}>"
