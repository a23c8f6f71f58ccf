"""Encode the text of an open document like the file on disk."""

from __future__ import annotations

import codecs
from pathlib import Path


def bytes_like(disk: bytes | None, text: str) -> bytes | None:
    """Encode ``text`` with the first encoding that can decode ``disk`` and encode ``text``; None if there is none.

    The order is UTF-8 (a byte order mark is kept), UTF-16 with a byte order mark, Latin-1. A file that does not exist
    yet is UTF-8.
    """
    encoding = encoding_like(disk, text)
    return None if encoding is None else encode(text, *encoding)


def overwritten(disk: bytes | None, text: str) -> bytes | None:
    """Return the bytes of ``text``, which was saved as UTF-8, if the file no longer contains it; otherwise None.

    Some editors send other line ends than they write. A file that is not UTF-8 may have an encoding that only the
    editor knows, so nothing can be said about it.
    """
    mark = codecs.BOM_UTF8 if (disk or b"").startswith(codecs.BOM_UTF8) else b""
    try:
        same = disk is not None and _plain(disk.decode()) == _plain(text)
        return None if same else encode(text, "utf-8", mark)
    except UnicodeError:
        return None


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n")


def encoding_like(disk: bytes | None, text: str) -> tuple[str, bytes] | None:
    """Return Python's name of the encoding that ``bytes_like`` uses, and the byte order mark before the text."""
    for decoding, mark in _encodings(disk or b""):
        try:
            (disk or b"")[len(mark) :].decode(decoding)
            text.removeprefix("\ufeff").encode(decoding)
        except UnicodeError:
            continue
        return decoding, mark
    return None


def encode(text: str, encoding: str, mark: bytes) -> bytes:
    """Return the text's bytes; a byte order mark in the text is not written twice."""
    return mark + text.removeprefix("\ufeff").encode(encoding)


def _encodings(disk: bytes) -> list[tuple[str, bytes]]:
    encodings = [("utf-8", codecs.BOM_UTF8 if disk.startswith(codecs.BOM_UTF8) else b"")]
    if disk.startswith(codecs.BOM_UTF16_LE):
        encodings.append(("utf-16-le", codecs.BOM_UTF16_LE))
    elif disk.startswith(codecs.BOM_UTF16_BE):
        encodings.append(("utf-16-be", codecs.BOM_UTF16_BE))
    else:
        encodings.append(("latin-1", b""))
    return encodings


def read_bytes(path: Path) -> bytes | None:
    """Return the file's content, or None if there is no readable regular file."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None
