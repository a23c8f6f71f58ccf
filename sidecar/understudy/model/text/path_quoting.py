"""Paths as text: quoted as git does in its output (``core.quotePath``), and as ``file:`` URIs."""

from __future__ import annotations

import functools
import os
import re
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


@functools.lru_cache(1000)
def path_of(uri: str) -> Path | None:
    """Return the path of a ``file:`` URI; None for any other, or for one of another machine (RFC 8089)."""
    try:
        parts = urllib.parse.urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    # Editors leave "#" and "?" of a file's name unescaped now and then; a file URI has neither fragment nor query.
    text = uri[len("file:") :].removeprefix("//localhost").removeprefix("//")
    path = os.fsdecode(urllib.parse.unquote_to_bytes(text))
    return Path(path) if path.startswith("/") and "\0" not in path else None


def uri_of(path: Path | str) -> str:
    """Return the ``file:`` URI of an absolute path."""
    return "file://" + urllib.parse.quote(os.fsencode(path), safe="/~!$&'()*,;=:@+-._")


def folders_of(params: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the workspace folders that ``initialize`` names, else its root."""
    listed = params.get("workspaceFolders")
    uris = [folder.get("uri") for folder in listed if isinstance(folder, dict)] if isinstance(listed, list) else []
    if not uris and params.get("rootUri"):
        uris = [params["rootUri"]]
    paths = [path_of(uri) for uri in uris if isinstance(uri, str)]
    if not uris and isinstance(params.get("rootPath"), str) and params["rootPath"].startswith("/"):
        paths = [Path(params["rootPath"])]
    return tuple(dict.fromkeys(path for path in paths if path is not None))
