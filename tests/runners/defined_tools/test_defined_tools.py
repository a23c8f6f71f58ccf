"""Run tools that files define: recorded streams of four dialects, and a program for delivery, options and failures."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.config.discovery import declarations
from understudy.config.editing import new_files
from understudy.config.parsing import file_schema
from understudy.config.validation.tool_rules import check_tool
from understudy.model.config.delegators import AppliesTo, Delegator, Launch, Limits, Recipe, Scope
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.events import File, Plan, Session, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.model.errors import UnderstudyError
from understudy.runners.defined_tools.defined_tool import parser_of
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import Outcome, Task, runner_for

RUNNERS = Path(__file__).parents[1]
AGENTS = (RUNNERS.parents[1] / "docs" / "agents.md").read_text(encoding="utf-8")
EXAMPLES = {
    name: text
    for text, name in re.findall(r"```toml\n(# ~/.config/understudy/tools/([a-z-]+).toml\n.*?)```", AGENTS, re.DOTALL)
}
AGENT = """
import json, os, sys
print(json.dumps({"type": "ran", "argv": sys.argv[1:], "input": sys.stdin.buffer.read().decode("utf-8", "replace"),
                  "noise": os.environ.get("NO_NOISE")}), flush=True)
for line in json.loads(os.environ.get("AGENT_LINES", "[]")):
    print(json.dumps(line), flush=True)
sys.stderr.write(os.environ.get("AGENT_STDERR", ""))
sys.exit(int(os.environ.get("AGENT_EXIT", "0")))
"""
"""Prints how it was started, then what it is told to print."""


def defined(text: str, name: str = "mine") -> ToolDefinition:
    """Return the definition in a file, which must have no problems."""
    tool = file_schema.from_file({"name": name, **tomllib.loads(text)}, ToolDefinition)
    assert list(check_tool(tool)) == []
    return tool


class Stage:
    """A worktree, and a program that is the tool."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "the-tree"
        self.tree.mkdir()
        (folder / "agent.py").write_text(AGENT)
        self.agent = [sys.executable, str(folder / "agent.py")]
        self.events: list[Any] = []

    def command(self, *arguments: str) -> str:
        """Return the line with the command of the program."""
        return f"command = {json.dumps([*self.agent, *arguments])}\n"

    async def run(self, tool: ToolDefinition, env=None, returns="tree", model="", launch=None, **more):
        """Run to the end; return the outcome or the error."""
        task = Task(
            **{
                "delegation_id": f"test-{os.getpid()}-{time.monotonic_ns()}",
                "recipe": Recipe(
                    name="implement", title="x", returns=returns, applies_to=AppliesTo(on=[]), scope=Scope.BUILTIN
                ),
                "prompt": "-Do what is asked.\n",
                "prompt_file": self.folder / "prompt.md",
                "worktree": self.tree,
                "delegator": Delegator(name="d", tool=tool.name, model=model, launch=launch),
                "environment": {"PATH": "/usr/bin:/bin", **(env or {})},
                "limits": Limits(total_seconds=60, first_event_seconds=60, idle_seconds=60, after_result_seconds=60),
            }
            | more
        )
        self.events = []
        try:
            return await runner_for(task.delegator, None, tool).run(task, self.events.append)
        except UnderstudyError as error:
            return error

    async def replay(self, tool: ToolDefinition, recording: str, **more):
        """Run the tool with the output that was recorded."""
        replayed = {"REPLAY": str(RUNNERS / "recordings" / f"{recording}.jsonl"), "REPLAY_END": ""}
        heard = {"REPLAY_HEARD": str(self.folder / "heard.jsonl")}
        command = [sys.executable, str(RUNNERS / "replay.py"), "{options}"]
        return await self.run(_with(tool, command=command), {**replayed, **heard}, **more)

    async def lines(self, text: str, *said: Any, code: int = 0, stderr: str = "", **more):
        """Run a tool that prints these lines and exits with this code."""
        env = {"AGENT_LINES": json.dumps(said), "AGENT_EXIT": str(code), "AGENT_STDERR": stderr}
        return await self.run(defined(self.command("{options}") + text), env, **more)

    def of(self, kind: type) -> list[Any]:
        """Return the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def started_with(self) -> dict[str, Any]:
        """Return how the program was started, from the text that it printed."""
        return json.loads("".join(event.text for event in self.of(Text)).splitlines()[0])


def _with(tool: ToolDefinition, **changes: Any) -> ToolDefinition:
    import msgspec

    return msgspec.structs.replace(tool, **changes)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def preset(dialect: str) -> ToolDefinition:
    return defined(f'title = "Mine"\ncommand = ["x", "{{options}}"]\ndialect = "{dialect}"\n')


# -- recorded streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "recording", "session", "words"),
    [
        ("claude", "claude/edits", "5e936f9c-90ab-49a7-963e-36e51efb87bb", "asked"),
        ("opencode", "opencode/edits", "ses_", "asked"),
        ("codex", "defined/codex-edits", "01a1fba6-4ccb-7af3-a543-f8cbe159020c", "Done: I wrote hello.txt"),
        ("pi", "defined/pi-edits", "01a1fba6-6edc-7774-9a80-92fb91429659", "Done: I wrote hello.txt"),
        ("gemini", "defined/gemini-edits", "eeb78f0c-e95b-43a6-b1f3-bb1b2626eec5", "Done: I wrote hello.txt"),
    ],
)
async def test_a_recorded_run_becomes_events(stage, dialect, recording, session, words):
    tool = defined(EXAMPLES["gemini-headless"]) if dialect == "gemini" else preset(dialect)
    outcome = await stage.replay(tool, recording)
    assert isinstance(outcome, Outcome), outcome
    assert str(outcome.session_id).startswith(session)
    assert words in "".join(event.text for event in stage.of(Text))
    assert stage.of(ToolCall)
    assert {event.call_id for event in stage.of(ToolResult)} <= {event.call_id for event in stage.of(ToolCall)}
    assert all(event.ok for event in stage.of(ToolResult))
    assert outcome.usage.input_tokens > 0
    assert outcome.usage.output_tokens > 0
    assert not outcome.estimated


@pytest.mark.parametrize("host", ["https://api.anthropic.com", "http://127.0.0.1:11434"])
async def test_the_cost_in_its_lines_counts_only_with_the_server_of_their_vendor(stage, host):
    tool = _with(preset("claude"), env={"ANTHROPIC_BASE_URL": host})
    outcome = await stage.replay(tool, "claude/edits")
    assert isinstance(outcome, Outcome), outcome
    assert (outcome.cost_usd is not None) == ("anthropic" in host)


@pytest.mark.parametrize(
    ("dialect", "recording"),
    [
        ("claude", "claude/401"),
        ("opencode", "opencode/401"),
        ("codex", "defined/codex-401"),
        ("pi", "defined/pi-401"),
        ("gemini", "defined/gemini-401"),
    ],
)
async def test_a_recorded_failure_has_its_kind_and_the_name_of_the_tool(stage, dialect, recording):
    tool = defined(EXAMPLES["gemini-headless"]) if dialect == "gemini" else preset(dialect)
    error = await stage.replay(tool, recording)
    assert (error.kind, bool(error.hint)) == ("auth_failed", True)
    assert error.message.startswith(tool.title), error.message
    assert "Claude Code" not in f"{error.message} {error.hint}"
    assert "claude" not in error.hint


async def test_a_question_that_cannot_be_answered_ends_the_attempt(stage):
    error = await stage.replay(preset("claude"), "claude/allowed")
    assert (error.kind, "Mine asks for permission" in error.message) == ("permission_denied", True)


CURSOR_SAID = (
    {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"},
    {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "Reading."}]}},
    {"type": "tool_call", "subtype": "started", "call_id": "c-1", "tool_call": {"readToolCall": {}}},
    {"type": "tool_call", "subtype": "completed", "call_id": "c-1", "tool_call": {"readToolCall": {}}},
    {"type": "result", "subtype": "success", "is_error": False, "result": "All done.", "session_id": "s-1"},
)
GOOSE_SAID = (
    {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "no"}]}},
    {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "All done."}]}},
    {"type": "complete", "total_tokens": 12},
)


@pytest.mark.parametrize("like", new_files.ready_made())
async def test_a_ready_made_definition_is_valid_and_reads_what_its_tool_documents(stage, like):
    tool = defined(new_files.tool_template(f"my-{like}", like))
    assert tool.command[0] in declarations.tools()[like].binaries
    said = {"cursor": CURSOR_SAID, "goose": GOOSE_SAID}.get(like, ())
    printed = {"AGENT_LINES": json.dumps(said)}
    ours = _with(tool, command=[*stage.agent, *tool.command[1:]])
    outcome = await stage.run(ours, printed, model="big", returns="text")
    assert isinstance(outcome, Outcome), outcome
    text = "".join(event.text for event in stage.of(Text))
    if not said:
        assert '"--model", "big"' in text
        return
    assert (text, outcome.text) == ("Reading." if like == "cursor" else "All done.", "All done.")
    assert outcome.session_id == ("s-1" if like == "cursor" else None)
    assert len(stage.of(ToolResult)) == len(stage.of(ToolCall)) == (1 if like == "cursor" else 0)


# -- the command -----------------------------------------------------------------------------------------------


OPTIONS = """
title = "Mine"
env = { NO_NOISE = "1" }
options = { model = ["--model={model}"], yolo = ["--yes"], resume = ["--resume", "{sessionId}"] }
permission_modes = [{ name = "read", arguments = ["--only", "read"], description = "Reads." }]
dialect = "json"
events = [{ event = "text", when = { type = "ran" }, text = "argv[*]", whole = false },
          { event = "session", when = { type = "s" }, session_id = "id" }]
"""


@pytest.mark.parametrize(
    ("more", "arguments"),
    [
        ({}, []),
        ({"model": "m"}, ["--model=m"]),
        ({"launch": Launch(yolo=True)}, ["--yes"]),
        ({"launch": Launch(permission_mode="read")}, ["--only", "read"]),
        ({"session_id": "s-1"}, ["--resume", "s-1"]),
        ({"launch": Launch(flags=["{model}", "{options}", "--x"])}, ["{model}", "{options}", "--x"]),
        (
            {"model": "{sessionId}", "session_id": "s", "launch": Launch(yolo=True)},
            ["--model={sessionId}", "--yes", "--resume", "s"],
        ),
    ],
)
async def test_each_option_has_its_arguments(stage, more, arguments):
    tool = defined(stage.command("a", "{options}", "z") + OPTIONS)
    assert isinstance(await stage.run(tool, **more), Outcome)
    assert "".join(event.text for event in stage.of(Text)) == "".join(["a", *arguments, "z"])


async def test_an_argument_without_a_value_takes_no_option_with_it(stage):
    tool = defined(stage.command("{options}", "{sessionId}", "--of", "{model}", "z") + OPTIONS)
    assert isinstance(await stage.run(tool, launch=Launch(yolo=True)), Outcome)
    assert "".join(event.text for event in stage.of(Text)) == "--yesz"


async def test_contradicting_options_are_refused(stage):
    launch = Launch(yolo=True, permission_mode="read")
    error = await stage.run(defined(stage.command("{options}") + OPTIONS), launch=launch)
    assert (error.kind, "`launch.yolo`" in error.message) == ("config_invalid", True)


@pytest.mark.parametrize(
    ("arguments", "delivered"),
    [
        (["{options}"], lambda ran, prompt, _: ran["input"] == prompt),
        (["--", "{prompt}"], lambda ran, prompt, _: ran["argv"][-1] == prompt and not ran["input"]),
        (["-f={promptFile}"], lambda ran, _, tree: ran["argv"][-1].startswith(f"-f={tree}") and not ran["input"]),
    ],
)
async def test_the_prompt_arrives(stage, arguments, delivered):
    prompt = "-{prompt} {options}\n"
    tool = defined(stage.command(*arguments) + "title = 'Mine'\nenv = { NO_NOISE = 'x' }\n")
    assert isinstance(await stage.run(tool, prompt=prompt), Outcome)
    ran = stage.started_with()
    assert delivered(ran, prompt, stage.tree)
    assert ran["noise"] == "x"


async def test_a_large_prompt_arrives_exactly(stage):
    prompt = "-" + "prompt é\n" * 30_000
    (stage.folder / "agent.py").write_text("import sys; sys.stdout.write(str(len(sys.stdin.buffer.read())))")
    outcome = await stage.run(defined(stage.command() + "title = 'Mine'\n"), prompt=prompt, returns="text")
    assert outcome.text == str(len(prompt.encode()))


# -- events and endings ----------------------------------------------------------------------------------------

EVENTS = """
title = "Mine"
dialect = "json"
[[events]]
event = "thinking"
when = { type = "think" }
text = "t"
[[events]]
event = "text"
when = { type = "say" }
text = "parts[*].text"
whole = true
[[events]]
event = "plan"
when = { type = "plan" }
contents = "todo[*].what"
statuses = "todo[*].done"
[[events]]
event = "file"
when = { type = "edit" }
path = "paths[*]"
change = "added"
[[events]]
event = "tool_call"
when = { type = "tool", state = ["new", 1] }
call_id = "id"
name = "tool.name"
title = "tool.title"
input = "tool"
[[events]]
event = "tool_result"
when = { type = "tool", state = "done" }
call_id = "id"
output = "out[*]"
failed = { "tool.ok" = false }
[[events]]
event = "usage"
when = { type = "used" }
input_tokens = "in"
output_tokens = "out"
cost_usd = "usd"
"""
RESULT = """
[[events]]
event = "result"
when = { type = "end", ok = true }
text = "answer"
[[events]]
event = "failure"
when = { type = "end", ok = false }
message = "why"
status = "http"
retry_at = "until"
"""


SESSION = """
[[events]]
event = "session"
when = { type = "start" }
session_id = "id"
"""


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("s-1", ["s-1"]),
        (12, ["12"]),
        ("--yolo", []),
        ("-c", []),
        ("a b", []),
        ("a\0b", []),
        ("a\n--yolo", []),
        ("a" * 257, []),
        (["s-1"], []),
        ({"id": 1}, []),
        ("", []),
        (None, []),
    ],
)
async def test_only_a_plain_session_id_is_kept(stage, said, kept):
    await stage.lines(EVENTS + SESSION, {"type": "start", "id": said}, {"type": "say", "parts": [{"text": "a"}]})
    assert [event.session_id for event in stage.of(Session)] == kept


@pytest.mark.parametrize("until", [True, -1, 0, 10**400, 1e300, "soon", None, [1800000000]])
async def test_a_time_that_cannot_be_one_is_left_out(stage, until):
    error = await stage.lines(EVENTS + RESULT, {"type": "end", "ok": False, "why": "slow", "http": 429, "until": until})
    assert (error.kind, error.retry_at) == ("rate_limited", None)


async def test_rules_find_every_kind_of_event(stage):
    outcome = await stage.lines(
        EVENTS,
        {"type": "think", "t": "hm"},
        {"type": "say", "parts": [{"text": "a"}, {}, {"text": "b"}, {"text": 3}]},
        {"type": "plan", "todo": [{"what": "x", "done": True}, {"what": "y", "done": False}]},
        {"type": "edit", "paths": [str(stage.tree / "n.py"), "sub/../m.py", "/etc/passwd", 3]},
        {"type": "tool", "state": 1, "id": 7, "tool": {"name": "bash", "title": "Run\nit"}},
        {"type": "tool", "state": True, "id": 8, "tool": {"name": "not this"}},
        {"type": "tool", "state": "done", "id": 7, "out": ["1", {"a": 2}], "tool": {"ok": False}},
        {"type": "used", "in": 10, "out": 2, "usd": 0.25},
        {"type": "used", "in": 5, "out": "many", "usd": "1e-3"},
        {"type": "say", "parts": [{"text": "the end"}]},
        "a text",
        {"other": 1},
        returns="text",
    )
    assert [event.text for event in stage.of(Thinking)] == ["hm"]
    assert [event.entries for event in stage.of(Plan)] == [
        [{"content": "x", "status": "completed"}, {"content": "y", "status": "pending"}]
    ]
    assert [(event.path, event.change) for event in stage.of(File)] == [("n.py", "added"), ("m.py", "added")]
    assert [(event.call_id, event.name, event.title) for event in stage.of(ToolCall)] == [("7", "bash", "Run")]
    assert [(event.call_id, event.ok, event.output) for event in stage.of(ToolResult)] == [("7", False, '1\n{"a":2}')]
    assert [(event.input_tokens, event.output_tokens, event.turns, event.cost_usd) for event in stage.of(UsageReport)][
        -1
    ] == (15, 2, 2, "0.251")
    assert (outcome.text, outcome.usage.tool_calls) == ("the end", 1)
    assert not stage.of(Session)


@pytest.mark.parametrize(
    ("text", "said", "code", "kind"),
    [
        (EVENTS, [{"type": "say", "parts": [{"text": "a"}]}], 0, None),
        (EVENTS, [{"type": "say", "parts": [{"text": "a"}]}], 3, "tool_crashed"),
        (EVENTS + RESULT, [{"type": "say", "parts": [{"text": "a"}]}], 0, "tool_no_result"),
        (EVENTS + RESULT, [{"type": "end", "ok": True}], 0, None),
        (EVENTS + RESULT, [{"type": "end", "ok": True}], 3, "tool_crashed"),
        (EVENTS + RESULT, [{"type": "end", "ok": False, "why": "a", "http": 429}], 0, "rate_limited"),
        (EVENTS + RESULT, [{"type": "end", "ok": False}], 0, "tool_crashed"),
        ('completion = "exit"\n' + EVENTS + RESULT, [{"type": "end", "ok": True}], 3, "tool_crashed"),
        (
            'completion = "exit"\n' + EVENTS + RESULT,
            [{"type": "end", "ok": False, "why": "401"}, {"type": "end", "ok": True}],
            0,
            None,
        ),
        (
            'completion = "exit"\n' + EVENTS + RESULT,
            [{"type": "end", "ok": True}, {"type": "end", "ok": False, "why": "Overloaded"}],
            0,
            "overloaded",
        ),
    ],
)
async def test_an_attempt_ends_as_the_completion_rule_says(stage, text, said, code, kind):
    found = await stage.lines(text, *said, code=code)
    assert getattr(found, "kind", None) == kind, found


FAILURES = """
[[failures]]
kind = "permission_denied"
when = { code = "denied" }
contains = ["folder"]
hint = "Allow the folder."
[[failures]]
kind = "quota_exhausted"
when = { code = ["no_credits", 7] }
[[failures]]
kind = "model_not_found"
exit_codes = [4]
[[failures]]
kind = "auth_failed"
exit_codes = [5]
contains = ["Not Logged In", "key"]
"""


@pytest.mark.parametrize(
    ("said", "code", "stderr", "kind"),
    [
        ({"type": "end", "ok": False, "code": "no_credits", "until": 2e9}, 1, "", "quota_exhausted"),
        ({"type": "end", "ok": False, "code": 7}, 1, "", "quota_exhausted"),
        ({"type": "end", "ok": False, "code": "denied", "why": "The Folder is closed"}, 1, "", "permission_denied"),
        ({"type": "end", "ok": False, "code": "denied", "why": "x"}, 1, "", "tool_crashed"),
        ({"type": "x"}, 4, "", "model_not_found"),
        ({"type": "x"}, 5, "you are not logged in", "auth_failed"),
        ({"type": "x"}, 5, "something else", "tool_crashed"),
        ({"type": "say", "parts": [{"text": "not logged in: key"}]}, 5, "", "tool_crashed"),
    ],
)
async def test_failures_have_the_kind_of_the_first_rule_that_matches(stage, said, code, stderr, kind):
    error = await stage.lines(EVENTS + RESULT + FAILURES, said, code=code, stderr=stderr)
    assert error.kind == kind, error
    assert error.hint
    if kind == "permission_denied":
        assert error.hint == "Allow the folder."
    if said.get("until"):
        assert error.retry_at == "2033-05-18T03:33:20Z"


async def test_plain_text_fails_with_the_kind_of_its_rule(stage):
    text = 'title = "Mine"\nfailures = [{ kind = "model_not_found", exit_codes = [4] }]\n'
    error = await stage.lines(text, code=4)
    assert (error.kind, "exited with code 4" in error.message) == ("model_not_found", True)


# -- any line ----------------------------------------------------------------------------------------------------

names = st.sampled_from(
    [
        *(
            "type",
            "ok",
            "t",
            "parts",
            "text",
            "todo",
            "what",
            "done",
            "paths",
            "id",
            "tool",
            "name",
            "out",
            "in",
            "usd",
        ),
        *("state", "why", "http", "until", "item", "message", "usage", "session_id", "part", "stopReason", "role"),
    ]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["think", "say", "plan", "edit", "tool", "used", "end", "new", "result", "error", "assistant"])
    | st.sampled_from(["item.completed", "turn.failed", "agent_message", "message_end", "text", "system", "1e999999"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=15,
)


@pytest.mark.parametrize("dialect", ["json", "exit", "claude", "codex", "opencode", "pi"])
@settings(max_examples=examples(100), deadline=None)
@given(said=st.lists(values, max_size=5), code=st.integers(0, 255), raw=st.binary(max_size=20))
def test_no_line_breaks_a_parser(dialect, said, code, raw):
    text = 'command = ["x"]\n' + ('completion = "exit"\n' if dialect == "exit" else "") + EVENTS + RESULT
    tool = defined(text) if dialect in {"json", "exit"} else preset(dialect)
    parser = parser_of(tool, Path("/tree"))
    found: list[Any] = []
    for line in [raw, *(json.dumps(one).encode() for one in said)]:
        try:
            found += parser.line(line) or []
        except UnderstudyError as error:
            assert error.kind == "context_too_long"  # noqa: PT017 - that error ends the attempt
            return
    found += parser.ended(code, "stderr")
    if code:
        assert all(item.error is not None for item in parser.ended(code, "") if isinstance(item, AgentFinished))


async def test_half_a_surrogate_pair_does_not_lose_an_event(stage):
    outcome = await stage.lines(
        EVENTS + RESULT, {"type": "say", "parts": [{"text": "cut \ud83d"}]}, {"type": "end", "ok": True}
    )
    assert outcome.text == "cut \ufffd"
