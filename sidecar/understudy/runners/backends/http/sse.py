"""Parse server-sent events from bytes, without I/O: any chunking of the same bytes gives the same events.

The rules are the HTML standard's
(https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream): lines end in LF, CRLF or CR; a
byte order mark at the start is skipped; an event ends with an empty line. Two deviations: ``end`` returns an event at
the end of the stream that lacks its empty line (servers forget the line after ``[DONE]``), and text that is not UTF-8
is an error, because replacement characters would end up in a user's file.
"""

from __future__ import annotations

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError

MAX_LINE_BYTES = 1 << 20
"""Real events have a few hundred bytes; httpx2 limits an event to 1 MiB too."""
_BOM = b"\xef\xbb\xbf"


class ServerEvent(msgspec.Struct, frozen=True):
    """One event: its name (``message`` where none was given) and its data, lines joined by LF."""

    name: str
    data: str


class Decoder:
    """Turns bytes into events. One line and one event may each use at most ``max_bytes`` of memory."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        """Start at the beginning of a stream."""
        self._max = max_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = ""
        self._first = True
        self._skip_line_feed = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that ``chunk`` completes; raise ``malformed_output`` above a bound or for invalid text."""
        events: list[ServerEvent] = []
        if self._skip_line_feed and chunk:
            self._skip_line_feed = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            # The next chunk may begin with the line feed of this CR; the line itself is complete.
            self._skip_line_feed = True
        pieces = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for piece in pieces[:-1]:
            self._grow(piece)
            self._end_line(events)
        self._grow(pieces[-1])
        return events

    def end(self) -> list[ServerEvent]:
        """Return the last event if its empty line is missing; its data may be cut off."""
        events: list[ServerEvent] = []
        if self._line:
            self._end_line(events)
        self._dispatch(events)
        return events

    def _grow(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > self._max:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"The model server sent a line of more than {self._max} bytes.",
                hint="It may not be an event stream: check the model server's `base_url`.",
            )
        self._line += piece

    def _end_line(self, events: list[ServerEvent]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            line = line.removeprefix(_BOM)
            self._first = False
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data_bytes += len(value) + 1
            if self._data_bytes > self._max:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    f"The model server sent an event of more than {self._max} bytes.",
                    hint="It may not be a model's event stream: check the model server's `base_url`.",
                )
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        # A comment (empty field name), `id` and `retry` mean nothing here.

    def _dispatch(self, events: list[ServerEvent]) -> None:
        if self._data:
            try:
                data = b"\n".join(self._data).decode("utf-8")
            except UnicodeDecodeError:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    "The model server sent text that is not UTF-8.",
                    hint="Retry; if it happens again, report it to the server's maintainers.",
                ) from None
            events.append(ServerEvent(self._name or "message", data))
        self._data = []
        self._data_bytes = 0
        self._name = ""
