"""Sanitise untrusted text: for storage, for display, and for review; and list names in a sentence.

strip_controls   what is stored: no escape sequences and control characters; every visible character stays as it is
sanitize         what is shown: also nothing that is invisible or changes the reading direction
visible          what is reviewed: the same characters spelled out instead of removed
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from understudy.model.text import path_quoting

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI … final byte (ECMA-48 §5.4); a cut-off one too
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, SOS, PM, APC up to BEL or ST
    r"|\x1b[ -/]*[0-~]?"  # every other escape
    r"|\x9b[0-?]*[ -/]*[@-~]?"  # CSI as one C1 character
    r"|[\x9d\x90\x98\x9e\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""C0 except tab, line feed and carriage return; DEL; C1."""
_UNSEEN = re.compile(
    _CONTROLS.pattern[:-1] + "\r"
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"  # direction and invisibility: text that reads differently
    "\ud800-\udfff]"
)
_LINE_BREAKS = re.compile("[\t\n\u2028\u2029]")


def strip_controls(text: str) -> str:
    """Return ``text`` without terminal escapes and control characters; tabs and line ends stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def strip_controls_json(value: Any, depth: int = 32) -> Any:
    """Return JSON data with controls stripped from every string; what lies deeper than ``depth`` is left out."""
    if isinstance(value, str):
        return strip_controls(value)
    if depth == 0:
        return None
    if isinstance(value, list):
        return [strip_controls_json(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {strip_controls(str(name)): strip_controls_json(item, depth - 1) for name, item in value.items()}
    return value


def sanitize(text: str) -> str:
    """Return ``text`` without anything that a terminal interprets or a reader cannot see; tabs and line feeds stay."""
    return _UNSEEN.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def one_line(text: str) -> str:
    """Return sanitised text with every run of white space as one space."""
    return " ".join(sanitize(text).split())


def visible(line: str) -> str:
    """Return one line with everything that a terminal interprets, or that is invisible, spelled out."""
    return _UNSEEN.sub(_spelled, line.removesuffix("\n"))


def visible_line(text: str) -> str:
    """Return ``text`` on one line like ``visible``, with its tabs and line breaks spelled out too."""
    return _LINE_BREAKS.sub(_spelled, visible(text))


def path(wire: str) -> str:
    """Return a wire path that differs visibly from every other, quoted as git does if it contains hidden characters.

    The result can be typed as a path on the command line.
    """
    return path_quoting.readable(wire)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    # `^[`, `^M`: what every pager writes for C0.
    return f"^{chr(code ^ 0x40)}" if code < 0x80 else f"<U+{code:04X}>"


def name_list(names: Iterable[str], most: int = 10) -> str:
    """Return the first ``most`` names, separated by commas, and the number of the others."""
    every = list(names)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")
