"""Test the Claude Code runner on recorded streams: work, questions, failures and endings."""

import asyncio
import json
import os
import time
from pathlib import Path

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from understudy.config.discovery import declarations
from understudy.engine.running.preparation import resolve_environment
from understudy.model.config.delegators import Delegator, EnvReference, Launch, Limits, ModelServer, Price
from understudy.model.delegation.events import (
    Event,
    File,
    Note,
    Permission,
    PermissionAnswered,
    Phase,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UsageReport,
)
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis import claude
from understudy.runners.agent_clis.claude import Runner
from understudy.runners.agent_clis.streams import claude_stream
from understudy.runners.driver import attempt
from understudy.runners.driver.driver import MAX_COMMAND_CHARACTERS, PermissionRelay
from understudy.runners.driver.source import AgentFinished, Heartbeat
from understudy.runners.runner import McpServer, Outcome, Question, Task, runner_for

RECORDINGS = Path(__file__).parents[1] / "recordings/claude"


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(stage.task("edits", session_id="s-1"))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.path, event.change) for event in stage.of(File)] == [
        ("hello.txt", "added"),
        ("hello.txt", "modified"),
    ]
    assert [event.title for event in stage.of(ToolCall)] == ["Write hello.txt", "Read hello.txt", "Edit hello.txt"]
    assert [event.ok for event in stage.of(ToolResult)] == [True] * 3
    assert outcome.text == outcome.summary == "Done: it is as you asked."
    assert outcome.session_id == stage.of(Session)[0].session_id
    usage = outcome.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (5200, 800, 400)
    assert (usage.output_tokens, usage.turns, usage.tool_calls) == (200, 4, 3)
    assert outcome.cost_usd == "0.01674"
    assert stage.of(Note) == []
    counts = [event.output_tokens for event in stage.of(UsageReport)]
    assert counts == sorted(counts)
    started, prompt = stage.said_to_it()
    assert "--resume=s-1" in started["argv"]
    assert prompt["message"]["content"][0]["text"] == "-Do what is asked.\n"


async def test_thinking_and_text_come_once_and_in_pieces(stage):
    outcome = await stage.run(stage.task("reasoning", returns="text"))
    assert isinstance(outcome, Outcome), outcome
    assert "".join(event.text for event in stage.of(Thinking)) == "Let me think."
    assert (
        "".join(event.text for event in stage.of(Text))
        == outcome.text
        == "Hello from the scripted model: ünïcode 🎉 included."
    )


@pytest.mark.parametrize(
    ("recording", "kind", "behavior"), [("allowed", "allow_once", "allow"), ("rejected", "reject_once", "deny")]
)
async def test_a_question_waits_for_its_answer(stage, recording, kind, behavior, choosing):
    limits = structs.replace(stage.patient, idle_seconds=2)
    # The user may think for longer than the program may be idle.
    outcome = await stage.run(stage.task(recording, ask=choosing(kind, "Because.", 2.2), limits=limits))
    assert isinstance(outcome, Outcome), outcome
    answer = stage.said_to_it()[2]["response"]
    assert answer["subtype"] == "success"
    assert answer["response"]["behavior"] == behavior
    if behavior == "allow":
        assert answer["response"]["updatedInput"]["command"].startswith("python3 -c")
    else:
        assert answer["response"]["message"] == "Because."


async def test_a_question_that_no_one_answers_can_end_the_attempt(stage):
    async def ask(_question):
        raise UnderstudyError(ErrorKind.PERMISSION_DENIED, "No one answered.", hint="Answer it.")

    failure = await stage.run(stage.task("allowed", ask=ask))
    assert isinstance(failure, UnderstudyError), failure
    assert (failure.kind, failure.hint) == (ErrorKind.PERMISSION_DENIED, "Answer it.")


async def test_a_question_is_put_at_once(stage):
    asked = []

    async def ask(question):
        asked.append(time.monotonic())
        return question.options[0], None

    def note(event):
        if isinstance(event, ToolCall):
            asked.append(time.monotonic())

    task = stage.task("allowed", ask=ask)
    await Runner().run(task, note)
    assert asked[1] - asked[0] < 10  # on a busy machine; on an idle one, within 200 ms


async def test_nobody_to_ask_is_a_rejection_that_is_told(stage):
    outcome = await stage.run(stage.task("rejected"))
    assert isinstance(outcome, Outcome), outcome
    [asked], [answered] = stage.of(Permission), stage.of(PermissionAnswered)
    assert asked.title.startswith("Run python3 -c")
    assert "Make asked.txt" in asked.detail
    assert "requires approval" in asked.detail
    assert [option.kind for option in asked.options] == ["allow_once", "allow_always", "reject_once"]
    assert (answered.request_id, answered.option, answered.by) == (asked.request_id, "reject_once", "policy")
    assert stage.said_to_it()[2]["response"]["response"]["behavior"] == "deny"


async def test_a_fault_on_the_way_to_a_person_rejects(stage):
    async def ask(question):
        raise RuntimeError("no journal")

    outcome = await stage.run(stage.task("rejected", ask=ask))
    assert isinstance(outcome, Outcome), outcome
    assert stage.said_to_it()[2]["response"]["response"]["behavior"] == "deny"
    assert any("rejected" in event.text for event in stage.of(Note))


async def test_always_is_for_this_run_only(stage, choosing):
    await stage.run(stage.task("allowed", ask=choosing("allow_always")))
    rules = stage.said_to_it()[2]["response"]["response"]["updatedPermissions"]
    assert [rule["destination"] for rule in rules] == ["session"]


async def test_a_cancel_interrupts_before_it_ends(stage, choosing):
    task = stage.task("interrupted", ask=choosing("allow_once"))
    work = asyncio.create_task(stage.run(task))
    deadline = time.monotonic() + 60
    while len(stage.heard.read_text().splitlines() if stage.heard.exists() else []) < 3:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    work.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await work
    assert {"subtype": "interrupt"} in [said.get("request") for said in stage.said_to_it()]
    assert stage.of(UsageReport)[-1].cost_usd == "0.004185"


@pytest.mark.parametrize(
    ("recording", "kind", "words"),
    [
        ("no_login", "auth_failed", ""),
        ("413", "context_too_long", "too large"),
        ("429", "rate_limited", "rate limit"),
        ("credit", "quota_exhausted", "Credit balance"),
        ("max_usd", "budget_exhausted", "USD"),
        ("unknown_option", "tool_missing", "--no-such-option"),
        ("root", "permission_denied", "root"),
        ("interrupted", "tool_crashed", "interrupted"),
    ],
)
async def test_every_bad_end_of_it_has_its_kind(stage, recording, kind, words):
    limits = Limits(total_seconds=30, first_event_seconds=20, idle_seconds=20, max_usd="0.001")
    if recording == "interrupted":  # from outside: its result says so
        plain = stage.folder / "claude/interrupted.jsonl"
        plain.parent.mkdir()
        kept = [
            line
            for line in (stage.recordings / "interrupted.jsonl").read_text().splitlines()
            if '"control_' not in line
        ]
        plain.write_text("\n".join(kept))
        task = stage.task("interrupted", limits=msgspec.structs.replace(limits, max_usd=None))
        task.environment["REPLAY"] = str(plain)
    else:
        limits = limits if recording == "max_usd" else msgspec.structs.replace(limits, max_usd=None)
        task = stage.task(recording, limits=limits)
    error = await stage.run(task)
    assert isinstance(error, UnderstudyError), error
    assert error.kind == kind, error.message
    assert words in error.message
    assert error.hint
    if recording == "429":
        assert any("retrying" in event.text for event in stage.of(Phase))
    # An error message in place of the model's text is not an answer.
    assert "API Error" not in "".join(event.text for event in stage.of(Text))


async def test_turns_are_bounded(stage, choosing):
    limits = Limits(max_turns=3, total_seconds=30, first_event_seconds=20, idle_seconds=20)
    error = await stage.run(stage.task("max_turns", limits=limits, ask=choosing("allow_always")))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.BUDGET_EXHAUSTED
    assert "--max-turns=3" in stage.said_to_it()[0]["argv"]


def after_the_first_result(stage, *left_out):
    """Record the same work without the lines of the subtypes ``left_out``."""
    lines = (RECORDINGS / "background.jsonl").read_text().splitlines()
    stage.recordings = stage.folder / "changed/claude"
    stage.recordings.mkdir(parents=True)
    kept = [line for line in lines if json.loads(line).get("subtype") not in left_out]
    (stage.recordings / "background.jsonl").write_text("\n".join(kept) + "\n")


@pytest.mark.parametrize("is_announced", [True, False])
async def test_work_after_a_first_result_is_shown_and_counted(stage, is_announced):
    if not is_announced:
        after_the_first_result(stage, "background_tasks_changed", "task_notification")
    outcome = await stage.run(stage.task("background"))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == outcome.summary == "All done."
    assert "".join(event.text for event in stage.of(Text)) == "I continue when it is done.All done."
    assert [event.name for event in stage.of(ToolCall)] == ["Bash", "Write"]
    assert [event.path for event in stage.of(File)] == ["after.md"]
    assert (outcome.usage.turns, outcome.usage.input_tokens, outcome.usage.output_tokens) == (4, 4 * 1300, 200)
    assert outcome.cost_usd == "0.01674"
    assert any(event.text == "Waiting for a background task" for event in stage.of(Phase)) == is_announced


async def test_a_first_result_does_not_end_a_run_with_an_open_background_task(stage):
    lines = (RECORDINGS / "background.jsonl").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if json.loads(line).get("type") == "result")
    stage.recordings = stage.folder / "cut/claude"
    stage.recordings.mkdir(parents=True)
    (stage.recordings / "background.jsonl").write_text("\n".join(lines[: first + 1]) + "\n")
    limits = structs.replace(stage.patient, idle_seconds=2, after_result_seconds=0.1)
    failure = await stage.run(stage.task("background", "hang", limits=limits))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.STALLED, "it was waited for as long as it may be idle"


@pytest.mark.parametrize("limits", [Limits(max_turns=3), Limits(max_tokens=4000), Limits(max_usd="0.01")])
@pytest.mark.parametrize("is_announced", [True, False])
async def test_limits_bound_work_after_a_first_result(stage, limits, is_announced):
    if not is_announced:
        after_the_first_result(stage, "background_tasks_changed", "task_notification")
    limits = structs.replace(
        stage.patient, max_turns=limits.max_turns, max_tokens=limits.max_tokens, max_usd=limits.max_usd
    )
    failure = await stage.run(stage.task("background", limits=limits))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.BUDGET_EXHAUSTED


async def test_background_tasks_are_switched_off(stage):
    await stage.run(stage.task("edits"))
    assert stage.said_to_it()[0]["env"]["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"
    acp = declarations.capabilities_of(Delegator(name="x", tool="claude", mode="acp"), None)
    assert acp.environment["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"


PRICES = {"": Price(input="1", output="10")}


@pytest.mark.parametrize(
    ("url", "more", "cost", "source"),
    [
        ("https://api.anthropic.com", {}, "0.01674", "reported"),
        ("https://api.deepseek.com/anthropic", {}, None, "unknown"),
        ("http://127.0.0.1:9/v1", {"locality": "local"}, "0", "local"),
        ("http://127.0.0.1:9/v1", {"locality": "local", "prices": PRICES}, "0.0072", "configured"),
        ("https://api.anthropic.com.example", {"prices": PRICES}, "0.0072", "configured"),
    ],
)
async def test_its_own_cost_counts_only_with_its_vendors_server(stage, url, more, cost, source):
    server = ModelServer(name="s", kind="custom", base_url=url, protocols=["anthropic"], **more)
    limits = structs.replace(stage.patient, max_usd="0.02")
    outcome = await stage.run(stage.task("edits", model_server=server, limits=limits))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.cost_usd == cost
    assert stage.of(UsageReport)[-1].cost_source == source
    assert ("--max-budget-usd=0.02" in stage.said_to_it()[0]["argv"]) == (source == "reported")
    assert any("could not be enforced" in event.text for event in stage.of(Note)) == (cost is None)


async def test_a_free_model_is_not_ended_for_what_the_vendors_would_cost(stage):
    server = ModelServer(
        name="s", kind="custom", base_url="http://127.0.0.1:9", protocols=["anthropic"], locality="local"
    )
    limits = structs.replace(stage.patient, max_usd="0.001")
    outcome = await stage.run(stage.task("edits", model_server=server, limits=limits))
    assert isinstance(outcome, Outcome), outcome


async def test_a_variable_that_leads_elsewhere_makes_the_cost_unknown(stage):
    task = stage.task("edits")
    environment = {**task.environment, "ANTHROPIC_BASE_URL": "https://api.deepseek.com/anthropic"}
    task = msgspec.structs.replace(task, environment=environment)
    outcome = await stage.run(task)
    assert isinstance(outcome, Outcome), outcome
    assert outcome.cost_usd is None
    over_acp = msgspec.structs.replace(task, delegator=structs.replace(task.delegator, mode="acp"))
    assert not attempt.knows_cost(over_acp)


@pytest.mark.parametrize("variable", [None, "CLAUDE_CONFIG_DIR"])
def test_user_settings_that_lead_elsewhere_make_the_cost_unknown(stage, own_home, variable):
    folder = own_home / (".claude" if variable is None else "elsewhere")
    folder.mkdir()
    task = stage.task("edits")
    task = msgspec.structs.replace(
        task, environment={**task.environment, **({variable: str(folder)} if variable else {})}
    )
    settings = folder / "settings.json"
    for text, known in (
        ('{"env": {"ANTHROPIC_BASE_URL": "https://gateway.example/v1"}}', False),
        ('{"env": {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}}', True),
        ('{"env": {"OTHER": "https://gateway.example"}, "model": 1}', True),
        ("{", True),
    ):
        settings.write_text(text)
        assert attempt.knows_cost(task) == known


async def test_hanging_after_the_result_is_a_success_with_a_note(stage):
    limits = structs.replace(stage.patient, after_result_seconds=0.5)
    outcome = await stage.run(stage.task("edits", "hang", limits=limits))
    assert isinstance(outcome, Outcome), outcome
    assert any("not exited" in event.text for event in stage.of(Note))


async def test_only_what_is_named_reaches_it(stage, monkeypatch):
    for name in ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "MY_KEY"):
        monkeypatch.setenv(name, f"secret-{name}")
    task = stage.task("reasoning")
    values, secrets = resolve_environment({"ANTHROPIC_API_KEY": EnvReference(from_env="MY_KEY")})
    await stage.run(msgspec.structs.replace(task, environment={**task.environment, **values}, secrets=secrets))
    env = stage.said_to_it()[0]["env"]
    assert env["ANTHROPIC_API_KEY"] == "secret-MY_KEY"
    assert not {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "ANTHROPIC_BASE_URL", "MY_KEY"} & set(env)
    assert env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == env["DISABLE_AUTOUPDATER"] == "1"
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "2"
    argv = stage.said_to_it()[0]["argv"]
    assert argv[argv.index("--setting-sources") + 1] == "user"
    assert "--strict-mcp-config" in argv


async def test_a_model_server_gets_its_own_key_and_nothing_of_the_persons(stage):
    server = ModelServer(
        name="s", kind="custom", base_url="http://127.0.0.1:9/x/v1/", protocols=["anthropic"], headers={"X-A": "b"}
    )
    await stage.run(stage.task("reasoning", model_server=server, key=lambda: "sk-here"))
    started = stage.said_to_it()[0]
    assert started["env"]["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9/x"
    assert started["env"]["ANTHROPIC_API_KEY"] == "sk-here"
    assert started["env"]["ANTHROPIC_CUSTOM_HEADERS"] == "X-A: b"
    argv = started["argv"]
    assert argv[argv.index("--setting-sources") + 1] == ""
    assert "sk-here" not in " ".join(argv)


def refused(task: Task) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        claude.command_for(task, Path("/bin/claude"))
    assert caught.value.hint
    return caught.value


def test_what_contradicts_itself_is_refused_before_anything_runs(stage, monkeypatch):
    for flags in (
        ["--output-format", "text"],
        ["--setting-sources=user,project"],
        ["--dangerously-skip-permissions"],
        ["--model=x"],
    ):
        error = refused(stage.task("edits", launch=Launch(flags=flags)))
        assert error.kind is ErrorKind.CONFIG_INVALID
        assert flags[0].split("=")[0] in error.message
    assert (
        refused(stage.task("edits", launch=Launch(yolo=True, permission_mode="plan"))).kind is ErrorKind.CONFIG_INVALID
    )
    speaking = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:9/v1", protocols=["anthropic"])
    for more in ({"env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}}, {"launch": Launch(flags=["--settings", "{}"])}):
        assert refused(stage.task("edits", model_server=speaking, **more)).kind is ErrorKind.CONFIG_INVALID
    for root, launch in ((0, Launch(yolo=True)), (0, Launch(permission_mode="bypassPermissions"))):
        monkeypatch.setattr(os, "geteuid", lambda root=root: root)
        assert refused(stage.task("edits", launch=launch)).kind is ErrorKind.PERMISSION_DENIED
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "bypassPermissions" in claude.command_for(stage.task("edits", launch=Launch(yolo=True)), Path("/c")).argv


def test_a_text_recipe_may_not_edit_without_asking(stage):
    for returns, mode in (("tree", "acceptEdits"), ("file", "acceptEdits"), ("text", "default")):
        argv = claude.command_for(stage.task("edits", returns=returns), Path("/c")).argv
        assert argv[argv.index("--permission-mode") + 1] == mode


async def test_one_that_is_not_installed_or_lies_in_the_tree(stage):
    planted = stage.tree / "claude"
    planted.write_text("#!/bin/sh\ntouch ran\n")
    planted.chmod(0o755)
    task = stage.task("edits")
    task.environment["PATH"] = f"{stage.tree}:/nonexistent"
    error = await stage.run(task)
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.TOOL_MISSING
    assert not (stage.tree / "ran").exists()


def test_what_is_a_sign_of_work_and_what_is_noise():
    lines = claude_stream.ClaudeStream(Path("/tree"))
    delta = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}}
    assert lines.line(json.dumps({"type": "stream_event", "event": delta}).encode()) == [Heartbeat()]
    assert lines.line(b'{"type": "stream_event", "event": {"type": "ping"}}') == []
    assert lines.line(b'{"type": "of another version"}') == []
    assert lines.line(b"Warning: something") is None


def test_an_old_version_is_refused():
    lines = claude_stream.ClaudeStream(Path("/tree"))
    said = {"type": "system", "subtype": "init", "session_id": "s", "claude_code_version": "1.0.44"}
    [ending] = lines.line(json.dumps(said).encode()) or []
    assert isinstance(ending, AgentFinished)
    assert ending.error is not None
    assert ending.error.kind is ErrorKind.TOOL_MISSING
    assert "1.0.44" in ending.error.message


def test_large_inputs_are_cut_and_paths_outside_are_no_files_of_the_tree():
    lines = claude_stream.ClaudeStream(Path("/tree"))
    for path in ("/elsewhere/x", "../x", "/tree/../x"):
        use = {"type": "tool_use", "id": path, "name": "Write", "input": {"file_path": path, "content": "x" * 100_000}}
        message = {"type": "assistant", "message": {"id": "m", "content": [use]}}
        [call] = lines.line(json.dumps(message).encode()) or []
        assert len(json.dumps(call.input)) < 10_000
        result = {"type": "tool_result", "tool_use_id": path, "content": [{"type": "text", "text": "ok"}]}
        found = lines.line(json.dumps({"type": "user", "message": {"content": [result]}}).encode()) or []
        assert [type(event) for event in found] == [ToolResult]


def question(name: str, blocked: str | None = None, **given: object) -> Question:
    request = {"subtype": "can_use_tool", "tool_name": name, "input": given, "decision_reason": "requires approval"}
    request["blocked_path"] = blocked
    said = {"type": "control_request", "request_id": "1", "request": request}
    [found] = claude_stream.ClaudeStream(Path("/tree")).line(json.dumps(said).encode()) or []
    assert isinstance(found, Question)
    return found


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/tree/notes/shell.md", "It accesses notes/shell.md.\n"),
        ("/dev/null", "It accesses /dev/null, outside the folders that it may use.\n"),
    ],
)
def test_only_a_path_outside_the_worktree_is_called_outside(path, shown):
    assert question("Bash", blocked=path, command="date > x").detail.startswith(shown)


def test_what_a_question_is_about_cannot_be_pushed_out_of_sight():
    hidden = "echo ok\n" + "#" * 50_000 + "\nrm -rf ~"
    asked = question("Bash", description="Run the tests.\n" * 5000, command=hidden)
    assert asked.title == "Run echo ok …"
    assert "\nrm -rf ~\n" in asked.detail
    assert asked.detail.index("rm -rf ~") < asked.detail.index("The agent's description: Run the tests.")
    assert "46017 characters are not shown" in asked.detail
    assert "requires approval" in asked.detail
    many = {f"padding{number}": "x" * 5000 for number in range(10)}
    assert "file_path: /etc/passwd\n" in question("Write", **many, file_path="/etc/passwd").detail
    assert len(question("Write", **many).detail) < claude_stream.LONGEST_QUESTION + 100
    assert "The agent's description: [1]" in question("Bash", command="ls", description=[1]).detail


@pytest.mark.parametrize(
    ("tool", "given", "kind", "command", "paths"),
    [
        ("Bash", {"command": "make\nrm -rf ~"}, "execute", "make\nrm -rf ~", None),
        ("Bash", {"command": ["make"]}, "execute", None, None),
        ("Write", {"file_path": "/tree/a/../b.py", "content": "x"}, "edit", None, ["b.py"]),
        ("Edit", {"file_path": "/etc/passwd"}, "edit", None, ["/etc/passwd"]),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, "edit", None, ["n.ipynb"]),
        ("Read", {"file_path": "/tree/x"}, "read", None, ["x"]),
        ("Read", {}, "read", None, None),
        ("Glob", {"pattern": "*.py"}, "read", None, ["."]),
        ("WebFetch", {"url": "https://example.com", "path": "/x"}, "fetch", None, None),
        ("mcp__files__read", {"path": "/x", "command": "y"}, "other", None, None),
    ],
)
def test_a_question_says_what_the_tool_would_do(tool, given, kind, command, paths):
    asked = question(tool, **given)
    assert (asked.tool, asked.kind, asked.command, asked.paths) == (tool, kind, command, paths)


async def test_a_question_is_shown_whole_or_not_at_all(stage):
    relay = PermissionRelay(
        None,  # type: ignore[arg-type]
        ask=None,
        emit=stage.events.append,
        answered=lambda: None,
        stop=stage.events.append,
        clean=lambda text: text.replace("\x1b", ""),
    )
    shown = relay._shown(question("Bash", command="\x1bmake " + "x" * MAX_COMMAND_CHARACTERS))
    assert (shown.command, shown.kind) == (None, "execute")
    shown = relay._shown(question("Bash", command="\x1bmake"))
    assert (shown.command, shown.altered) == ("make", True), "a rule must not decide on another text"
    assert not relay._shown(question("Bash", command="make")).altered
    assert relay._shown(question("Read", file_path="/tree/" + "x" * 5000)).paths is None


def test_tool_servers_of_a_task_are_passed_on(stage):
    task = stage.task("edits", mcp_servers=[McpServer(name="ask", argv=["understudy", "mcp"])])
    argv = claude.command_for(task, Path("/c")).argv
    [given] = [argument.partition("=")[2] for argument in argv if argument.startswith("--mcp-config=")]
    assert json.loads(given) == {"mcpServers": {"ask": {"command": "understudy", "args": ["mcp"]}}}
    assert not [a for a in claude.command_for(stage.task("edits"), Path("/c")).argv if a.startswith("--mcp-config")]


def test_it_is_registered():
    runner = runner_for(Delegator(name="c", tool="claude"), None)
    assert isinstance(runner, Runner)
    assert runner.capabilities.protocols == ("anthropic",)


ALL_LINES = [line for path in sorted(RECORDINGS.glob("*.jsonl")) for line in path.read_text().splitlines()[1:]]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_line_of_any_shape_never_breaks_it(data):
    value = json.loads(data.draw(st.sampled_from(ALL_LINES)))
    strange = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=5),
        st.builds(list),
        st.builds(dict),
        st.builds(lambda: [1]),
    )

    def spoil(thing, depth):
        if isinstance(thing, dict) and thing and depth:
            name = data.draw(st.sampled_from(sorted(thing)))
            if name != "type" or depth < 4:
                thing[name] = spoil(thing[name], depth - 1)
            return thing
        if isinstance(thing, list) and thing and depth:
            thing[0] = spoil(thing[0], depth - 1)
            return thing
        return data.draw(strange)

    lines = claude_stream.ClaudeStream(Path("/tree"))
    for _ in range(2):
        for said in lines.line(json.dumps(spoil(value, 5)).encode()) or []:
            if isinstance(said, Event):
                assert msgspec.json.decode(msgspec.json.encode(said), type=type(said)) == said
            if isinstance(said, AgentFinished):
                assert isinstance(said.text, str | None)
