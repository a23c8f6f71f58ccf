"""Test the runner of Gemini CLI on recorded streams: work, failures, endings, options and its home folder."""

import json
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.model.config.delegators import Launch, ModelServer
from understudy.model.delegation.events import File, Plan, Session, Text, ToolCall, ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis import gemini
from understudy.runners.agent_clis.streams import gemini_stream
from understudy.runners.runner import McpServer, Outcome

SERVER = ModelServer(name="odd", kind="custom", base_url="http://127.0.0.1:9/v1beta", headers={"X-Team": "shop"})
PROGRAM = Path("/usr/bin/gemini")


@pytest.fixture
def user(tmp_path, monkeypatch):
    """Return the user's folder of Gemini CLI."""
    monkeypatch.setenv("HOME", str(tmp_path / "user-home"))
    folder = tmp_path / "user-home/.gemini"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def made(user, tmp_path):
    """Return what makes the command for a task, and returns it with its settings."""
    folders = iter(range(100))

    def make(task):
        scratch = tmp_path / f"scratch-{next(folders)}"
        scratch.mkdir()
        command = gemini.command_for(task, PROGRAM, scratch)
        return command, json.loads((scratch / ".gemini/settings.json").read_text())

    return make


async def test_what_it_does_becomes_events(stage):
    outcome = await stage.run(stage.task("edits", session_id="s-1"))
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
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (4800, 800, 228)
    assert (usage.reasoning_tokens, usage.turns, usage.tool_calls, outcome.cost_usd) == (28, 4, 3, None)
    started, *said = stage.heard.read_text().splitlines()
    assert said == ["-Do what is asked."]
    assert {"--resume=s-1", "--model=m"} <= {*json.loads(started)["argv"]}
    assert json.loads(started)["env"]["GEMINI_CLI_TRUST_WORKSPACE"] == "false"


async def test_only_what_follows_the_last_tool_is_the_answer(stage):
    outcome = await stage.run(stage.task("shell"))
    assert outcome.text == "Done: it is as you asked."
    assert "".join(event.text for event in stage.of(Text)) == f"I need a command.{outcome.text}"
    assert stage.of(ToolCall)[0].title.startswith("Run python3 -c")


async def test_a_denied_call_is_a_result_that_failed(stage):
    assert isinstance(await stage.run(stage.task("denied")), Outcome)
    assert [(event.ok, "not in workspace" in event.output) for event in stage.of(ToolResult)] == [(False, True)]
    assert stage.of(File) == []


@pytest.mark.parametrize(
    ("recording", "kind", "words"),
    [
        ("empty", ErrorKind.EMPTY_OUTPUT, "empty response"),
        ("no_login", ErrorKind.AUTH_FAILED, "Auth method in your ~/.gemini/settings.json"),
        ("unknown_option", ErrorKind.CONFIG_INVALID, "Unknown arguments: such-option"),
    ],
)
async def test_other_failures_have_their_kind(stage, recording, kind, words):
    failure = await stage.run(stage.task(recording))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is kind
    assert words in failure.message
    assert failure.hint


@pytest.mark.parametrize(
    ("text", "code", "kind"),
    [
        (
            "[API Error: You have exhausted your daily quota on this model.]\nPlease wait.",
            173,
            ErrorKind.QUOTA_EXHAUSTED,
        ),
        ("[API Error: Resource has been exhausted.\nSuggested retry after 1s.]", 173, ErrorKind.RATE_LIMITED),
        ('[API Error: {"error":{"code":400,"message":"API key not valid."}}]', 144, ErrorKind.AUTH_FAILED),
        ('[API Error: {"error":{"code":503,"message":"x"}}]', 247, ErrorKind.OVERLOADED),
        ("[API Error: {broken]", 1, ErrorKind.OVERLOADED),
        ("[API Error: [] {}]", 1, ErrorKind.OVERLOADED),
        ("Reached max session turns for this session.", 53, ErrorKind.BUDGET_EXHAUSTED),
        ("Error resuming session: none.", 42, ErrorKind.BAD_REQUEST),
    ],
)
def test_a_text_and_an_exit_code_have_their_kind(text, code, kind):
    failure = gemini_stream.failure_of(text, code)
    assert failure.kind is kind, failure
    assert failure.hint
    assert "[API Error" not in failure.message


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Loop detected, stopping execution", ErrorKind.BUDGET_EXHAUSTED),
        ("Model response was truncated because it exceeded the token limit.", ErrorKind.OUTPUT_TRUNCATED),
        ("The model response was blocked due to safety settings.", ErrorKind.CONTENT_REFUSED),
    ],
)
def test_an_error_before_a_success_is_a_failure(message, kind):
    found = gemini_stream.GeminiStream(Path("/tree"))
    severity = "warning" if "Loop" in message else "error"
    found.line(json.dumps({"type": "error", "severity": severity, "message": message}).encode())
    assert found.line(b'{"type": "result", "status": "success", "stats": {}}') == []
    (ended,) = found.ended(0, "")
    assert ended.error.kind is kind


def test_a_run_that_was_interrupted_has_its_events(stage):
    found = gemini_stream.GeminiStream(stage.tree)
    lines = (stage.recordings / "interrupted.jsonl").read_bytes().splitlines()[1:]
    assert [item.title for line in lines for item in found.line(line) if isinstance(item, ToolCall)] == [
        "Run tail -f /dev/null"
    ]
    assert found.ended(143, "") == []


def test_its_list_of_tasks_is_a_plan():
    todos = [{"description": "Look", "status": "completed"}, {"description": "Do", "status": "cancelled"}]
    said = {"type": "tool_use", "tool_name": "write_todos", "tool_id": "1", "parameters": {"todos": todos}}
    _, plan = gemini_stream.GeminiStream(Path("/tree")).line(json.dumps(said).encode())
    assert isinstance(plan, Plan)
    assert plan.entries == [{"content": "Look", "status": "completed"}]


def test_a_model_server_gets_its_own_home_and_its_key_is_no_argument(stage, made, user):
    (user / "settings.json").write_text('{"security": {"auth": {"selectedType": "vertex-ai"}}}')
    (user / ".env").write_text("GOOGLE_GEMINI_BASE_URL=http://elsewhere\n")
    task = stage.task("edits", model_server=SERVER, key=lambda: "sk-secret-of-nobody")
    command, settings_made = made(task)
    assert command.secrets == {"GEMINI_API_KEY": "sk-secret-of-nobody"}
    assert command.environment["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:9"
    assert command.environment["GEMINI_CLI_CUSTOM_HEADERS"] == "X-Team: shop"
    home = Path(command.environment["GEMINI_CLI_HOME"])
    assert sorted(path.name for path in home.iterdir()) == [".gemini", "tmp"]
    assert sorted(path.name for path in (home / ".gemini").iterdir()) == ["settings.json", "tmp", "understudy.toml"]
    assert (home / ".gemini/tmp").resolve() == (user / "tmp").resolve(), "sessions stay in the user's folder"
    assert settings_made["security"] == {
        "auth": {"selectedType": "gemini-api-key"},
        "folderTrust": {"enabled": False},
    }
    assert "sk-secret" not in json.dumps([command.argv, {**command.environment}, settings_made])
    keyless, _ = made(stage.task("edits", model_server=SERVER))
    assert (keyless.secrets, keyless.environment["GEMINI_API_KEY"]) == ({}, "no-key")


def test_the_users_own_settings_and_login_stay_usable(stage, made, user):
    (user / "settings.json").write_text(
        '{ // mine\n "general": {"maxAttempts": 9, "vimMode": true}, /* x */ "policyPaths": ["~/p"],'
        ' "theme": "a // b", "context": {"fileName": "ME.md"} }'
    )
    (user / "oauth_creds.json").write_text("{}")
    (user / ".env").write_text("GEMINI_API_KEY=abc\n")
    command, found = made(stage.task("edits", prompt="see @this"))
    home = Path(command.environment["GEMINI_CLI_HOME"])
    assert (home / ".gemini/oauth_creds.json").resolve() == user / "oauth_creds.json"
    assert (home / ".env").read_text() == "GEMINI_API_KEY=abc\n"
    assert (found["general"]["maxAttempts"], found["general"]["vimMode"], found["theme"]) == (3, True, "a // b")
    assert found["policyPaths"] == [str(home / ".gemini/understudy.toml"), "~/p"]
    assert found["context"]["fileName"] == ["ME.md", "understudy.md"]
    assert "backslash" in (home / ".gemini/understudy.md").read_text()
    assert (command.stdin, command.secrets) == (b"see \\@this", {})
    assert not [name for name in command.environment if "API" in name or "BASE_URL" in name]


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (("settings.json", "{"), "cannot use the settings"),
        (("settings.json", "[]"), "not an object"),
        ((".env", "export GOOGLE_GEMINI_BASE_URL=http://mine\n"), "GOOGLE_GEMINI_BASE_URL"),
    ],
)
def test_what_of_the_user_cannot_be_kept_is_named(stage, made, user, file, says):
    (user / file[0]).write_text(file[1])
    with pytest.raises(UnderstudyError, match=says) as refused:
        made(stage.task("edits"))
    assert refused.value.kind is ErrorKind.CONFIG_INVALID


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [("/quit\n", "\n/quit\n"), ("a@b", "a\\@b"), ("\\@b", "\\\\@b"), ("-é\r\n\t", "-é\r\n\t"), ("a/b", "a/b")],
)
def test_nothing_in_a_prompt_is_a_command_or_a_file(prompt, sent):
    assert gemini.prompt_for(prompt) == sent


@pytest.mark.parametrize(
    ("launch", "returns", "mode"),
    [
        (None, "tree", "auto_edit"),
        (None, "text", "default"),
        (Launch(permission_mode="default"), "tree", "default"),
        (Launch(yolo=True), "text", "yolo"),
    ],
)
def test_each_permission_mode_has_its_rules(stage, made, launch, returns, mode):
    _, found = made(stage.task("edits", launch=launch, returns=returns))
    rules = Path(found["policyPaths"][0]).read_text()
    assert ("write_file" in rules, "*" in rules) == (mode == "auto_edit", mode == "yolo")


def test_model_properties_become_fields_of_each_request(stage, made):
    _, found = made(stage.task("edits", properties={"temperature": "0.5", "maxTokens": 4000}))
    (override,) = found["modelConfigs"]["customOverrides"]
    assert override["match"] == {"model": "m"}
    assert override["modelConfig"]["generateContentConfig"] == {"temperature": 0.5, "maxOutputTokens": 4000}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"launch": Launch(flags=["--output-format=text"])}, "--output-format"),
        ({"launch": Launch(flags=["--skip-trust"])}, "--skip-trust"),
        ({"launch": Launch(flags=["--policy", "x"])}, "--policy"),
        # Other spellings that it takes for the same.
        ({"launch": Launch(flags=["--skipTrust"])}, "--skip-trust"),
        ({"launch": Launch(flags=["--approvalMode=yolo"])}, "`launch.permission_mode`"),
        ({"launch": Launch(flags=["-dy"])}, "`launch.yolo`"),
        ({"launch": Launch(flags=["--no-sandbox"])}, "--sandbox"),
        ({"launch": Launch(flags=["-m", "x"])}, "`model`"),
        ({"launch": Launch(yolo=True, permission_mode="default")}, "yolo"),
        ({"properties": {"temperature": "hot"}}, "temperature"),
        ({"properties": {"maxTokens": -5}}, "maxTokens"),
        ({"mcp_servers": [McpServer(name="notes", argv=["/bin/notes"])]}, "tool servers"),
    ],
)
async def test_what_cannot_apply_is_refused_before_anything_runs(stage, changes, says):
    failure = await stage.run(stage.task("edits", **changes))
    assert isinstance(failure, UnderstudyError)
    assert failure.kind is ErrorKind.CONFIG_INVALID
    assert says in failure.message + failure.hint
    assert not stage.heard.exists()


@pytest.mark.parametrize("name", ["GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_CLI_HOME", "GOOGLE_GEMINI_BASE_URL"])
def test_variables_that_would_undo_the_mask_are_refused(stage, made, name):
    task = stage.task("edits", model_server=SERVER)
    task.environment[name] = "true"
    with pytest.raises(UnderstudyError, match=name):
        made(task)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = ("session_id", "role", "content", "tool_name", "tool_id", "parameters", "status", "error", "stats", "message")


@settings(max_examples=examples(100))
@given(
    kind=st.sampled_from([*gemini_stream.GeminiStream._LINES]) | JSON,
    more=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5),
)
def test_a_line_of_any_shape_never_breaks_it(kind, more):
    stream = gemini_stream.GeminiStream(Path("/tree"))
    found = stream.line(json.dumps({"type": kind, **more}).encode())
    assert found is None or isinstance(found, list)
    assert isinstance(stream.ended(1, ""), list)
