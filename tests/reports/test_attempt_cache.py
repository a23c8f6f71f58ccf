"""The cache of attempts answers what the ledger says, whatever happens to either of them."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from understudy.journal import delegation_folder, ledger
from understudy.model.delegation.delegations import AskedBy, no_usage
from understudy.model.delegation.ledger import LedgerEntry
from understudy.reports import attempt_cache


def entry(number: int, **changes: Any) -> LedgerEntry:
    facts = {
        "at": f"2026-{9 + number % 2:02}-01T08:00:00.000Z",
        "id": f"20261101-080000-{number:05}",
        "attempt": 1,
        "asked_by": AskedBy(frontend="cli", depth=0),
        "recipe": "tests",
        "workspace": "/project",
        "delegator": "cheap",
        "model": "m",
        "usage": no_usage(),
        "cost_usd": "0.000000001",
        "cost_source": "reported",
        "seconds": 1.0,
        "verdict": "verified",
    }
    return LedgerEntry(**facts | changes)


def cached() -> list[tuple[str, int | None]]:
    return attempt_cache.query(lambda connection: sorted(connection.execute("SELECT id, cost FROM attempt").fetchall()))


def recorded() -> list[tuple[str, int | None]]:
    return sorted(
        (entry.id, attempt_cache._row(entry)[attempt_cache._COLUMNS.index("cost")]) for entry in ledger.read()
    )


@pytest.fixture
def folder() -> Path:
    folder = delegation_folder.state_root() / "ledger"
    folder.mkdir(parents=True)
    return folder


def append(folder: Path, number: int, *, torn: bool = False) -> None:
    one = entry(number)
    with (folder / f"{one.at[:7]}.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(one)[: 40 if torn else None] + (b"" if torn else b"\n"))


def finish(path: Path, number: int) -> None:
    """Cut a torn tail as a writer does, and append a line."""
    data = path.read_bytes()
    path.write_bytes(data[: data.rfind(b"\n") + 1] + msgspec.json.encode(entry(number)) + b"\n")


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_happens_to_a_file_changes_an_answer(folder: Path, seed: int) -> None:
    luck = random.Random(seed)
    cache = folder / attempt_cache.NAME
    for number in range(1, 26):
        months = sorted(folder.glob("*.jsonl"))
        match luck.choice(
            ["append", "append", "torn", "edit", "remove", "long", "junk", "damage", "cut", "replace", "table"]
        ):
            case "append":
                append(folder, number)
            case "torn":
                append(folder, number, torn=True)
                assert cached() == recorded()
                finish(folder / f"{entry(number).at[:7]}.jsonl", number)
            case "edit" if months:  # of the same length: only the checksum shows it
                status, path = months[0].stat(), months[0]
                path.write_bytes(path.read_bytes().replace(b"0.000000001", b"0.000000002"))
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
            case "remove" if months:
                luck.choice(months).unlink()
            case "long":
                with (folder / "2026-09.jsonl").open("ab") as file:
                    file.write(b" " * 2 * (ledger.LONGEST_LINE + 1) + msgspec.json.encode(entry(number)) + b"\n")
            case "junk":
                with (folder / "2026-09.jsonl").open("ab") as file:
                    file.write(b"\xff\x00 not an entry\n")
            case "damage" if cache.exists():
                data = bytearray(cache.read_bytes())
                data[: luck.choice([50, 5000])] = b"\x07" * luck.choice([50, 5000])
                cache.write_bytes(data)
            case "cut" if cache.exists():
                os.truncate(cache, luck.choice([0, 1, 4096]))
            case "replace" if months:  # by one of another version
                cached()
                with sqlite3.connect(cache) as connection:
                    connection.execute("INSERT INTO attempt (id) VALUES ('of another meaning')")
                    connection.execute("PRAGMA user_version = 77")
                connection.close()
            case "table":
                with sqlite3.connect(cache) as connection:
                    connection.execute(f"PRAGMA user_version = {attempt_cache._VERSION}")
                    connection.execute("DROP TABLE IF EXISTS file")
                connection.close()
            case _:
                cache.unlink(missing_ok=True)
        assert cached() == recorded()
    assert cached() == recorded()


def test_only_new_lines_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        append(folder, number)
    cached()
    read = []
    decode = ledger.decoded
    monkeypatch.setattr(ledger, "decoded", lambda line: read.append(line) or decode(line))
    append(folder, 20)
    cached()
    cached()
    assert len(read) == 1


def test_what_cannot_be_written_or_is_locked_is_made_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(folder, 1)
    (folder / attempt_cache.NAME).mkdir()
    assert cached() == recorded() != []
    (folder / attempt_cache.NAME).rmdir()
    target = folder.parent / "elsewhere"
    target.write_bytes(b"")
    (folder / attempt_cache.NAME).symlink_to(target)
    assert cached() == recorded()
    assert target.read_bytes() == b"", "a link is not followed"
    (folder / attempt_cache.NAME).unlink()
    cached()
    append(folder, 2)
    monkeypatch.setattr(attempt_cache, "_BUSY_SECONDS", 0.01)
    other = sqlite3.connect(folder / attempt_cache.NAME, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert cached() == recorded()
    other.close()


def test_without_a_ledger_there_are_no_attempts_and_no_file() -> None:
    assert cached() == []
    assert not (delegation_folder.state_root() / "ledger").exists()


def test_readers_at_once_add_each_line_once(folder: Path) -> None:
    for number in range(300):
        append(folder, number)
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(len(cached()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [300] * 6


def test_absurd_numbers_are_bounded(folder: Path) -> None:
    absurd = msgspec.structs.replace(no_usage(), input_tokens=2**63 - 1)
    for one in (entry(1, usage=absurd, size=2**62), entry(3, usage=absurd, cost_usd="1e40")):
        with (folder / "2026-10.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(one) + b"\n")
    rows = attempt_cache.query(
        lambda connection: connection.execute("SELECT sum(input_tokens), sum(cost) FROM attempt").fetchall()
    )
    assert rows == [(2 * 10**12, 1)]
