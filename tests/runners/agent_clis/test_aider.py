"""Test the aider runner, and what it shares with mini-swe-agent, on recorded streams and on commands."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.model.config.delegators import Launch, ModelServer
from understudy.model.delegation.events import File, Session, Text, Thinking, ToolCall, ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.tools.aider import CAPABILITIES
from understudy.runners.agent_clis.in_python import aider, hosted_agent
from understudy.runners.agent_clis.in_python.inside import host
from understudy.runners.agent_clis.in_python.litellm_errors import kind_of_exception
from understudy.runners.runner import Outcome

SERVER = ModelServer(name="odd", kind="custom", base_url="http://127.0.0.1:9/v1", headers={"X-Team": "a"})


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(stage.task("edits"))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.path, event.change) for event in stage.of(File)] == [("hello.txt", "added")]
    assert outcome.text == "".join(event.text for event in stage.of(Text))
    assert outcome.summary == "It is easy:\n\n\nDone: it is as you asked.", "an edit is not a summary"
    assert outcome.session_id == stage.of(Session)[0].session_id
    usage = outcome.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (1200, 200, 50)
    assert (usage.reasoning_tokens, usage.turns, outcome.cost_usd, outcome.estimated) == (7, 1, None, False)
    started, request = stage.said_to_it()
    assert started["argv"] == [str(hosted_agent.HOST), "aider"], "the prompt is not in the arguments"
    assert (request["prompt"], request["mode"], request["server"]) == ("-Do what is asked.\n", "edit", None)


async def test_thoughts_and_commands(stage):
    assert isinstance(await stage.run(stage.task("reasoning")), Outcome)
    assert "".join(event.text for event in stage.of(Thinking)) == "Let me think."
    assert isinstance(await stage.run(stage.task("failing_shell")), Outcome)
    assert [event.title for event in stage.of(ToolCall)] == ["Run echo oops >&2; exit 3"]
    assert [(event.ok, "oops" in event.output) for event in stage.of(ToolResult)] == [(False, True)]
    assert isinstance(await stage.run(stage.task("shell")), Outcome)
    assert [event.ok for event in stage.of(ToolResult)] == [True]


@pytest.mark.parametrize(
    ("recording", "kind"),
    [
        ("misfit", ErrorKind.MALFORMED_OUTPUT),
        ("denied", ErrorKind.MALFORMED_OUTPUT),
        ("empty", ErrorKind.EMPTY_OUTPUT),
        ("unknown_option", ErrorKind.CONFIG_INVALID),
        ("interrupted", ErrorKind.TOOL_CRASHED),
    ],
)
async def test_what_else_fails_has_its_kind(stage, recording, kind):
    failure = await stage.run(stage.task(recording))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is kind
    assert "the files" in failure.message or recording not in {"misfit", "denied"}
    assert "--no-such-option" in failure.message or recording != "unknown_option"
    assert stage.of(File) == []


def request_of(command) -> dict:
    return json.loads(command.stdin)


def test_a_model_server_its_properties_and_its_key(stage, tmp_path):
    properties = {"temperature": 0.5}
    task = stage.task("edits", model_server=SERVER, key=lambda: "sk-secret-of-nobody", properties=properties)
    command = aider.command_for(task, stage.program, tmp_path)
    request = request_of(command)
    assert (request["key"], command.secrets) == ("sk-secret-of-nobody", {}), "its commands could read a variable"
    assert "sk-secret-of-nobody" in command.secret_input.values()
    assert "sk-secret" not in "".join(command.argv)
    assert (request["model"], request["properties"]) == ("openai/m", properties)
    assert request["server"] == {"baseUrl": "http://127.0.0.1:9/v1", "headers": {"X-Team": "a"}}
    alone = request_of(aider.command_for(stage.task("edits"), stage.program, tmp_path))
    assert (alone["model"], alone["server"]) == ("m", None), "the user's own login is used"


@pytest.mark.parametrize(
    ("launch", "returns", "mode"),
    [
        (None, "tree", "edit"),
        (None, "text", "ask"),
        (Launch(permission_mode="all"), "text", "all"),
        (Launch(permission_mode="ask"), "tree", "ask"),
        (Launch(yolo=True), "tree", "all"),
    ],
)
def test_each_permission_mode_reaches_it(stage, tmp_path, launch, returns, mode):
    command = aider.command_for(stage.task("edits", launch=launch, returns=returns), stage.program, tmp_path)
    assert request_of(command)["mode"] == mode


def test_a_session_flags_and_files_reach_it(stage, tmp_path):
    (stage.tree / "here.py").write_text("")
    (stage.tree / "away.py").symlink_to("/etc/passwd")
    launch = Launch(flags=["--edit-format=diff", "--map-tokens=0"])
    task = stage.task("edits", launch=launch, session_id="abc", files=["here.py", "none.py", "away.py"])
    request = request_of(aider.command_for(task, stage.program, tmp_path))
    assert (request["session"], request["flags"], request["files"]) == ("abc", launch.flags, ["here.py"])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"launch": Launch(flags=["--config", "x"])}, "--config"),
        ({"launch": Launch(flags=["--mess", "x"])}, "--mess"),
        ({"launch": Launch(flags=["--model=x"])}, "--model"),
        ({"launch": Launch(flags=["--api-key", "x"])}, "--api-key"),
        ({"launch": Launch(flags=["--edit-format=diff"], permission_mode="ask")}, "--edit-format"),
        ({"launch": Launch(flags=["-cconf.yml"])}, "-cconf.yml"),
        ({"launch": Launch(flags=["--auto-test", "--test-cmd=sh agent.sh"])}, "--auto-test"),
        ({"launch": Launch(flags=["/etc/passwd"])}, "/etc/passwd"),
        ({"launch": Launch(yolo=True, permission_mode="ask")}, "yolo"),
        ({"properties": {"temperature": 1}}, "model properties"),
    ],
)
async def test_what_cannot_apply_is_refused_before_anything_runs(stage, changes, says):
    failure = await stage.run(stage.task("edits", **changes))
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.CONFIG_INVALID
    assert says in failure.message
    assert failure.hint
    assert not stage.heard.exists()


async def test_variables_that_are_options_of_aider_are_refused(stage):
    task = stage.task("edits")
    task.environment["AIDER_TEST_CMD"] = "sh agent.sh"
    failure = await stage.run(task)
    assert isinstance(failure, UnderstudyError)
    assert "AIDER_TEST_CMD" in failure.message


@pytest.mark.parametrize(
    ("script", "python"),
    [
        ("#!/usr/lib/x/bin/python3.11\n# -*- coding", ["/usr/lib/x/bin/python3.11"]),
        ("#!/usr/bin/env python3\n", ["{bin}/python3"]),
        ("#!/usr/bin/env python3 -sE\n", ["{bin}/python3", "-sE"]),
        ("#!/usr/bin/env python2\n", None),
        ("#!{tree}/.venv/bin/python\n", None),
        ("#!bin/python3\n", None),
        ("#!/usr/lib/x/bin/python -sE\n", ["/usr/lib/x/bin/python", "-sE"]),
        ("#!/bin/sh\n'''exec' \"/usr/lib/a folder/python\" \"$0\" \"$@\"\n' '''\n", ["/usr/lib/a folder/python"]),
        ("#!/bin/sh\n'''exec' /usr/lib/x/python3 \"$0\" \"$@\"\n' '''\n", ["/usr/lib/x/python3"]),
        ("#!/usr/bin/env bash\nexec pyenv\n", None),
        ("\x7fELF\n", None),
        ("", None),
    ],
)
def test_its_python_is_the_one_that_its_program_names(stage, tmp_path, script, python):
    task = stage.task("edits")
    inside, outside = task.worktree / "bin", tmp_path / "outside"
    for folder, name in ((inside, "python3"), (inside, "python2"), (outside, "python3")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("")
        (folder / name).chmod(0o755)
    task.environment["PATH"] = f"bin:{inside}:{outside}"
    program = tmp_path / "program"
    program.write_text(script.replace("{tree}", str(task.worktree)))
    if python is None:
        with pytest.raises(UnderstudyError) as refused:
            hosted_agent.interpreter_of(program, CAPABILITIES, task)
        assert refused.value.kind is ErrorKind.TOOL_MISSING
    else:
        expected = [word.replace("{bin}", str(outside)) for word in python]
        assert hosted_agent.interpreter_of(program, CAPABILITIES, task) == expected


@pytest.mark.parametrize(
    ("name", "status", "text", "kind"),
    [
        ("PermissionDeniedError", 403, "no", ErrorKind.AUTH_FAILED),
        ("ContentPolicyViolationError", 400, "no", ErrorKind.CONTENT_REFUSED),
        ("FinishReasonLength", 0, "", ErrorKind.OUTPUT_TRUNCATED),
        ("Timeout", 408, "", ErrorKind.TIMED_OUT),
        ("InternalServerError", 500, "Connection error.", ErrorKind.CONNECTION_FAILED),
        ("InternalServerError", 500, "It broke.", ErrorKind.OVERLOADED),
        ("APIConnectionError", 500, "It broke.", ErrorKind.CONNECTION_FAILED),
        ("RateLimitError", 429, "Slow down.", ErrorKind.RATE_LIMITED),
        ("RateLimitError", 429, "You exceeded your current quota.", ErrorKind.QUOTA_EXHAUSTED),
        ("KeyError", 0, "'x'", ErrorKind.TOOL_CRASHED),
    ],
)
def test_an_exception_of_litellm_has_a_kind(name, status, text, kind):
    assert kind_of_exception(name, status, text) is kind


def test_another_version_and_a_pause_that_the_server_asks_for():
    lines = hosted_agent.HostedLines(CAPABILITIES)
    (ended,) = lines.line(b'{"type":"failed","name":"Unsupported","status":0,"text":"aider-chat 9: no part"}')
    assert ended.error.kind is ErrorKind.TOOL_MISSING
    assert "0.86.2" in ended.error.hint
    (ended,) = lines.line(b'{"type":"failed","name":"RateLimitError","status":429,"text":"no","retryAfter":60.0}')
    assert ended.error.retry_at is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=100)
@given(
    kind=st.sampled_from(["failed", "result", "usage", "text", "file"]) | JSON,
    more=st.dictionaries(st.sampled_from(["name", "status", "text", "retryAfter", "ok", "error"]), JSON, max_size=4),
)
def test_a_line_of_any_shape_never_breaks_it(kind, more):
    found = hosted_agent.HostedLines(CAPABILITIES).line(json.dumps({"type": kind, **more}).encode())
    assert found is None or isinstance(found, list)


def test_a_link_of_the_repository_leads_nowhere(tmp_path):
    inside = tmp_path / "tree"
    inside.mkdir()
    (inside / "notes.txt").symlink_to(tmp_path / "outside.txt")
    said = []
    one = host.Aider.__new__(host.Aider)
    one._root, one.report = str(inside), lambda *_args, **more: said.append(more["text"])
    one.given = {"mode": "edit", "scratch": str(tmp_path / "scratch")}
    assert not one.may_touch(str(inside / "notes.txt"), "read")
    assert not one.allows("Add file to the chat?", "notes.txt", False)
    assert not one.allows("Allow edits to file that has not been added to the chat?", "../outside.txt", False)
    assert len(said) == 3
    assert one.may_touch(str(inside / "own.txt"), "change")
    one.given["mode"] = "all"
    assert one.may_touch(str(inside / "notes.txt"), "read")
