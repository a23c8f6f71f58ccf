"""Write keys and strings in TOML syntax."""

from __future__ import annotations

import re

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def key(name: str) -> str:
    """Return a key, quoted if necessary."""
    return name if _BARE.fullmatch(name) else string(name)


def string(text: str, quote: str = '"') -> str:
    """Return a string in quotes; in single ones if ``quote`` is one and the text needs no escapes."""
    if quote == "'" and "'" not in text and not _CONTROL.search(text):
        return f"'{text}'"
    return '"' + "".join(_ESCAPES.get(character, _escaped(character)) for character in text) + '"'


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if _CONTROL.match(character) else character
