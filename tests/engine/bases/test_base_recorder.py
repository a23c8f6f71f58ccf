"""The base of a delegation that waits is what the user saw when they asked, however many wait before it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from understudy.engine.bases import base_recorder
from understudy.engine.queueing import launcher
from understudy.engine.queueing.start_conditions import take_slot
from understudy.engine.worktrees import worktree_record
from understudy.git import command, diff
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.store import store


class Waiting:
    """Delegations that wait because another one has the only slot; this process records their bases."""

    def __init__(self, project, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self.root = project, delegation_folder.state_root()
        self.monkeypatch = monkeypatch
        self.started: list[str] = []
        self.root.mkdir(parents=True, exist_ok=True)
        self.busy = take_slot(self.root, 1)
        monkeypatch.setattr(launcher, "ensure_recorder", lambda root: None)
        monkeypatch.setattr(command, "mark_calls", lambda name, value: None)

    def start(self, **params) -> str:
        self.started.append(self.project.start("tests", "calc.py", delegator="idle", **params))
        return self.started[-1]

    def record(self, *, meanwhile=lambda: None) -> None:
        """Record all bases; ``meanwhile`` happens before the store of the first one is made."""
        made, really = [], base_recorder._record

        def record_one(root: Path, identifier: str) -> bool:
            if not made:
                meanwhile()
            made.append(identifier)
            return really(root, identifier)

        with self.monkeypatch.context() as patch:
            patch.setattr(base_recorder, "_record", record_one)
            base_recorder.record_all(self.root, launcher.lock_recorder(self.root))

    def base(self, identifier: str, path: str) -> str | None:
        folder = delegation_folder.open_folder(identifier)
        known, store = worktree_record.load_record(folder)
        found = diff.read_file(store, known.base_commit, path.encode())
        return found[0].decode() if found is not None else None

    def cancel(self) -> None:
        for identifier in self.started:
            self.project.call("delegations/cancel", id=identifier)
        self.busy.close()


@pytest.fixture
def waiting(project, monkeypatch):
    project.settings("[limits]\nslots = 1\n")
    project.delegator("idle", "/bin/sh", "-c", "exit 0")
    made = Waiting(project, monkeypatch)
    yield made
    made.cancel()


def test_an_edit_after_the_starts_is_in_no_base(waiting) -> None:
    project = waiting.project
    project.write("calc.py", "seen = 1\n")
    project.write("new.txt", "untracked\n")
    first, second = waiting.start(), waiting.start()
    third: list[str] = []

    def the_user_goes_on() -> None:
        project.write("calc.py", "seen = 2\n")
        project.commit()
        third.append(waiting.start())

    waiting.record(meanwhile=the_user_goes_on)
    assert [waiting.base(one, "calc.py") for one in (first, second, *third)] == [
        "seen = 1\n",
        "seen = 1\n",
        "seen = 2\n",
    ]
    assert waiting.base(second, "new.txt") == "untracked\n"
    for identifier in (first, second):
        assert (delegation_folder.open_folder(identifier).path / worktree_record.BASE_COPY).exists()
    assert store.unrecorded(waiting.root) == {}
    assert not base_recorder.has_snapshots(waiting.root)


def test_unsaved_text_and_an_older_base_have_snapshots_of_their_own(waiting) -> None:
    waiting.project.write("calc.py", "saved = 1\n")
    calc = waiting.project.top / "calc.py"
    texts = ["unsaved = 1\n", "unsaved = 2\n", "unsaved = 1\n"]
    typed = [waiting.start(buffers=[{"uri": calc.as_uri(), "text": text}]) for text in texts]
    saved, committed = waiting.start(), waiting.start(base="head")
    waiting.record(meanwhile=lambda: waiting.project.write("calc.py", "later = 1\n"))
    assert [waiting.base(one, "calc.py") for one in typed] == texts
    assert waiting.base(saved, "calc.py") == "saved = 1\n"
    assert "def add" in waiting.base(committed, "calc.py")


def test_a_snapshot_survives_the_process_that_captured_it(waiting) -> None:
    waiting.project.write("calc.py", "seen = 1\n")
    identifier = waiting.start()
    base_recorder.capture(waiting.root, [identifier], base_recorder.MOST_TRIES)  # and dies here
    unfinished = waiting.root / "queue" / "snapshots" / "unfinished"
    unfinished.mkdir()
    waiting.project.write("calc.py", "later = 1\n")
    base_recorder.tidy(waiting.root)
    assert not unfinished.exists()
    waiting.record()
    assert waiting.base(identifier, "calc.py") == "seen = 1\n"
    assert not base_recorder.has_snapshots(waiting.root)


def test_what_cannot_be_captured_is_left_to_the_worker(waiting, monkeypatch) -> None:
    identifier = waiting.start()

    def full(*args: object, **keywords: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(worktree_record, "capture_shared", full)
    monkeypatch.setattr(base_recorder, "record_base", full)
    waiting.record()
    assert store.unrecorded(waiting.root) == {}
    assert store.waiting(waiting.root) == [identifier]


def test_a_full_disk_is_named_when_a_snapshot_is_copied(waiting, monkeypatch, tmp_path) -> None:
    waiting.project.write("calc.py", "seen = 1\n")
    identifier = waiting.start()
    base_recorder.capture(waiting.root, [identifier], base_recorder.MOST_TRIES)
    folder, _ = base_recorder.find_snapshot(waiting.root, identifier)

    def full(*args: object, **keywords: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(UnderstudyError) as caught:
        worktree_record.copy_shared(folder, tmp_path / "store.git", tmp_path / "base.pack")
    assert caught.value.kind is ErrorKind.DISK_FULL


def test_a_capture_that_kills_its_process_is_not_tried_for_ever(waiting, monkeypatch) -> None:
    identifier = waiting.start()

    class Killed(BaseException):
        pass

    def dies(*args: object, **keywords: object) -> None:
        raise Killed

    monkeypatch.setattr(worktree_record, "capture_shared", dies)
    for _ in range(base_recorder.MOST_TRIES):
        with pytest.raises(Killed):
            base_recorder.capture(waiting.root, [identifier], base_recorder.MOST_TRIES)
    base_recorder.capture(waiting.root, [identifier], base_recorder.MOST_TRIES)
    waiting.record()
    assert store.unrecorded(waiting.root) == {}
