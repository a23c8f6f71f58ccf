"""Test the opencode runner on recorded streams: work, failures and endings, and what it is started with."""

import json
import os
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.model.config.delegators import Delegator, Launch, ModelServer
from understudy.model.delegation.events import File, Plan, Session, Text, Thinking, ToolCall, ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis import opencode
from understudy.runners.agent_clis.streams import opencode_stream
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import McpServer, Outcome, Task

SERVER = ModelServer(
    name='odd "name"', kind="custom", base_url="http://127.0.0.1:9/v1", headers={"X-Team": "{env:HOME}"}
)


def served(stage, recording="edits", end="", **more) -> Task:
    return stage.task(recording, end, **({"model_server": SERVER} | more))


def started(task: Task, tmp_path: Path):
    """Return its arguments, its settings, and the whole command."""
    command = opencode.command_for(task, Path("/usr/bin/opencode"), tmp_path / "scratch")
    return command.argv, json.loads(command.environment["OPENCODE_CONFIG_CONTENT"]), command


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(served(stage))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.path, event.change) for event in stage.of(File)] == [
        ("hello.txt", "added"),
        ("hello.txt", "modified"),
    ]
    assert [event.title for event in stage.of(ToolCall)] == ["Write hello.txt", "Read hello.txt", "Edit hello.txt"]
    assert [event.ok for event in stage.of(ToolResult)] == [True] * 3
    assert outcome.text == outcome.summary == "Done: it is as you asked."
    assert [outcome.session_id] == [event.session_id for event in stage.of(Session)]
    usage = outcome.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (4800, 800, 200)
    assert (usage.reasoning_tokens, usage.turns, usage.tool_calls) == (28, 4, 3)
    assert outcome.cost_usd is None, "it reports 0 where it knows no price"
    assert stage.heard.read_text().endswith("\n-Do what is asked.\n"), "the prompt is its input, as it is"


async def test_a_command_that_fails_is_a_result_that_failed(stage):
    outcome = await stage.run(served(stage, "failing_shell"))
    assert isinstance(outcome, Outcome), outcome
    assert [event.title for event in stage.of(ToolCall)] == ["Run echo oops >&2; exit 3"]
    assert [(event.ok, event.output) for event in stage.of(ToolResult)] == [(False, "oops\n")]


async def test_a_price_that_it_knows_is_reported(stage):
    task = stage.task("priced", delegator=Delegator(name="x", tool="opencode", model="anthropic/claude-sonnet-4-5"))
    outcome = await stage.run(task)
    assert isinstance(outcome, Outcome), outcome
    assert (outcome.cost_usd, outcome.usage.input_tokens, outcome.usage.cache_write_tokens) == ("0.004185", 1300, 100)


async def test_what_is_rejected_failed_and_the_work_goes_on(stage):
    outcome = await stage.run(served(stage, "rejected"))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.ok, "rejected" in event.output) for event in stage.of(ToolResult)] == [(False, True)]
    assert stage.of(File) == []


async def test_settings_that_its_first_call_wrote_are_a_result(stage):
    settings_file = stage.tree / "opencode.json"
    recorded = (stage.recordings / "edits.jsonl").read_text().replace("hello.txt", "opencode.json")
    stage.recordings = stage.folder / "opencode"
    stage.recordings.mkdir()
    (stage.recordings / "writes.jsonl").write_text(recorded)
    stage.run_first('echo \'{"model": "x/y"}\' > opencode.json')  # it reports a call when that has ended
    outcome = await stage.run(served(stage, "writes"))
    assert isinstance(outcome, Outcome), outcome
    assert settings_file.read_text() == '{"model": "x/y"}\n'
    assert [event.path for event in stage.of(File)][:1] == ["opencode.json"]


async def test_thoughts_are_not_the_answer(stage):
    outcome = await stage.run(served(stage, "reasoning", returns="text"))
    assert isinstance(outcome, Outcome), outcome
    assert [event.text for event in stage.of(Thinking)] == ["Let me think."]
    assert outcome.text == "".join(event.text for event in stage.of(Text))


async def test_a_missing_login_is_read_from_its_log(stage):
    failure = await stage.run(served(stage, "no_login"))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.MODEL_NOT_FOUND
    assert "Model not found: anthropic/" in failure.message
    assert failure.hint


def test_a_model_server_becomes_the_only_provider_and_its_key_is_no_argument(stage, tmp_path):
    task = served(stage, key=lambda: "sk-secret-of-nobody", properties={"top_k": 5, "reasoning_effort": "low"})
    argv, found, command = started(task, tmp_path)
    assert "sk-secret" not in f"{argv} {command.environment}"
    assert command.secrets == {"UNDERSTUDY_OPENCODE_KEY": "sk-secret-of-nobody"}
    assert "--model=understudy/m" in argv
    assert found["enabled_providers"] == ["understudy"]
    assert found["small_model"] == "understudy/m"
    assert found["provider"]["understudy"] == {
        "npm": "@ai-sdk/openai-compatible",
        "name": 'odd "name"',
        "env": ["UNDERSTUDY_OPENCODE_KEY"],
        "options": {"baseURL": "http://127.0.0.1:9/v1", "headers": {"X-Team": "{env:HOME}"}},
        "models": {"m": {"name": "m", "tool_call": True, "options": {"top_k": 5, "reasoningEffort": "low"}}},
    }
    assert "{env:" not in command.environment["OPENCODE_CONFIG_CONTENT"], "opencode would replace it"
    assert command.environment["OPENCODE_AUTH_CONTENT"] == "{}", "the user's own login stays out of it"
    assert command.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"


def test_the_users_own_login_and_settings_are_used_for_a_model_of_a_provider(stage, tmp_path):
    task = stage.task("edits", delegator=Delegator(name="x", tool="opencode", model="anthropic/claude-x/y"))
    argv, found, command = started(task, tmp_path)
    assert "--model=anthropic/claude-x/y" in argv
    assert "provider" not in found
    assert not {"XDG_CONFIG_HOME", "OPENCODE_AUTH_CONTENT", "OPENCODE_DB"} & set(command.environment)


def test_settings_of_its_own_keep_those_of_other_programs(tmp_path):
    home = tmp_path / "home"
    for name in ("git", "opencode"):
        (home / ".config" / name).mkdir(parents=True)
        (home / ".config" / name / "config").write_text(name)
    opencode.own_settings(tmp_path / "own", {"HOME": str(home)})
    assert (tmp_path / "own/git/config").read_text() == "git"
    assert sorted(path.name for path in (tmp_path / "own/opencode").iterdir()) == [
        *("node_modules", "package-lock.json", "package.json"),
    ]


def test_instructions_tool_servers_and_sessions_reach_it(stage, tmp_path):
    (stage.tree / "CLAUDE.md").write_text("Be kind.")
    servers = [McpServer(name="notes", argv=["/bin/notes", 'a "b"'])]
    argv, found, _ = started(served(stage, mcp_servers=servers, session_id="ses_1"), tmp_path)
    assert found["mcp"]["notes"]["command"] == ["/bin/notes", 'a "b"']
    assert found["instructions"] == [f"{stage.tree}/CLAUDE.md"]
    assert "--session=ses_1" in argv


@pytest.mark.parametrize(
    ("launch", "returns", "agent", "edits", "auto"),
    [
        (None, "tree", "build", None, False),
        (None, "text", "understudy", False, False),
        (Launch(permission_mode="build"), "text", "build", None, False),
        (Launch(permission_mode="edit"), "tree", "understudy", True, False),
        (Launch(permission_mode="read-only"), "tree", "understudy", False, False),
        (Launch(permission_mode="auto"), "tree", "build", None, True),
        (Launch(yolo=True), "text", "build", None, True),
    ],
)
def test_each_permission_mode_has_its_rules(stage, launch, returns, agent, edits, auto):  # noqa: PLR0917
    argv, found, _ = started(served(stage, launch=launch, returns=returns), stage.folder)
    assert argv[argv.index("--agent") + 1] == agent
    assert ("--auto" in argv) is auto
    rules = found["agent"]["understudy"]["permission"] if edits is not None else None
    if rules is not None:
        assert (rules["*"], rules.get("edit") == "allow") == ("deny", edits)
        assert "bash" not in rules


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_server": None}, "hosted models"),
        ({"model_server": None, "delegator": Delegator(name="x", tool="opencode")}, "hosted models"),
        ({"delegator": Delegator(name="x", tool="opencode")}, "no model"),
        (
            {
                "model_server": None,
                "delegator": Delegator(name="x", tool="opencode", model="a/b", model_properties={"top_k": 1}),
            },
            "model_properties",
        ),
        ({"properties": {"messages": []}}, "modelProperties.messages"),
        ({"launch": Launch(flags=["-m", "x/y"])}, "-m"),
        ({"launch": Launch(flags=["--agent=x"])}, "--agent"),
        ({"launch": Launch(flags=["--auto"])}, "--auto"),
        ({"launch": Launch(flags=["--attach=http://x"])}, "--attach"),
        ({"launch": Launch(flags=["--variant", "high", "words"])}, "words"),
        ({"launch": Launch(flags=["--pure", "words"])}, "words"),
        ({"launch": Launch(yolo=True, permission_mode="edit")}, "yolo"),
        ({"env": {"OPENCODE_PERMISSION": "{}"}}, "OPENCODE_PERMISSION"),
        ({"env": {"OPENCODE_CONFIG": "/x"}}, "OPENCODE_CONFIG"),
    ],
)
async def test_what_cannot_apply_is_refused_before_anything_runs(stage, changes, says):
    failure = await stage.run(served(stage, **changes))
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.CONFIG_INVALID
    assert says in failure.message
    assert failure.hint
    assert not stage.heard.exists()


def test_flags_that_are_possible_reach_it(stage, tmp_path):
    flags = ["--variant", "high", "-f", "notes.md", "--file=x.png", "--pure"]
    argv, _, _ = started(served(stage, launch=Launch(flags=flags)), tmp_path)
    assert argv[-len(flags) :] == flags


@pytest.mark.parametrize(
    ("path", "text", "refused"),
    [
        (".opencode/plugin/x.ts", "", True),
        (".opencode/plugins/x.js", "", True),
        ("opencode.json", '{"plugin": ["./x.ts"]}', True),
        ("opencode.jsonc", '{"plugins": [{"package": "x"}]}', True),
        (".opencode/opencode.json", '{"\\u0070lugin": ["./x.ts"]}', True),
        ("opencode.json", '{"references": {"docs": {"repository": "x/y"}}}', True),
        ("opencode.json", '{"skills": {"urls": ["https://example.com"]}}', True),
        ("opencode.json/x", "", True),
        ("opencode.json", f'{{"model": "{"x" * (1 << 20)}"}}', True),
        ("opencode.json", '{"instructions": ["docs/reference.md", "plugin.md"]}', False),
        ("opencode.json", '{"model": "x/y", "mcp": {"x": {"type": "local", "command": ["x"]}}}', False),
        (".opencode/agent/plugin.md", "plugin", False),
        (".opencode", "plugin", False),
    ],
)
async def test_a_worktree_with_what_it_would_load_is_refused(stage, path, text, refused):
    (stage.tree / path).parent.mkdir(parents=True, exist_ok=True)
    (stage.tree / path).write_text(text)
    found = await stage.run(served(stage))
    assert isinstance(found, UnderstudyError if refused else Outcome), found
    if isinstance(found, UnderstudyError):
        assert (found.kind, found.hint is not None) == (ErrorKind.CONFIG_INVALID, True)
        assert not stage.heard.exists()


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/hostname"), os.mkfifo])
def test_a_configuration_file_that_cannot_be_checked_is_refused(tmp_path, make):
    make(tmp_path / "opencode.json")
    with pytest.raises(UnderstudyError, match=r"opencode\.json"):
        opencode.refuse_loaded(tmp_path)


def test_plans_patches_and_prices_are_reported(tmp_path):
    stream = opencode_stream.OpencodeStream(tmp_path)

    def part(kind: str, **values: object) -> list:
        return stream.line(json.dumps({"type": kind, "part": values}).encode()) or []

    todos = [{"content": "Look", "status": "completed", "priority": "high"}]
    state = {"status": "completed", "input": {"todos": todos}, "output": ""}
    assert part("tool_use", tool="todowrite", callID="1", state=state)[-1] == Plan(
        entries=[{"content": "Look", "status": "completed"}]
    )
    files = [
        {"filePath": f"{tmp_path}/a.py", "type": "move", "movePath": f"{tmp_path}/b.py"},
        {"filePath": "/etc/passwd", "type": "add"},
        {"filePath": f"{tmp_path}/c.py", "type": "delete"},
    ]
    state = {"status": "completed", "input": {"patchText": "…"}, "metadata": {"files": files}}
    found = part("tool_use", tool="apply_patch", callID="2", state=state)
    assert found[0].title == "Edit b.py, /etc/passwd, c.py"
    assert [(event.path, event.change) for event in found if isinstance(event, File)] == [
        ("b.py", "renamed"),
        ("c.py", "deleted"),
    ]
    tokens = {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    part("step_finish", reason="tool-calls", tokens=tokens, cost=0.1)
    assert part("step_finish", reason="length", tokens=tokens, cost=0.2)[0].cost_usd == "0.3"
    (ended,) = stream.ended(0, "")
    assert isinstance(ended, AgentFinished)
    assert ended.error is not None
    assert ended.error.kind is ErrorKind.OUTPUT_TRUNCATED


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
STATE = st.fixed_dictionaries({}, optional=dict.fromkeys(("status", "input", "metadata", "output", "title"), JSON))
PART = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("text", "messageID", "tokens", "cost", "reason", "callID"), JSON),
        "tool": st.sampled_from(("bash", "edit", "todowrite", "apply_patch")) | JSON,
        "state": STATE | JSON,
    },
)
ERROR = st.fixed_dictionaries({}, optional={"name": st.just("APIError") | JSON, "data": JSON})


@settings(max_examples=examples(100))
@given(
    kind=st.sampled_from(("step_start", "text", "reasoning", "tool_use", "step_finish", "error")) | JSON,
    part=PART | JSON,
    error=ERROR | JSON,
    session=JSON,
)
def test_a_line_of_any_shape_never_breaks_it(kind, part, error, session):
    stream = opencode_stream.OpencodeStream(Path("/tree"))
    value = {"type": kind, "part": part, "error": error, "sessionID": session, "timestamp": session}
    stream.line(json.dumps(value).encode())
    stream.ended(1, "")
