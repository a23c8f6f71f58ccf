"""Read a journal while another process writes it.

A line is complete when its newline is written: bytes after the last newline are torn or still being written. A line
that cannot be decoded is an event too (``Unknown``), so ``seq`` is the line number for every reader.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation import events
from understudy.model.delegation.events import AnyEvent, Event, Finished, Unknown
from understudy.model.wire import ready

CHUNK = 256 * 1024
LONGEST_LINE = 2 * 1024 * 1024
"""The writer's lines are below half of this; a longer line comes from another program and is not kept in memory."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes that one call of ``read`` decodes (plus one line)."""
ORIGINAL_CHARACTERS = 4096
"""How much of a line that cannot be decoded is passed on."""

_REMEMBERED_LINES = 64
_REMEMBERED_BYTES = 128

_decoder = msgspec.json.Decoder(ready(AnyEvent))


class _Stamp(msgspec.Struct):
    at: str = ""
    attempt: int = 0


_stamp_decoder = msgspec.json.Decoder(ready(_Stamp))


def decode(line: bytes, seq: int) -> Event:
    """Return the event of one line, with the line number as its ``seq``; never raises."""
    event: Event
    try:
        event = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        try:
            stamp = _stamp_decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
            stamp = _Stamp()
        original = line[: ORIGINAL_CHARACTERS * 4].decode("utf-8", "replace")[:ORIGINAL_CHARACTERS]
        event = Unknown(at=stamp.at, attempt=stamp.attempt, original=original.rstrip("\n"))
    event.seq = seq
    event.attempt = max(event.attempt, 0)
    return event


class Lines:
    """Read the complete lines of a growing file, each once and in order, in constant memory.

    If lines already read have changed (the writer cut off bytes that it had not written), reading returns to the last
    line that is still the same, and the repaired lines follow with the same numbers.
    """

    def __init__(self, path: Path, after: int = 0) -> None:
        """Skip ``after`` lines. The file may not exist yet."""
        self.path = path
        self.count = 0
        """Lines passed so far: the ``seq`` of the last one."""
        self._offset = 0
        self._target = max(0, after)
        self._past: deque[tuple[int, int, bytes]] = deque(maxlen=_REMEMBERED_LINES)

    def read(self, limit: int) -> list[bytes]:
        """Return at most ``limit`` further lines without their newlines, none when there is nothing new."""
        try:
            descriptor = durable.open_regular(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise durable.failure(error, self.path) from error
        try:
            with durable.named_failures(self.path):
                self._return_to_unchanged(descriptor)
                if self.count < self._target and not self._skip(descriptor):
                    return []
                return self._read(descriptor, limit)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, limit: int) -> list[bytes]:
        lines: list[bytes] = []
        taken = 0
        while len(lines) < limit and taken < MOST_BYTES:
            data = os.pread(descriptor, CHUNK, self._offset)
            end = data.rfind(b"\n") + 1
            if end:
                pieces = data[:end].split(b"\n", limit - len(lines))
                pieces.pop()  # the bytes after the last newline that counts
                for line in pieces:
                    taken += len(line)
                    self._pass(line, len(line) + 1)
                lines += pieces
                continue
            if not data:
                break
            length = _line_length(descriptor, self._offset, len(data))
            if length is None:
                break
            line = os.pread(descriptor, min(length - 1, LONGEST_LINE), self._offset)
            taken += len(line)
            lines.append(line)
            self._pass(line, length, keep=length - 1 <= LONGEST_LINE)
        return lines

    def _pass(self, line: bytes, length: int, *, keep: bool = True) -> None:
        self._offset += length
        self.count += 1
        if keep:
            self._past.append((self.count, self._offset, line[-_REMEMBERED_BYTES:]))

    def _skip(self, descriptor: int) -> bool:
        """Skip to the line after ``_target``; return whether it was reached."""
        while self.count < self._target:
            data = os.pread(descriptor, CHUNK, self._offset)
            newlines = data.count(b"\n")
            if not data:
                return False
            if self.count + newlines <= self._target and newlines:
                self._offset += data.rfind(b"\n") + 1
                self.count += newlines
                continue
            if not newlines:
                length = _line_length(descriptor, self._offset, len(data))
                if length is None:
                    return False
                self._offset += length
                self.count += 1
                continue
            place = -1
            for _ in range(self._target - self.count):
                place = data.index(b"\n", place + 1)
            self._offset += place + 1
            self.count = self._target
        return True

    def _return_to_unchanged(self, descriptor: int) -> None:
        if not self._past:
            if self._offset and os.pread(descriptor, 1, self._offset - 1) != b"\n":
                self._offset, self.count = 0, 0
            return
        first = self._past[0][0]
        while self._past:
            number, offset, tail = self._past[-1]
            start = offset - 1 - len(tail)
            if os.pread(descriptor, len(tail) + 1, start) == tail + b"\n":
                self.count, self._offset = number, offset
                return
            self._past.pop()
        self._target = max(self._target, first - 1)
        self._offset, self.count = 0, 0


class Tail:
    """Read the events of one delegation after a given ``seq``."""

    def __init__(self, folder: Folder, after: int = 0) -> None:
        """Begin after the event with ``seq`` ``after``."""
        self.has_finished = False
        """Whether the delegation had finished at the last event read (no later event started it again)."""
        self._lines = Lines(folder.events, after)

    @property
    def last(self) -> int:
        """The ``seq`` of the last event read."""
        return self._lines.count

    def read(self, limit: int = 1000) -> list[Event]:
        """Return the next events, at most ``limit`` and some 4 MiB; none when there is nothing new yet."""
        lines = self._lines.read(limit)
        seq = self._lines.count - len(lines)
        decoded: list[Event] = []
        for line in lines:
            seq += 1
            event = decode(line, seq)
            state = events.STATE_AFTER.get(type(event))
            if state is not None:
                self.has_finished = isinstance(event, Finished)
            decoded.append(event)
        return decoded


def read_events(folder: Folder, after: int = 0, limit: int = 1000) -> list[Event]:
    """Return at most ``limit`` events after ``seq`` ``after``."""
    tail = Tail(folder, after)
    decoded: list[Event] = []
    while len(decoded) < limit and (more := tail.read(limit - len(decoded))):
        decoded += more
    return decoded


def last_seq(folder: Folder) -> int:
    """Return how many complete lines the journal has, without decoding them."""
    count = 0
    try:
        descriptor = durable.open_regular(folder.events, os.O_RDONLY)
    except OSError:
        return 0
    try:
        offset = 0
        while data := os.pread(descriptor, CHUNK, offset):
            offset += len(data)
            count += data.count(b"\n")
    finally:
        os.close(descriptor)
    return count


def _line_length(descriptor: int, offset: int, searched: int) -> int | None:
    """Return the length, newline included, of the line at ``offset``, whose first ``searched`` bytes have none."""
    place = offset + searched
    while data := os.pread(descriptor, CHUNK, place):
        index = data.find(b"\n")
        if index >= 0:
            return place + index + 1 - offset
        place += len(data)
    return None
