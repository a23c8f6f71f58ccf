"""The ledger's entries in a SQLite file, so that figures of many attempts take milliseconds.

``<state>/ledger/attempts.sqlite`` is derived from the ledger and may be removed at any time: each ``query`` first adds
the lines that it lacks, and reads a file of the ledger again if bytes that were read have changed. It is replaced when
it is damaged or of another version; where it cannot be written, it is made in memory, which takes longer.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, TypeVar

from understudy.files import durable
from understudy.journal import delegation_folder, ledger
from understudy.model.delegation.delegations import Usage
from understudy.model.delegation.ledger import LedgerEntry
from understudy.policy.budget import amount

NAME = "attempts.sqlite"
NANO = Decimal("1e-9")
"""The unit of ``cost``, in US dollars: SQLite adds integers without loss."""

_NANOS = 10**9
_T = TypeVar("_T")
_VERSION = 1
"""The ``user_version`` of the schema; change it with ``_COLUMNS``."""
_BUSY_SECONDS = 5.0
_MOST_USD = 10**5
"""An attempt that cost more is a mistake of its agent, and one whose cost is not known."""
_MOST = 10**12
"""A larger number of tokens is a mistake, too; SQLite adds up to nine million of these."""
_COLUMNS = (
    *("at", "id", "attempt", "session", "requester", "recipe", "language", "size", "workspace", "delegator", "tool"),
    *("model_server", "model", "verdict", "failure", "seconds", "cost", "cost_estimated", "cost_computed"),
    *Usage.__struct_fields__,
)
_SCHEMA = f"""
CREATE TABLE file (name TEXT PRIMARY KEY, inode INTEGER, changed INTEGER, size INTEGER, done INTEGER, sum INTEGER);
CREATE TABLE attempt (file TEXT, {", ".join(_COLUMNS)});
CREATE INDEX following ON attempt (id, attempt) WHERE attempt > 1;
PRAGMA user_version = {_VERSION};
"""
_INSERT = f"INSERT INTO attempt VALUES (?, {', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our own names


def query(answer: Callable[[sqlite3.Connection], _T]) -> _T:
    """Return ``answer`` of a connection whose table ``attempt`` has a row for each entry of the ledger.

    Raises ``state_unavailable`` if a file of the ledger cannot be read.
    """
    path = delegation_folder.state_root() / "ledger" / NAME
    for _ in range(2):
        try:
            # SQLite would follow a link, and let others read the file.
            os.close(durable.open_regular(path, os.O_RDWR | os.O_CREAT))
            return _answered(str(path), answer)
        except OSError:
            break
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                break
            for name in (path, path.with_name(f"{NAME}-journal")):
                with contextlib.suppress(OSError):
                    name.unlink()
    return _answered(":memory:", answer)


def _answered(place: str, answer: Callable[[sqlite3.Connection], _T]) -> _T:
    with contextlib.closing(sqlite3.connect(place, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        _require_version(connection)
        files = {path.name: path for path in ledger.months()}
        now = {name: (status.st_ino, status.st_mtime_ns, status.st_size) for name, status in _statuses(files)}
        if {name: values[:3] for name, values in _known(connection).items()} != now:
            connection.execute("BEGIN IMMEDIATE")
            for name in _known(connection).keys() - now.keys():
                _forget(connection, name)
            for name, status in now.items():
                _update(connection, files[name], status)
            connection.execute("COMMIT")
        connection.execute("BEGIN")
        return answer(connection)


def _statuses(files: Mapping[str, Path]) -> Iterator[tuple[str, os.stat_result]]:
    for name, path in files.items():
        with contextlib.suppress(FileNotFoundError):
            yield name, path.stat()


def _require_version(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty file; raise an error of SQLite for those of another version."""
    [[version]] = connection.execute("PRAGMA user_version")
    if version == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
    elif version != _VERSION:
        raise sqlite3.DatabaseError(f"It has version {version}.")


def _known(connection: sqlite3.Connection) -> dict[str, tuple[int, int, int, int, int]]:
    """Return for each file of the ledger its inode, time of change and size, how far it was read, and the checksum."""
    rows = connection.execute("SELECT name, inode, changed, size, done, sum FROM file")
    return {name: tuple(values) for name, *values in rows}


def _forget(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM attempt WHERE file = ?", (name,))
    connection.execute("DELETE FROM file WHERE name = ?", (name,))


def _update(connection: sqlite3.Connection, path: Path, status: tuple[int, int, int]) -> None:
    """Add the lines that a file of the ledger got, or all lines if its earlier ones are not those that were read."""
    before = _known(connection).get(path.name)
    if before is not None and before[:3] == status:
        return
    with durable.named_failures(path), os.fdopen(durable.open_regular(path, os.O_RDONLY), "rb") as file:
        lines = _Lines(file)
        if before is None or not lines.skip(before[3], before[4]):
            _forget(connection, path.name)
            file.seek(0)
            lines = _Lines(file)
        connection.executemany(_INSERT, ((path.name, *_row(entry)) for entry in lines.entries()))
    connection.execute("REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?)", (path.name, *status, lines.done, lines.sum))


class _Lines:
    """Reads a file of the ledger, and remembers the end of its last complete line and the checksum up to there."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.done = 0
        self.sum = 0

    def skip(self, count: int, expected: int) -> bool:
        """Read ``count`` bytes; return whether they have this checksum."""
        while self.done < count and (data := self._file.read(min(count - self.done, 1 << 20))):
            self.done, self.sum = self.done + len(data), zlib.crc32(data, self.sum)
        return (self.done, self.sum) == (count, expected)

    def entries(self) -> Iterator[LedgerEntry]:
        """Return the entries of the complete lines."""
        place, checksum, is_part = self.done, self.sum, False
        while part := self._file.readline(ledger.LONGEST_LINE + 1):
            place, checksum = place + len(part), zlib.crc32(part, checksum)
            if part.endswith(b"\n"):
                self.done, self.sum = place, checksum
                entry = None if is_part else ledger.decoded(part)
                if entry is not None:
                    yield entry
            is_part = not part.endswith(b"\n")


def _row(entry: LedgerEntry) -> tuple[str | int | float | None, ...]:
    """Return the values of ``_COLUMNS``."""
    by, usage, usd = entry.asked_by, entry.usage, amount(entry.cost_usd)
    is_known = usd is not None and usd <= _MOST_USD
    return (
        entry.at,
        entry.id,
        min(entry.attempt, _MOST),
        by.session,
        by.agent or by.client or by.frontend,
        entry.recipe,
        entry.language,
        None if entry.size is None else min(entry.size, _MOST),
        entry.workspace,
        entry.delegator,
        entry.tool,
        entry.model_server,
        entry.model,
        entry.verdict,
        entry.failure,
        entry.seconds,
        round(usd * _NANOS) if usd is not None and is_known else None,
        is_known and (entry.cost_estimated or entry.cost_source == "estimated"),
        is_known and entry.cost_source in {"configured", "table"},
        *(min(getattr(usage, name), _MOST) for name in Usage.__struct_fields__),
    )
