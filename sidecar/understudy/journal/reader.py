"""Read a journal while another process writes it, and load delegations: from events, from ``summary.json``, in pages.

A line is complete when its newline is written: bytes after the last newline are torn or still being written. A line
that cannot be decoded is an event too (``Unknown``), so ``seq`` is the line number for every reader.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import os
from bisect import bisect_left
from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries.fold import fold
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.events import AnyEvent, Event, Finished, Unknown
from understudy.model.delegation.spec import initial
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
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
_SUMMARY_LIMIT = 64 * 1024 * 1024
DEFAULT_PAGE = 100
LARGEST_PAGE = 1000


class _Stamp(msgspec.Struct):
    at: str = ""
    attempt: int = 0


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type, which is built when something is first read: commands start without it."""
    return msgspec.json.Decoder(ready(kind))


def decode(line: bytes, seq: int) -> Event:
    """Return the event of one line, with the line number as its ``seq``; never raises."""
    event: Event
    try:
        event = _decoder(AnyEvent).decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        try:
            stamp = _decoder(_Stamp).decode(line)
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


def load(folder: Folder) -> Delegation:
    """Return the delegation after all events of its journal: ``summary.json`` plus the events it lacks.

    Raises ``state_unavailable`` when neither file can be used, ``unknown_delegation`` when the folder is gone.
    """
    delegation = _cached(folder)
    if delegation is not None and not (_agrees(folder, delegation.last_seq) and _ended_so(folder, delegation)):
        delegation = None
    if delegation is None:
        if not folder.path.is_dir():
            return _gone(folder)
        delegation = initial(delegation_folder.read_spec(folder))
    tail = Tail(folder, after=delegation.last_seq)
    while events := tail.read():
        for event in events:
            delegation = fold(delegation, event)
    return delegation


def peek(folder: Folder) -> Delegation:
    """Return the cached delegation, at most one second old while a worker runs; without a cache, do as ``load``.

    Whether and how a delegation ended is always read from the journal.
    """
    delegation = _cached(folder)
    return delegation if delegation is not None and _ended_so(folder, delegation) else load(folder)


def save(folder: Folder, delegation: Delegation) -> None:
    """Replace ``summary.json``; only the lock's holder may do so. Raises ``OSError``, which callers may ignore."""
    durable.replace(folder.summary, msgspec.json.encode(delegation))


def _cached(folder: Folder) -> Delegation | None:
    try:
        # Plain calls for speed: a page reads a hundred of these.
        descriptor = os.open(f"{folder.path}/summary.json", os.O_RDONLY | durable.OPEN_FLAGS)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size > _SUMMARY_LIMIT:
            return None
        delegation = _decoder(Delegation).decode(os.read(descriptor, size + 1))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    finally:
        os.close(descriptor)
    return delegation if delegation.id == folder.id and delegation.last_seq >= 0 else None


_END_BYTES = 32 * 1024
"""How far from the end ``finished`` is searched; if it is further back, the journal is folded."""


def _agrees(folder: Folder, seq: int) -> bool:
    """Return whether the journal has at least ``seq`` lines; else the summary belongs to another journal."""
    return seq == 0 or last_seq(folder) >= seq


def _ended_so(folder: Folder, delegation: Delegation) -> bool:
    """Return whether the end in a summary is the last one of the journal; true for a delegation that has not ended.

    Every process of the user can write ``summary.json``, so an agent could write its own verdict there. In the journal
    the end is among the last lines, before the decisions.
    """
    if delegation.state is not State.FINISHED:
        return True
    try:
        descriptor = os.open(f"{folder.path}/events.jsonl", os.O_RDONLY | durable.OPEN_FLAGS)
    except OSError:
        return False
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, _END_BYTES, max(0, size - _END_BYTES))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    for line in reversed(tail.split(b"\n")):
        if b'"finished"' in line:
            event = decode(line, 0)
            if isinstance(event, events.Finished):
                return event.verdict == delegation.verdict and event.reservations == delegation.reservations
    return False


def _gone(folder: Folder) -> Delegation:
    raise UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATION,
        f"The folder of delegation {folder.id} is gone.",
        hint="`understudy list` shows the IDs.",
    )


def page(
    *,
    states: Collection[State] | None = None,
    workspace: str | None = None,
    delegator: str | None = None,
    group: str | None = None,
    text: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> tuple[list[Delegation], str | None]:
    """Return delegations, newest first, and the cursor of the next page (None: this is the last).

    ``workspace`` must equal the one in the specification; ``delegator`` matches the chosen delegator and those of the
    attempts; ``text`` is searched in id, title, recipe and result, ignoring case. Summaries are read only until the
    page is full. A cursor names the last delegation read, so a delegation that starts between two pages neither shifts
    nor repeats an entry. Unreadable folders are left out. Raises ``invalid_params`` for an invalid cursor or a limit
    below 1; a limit above ``LARGEST_PAGE`` is reduced to it.
    """
    size = DEFAULT_PAGE if limit is None else min(limit, LARGEST_PAGE)
    if size < 1:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"Invalid limit {limit}.", hint="Use a limit of at least 1.")
    below = None if cursor is None else _decode_cursor(cursor)
    needle = text.casefold() if text else None
    root = delegation_folder.delegations_root()
    delegations: list[Delegation] = []
    names = delegation_folder.ids()
    # The newest are first.
    start = 0 if below is None else bisect_left(range(len(names)), True, key=lambda place: names[place] < below)
    for place in range(start, len(names)):
        folder = Folder(names[place], root / names[place])
        try:
            delegation = peek(folder)
        except (UnderstudyError, OSError):
            continue
        if group is not None and delegation.group_id != group:
            continue
        if not _fits(delegation, states, workspace, delegator, needle):
            continue
        delegations.append(delegation)
        if len(delegations) == size:
            more = place + 1 < len(names)
            return delegations, _encode_cursor(names[place]) if more else None
    return delegations, None


def _fits(
    delegation: Delegation,
    states: Collection[State] | None,
    workspace: str | None,
    delegator: str | None,
    needle: str | None,
) -> bool:
    if states and delegation.state not in states:
        return False
    if workspace is not None and delegation.workspace != workspace:
        return False
    if (
        delegator is not None
        and delegation.delegator != delegator
        and all(attempt.delegator != delegator for attempt in delegation.attempts)
    ):
        return False
    if needle is None:
        return True
    result = delegation.result
    texts = [delegation.id, delegation.title, delegation.recipe]
    if result is not None:
        texts += [result.summary or "", result.text or ""]
    return any(needle in candidate.casefold() for candidate in texts)


def _encode_cursor(last: str) -> str:
    return base64.urlsafe_b64encode(b"1:" + last.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> str:
    with contextlib.suppress(binascii.Error, UnicodeError, ValueError):
        plain = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        version, _, last = plain.partition(":")
        if version == "1" and delegation_folder.is_id(last):
            return last
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        "Invalid cursor: it does not come from a previous page.",
        hint="Omit it to start with the newest delegation.",
    )
