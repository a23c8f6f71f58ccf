"""Test the runner of GitHub Copilot CLI on recorded streams: work, failures, endings and options."""

import json
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.model.config.delegators import Launch, ModelServer
from understudy.model.delegation.events import File, Session, Text, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis import copilot
from understudy.runners.agent_clis.streams import copilot_stream
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import Outcome

SERVER = ModelServer(name="odd", kind="custom", base_url="http://127.0.0.1:9/v1", headers={"X-Team": "ü"})
PROGRAM = Path("/usr/bin/copilot")


def command(task, session="s"):
    return copilot.command_for(task, PROGRAM, session, Path("/scratch/usage.json"))


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(stage.task("edits"))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.path, event.change) for event in stage.of(File)] == [
        ("hello.txt", "added"),
        ("hello.txt", "modified"),
    ]
    titles = ["Creating file: hello.txt", "Viewing file: hello.txt", "Editing file: hello.txt"]
    assert [event.title for event in stage.of(ToolCall)] == titles
    assert [event.ok for event in stage.of(ToolResult)] == [True] * 3
    assert outcome.text == outcome.summary == "".join(event.text for event in stage.of(Text))
    assert outcome.text == "Done: it is as you asked."
    assert outcome.session_id == stage.of(Session)[0].session_id
    started, *said = (line for line in stage.heard.read_text().splitlines())
    assert said == ["-Do what is asked."]
    assert f"--session-id={outcome.session_id}" in json.loads(started)["argv"]


@pytest.mark.parametrize(("recording", "words"), [("failing_shell", "oops"), ("denied", "Permission denied")])
async def test_a_command_that_fails_or_is_denied_is_a_result_that_failed(stage, recording, words):
    assert isinstance(await stage.run(stage.task(recording)), Outcome)
    assert stage.of(ToolCall)[0].title.startswith("Run ")
    assert [(event.ok, words in event.output) for event in stage.of(ToolResult)] == [(False, True)]


def test_a_run_that_was_interrupted_has_its_events(stage):
    found = copilot_stream.CopilotStream(stage.tree, "s", Path("/none"))
    lines = (stage.recordings / "interrupted.jsonl").read_bytes().splitlines()[1:]
    assert [item.title for line in lines for item in found.line(line) if isinstance(item, ToolCall)] == [
        "Run tail -f /dev/null"
    ]
    assert found.ended(143, "") == []


def test_the_tokens_used_are_read_from_its_file(tmp_path):
    usage = {"inputTokens": 1200, "outputTokens": 50, "cacheReadTokens": 200, "reasoningTokens": 7}
    file = tmp_path / "usage.json"
    file.write_text(json.dumps({"modelMetrics": {"a": {"usage": usage}, "b": {"usage": {"inputTokens": 3}}}}))
    found = copilot_stream.CopilotStream(tmp_path, "s", file)
    found.line(b'{"type": "result", "exitCode": 0}')
    report, ended = found.ended(0, "")
    assert isinstance(report, UsageReport)
    assert (report.input_tokens, report.output_tokens, report.cache_read_tokens) == (1203, 50, 200)
    assert isinstance(ended, AgentFinished)
    for odd in ("", "[]", "{}", '{"modelMetrics": {"a": 5}}'):
        file.write_text(odd)
        assert len(found.ended(0, "")) == 1


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("Error: No authentication information found.\n\nTo log in: …", ErrorKind.AUTH_FAILED),
        ("error: unexpected argument '--no-such-thing' found\n\n  tip: …", ErrorKind.CONFIG_INVALID),
    ],
)
def test_what_it_says_before_it_starts_has_its_kind(stderr, kind):
    (ended,) = copilot_stream.CopilotStream(Path("/tree"), "s", Path("/none")).ended(1, stderr)
    assert ended.error.kind is kind
    assert "…" not in ended.error.message


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (None, ("http://127.0.0.1:9/v1", "openai", "completions")),
        ("responses", ("http://127.0.0.1:9/v1", "openai", "responses")),
        ("anthropic", ("http://127.0.0.1:9", "anthropic", "completions")),
    ],
)
def test_a_model_server_gets_its_variables_and_its_key_is_no_argument(stage, protocol, expected):
    server = ModelServer(
        name="odd", kind="custom", base_url=SERVER.base_url, headers=SERVER.headers, protocols=[protocol]
    )
    properties = {"contextWindow": 32000, "maxTokens": "4000", "model_reasoning_effort": "high"}
    task = stage.task("edits", model_server=server, key=lambda: "sk-secret-of-nobody", properties=properties)
    made = command(task)
    assert made.secrets == {"COPILOT_PROVIDER_API_KEY": "sk-secret-of-nobody"}
    assert "sk-secret" not in "".join(made.argv)
    variables = made.environment
    assert tuple(variables[f"COPILOT_PROVIDER_{name}"] for name in ("BASE_URL", "TYPE", "WIRE_API")) == expected
    assert (variables["COPILOT_OFFLINE"], variables["COPILOT_PROVIDER_HEADERS"]) == ("true", "X-Team: ü")
    assert variables["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] == "32000"
    assert variables["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] == "4000"
    assert {"--model=m", "--reasoning-effort=high"} <= {*made.argv}
    without = command(stage.task("edits"))
    assert not [name for name in without.environment if name.startswith("COPILOT_PROVIDER") or "OFFLINE" in name]


@pytest.mark.parametrize(
    ("launch", "returns", "arguments"),
    [
        (None, "tree", ["--allow-tool=write"]),
        (None, "text", ["--deny-tool=write", "--deny-tool=shell"]),
        (Launch(permission_mode="allow-all-tools"), "text", ["--allow-all-tools"]),
        (Launch(permission_mode="allow-all"), "tree", ["--allow-all"]),
        (Launch(yolo=True), "text", ["--allow-all"]),
    ],
)
def test_each_permission_mode_has_its_arguments(stage, launch, returns, arguments):
    argv = command(stage.task("edits", launch=launch, returns=returns)).argv
    assert [argument for argument in argv if argument.startswith(("--allow", "--deny"))] == arguments


def test_a_session_and_flags_reach_it(stage):
    argv = command(stage.task("edits", session_id="abc", launch=Launch(flags=["--agent=x"])), "abc").argv
    assert ("--resume=abc" in argv, argv[-1]) == (True, "--agent=x")
    assert not [argument for argument in argv if argument.startswith("--session-id")]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"launch": Launch(flags=["--trust-folder"])}, "--trust-folder"),
        ({"launch": Launch(flags=["--model=x"])}, "--model"),
        ({"launch": Launch(flags=["--yolo"])}, "--yolo"),
        ({"launch": Launch(yolo=True, permission_mode="write")}, "yolo"),
        ({"properties": {"model_reasoning_effort": "very"}}, "model_reasoning_effort"),
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


@pytest.mark.parametrize("name", ["COPILOT_ALLOW_ALL", "COPILOT_PROVIDER_BASE_URL", "COPILOT_MODEL"])
def test_variables_that_would_trust_the_folder_or_redirect_it_are_refused(stage, name):
    task = stage.task("edits", model_server=SERVER)
    task.environment[name] = "true"
    with pytest.raises(UnderstudyError, match=name):
        command(task)


@pytest.mark.parametrize("provided", [".github/hooks", ".mcp.json"])
def test_a_trusted_folder_with_files_that_it_would_run_is_refused(stage, tmp_path, provided):
    (tmp_path / "config.json").write_text(f"// managed\n{json.dumps({'trustedFolders': [str(tmp_path)]})}")
    task = stage.task("edits")
    task.environment["COPILOT_HOME"] = str(tmp_path)
    command(task)
    (stage.tree / provided).mkdir(parents=True)
    with pytest.raises(UnderstudyError, match=r"would run what the repository provides \(" + provided):
        command(task)
    (tmp_path / "config.json").write_text('{"trustedFolders": ["/elsewhere", 5]}')
    command(task)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = ("messageId", "deltaContent", "content", "toolCallId", "toolName", "arguments", "fileEdits", "result", "success")


@settings(max_examples=examples(100))
@given(
    kind=st.sampled_from([*copilot_stream.CopilotStream._EVENTS]) | JSON,
    data=JSON | st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5),
)
def test_a_line_of_any_shape_never_breaks_it(kind, data):
    stream = copilot_stream.CopilotStream(Path("/tree"), "s", Path("/none"))
    found = stream.line(json.dumps({"type": kind, "data": data}).encode())
    assert found is None or isinstance(found, list)
    assert isinstance(stream.ended(1, ""), list)
