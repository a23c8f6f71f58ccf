"""The one function that appends to a journal, and what it does when somebody else wrote there.

The holder of the lock is the only writer, so it knows where the file must end and what it must hold.
Bytes that it did not write come from outside, most likely from an agent that is not confined: they are
cut off, what they replaced is restored as far as this writer remembers it, a ``note`` says so, and
``tampered`` stays true to the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from typing import Any, Self

import msgspec

from understudy.journal import bell, disk, locks, reader, summary
from understudy.journal.bounds import encode
from understudy.journal.store import Folder
from understudy.model import events
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event, Finished, Note
from understudy.model.states import Reservation, Verdict

SUMMARY_SECONDS = 1.0
"""How old ``summary.json`` may be where nothing that a list shows has changed."""
RESERVE_BYTES = 16 * 1024
"""Enough for a note, an end and a summary, on a disk that has filled up."""
MOST_NOTES = 5
"""Notes about foreign bytes: one who floods the journal must not do it through us."""

_REMEMBERED_BYTES = 4 * 1024 * 1024
_DELTAS = (events.Text, events.Thinking, events.ToolCall, events.ToolResult, events.File, events.Plan, events.Phase)
_AT_ONCE = (
    *(events.Result, events.AttemptFailed, events.CheckFinished),
    *(events.Decided, events.Applied, events.Undone, events.Amended, events.Discarded, events.Superseded),
)
_CHUNK = 256 * 1024


class Writer:
    """Appends events to one delegation's journal. For one thread; a context manager that closes itself.

    ``lock`` is the descriptor that holds the folder's lock; it stays the caller's (close it after the writer)
    and is made close-on-exec. ``conflict`` when somebody else holds the lock.
    """

    def __init__(self, folder: Folder, lock: int) -> None:
        """Open the journal: cut a torn tail off, count its lines, bring the summary up to date."""
        if not locks.holds(folder, lock):
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"Another process is at work on delegation {folder.id}.",
                hint="Wait until it has ended, or cancel it.",
            )
        os.set_inheritable(lock, False)
        self.folder = folder
        self.tampered = False
        """Whether the journal ever held bytes that this writer did not write, since it was opened."""
        self._lock = lock
        self._notes = 0
        self._attempt = 0
        self._second = -1
        self._stamp = ""
        self._remembered: dict[int, bytes] = {}
        self._remembered_bytes = 0
        self._journal = -1
        with disk.named_failures(folder.events):
            self._journal = disk.open_regular(folder.events, os.O_RDWR | os.O_CREAT)
            try:
                self._end = disk.cut_torn_tail(self._journal)
                self._hash, self._seq = _hash_and_count(self._journal, self._end)
                self.delegation: Delegation = summary.load(folder)
                """The delegation after the last event."""
                last = reader.read_events(folder, after=max(0, self._seq - 1))
            except BaseException:
                os.close(self._journal)
                raise
        self._at = last[-1].at if last and _is_time(last[-1].at) else ""
        self._dirty = True
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
        """Write ``event`` as the next line; return its ``seq``. What this accepted, no SIGKILL takes back.

        ``seq``, ``at`` and ``attempt`` (0: before the first) are filled in; an event above 1 MiB is shortened (see
        ``bounds``). Raises ``store_full`` or ``store_unavailable`` with nothing written, and ``internal`` for
        a move that no delegation makes. A ``finished`` event is written after the whole journal was compared
        with what was written; if it was tampered with, the event gets that reservation and is not ``verified``.
        """
        if summary.state_after(self.delegation.state, event) is None:
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
        else:
            with disk.named_failures(self.folder.events):
                self._expect_own_end()
        seq = self._append(event)
        if isinstance(event, Finished):
            self.sync()
            self._release_reserve()
        return seq

    def verify(self) -> bool:
        """Compare the whole journal with what was written; restore and note what differs; tell whether it was whole.

        Call it before deciding on a verdict; ``append`` of ``finished`` calls it once more.
        """
        with disk.named_failures(self.folder.events):
            self._expect_own_end()
            whole: bool = _hash_and_count(self._journal, self._end)[0].digest() == self._hash.digest()
            if not whole:
                self._rebuild()
                self._note("Lines of this journal were changed by another process", restored=True)
        return whole

    def sync(self) -> None:
        """Return when everything appended so far is on the disk."""
        with disk.named_failures(self.folder.events):
            os.fsync(self._journal)

    def flush_summary(self) -> None:
        """Write ``summary.json`` if it is behind. A full disk is no failure here: readers fold what it lacks."""
        if not self._dirty:
            return
        with contextlib.suppress(OSError):
            summary.save(self.folder, self.delegation)
            self._dirty = False
        self._saved = time.monotonic()

    def close(self) -> None:
        """Bring the summary up to date and close the journal. The lock stays held until its descriptor is closed."""
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
            raise disk.failure(error, self.folder.events) from error
        self._end += len(line)
        self._seq = seq
        self._hash.update(line)
        self._remember(stamped, line)
        before, self.delegation = self.delegation, summary.fold(self.delegation, stamped)
        self._dirty = True
        if (
            isinstance(stamped, _AT_ONCE)
            or _shows(before) != _shows(self.delegation)
            or time.monotonic() - self._saved >= SUMMARY_SECONDS
        ):
            self.flush_summary()
        bell.ring(self.folder.id)
        return seq

    def _write(self, line: bytes, *, spend: bool) -> None:
        # At the offset where this writer ended, not at the file's end: foreign bytes that arrive between the look
        # and the write are overwritten instead of being taken for the beginning of this line.
        try:
            disk.write_at(self._journal, line, self._end)
        except OSError:
            os.ftruncate(self._journal, self._end)
            # The reserve is for how it ended, not for more of the answer that filled the disk.
            if not spend or not self._release_reserve():
                raise
            try:
                disk.write_at(self._journal, line, self._end)
            except OSError:
                os.ftruncate(self._journal, self._end)
                raise

    def _expect_own_end(self) -> None:
        """Look whether the journal is the file that this writer knows, and ends where it must; repair it if not."""
        found = os.fstat(self._journal)
        try:
            named = self.folder.events.stat(follow_symlinks=False)
            same = os.path.samestat(found, named)
        except FileNotFoundError:
            same = False
        if same and found.st_size == self._end:
            return
        prefix = (
            found.st_size >= self._end and _hash_and_count(self._journal, self._end)[0].digest() == self._hash.digest()
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
        """Write the journal anew: each line as it is remembered, else as it stands, else as ``unknown``."""
        temporary = self.folder.events.with_name("events.jsonl.new")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        fresh = disk.open_regular(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            digest = hashlib.sha256()
            end = 0
            # The file that this writer knows, even where its name is gone or taken.
            standing = _lines_of(self._journal)
            for seq in range(1, self._seq + 1):
                line = next(standing, None)
                if seq in self._remembered:
                    line = self._remembered[seq]
                elif line is None or not _is_line(line, seq):
                    lost = events.Unknown(seq=seq, at=self._at, attempt=self._attempt, original="")
                    line = msgspec.json.encode(lost) + b"\n"
                disk.write_at(fresh, line, end)
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
        rest = "; what the worker still knew was restored, the rest is marked as unknown." if restored else "."
        self._append(Note(level="warning", text=text + rest))

    def _remember(self, event: Event, line: bytes) -> None:
        """Keep what the state follows from; the many small pieces of an answer are not kept."""
        if isinstance(event, _DELTAS) or self._remembered_bytes + len(line) > _REMEMBERED_BYTES:
            return
        self._remembered[self._seq] = line
        self._remembered_bytes += len(line)

    def _now(self) -> str:
        """Return RFC 3339 UTC with milliseconds, never before what was written last."""
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        if seconds != self._second:
            self._second = seconds
            self._stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        self._at = max(self._at, f"{self._stamp}.{nanoseconds // 1_000_000:03d}Z")
        return self._at

    def _hold_reserve(self) -> None:
        """Take a few blocks of the disk. On a disk without them the worker finds out with its first event."""
        with contextlib.suppress(OSError):
            disk.create(self.folder.reserve, b"\0" * RESERVE_BYTES)

    def _release_reserve(self) -> bool:
        try:
            self.folder.reserve.unlink()
        except OSError:
            return False
        return True


def _shows(delegation: Delegation) -> tuple[Any, ...]:
    """Return what must be in the summary at once when it changes."""
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
    """Give the complete lines of a file; one that is too long to be ours is given without its middle."""
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
