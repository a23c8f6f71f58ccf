"""The store between real processes: kills, a full disk, a file system without locks, and files of another origin."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from wait_until import until

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.store import store
from understudy.store.store import Entry

HEAD = """
import os, pathlib, sys
from understudy.model.errors import UnderstudyError
from understudy.store import store
from understudy.store.store import Entry
root = pathlib.Path(sys.argv[1])
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


def python(script: str, *arguments: object, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(__file__).parents[1] / "support"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [*prefix, sys.executable, "-c", HEAD + script, *map(str, arguments)],
        capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def damaged(root: Path, *statements: str) -> None:
    """Change the file as no process of Understudy does."""
    with contextlib.closing(sqlite3.connect(root / store.NAME, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_reading_creates_nothing_and_costs_no_import(root):
    script = """
print(store.queued(root), store.is_paused(root), store.next_waiting(root, 0, ()), store.circuits(root, "d"))
store.leave(root, "one")
print("sqlite3" in sys.modules, os.listdir(root), store.is_new(root))
"""
    assert python(script, root).stdout.splitlines() == ["[] False None None", "False [] True"]


def test_only_the_user_can_read_it(root):
    old = os.umask(0)
    try:
        store.add(root, Entry("a", 1), record=False)
    finally:
        os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in root.iterdir()} == {0o600}


WRITER = """
for number in range(100_000):
    name = f"{sys.argv[2]}-{number:06}"
    store.add(root, Entry(name, 1), record=True)
    store.hold(root, name, ["other"])
    print(name, flush=True)
    if number % 3 == 0:
        store.launch(root, name)
    if number % 7 == 0:
        store.leave(root, name)
        print("left", name, flush=True)
"""


def test_processes_that_are_killed_lose_nothing_that_they_were_told_is_stored(root):
    chance, logs = random.Random(7), []
    for turn in range(3):
        running = []
        for writer in range(3):
            log = root / f"{turn}-{writer}.log"
            logs.append(log)
            argv = [sys.executable, "-c", HEAD + WRITER, str(root), f"{turn}{writer}"]
            with log.open("w") as out:
                running.append(subprocess.Popen(argv, stdout=out))
        until(lambda names=logs[-3:]: all(log.stat().st_size > 500 for log in names), "all write")
        chance.shuffle(running)
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()
    lines = [line for log in logs for line in log.read_text().splitlines()]
    left = {line.removeprefix("left ") for line in lines if line.startswith("left ")}
    stored = {line for line in lines if not line.startswith("left ")}
    rows = {*store.queued(root), *store.launched(root)}
    assert left.isdisjoint(rows)
    # The last one of each writer may have left without a word.
    assert len(stored - left - rows) <= len(logs)
    assert set(store.release(root, "other")) >= stored & rows


def test_threads_of_one_process_share_the_file(root):
    def work(number: int) -> None:
        for count in range(20):
            store.add(root, Entry(f"{number}-{count}", 1), record=False)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.queued(root)) == 120


@pytest.mark.parametrize("missing", [("",), ("", "-wal", "-shm")])
def test_a_file_that_is_removed_is_made_again(root, missing):
    store.add(root, Entry("a", 1), record=False)
    store.mark_filled(root)
    for suffix in missing:
        (root / f"{store.NAME}{suffix}").unlink(missing_ok=True)
    python('store.add(root, Entry("b", 1), record=False)', root)
    assert store.queued(root) == ["b"]
    assert store.is_new(root)


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 99", "PRAGMA user_version = 3"])
def test_a_file_of_another_version_is_replaced(root, statement):
    python('store.add(root, Entry("a", 1), record=False)\nstore.mark_filled(root)', root)
    damaged(root, statement)
    assert store.queued(root) == []
    assert store.is_new(root)


def test_a_file_with_torn_pages_is_replaced(root):
    python('[store.add(root, Entry(f"{number:040}", 1), record=True) for number in range(500)]', root)
    damaged(root, "PRAGMA wal_checkpoint(TRUNCATE)")
    with (root / store.NAME).open("r+b") as file:
        file.seek(5 * 4096)
        file.write(os.urandom(4096))
    assert store.queued(root) == []
    assert store.is_new(root)
    store.add(root, Entry("a", 1), record=False)
    assert store.queued(root) == ["a"]


FULL = """
store.add(root, Entry("first", 1), record=False)
filler = root / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
try:
    for number in range(1000):
        store.add(root, Entry(f"more {number}", 1), record=False)
except UnderstudyError as error:
    print(error.kind, error.hint)
print("first" in store.queued(root), store.next_waiting(root, 0, ()).id)
filler.unlink()
store.add(root, Entry("later", 1), record=False)
print({"first", "later"} <= {*store.queued(root)})
"""


def test_a_full_disk_is_named_and_what_is_stored_stays(root):
    mounted = ("unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=256k none {root} && exec "$@"', "sh")
    if shutil.which("unshare") is None or subprocess.run([*mounted, "true"], check=False, stderr=-3).returncode:
        pytest.skip("no tmpfs can be mounted here")
    said = python(FULL, root, prefix=mounted).stdout.splitlines()
    assert said[0].startswith("disk_full Free some space on that disk")
    assert said[1:] == ["True first", "True"]


def test_too_many_open_files_are_named_and_no_reason_to_remove_the_store(root):
    store.add(root, Entry("a", 1), record=False)
    script = """
import resource
store.queued(root)  # loads what it needs
store._close()
first = os.dup(0)
os.close(first)
for free in range(8):
    store._close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        print(store.queued(root))
    except UnderstudyError as error:
        print(error.kind, error.hint)
"""
    said = python(script, root).stdout.splitlines()
    assert said[0].startswith("overloaded")
    assert said[-1] == "['a']"
    assert not [line for line in said if "remove" in line]


@pytest.mark.skipif(sys.platform != "linux", reason="uses a filter of Linux's system calls")
@pytest.mark.parametrize("calls", ["fcntl", "flock", "fcntl flock"])
def test_a_file_system_without_locks_is_refused_with_what_to_do(root, calls):
    script = f"""
import without_locks
without_locks.lose(*{calls.split()!r})
try:
    store.add(root, Entry("a", 1), record=False)
except UnderstudyError as error:
    print(error.kind, error, error.hint)
"""
    said = python(script, root).stdout
    assert said.startswith(f"state_unavailable The file system of {root}")
    assert said.endswith("cannot lock files: No locks available. Set UNDERSTUDY_STATE to a folder on a local disk.\n")


def test_a_process_that_stays_in_a_transaction_is_named(root, monkeypatch):
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.1)
    python('store.add(root, Entry("a", 1), record=False)', root)
    with contextlib.closing(sqlite3.connect(root / store.NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.queued(root) == ["a"]
        with pytest.raises(UnderstudyError, match="is locked") as caught:
            store.pause(root, paused=True)
        other.execute("ROLLBACK")
    assert (caught.value.kind, "fuser -v" in caught.value.hint) == (ErrorKind.STATE_UNAVAILABLE, True)
    store.pause(root, paused=True)
    assert store.is_paused(root)
