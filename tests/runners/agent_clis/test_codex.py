"""Test the Codex runner on recorded streams: work, questions, failures and endings."""

import itertools
import json
import tomllib
from pathlib import Path

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.model.config.delegators import Launch, ModelServer
from understudy.model.delegation.events import File, Plan, Session, Text, Thinking, ToolCall, ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis import codex
from understudy.runners.agent_clis.streams import codex_stream
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished, QuestionWithdrawn
from understudy.runners.runner import McpServer, Outcome, Question, Task


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(stage.task("edits"))
    assert isinstance(outcome, Outcome), outcome
    assert [(event.path, event.change) for event in stage.of(File)] == [
        ("hello.txt", "added"),
        ("hello.txt", "modified"),
    ]
    assert [event.title for event in stage.of(ToolCall)] == ["Edit hello.txt"] * 2
    assert [event.ok for event in stage.of(ToolResult)] == [True] * 2
    assert outcome.text == outcome.summary == "".join(event.text for event in stage.of(Text))
    assert outcome.text == "Done: it is as you asked."
    assert outcome.session_id == stage.of(Session)[0].session_id
    usage = outcome.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (3600, 600, 150)
    assert (usage.reasoning_tokens, usage.turns, usage.tool_calls) == (21, 3, 2)
    _, hello, ready, thread, turn = stage.said_to_it()
    assert (hello["method"], ready["method"], thread["method"]) == ("initialize", "initialized", "thread/start")
    assert thread["params"]["sandbox"] == "read-only", "a thread that may write is trusted permanently"
    assert turn["params"]["input"][0]["text"] == "-Do what is asked.\n"
    policy = turn["params"]["sandboxPolicy"]
    assert (policy["type"], policy["excludeSlashTmp"], policy["networkAccess"]) == ("workspaceWrite", True, False)


async def test_a_command_that_fails_is_a_result_that_failed(stage):
    outcome = await stage.run(stage.task("failing_shell"))
    assert isinstance(outcome, Outcome), outcome
    assert [event.title for event in stage.of(ToolCall)] == ["Run echo oops >&2; exit 3"]
    assert [(event.ok, event.output) for event in stage.of(ToolResult)] == [(False, "oops\n")]


@pytest.mark.parametrize(
    ("recording", "kind", "decision"), [("allowed", "allow_once", "accept"), ("rejected", "reject_once", "decline")]
)
async def test_a_question_waits_for_its_answer(stage, recording, kind, decision, choosing):
    asked: list[Question] = []
    outcome = await stage.run(stage.task(recording, ask=choosing(kind, asked=asked)))
    assert isinstance(outcome, Outcome), outcome
    (question,) = asked
    assert (question.tool, question.kind) == ("shell", "execute")
    assert question.command == "python3 -c \"open('asked.txt', 'w').close()\""
    assert stage.said_to_it()[-1] == {"id": 0, "result": {"decision": decision}}
    assert [event.ok for event in stage.of(ToolResult)] == [kind == "allow_once"]


async def test_one_that_is_not_installed_or_lies_in_the_tree(stage):
    stage.program.rename(stage.tree / "codex")
    task = stage.task("edits")
    task = msgspec.structs.replace(task, environment={**task.environment, "PATH": f"{stage.tree}:/usr/bin:/bin"})
    failure = await stage.run(task)
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.TOOL_MISSING
    assert "npm install -g @openai/codex" in failure.hint


def settings_of(task: Task) -> dict[str, object]:
    argv = codex.command_for(task, Path("/usr/bin/codex"), Path("/scratch")).argv
    assert argv[:2] == ["/usr/bin/codex", "app-server"]
    chosen = [text for flag, text in itertools.pairwise(argv) if flag == "-c"]
    return {name: tomllib.loads(f"value = {value}")["value"] for name, _, value in (s.partition("=") for s in chosen)}


def test_a_model_server_gets_its_own_provider_and_its_key_is_no_argument(stage):
    server = ModelServer(name='odd "name"', kind="custom", base_url="http://127.0.0.1:9/v1", headers={"X-Team": "ü"})
    task = stage.task("edits", model_server=server, key=lambda: "sk-secret-of-nobody")
    command = codex.command_for(task, Path("/usr/bin/codex"), Path("/scratch"))
    assert "sk-secret" not in "".join(command.argv)
    assert "ü" not in "".join(command.argv), "a header may contain a secret"
    assert command.environment["UNDERSTUDY_CODEX_HEADER_0"] == "ü"
    assert command.secrets == {"UNDERSTUDY_CODEX_KEY": "sk-secret-of-nobody"}
    found = settings_of(task)
    assert found["model_provider"] == "understudy"
    assert found["model_providers.understudy"] == {
        "name": 'odd "name"',
        "base_url": "http://127.0.0.1:9/v1",
        "wire_api": "responses",
        "request_max_retries": 2,
        "stream_max_retries": 2,
        "env_http_headers": {"X-Team": "UNDERSTUDY_CODEX_HEADER_0"},
        "env_key": "UNDERSTUDY_CODEX_KEY",
    }
    without = settings_of(stage.task("edits"))
    assert "model_provider" not in without, "its own login is used"
    assert without["features.unbounded_connection_retries"] is False


def test_properties_and_tool_servers_reach_it(stage):
    servers = [McpServer(name="notes", argv=["/bin/notes", "--quiet", 'a "b"'])]
    found = settings_of(stage.task("edits", properties={"model_reasoning_effort": "high"}, mcp_servers=servers))
    assert found["model_reasoning_effort"] == "high"
    notes = found["mcp_servers.notes"]
    assert (notes["command"], notes["args"]) == ("/bin/notes", ["--quiet", 'a "b"'])


@pytest.mark.parametrize(
    ("launch", "returns", "approval", "sandbox"),
    [
        (None, "tree", "on-request", "workspaceWrite"),
        (None, "text", "never", "readOnly"),
        (Launch(permission_mode="untrusted"), "tree", "untrusted", "workspaceWrite"),
        (Launch(permission_mode="never"), "tree", "never", "workspaceWrite"),
        (Launch(permission_mode="read-only"), "tree", "never", "readOnly"),
        (Launch(permission_mode="danger-full-access"), "tree", "never", "dangerFullAccess"),
        (Launch(yolo=True), "tree", "never", "dangerFullAccess"),
    ],
)
def test_each_permission_mode_has_its_sandbox(stage, launch, returns, approval, sandbox):
    session = codex.session_for(stage.task("edits", launch=launch, returns=returns), stage.tree)
    assert (session.approval, session.sandbox["type"]) == (approval, sandbox)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"launch": Launch(flags=["--listen=tcp"])}, "--listen"),
        ({"launch": Launch(flags=["-c", 'model_provider="x"'])}, "model_provider"),
        ({"launch": Launch(flags=['-cprojects."/x".trust_level="trusted"'])}, "projects"),
        ({"launch": Launch(flags=["--config=sandbox_mode=x"])}, "sandbox_mode"),
        ({"launch": Launch(yolo=True, permission_mode="never")}, "yolo"),
    ],
)
async def test_what_cannot_apply_is_refused_before_anything_runs(stage, changes, says):
    failure = await stage.run(stage.task("edits", **changes))
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.CONFIG_INVALID
    assert says in failure.message
    assert failure.hint
    assert not stage.heard.exists()


def stream(tmp_path: Path) -> codex_stream.CodexStream:
    session = codex_stream.Session(tree=str(tmp_path), model=None, resumes=None, approval="never", sandbox={})
    return codex_stream.CodexStream(tmp_path, session)


def said(method: str, identifier: int | None = None, **params: object) -> bytes:
    more = {} if identifier is None else {"id": identifier}
    return json.dumps({"method": method, "params": params, **more}).encode()


def test_thoughts_and_plans_are_events(tmp_path):
    found = stream(tmp_path)
    assert found.line(said("item/reasoning/summaryTextDelta", delta="Hm.")) == [Thinking(text="Hm.")]
    steps = [{"step": "Look", "status": "completed"}, {"step": "Write", "status": "inProgress"}]
    assert found.line(said("turn/plan/updated", plan=steps)) == [
        Plan(entries=[{"content": "Look", "status": "completed"}, {"content": "Write", "status": "in_progress"}])
    ]


def test_an_edit_asks_with_its_files_and_another_program_can_answer(tmp_path):
    found = stream(tmp_path)
    change = {"path": str(tmp_path / "a.py"), "kind": {"type": "update", "move_path": None}, "diff": ""}
    found.line(
        said("item/started", item={"type": "fileChange", "id": "c1", "changes": [change], "status": "inProgress"})
    )
    (question,) = found.line(said("item/fileChange/requestApproval", 7, itemId="c1", reason="outside"))
    assert (question.kind, question.paths, question.title) == ("edit", ["a.py"], "Edit a.py")
    assert found.line(said("serverRequest/resolved", requestId=7)) == [QuestionWithdrawn(question_id="7")]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("/bin/bash -lc 'rm -r build'", "rm -r build"),
        ("./bash -lc 'ls'", "./bash -lc 'ls'"),
        ("/tree/bin/bash -lc ls", "/tree/bin/bash -lc ls"),
        ("bash -lc ls", "bash -lc ls"),
        ("/bin/bash -lc 'ls' 'more'", "/bin/bash -lc 'ls' 'more'"),
        ("python3 -c 'print()'", "python3 -c 'print()'"),
        ("/bin/bash -lc 'ls", "/bin/bash -lc 'ls"),
    ],
)
def test_a_question_shows_the_program_that_runs(tmp_path, line, shown):
    asked = said("item/commandExecution/requestApproval", 1, itemId="c", command=line)
    (question,) = stream(tmp_path).line(asked)
    assert (question.command, question.title) == (shown, f"Run {shown}")


def test_a_request_without_an_answer_is_refused_at_once(tmp_path):
    for method in ("item/tool/requestUserInput", "mcpServer/elicitation/request", "item/permissions/requestApproval"):
        (reply,) = stream(tmp_path).line(said(method, 9, itemId="x"))
        assert isinstance(reply, Reply)
        assert json.loads(reply.data)["error"]["code"] == -32601
    (reply,) = stream(tmp_path).line(b'{"method": "item/fileChange/requestApproval", "id": 3, "params": 5}')
    assert isinstance(reply, Reply)


def test_a_used_up_limit_names_the_time_when_it_ends(tmp_path):
    found = stream(tmp_path)
    limits = {"primary": {"usedPercent": 100, "resetsAt": 1767225600}, "secondary": {"usedPercent": 3, "resetsAt": 9}}
    found.line(said("account/rateLimits/updated", rateLimits=limits))
    error = {"message": "You have hit your usage limit.", "codexErrorInfo": "usageLimitExceeded"}
    (ended,) = found.line(said("turn/completed", turn={"id": "t", "status": "failed", "error": error}))
    assert isinstance(ended, AgentFinished)
    assert ended.error is not None
    assert (ended.error.kind, ended.error.retry_at) == (ErrorKind.QUOTA_EXHAUSTED, "2026-01-01T00:00:00Z")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("item", "turn", "tokenUsage", "plan", "delta", "itemId", "error", "rateLimits", "requestId")


@settings(max_examples=examples(200))
@given(
    method=st.sampled_from([*codex_stream.CodexStream._NOTIFICATIONS, "item/commandExecution/requestApproval"]),
    params=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)),
    identifier=st.none() | st.integers(0, 9) | st.text(max_size=3),
)
def test_a_line_of_any_shape_never_breaks_it(method, params, identifier):
    value = {"method": method, "params": params} | ({} if identifier is None else {"id": identifier})
    found = stream(Path("/tree")).line(json.dumps(value).encode())
    if identifier is not None:
        assert found, "a question must not wait forever"


async def test_a_pause_after_a_refusal_ends_as_the_refusal(stage):
    lines = (stage.recordings / "401.jsonl").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if "Reconnecting... 1/2" in line)
    stage.recordings = stage.folder / "codex"
    stage.recordings.mkdir()
    limited = lines[first].replace("401 Unauthorized: Incorrect API key provided.", "429 Too Many Requests")
    limited = limited.replace('"httpStatusCode": 401', '"httpStatusCode": 429')
    (stage.recordings / "429.jsonl").write_text("\n".join([*lines[:first], limited, ""]))
    limits = msgspec.structs.replace(stage.patient, idle_seconds=0.5)
    failure = await stage.run(stage.task("429", "hang", limits=limits))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.RATE_LIMITED, failure.message
    assert "429 Too Many Requests" in failure.message
    assert "Nothing followed for 0.5 s (`idle_seconds`)." in failure.message


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("The request exceeds the available context size, try increasing it", ErrorKind.CONTEXT_TOO_LONG),
        ("nope is not a valid model ID", ErrorKind.MODEL_NOT_FOUND),
        ("Something is wrong with the request.", ErrorKind.BAD_REQUEST),
    ],
)
def test_the_text_of_a_bad_request_says_what_is_wrong(text, kind):
    assert codex_stream.failure_of({"message": text, "codexErrorInfo": "badRequest"}).kind is kind
