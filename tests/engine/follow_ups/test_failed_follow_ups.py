"""What a follow-up was given and never took is its parent's again, and never goes by itself."""

from __future__ import annotations

import asyncio

import pytest
from project_python import project_python

from understudy.engine.running import user_requests
from understudy.journal import delegation_folder, worker_files
from understudy.model.delegation import events
from understudy.model.delegation.delegations import PermissionOption
from understudy.runners.runner import Question

DONE = "say(type='result', ok=True, text='done')"


@pytest.fixture
def busy(project):
    """Return a project with one slot, a finished result with pending hunks, and a run that holds the slot."""
    project.settings(f'[environment]\npython = "{project_python()}"\n\n[limits]\nslots = 1\n')
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
    assert states == {"pending", "working"}
    [changed] = busy.call("delegations/diff", id=busy.parent).files
    assert changed.hunks[0].state == "pending"
    busy.call("delegations/decide", id=busy.parent, decisions=[{"decision": "accept"}])
    assert (busy.top / "new.txt").read_text() == "x"
    assert busy.call("delegations/get", id=busy.parent).superseded_by is None


def test_pending_work_does_not_expire(busy):
    busy.settings(f'[environment]\npython = "{project_python()}"\n\n[worktrees]\nkeep_days = 0.000001\n')
    states = {tree.state for tree in busy.call("worktrees/list").worktrees}
    assert "expired" not in states
    assert "pending" in states


def question() -> Question:
    options = [
        PermissionOption(id="yes", title="Yes", kind="allow_once"),
        PermissionOption(id="no", title="No", kind="reject_once"),
    ]
    return Question(
        question_id="theirs",
        title="May I?",
        detail="Really.",
        options=options,
        tool="Bash",
        kind="execute",
        command="rm -rf build",
    )


async def test_a_cancelled_question_is_closed(project):
    project.program("doer", DONE)
    folder = delegation_folder.open_folder(project.start("implement", delegator="doer", task="x"))
    told = []
    asking = user_requests.PermissionRequests(folder, told.append, 60)
    task = asyncio.create_task(asking.ask(question()))
    while not told:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [type(event) for event in told] == [events.Permission, events.PermissionAnswered]
    assert (told[0].tool, told[0].kind, told[0].command, told[0].paths) == ("Bash", "execute", "rm -rf build", None)
    assert (told[-1].option, told[-1].by) == ("no", "withdrawn")  # english: allow withdrawn - a wire value
    project.finish(folder.id)


async def test_an_answer_written_before_the_question_is_ignored(project):
    project.program("doer", DONE)
    folder = delegation_folder.open_folder(project.start("implement", delegator="doer", task="x"))
    project.finish(folder.id)
    for number in range(1, 4):
        worker_files.append_request(folder, worker_files.Answer(request_id=f"q{number}", option="yes", by="cli"))
    told = []
    chosen, _ = await user_requests.PermissionRequests(folder, told.append, 0.05).ask(question())
    assert chosen.id == "no"
    assert told[-1].by == "deadline"
