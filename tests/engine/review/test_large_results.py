"""Deciding on n files costs n times as much as deciding on one."""

from __future__ import annotations

import pytest
from journals import journal
from operations import counted, require_linear

from understudy.engine.review import decision_recovery, decisions
from understudy.engine.review.decisions import DecisionRequest
from understudy.engine.review.review_state import DecisionIntent, HunkRef
from understudy.git.apply.transaction import FileTransaction
from understudy.git.changes import Change, Entry
from understudy.git.merge.hunk_merge import Removals, makes_room
from understudy.journal import delegation_folder
from understudy.model.delegation import events
from understudy.model.delegation.delegations import FileStat
from understudy.model.verdicts import Verdict

SIZE = 60


__all__ = ["journal"]


def test_recording_decisions_is_linear(journal):
    def cost(count: int) -> int:
        writer = journal()
        files = [FileStat(path=f"f{number}", status="added", additions=1, deletions=0) for number in range(count)]
        writer.append(events.Started(delegator="quick", model="m", reason="x", commit="c"), attempt=1)
        writer.append(events.Result(head="abc", files=files, text="", hunks=count), attempt=1)
        writer.append(events.Finished(verdict=Verdict.UNVERIFIED, reservations=[]), attempt=1)
        hunks = [HunkRef(file.path, file.path) for file in files]
        intent = DecisionIntent("accept", f"{writer.folder.id}.1", "test", hunks, [file.path for file in files])
        return counted(lambda: decision_recovery.append_events(writer.folder, writer, intent))

    require_linear(cost, SIZE)


def test_writing_new_files_is_linear(tmp_path):
    def cost(count: int) -> int:
        top = tmp_path / str(count)
        top.mkdir()
        changes = [Change(b"d%d/f%d" % (n // 20, n), None, Entry("100644", b"new\n")) for n in range(count)]

        def apply() -> None:
            with FileTransaction(top, tmp_path / "journal") as files:
                files.apply(changes)
                files.commit()

        return counted(apply)

    require_linear(cost, SIZE)


def test_making_room_for_files_is_linear():
    def cost(count: int) -> int:
        gone = [b"a/%d" % number for number in range(count)]
        there = Entry("040000", b"", ())

        def look() -> None:
            removals = Removals(gone)
            assert all(makes_room(path + b"/in", there, removals) for path in gone)

        return counted(look)

    require_linear(cost, SIZE)


@pytest.mark.heavy
def test_deciding_on_new_files_is_linear(project):
    costs: dict[str, dict[int, int]] = {"reject each": {}, "accept all": {}, "undo": {}}
    for count in (4, SIZE, 2 * SIZE, 3 * SIZE):  # the first loads modules
        source = f"for n in range({count}): pathlib.Path(f'new{{n}}.txt').write_text(f'{{n}}\\n')\n"
        project.program("maker", source + "say(type='result', ok=True)\n")
        folder = delegation_folder.open_folder(project.run("implement", task="x", delegator="maker").id)
        each = [DecisionRequest(f"new{number}.txt", None, "reject") for number in range(count)]
        tokens = []

        def decide(requests, folder=folder, tokens=tokens):
            done = decisions.decide(folder, requests, by="test", documents={})
            tokens.append(done.undo_token)

        costs["reject each"][count] = counted(lambda each=each, decide=decide: decide(each))
        again = [DecisionRequest(one.path, decisions_of(folder)[one.path], "accept") for one in each]
        costs["accept all"][count] = counted(lambda again=again, decide=decide: decide(again))
        assert len(list(project.top.glob("new*.txt"))) == count
        costs["undo"][count] = counted(lambda tokens=tokens: decisions.undo(tokens[-1], by="test", documents={}))
        assert not list(project.top.glob("new*.txt"))
    for cost in costs.values():
        require_linear(cost.__getitem__, SIZE)


def decisions_of(folder: delegation_folder.Folder) -> dict[str, str]:
    """Return the hunk of each file."""
    with decisions.lock_result(folder) as at:
        return {file.path: file.hunks[0].id for file in at.files()}
