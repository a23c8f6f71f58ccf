"""Journals, prompts, logs, keys and groups expire; nothing that is still needed does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from journals import spec_of_a_test

from understudy.config.configuration import Retention
from understudy.engine.retention import retained_files
from understudy.files.durable import FAILPOINT_VARIABLE
from understudy.journal import delegation_folder, ledger, reader
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.spec import Spec
from understudy.model.verdicts import Verdict

NOW = 1e-9
"""Days: everything that has ended is past its time."""
ALL = Retention(journal_days=NOW, prompt_days=NOW, log_days=NOW)
LONG = Retention(journal_days=0, prompt_days=0, log_days=0)


def expire(kept: Retention = ALL) -> list[str]:
    return retained_files.expire_files(delegation_folder.state_root(), kept, time.monotonic() + 30)


@pytest.fixture
def make() -> Iterator[Callable[..., tuple[Folder, Writer]]]:
    """Make a delegation with an attempt, a prompt, a buffer and logs; its lock is held until ``close``."""
    held: list[int] = []

    def new(parent: str | None = None, key: str | None = None) -> tuple[Folder, Writer]:
        def build(identifier: str) -> Spec:
            return spec_of_a_test(identifier, parent_id=parent)

        if key is None:
            folder, lock = delegation_folder.create(build, {"1": b"text" * 2000})
        else:
            folder, lock = delegation_folder.create_once(key, build, {})
        held.append(lock)
        writer = Writer(folder, lock)
        writer.append(
            events.Started(delegator="quick", model="m", reason=""),
            attempt=1,
        )
        folder.prompt.write_text("prompt" * 2000)
        folder.stdout.write_text("output" * 2000)
        (folder.path / "worker.log").write_text("traceback")
        return folder, writer

    def close(writer: Writer) -> None:
        writer.close()
        os.close(held[-1])
        held.pop()

    new.close = close  # type: ignore[attr-defined]
    yield new
    for lock in held:
        os.close(lock)


@pytest.fixture
def finished(make) -> Callable[..., Folder]:
    """Create a finished delegation with ``pending`` hunks; its lock is free."""

    def new(pending: int = 0, **changes) -> Folder:
        folder, writer = make(**changes)
        writer.append(events.Result(files=[], text="done", hunks=pending), attempt=1)
        writer.append(events.Finished(verdict=Verdict.ANSWERED, reservations=[]), attempt=1)
        make.close(writer)
        return folder

    return new


def test_each_kind_of_file_has_its_own_limit(finished) -> None:
    folder = finished()
    second = folder.path / "stderr.2.log"
    second.write_text("what the second attempt printed")
    assert expire(LONG) == []
    assert folder.prompt.exists()
    assert expire(Retention(journal_days=0, log_days=0, prompt_days=NOW)) == []
    assert not folder.prompt.exists()
    assert not folder.buffers.exists()
    assert folder.stdout.exists()
    assert expire(Retention(journal_days=0, log_days=NOW, prompt_days=0)) == []
    assert not folder.stdout.exists()
    assert not second.exists()
    assert not (folder.path / "worker.log").exists()
    assert reader.page()[0][0].result.text == "done"
    assert expire() == [folder.id]
    assert not folder.path.exists()
    assert reader.page()[0] == []
    assert [entry.id for entry in ledger.read()] == [folder.id], "the ledger outlives the journal"


def test_above_the_bytes_allowed_the_oldest_go_first(finished) -> None:
    folders = [finished() for _ in range(3)]
    for age, folder in zip((300, 200, 100), folders, strict=True):
        os.utime(folder.events, (time.time() - age,) * 2)
    one = retained_files.usage(delegation_folder.state_root()).logs // 3
    expire(Retention(log_bytes=int(one * 1.5)))
    assert [folder.stdout.exists() for folder in folders] == [False, False, True]


def test_running_queued_and_pending_delegations_are_kept(make, finished) -> None:
    running, _ = make()
    queued, writer = make()
    make.close(writer)
    pending = finished(pending=2)
    parent = finished()
    _reply, writer = make(parent=parent.id)
    kept = [running, queued, pending, parent]
    gone = finished()
    assert expire() == [gone.id]
    for folder in kept:
        assert folder.prompt.exists()
        assert folder.stdout.exists()


def test_a_journal_stays_while_its_worktree_is_there(finished) -> None:
    folder = finished()
    place = delegation_folder.state_root() / "worktrees" / "project-0123456789" / "1"
    place.mkdir(parents=True)
    (place / "owners").write_text(f"{folder.id}\n")
    assert expire() == []
    assert not folder.prompt.exists(), "prompts and logs have their own time"
    (place / "removed").write_text("refs/understudy/rescue/1")
    assert expire() == [folder.id]


def test_an_interrupted_decision_keeps_everything(finished) -> None:
    folder = finished()
    intent = folder.path / "decision-intent.json"
    intent.write_text("{}")
    assert expire() == []
    assert folder.prompt.exists()
    intent.unlink()
    assert expire() == [folder.id]


def test_a_journal_whose_attempts_are_not_in_the_ledger_is_kept(finished) -> None:
    folder = finished()
    month = ledger.months()[0]
    month.unlink()
    ledger.open_entry(folder)
    month.mkdir()
    assert expire() == []
    assert folder.events.exists()
    month.rmdir()
    assert expire() == [folder.id]
    assert [entry.id for entry in ledger.read()] == [folder.id]


EXPIRE = """
import time
from understudy.config.configuration import Retention
from understudy.engine.retention import retained_files
from understudy.journal import delegation_folder
kept = Retention(journal_days=1e-9, prompt_days=1e-9, log_days=1e-9)
retained_files.expire_files(delegation_folder.state_root(), kept, time.monotonic() + 30)
"""


def test_an_expiry_that_is_killed_is_finished_by_the_next(finished) -> None:
    for step in range(1, 30):
        folder = finished()
        killed = subprocess.run(
            [sys.executable, "-c", EXPIRE], env=os.environ | {FAILPOINT_VARIABLE: f"*:{step}"}, check=False, timeout=60
        )
        assert killed.returncode in {0, -signal.SIGKILL}
        if folder.path.exists():
            assert delegation_folder.read_spec(folder).id == folder.id
            assert expire() == [folder.id]
        assert not folder.path.exists()
        assert [entry.id for entry in ledger.read()].count(folder.id) == 1
        if killed.returncode == 0:
            assert step > 3
            return
    pytest.fail("the expiry never ended")


def test_idempotency_keys_and_groups_expire(make) -> None:
    folder, _ = make(key="once")
    assert delegation_folder.create_once("once", lambda _: pytest.fail("made twice"), {})[0] == folder
    (key,) = (entry for entry in (delegation_folder.state_root() / "keys").iterdir() if entry.name != ".lock")
    groups = delegation_folder.state_root() / "groups"
    groups.mkdir()
    (groups / "old.json").write_text("{}")
    (groups / "new.json").write_text("{}")
    for path in (key, groups / "old.json"):
        os.utime(path, (time.time() - 400 * 86_400,) * 2)
    expire(LONG)
    assert not key.exists()
    assert [path.name for path in groups.iterdir()] == ["new.json"]


def test_no_time_means_nothing_is_removed(finished) -> None:
    folder = finished()
    assert retained_files.expire_files(delegation_folder.state_root(), ALL, time.monotonic() - 1) == []
    assert folder.prompt.exists()


def test_links_are_removed_and_not_followed(finished, tmp_path: Path) -> None:
    folder = finished()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    (folder.path / "checks").symlink_to(mine)
    expire(Retention(log_days=NOW, journal_days=0))
    assert (mine / "file").read_text() == "mine"
    assert not os.path.lexists(folder.path / "checks")
