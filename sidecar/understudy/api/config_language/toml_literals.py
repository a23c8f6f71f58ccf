"""How names and strings are written in TOML."""

from __future__ import annotations

import re

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def key(name: str) -> str:
    """Return a key."""
    return name if _BARE.fullmatch(name) else string(name)


def string(said: str, quote: str = '"') -> str:
    """Return a string, between single quotes where that is wished for and can be."""
    if quote == "'" and "'" not in said and not _CONTROL.search(said):
        return f"'{said}'"
    return '"' + "".join(_ESCAPES.get(character, _escaped(character)) for character in said) + '"'


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if _CONTROL.match(character) else character
