"""The command line: help, parsing, errors, exit codes, completion; and how little it imports."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import forked
import pytest
import screens
from click.testing import CliRunner

from understudy.api import messages as m
from understudy.api import method_table
from understudy.api.review_messages import SayResult
from understudy.config.discovery import server_presets
from understudy.frontends.cli import app
from understudy.frontends.cli.calls import api_calls, command_group, exit_codes, options
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.delegate import answer, start
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.delegators import Model, ModelPrice
from understudy.model.delegation import events as e
from understudy.model.delegation.delegations import DelegationResult, Explanation, FileStat
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.verdicts import Reservation, Verdict


def run(*arguments: str, **given: Any) -> subprocess.CompletedProcess[str]:
    return forked.run(
        arguments,
        **({"capture_output": True, "text": True, "timeout": 60, "check": False, "stdin": subprocess.DEVNULL} | given),
    )


def commands(group: click.Group = app.group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


def test_the_help_shows_the_first_steps_and_the_exit_codes() -> None:
    text = CliRunner().invoke(app.group, ["--help"]).output
    assert "First steps:" in text
    steps = re.findall(r"^    understudy (.+?)  ", text, re.MULTILINE)
    assert steps.index("trust .") < steps.index("start tests src/module.py"), "nothing starts in an untrusted project"
    for code in exit_codes.Exit:
        assert f"{code.value}  {code.meaning}" in text
    for path, _ in commands():
        if len(path) == 1:
            assert re.search(rf"^  {path[0]} ", text, re.MULTILINE)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_program_alone_prints_one_screen(columns: int, tmp_path: Path) -> None:
    rows = screens.run((), columns, tmp_path, code=exit_codes.Exit.USAGE)
    assert len(rows) < 24, "one row is for the prompt"
    text = "\n".join(rows)
    assert "understudy start tests src/module.py   delegate the tests of a file\n" in text
    assert "understudy --help" in text
    for path, _ in commands():
        if len(path) == 1 and path[0] != "config":
            assert re.search(rf"\b{path[0]}\b", text), path


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=lambda value: "-".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_has_help_with_examples_that_parse(path: tuple[str, ...], command: click.Command) -> None:
    text = CliRunner().invoke(app.group, [*path, "--help"]).output
    assert "Examples:" in text
    assert f"understudy {path[0]}" in text
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize(
    "path", [(), *(path for path, command in commands() if isinstance(command, click.Group))], ids=" ".join
)
def test_the_help_of_a_group_shows_every_summary_whole_at_80_columns(path: tuple[str, ...]) -> None:
    text = CliRunner().invoke(app.group, [*path, "--help"], terminal_width=80).output
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.replace("[ARGS]...", "")
    for name, command in commands() if path else ():
        if name[:-1] == path:
            assert f"  {command.get_short_help_str(1000)}\n" in text


def test_every_command_except_those_that_are_documented_has_json() -> None:
    documented = Path(__file__, "../../../../docs/commands.md").resolve().read_text(encoding="utf-8")
    sentence = re.search(r"All except (.*?) have\s", documented, re.DOTALL)
    assert sentence is not None
    without = {
        path[0]
        for path, command in commands()
        if not isinstance(command, DefaultGroup) and not any("--json" in option.opts for option in command.params)
    }
    assert without == set(re.findall(r"`(\w+)`", sentence[1]))


@pytest.mark.parametrize(
    "path", [path for path, command in commands() if isinstance(command, DefaultGroup)], ids=" ".join
)
def test_a_listing_form_takes_json(own_home: Path, path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert own_home.is_dir()
    assert app.main([*path, "--json"]) == exit_codes.Exit.OK
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_options_for_limits_are_the_same_everywhere() -> None:
    for path in (["start"], ["preview"], ["delegators", "add"], ["delegators", "update"]):
        text = " ".join(CliRunner().invoke(app.group, [*path, "--help"], terminal_width=100).output.split())
        for name, _, what in options.LIMITS:
            assert f"--{name} N {what}" in text


def test_a_command_imports_only_what_it_needs() -> None:
    program = "import sys; sys.argv=['understudy', {0!r}]; from understudy.__main__ import main\n"
    program += "try: main()\nexcept SystemExit: pass\n"
    program += "print(sorted(set(sys.modules) & {{'msgspec','asyncio','httpx','jsonrpcserver','keyring','subprocess','difflib'}}))"
    for argument in ("--version", "--help"):
        found = subprocess.run(
            [sys.executable, "-c", program.format(argument)], capture_output=True, text=True, check=True
        )
        assert found.stdout.splitlines()[-1] == "[]"


def test_a_start_imports_no_event_loop() -> None:
    modules = "api.handlers.delegations", "engine.planning.plan", "engine.running.start", "frontends.cli.delegate.start"
    program = f"import sys; import {', '.join(f'understudy.{module}' for module in modules)}\n"
    program += "print(sorted(set(sys.modules) & {'asyncio', 'httpx', 'ssl'}))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_a_worker_imports_no_command_line() -> None:
    program = "import sys; sys.argv=['understudy','worker','x','-1']; from understudy import __main__\n"
    program += "import types; fake=types.ModuleType('understudy.engine.running.lifecycle.worker'); fake.main=lambda a: print(a, 'click' in sys.modules) or 0\n"
    program += "import understudy.engine.running.lifecycle; understudy.engine.running.lifecycle.worker=fake; sys.modules['understudy.engine.running.lifecycle.worker']=fake; sys.exit(__main__.main())"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "['x', '-1'] False\n"


@pytest.mark.parametrize("command", [["status"], ["profiles", "list"]])
def test_what_prints_a_list_imports_no_module_of_judging_or_worktrees(command: list[str], tmp_path: Path) -> None:
    program = f"import sys; from understudy.frontends.cli import app; app.main({command!r}); print(*sys.modules)"
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "UNDERSTUDY_STATE": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    imported = set(done.stdout.splitlines()[-1].split())
    assert "understudy.config.loading.loader" in imported
    unused = ("understudy.judge", "understudy.git.worktree", "understudy.git.diff", "understudy.mutants", "asyncio")
    assert [name for name in sorted(imported) if name.startswith(unused)] == []


def test_an_unknown_command_suggests_similar_ones() -> None:
    found = run("strat")
    assert found.returncode == exit_codes.Exit.USAGE
    assert "start" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("shw",), "understudy show"),
        (("log",), "understudy watch` or `understudy show"),
        (("rm",), "understudy discard"),
        (("worktrees", "rm"), "understudy worktrees remove"),
        (("delegators", "lst"), "understudy delegators list"),
        (("mcp", "instal"), "understudy mcp install"),
        (("checks", "ls"), "understudy checks list"),
        (("settings",), "understudy config`?"),
        (("approve",), "understudy accept`?"),
        (("servers", "edit"), "understudy servers update`?"),
        (("exec",), "understudy start implement --task TEXT`"),
        (("run",), "understudy start implement --task TEXT`"),
        (("launch",), "understudy start implement --task TEXT`"),
        (("health",), "understudy delegators test --all`"),
        (("dashboard",), "understudy monitor`"),
        (("install",), "understudy instructions install`"),
        (("install-skill",), "understudy instructions install`"),
        (("stats",), "understudy metrics`"),
    ],
)
def test_an_unknown_command_names_what_it_may_mean(
    typed: tuple[str, ...], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(typed) == exit_codes.Exit.USAGE
    assert f"Unknown command {typed[-1]!r}. Did you mean `{meant}" in capsys.readouterr().err


def test_every_command_that_is_suggested_exists() -> None:
    top = {*app._COMMANDS, *command_group.ALIASES}
    for typed, lines in command_group._MEANT.items():
        assert typed not in top
        assert {line.split()[0] for line in lines} <= {*top, "add", "remove", "update"}


def test_an_option_before_the_command_is_named_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["--quiet", "start"]) == exit_codes.Exit.USAGE
    assert "Options follow it: `understudy start --quiet`." in capsys.readouterr().err


def test_usage_errors_are_wrapped_at_words(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    assert app.main(["health"]) == exit_codes.Exit.USAGE
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: understudy ")
    assert shown.endswith("Did you mean\n  `understudy delegators test --all` or `understudy status`?\n")


def test_usage_errors_are_json_with_the_json_option() -> None:
    found = run("show", "--json")
    assert found.returncode == exit_codes.Exit.USAGE
    assert json.loads(found.stdout)["error"]["kind"] == "invalid_params"


@pytest.mark.parametrize("command", ["diff", "review", "accept", "retry", "discard"])
def test_a_missing_id_says_where_it_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main([command]) == exit_codes.Exit.USAGE
    assert "`understudy list` shows the IDs; their last five characters are enough." in capsys.readouterr().err


def test_a_missing_reference_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["restore"]) == exit_codes.Exit.USAGE
    assert "`understudy worktrees` lists what can be restored." in capsys.readouterr().err


def test_a_task_among_the_files_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["start", "implement", "add a docstring"]) == exit_codes.Exit.USAGE
    assert "give it with -t: understudy start implement -t 'add a docstring'" in capsys.readouterr().err


def test_an_error_is_a_sentence_and_a_hint() -> None:
    found = run("show", "zzzzz")
    assert found.returncode == exit_codes.Exit.ERROR
    assert found.stdout == ""
    assert found.stderr.startswith("error: ")
    assert "hint: " in found.stderr
    same = run("show", "zzzzz", "--json")
    assert same.returncode == exit_codes.Exit.ERROR
    assert json.loads(same.stdout)["error"]["kind"] == "unknown_delegation"
    assert same.stderr == ""


def test_an_error_names_its_file_as_a_path_that_can_be_typed(own_home: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "my config"))
    file = tmp_path / "my config" / "understudy" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[limits]\nmax_usd = "much"\n', encoding="utf-8")
    place = f"{file}:2:11"
    start = run("start", "ask", "-t", "hi", "--trust", "--workspace", str(tmp_path))
    assert start.returncode == exit_codes.Exit.ERROR
    assert f"error: {place}: " in start.stderr
    assert "understudy delegators list" in start.stderr or "decimal string" in start.stderr
    assert f"error: {place}: " in run("delegators", "list").stderr
    doctor = run("doctor").stdout
    assert f"1 error. The first: `max_usd` must be a positive decimal. ({place})" in doctor
    assert "file://" not in start.stderr + doctor
    added = run("delegators", "add", "quick", "--tool", "claude", "--max-output-tokens", "9")
    assert f"Added quick in {file.parent}/delegators/quick.toml." in added.stdout
    shown = run("delegators", "show", "quick").stdout
    assert f"quick: from user, {file.parent}/delegators/quick.toml\n" in shown
    assert '"maxOutputTokens": 9' in shown
    run("servers", "add", "local", "--url", "http://127.0.0.1:1/v1")
    assert f"local: from user, {file.parent}/model-servers/local.toml\n" in run("servers", "show", "local").stdout


def test_doctor_counts_a_problem_once(own_home: Path) -> None:
    file = own_home / "config" / "understudy" / "delegators" / "mine.toml"
    file.parent.mkdir(parents=True)
    file.write_text('tool = "generic"\n', encoding="utf-8")
    assert "configuration: 1 error. The first: " in run("doctor").stdout


def test_an_internal_error_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(method_table, "call", broken)
    assert app.main(["version"]) == exit_codes.Exit.ERROR
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "internal-errors.log" in captured.err


def test_a_closed_pipe_is_not_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        found = forked.run(
            ["version"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert found.stderr == b""
    assert found.returncode == exit_codes.Exit.PIPE_CLOSED


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Record what commands ask of the table, after checking it against the contract."""
    seen: list[tuple[str, Any]] = []
    answers: dict[str, Any] = {
        "delegations/list": m.ListResult(delegations=[]),
        "queue/get": m.QueueResult(paused=False, delegations=[]),
        "delegations/start": m.StartResult(
            id="20261121-004512-k3f9q", explain=Explanation(delegator="q", candidates=[], reason="so")
        ),
    }

    def record(name: str, params: Any, caller: Any) -> Any:
        decoded = method_table.decode_params(method_table.method(name), params)
        seen.append((name, decoded))
        return answers[name]

    monkeypatch.setattr(api_calls.method_table, "call", record)
    return seen


def test_start_has_an_option_for_every_parameter(asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unsaved").write_text("text é")
    code = app.main(
        [
            "start",
            "tests",
            "a b.py",
            "/x/c.py",
            "--task",
            "do it",
            "--context",
            "d.md",
            "--range",
            "10:20",
            "--target",
            "t.py",
            "--input",
            "unsaved",
            "-d",
            "claude",
            "--base",
            "head",
            "--check",
            "unit",
            "--check",
            "lint",
            "--total-seconds",
            "60",
            "--max-usd",
            "0.50",
            "--max-turns",
            "3",
            "--model",
            "opus",
            "--permission-mode",
            "plan",
            "--set",
            "effort=high",
            "--set",
            "temperature=0.5",
            "--limit",
            "answer_seconds=60",
            "--no-worktree",
            "--idempotency-key",
            "k",
            "--workspace",
            ".",
            "--detach",
        ]
    )
    assert code == exit_codes.Exit.OK
    (name, params), _ = asked
    assert name == "delegations/start"
    assert params.files == [f"file://{tmp_path}/a%20b.py", "file:///x/c.py"]
    assert (params.range.start.line, params.range.end.line) == (9, 20)
    assert (params.task, params.input, params.delegator, params.base) == ("do it", "text é", "claude", "head")
    assert (params.checks, params.idempotency_key) == (["unit", "lint"], "k")
    assert (params.limits.total_seconds, params.limits.max_usd, params.limits.max_turns) == (60.0, "0.50", 3)
    assert (params.launch.model, params.launch.mode, params.launch.permission_mode) == ("opus", None, "plan")
    assert params.launch.model_properties == {"effort": "high", "temperature": 0.5}
    assert (params.launch.limits, params.launch.use_worktree) == ({"answer_seconds": "60"}, False)


def test_list_has_an_option_for_every_filter(asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [
        "--state",
        "running",
        "--state",
        "queued",
        "--workspace",
        ".",
        "-d",
        "claude",
        "--text",
        "x",
        "-n",
        "7",
    ]
    app.main(["list", *arguments])
    _, params = asked[0]
    assert params.states == [State.RUNNING, State.QUEUED]
    assert (params.workspace, params.delegator, params.text, params.limit) == (f"file://{tmp_path}", "claude", "x", 7)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Nothing was delegated yet. `understudy --help` shows the first steps."),
        (["--limit", "3"], "Nothing was delegated yet. `understudy --help` shows the first steps."),
        (["--state", "running"], "No delegation matches."),
        (["--text", "wrap"], "No delegation matches."),
        (["-d", "ghostwriter"], "No delegation matches."),
        (["--workspace", "."], "No delegation matches."),
    ],
)
def test_an_empty_list_says_whether_a_filter_is_the_reason(arguments: list[str], text: str, capsys) -> None:
    assert app.main(["list", *arguments]) == exit_codes.Exit.OK
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()[-1]) == ("", text)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("inbox", "No agent waits for an answer."),
        ("servers", "No model server is configured. Add one: understudy servers add NAME --kind KIND"),
        ("worktrees", "No worktree is on disk."),
    ],
)
def test_every_empty_list_says_so_beside_the_output(command: str, text: str, capsys) -> None:
    assert app.main([command]) == exit_codes.Exit.OK
    assert capsys.readouterr() == ("", text + "\n")


@pytest.mark.parametrize(
    ("delivery", "words"),
    [("sent", "sent to its agent"), ("waiting", "waits for its agent"), ("kept", "understudy reply k3f9q TEXT")],
)
def test_say_sends_words_or_stdin_and_tells_what_happens(delivery, words, monkeypatch, capsys) -> None:
    said: list[Any] = []

    def call(method: str, **params: Any) -> Any:
        said.append((method, params))
        return SayResult(message_id="m", delivery=delivery)

    monkeypatch.setattr(answer, "resolve", lambda identifier: identifier)
    monkeypatch.setattr(answer, "call", call)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("é\n-x".encode())))
    assert app.main(["say", "k3f9q", "use", "pytest"]) == exit_codes.Exit.OK
    assert words in capsys.readouterr().out
    assert app.main(["say", "k3f9q", "-"]) == exit_codes.Exit.OK
    assert [params["text"] for _, params in said] == ["use pytest", "é\n-x"]
    assert app.main(["say", "k3f9q", " "]) == exit_codes.Exit.USAGE
    assert len(said) == 2


def test_detach_prints_only_the_id(asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["start", "tests", "a.py", "--detach"]) == 0
    assert capsys.readouterr().out == "20261121-004512-k3f9q\n"
    assert app.main(["start", "tests", "a.py", "--detach", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["explain"]["delegator"] == "q"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--range", "0"),
        ("--range", "20:10"),
        ("--range", "x"),
        ("--max-turns", "many"),
        ("--task", "a", "--task-file", "-"),
        ("--task-file", "missing"),
    ],
)
def test_invalid_options_are_refused_before_the_start(asked, arguments: tuple[str, ...]) -> None:
    assert app.main(["start", "tests", "a.py", *arguments]) == exit_codes.Exit.USAGE
    assert asked == []


def test_an_untrusted_workspace_is_trusted_only_with_the_trust_option(monkeypatch, tmp_path: Path, capsys) -> None:
    trusted: list[str] = []

    def answer(name: str, params: Any, caller: Any) -> Any:
        if name == "workspace/trust":
            if params.get("trusted"):
                trusted.append(params["workspace"])
            return m.TrustResult(workspace=str(tmp_path), trusted=True, effects=[], changed=[], digest="s")
        if name == "queue/get":
            return m.QueueResult(paused=False, delegations=[])
        if not trusted:
            raise UnderstudyError(ErrorKind.UNTRUSTED_WORKSPACE, "not trusted", hint="trust it")
        return m.StartResult(id="x", explain=Explanation(delegator="q", candidates=[], reason="so"))

    monkeypatch.setattr(api_calls.method_table, "call", answer)
    monkeypatch.chdir(tmp_path)
    assert app.main(["start", "tests", "a.py", "--detach"]) == exit_codes.Exit.ERROR
    assert "hint: trust it" in capsys.readouterr().err
    assert app.main(["start", "tests", "a.py", "--detach", "--trust"]) == exit_codes.Exit.OK
    assert trusted == [str(tmp_path)]


def test_a_key_is_never_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        api_calls.method_table, "call", lambda name, params, caller: seen.append(params) or m.EmptyResult()
    )
    result = CliRunner().invoke(app.group, ["servers", "set-key", "openai"], input="sk-secret\n")
    assert result.exit_code == 0
    assert seen[-1]["key"] == "sk-secret"
    assert "sk-secret" not in result.output
    from understudy.frontends.cli.setup.servers import servers

    assert not any("key" in opt for parameter in servers.commands["set-key"].params for opt in parameter.opts)
    assert (
        CliRunner().invoke(app.group, ["servers", "set-key", "openai", "sk-secret"]).exit_code == exit_codes.Exit.USAGE
    )


def test_delegators_and_servers_are_added_shown_updated_and_removed() -> None:
    made = run(
        "delegators",
        "add",
        "mine",
        "--tool",
        "generic",
        "--env-from",
        "TOKEN=MY_TOKEN",
        "--json",
        "--",
        "tool",
        "--print",
        "{prompt}",
    )
    assert made.returncode == 0, made.stdout + made.stderr
    declared = json.loads(made.stdout)["delegator"]
    assert declared["launch"]["command"] == ["tool", "--print", "{prompt}"]
    assert declared["env"] == {"TOKEN": {"fromEnv": "MY_TOKEN"}}
    changed = run(
        "delegators",
        "update",
        "mine",
        "--total-seconds",
        "3",
        "--unset",
        "env",
        "--command",
        "other 'two words' {prompt}",
        "--json",
    )
    assert changed.returncode == 0, changed.stdout
    declared = json.loads(changed.stdout)["delegator"]
    assert declared["limits"] == {"totalSeconds": 3}
    assert declared["launch"]["command"] == ["other", "two words", "{prompt}"]
    assert "env" not in declared
    assert "mine" in run("delegators").stdout
    assert run("delegators", "remove", "mine").returncode == 0
    assert run("delegators", "show", "mine", "--json").returncode == exit_codes.Exit.ERROR
    assert run("servers", "add", "local", "--kind", "ollama", "--url", "http://127.0.0.1:1/v1").returncode == 0
    listed = json.loads(run("servers", "list", "--json").stdout)
    assert [entry["modelServer"]["baseUrl"] for entry in listed["modelServers"]] == ["http://127.0.0.1:1/v1"]
    assert run("servers", "test", "local").returncode == exit_codes.Exit.UNVERIFIED
    assert run("delegators", "add", "loop", "--server", "local", "--model", "m").returncode == 0
    removed = run("servers", "remove", "local")
    assert (removed.returncode, removed.stdout) == (exit_codes.Exit.OK, "Removed local.\n")
    assert "These delegators have no model server now: loop.\n" in removed.stderr


def test_an_unknown_delegator_is_an_error_not_an_empty_list() -> None:
    for arguments, kind, name in (
        (("list", "-d", "nosuch", "--json"), "unknown_delegator", "nosuch"),
        (("servers", "set-key", "nosuch", "--json"), "unknown_model_server", "nosuch"),
    ):
        done = run(*arguments)
        assert done.returncode == exit_codes.Exit.ERROR, done.stdout
        error = json.loads(done.stdout)["error"]
        assert error["kind"] == kind
        assert repr(name) in error["message"]
    assert run("list", "-d", "ghostwriter").returncode == exit_codes.Exit.OK


def test_a_delegator_whose_program_is_missing_is_not_ready() -> None:
    assert (
        run("delegators", "add", "gone", "--tool", "generic", "--", "no-such-program-here", "{prompt}").returncode == 0
    )
    assert run("delegators", "add", "here", "--tool", "generic", "--", sys.executable, "{prompt}").returncode == 0
    assert run("delegators", "add", "inside", "--tool", "generic", "--", "./tool", "{prompt}").returncode == 0
    listed = {
        entry["delegator"]["name"]: entry
        for entry in json.loads(run("delegators", "list", "--json").stdout)["delegators"]
    }
    assert {name: listed[name]["state"]["ready"] for name in ("gone", "here", "inside")} == {
        "gone": False,
        "here": True,
        "inside": True,
    }
    assert re.search(r"gone .*'no-such-program-here' was not found", run("delegators").stdout)


def finished(writer, verdict: Verdict, *reservations: Reservation) -> str:
    writer.append(e.Started(delegator="quick", model="m", reason="you asked"), attempt=1)
    files = [FileStat(path="tests/test_a.py", status="added", additions=3, deletions=0)]
    writer.append(e.Result(head="b" * 40, files=files), attempt=1)
    writer.append(e.Finished(verdict=verdict, reservations=list(reservations)), attempt=1)
    writer.close()
    # A worker that has ended holds no lock.
    fcntl.flock(writer._lock, fcntl.LOCK_UN)
    return str(writer.folder.id)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_watch_and_wait_end_with_the_code_of_the_verdict(journal, verdict: Verdict, capsys) -> None:
    identifier = finished(journal(), verdict)
    expected = exit_codes.of_verdict(verdict)
    assert app.main(["watch", identifier]) == expected
    text = capsys.readouterr().out
    assert "quick (m) started: you asked\n" in text
    assert verdict.replace("_", " ").upper() in text
    assert app.main(["wait", identifier[-5:]]) == expected
    assert app.main(["show", identifier]) == 0


def test_watching_as_json_is_the_journal(journal, capsys) -> None:
    writer = journal()
    identifier = finished(writer, Verdict.VERIFIED)
    capsys.readouterr()
    assert app.main(["watch", identifier, "--json", "--after", "1"]) == 0
    events = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [(event["seq"], event["type"]) for event in events] == [(2, "result"), (3, "finished")]


def test_wait_has_a_timeout(journal, capsys) -> None:
    done, running = journal(), journal()
    first = finished(done, Verdict.VERIFIED)
    running.append(e.Started(delegator="quick", model="m", reason="w"), attempt=1)
    assert app.main(["wait", first, running.folder.id, "--timeout", "0.1"]) == exit_codes.Exit.NOT_FINISHED
    assert "running" in capsys.readouterr().out


def test_lists_are_tables_for_people_and_structures_for_programs(journal, capsys) -> None:
    identifiers = [finished(journal(), Verdict.UNVERIFIED, Reservation.FLAKY) for _ in range(3)]
    assert app.main(["list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["ID", *identifiers[::-1]]
    assert app.main(["list", "--limit", "2", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert len(page["delegations"]) == 2
    assert page["cursor"]
    assert app.main(["list", "--all", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)["delegations"]] == identifiers[::-1]


def test_a_diff_in_a_pipe_is_the_patch(journal) -> None:
    writer = journal()
    patch = b"diff --git a/tests/test_a.py b/tests/test_a.py\n@@ -0,0 +1 @@\n+\xff\x1b[2J\ndiff --git a/b b/b\n@@ -1 +1 @@\n-x\n+y\n"
    writer.folder.review.write_bytes(patch)
    identifier = finished(writer, Verdict.VERIFIED)
    assert run("diff", identifier, text=False).stdout == patch
    assert run("diff", identifier, "--", "tests/", text=False).stdout == patch[: patch.index(b"diff --git a/b")]
    assert run("diff", identifier, "--", "nothing", text=False).stdout == b""
    assert run("diff", identifier, "--stat").stdout.split()[4:] == ["added", "+3", "-0", "tests/test_a.py"]


def test_an_answer_in_a_pipe_is_the_answer(delegation, capsysbinary) -> None:
    from understudy.frontends.cli.delegate import follower

    answer = "An\x1b[1m answer\n\n"
    follower.print_card(delegation(verdict=Verdict.ANSWERED, result=DelegationResult(text=answer, files=[])))
    assert capsysbinary.readouterr().out == answer.encode()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_scripts(shell: str, tmp_path: Path) -> None:
    found = run("completion", shell)
    assert found.returncode == 0
    assert "_UNDERSTUDY_COMPLETE" in found.stdout
    program = shutil.which(shell)
    if program is None:
        return
    script = tmp_path / "script"
    script.write_text(found.stdout)
    assert subprocess.run([program, "-n", str(script)], capture_output=True, check=False).returncode == 0


def complete(words: str) -> list[str]:
    count = len(words.split(" ")) - 1
    environment = dict(os.environ) | {
        "_UNDERSTUDY_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(count),
    }
    found = run(env=environment)
    return [text.partition(",")[2] for text in found.stdout.splitlines()]


def test_commands_options_ids_and_names_are_completed(journal) -> None:
    identifier = finished(journal(), Verdict.VERIFIED)
    assert complete("understudy star") == ["start"]
    assert "--detach" in complete("understudy start --det")
    assert complete(f"understudy show {identifier[:6]}") == [identifier]
    assert complete(f"understudy show {identifier[-5:-1]}") == [identifier]
    assert "tests" in complete("understudy start te")
    assert complete("understudy delegators te") == ["test"]


@pytest.mark.parametrize(
    ("typed", "names"),
    [("fa", ["fast"]), ("cl", ["claude-fast"]), ("7k", ["20261120-220431-7k2x9"]), ("2026", ["20261120-220431-7k2x9"])],
)
def test_only_ids_are_completed_by_their_ends(typed: str, names: list[str]) -> None:
    complete = options.completes(lambda _: [(name, "") for name in ("fast", "claude-fast", "20261120-220431-7k2x9")])
    context, parameter = click.Context(app.group), start.start.params[0]
    assert [item.value for item in complete(context, parameter, typed)] == names


def test_completion_prints_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise UnderstudyError(ErrorKind.STATE_UNAVAILABLE, "no", hint="no")

    monkeypatch.setattr(method_table, "call", broken)
    context, parameter = click.Context(app.group), start.start.params[0]
    for function in (
        options.complete_identifiers,
        options.complete_agents,
        options.complete_delegators,
        options.complete_recipes,
        options.complete_tools,
    ):
        assert function(context, parameter, "") == []


def test_states_offered_are_the_contracts() -> None:
    found = run("list", "--state", "x").stderr
    assert all(state in found for state in State)


@pytest.mark.parametrize(
    ("arguments", "said", "never"),
    [
        (["delegators", "add", "x", "--tool", "generic"], "--command 'PROGRAM {prompt}'", "launch"),
        (
            ["delegators", "add", "x", "--tool", "ghostwriter", "--server", "foo"],
            "--server is not supported",
            "model_s",
        ),
        (["delegators", "add", "x", "--server", "foo"], "--model is missing", "`model`"),
        (
            ["delegators", "add", "x", "--tool", "claude", "--max-usd", "0"],
            "--max-usd must be a positive decimal",
            "max_usd",
        ),
        (["servers", "add", "s", "--url", "ftp://x"], "--url is not an http", "base_url"),
        (["servers", "add", "s", "--url", "http://a/v1", "--header", "X-Api-Key=x"], "Use --key-env,", "api_key"),
        (["servers", "add", "s", "--url", "http://1.2.3.4/", "--locality", "local"], "--locality remote", " = "),
    ],
)
def test_errors_name_options_instead_of_file_keys(
    arguments: list[str], said: str, never: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(arguments) == exit_codes.Exit.ERROR
    text = capsys.readouterr().err
    assert said in text
    assert never not in text
    assert app.main([*arguments, "--json"]) == exit_codes.Exit.ERROR
    assert never in capsys.readouterr().out, "programs hear what the contract says"


def test_the_help_names_every_kind_of_model_server():
    text = " ".join(CliRunner().invoke(app.group, ["servers", "add", "--help"], terminal_width=200).output.split())
    assert f"{', '.join(server_presets.kinds())}." in text


def test_the_examples_of_servers_work_in_order(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {path[1]: command.epilog or "" for path, command in commands() if path[0] == "servers" and len(path) == 2}
    for name in ("add", "list", "show", "update", "remove"):
        lines = re.findall(r"^  understudy (.+)$", texts[name], re.MULTILINE)
        assert lines, name
        for line in lines:
            if "set-key" not in line:
                assert app.main(line.split()) == exit_codes.Exit.OK, (line, capsys.readouterr().err)
    assert own_home.is_dir()


def test_models_are_listed_with_prices_and_their_unit(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    price = ModelPrice(input="3", output="15")
    models = [
        Model(id="a", context_tokens=8192, price=price),
        Model(id="b", price=ModelPrice(output="0.5")),
        Model(id="c"),
    ]
    monkeypatch.setattr(api_calls.method_table, "call", lambda *_: m.ModelsResult(models=models))
    assert app.main(["servers", "models", "s"]) == exit_codes.Exit.OK
    assert capsys.readouterr().out == (
        "MODEL  CONTEXT  PRICE\n"
        "a      8192     $3 in, $15 out per million tokens\n"
        "b      -        $0.5 out per million tokens\n"
        "c      -        -\n"
    )


def test_a_list_for_people_has_short_ids_and_names_the_workspaces_if_there_are_several(
    journal, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    identifier = finished(journal(), Verdict.VERIFIED)
    assert app.main(["list"]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    assert row.split()[0] == identifier[-5:]
    finished(journal(workspace="/projects/my shop"), Verdict.VERIFIED)
    assert app.main(["list"]) == 0
    printed = capsys.readouterr().out
    assert " my shop " in printed
    assert " IN " in printed


def test_a_file_in_the_place_of_the_recipe_gets_the_whole_command(asked, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my prices.py").write_text("")
    for command in ("start", "preview"):
        assert app.main([command, "my prices.py"]) == exit_codes.Exit.USAGE
        assert "Name the recipe first, such as: understudy start tests 'my prices.py'" in capsys.readouterr().err
    assert asked == []
