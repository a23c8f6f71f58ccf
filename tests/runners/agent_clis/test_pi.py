"""Test the pi runner on recorded streams: work, failures, endings and options."""

import itertools
import json
import os
import re
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.model.config.delegators import Launch, ModelServer
from understudy.model.delegation.events import File, Session, Text, Thinking, ToolCall, ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis import pi
from understudy.runners.agent_clis.streams import pi_stream
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import Outcome

SERVER = ModelServer(name="odd", kind="custom", base_url="http://127.0.0.1:9/v1", headers={"X-Team": "!touch /x"})


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(stage.task("edits"))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.path, event.change) for event in stage.of(File)] == [
        ("hello.txt", "added"),
        ("hello.txt", "modified"),
    ]
    assert [event.title for event in stage.of(ToolCall)] == ["Write hello.txt", "Read hello.txt", "Edit hello.txt"]
    assert [event.ok for event in stage.of(ToolResult)] == [True] * 3
    assert outcome.text == outcome.summary == "".join(event.text for event in stage.of(Text))
    assert outcome.text == "Done: it is as you asked."
    assert outcome.session_id == stage.of(Session)[0].session_id
    usage = outcome.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (4800, 800, 200)
    assert (usage.turns, usage.tool_calls, outcome.cost_usd) == (4, 3, None)
    started, state, prompt, *_ = stage.said_to_it()
    assert (state["type"], prompt["type"], prompt["message"]) == ("get_state", "prompt", "-Do what is asked.\n")
    assert "-Do what is asked.\n" not in started["argv"]


async def test_thoughts_and_a_command_that_fails(stage):
    assert isinstance(await stage.run(stage.task("reasoning")), Outcome)
    assert "".join(event.text for event in stage.of(Thinking)) == "Let me think."
    assert isinstance(await stage.run(stage.task("failing_shell")), Outcome)
    assert [event.title for event in stage.of(ToolCall)] == ["Run echo oops >&2; exit 3"]
    assert [(event.ok, "oops" in event.output) for event in stage.of(ToolResult)] == [(False, True)]


async def test_an_interrupt_from_outside_is_a_failure(stage):
    failure = await stage.run(stage.task("interrupted"))
    assert isinstance(failure, UnderstudyError), failure
    assert (failure.kind, "interrupted" in failure.message) == (ErrorKind.TOOL_CRASHED, True)


async def test_it_is_not_started_without_the_package_that_masks_the_repository(stage):
    (stage.program.parent / "package.json").unlink()
    failure = await stage.run(stage.task("edits"))
    assert isinstance(failure, UnderstudyError)
    assert (failure.kind, stage.heard.exists()) == (ErrorKind.TOOL_MISSING, False)


def test_the_folder_of_a_projects_configuration_is_ours(stage, tmp_path):
    command = pi.command_for(stage.task("edits"), stage.program, tmp_path)
    package = Path(command.environment["PI_PACKAGE_DIR"])
    described = json.loads((package / "package.json").read_text())
    assert (described["name"], described["version"]) == ("@example/pi-coding-agent", "0.73.1")
    assert (package / "docs").resolve() == stage.program.parent / "docs"
    project = Path(os.path.normpath(stage.tree.resolve() / described["piConfig"]["configDir"]))
    assert project == tmp_path.resolve() / "project"
    assert json.loads((project / "settings.json").read_text())["retry"]["maxRetries"] == 2
    assert command.environment["PI_CODING_AGENT_DIR"].endswith("/.pi/agent"), "the user's own login is used"
    assert "--session-dir" not in command.argv


@pytest.mark.parametrize(
    ("protocol", "api", "base"),
    [
        (None, "openai-completions", "http://127.0.0.1:9/v1"),
        ("responses", "openai-responses", "http://127.0.0.1:9/v1"),
        ("anthropic", "anthropic-messages", "http://127.0.0.1:9"),
    ],
)
def test_a_model_server_gets_its_own_provider_and_its_key_is_in_no_file(stage, tmp_path, protocol, api, base):
    server = ModelServer(
        name="odd", kind="custom", base_url=SERVER.base_url, headers=SERVER.headers, protocols=[protocol]
    )
    properties = {"contextWindow": 32000, "maxTokens": "4000", "thinking": "high"}
    task = stage.task("edits", model_server=server, key=lambda: "sk-secret-of-nobody", properties=properties)
    command = pi.command_for(task, stage.program, tmp_path)
    assert command.secrets == {"UNDERSTUDY_PI_KEY": "sk-secret-of-nobody"}
    agent = Path(command.environment["PI_CODING_AGENT_DIR"])
    written = (agent / "models.json").read_text()
    assert "sk-secret" not in "".join(command.argv) + written
    assert "touch" not in written, "a value in this file can be a command"
    assert command.environment["UNDERSTUDY_PI_HEADER_0"] == "!touch /x"
    provider = json.loads(written)["providers"]["understudy"]
    assert (provider["api"], provider["baseUrl"]) == (api, base)
    assert (provider["apiKey"], provider["headers"]) == ("UNDERSTUDY_PI_KEY", {"X-Team": "UNDERSTUDY_PI_HEADER_0"})
    assert provider["models"] == [{"id": "m", "reasoning": True, "contextWindow": 32000, "maxTokens": 4000}]
    assert options(command.argv)["--thinking"] == "high"
    assert re.fullmatch(r".*/\.pi/agent/sessions/--.*-the-tree--", options(command.argv)["--session-dir"])


def options(argv: list[str]) -> dict[str, str]:
    return dict(itertools.pairwise(argv))


@pytest.mark.parametrize(
    ("launch", "returns", "tools"),
    [
        (None, "tree", None),
        (None, "text", "read,grep,find,ls"),
        (Launch(permission_mode="all-tools"), "text", None),
        (Launch(permission_mode="read-only"), "tree", "read,grep,find,ls"),
        (Launch(yolo=True), "text", None),
    ],
)
def test_each_permission_mode_has_its_tools(stage, tmp_path, launch, returns, tools):
    command = pi.command_for(stage.task("edits", launch=launch, returns=returns), stage.program, tmp_path)
    assert options(command.argv).get("--tools") == tools


def test_a_session_a_model_and_flags_reach_it(stage, tmp_path):
    task = stage.task("edits", launch=Launch(flags=["--no-skills"]), session_id="abc", prompt="/name it")
    argv = pi.command_for(task, stage.program, tmp_path).argv
    assert (options(argv)["--session"], options(argv)["--model"], argv[-1]) == ("abc", "m", "--no-skills")
    assert {"--no-extensions", "--no-skills", "--no-prompt-templates"} <= {*argv}, "a prompt is not a command"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"launch": Launch(flags=["--mode", "json"])}, "--mode"),
        ({"launch": Launch(flags=["--api-key", "x"])}, "--api-key"),
        ({"launch": Launch(flags=["--model=x"])}, "--model"),
        ({"launch": Launch(flags=["@file"])}, "@file"),
        ({"launch": Launch(flags=["-t", "bash"], permission_mode="read-only")}, "-t"),
        ({"launch": Launch(yolo=True, permission_mode="read-only")}, "yolo"),
        ({"properties": {"thinking": "very"}}, "thinking"),
        ({"properties": {"maxTokens": 5}}, "maxTokens"),
        ({"properties": {"maxTokens": -5}, "model_server": SERVER}, "maxTokens"),
    ],
)
async def test_what_cannot_apply_is_refused_before_anything_runs(stage, changes, says):
    failure = await stage.run(stage.task("edits", **changes))
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.CONFIG_INVALID
    assert says in failure.message
    assert failure.hint
    assert not stage.heard.exists()


@pytest.mark.parametrize("name", ["PI_PACKAGE_DIR", "PI_CODING_AGENT_DIR"])
def test_variables_that_would_undo_the_mask_are_refused(stage, tmp_path, name):
    task = stage.task("edits", model_server=SERVER)
    task.environment[name] = "/x"
    with pytest.raises(UnderstudyError, match=name):
        pi.command_for(task, stage.program, tmp_path)


def said(kind: str, **more: object) -> bytes:
    return json.dumps({"type": kind, **more}).encode()


def test_an_end_that_it_continues_after_is_none():
    found = pi_stream.PiStream(Path("/tree"))
    state = {"command": "get_state", "success": True, "data": {"sessionId": "s"}}
    for number, after in enumerate([said("auto_retry_start"), said("compaction_start"), said("agent_start")], 1):
        (asked,) = found.line(said("agent_end"))
        assert isinstance(asked, Reply)
        found.line(after)
        assert found.line(said("response", id=f"end-{number}", **state)) == []
    found.line(said("agent_end"))
    (ended,) = found.line(said("response", id="end-4", **state))
    assert isinstance(ended, AgentFinished)


def test_costs_are_added_and_a_dialog_of_an_extension_is_cancelled():
    found = pi_stream.PiStream(Path("/tree"))
    usage = {"input": 10, "output": 2, "cacheRead": 5, "cacheWrite": 1, "cost": {"total": 0.001}}
    message = {"role": "assistant", "content": [], "usage": usage, "stopReason": "stop"}
    found.line(said("message_end", message=message))
    (report,) = found.line(said("message_end", message=message))
    assert (report.input_tokens, report.cost_usd, report.turns) == (32, "0.002", 2)
    (reply,) = found.line(said("extension_ui_request", id="7", method="confirm", title="Sure?"))
    assert json.loads(reply.data) == {"type": "extension_ui_response", "id": "7", "cancelled": True}
    assert found.line(said("extension_ui_request", id="8", method="notify")) == []


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("No API key found for x.\n\nUse /login …", ErrorKind.AUTH_FAILED),
        ("Error: Unknown option: -z", ErrorKind.CONFIG_INVALID),
        ('Error: Model "x" not found. Use --list-models …', ErrorKind.MODEL_NOT_FOUND),
    ],
)
def test_what_it_says_before_it_starts_has_its_kind(stderr, kind):
    failure = pi_stream.PiStream(Path("/tree")).explain(stderr)
    assert failure is not None
    assert failure.kind is kind
    assert "/login …" not in failure.message


def test_an_answer_that_reached_its_limit_is_not_complete():
    found = pi_stream.PiStream(Path("/tree"))
    found.line(said("message_end", message={"role": "assistant", "content": [], "stopReason": "length"}))
    found.line(said("agent_end"))
    state = {"command": "get_state", "success": True, "data": {"sessionId": "s"}}
    (ended,) = found.line(said("response", id="end-1", **state))
    assert ended.error.kind is ErrorKind.OUTPUT_TRUNCATED


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = ("id", "command", "success", "data", "toolCallId", "args", "result", "assistantMessageEvent", "message")


@settings(max_examples=examples(100))
@given(
    kind=st.sampled_from([*pi_stream.PiStream._LINES]) | JSON,
    more=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
    message=st.none() | st.dictionaries(st.sampled_from(["content", "usage", "stopReason", "type", "delta"]), JSON),
)
def test_a_line_of_any_shape_never_breaks_it(kind, more, message):
    if message is not None:
        more |= {"message": {"role": "assistant", **message}, "assistantMessageEvent": message}
    found = pi_stream.PiStream(Path("/tree")).line(json.dumps({"type": kind, **more}).encode())
    assert found is None or isinstance(found, list)
