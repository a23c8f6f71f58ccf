"""Split a stream into messages: the base protocol of LSP 3.17, tolerant of broken frames.

After an invalid frame, reading continues at the next header. JSON text cannot contain a header, because line breaks in
its strings are escaped, so a body that contains one is shorter than its Content-Length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_BODY = 64 * 1024 * 1024
"""Limit of bytes in one message. The largest ones contain the text of a document."""
LONGEST_HEADER = 8 * 1024

_HEADER = re.compile(rb"content-length[ \t]*:[ \t]*[0-9]{1,20}[ \t]*\r?\n", re.IGNORECASE)
_FIELD = re.compile(rb"[ \t]*([!-9;-~]+)[ \t]*:[ \t]*(.*?)[ \t]*\Z", re.DOTALL)
_OVERLAP = 64
"""How many bytes to keep while looking for a header, in case only its beginning has arrived."""


class Broken(str):
    """Why a frame could not be read."""

    __slots__ = ()


class Frames:
    """Splits a stream into bodies."""

    def __init__(self) -> None:
        """Expect a header."""
        self._buffer = bytearray()
        self._length: int | None = None
        self._lost = False
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[bytes | Broken]:
        """Add bytes; yield the bodies that they complete, and one ``Broken`` for each invalid frame."""
        self._buffer += data
        while True:
            if self._lost and not self._found_again():
                return
            if self._length is None:
                outcome = self._header()
                if outcome is None:
                    return
                if isinstance(outcome, Broken):
                    self._lost = True
                    yield outcome
                    continue
                self._length = outcome
            if len(self._buffer) < self._length:
                if not self._cut_short():
                    return
                yield Broken("The message is shorter than its Content-Length")
                continue
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._length = None
            self._searched = 0
            yield body

    def give_back(self, body: bytes) -> None:
        """Read ``body``, which is not JSON, again from the first header in it: its Content-Length was wrong."""
        header = _HEADER.search(body)
        if header is not None:
            self._buffer[:0] = body[header.start() :]
        # With or without such a header, the next byte may be in the middle of a message.
        self._lost = True

    def _cut_short(self) -> bool:
        """Look for a header in an incomplete body; drop everything before it; return whether there is one."""
        header = _HEADER.search(self._buffer, max(0, self._searched - _OVERLAP))
        self._searched = len(self._buffer)
        if header is None:
            return False
        del self._buffer[: header.start()]
        self._length = None
        self._searched = 0
        return True

    def _found_again(self) -> bool:
        """Drop everything before the next header; return whether there is one."""
        header = _HEADER.search(self._buffer)
        if header is None:
            del self._buffer[:-_OVERLAP]
            return False
        del self._buffer[: header.start()]
        self._lost = False
        return True

    def _header(self) -> int | Broken | None:
        """Remove a header and return the length of its body; None while the header is incomplete."""
        length: int | Broken | None = None
        position = 0
        while True:
            end = self._buffer.find(b"\n", position)
            if end < 0:
                if len(self._buffer) - position <= LONGEST_HEADER and position <= LONGEST_HEADER:
                    return None
                del self._buffer[:_OVERLAP]
                return Broken(f"The header is longer than {LONGEST_HEADER} bytes")
            line = bytes(self._buffer[position:end]).rstrip(b"\r")
            position = end + 1
            if not line.strip():
                if length is None and position <= len(b"\r\n"):
                    # Blank lines between two messages.
                    del self._buffer[:position]
                    position = 0
                    continue
                del self._buffer[:position]
                return Broken("The header has no Content-Length") if length is None else length
            field = _FIELD.match(line)
            if field is None:
                del self._buffer[:position]
                return Broken("The input is not a header")
            if field[1].lower() == b"content-length":
                length = _length_of(field[2])
                if isinstance(length, Broken):
                    del self._buffer[:position]
                    return length


def frame(body: bytes) -> bytes:
    """Return a body with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _length_of(value: bytes) -> int | Broken:
    if not value.isdigit() or len(value) > len(str(LONGEST_BODY)) + 8:
        return Broken("Content-Length must be the number of bytes that follow the header")
    length = int(value)
    if length > LONGEST_BODY:
        return Broken(f"The message has {length} bytes; the limit is {LONGEST_BODY}")
    return length
