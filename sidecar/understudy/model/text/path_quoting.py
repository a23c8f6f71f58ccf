"""Quote and unquote repository paths, as git does in its output (``core.quotePath``)."""

from __future__ import annotations

import re

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


_UNESCAPES = {letter: code for code, letter in _ESCAPES.items()}


def quote(path: bytes) -> str:
    """Return the wire form of a path inside a repository.

    The text itself, unless it is not UTF-8 or begins with ``"``: then git's C-quoted form (``quote.c`` of git).
    """
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return c_quote(path)
    return c_quote(path) if text.startswith('"') else text


def c_quote(path: bytes) -> str:
    """Return git's C-quoted form, quotes included."""
    parts = []
    for code in path:
        if code in _ESCAPES:
            parts.append("\\" + _ESCAPES[code])
        elif 0x20 <= code < 0x7F:
            parts.append(chr(code))
        else:
            parts.append(f"\\{code:03o}")
    return '"' + "".join(parts) + '"'


def readable(wire: str) -> str:
    """Return a wire form for users and agents that is unambiguous among paths and within a text.

    Quoted as git does if it has a line feed, an escape or an invisible character; ``unquote`` accepts both forms.
    """
    if wire.isprintable() and wire == wire.strip(" "):
        return wire
    return c_quote(wire.encode("utf-8", "replace"))


def unquote(text: str) -> bytes:
    """Return the path of a wire form: the inverse of ``quote``; ValueError if it is invalid."""
    if not text.startswith('"'):
        return text.encode()
    if len(text) < 2 or not text.endswith('"'):
        raise ValueError("a quoted path must end with a quote")
    path = bytearray()
    position, end = 1, len(text) - 1
    while position < end:
        letter = text[position]
        if letter != "\\":
            path += letter.encode()
            position += 1
            continue
        octal = text[position + 1 : position + 4]
        if position + 1 < end and text[position + 1] in _UNESCAPES:
            path.append(_UNESCAPES[text[position + 1]])
            position += 2
        elif position + 3 < end and re.fullmatch("[0-3][0-7]{2}", octal):
            path.append(int(octal, 8))
            position += 4
        else:
            raise ValueError(f"not an escape: {text[position : position + 4]!r}")
    return bytes(path)
