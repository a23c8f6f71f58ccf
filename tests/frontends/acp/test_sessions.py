"""Questions, cancelling, trust, several sessions, and clients that disappear."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess

import pytest
from acp import schema
from acp.exceptions import RequestError
from wait_until import until

from understudy.model.states import State

GATE = """
import json, pathlib, time
print(json.dumps({{"type": "text", "text": "I began. "}}), flush=True)
while not pathlib.Path({gate!r}).exists():
    time.sleep(0.02)
pathlib.Path("made.txt").write_text("made\\n")
print(json.dumps({{"type": "result", "text": "I ended.", "ok": True}}), flush=True)
"""


@pytest.fixture
def patient(stage):
    """A delegator that waits for a file, and a function that makes it."""
    import sys

    gate = stage.folder / "go"
    stage.delegator("patient", [sys.executable, "-c", GATE.format(gate=str(gate))])
    return gate.touch


def kill(process) -> None:
    os.kill(process.pid, signal.SIGKILL)


async def test_a_question_of_the_agent_goes_to_the_user_and_back(stage, connect) -> None:
    stage.asking("careful")
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="careful")
        editor.answers += ["allow_once", "Accept"]
        await editor.say(session, "Make it")
        question, options = editor.questions[0]
        assert question.title.startswith("careful asks: "), "an agent could word it as a question of this program"
        assert "made.txt" in question.title
        assert {one.kind for one in options} >= {"allow_once", "reject_once"}
        assert [one.path for one in question.locations] == [str(stage.top / "made.txt")]
        ended = {one.tool_call_id: one.status for one in editor.of(schema.ToolCallProgress)}
        assert ended[question.tool_call_id] == "completed"
        assert editor.of(schema.AgentPlanUpdate)[0].entries[0].content == "Make it"
        assert "I think." in editor.thoughts()
    assert (stage.top / "made.txt").read_text() == "made\n"


@pytest.mark.heavy
async def test_a_rejected_question_changes_nothing(stage, connect) -> None:
    stage.asking("careful")
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="careful")
        editor.answers.append("reject_once")
        await editor.say(session, "Make it")
        assert len(editor.questions) == 1
        assert "No-id" in editor.text()
    assert stage.delegations()[0].verdict == "no_changes"


async def test_a_question_that_is_answered_elsewhere_does_not_stop_the_prompt(stage, connect) -> None:
    stage.asking("careful")
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="careful")
        open_question: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        editor.answers += [open_question, "Decide later"]
        prompt = asyncio.create_task(editor.say(session, "Make it"))
        await editor.until(lambda: editor.questions)
        [found] = stage.delegations()
        option = next(one for one in found.waiting_for.options if one.kind == "allow_once")
        stage.call("delegations/answer", id=found.id, requestId=found.waiting_for.request_id, option=option.id)
        assert (await prompt).stop_reason == "end_turn"
        ended = {one.tool_call_id: one for one in editor.of(schema.ToolCallProgress)}
        assert ended[editor.questions[0][0].tool_call_id].status == "completed"
        assert "(by cli)" in ended[editor.questions[0][0].tool_call_id].title
        open_question.set_result("reject_once")  # too late
        assert (await editor.say(session, "/diff")).stop_reason == "end_turn"


async def test_cancel_ends_the_prompt_and_the_delegation(stage, connect, patient) -> None:
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="patient")
        prompt = asyncio.create_task(editor.say(session, "Wait"))
        await editor.until(lambda: "I began." in editor.text())
        await editor.connection.cancel(session_id=session)
        assert (await prompt).stop_reason == "cancelled"
        assert stage.delegations()[0].verdict == "cancelled"
        await editor.connection.cancel(session_id=session)  # nothing runs
        patient()
        assert (await editor.say(session, "/implement Go on")).stop_reason == "end_turn"
        assert "I ended." in editor.text() or editor.diffs()


@pytest.mark.heavy
async def test_cancel_answers_a_prompt_that_asks_the_user(stage, connect) -> None:
    stage.script("quick", [{"write": "made.txt", "text": "made\n"}, {"result": True}])
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        editor.answers.append(asyncio.get_running_loop().create_future())
        prompt = asyncio.create_task(editor.say(session, "Write"))
        await editor.until(lambda: editor.questions)
        await editor.connection.cancel(session_id=session)
        assert (await prompt).stop_reason == "cancelled"
    assert stage.delegations()[0].review.pending == 1


async def test_an_untrusted_workspace_runs_nothing_until_the_user_trusts_it(stage, connect) -> None:
    stage.script("quick", [{"write": "made.txt", "text": "made\n"}, {"result": True}])
    stage.call("workspace/trust", workspace=str(stage.top), trusted=False)
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        with pytest.raises(RequestError, match="understudy trust"):
            await editor.say(session, "Write")
        [(question, options)] = editor.questions
        assert str(stage.top) in question.title
        # Clients that allow by themselves choose `allow_once`.
        assert "allow_once" not in {one.kind for one in options}
        assert stage.delegations() == []
        editor.answers.append("allow_always")
        await editor.say(session, "Write")
    assert stage.call("workspace/trust", workspace=str(stage.top)).trusted
    assert len(stage.delegations()) == 1


async def test_two_sessions_do_not_mix(stage, connect, patient) -> None:
    stage.script("quick", [{"say": "From the quick one."}, {"result": True}])
    async with connect() as editor:
        slow = await editor.open(stage.top, delegator="patient")
        fast = await editor.open(stage.top, delegator="quick")
        waiting = asyncio.create_task(editor.say(slow, "Wait"))
        await editor.until(lambda: "I began." in editor.text(slow))
        with pytest.raises(RequestError, match="A prompt is running"):
            await editor.say(slow, "Me, too")
        assert (await editor.say(fast, "Go")).stop_reason == "end_turn"
        patient()
        assert (await waiting).stop_reason == "end_turn"
        assert "quick one" in editor.text(fast)
        assert "quick one" not in editor.text(slow)
        assert [diff.path for diff in editor.diffs(slow)] == [str(stage.top / "made.txt")]
        assert editor.diffs(fast) == []


async def test_a_killed_agent_loses_nothing_and_a_loaded_session_goes_on(stage, connect, patient) -> None:
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="patient")
        prompt = asyncio.create_task(editor.say(session, "Make the file"))
        await editor.until(lambda: "I began." in editor.text())
        kill(editor.process)
        with pytest.raises(ConnectionError):
            await prompt
    async with connect() as editor:
        loaded = await editor.connection.load_session(cwd=str(stage.top), session_id=session, mcp_servers=[])
        assert loaded.config_options[0].current_value == "patient"
        assert [one.content.text for one in editor.of(schema.UserMessageChunk)] == ["/implement Make the file"]
        assert "I began." in editor.text()
        assert editor.diffs() == []
        # It still runs, and is followed without a prompt.
        patient()
        await editor.until(lambda: editor.diffs() and "/accept" in editor.text())
        await editor.say(session, "/accept")
        assert (stage.top / "made.txt").read_text() == "made\n"
        assert len(stage.delegations()) == 1
        await editor.say(session, "Once more")
        assert stage.delegations()[0].parent_id == stage.delegations()[1].id


@pytest.mark.smoke
@pytest.mark.heavy
async def test_a_session_is_replayed_with_everything_that_was_said(stage, connect) -> None:
    stage.script("quick", [{"say": "Done."}, {"write": "made.txt", "text": "made\n"}, {"result": True}])
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        await editor.say(session, "Write it")
        await editor.say(session, "Again, please")
    other = stage.call("delegations/start", recipe="ask", task="Why?", delegator="quick", workspace=str(stage.top))
    stage.call("delegations/wait", id=other.id)
    async with connect() as editor:
        found = (await editor.connection.list_sessions(cwd=str(stage.top))).sessions
        assert [one.session_id for one in found] == [other.id, session]
        assert found[1].title == "Write it"
        await editor.connection.load_session(cwd=str(stage.top), session_id=session, mcp_servers=[])
        said = [one.content.text for one in editor.of(schema.UserMessageChunk)]
        assert said == ["/implement Write it", "Again, please"]
        assert editor.text().count("Done.") == 2
        # What was started in a terminal can be continued here.
        await editor.connection.load_session(cwd=str(stage.top), session_id=other.id, mcp_servers=[])
        assert (await editor.say(other.id, "And then?")).stop_reason == "end_turn"
        assert stage.delegations()[0].parent_id == other.id
        await editor.connection.resume_session(session_id=session, cwd=str(stage.top), mcp_servers=[])
        await editor.connection.close_session(session_id=session)
        with pytest.raises(RequestError, match="no open session"):
            await editor.say(session, "Hello?")


async def test_a_client_that_disappears_ends_the_agent_but_not_the_work(stage, connect, patient) -> None:
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="patient")
        prompt = asyncio.create_task(editor.say(session, "Wait"))
        await editor.until(lambda: "I began." in editor.text())
        editor.stream.close()
        assert await asyncio.to_thread(editor.process.wait, 60) == 0
        with pytest.raises(ConnectionError):
            await prompt
    assert stage.delegations()[0].state is not State.FINISHED
    patient()
    until(lambda: stage.delegations()[0].state is State.FINISHED)
    assert stage.delegations()[0].verdict == "unverified"


@pytest.mark.heavy
async def test_a_message_to_a_delegation_that_still_runs_is_said_to_its_agent(stage, connect, patient) -> None:
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="patient")
        prompt = asyncio.create_task(editor.say(session, "Wait"))
        await editor.until(lambda: "I began." in editor.text())
        kill(editor.process)
        with pytest.raises(ConnectionError):
            await prompt
    async with connect() as editor:
        await editor.connection.load_session(cwd=str(stage.top), session_id=session, mcp_servers=[])
        prompt = asyncio.create_task(editor.say(session, "Hurry"))
        # A list may be a second behind.
        identifier = stage.delegations()[0].id
        await asyncio.to_thread(until, lambda: stage.call("delegations/get", id=identifier).messages)
        patient()
        assert (await prompt).stop_reason == "end_turn"
    assert stage.delegations()[0].messages[0].text == "Hurry"


@pytest.mark.parametrize("cwd", [".", "project", "/does/not/exist", ""])
async def test_a_folder_must_be_absolute(stage, connect, cwd) -> None:
    async with connect() as editor:
        with pytest.raises(RequestError, match="cwd"):
            await editor.connection.new_session(cwd=cwd, mcp_servers=[])
        with pytest.raises(RequestError, match="cwd"):
            await editor.connection.load_session(cwd=cwd, session_id="understudy-x", mcp_servers=[])
        with pytest.raises(RequestError, match="no session"):
            await editor.connection.load_session(cwd=str(stage.top), session_id="understudy-x", mcp_servers=[])


def test_without_its_package_the_command_says_how_to_install_it(stage) -> None:
    import sys

    code = (
        "import importlib.util as u; found = u.find_spec;"
        "u.find_spec = lambda name, *rest: None if name == 'acp' else found(name, *rest);"
        "from understudy.__main__ import main; import sys; sys.argv = ['understudy', 'acp']; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "uv tool install --force ." in done.stderr
    assert done.stdout == ""
