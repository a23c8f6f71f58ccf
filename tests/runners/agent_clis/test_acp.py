"""Test delegators with ``mode = "acp"``: on recorded conversations of real agents, and on one written with the SDK."""

import asyncio
import json
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.config.discovery import declarations
from understudy.model.config.delegators import Delegator, Launch
from understudy.model.delegation.events import (
    File,
    PermissionAnswered,
    Phase,
    Plan,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.acp import acp_stream
from understudy.runners.driver import attempt
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import McpServer, Message, Outcome, Question, Send, runner_for

AGENT = Path(__file__).with_name("acp_agent.py")


@pytest.fixture
def stage(stage_for):
    """Return a stage whose programs replay conversations over ACP, whatever their tool."""
    made = stage_for("gemini")
    made.recordings = made.recordings.with_name("acp")
    return made


def recorded(stage, recording, *, model="", launch=None, **more):
    """Return a task for the tool that the recording's name begins with."""
    tool = recording.partition("-")[0]
    program = stage.program.with_name(declarations.tools()[tool].acp_command[0])
    if not program.exists():
        shutil.copy(stage.program, program)
    return stage.task(
        recording, delegator=Delegator(name=tool, tool=tool, mode="acp", model=model, launch=launch), **more
    )


def scripted(stage, what, *, model="", prompt="-Do what is asked.\n", env=None, **more):
    """Return a task for the agent that is written with the SDK."""
    launch = {name: more.pop(name) for name in ("yolo", "permission_mode") if name in more}
    command = [sys.executable, str(AGENT), what]
    delegator = Delegator(
        name="mine", tool="generic", mode="acp", model=model, env=env, launch=Launch(command=command, **launch)
    )
    return stage.task("none", delegator=delegator, prompt=prompt, **more)


@pytest.mark.parametrize(
    ("recording", "change", "used"),
    [
        ("opencode-edit", "added", (1300, 51, 200, 7)),
        ("copilot-edit", "added", (2500, 101, 400, 14)),
        ("claude-edit", "added", (2700, 101, 400, 0)),
        ("gemini-edit", "added", (2500, 101, 0, 0)),
    ],
)
async def test_what_a_real_agent_does_becomes_events(stage, recording, change, used, choosing):
    asked: list[Question] = []
    outcome = await stage.run(recorded(stage, recording, ask=choosing("allow_once", asked=asked)))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.path, event.change) for event in stage.of(File)] == [("hello.txt", change)]
    assert [event.title for event in stage.of(ToolCall)] == ["Edit hello.txt"]
    assert [event.ok for event in stage.of(ToolResult)] == [True]
    assert [(one.kind, one.paths, one.command) for one in asked] == [("edit", ["hello.txt"], None)] * len(asked)
    assert outcome.text == "Done: I wrote hello.txt as asked."
    assert "".join(event.text for event in stage.of(Text)).endswith(outcome.text)
    assert outcome.session_id == stage.of(Session)[0].session_id
    usage = outcome.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.reasoning_tokens) == used
    assert (usage.turns, usage.tool_calls) == (1, 1)
    _, hello, session, prompt, *_ = stage.said_to_it()
    assert hello["params"]["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }
    assert session["params"] == {"cwd": str(stage.tree), "mcpServers": []}
    assert prompt["params"]["prompt"] == [{"type": "text", "text": "-Do what is asked.\n"}]


@pytest.mark.parametrize(
    "named", [["claude-agent-acp"], ["env", "CLAUDE=1", "claude-agent-acp"], ["env", "/x/claude-agent-acp@0.101.0"]]
)
async def test_a_known_agent_in_an_own_command_gets_its_variables(stage, named):
    program = stage.program.with_name(named[-1].rpartition("/")[2])
    shutil.copy(stage.program, program)
    command = [*named[:-1], str(program)]
    delegator = Delegator(name="mine", tool="generic", mode="acp", launch=Launch(command=command, yolo=True))
    task = stage.task("claude-edit", delegator=delegator)
    outcome = await stage.run(task)
    assert isinstance(outcome, Outcome), outcome
    environment = stage.said_to_it()[0]["env"]
    assert environment["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1", "it would end while a task is open"
    environment = {**task.environment, "ANTHROPIC_BASE_URL": "http://127.0.0.1:11434"}
    assert not attempt.knows_cost(msgspec.structs.replace(task, environment=environment))


@pytest.mark.parametrize(
    ("recording", "kind", "chosen"),
    [
        ("gemini-shell", "allow_once", "proceed_once"),
        ("gemini-shell", "reject_once", "cancel"),
        ("claude-shell", "allow_always", "allow-with-updates"),
        ("copilot-rejected", "reject_once", "reject_once"),
    ],
)
async def test_a_question_is_answered_by_the_kind_of_its_options(stage, recording, kind, chosen, choosing):
    asked: list[Question] = []
    outcome = await stage.run(recorded(stage, recording, ask=choosing(kind, asked=asked)))
    assert isinstance(outcome, Outcome), outcome
    (question,) = asked
    if recording.endswith("shell"):
        assert (question.kind, question.command) == ("execute", "printf 'hello from the shell\\n' > hello.txt")
        assert stage.of(ToolCall)[0].title == question.title == f"Run {question.command}"
    answer = next(said for said in stage.said_to_it() if "outcome" in said.get("result", {}))
    assert answer == {"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "selected", "optionId": chosen}}}


@pytest.mark.parametrize(
    ("recording", "kind", "words"),
    [
        ("opencode-401", ErrorKind.AUTH_FAILED, "Incorrect API key"),
        ("copilot-401", ErrorKind.AUTH_FAILED, "Authentication failed with provider"),
        ("gemini-401", ErrorKind.AUTH_FAILED, "API key not valid"),
        ("claude-401", ErrorKind.AUTH_FAILED, "Authentication required"),
        ("opencode-context", ErrorKind.CONTEXT_TOO_LONG, "too large to compact"),
        ("copilot-context", ErrorKind.CONTEXT_TOO_LONG, "maximum context length"),
        ("gemini-context", ErrorKind.CONTEXT_TOO_LONG, "exceeds the maximum number of tokens"),
        ("claude-context", ErrorKind.CONTEXT_TOO_LONG, "Prompt is too long"),
        ("codex-context", ErrorKind.CONTEXT_TOO_LONG, "maximum context length"),
    ],
)
async def test_every_failure_has_its_kind_and_a_hint(stage, recording, kind, words):
    failure = await stage.run(recorded(stage, recording))
    assert isinstance(failure, UnderstudyError), failure
    assert (failure.kind, words in failure.message) == (kind, True), failure.message
    assert failure.hint
    if recording == "copilot-401":
        assert [event.text[:5] for event in stage.of(Phase)] == ["Info:", "Info:", "Error"]
        assert stage.of(Text) == [], "what the agent says itself is not the answer"


async def test_a_loaded_session_is_not_repeated(stage):
    outcome = await stage.run(recorded(stage, "opencode-resumed", session_id="ses_1"))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == "".join(event.text for event in stage.of(Text)) == "Nothing to change."
    assert stage.of(ToolCall) == []
    assert outcome.session_id == "ses_1"
    assert outcome.cost_usd is None, "what the earlier run cost is not known"
    assert stage.said_to_it()[2]["method"] == "session/load"


async def test_an_unknown_session(stage):
    failure = await stage.run(recorded(stage, "gemini-unknown_session", session_id="lost"))
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.BAD_REQUEST
    assert failure.hint.startswith("Start it again without the earlier session.")


@pytest.mark.parametrize(("end", "kind"), [("half", "malformed_output"), ("no_result", "tool_no_result")])
async def test_endings_that_are_none(stage, end, kind):
    failure = await stage.run(recorded(stage, "codex-shell", end=end))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind == kind


async def test_any_agent_can_be_named_by_its_command(stage, choosing):
    servers = [McpServer(name="ours", argv=["/bin/true", "-x"])]
    task = scripted(
        stage, "works", model="small", permission_mode="plan", mcp_servers=servers, ask=choosing("allow_once")
    )
    outcome = await stage.run(task)
    assert isinstance(outcome, Outcome), outcome
    assert (stage.tree / "made.txt").read_text() == "made\n"
    assert [(event.path, event.change) for event in stage.of(File)] == [("made.txt", "added")]
    assert [event.text for event in stage.of(Thinking)] == ["I think."]
    assert [event.entries for event in stage.of(Plan)] == [[{"content": "Make it", "status": "in_progress"}]]
    assert [(event.ok, event.output) for event in stage.of(ToolResult)] == [(True, "done")]
    assert json.loads(outcome.text) == {
        "capabilities": {"fs": {"read_text_file": False, "write_text_file": False}, "terminal": False},
        "cwd": str(stage.tree),
        "servers": [["ours", "/bin/true", ["-x"]]],
        "model": ["the-model", "vendor/small"],
        "mode": "x#plan",
        "prompt": "-Do what is asked.\n",
        "answer": {"optionId": "Yes-id", "outcome": "selected"},
    }
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens, outcome.cost_usd) == (10, 2, "1.750000")


async def test_a_reply_continues_the_session_and_counts_only_itself(stage, choosing):
    task = scripted(stage, "no-reject", session_id="the-session", prompt="And now?", ask=choosing("reject_once"))
    outcome = await stage.run(task)
    assert isinstance(outcome, Outcome), outcome
    seen = json.loads(outcome.text)
    assert (seen["loaded"], seen["prompt"], seen["answer"]) == ("the-session", "And now?", {"outcome": "cancelled"})
    assert outcome.cost_usd == "0.250000"
    assert stage.of(File) == []


async def test_what_the_user_says_meanwhile_is_the_next_prompt(stage, choosing):
    taken: list[str] = []
    said = Message(message_id="m-1", text="Now the other file.")

    class Said:
        def connect(self, send: Send) -> None:
            self.sending = asyncio.ensure_future(send(said))

        def taken(self, message_id: str) -> None:
            taken.append(message_id)

    outcome = await stage.run(scripted(stage, "works", ask=choosing("allow_once"), messages=Said()))
    assert isinstance(outcome, Outcome), outcome
    assert json.loads(outcome.text)["prompt"] == said.text
    assert taken == ["m-1"]
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens, outcome.usage.turns) == (20, 4, 2)


async def test_yolo_allows_each_question_without_asking(stage):
    outcome = await stage.run(recorded(stage, "gemini-shell", launch=Launch(yolo=True)))
    assert isinstance(outcome, Outcome), outcome
    answer = next(said for said in stage.said_to_it() if "outcome" in said.get("result", {}))
    assert answer["result"]["outcome"]["optionId"] == "proceed_once", "Gemini CLI refuses to allow it for the session"
    assert stage.of(PermissionAnswered) == []


async def test_a_cancel_ends_the_turn_first(stage):
    work = asyncio.create_task(stage.run(scripted(stage, "sleeps")))
    while not stage.of(Text):
        assert not work.done(), work.result()
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert "".join(event.text for event in stage.of(Text)) == "I wait.Cancelled."


TOOL = declarations.tools()["opencode"].in_mode("acp")
READY = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
MODELS = {"id": "m", "name": "M", "category": "model", "type": "select", "currentValue": "v/big"}
OPENED = {
    "sessionId": "s",
    "modes": {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "x#plan", "name": "Plan it"}],
    },
    "configOptions": [
        {**MODELS, "options": [{"value": "v/big", "name": "Big"}, {"value": "v/small", "name": "Small"}]}
    ],
    "models": {"currentModelId": "old", "availableModels": [{"modelId": "older", "name": "Older"}]},
}


def answered(session, *results):
    """Return the items after each request was answered in turn; an `int` is the code of an error."""
    stream = acp_stream.AcpStream(Path("/tree"), TOOL, session)
    request, found = json.loads(stream.message("x")), []
    for result in results:
        body = {"error": {"code": result, "message": "No."}} if isinstance(result, int) else {"result": result}
        found = stream.line(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}).encode())
        request = next((json.loads(item.data) for item in found if isinstance(item, Reply)), None)
    return found


@pytest.mark.parametrize(
    ("session", "results", "kind", "words"),
    [
        ({}, [READY, OPENED, {"stopReason": "max_tokens"}], ErrorKind.OUTPUT_TRUNCATED, "output limit"),
        ({}, [READY, OPENED, {"stopReason": "max_turn_requests"}], ErrorKind.BUDGET_EXHAUSTED, "limit of requests"),
        ({}, [READY, OPENED, {"stopReason": "refusal"}], ErrorKind.CONTENT_REFUSED, "refused"),
        ({}, [READY, OPENED, {"stopReason": "cancelled"}], ErrorKind.TOOL_CRASHED, "interrupted"),
        ({}, [READY, OPENED, {"stopReason": "bored"}], ErrorKind.MALFORMED_OUTPUT, "bored"),
        ({}, [READY, OPENED, {"stopReason": "end_turn", "usage": None}], ErrorKind.EMPTY_OUTPUT, "without an answer"),
        ({}, [READY, -32000], ErrorKind.AUTH_FAILED, "No."),
        ({}, [READY, OPENED, 429], ErrorKind.RATE_LIMITED, "No."),
        ({}, [READY, OPENED, -32602], ErrorKind.BAD_REQUEST, "No."),
        ({}, [-32601], ErrorKind.TOOL_MISSING, "No."),
        ({}, [{"protocolVersion": 7}], ErrorKind.TOOL_MISSING, "version 7"),
        ({"resumes": "s"}, [{"protocolVersion": 1}], ErrorKind.BAD_REQUEST, "earlier session"),
        ({"model": "huge"}, [READY, OPENED], ErrorKind.MODEL_NOT_FOUND, "no model 'huge'"),
        ({"model": "huge"}, [READY, {"sessionId": "s"}], ErrorKind.CONFIG_INVALID, "no model 'huge'"),
        ({"mode": "free"}, [READY, OPENED], ErrorKind.CONFIG_INVALID, "no mode 'free'"),
    ],
)
def test_what_an_agent_does_not_do_is_named(session, results, kind, words):
    *_, finished = answered(acp_stream.Session(**session), *results)
    assert (finished.error.kind, words in finished.error.message) == (kind, True), finished.error
    assert finished.error.hint
    if kind is ErrorKind.MODEL_NOT_FOUND:
        assert "v/big, v/small" in finished.error.hint


@pytest.mark.parametrize(
    ("session", "method", "params"),
    [
        ({"model": "SMALL"}, "session/set_config_option", {"configId": "m", "value": "v/small"}),
        ({"model": "older"}, "session/set_model", {"modelId": "older"}),
        ({"mode": "plan"}, "session/set_mode", {"modeId": "x#plan"}),
        ({"model": "v/big", "mode": "Ask"}, "session/prompt", {"prompt": [{"type": "text", "text": "x"}]}),
        ({"model": "old"}, "session/prompt", {"prompt": [{"type": "text", "text": "x"}]}),
    ],
)
def test_a_model_and_a_mode_are_chosen_where_the_agent_offers_them(session, method, params):
    found = answered(acp_stream.Session(**session), READY, OPENED)
    request = json.loads(found[-1].data)
    assert (request["method"], request["params"]) == (method, {"sessionId": "s", **params})


def test_a_turn_without_an_answer_is_success_only_if_the_agent_reports_no_usage():
    (finished,) = answered(acp_stream.Session(), READY, OPENED, {"stopReason": "end_turn"})
    assert finished.error is None


async def test_a_program_that_does_not_speak_the_protocol(stage):
    command = ["sh", "-c", "echo 'error: unknown option --acp' >&2; exit 2"]
    delegator = Delegator(name="mine", tool="generic", mode="acp", launch=Launch(command=command))
    failure = await stage.run(stage.task("none", delegator=delegator))
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.TOOL_MISSING
    assert "does not speak" in failure.message


@pytest.mark.parametrize("missing", ["acp", "pydantic"])
async def test_without_the_extra_the_error_names_it(stage, monkeypatch, missing):
    for name in [name for name in sys.modules if name.startswith("understudy.runners.acp.acp_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    task = recorded(stage, "opencode-edit")
    with pytest.raises(UnderstudyError) as found:
        await runner_for(task.delegator, None).run(task, print)
    assert found.value.kind is ErrorKind.TOOL_MISSING
    assert "uv tool install --force ." in found.value.hint


async def test_an_agent_that_is_not_installed(stage):
    task = stage.task("none", delegator=Delegator(name="c", tool="claude", mode="acp"))
    failure = await stage.run(task)
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.TOOL_MISSING
    assert "`claude-agent-acp`" in failure.message
    assert "npm install -g @agentclientprotocol/claude-agent-acp" in failure.hint


LINES = [
    json.loads(line)
    for path in sorted((AGENT.parents[1] / "recordings/acp").glob("*.jsonl"))
    for line in path.read_text().splitlines()[1:]
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["end_turn", "USD", 5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw):
    """Return a recorded message in which one member, at any depth, is another value or missing."""
    message = json.loads(json.dumps(draw(st.sampled_from(LINES))))
    place = message
    while True:
        members = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not members:
            return message
        member = draw(st.sampled_from(members))
        inner = place[member]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            place = inner
            continue
        if draw(st.booleans()):
            del place[member]
        else:
            place[member] = draw(VALUES)
        return message


@given(messages=st.lists(damaged() | VALUES, max_size=12))
@settings(max_examples=examples(100), deadline=None)
def test_no_line_breaks_the_parser_and_every_request_is_answered(messages):
    stream = acp_stream.AcpStream(Path("/tree"), TOOL, acp_stream.Session(model="m", mode="plan"))
    stream.message("x")
    for message in messages:
        found = stream.line(json.dumps(message).encode())
        is_request = isinstance(message, dict) and message.get("jsonrpc") == "2.0" and {"id", "method"} <= set(message)
        if is_request:
            assert any(isinstance(item, Reply | Question) for item in found or ())
        if any(isinstance(item, AgentFinished) for item in found or ()):
            break
    stream.interrupt()


@given(line=st.binary(max_size=60))
@settings(max_examples=examples(100), deadline=None)
def test_no_bytes_break_the_parser(line):
    acp_stream.AcpStream(Path("/tree"), TOOL, acp_stream.Session()).line(line)
