"""Append to a journal, one line of bounded length per event, and repair it when another process wrote to it.

The holder of the lock is the only writer, so it knows where the file must end and what it must contain.
Bytes that it did not write most likely come from an agent without a sandbox. They are
cut off, the lines they replaced are restored as far as this writer remembers them, a ``note`` reports it, and
``tampered`` stays true.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from typing import Any, Self

import msgspec

from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.journal import change_notifications, ledger, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries import fold
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.events import Event, Finished, Note, Started
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.verdicts import Reservation, Verdict
from understudy.model.wire import ready, timestamp

SUMMARY_SECONDS = 1.0
"""The maximum age of ``summary.json`` while nothing changes that a list shows."""
RESERVE_BYTES = 16 * 1024
"""Bytes reserved: enough for a note, the end and a summary on a full disk."""
MOST_NOTES = 5
"""The most notes about foreign bytes, so that a process that keeps writing them cannot flood the journal with notes."""
_REMEMBERED_BYTES = 4 * 1024 * 1024
_DELTAS = (events.Text, events.Thinking, events.ToolCall, events.ToolResult, events.File, events.Plan, events.Phase)
_AT_ONCE = (
    *(events.Result, events.AttemptFailed, events.CheckFinished, events.Confirmed),
    *(events.Decided, events.Applied, events.Undone, events.Amended, events.Discarded, events.Superseded),
    events.Dismissed,
)
_CHUNK = 256 * 1024
LONGEST_LINE = 1024 * 1024
"""An event is one ``write`` and one message to a client; anything larger belongs in a file."""
_SHORTEST_TEXT = 64
_DEEPEST = 64
_encoder = msgspec.json.Encoder()


class Writer:
    """Append events to one delegation's journal. Not thread-safe; a context manager.

    ``lock`` is the descriptor that holds the folder's lock; the caller closes it after the writer. It is made
    close-on-exec. Raises ``conflict`` when another process holds the lock.
    """

    def __init__(self, folder: Folder, lock: int) -> None:
        """Open the journal: cut off a torn line, count the lines, and update the summary."""
        if not worker_files.holds(folder, lock):
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"Another process is using delegation {folder.id}.",
                hint="Wait until it has finished, or cancel the delegation.",
            )
        os.set_inheritable(lock, False)
        self.folder = folder
        self.tampered = False
        """Whether bytes that this writer did not write were found since it opened the journal."""
        self._lock = lock
        self._notes = 0
        self._attempt = 0
        self._remembered: dict[int, bytes] = {}
        self._remembered_bytes = 0
        self._journal = -1
        with durable.named_failures(folder.events):
            self._journal = durable.open_regular(folder.events, os.O_RDWR | os.O_CREAT)
            try:
                self._end = durable.cut_torn_tail(self._journal)
                self._hash, self._seq = _hash_and_count(self._journal, self._end)
                self.delegation: Delegation = reader.load(folder)
                """The delegation after the last event."""
                last = reader.read_events(folder, after=max(0, self._seq - 1))
            except BaseException:
                os.close(self._journal)
                raise
        self._at = last[-1].at if last and _is_time(last[-1].at) else ""
        self._dirty = True
        self._together = False
        self._saved = 0.0
        self.flush_summary()
        self._hold_reserve()

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def last_seq(self) -> int:
        """The ``seq`` of the last event."""
        return self._seq

    def append(self, event: Event, *, attempt: int) -> int:
        """Write ``event`` as the next line; return its ``seq``. When this returns, the event survives a SIGKILL.

        ``seq``, ``at`` and ``attempt`` (0: before the first) are filled in; an event above 1 MiB is shortened (see
        ``encode``). Raises ``disk_full`` or ``state_unavailable`` with nothing written, and ``internal`` for
        an illegal transition. Before a ``finished`` event the whole journal is compared
        with what was written; if it was tampered with, the event gets that reservation and is not ``verified``.
        """
        if fold.state_after(self.delegation.state, event) is None:
            raise UnderstudyError(
                ErrorKind.INTERNAL,
                f"Delegation {self.folder.id} is {self.delegation.state} and cannot take {type(event).__name__!r} now.",
                hint="Please report this with the delegation's events.jsonl.",
            )
        self._attempt = max(0, attempt)
        if isinstance(event, Finished):
            self.verify()
            if self.tampered:
                event = _with_tampered(event)
        elif not self._together:
            with durable.named_failures(self.folder.events):
                self._expect_own_end()
        if isinstance(event, Started):
            ledger.open_entry(self.folder)
            with contextlib.suppress(UnderstudyError):
                ledger.record(self.folder, self.delegation, before=self._attempt)
        seq = self._append(event)
        if isinstance(event, Finished):
            self.sync()
            self._release_reserve()
            failpoint("finished")
            # If this fails, the mark stays and another process records the attempts.
            with contextlib.suppress(UnderstudyError):
                ledger.record(self.folder, self.delegation)
            change_notifications.notify(self.folder.id)  # for readers of the ledger
        return seq

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write the summary once for all events of the block, and notify others once: each costs as much as the result.

        The journal is compared with what was written once, too, at the beginning. Readers fold the events that the
        summary lacks. A block inside of a block changes nothing.
        """
        if self._together:
            yield
            return
        with durable.named_failures(self.folder.events):
            self._expect_own_end()
        self._together = True
        try:
            yield
        finally:
            self._together = False
            self.flush_summary()
            change_notifications.notify(self.folder.id)

    def verify(self) -> bool:
        """Compare the whole journal with what was written; repair and note differences; return whether it was intact.

        Call it before computing a verdict; appending ``finished`` calls it once more.
        """
        with durable.named_failures(self.folder.events):
            self._expect_own_end()
            whole: bool = _hash_and_count(self._journal, self._end)[0].digest() == self._hash.digest()
            if not whole:
                self._rebuild()
                self._note("Lines of this journal were changed by another process", restored=True)
        return whole

    def sync(self) -> None:
        """Block until everything appended so far is on the disk."""
        with durable.named_failures(self.folder.events):
            os.fsync(self._journal)

    def flush_summary(self) -> None:
        """Write ``summary.json`` if it is behind. Ignore a full disk: readers fold the events it lacks."""
        if not self._dirty:
            return
        with contextlib.suppress(OSError):
            reader.save(self.folder, self.delegation)
            self._dirty = False
        self._saved = time.monotonic()

    def close(self) -> None:
        """Update the summary and close the journal. The lock is held until its descriptor is closed."""
        if self._journal < 0:
            return
        self.flush_summary()
        self._release_reserve()
        os.close(self._journal)
        self._journal = -1

    def _append(self, event: Event) -> int:
        seq = self._seq + 1
        stamped = msgspec.structs.replace(event, seq=seq, at=self._now(), attempt=self._attempt)
        stamped, line = encode(stamped)
        try:
            self._write(line, spend=not isinstance(event, _DELTAS) and len(line) < RESERVE_BYTES // 4)
        except OSError as error:
            raise durable.failure(error, self.folder.events) from error
        self._end += len(line)
        self._seq = seq
        self._hash.update(line)
        self._remember(stamped, line)
        before, self.delegation = self.delegation, fold.fold(self.delegation, stamped)
        self._dirty = True
        if self._together:
            return seq
        if (
            isinstance(stamped, _AT_ONCE)
            or _shows(before) != _shows(self.delegation)
            or time.monotonic() - self._saved >= SUMMARY_SECONDS
        ):
            self.flush_summary()
        change_notifications.notify(self.folder.id)
        return seq

    def _write(self, line: bytes, *, spend: bool) -> None:
        # Write at this writer's own offset, not at the file's end: foreign bytes that arrive between the check
        # and the write are overwritten instead of becoming the beginning of this line.
        try:
            durable.write_at(self._journal, line, self._end)
        except OSError:
            os.ftruncate(self._journal, self._end)
            # The reserve is for the end of the delegation, not for more of the output that filled the disk.
            if not spend or not self._release_reserve():
                raise
            try:
                durable.write_at(self._journal, line, self._end)
            except OSError:
                os.ftruncate(self._journal, self._end)
                raise

    def _expect_own_end(self) -> None:
        """Check that the journal is the file this writer opened and ends where it must; repair it if not."""
        facts = os.fstat(self._journal)
        try:
            named = self.folder.events.stat(follow_symlinks=False)
            same = os.path.samestat(facts, named)
        except FileNotFoundError:
            same = False
        if same and facts.st_size == self._end:
            return
        prefix = (
            facts.st_size >= self._end and _hash_and_count(self._journal, self._end)[0].digest() == self._hash.digest()
        )
        if same and prefix:
            os.ftruncate(self._journal, self._end)
            self._note("Bytes that this delegation's worker did not write were cut from its journal", restored=False)
            return
        self._rebuild()
        self._note(
            "The journal was shortened or changed by another process"
            if same
            else "The journal was replaced or removed by another process",
            restored=not prefix,
        )

    def _rebuild(self) -> None:
        """Rewrite the journal: each line as remembered, else as it is in the file, else as ``unknown``."""
        temporary = self.folder.events.with_name("events.jsonl.new")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        fresh = durable.open_regular(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            digest = hashlib.sha256()
            end = 0
            # The file that this writer opened, even if it was removed or replaced.
            standing = _lines_of(self._journal)
            for seq in range(1, self._seq + 1):
                line = next(standing, None)
                if seq in self._remembered:
                    line = self._remembered[seq]
                elif line is None or not _is_line(line, seq):
                    lost = events.Unknown(seq=seq, at=self._at, attempt=self._attempt, original="")
                    line = msgspec.json.encode(lost) + b"\n"
                durable.write_at(fresh, line, end)
                digest.update(line)
                end += len(line)
            temporary.replace(self.folder.events)
        except OSError:
            os.close(fresh)
            raise
        os.close(self._journal)
        self._journal, self._end, self._hash = fresh, end, digest

    def _note(self, text: str, *, restored: bool) -> None:
        self.tampered = True
        self._notes += 1
        if self._notes > MOST_NOTES:
            return
        rest = "; lines that the worker remembered were restored, the others marked as unknown." if restored else "."
        self._append(Note(level="warning", text=text + rest))

    def _remember(self, event: Event, line: bytes) -> None:
        """Remember the lines that determine the state, but not the many small pieces of an answer."""
        if isinstance(event, _DELTAS) or self._remembered_bytes + len(line) > _REMEMBERED_BYTES:
            return
        self._remembered[self._seq] = line
        self._remembered_bytes += len(line)

    def _now(self) -> str:
        """Return RFC 3339 UTC with milliseconds, never before the last event."""
        self._at = max(self._at, timestamp())
        return self._at

    def _hold_reserve(self) -> None:
        """Reserve a few blocks of the disk. If the disk is full, the first event will fail."""
        with contextlib.suppress(OSError):
            durable.create(self.folder.reserve, b"\0" * RESERVE_BYTES)

    def _release_reserve(self) -> bool:
        try:
            self.folder.reserve.unlink()
        except OSError:
            return False
        return True


def _shows(delegation: Delegation) -> tuple[Any, ...]:
    """Return the fields that must be in the summary at once when they change."""
    return (
        delegation.state,
        delegation.verdict,
        delegation.reservations,
        delegation.review,
        delegation.waiting_for,
        delegation.error,
    )


def _with_tampered(event: Finished) -> Finished:
    reservations = event.reservations
    if Reservation.TAMPERED not in reservations:
        reservations = [*reservations, Reservation.TAMPERED]
    verdict = Verdict.UNVERIFIED if event.verdict is Verdict.VERIFIED else event.verdict
    return msgspec.structs.replace(event, verdict=verdict, reservations=reservations)


def _hash_and_count(descriptor: int, end: int) -> tuple[Any, int]:
    """Return the SHA-256 of the first ``end`` bytes and how many newlines they hold."""
    digest = hashlib.sha256()
    lines = 0
    offset = 0
    while offset < end and (data := os.pread(descriptor, min(_CHUNK, end - offset), offset)):
        digest.update(data)
        lines += data.count(b"\n")
        offset += len(data)
    return digest, lines


def _lines_of(descriptor: int):  # type: ignore[no-untyped-def]  # noqa: ANN202 - bytes with newline, one by one
    """Yield the complete lines of a file; a line too long to be ours is yielded without its middle."""
    offset = 0
    rest = b""
    while data := os.pread(descriptor, _CHUNK, offset):
        offset += len(data)
        *complete, tail = data.split(b"\n")
        for line in complete:
            yield rest + line + b"\n"
            rest = b""
        if len(rest) < reader.LONGEST_LINE:
            rest += tail


def _is_line(line: bytes, seq: int) -> bool:
    try:
        return bool(msgspec.json.decode(line).get("seq") == seq)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, AttributeError):
        return False


def _is_time(text: str) -> bool:
    return len(text) == 24 and text[10] == "T" and text.endswith("Z") and text.isascii()


def encode(event: Event) -> tuple[Event, bytes]:
    """Return the event that is written, and its line with the newline.

    Invalid Unicode (lone surrogates) is replaced. If the line is longer than ``LONGEST_LINE``, the longest texts
    are cut (``… [N characters left out]``), then lists, until
    it fits; ``truncatedBytes`` of a ``tool_result`` counts what was cut. The event returned equals what a
    reader will decode.
    """
    try:
        line = _encoder.encode(event)
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError, ValueError):
        event = _plain(event)
        line = _encoder.encode(event)
    if len(line) >= LONGEST_LINE:
        event, line = _shortened(event, line)
    return event, line + b"\n"


def _plain(event: Event) -> Event:
    fields = {name: _writable(getattr(event, name), 0) for name in event.__struct_fields__}
    return type(event)(**fields)


def _writable(value: Any, depth: int) -> Any:
    """Return ``value`` with everything replaced that JSON cannot represent."""
    if isinstance(value, str):
        return type(value)(value) if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        # Other programs read JSON numbers of at most 64 bits.
        return value if -(2**63) <= value < 2**63 else hex(value)
    if depth > _DEEPEST:
        return "… [nested too deeply]"
    if isinstance(value, msgspec.Struct):
        parts = {name: _writable(getattr(value, name), depth + 1) for name in value.__struct_fields__}
        return type(value)(**parts)
    if isinstance(value, dict):
        return {str(_writable(str(key), depth)): _writable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_writable(item, depth + 1) for item in value]
    return str(value).encode("utf-8", "replace").decode()


def _shortened(event: Event, line: bytes) -> tuple[Event, bytes]:
    # Not to_builtins: reading the line back gives the plain data that a reader would see.
    data = msgspec.json.decode(line)
    longest_text, longest_list = LONGEST_LINE // 2, 1 << 30
    while len(line) >= LONGEST_LINE:
        if longest_text > _SHORTEST_TEXT:
            longest_text //= 2
        elif longest_list > 1:
            longest_list = min(longest_list, 1 << 16) // 2
        else:
            data = _without_free_form(data)
        short = _cut(data, longest_text, longest_list)
        if short.get("type") == "tool_result" and len(data["output"]) > longest_text:
            gone = len(data["output"][longest_text:].encode())
            short["truncatedBytes"] = (data.get("truncatedBytes") or 0) + gone
        event = msgspec.convert(short, ready(type(event)))
        line = _encoder.encode(event)
    return event, line


def _cut(value: Any, text: int, items: int) -> Any:
    if isinstance(value, str):
        if len(value) <= text:
            return value
        return f"{value[:text]}… [{len(value) - text} characters left out]"
    if isinstance(value, list):
        return [_cut(item, text, items) for item in value[:items]]
    if isinstance(value, dict):
        return {key: _cut(item, text, items) for key, item in list(value.items())[: max(items, 64)]}
    return value


def _without_free_form(data: Any) -> Any:
    """Drop free-form values that an agent may nest; nothing else can still be this large."""
    return {key: None if key == "input" else [] if isinstance(value, list) else value for key, value in data.items()}
