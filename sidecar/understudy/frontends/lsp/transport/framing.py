"""Where a message begins and ends: the base protocol of LSP 3.17, forgiving towards broken frames.

After a frame that cannot be, reading goes on at the next header. A header cannot stand inside a JSON text: in its
strings, line ends are escaped. So a body in which one is found was announced longer than it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_BODY = 64 * 1024 * 1024
"""Bytes of one message. The largest an editor sends is the text of a document."""
LONGEST_HEADER = 8 * 1024

_HEADER = re.compile(rb"content-length[ \t]*:[ \t]*[0-9]{1,20}[ \t]*\r?\n", re.IGNORECASE)
_FIELD = re.compile(rb"[ \t]*([!-9;-~]+)[ \t]*:[ \t]*(.*?)[ \t]*\Z", re.DOTALL)
_OVERLAP = 64
"""Bytes kept while looking for a header, in case one is cut in two."""


class Broken(str):
    """Why a frame could not be read."""

    __slots__ = ()


class Frames:
    """Cuts a stream into bodies."""

    def __init__(self) -> None:
        """Begin at a header."""
        self._buffer = bytearray()
        self._length: int | None = None
        self._lost = False
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[bytes | Broken]:
        """Take bytes and give what they complete: bodies, and one ``Broken`` for each frame that could not be read."""
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
                yield Broken("this message is shorter than its Content-Length says")
                continue
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._length = None
            self._searched = 0
            yield body

    def give_back(self, body: bytes) -> None:
        """Take back what follows a header inside ``body``, which was no JSON: its length was wrong."""
        found = _HEADER.search(body)
        if found is not None:
            self._buffer[:0] = body[found.start() :]
        # Either way the stream may go on in the middle of something.
        self._lost = True

    def _cut_short(self) -> bool:
        """Look for a header in a body that is not complete; drop all before it, and tell whether there is one."""
        found = _HEADER.search(self._buffer, max(0, self._searched - _OVERLAP))
        self._searched = len(self._buffer)
        if found is None:
            return False
        del self._buffer[: found.start()]
        self._length = None
        self._searched = 0
        return True

    def _found_again(self) -> bool:
        """Drop everything before the next header; tell whether there is one."""
        found = _HEADER.search(self._buffer)
        if found is None:
            del self._buffer[:-_OVERLAP]
            return False
        del self._buffer[: found.start()]
        self._lost = False
        return True

    def _header(self) -> int | Broken | None:
        """Take a header off and return the length of its body; None while it is incomplete."""
        length: int | Broken | None = None
        position = 0
        while True:
            end = self._buffer.find(b"\n", position)
            if end < 0:
                if len(self._buffer) - position <= LONGEST_HEADER and position <= LONGEST_HEADER:
                    return None
                del self._buffer[:_OVERLAP]
                return Broken(f"a header has at most {LONGEST_HEADER} bytes")
            line = bytes(self._buffer[position:end]).rstrip(b"\r")
            position = end + 1
            if not line.strip():
                if length is None and position <= len(b"\r\n"):
                    # Blank lines between two messages.
                    del self._buffer[:position]
                    position = 0
                    continue
                del self._buffer[:position]
                return Broken("a message begins with Content-Length") if length is None else length
            field = _FIELD.match(line)
            if field is None:
                del self._buffer[:position]
                return Broken("this is neither a header nor a message")
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
        return Broken("Content-Length is the number of bytes that follow the header")
    length = int(value)
    if length > LONGEST_BODY:
        return Broken(f"a message has at most {LONGEST_BODY} bytes, this one would have {length}")
    return length
