"""Test the driver on real processes that work, lie about ending, hang, flood, crash and leave children."""

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from understudy.config.validation.delegator_rules import Surroundings, check_delegator
from understudy.engine.running.preparation import resolve_environment
from understudy.model.backends.openai import CAPABILITIES as BACKEND
from understudy.model.config.delegators import (
    AppliesTo,
    Delegator,
    EnvReference,
    KeyReference,
    Launch,
    Limits,
    ModelServer,
    Recipe,
    Scope,
)
from understudy.model.confinement import Confinement
from understudy.model.delegation.events import AgentStarted, Event, File, Note, Phase, Text, ToolCall
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.tools import declared
from understudy.runners.agent_clis.generic import Runner
from understudy.runners.driver import attempt, command_line, driver
from understudy.runners.runner import Outcome, Task, runner_for

AGENT = [sys.executable, "-m", "understudy.testing.agent"]
SIDECAR = Path(driver.__file__).parents[3]


def a_recipe(name="tests", returns="tree") -> Recipe:
    return Recipe(name=name, title=name, returns=returns, applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN)


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "greeting.py").write_text("def greet(name):\n    return 'Hello, ' + name\n")
    return folder


PATIENT = Limits(total_seconds=60, first_event_seconds=60, idle_seconds=60, after_result_seconds=60)
"""For agents that go on by themselves: on a busy machine, each of their steps may take seconds."""


def a_task(tree: Path, *command: str, limits=None, output="events", **more) -> Task:
    launch = more.pop("launch", Launch(command=[*AGENT, *command], output=output))
    env = {"PYTHONPATH": str(SIDECAR)} | more.pop("env", {})
    values = {
        "delegation_id": f"test-{os.getpid()}-{time.monotonic_ns()}",
        "recipe": a_recipe(),
        "prompt": "Write tests for greeting.py",
        "prompt_file": tree.parent / "prompt.md",
        "worktree": tree,
        "delegator": Delegator(name="scripted", tool="generic", launch=launch, env=env),
        "limits": limits or PATIENT,
        "stdout_log": tree.parent / "stdout.log",
        "stderr_log": tree.parent / "stderr.log",
    }
    return Task(**(values | more))


async def delegate(task: Task) -> tuple[Outcome | UnderstudyError, list[Event]]:
    events: list[Event] = []
    try:
        outcome: Outcome | UnderstudyError = await Runner().run(task, events.append)
    except UnderstudyError as error:
        outcome = error
    assert marked(task) == []
    return outcome, events


def marked(task: Task) -> list[psutil.Process]:
    """Return the processes that still have the task's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if task.delegation_id in process.environ().values():
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def texts(events):
    return "".join(event.text for event in events if isinstance(event, Text))


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        ("crash", "tool_crashed"),
        ("killed", "tool_crashed"),
        ("exit1", "tool_crashed"),
        ("error", "rate_limited"),
        ("no_end", "tool_no_result"),
        ("half_line", "malformed_output"),
        ("endless_line", "malformed_output"),
        ("stall", "stalled"),
        ("ignores_term", "stalled"),
    ],
)
async def test_every_bad_end_is_its_own_kind(tree, scenario, kind):
    limits = msgspec.structs.replace(PATIENT, idle_seconds=0.5) if kind == "stalled" else PATIENT
    error, _ = await delegate(a_task(tree, scenario, limits=limits))
    assert isinstance(error, UnderstudyError), error
    assert error.kind == kind
    if scenario == "crash":
        assert "the model server went away" in error.message
    if scenario == "exit1":
        # The work is kept: the runner does not judge it.
        assert (tree / "tests/test_greeting_scripted.py").exists()
        assert "after announcing a result" in error.message


@pytest.mark.parametrize("scenario", ["silent", "noise"])
async def test_what_is_no_event_is_no_sign_of_life(tree, scenario):
    # The agent that prints noise must have started within the limit.
    limits = Limits(first_event_seconds=0.5 if scenario == "silent" else 3, idle_seconds=60, total_seconds=60)
    error, _ = await delegate(a_task(tree, scenario, limits=limits))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.STALLED
    assert ("lines of its output are not events, the first: " in error.message) == (scenario == "noise")


async def test_a_total_limit(tree):
    error, _ = await delegate(
        a_task(tree, "deltas", "--amount", "100000", "--rate", "100", limits=Limits(total_seconds=0.8))
    )
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.TIMED_OUT
    assert "total_seconds" in error.message


@pytest.mark.parametrize(
    "scenario", ["hang_after_result", "stdin_reader", "stderr_flood", "invalid_utf8", "children", "no_change", "deltas"]
)
async def test_what_is_odd_and_good(tree, scenario):
    limits = msgspec.structs.replace(PATIENT, after_result_seconds=0.3) if scenario == "hang_after_result" else PATIENT
    outcome, events = await delegate(a_task(tree, scenario, limits=limits))
    assert isinstance(outcome, Outcome), outcome
    notes = " ".join(event.text for event in events if isinstance(event, Note))
    assert ("not exited" in notes) == (scenario == "hang_after_result")
    assert ("processes running" in notes) == (scenario == "children")
    assert outcome.estimated


async def test_work_arrives_in_the_tree(tree, tmp_path):
    source = tmp_path / "test.txt"
    source.write_text("from greeting import greet\n\n\ndef test_greet():\n    assert greet('Ada') == 'Hello, Ada'\n")
    outcome, events = await delegate(a_task(tree, "honest", "--write", f"tests/test_greeting.py={source}"))
    assert isinstance(outcome, Outcome), outcome
    assert (tree / "tests/test_greeting.py").read_text() == source.read_text()
    assert [event.path for event in events if isinstance(event, File)] == ["tests/test_greeting.py"]
    assert [event.text for event in events if isinstance(event, Phase)] == ["Writing tests"]
    assert not (tree / command_line.RUN_FOLDER).exists()
    assert (tmp_path / "stdout.log").read_text().count("\n") == 4


async def test_deltas_arrive_in_order_and_memory_stays_flat(tree):
    outcome, events = await delegate(a_task(tree, "deltas", "--amount", "20000"))
    assert isinstance(outcome, Outcome), outcome
    assert texts(events) == "".join(f"{number} " for number in range(20000))


async def test_what_is_too_much_is_counted_and_not_kept(tree, monkeypatch):
    monkeypatch.setattr(attempt, "MAX_EMITTED_CHARACTERS", 1 << 20)
    monkeypatch.setattr(attempt, "MAX_TEXT_CHARACTERS", 1 << 20)
    outcome, events = await delegate(a_task(tree, "huge_output", "--amount", "4"))
    assert isinstance(outcome, Outcome), outcome
    assert len(texts(events)) <= 1 << 20
    assert any("not kept" in event.text for event in events if isinstance(event, Note))


@pytest.mark.parametrize(
    "limits", [Limits(max_turns=3), Limits(max_tokens=300), Limits(max_output_tokens=25), Limits(max_usd="0.03")]
)
async def test_budgets(tree, limits):
    error, _ = await delegate(a_task(tree, "usage", limits=limits))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.BUDGET_EXHAUSTED


async def test_escapes_do_not_travel(tree):
    outcome, events = await delegate(a_task(tree, "escapes"))
    assert isinstance(outcome, Outcome)
    assert texts(events) == "abredlink"
    call = next(event for event in events if isinstance(event, ToolCall))
    assert (call.name, call.title, call.input) == ("x", "t", {"k": ["v"]})


async def test_cancelling_ends_the_tree(tree):
    for scenario in ("ignores_term", "stall"):
        task = a_task(tree, scenario)
        events: list[Event] = []
        running = asyncio.create_task(Runner().run(task, events.append))
        while not events:
            await asyncio.sleep(0.02)
        running.cancel()
        async with asyncio.timeout(60):
            with pytest.raises(asyncio.CancelledError):
                await running
        assert marked(task) == []


async def test_text_output_is_the_answer(tree):
    ask = a_recipe("ask", "text")
    code = "import sys; print('You said:', sys.stdin.read())"
    outcome, events = await delegate(
        a_task(tree, launch=Launch(command=[sys.executable, "-c", code]), recipe=ask, worktree=None)
    )
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == texts(events) == "You said: Write tests for greeting.py\n"
    for code, kind, limits in (
        ("", ErrorKind.EMPTY_OUTPUT, {}),
        ("print('half'); raise SystemExit(2)", ErrorKind.TOOL_CRASHED, {}),
        ("import time; print('half', flush=True); time.sleep(600)", ErrorKind.STALLED, {"idle_seconds": 0.5}),
        ("import time; time.sleep(600)", ErrorKind.STALLED, {"first_event_seconds": 0.5}),
    ):
        launch = Launch(command=[sys.executable, "-c", code])
        task = a_task(tree, launch=launch, recipe=ask, limits=msgspec.structs.replace(PATIENT, **limits))
        error, _ = await delegate(task)
        assert isinstance(error, UnderstudyError), (code, error)
        assert error.kind is kind, code


ECHO = "import json, sys; print(json.dumps(sys.argv[1:]))"


@pytest.mark.parametrize(
    "prompt",
    ["plain", "`touch x` $(touch y) ; rm -rf *", "two\nlines\r\n", "{model} {promptFile}", "\\ \" '", "ünïcode 🎉"],
)
async def test_prompts_arrive_byte_for_byte(tree, prompt):
    for tail in (["--", "{prompt}"], ["--prompt={prompt}"], ["-p", "{prompt}"]):
        launch = Launch(command=[sys.executable, "-c", ECHO, *tail])
        outcome, _ = await delegate(a_task(tree, launch=launch, prompt=prompt, recipe=a_recipe("ask", "text")))
        assert isinstance(outcome, Outcome)
        import json

        assert json.loads(outcome.text)[-1].removeprefix("--prompt=") == prompt
    read = "import sys; print(open(sys.argv[1], newline='').read(), end='')"
    for launch in (
        Launch(command=[sys.executable, "-c", read, "{promptFile}"]),
        Launch(command=[sys.executable, "-c", "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"]),
    ):
        outcome, _ = await delegate(a_task(tree, launch=launch, prompt=prompt, recipe=a_recipe("ask", "text")))
        assert isinstance(outcome, Outcome)
        assert outcome.text == prompt
    assert not (tree / command_line.RUN_FOLDER).exists()
    assert sorted(path.name for path in tree.iterdir()) == ["greeting.py"]


async def test_a_prompt_of_half_a_megabyte_that_looks_like_options_arrives(tree):
    prompt = "--help -rf @greeting.py\n" + "é" * 262_144
    read = "import sys; print(open(sys.argv[1], newline='').read(), end='')"
    for argv in ([read, "{promptFile}"], ["import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"]):
        launch = Launch(command=[sys.executable, "-c", *argv])
        outcome, _ = await delegate(a_task(tree, launch=launch, prompt=prompt, recipe=a_recipe("ask", "text")))
        assert isinstance(outcome, Outcome), outcome
        assert outcome.text == prompt


@pytest.mark.parametrize(
    "text", ["The server answered 429 Too Many Requests.", "Error: insufficient_quota, 401, overloaded"]
)
async def test_an_answer_about_failures_is_no_failure(tree, text):
    ask = a_recipe("ask", "text")
    for code in (
        f"print({text!r})",
        f"import sys; print({text!r}); print({text!r}, file=sys.stderr)",
        f"import json; print(json.dumps({{'type': 'result', 'ok': True, 'text': {text!r}}}))",
    ):
        task = a_task(tree, launch=Launch(command=[sys.executable, "-c", code]), recipe=ask, worktree=None)
        outcome, _ = await delegate(task)
        assert isinstance(outcome, Outcome), outcome
        assert text in outcome.text


@pytest.mark.parametrize(
    ("launch", "prompt"),
    [
        (Launch(command=["tool", "{prompt}"]), "-rf is an option"),
        (Launch(command=["tool", "{prompt}"]), "x" * 200_000),
        (Launch(command=["tool", "{prompt}"]), "a\0b"),
        (Launch(command=["tool", "{prompt}"], prompt_delivery="stdin"), "x"),
        (Launch(command=["tool"], prompt_delivery="file"), "x"),
        (Launch(), "x"),
    ],
)
async def test_prompts_that_cannot_be_delivered_are_refused(tree, launch, prompt):
    error, _ = await delegate(a_task(tree, launch=launch, prompt=prompt))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.CONFIG_INVALID


def test_slots():
    values = {"model": "m", "prompt": "{model}", "promptFile": None, "worktree": "/t", "sessionId": None}
    template = ["tool", "--resume", "{sessionId}", "--model={model}", "{prompt}", "{other}", "--s={sessionId}"]
    assert command_line.fill(template, values) == ["tool", "--model=m", "{model}", "{other}"]


async def test_a_command_may_name_files_of_the_home_folder(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "agent").write_text('#!/bin/sh\ncat "$@"\n', encoding="utf-8")
    (tmp_path / "agent").chmod(0o755)
    (tmp_path / "notes").write_text("the notes", encoding="utf-8")
    launch = Launch(command=["~/agent", "~/notes", "{promptFile}"])
    outcome, _ = await delegate(a_task(tree, launch=launch, prompt="~/notes", recipe=a_recipe("ask", "text")))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == "the notes~/notes"


async def test_the_prompt_file_never_leaves_the_tree(tree, tmp_path):
    (tree / command_line.RUN_FOLDER).symlink_to(tmp_path)
    error, _ = await delegate(a_task(tree, launch=Launch(command=["cat", "{promptFile}"])))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.PATH_ESCAPE
    assert not (tmp_path / "prompt.md").exists()


async def test_only_what_was_asked_for_is_in_the_environment(tree, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "sk-canary-0123456789")
    monkeypatch.setenv("OTHER_SECRET", "sk-other-0123456789")
    code = (
        "import json, os, sys; print(json.dumps(dict(os.environ))); sys.stderr.write(os.environ.get('AGENT_KEY', ''))"
    )
    launch = Launch(command=[sys.executable, "-c", code])
    ask = a_recipe("ask", "text")
    outcome, _ = await delegate(a_task(tree, launch=launch, recipe=ask))
    assert isinstance(outcome, Outcome)
    assert "canary" not in outcome.text
    assert "sk-other" not in outcome.text
    assert '"GIT_AUTHOR_EMAIL": "scripted@understudy.invalid"' in outcome.text
    values, secrets = resolve_environment({"AGENT_KEY": EnvReference(from_env="MY_API_KEY")})
    task = a_task(tree, launch=launch, recipe=ask, environment=values, secrets=secrets)
    outcome, events = await delegate(task)
    assert isinstance(outcome, Outcome)
    assert '"AGENT_KEY": "<secret:AGENT_KEY>"' in outcome.text
    kept = [path.read_text() for path in (task.stdout_log, task.stderr_log) if path and path.exists()]
    assert "canary" not in "".join([str(events), outcome.text, *kept])
    with pytest.raises(UnderstudyError, match="NOT_SET") as caught:
        resolve_environment({"AGENT_KEY": EnvReference(from_env="NOT_SET")})
    assert caught.value.kind is ErrorKind.SECRET_WITHHELD
    monkeypatch.setenv("MY_API_KEY", " 1234567 ")
    with pytest.raises(UnderstudyError, match="MY_API_KEY, which AGENT_KEY is taken from, has only 7 char") as caught:
        resolve_environment({"AGENT_KEY": EnvReference(from_env="MY_API_KEY")})
    assert caught.value.kind is ErrorKind.SECRET_WITHHELD


async def test_a_proxy_is_passed_without_its_password_which_is_redacted(tree, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://me:p%40ssw0rd@proxy.example:8080")
    monkeypatch.setenv("all_proxy", "socks5://me:an0therone@proxy.example")
    code = "import base64, os; print(*map(os.environ.get, ('HTTPS_PROXY', 'all_proxy', 'NO_PROXY')))"
    code += "; print(base64.b64encode(b'me:p@ssw0rd').decode())"
    launch = Launch(command=[sys.executable, "-c", code])
    values, secrets = resolve_environment({})
    task = a_task(tree, launch=launch, recipe=a_recipe("ask", "text"), environment=values, secrets=secrets)
    outcome, events = await delegate(task)
    assert isinstance(outcome, Outcome)
    assert outcome.text.startswith("http://proxy.example:8080 socks5://proxy.example None")
    named = {"HTTPS_PROXY": "http://me:p%40ssw0rd@proxy.example:8080"}
    values, secrets = resolve_environment(named)
    outcome, events = await delegate(msgspec.structs.replace(task, environment=values, secrets=secrets))
    assert isinstance(outcome, Outcome)
    assert outcome.text.startswith("http://<secret:proxy_password_3>@proxy.example:8080 socks5://proxy.example None")
    kept = [path.read_text() for path in (task.stdout_log, task.stderr_log) if path and path.exists()]
    for secret in ("p%40ssw0rd", "p@ssw0rd", "an0therone", "bWU6cEBzc3cwcm"):
        assert secret not in "".join([str(events), outcome.text, *kept])
    bound = msgspec.structs.replace(task.delegator, locality="local")
    outcome, _ = await delegate(msgspec.structs.replace(task, delegator=bound))
    assert isinstance(outcome, Outcome)
    assert outcome.text.startswith("None None None\n")


async def test_the_shown_lines_begin_with_words(tree):
    code = "import sys; print('x' * 700, '    ^^^^', '  at line 3\\nNameError: n', sep='\\n', file=sys.stderr); sys.exit(1)"
    error, _ = await delegate(a_task(tree, launch=Launch(command=[sys.executable, "-c", code])))
    assert isinstance(error, UnderstudyError)
    assert error.message.endswith("exited with code 1: NameError: n\n  at line 3\nNameError: n")


async def test_a_crash_shows_the_last_lines_and_has_the_path_of_the_log(tree):
    code = "import sys; print('x' * 700, 'first\\nsecond', file=sys.stderr); sys.exit(3)"
    task = a_task(tree, launch=Launch(command=[sys.executable, "-c", code]))
    error, _ = await delegate(task)
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.TOOL_CRASHED
    assert error.message == "Delegator 'scripted' exited with code 3: second"
    assert error.hint == "Fix what its output reports, then retry."
    assert error.log_paths == [str(task.stderr_log)]
    assert UnderstudyError.from_info(error.info()).log_paths == error.log_paths


async def test_a_refused_key_of_a_model_server_is_named(tree):
    code = """print('{"type": "result", "ok": false, "error": {"kind": "auth_failed", "message": "401", "hint": "Log in"}}')"""
    launch = Launch(command=[sys.executable, "-c", code], output="events")
    error, _ = await delegate(a_task(tree, launch=launch))
    assert isinstance(error, UnderstudyError)
    assert error.hint == "Log in"
    server = msgspec.structs.replace(SERVER, api_key=KeyReference(from_env="ROUTER_KEY"))
    error, _ = await delegate(a_task(tree, launch=launch, model_server=server))
    assert isinstance(error, UnderstudyError)
    assert (
        error.hint == "Model server 's' takes its key from the environment variable ROUTER_KEY: set it to a valid key."
    )


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ('{"type": "result", "result": " Done. ", "usage": {"tokens": 3}}', "Done."),
        ('{"response": "Done."}\n', "Done."),
        ('[{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"text": "Done."}]}]', "Done."),
        ('{"type": "x"}\n{"type": "item", "item": {"text": "Done."}}\n{"type": "end", "usage": 1}\n', "Done."),
        ('{"usage": {"tokens": 3}}', ""),
        ('{\n  "type": "start"\n}\n{\n  "type": "end",\n  "result": "Done."\n}\n', "Done."),
        ('Agent 1.0\n{"type": "start"}\n{"type": "end", "text": "Done."}\n', "Done."),
        ('{"type": "start"}\n{"type": "end", "text": "x"}\nDone.\n', "Done."),
        ('I set this:\n{"type": "module"}', 'I set this:\n{"type": "module"}'),
        ('One\ntwo\n{"type": "x", "text": "no"}\nthree', 'One\ntwo\n{"type": "x", "text": "no"}\nthree'),
        ("[" * 100_000, "[" * 100_000),
        ("{not json}", "{not json}"),
        ("Done.", "Done."),
    ],
)
async def test_of_json_only_the_message_is_the_report_on_a_change(tree, output, shown):
    (tree / "output").write_text(output)
    outcome, _ = await delegate(a_task(tree, launch=Launch(command=["cat", "output"])))
    assert isinstance(outcome, Outcome)
    assert outcome.text == shown
    if len(output) < 1000:  # an answer is kept as it is
        ask = a_recipe("ask", "text")
        outcome, _ = await delegate(a_task(tree, launch=Launch(command=["cat", "output"]), recipe=ask))
        assert isinstance(outcome, Outcome)
        assert outcome.text == output


async def test_a_missing_program(tree):
    error, _ = await delegate(a_task(tree, launch=Launch(command=["no-such-agent-here"])))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.TOOL_MISSING


async def test_an_agent_cannot_declare_itself_cancelled(tree):
    code = """print('{"type": "result", "ok": false, "error": {"kind": "cancelled", "message": "no"}}')"""
    error, _ = await delegate(a_task(tree, launch=Launch(command=[sys.executable, "-c", code], output="events")))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.TOOL_CRASHED


SERVER = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("delegator", "words"),
    [
        (Delegator(name="d", tool="no-such"), "no tool `no-such`"),
        (Delegator(name="d", tool="openai"), "no tool `openai`"),
        (Delegator(name="d", tool="goose"), "not supported yet"),
        (Delegator(name="d", model="m"), "neither"),
        (Delegator(name="d", model_server="s"), "`model` is missing"),
        (Delegator(name="d", model_server="s", model="m", launch=Launch(yolo=True)), "launch.yolo"),
        (Delegator(name="d", model_server="s", model="m", env={"A": "b"}), "`env`"),
        (Delegator(name="d", tool="generic"), "launch.command"),
        (
            Delegator(name="d", tool="generic", launch=Launch(command=["x", "{prompt}"], prompt_delivery="stdin")),
            "{prompt}",
        ),
        (Delegator(name="d", tool="generic", launch=Launch(command=["x"]), limits=Limits(max_turns=2)), "max_turns"),
        (Delegator(name="d", tool="generic", launch=Launch(command=["x"]), model_server="s"), "model_server"),
        (Delegator(name="d", tool="ghostwriter", launch=Launch(flags=["-x"])), "launch.flags"),
        (Delegator(name="d", tool="ghostwriter", model_properties={"temperature": 1}), "model_properties"),
        (Delegator(name="d", tool="codex", model_properties={"temperature": 1}), "model_properties.temperature"),
        (Delegator(name="d", tool="claude", launch=Launch(command=["x"])), "launch.command"),
        (Delegator(name="d", tool="claude", launch=Launch(permission_mode="all")), "launch.permission_mode"),
    ],
)
def test_what_has_no_effect_is_refused(delegator, words):
    [finding] = check_delegator(delegator, Surroundings({"s": SERVER}))
    assert finding.severity == "error"
    assert words in finding.message


def test_a_runner_is_chosen_from_delegator_and_model_server():
    loop = Delegator(name="d", model_server="s", model="m")
    assert runner_for(loop, SERVER).capabilities.name == "openai"
    assert runner_for(Delegator(name="c", tool="claude"), None).capabilities.name == "claude"
    messages = msgspec.structs.replace(SERVER, protocols=["grpc"])
    for unknown in (Delegator(name="d", tool="goose"), Delegator(name="d", tool="no-such"), loop):
        with pytest.raises(UnderstudyError) as caught:
            runner_for(unknown, messages)
        assert caught.value.kind is ErrorKind.UNKNOWN_TOOL


@pytest.mark.parametrize(
    ("declared", "returns", "judged_by", "supported"),
    [
        (BACKEND, "text", "checks", True),
        (BACKEND, "file", "checks", True),
        (BACKEND, "tree", "new_tests", True),
        (BACKEND, "tree", "checks", True),
        (declared("ghostwriter"), "tree", "new_tests", True),
        (declared("ghostwriter"), "tree", "checks", False),
        (declared("ghostwriter"), "text", "checks", False),
    ],
)
def test_which_recipes_are_supported(declared, returns, judged_by, supported):
    assert declared.supports_recipe(returns, judged_by) is supported


async def test_the_isolation_of_the_program_is_reported_once(tree):
    _, events = await delegate(a_task(tree, "deltas"))
    started = [event for event in events if isinstance(event, AgentStarted)]
    assert [event.sandbox.asked for event in started] == [Confinement.NAMESPACE]
    assert not started[0].sandbox.reached.restricts_access
