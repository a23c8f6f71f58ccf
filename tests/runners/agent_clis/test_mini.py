"""Test the mini-swe-agent runner on recorded streams; what it shares with aider is tested with that."""

import json

import pytest

from understudy.model.config.delegators import ModelServer
from understudy.model.delegation.events import Session, Text, Thinking, ToolCall, ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis.in_python import hosted_agent, mini
from understudy.runners.runner import Outcome

SERVER = ModelServer(name="odd", kind="custom", base_url="http://127.0.0.1:9/v1")


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(stage.task("edits"))
    assert isinstance(outcome, Outcome), outcome
    assert [event.name for event in stage.of(ToolCall)] == ["shell"] * 4
    assert [event.ok for event in stage.of(ToolResult)] == [True] * 4
    assert outcome.text == outcome.summary == "Done: it is as you asked."
    assert "".join(event.text for event in stage.of(Text)) == outcome.text
    assert outcome.session_id == stage.of(Session)[0].session_id
    usage = outcome.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (4800, 800, 200)
    assert (usage.turns, usage.tool_calls, outcome.estimated) == (4, 4, False)
    started, request = stage.said_to_it()
    assert started["argv"] == [str(hosted_agent.HOST), "mini"], "the prompt is not in the arguments"
    assert request["prompt"] == "-Do what is asked.\n"


async def test_thoughts_and_a_command_that_fails(stage):
    assert isinstance(await stage.run(stage.task("reasoning")), Outcome)
    assert "".join(event.text for event in stage.of(Thinking)) == "Let me think."
    assert isinstance(await stage.run(stage.task("failing_shell")), Outcome)
    failed, _submitted = stage.of(ToolResult)
    assert (failed.ok, "oops" in failed.output) == (False, True)


@pytest.mark.parametrize(
    ("recording", "kind"), [("empty", ErrorKind.MALFORMED_OUTPUT), ("interrupted", ErrorKind.TOOL_CRASHED)]
)
async def test_what_else_fails_has_its_kind(stage, recording, kind):
    failure = await stage.run(stage.task(recording))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is kind


def test_a_model_server_a_session_and_properties_reach_it(stage, tmp_path):
    task = stage.task(
        "edits", model_server=SERVER, key=lambda: "sk-of-nobody", properties={"top_p": 0.5}, session_id="abc"
    )
    command = mini.command_for(task, stage.program, tmp_path)
    request = json.loads(command.stdin)
    assert (request["key"], command.secrets) == ("sk-of-nobody", {})
    assert "sk-of-nobody" in command.secret_input.values()
    assert (request["model"], request["properties"], request["session"]) == ("openai/m", {"top_p": 0.5}, "abc")


async def test_properties_without_a_model_server_are_refused(stage):
    failure = await stage.run(stage.task("edits", properties={"top_p": 0.5}))
    assert isinstance(failure, UnderstudyError)
    assert (failure.kind, stage.heard.exists()) == (ErrorKind.CONFIG_INVALID, False)
