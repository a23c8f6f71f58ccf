"""What a follow-up was given and never took is its parent's again, and never goes by itself."""

from __future__ import annotations

import asyncio
import sys

import pytest

from understudy.engine import questions
from understudy.journal import control, store
from understudy.model import events
from understudy.model.delegations import PermissionOption

DONE = "say(type='result', ok=True, text='done')"


@pytest.fixture
def busy(project):
    """Return a project with one slot, a finished result with pending hunks, and a run that holds the slot."""
    project.settings(f'[environment]\npython = "{sys.executable}"\n\n[limits]\nslots = 1\n')
    project.program("doer", f"pathlib.Path('new.txt').write_text('x')\n{DONE}")
    gate = project.config / "gate"
    project.program("gate", f"while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.02)\n{DONE}")
    parent = project.run("implement", delegator="doer", task="x").id
    holder = project.start("implement", delegator="gate", task="holds the slot")
    project.until(holder, lambda d: d.state == "running")
    project.parent = parent
    yield project
    gate.touch()
    project.finish(holder)


def test_a_reply_that_is_cancelled_in_the_queue_gives_the_hunks_back(busy):
    child = busy.call("delegations/reply", id=busy.parent, text="go on").id
    busy.until(child, lambda d: d.state == "queued")
    assert busy.call("delegations/get", id=busy.parent).superseded_by == child
    assert busy.call("delegations/cancel", id=child).verdict == "cancelled"
    states = {tree.state for tree in busy.call("worktrees/list").worktrees}
    assert states == {"undecided", "working"}
    [changed] = busy.call("delegations/diff", id=busy.parent).files
    assert changed.hunks[0].state == "pending"
    busy.call("delegations/decide", id=busy.parent, decisions=[{"decision": "accept"}])
    assert (busy.top / "new.txt").read_text() == "x"
    assert busy.call("delegations/get", id=busy.parent).superseded_by is None


def test_undecided_work_does_not_expire(busy):
    busy.settings(f'[environment]\npython = "{sys.executable}"\n\n[worktrees]\nkeep_days = 0.000001\n')
    states = {tree.state for tree in busy.call("worktrees/list").worktrees}
    assert "expired" not in states
    assert "undecided" in states


async def test_a_question_that_is_taken_back_is_closed(project):
    project.program("doer", DONE)
    folder = store.open_folder(project.start("implement", delegator="doer", task="x"))
    told = []
    asking = questions.Questions(folder, told.append, 60)
    options = [
        PermissionOption(id="yes", title="Yes", kind="allow_once"),
        PermissionOption(id="no", title="No", kind="reject_once"),
    ]
    task = asyncio.create_task(asking.ask("May I?", "really", options))
    while not told:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [type(event) for event in told] == [events.Permission, events.PermissionAnswered]
    assert (told[-1].option, told[-1].by) == ("no", "withdrawn")
    project.finish(folder.id)


async def test_an_answer_that_lay_there_before_the_question_is_none(project):
    project.program("doer", DONE)
    folder = store.open_folder(project.start("implement", delegator="doer", task="x"))
    project.finish(folder.id)
    for number in range(1, 4):
        control.append_control(folder, control.Answer(request_id=f"q{number}", option="yes", by="cli"))
    told = []
    options = [
        PermissionOption(id="yes", title="Yes", kind="allow_once"),
        PermissionOption(id="no", title="No", kind="reject_once"),
    ]
    chosen, _ = await questions.Questions(folder, told.append, 0.05).ask("May I?", "really", options)
    assert chosen.id == "no"
    assert told[-1].by == "deadline"
