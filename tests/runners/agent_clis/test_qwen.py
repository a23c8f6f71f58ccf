"""Test the Qwen Code runner on recorded streams: work, questions, failures and endings."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.model.config.delegators import Launch, ModelServer
from understudy.model.delegation.events import (
    File,
    Note,
    Permission,
    Phase,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis import qwen
from understudy.runners.agent_clis.streams.qwen_stream import QwenStream
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import McpServer, Outcome, Question

SERVER = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:9/v1", headers={"X-Team": "shop"})


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(stage.task("edits", session_id="s-1"))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.path, event.change) for event in stage.of(File)] == [
        ("hello.txt", "added"),
        ("hello.txt", "modified"),
    ]
    assert [event.title for event in stage.of(ToolCall)] == [
        "write_file hello.txt",
        "read_file hello.txt",
        "edit hello.txt",
    ]
    assert [event.ok for event in stage.of(ToolResult)] == [True] * 3
    assert outcome.text == outcome.summary == "".join(event.text for event in stage.of(Text))
    assert outcome.text == "Done: it is as you asked."
    assert outcome.session_id == stage.of(Session)[0].session_id
    usage = outcome.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (4800, 800, 200)
    assert (usage.turns, usage.tool_calls, outcome.cost_usd) == (4, 3, None)
    started, hello, prompt, *answers = stage.said_to_it()
    assert {"--resume=s-1", "--model=m", "--approval-mode=default"} <= set(started["argv"])
    assert hello["request"]["timeout"] == {"canUseTool": 600_000}
    assert prompt["message"]["content"][0]["text"] == "-Do what is asked.\n"
    assert stage.of(Permission) == [], "edits of the worktree are allowed by the mode"
    assert [answer["response"]["response"]["behavior"] for answer in answers] == ["allow"] * 2


async def test_thoughts_come_once_and_are_no_turn(stage):
    outcome = await stage.run(stage.task("reasoning", returns="text"))
    assert isinstance(outcome, Outcome), outcome
    assert "".join(event.text for event in stage.of(Thinking)) == "Let me think."
    assert "".join(event.text for event in stage.of(Text)) == outcome.text
    assert (outcome.usage.turns, outcome.usage.input_tokens) == (1, 1200)


@pytest.mark.parametrize(
    ("recording", "kind", "behavior"),
    [("allowed", "allow_once", "allow"), ("rejected", "reject_once", "deny"), ("failing_shell", "allow_once", "allow")],
)
async def test_a_command_waits_for_its_answer(stage, recording, kind, behavior, choosing):
    asked: list[Question] = []
    outcome = await stage.run(stage.task(recording, ask=choosing(kind, "Because.", asked=asked)))
    assert isinstance(outcome, Outcome), outcome
    (question,) = asked
    assert (question.tool, question.kind) == ("run_shell_command", "execute")
    assert question.title == f"Run {question.command}"
    answer = stage.said_to_it()[-1]["response"]["response"]
    assert answer["behavior"] == behavior
    assert answer.get("message", "Because.") == "Because."
    assert [event.ok for event in stage.of(ToolResult)] == [recording == "allowed"]


async def test_a_file_outside_the_worktree_is_asked_for(stage):
    outcome = await stage.run(stage.task("outside"))
    assert isinstance(outcome, Outcome), outcome
    assert [event.paths for event in stage.of(Permission)] == [["/tmp/understudy-outside.txt"]]
    assert stage.of(File) == []


@pytest.mark.parametrize("is_edited", [False, True], ids=["by itself", "by the model"])
async def test_what_it_writes_into_its_settings_when_it_starts_is_not_a_result(stage, is_edited):
    settings_file = stage.tree / ".qwen" / "settings.json"
    settings_file.parent.mkdir()
    settings_file.write_text("{}\n")
    stage.run_first("echo '{\"$version\": 4}' > .qwen/settings.json")
    task = stage.task("allowed")

    async def ask(question):
        if is_edited:
            settings_file.write_text('{"$version": 4, "model": {}}\n')
        return next(option for option in question.options if option.kind == "allow_once"), None

    outcome = await stage.run(msgspec.structs.replace(task, ask=ask))
    assert isinstance(outcome, Outcome), outcome
    assert ("model" in settings_file.read_text()) == is_edited
    assert (settings_file.read_text() == "{}\n") == (not is_edited)
    assert [event.text for event in stage.of(Note)] == [
        "Qwen Code itself wrote .qwen/settings.json when it started. It is restored."
    ] * (not is_edited)


@pytest.mark.parametrize(
    ("recording", "existed", "prompt"),
    [
        ("allowed", True, "Bring .qwen/settings.json into its newest format."),
        ("allowed", False, "Do what is asked."),
        ("without_session", True, "Do what is asked."),
        ("names_it", True, "Do what is asked."),
    ],
)
async def test_settings_that_may_be_the_result_are_kept(stage, choosing, recording, existed, prompt):
    recorded = (stage.recordings / "allowed.jsonl").read_text().splitlines(keepends=True)
    stage.recordings = stage.folder / "qwen"
    stage.recordings.mkdir()
    lines = {
        "allowed": recorded,
        "without_session": [line for line in recorded if json.loads(line).get("subtype") != "init"],
        "names_it": [line.replace("asked.txt", ".qwen/settings.json") for line in recorded],
    }[recording]
    (stage.recordings / f"{recording}.jsonl").write_text("".join(lines))
    settings_file = stage.tree / ".qwen" / "settings.json"
    settings_file.parent.mkdir()
    if existed:
        settings_file.write_text("{}\n")
    stage.run_first("echo '{\"$version\": 4}' > .qwen/settings.json")
    await stage.run(stage.task(recording, prompt=prompt, ask=choosing("allow_once")))
    assert settings_file.read_text() == '{"$version": 4}\n'
    assert stage.of(ToolCall)


async def test_an_option_that_it_does_not_know_needs_another_version(stage):
    failure = await stage.run(stage.task("unknown_option"))
    assert isinstance(failure, UnderstudyError), failure
    assert (failure.kind, "such-option" in failure.message) == (ErrorKind.TOOL_MISSING, True)
    assert failure.hint


async def test_an_answer_that_goes_on_after_the_output_limit_is_a_success(stage):
    outcome = await stage.run(stage.task("continued", returns="text"))
    assert isinstance(outcome, Outcome), outcome
    assert [event.text for event in stage.of(Phase)] == ["The answer reached the model's output limit; continuing"] * 3


async def test_an_overflow_that_comes_again_and_again_is_ended(stage):
    assert isinstance(await stage.run(stage.task("late_context")), UnderstudyError)
    assert len(stage.of(Phase)) == 4, "each retry is shown, and the fourth is the last"
    assert stage.said_to_it()[-1]["request"] == {"subtype": "interrupt"}


def test_a_model_server_gets_its_own_settings_and_its_key_is_no_argument(stage, tmp_path):
    task = stage.task(
        "edits", model_server=SERVER, key=lambda: "sk-secret-of-nobody", properties={"temperature": 0.5}, env=None
    )
    command = qwen.command_for(task, Path("/usr/bin/qwen"), tmp_path)
    assert "--auth-type=openai" in command.argv
    assert command.secrets == {"OPENAI_API_KEY": "sk-secret-of-nobody"}
    assert command.environment["OPENAI_BASE_URL"] == "http://127.0.0.1:9/v1"
    assert command.environment["QWEN_HOME"] == str(tmp_path), "the user's settings could name another server"
    assert command.environment["QWEN_RUNTIME_DIR"].endswith("/.qwen"), "sessions stay in the user's folder"
    written = [path.read_text() for path in sorted(tmp_path.glob("*.json"))]
    assert "sk-secret" not in "".join([*command.argv, *command.environment.values(), *written])
    found, trust = json.loads(written[0]), json.loads(written[1])
    assert found["model"]["generationConfig"] == {
        "maxRetries": 0,
        "customHeaders": {"X-Team": "shop"},
        "extra_body": {"temperature": 0.5},
    }
    assert found["security"]["folderTrust"] == {"enabled": True}
    assert trust[str(stage.tree)] == "DO_NOT_TRUST"
    keyless = qwen.command_for(stage.task("edits", model_server=SERVER), Path("/q"), tmp_path)
    assert (keyless.secrets, keyless.environment["OPENAI_API_KEY"]) == ({}, "no-key")
    own = qwen.command_for(stage.task("edits"), Path("/q"), tmp_path)
    assert not {"QWEN_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY"} & {*own.environment, *own.secrets}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"launch": Launch(flags=["--output-format=text"])}, "--output-format"),
        ({"launch": Launch(flags=["--openai-base-url", "http://elsewhere"])}, "--openai-base-url"),
        ({"launch": Launch(flags=["-m", "x"])}, "`model`"),
        ({"launch": Launch(yolo=True, permission_mode="plan")}, "yolo"),
        ({"properties": {"temperature": 1}}, "model server"),
        ({"model_server": SERVER, "env": {"OPENAI_BASE_URL": "http://elsewhere"}}, "OPENAI_BASE_URL"),
        ({"mcp_servers": [McpServer(name="notes", argv=["/bin/notes"])]}, "tool servers"),
    ],
)
async def test_what_cannot_apply_is_refused_before_anything_runs(stage, changes, says):
    failure = await stage.run(stage.task("edits", **changes))
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.CONFIG_INVALID
    assert says in failure.message + failure.hint
    assert not stage.heard.exists()


def ask_for(stream: QwenStream, tool: str, **given: str) -> Any:
    said = {"type": "control_request", "request_id": "1", "request": {"subtype": "can_use_tool", "tool_name": tool}}
    said["request"]["input"] = given
    [found] = stream.line(json.dumps(said).encode()) or []
    return found


@pytest.mark.parametrize(
    ("mode", "tool", "given", "asks"),
    [
        ("auto-edit", "write_file", {"file_path": "a/b.py"}, False),
        ("auto-edit", "write_file", {"file_path": "../b.py"}, True),
        ("auto-edit", "write_file", {"file_path": "/etc/passwd"}, True),
        ("auto-edit", "edit", {"file_path": "away/b.py"}, True),
        ("auto-edit", "edit", {"file_path": ".git/config"}, True),
        ("auto-edit", "edit", {"file_path": "a/.qwen/settings.json"}, True),
        ("auto-edit", "edit", {}, True),
        ("auto-edit", "run_shell_command", {"command": "ls"}, True),
        ("default", "write_file", {"file_path": "a/b.py"}, True),
        ("plan", "exit_plan_mode", {"plan": "1. Look."}, True),
        ("yolo", "run_shell_command", {"command": "rm -r /"}, False),
    ],
)
def test_a_mode_allows_what_it_says(tmp_path, mode, tool, given, asks):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "away").symlink_to(tmp_path)
    found = ask_for(QwenStream(tree, mode), tool, **given)
    assert isinstance(found, Question if asks else Reply)
    if not asks:
        assert json.loads(found.data)["response"]["response"] == {"behavior": "allow", "updatedInput": given}


def test_an_old_version_is_refused():
    said = {"type": "system", "subtype": "init", "session_id": "s", "qwen_code_version": "0.15.10"}
    [ended] = QwenStream(Path("/tree"), "default").line(json.dumps(said).encode()) or []
    assert isinstance(ended, AgentFinished)
    assert ended.error is not None
    assert (ended.error.kind, "Qwen Code 0.15.10" in ended.error.message) == (ErrorKind.TOOL_MISSING, True)


def test_long_pauses_end_it():
    said = {"type": "system", "subtype": "retry", "data": {"reason": "retry", "attempt": 1, "delayMs": 60_000}}
    interrupt, ended = QwenStream(Path("/tree"), "default").line(json.dumps(said).encode()) or []
    assert isinstance(interrupt, Reply)
    assert isinstance(ended, AgentFinished)
    assert ended.error is not None
    assert ended.error.kind is ErrorKind.RATE_LIMITED


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("subtype", "message", "event", "request", "error", "usage", "data", "result", "qwen_code_version", "is_error")


@settings(max_examples=examples(100))
@given(
    kind=st.sampled_from(["system", "assistant", "user", "stream_event", "result"]),
    fields=st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)),
)
def test_a_line_of_any_shape_never_breaks_it(kind, fields):
    stream = QwenStream(Path("/tree"), "auto-edit")
    stream.line(json.dumps({"type": kind, **fields}).encode())
    assert stream.line(json.dumps({"type": "control_request", "request_id": 1, **fields}).encode())
