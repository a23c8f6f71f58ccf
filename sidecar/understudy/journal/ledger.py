"""The ledger: one line per attempt in ``<state>/ledger/<month>.jsonl``, kept longer than the journals.

Each attempt is recorded exactly once, even when the worker is killed at any instant::

    open ─► (attempt runs) ─► journal: finished ─► line appended, fsynced ─► closed

``open`` leaves an empty file ``<state>/ledger/open/<id>`` before the attempt starts; it is removed after the line is on
disk. While it exists, lines may be missing; the process that finishes a dead worker's delegation, or the next worker
that expires old files, appends them. Lines are appended under a lock and only when no earlier line has the same id and
attempt.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.journal import delegation_folder
from understudy.journal.delegation_folder import Folder
from understudy.model.config.delegators import language_of
from understudy.model.delegation.delegations import Attempt, Delegation
from understudy.model.delegation.ledger import LedgerEntry
from understudy.model.delegation.spec import Spec
from understudy.model.states import State
from understudy.model.text import path_quoting
from understudy.model.wire import encode, ready, timestamp

LONGEST_LINE = 64 * 1024

_CHUNK = 256 * 1024


@functools.cache
def _decoder() -> msgspec.json.Decoder[LedgerEntry]:
    return msgspec.json.Decoder(ready(LedgerEntry))


def open_entry(folder: Folder) -> None:
    """Mark that attempts of a delegation will be recorded; call this before the first attempt starts."""
    path = _open_file(folder.id)
    with durable.named_failures(path):
        path.parent.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
        durable.create(path, b"")


def is_open(folder: Folder) -> bool:
    """Return whether lines of a delegation may be missing."""
    return _open_file(folder.id).exists()


def open_ids() -> list[str]:
    """Return the delegations whose lines may be missing: the running ones and those whose worker was killed."""
    try:
        names = os.listdir(_root() / "open")  # noqa: PTH208 - names only
    except FileNotFoundError:
        return []
    return sorted(name for name in names if delegation_folder.is_id(name))


def record(folder: Folder, delegation: Delegation, *, before: int | None = None) -> None:
    """Append a line for each ended attempt that has none yet; the caller holds the delegation's lock.

    While the delegation runs, these are the attempts with a number below ``before``; at its end, all attempts, and then
    the mark of ``open_entry`` is removed. Without that mark, every attempt has its line, and this does nothing. Raises
    ``disk_full`` or ``state_unavailable``; the mark is then kept for another try.
    """
    if not is_open(folder):
        return
    ended = delegation.state is State.FINISHED
    attempts = [attempt for attempt in delegation.attempts if ended or (before is not None and attempt.number < before)]
    if attempts:
        spec = delegation_folder.read_spec(folder)
        _append(delegation, [_entry(delegation, spec, attempt) for attempt in attempts])
    if ended:
        failpoint("ledger written")
        with durable.named_failures(_open_file(folder.id)):
            _open_file(folder.id).unlink(missing_ok=True)


def append(entry: LedgerEntry) -> None:
    """Append the line of an attempt that has no delegation, such as a request in the caller's process.

    A power cut may lose it. Raises ``disk_full`` or ``state_unavailable``.
    """
    path = _month_file()
    with durable.named_failures(path):
        path.parent.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
        with durable.file_lock(_root() / "lock"):
            _append_durably(path, _encode(entry), sync=False)


def discard_open(identifier: str) -> None:
    """Remove the mark of a delegation whose folder is gone."""
    with contextlib.suppress(OSError):
        _open_file(identifier).unlink()


def months() -> list[Path]:
    """Return the ledger's files, oldest first."""
    try:
        return sorted(entry for entry in _root().iterdir() if entry.suffix == ".jsonl")
    except FileNotFoundError:
        return []


def read(since: str = "") -> Iterator[LedgerEntry]:
    """Return the entries of attempts that ended at ``since`` (RFC 3339) or later, in the order of their lines.

    A torn last line and lines that are not entries are skipped.
    """
    return (entry for _, entry in numbered(since))


def read_month(path: Path) -> Iterator[LedgerEntry]:
    """Return the entries in one of ``months``."""
    return (entry for line in _lines(path) if (entry := decoded(line)) is not None)


def numbered(since: str = "") -> Iterator[tuple[tuple[str, int], LedgerEntry]]:
    """Return what ``read`` does, each entry after its month and the number of its line, which never change."""
    for path in months():
        if path.stem >= since[:7]:
            for number, line in enumerate(_lines(path)):
                entry = decoded(line)
                if entry is not None and entry.at >= since:
                    yield (path.stem, number), entry


def newest_failures(since: datetime) -> dict[str, LedgerEntry]:
    """Return the newest attempt of each delegator, by its name, if it failed at ``since`` or later.

    Only the end of the newest file is read, which has hundreds of lines.
    """
    newest: dict[str, LedgerEntry] = {}
    for path in months()[-1:]:
        with contextlib.suppress(OSError):
            descriptor = durable.open_regular(path, os.O_RDONLY)
            with os.fdopen(descriptor, "rb") as file:
                file.seek(max(0, os.fstat(descriptor).st_size - _CHUNK))
                lines = file.read().split(b"\n")
            for line in reversed(lines):
                entry = decoded(line) if line else None
                if entry is not None and entry.at < timestamp(since):
                    break
                if entry is not None:
                    newest.setdefault(entry.delegator, entry)
    return {name: entry for name, entry in newest.items() if entry.failure is not None}


def _append(delegation: Delegation, entries: list[LedgerEntry]) -> None:
    path = _month_file()
    lock = _root() / "lock"
    with durable.named_failures(path), durable.file_lock(lock):
        recorded = _recorded(delegation)
        data = b"".join(_encode(entry) for entry in entries if entry.attempt not in recorded)
        if data:
            _append_durably(path, data)


def _month_file() -> Path:
    return _root() / f"{time.strftime('%Y-%m', time.gmtime())}.jsonl"


def _append_durably(path: Path, data: bytes, *, sync: bool = True) -> None:
    is_new = not path.exists()
    descriptor = durable.open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        # A process that died wrote this line without a newline; its attempt is still marked as open.
        end = durable.cut_torn_tail(descriptor)
        failpoint("ledger begun")
        try:
            # One write; the kernel writes less only when the disk is full, and then the next write fails.
            while data:
                data = data[os.write(descriptor, data) :]
            if sync:
                os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)
    if is_new and sync:
        durable.sync_folder(path.parent)


def _recorded(delegation: Delegation) -> set[int]:
    """Return the attempts of a delegation that have a line; search only files since the delegation was created."""
    quoted_id = f'"{delegation.id}"'.encode()
    attempts = set()
    for path in months():
        if path.stem >= delegation.started_at[:7]:
            for line in _lines(path):
                if quoted_id in line and (entry := decoded(line)) is not None and entry.id == delegation.id:
                    attempts.add(entry.attempt)
    return attempts


def _lines(path: Path) -> Iterator[bytes]:
    """Return the complete lines of a file, except lines too long to be entries."""
    with contextlib.suppress(FileNotFoundError), durable.named_failures(path):
        descriptor = durable.open_regular(path, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            rest = b""
            while data := file.read(_CHUNK):
                *complete, rest = (rest[-LONGEST_LINE - 1 :] + data).split(b"\n")
                yield from (line for line in complete if len(line) <= LONGEST_LINE)


def decoded(line: bytes) -> LedgerEntry | None:
    """Return the entry of a line; None if it cannot be read."""
    try:
        return _decoder().decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None


def _encode(entry: LedgerEntry) -> bytes:
    try:
        line = msgspec.json.encode(entry)
    except UnicodeEncodeError:
        line = encode(entry)
    return line + b"\n"


def _entry(delegation: Delegation, spec: Spec, attempt: Attempt) -> LedgerEntry:
    ended = attempt.finished_at or delegation.finished_at or attempt.started_at
    is_last = attempt is delegation.attempts[-1]
    failure = attempt.failure or (delegation.error if is_last else None)
    subject = [*spec.files, *([spec.target] if spec.target is not None else [])]
    return LedgerEntry(
        at=ended,
        id=delegation.id,
        attempt=attempt.number,
        asked_by=spec.asked_by,
        recipe=delegation.recipe,
        language=language_of(path_quoting.readable(subject[0])) if subject else "",
        size=spec.size,
        workspace=delegation.workspace,
        target=spec.target,
        delegator=attempt.delegator,
        tool=attempt.tool,
        model_server=attempt.model_server,
        model=attempt.model,
        usage=attempt.usage,
        cost_usd=attempt.cost_usd,
        cost_source=attempt.cost_source,
        price_date=attempt.price_date,
        cost_estimated=attempt.cost_usd is not None and attempt.cost_estimated,
        seconds=_seconds_between(attempt.started_at, ended),
        verdict=delegation.verdict if is_last and delegation.verdict is not None else None,
        failure=failure.kind if failure is not None else None,
    )


def _seconds_between(begin: str, end: str) -> float:
    try:
        return max(0.0, round((_moment(end) - _moment(begin)).total_seconds(), 3))
    except ValueError:
        return 0.0


def _moment(at: str) -> datetime:
    moment = datetime.fromisoformat(at)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _root() -> Path:
    return delegation_folder.state_root() / "ledger"


def _open_file(identifier: str) -> Path:
    return _root() / "open" / identifier
