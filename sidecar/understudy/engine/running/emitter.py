"""Write a runner's events to the journal: join deltas, redact secrets, number attempts."""

from __future__ import annotations

import asyncio

import msgspec

from understudy.journal.writing.writer import Writer
from understudy.model.delegation.events import AnyEvent, Event, Text, Thinking
from understudy.model.errors import UnderstudyError
from understudy.model.wire import ready
from understudy.secrets.redaction import Redactor, TextStream

LINES_A_SECOND = 30.0
"""The most lines per second of joined deltas: faster than people read, slow enough for every reader."""
JOINED_CHARACTERS = 256 * 1024
"""The most text kept in memory; more is written at once."""

POLL_ROUNDING_SECONDS = 0.001
"""epoll rounds up to whole milliseconds (epoll_wait(2)), so timers are set this much earlier."""

_DELTAS: tuple[type[Event], ...] = (Text, Thinking)


class Emitter:
    """Appends events in order; text and thinking deltas are joined first.

    The first delta after a pause is written at once; deltas within the next thirtieth of a second are joined into one
    line. Any other event is written at once, after the deltas joined before it.
    """

    def __init__(self, writer: Writer, redactor: Redactor | None = None) -> None:
        """Append through ``writer``; it must be used from one event loop only."""
        self.attempt = 0
        self._writer = writer
        self._redactor = redactor
        self._kind: type[Event] | None = None
        self._pieces: list[str] = []
        self._characters = 0
        self._written_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stream: TextStream | None = None
        self._late: UnderstudyError | None = None

    def redact_with(self, redactor: Redactor | None) -> None:
        """Redact these secrets too from now on."""
        self._redactor = redactor

    def __call__(self, event: Event) -> None:
        """Append ``event``, at once or joined with its neighbours."""
        self._raise_what_came_late()
        if not isinstance(event, _DELTAS):
            self.close()
            self._append(event)
            return
        text: str = event.text  # type: ignore[attr-defined]
        if not text:
            return
        if self._kind is not type(event):
            self.close()
            self._kind = type(event)
            # A secret may be split over two deltas; the stream holds back what could be its beginning.
            self._stream = self._redactor.text_stream() if self._redactor is not None else None
        self._pieces.append(text)
        self._characters += len(text)
        loop = asyncio.get_running_loop()
        due = self._written_at + 1 / LINES_A_SECOND
        if self._characters > JOINED_CHARACTERS or loop.time() >= due:
            self.flush()
        elif self._timer is None:
            self._timer = loop.call_at(due - POLL_ROUNDING_SECONDS, self._flush_late, due)

    def flush(self) -> None:
        """Write the text joined so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._kind is None or not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces, self._characters = [], 0
        self._write(text if self._stream is None else self._stream.feed(text))
        self._written_at = asyncio.get_running_loop().time()

    def _flush_late(self, due: float) -> None:
        # A timer has no caller, so its error (a full disk) is raised by the next call of ``emit``.
        try:
            self.flush()
        except UnderstudyError as error:
            self._late = error
        # A timer is always a little late; counting from when it was due keeps the delays from adding up.
        self._written_at = due

    def _raise_what_came_late(self) -> None:
        if self._late is not None:
            late, self._late = self._late, None
            raise late

    def close(self) -> None:
        """Write all text that is joined or held back; the next delta starts a new line."""
        self._raise_what_came_late()
        self.flush()
        if self._stream is not None:
            self._write(self._stream.finish())
        self._kind = self._stream = None

    def _write(self, text: str) -> None:
        if text and self._kind is not None:
            self._writer.append(self._kind(text=text), attempt=self.attempt)  # type: ignore[call-arg]

    def _append(self, event: Event) -> None:
        if self._redactor is not None:
            event = _redacted(event, self._redactor)
        self._writer.append(event, attempt=self.attempt)


def _redacted(event: Event, redactor: Redactor) -> Event:
    data = msgspec.to_builtins(event)
    clean = redactor.redact_json(data)
    return event if clean == data else msgspec.convert(clean, ready(AnyEvent))
