"""The file and all of its statements: the queue with its order, bases to record, snapshots of them, and circuits.

``<state>/store.sqlite`` is in WAL mode. Each function is one transaction, so a kill never leaves a part of it. A
process has one connection, which its threads share. Reading does not create the file. One that is damaged, or of
another version, is replaced by an empty one; ``is_new`` then asks to fill it from the journals.

Who runs a delegation, and who has a slot, is not stored: the kernel frees their locks when a process is killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.files import durable
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    import sqlite3

NAME = "store.sqlite"
BUSY_SECONDS = 10.0
"""A transaction takes less than a millisecond; a process that stays in one this long hangs."""

_DESCRIPTORS = 4
"""SQLite opens the file, its log and the shared memory, and sometimes their folder."""
_VERSION = 1
"""The ``user_version`` of the schema."""
_SCHEMA = """
BEGIN;
CREATE TABLE queue (
    id TEXT PRIMARY KEY,
    slots INTEGER NOT NULL,
    launched INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 4611686018427387904,
    launches INTEGER NOT NULL DEFAULT 0,
    base_tries INTEGER,
    key_names TEXT NOT NULL DEFAULT '',
    key_digest TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX queue_order ON queue (launched, place, id);
CREATE TABLE awaited (other TEXT, id TEXT, PRIMARY KEY (other, id)) WITHOUT ROWID;
CREATE INDEX awaited_by ON awaited (id);
CREATE VIEW waiting AS
    SELECT * FROM queue WHERE NOT launched AND NOT EXISTS (SELECT 1 FROM awaited WHERE awaited.id = queue.id);
CREATE TABLE snapshots (id TEXT PRIMARY KEY, folder TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE circuits (delegator TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO settings VALUES ('new');
PRAGMA user_version = 1;
COMMIT;
"""


@dataclass(frozen=True)
class Entry:
    """A delegation in the queue."""

    id: str
    slots: int
    """It may have a slot whose number is below this."""
    launches: int = 0
    """How often a worker was started for it."""
    key_names: tuple[str, ...] = ()
    """Variables that it needs from the environment of the process that asked for it."""
    key_digest: str = ""
    """Identifies their values without revealing them."""


@dataclass
class Kept:
    """What is stored, to be changed: None for nothing."""

    content: bytes | None


# -- the queue: an entry waits until it is launched, and leaves when its delegation started, or never will ------------


def add(root: Path, entry: Entry, *, record: bool) -> None:
    """Let a delegation wait, unless it has an entry. ``record``: its base must be recorded."""
    columns = (entry.id, max(1, entry.slots), 0 if record else None, " ".join(entry.key_names), entry.key_digest)
    sql = "INSERT OR IGNORE INTO queue (id, slots, base_tries, key_names, key_digest) VALUES (?, ?, ?, ?, ?)"
    with _changing(root) as connection:
        connection.execute(sql, columns)


def leave(root: Path, identifier: str) -> None:
    """Remove the entry of a delegation."""
    if not contains(root, identifier):
        return
    with _changing(root) as connection:
        connection.execute("DELETE FROM queue WHERE id = ?", (identifier,))
        connection.execute("DELETE FROM awaited WHERE id = ?", (identifier,))
        connection.execute("DELETE FROM snapshots WHERE id = ?", (identifier,))


def contains(root: Path, identifier: str) -> bool:
    """Return whether a delegation has an entry."""
    return bool(_rows(root, "SELECT 1 FROM queue WHERE id = ?", identifier))


def queued(root: Path) -> list[str]:
    """Return the delegations that wait for a slot or are held, in the order in which they start.

    That is oldest first (an id begins with its time), after those that were moved.
    """
    return _first(root, "SELECT id FROM queue WHERE NOT launched ORDER BY place, id")


def waiting(root: Path) -> list[str]:
    """Return the delegations that wait for a slot, in the order in which they start."""
    return _first(root, "SELECT id FROM waiting ORDER BY place, id")


def launched(root: Path) -> list[str]:
    """Return the delegations whose worker has a slot but has not written ``started``."""
    return _first(root, "SELECT id FROM queue WHERE launched")


def next_waiting(root: Path, above: int, passed_over: Iterable[str]) -> Entry | None:
    """Return the first entry that may have a slot with the number ``above``; None while the queue is paused."""
    sql = """
        SELECT id, slots, launches, key_names, key_digest FROM waiting
        WHERE slots > ? AND NOT EXISTS (SELECT 1 FROM settings WHERE name = 'paused') ORDER BY place, id
    """
    with _reading(root) as connection:
        for identifier, slots, launches, names, digest in connection.execute(sql, (above,)) if connection else ():
            if identifier not in passed_over:
                return Entry(identifier, slots, launches, tuple(names.split()), digest)
    return None


def launch(root: Path, identifier: str) -> None:
    """Note that a worker is started for a delegation that waits, and count it."""
    with _changing(root) as connection:
        connection.execute("UPDATE queue SET launched = 1, launches = launches + 1 WHERE id = ?", (identifier,))


def wait_again(root: Path, identifier: str, *, was_started: bool = True) -> None:
    """Let a launched delegation wait at its old place; if no worker ``was_started``, this launch does not count."""
    sql = "UPDATE queue SET launched = 0, launches = launches - ? WHERE id = ? AND launched"
    with _changing(root) as connection:
        connection.execute(sql, (0 if was_started else 1, identifier))


def position(root: Path, identifier: str) -> int:
    """Return the place of a delegation among those that wait with the same number of slots; the first is 1."""
    sql = """
        SELECT count(*) FROM queue AS other JOIN queue AS own ON own.id = ? AND own.slots = other.slots
        WHERE NOT other.launched AND (other.place, other.id) < (own.place, own.id)
    """
    return int(_first(root, sql, identifier)[0]) + 1


def move(root: Path, identifier: str, place: int) -> bool:
    """Let a delegation start as number ``place`` of the queue; return False if it does not wait."""
    with _changing(root) as connection:
        order = [row[0] for row in connection.execute("SELECT id FROM queue WHERE NOT launched ORDER BY place, id")]
        if identifier not in order:
            return False
        order.remove(identifier)
        order.insert(place - 1, identifier)
        connection.executemany("UPDATE queue SET place = ? WHERE id = ?", list(enumerate(order)))
    return True


def is_paused(root: Path) -> bool:
    """Return whether nothing that waits may start."""
    return bool(_rows(root, "SELECT 1 FROM settings WHERE name = 'paused'"))


def pause(root: Path, *, paused: bool) -> None:
    """Let nothing that waits start, or let it start again; what runs is not affected."""
    sql = "INSERT OR IGNORE INTO settings VALUES ('paused')" if paused else "DELETE FROM settings WHERE name = 'paused'"
    with _changing(root) as connection:
        connection.execute(sql)


def needs_keys(root: Path, digest: str) -> bool:
    """Return whether a delegation in the queue needs the keys with this digest."""
    return bool(_rows(root, "SELECT 1 FROM queue WHERE key_digest = ?", digest))


# -- dependencies: an entry is held while it awaits others ------------------------------------------------------------


def hold(root: Path, identifier: str, others: Iterable[str]) -> None:
    """Hold a delegation in the queue until each of ``others``, and nothing else, was released."""
    with _changing(root) as connection:
        connection.execute("DELETE FROM awaited WHERE id = ?", (identifier,))
        if connection.execute("SELECT 1 FROM queue WHERE id = ?", (identifier,)).fetchone():
            connection.executemany("INSERT INTO awaited VALUES (?, ?)", [(other, identifier) for other in {*others}])


def awaited(root: Path) -> list[str]:
    """Return what others await and what has no entry itself: it runs, has ended, or was not submitted yet."""
    return _first(root, "SELECT DISTINCT other FROM awaited WHERE other NOT IN (SELECT id FROM queue)")


def release(root: Path, other: str) -> list[str]:
    """Let nothing await ``other`` from now on; return what did, oldest first."""
    with _changing(root) as connection:
        rows = connection.execute("SELECT id FROM awaited WHERE other = ? ORDER BY id", (other,)).fetchall()
        connection.execute("DELETE FROM awaited WHERE other = ?", (other,))
    return [row[0] for row in rows]


# -- bases ------------------------------------------------------------------------------------------------------------


def unrecorded(root: Path) -> dict[str, str | None]:
    """Return the delegations that wait and whose base is not recorded yet, with their snapshots.

    Those without a snapshot come first, then the oldest.
    """
    sql = """
        SELECT id, folder FROM queue LEFT JOIN snapshots USING (id) WHERE NOT launched AND base_tries IS NOT NULL
        ORDER BY folder IS NOT NULL, id
    """
    return dict(_rows(root, sql))


def count_try(root: Path, identifier: str) -> int:
    """Count a try to record the base; return how many there were before, in case they killed their process."""
    with _changing(root) as connection:
        row = connection.execute("SELECT base_tries FROM queue WHERE id = ?", (identifier,)).fetchone()
        connection.execute("UPDATE queue SET base_tries = base_tries + 1 WHERE id = ?", (identifier,))
    return int(row[0] or 0) if row is not None else 0


def recorded(root: Path, identifier: str) -> None:
    """Note that the base is recorded, or left to the worker."""
    with _changing(root) as connection:
        connection.execute("UPDATE queue SET base_tries = NULL WHERE id = ?", (identifier,))
        connection.execute("DELETE FROM snapshots WHERE id = ?", (identifier,))


def share_snapshot(root: Path, folder: str, identifiers: Iterable[str]) -> None:
    """Note that delegations, which may be submitted later, have the snapshot in ``folder`` as their base."""
    rows = [(identifier, folder) for identifier in identifiers]
    with _changing(root) as connection:
        connection.executemany("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", rows)


def snapshot_of(root: Path, identifier: str) -> str | None:
    """Return the folder of a delegation's snapshot."""
    return next(iter(_first(root, "SELECT folder FROM snapshots WHERE id = ?", identifier)), None)


def drop_snapshots(root: Path, folders: Iterable[str]) -> list[str]:
    """Forget those of these snapshots that no delegation in the queue needs, and return them."""
    used = "SELECT 1 FROM snapshots JOIN queue USING (id) WHERE folder = ? AND base_tries IS NOT NULL"
    with _changing(root) as connection:
        unused = [folder for folder in folders if not connection.execute(used, (folder,)).fetchone()]
        connection.executemany("DELETE FROM snapshots WHERE folder = ?", [(folder,) for folder in unused])
    return unused


# -- circuits ---------------------------------------------------------------------------------------------------------


def circuits(root: Path, owner: str) -> bytes | None:
    """Return what is stored about the failures of a delegator, or of an account."""
    return next(iter(_first(root, "SELECT content FROM circuits WHERE delegator = ?", owner)), None)


@contextlib.contextmanager
def circuits_to_change(root: Path, owners: Sequence[str]) -> Iterator[list[Kept]]:
    """Yield what is stored about the failures of each owner, to be changed; no one else changes it meanwhile."""
    with _changing(root) as connection:
        select = "SELECT content FROM circuits WHERE delegator = ?"
        rows = [connection.execute(select, (owner,)).fetchone() for owner in owners]
        before = [row[0] if row is not None else None for row in rows]
        kept = [Kept(content) for content in before]
        yield kept
        for owner, earlier, now in zip(owners, before, kept, strict=True):
            if now.content is None and earlier is not None:
                connection.execute("DELETE FROM circuits WHERE delegator = ?", (owner,))
            elif now.content is not None and now.content != earlier:
                connection.execute("INSERT OR REPLACE INTO circuits VALUES (?, ?)", (owner, now.content))


# -- the file ---------------------------------------------------------------------------------------------------------


def is_new(root: Path) -> bool:
    """Return whether the store lacks what only the journals say."""
    return not (root / NAME).exists() or bool(_rows(root, "SELECT 1 FROM settings WHERE name = 'new'"))


def mark_filled(root: Path) -> None:
    """Note that the store has what the journals say."""
    with _changing(root) as connection:
        connection.execute("DELETE FROM settings WHERE name = 'new'")


_guard = threading.RLock()
_open: dict[Path, tuple[int, os.stat_result, sqlite3.Connection]] = {}
"""The open file of this process, if any: whose it is, which file it is, and the connection."""


def _rows(root: Path, sql: str, *parameters: str) -> list[Any]:
    with _reading(root) as connection:
        return connection.execute(sql, parameters).fetchall() if connection is not None else []


def _first(root: Path, sql: str, *parameters: str) -> list[Any]:
    """Return the first column."""
    return [row[0] for row in _rows(root, sql, *parameters)]


@contextlib.contextmanager
def _reading(root: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield the connection for one statement; None without a file."""
    path = root / NAME
    if not path.exists():
        yield None
        return
    with _guard, _named_failures(path):
        try:
            connection = _connection(path)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            with _copy(path) as connection:
                yield connection
            return
        yield connection


@contextlib.contextmanager
def _copy(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a copy of the file on a read-only disk, where no process writes, and SQLite cannot read a log (WAL)."""
    import shutil
    import sqlite3
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in (NAME, f"{NAME}-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path.with_name(name), Path(folder) / name)
        with contextlib.closing(sqlite3.connect(Path(folder) / NAME, isolation_level=None)) as connection:
            yield connection


@contextlib.contextmanager
def _changing(root: Path) -> Iterator[sqlite3.Connection]:
    """Yield the connection in a transaction, which is committed afterwards, or rolled back after an error."""
    path = root / NAME
    with _guard, _named_failures(path):
        connection = _connection(path)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()


def _connection(path: Path) -> sqlite3.Connection:
    """Return the connection of this process; open the file first, or another one that replaced it."""
    if path in _open:
        owner, file, connection = _open[path]
        with contextlib.suppress(FileNotFoundError):
            if owner == os.getpid() and os.path.samestat(file, path.stat(follow_symlinks=False)):
                return connection
    _close()
    with durable.file_lock(path.with_name("store.lock")):
        connection = _opened(path)
        _open[path] = os.getpid(), path.stat(follow_symlinks=False), connection
    return connection


def _close() -> None:
    """Close what this process opened. A child must not: it would release the locks of its parent's connection."""
    for owner, _, connection in _open.values():
        if owner == os.getpid():
            connection.close()
    _open.clear()


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file; create it if it is missing, damaged or of another version."""
    import sqlite3

    if path.is_symlink() or not path.is_file() or path.stat().st_size == 0:
        # SQLite would apply the log of a file that was removed to the new one.
        for name in (NAME, f"{NAME}-wal", f"{NAME}-shm"):
            path.with_name(name).unlink(missing_ok=True)
    descriptor = durable.open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        # SQLite takes a file system without locks for one that is busy.
        fcntl.lockf(descriptor, fcntl.LOCK_SH, 1)
    finally:
        os.close(descriptor)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        # Nothing waits for the disk: what a power cut leaves is checked here, and may be lost.
        connection.execute("PRAGMA synchronous = OFF")
        [[version]] = connection.execute("PRAGMA user_version")
        if version == 0:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
        usable = version in (0, _VERSION) and connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
    except sqlite3.Error as error:
        connection.close()
        if not _is_damage(error):
            raise
        usable = False
    if not usable:
        connection.close()
        path.unlink()
        return _opened(path)
    return connection


@contextlib.contextmanager
def _named_failures(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the operating system into ``disk_full`` and ``state_unavailable``."""
    import sqlite3

    try:
        with durable.named_failures(path):
            yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL or (code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _is_full(path)):
            raise durable.failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), path) from error
        if code == sqlite3.SQLITE_CANTOPEN:
            _require_descriptors(path)
        hint = f"If that stays, end all processes of Understudy and remove {path}: only the order of the queue is lost."
        if _is_damage(error):
            _close()
            path.unlink(missing_ok=True)
            hint = "It was removed, and is made again from the journals. Try again."
        elif code == sqlite3.SQLITE_BUSY:
            hint = f"Find the process that hangs: fuser -v {path}"
        raise UnderstudyError(ErrorKind.STATE_UNAVAILABLE, f"Cannot use {path}: {error}.", hint=hint) from error


def _require_descriptors(path: Path) -> None:
    """Raise ``overloaded`` if this process has too many open files for SQLite, which does not say why it fails."""
    with contextlib.ExitStack() as opened, durable.named_failures(path):
        for _ in range(_DESCRIPTORS):
            opened.callback(os.close, os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC))


def _is_damage(error: sqlite3.Error) -> bool:
    import sqlite3

    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _is_full(path: Path) -> bool:
    return os.statvfs(path.parent).f_bavail == 0
