"""Test the commands of other tools, each of which is another name for a command here."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from pathlib import Path

import click
import forked
import pytest
from click.testing import CliRunner

from understudy.config.loading import loader
from understudy.frontends.cli import app
from understudy.frontends.cli.calls import command_group
from understudy.frontends.cli.review import worktrees
from understudy.model.config.delegators import Delegator, EnvReference, Launch, Limits
from understudy.model.errors import ErrorKind, UnderstudyError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / "a.py").write_text("x = 1\n")
    monkeypatch.chdir(folder)
    run("delegators", "add", "echo", "--tool", "generic", "--", "/bin/cat", "{promptFile}")
    return folder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app.group, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return click.unstyle(result.stdout)


def refused(*arguments: str) -> ErrorKind:
    with pytest.raises(UnderstudyError) as caught:
        run(*arguments)
    assert caught.value.hint
    return caught.value.kind


def delegator(name: str) -> Delegator:
    return loader.load(None, trusted=False).delegators[name].delegator


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("capabilities", "tools list"),
        ("capabilities --agent claude --json", "tools list claude --json"),
        ("model opus", "ledger --by delegator --model opus"),
        ("learn tests", "routes suggest tests"),
        ("optimize", "routes suggest"),
        ("routes learn --json", "routes suggest --json"),
        ("routes optimize", "routes suggest"),
        ("cleanup --ttl 1", "worktrees cleanup --ttl 1"),
        ("monitor --once", "watch --all --once"),
        ("profiles show x", "delegators show x"),
        ("profiles init", "init"),
        ("start tests", "start tests"),
        ("", ""),
    ],
)
def test_a_command_of_another_tool_is_one_of_ours(theirs: str, ours: str) -> None:
    assert command_group.translated(theirs.split()) == ours.split()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("--profile haiku ask -t x a.py", "ask --profile haiku -t x a.py"),
        ("--profile=x --model m --temperature 0 summarize", "summarize --profile=x --model m --temperature 0"),
        ("ask --profile x", "ask --profile x"),
        ("--profile ask", "--profile ask"),
        ("--model", "--model"),
    ],
)
def test_options_before_the_command_of_agent_delegate_are_those_of_the_command(theirs: str, ours: str) -> None:
    assert command_group.after_command(theirs.split()) == ours.split()


def test_a_profile_may_be_named_before_the_command(project: Path) -> None:
    assert refused("--profile", "missing", "start", "explain", "a.py") is ErrorKind.UNKNOWN_DELEGATOR
    run("delegators", "add", "other", "--tool", "generic", "--", "/bin/cat", "{promptFile}")
    assert run("--profile", "other", "preview", "explain", "a.py").startswith("To other: ")


def test_a_ticket_names_its_delegator(project: Path) -> None:
    run("delegators", "add", "other", "--tool", "generic", "--", "/bin/cat", "{promptFile}")
    ticket = project / "ticket.md"
    ticket.write_text("---\nid: FEAT-1\ndelegator: other\n---\nSay hello.\n")
    shown = json.loads(run("preview", "explain", "--task-file", "ticket.md", "--json"))
    assert shown["explain"]["delegator"] == "other"
    assert "---\nid: FEAT-1\n---\nSay hello." in shown["prompt"]
    asked = json.loads(run("preview", "explain", "--task-file", "ticket.md", "-d", "echo", "--json"))
    assert asked["explain"]["delegator"] == "echo"
    assert "delegator: other" not in asked["prompt"]
    for options, is_said in (((), True), (("-d", "echo"), False)):
        command = ["start", "explain", "--task-file", "ticket.md", "--detach", "--quiet", "--workspace", "/missing"]
        said = CliRunner().invoke(app.group, [*command, *options], standalone_mode=False).output
        assert ("note: The task file names the delegator other." in said) == is_said, said
    ticket.write_text("---\nid: FEAT-1\n---\ndelegator: other\n")
    plain = json.loads(run("preview", "explain", "--task-file", "ticket.md", "-d", "echo", "--json"))
    assert ticket.read_text().strip() in plain["prompt"]


def test_what_is_piped_in_without_a_task_is_named(project: Path) -> None:
    with pytest.raises(UnderstudyError) as caught:
        run("start", "implement", "-d", "echo")
    assert "--task-file -" in (caught.value.hint or "")


def test_what_is_a_property_has_the_option_of_both_commands(project: Path) -> None:
    run("delegators", "add", "a", "--tool", "codex", "--set", "model_reasoning_effort=high")
    assert delegator("a").model_properties == {"model_reasoning_effort": "high"}
    assert refused("preview", "explain", "a.py", "-d", "echo", "--property", "x=1") is ErrorKind.INVALID_PARAMS


def test_what_a_tool_can_do_is_shown_under_both_names(project: Path) -> None:
    shown = run("capabilities", "--agent", "claude")
    assert "Permission modes: acceptEdits" in shown
    assert shown == run("tools", "claude")
    assert refused("capabilities", "--agent", "cluade") is ErrorKind.UNKNOWN_TOOL


def test_recipes_name_the_delegator_that_a_start_would_take(project: Path) -> None:
    def route() -> str:
        return next(line for line in run("routes").splitlines() if line.startswith("explain"))

    assert route().split() == ["explain", "echo"]
    run("delegators", "add", "other", "--tool", "generic", "--", "/bin/cat", "{promptFile}")
    assert "RECIPE" not in run("routes"), "each start would be refused"
    run("config", "default.explain", "other")
    assert route().split() == ["explain", "other"]


def test_every_choice_is_named_where_none_is_the_default(project: Path) -> None:
    run("delegators", "add", "other", "--tool", "generic", "--", "/bin/cat", "{promptFile}")

    def choices(*arguments: str) -> list[str] | None:
        with pytest.raises(UnderstudyError, match="Several delegators are configured") as caught:
            run(*arguments)
        return caught.value.names

    run("trust", "--yes")
    assert choices("start", "tests", "a.py") == ["echo", "other", "ghostwriter"]
    assert choices("start", "explain", "a.py") == ["echo", "other"], "the ghostwriter writes tests only"


def test_a_file_outside_of_the_workspace_is_not_simply_to_be_trusted(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.py").touch()

    def hint(*arguments: str) -> str:
        with pytest.raises(UnderstudyError, match="is not trusted") as caught:
            run("start", "tests", *arguments)
        return caught.value.hint or ""

    outside = f"The file is outside of {project}, where you are. "
    assert hint(str(other / "b.py"), "-d", "echo").startswith(outside)
    assert hint("a.py", "-d", "echo").startswith("Review what it allows")
    inside = project / "library"
    inside.mkdir()
    (inside / "c.py").touch()
    subprocess.run(["git", "init", "-q"], cwd=inside, check=True)
    has_its_own = f"The file is in a repository inside of {project}, which has its own trust. "
    assert hint(str(inside / "c.py"), "-d", "echo").startswith(has_its_own)


def test_config_sets_and_shows_single_values(project: Path) -> None:
    run("delegators", "add", "a.b", "--tool", "claude")
    for key, value in {
        "model": "opus",
        "launch.yolo": "true",
        "launch.flags": '["--x"]',
        "limits.max_usd": "0.50",
        "limits.total_seconds": "60",
        "env.SOME_NAME": "1",
        "env.KEY": '{"fromEnv": "MINE"}',
    }.items():
        run("config", f"delegators.a.b.{key}", value)
    made = delegator("a.b")
    assert (made.model, made.launch) == ("opus", Launch(yolo=True, flags=["--x"]))
    assert made.limits == Limits(max_usd="0.50", total_seconds=60)
    assert made.env == {"SOME_NAME": "1", "KEY": EnvReference(from_env="MINE")}
    assert run("config", "delegators.a.b.limits.max_usd").strip() == "0.50"
    assert json.loads(run("config", "--json"))["delegators.a.b.env.SOME_NAME"] == "1"
    run("config", "delegators.a.b.env.SOME_NAME", "--unset")
    assert delegator("a.b").env == {"KEY": EnvReference(from_env="MINE")}


@pytest.mark.parametrize("key", ["default", "default_profile", "defaults.delegator"])
def test_the_default_has_the_names_of_other_tools(project: Path, key: str) -> None:
    run("config", key, "echo")
    assert run("config", key).strip() == "echo"
    run("config", key, "--unset")
    assert loader.load(None, trusted=False).defaults.delegator is None


def test_config_sets_the_default_of_a_workspace(project: Path) -> None:
    run("trust", "--yes")
    run("config", "default", "echo", "--scope", "workspace")
    assert loader.load(None, trusted=False).defaults.delegator is None
    assert loader.load(project, trusted=True).defaults.delegator == "echo"


def test_config_refuses_what_it_cannot_set(project: Path) -> None:
    assert refused("config", "limits.slots", "3") is ErrorKind.INVALID_PARAMS
    assert refused("config", "delegators.missing.model", "x") is ErrorKind.INVALID_PARAMS
    assert refused("config", "delegators.echo.modle", "x") is ErrorKind.INVALID_PARAMS
    assert refused("config", "delegators.echo.modle") is ErrorKind.INVALID_PARAMS
    assert refused("config", "default", "missing") is ErrorKind.UNKNOWN_DELEGATOR
    before = delegator("echo")
    assert refused("config", "delegators.echo.launch", "5") is ErrorKind.INVALID_PARAMS
    assert delegator("echo") == before


def test_capabilities_are_named_as_in_files_and_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = run("capabilities", "--agent", "claude").partition("Mode headless:\n")[2].partition("\n\n")[0]
    assert "  Messages:         reach the agent while it works\n" in shown
    assert {"permission_mode,", "use_worktree", "max_usd"} <= set(shown.split())
    assert "Model properties" not in shown, "it has none"
    assert max(map(len, shown.splitlines())) <= 60


def test_cleanup_without_old_worktrees_says_so(project: Path) -> None:
    result = CliRunner().invoke(app.group, ["cleanup"], standalone_mode=False)
    assert (result.stdout, result.stderr) == ("No worktree is decided and old enough.\n", "")


def test_cleanup_removes_what_is_decided_only(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.api.review_messages import RescueResult, WorktreeEntry, WorktreesResult

    def tree(identifier: str, state: str, repo: str) -> WorktreeEntry:
        return WorktreeEntry(id=identifier, path="/w", repo=repo, bytes=1, state=state)  # type: ignore[arg-type]

    removed: list[str] = []
    trees = [
        tree("d", "decided", "/r"),
        tree("o", "decided", "/other"),
        tree("p", "pending", "/r"),
        tree("w", "working", "/r"),
    ]

    def call(name: str, **given: object) -> object:
        if name == "worktrees/list":
            return WorktreesResult(worktrees=trees, rescues=[])
        if name == "worktrees/remove":
            removed.append(str(given["id"]))
            return RescueResult(rescue_ref="r/1")
        return real(name, **given)

    real = worktrees.call
    monkeypatch.setattr(worktrees, "call", call)
    assert "d  would be removed" in run("cleanup", "--dry-run", "--project", "/r")
    assert removed == []
    assert json.loads(run("cleanup", "--project", "/r", "--json")) == {"rescueRef": "r/1"}
    assert removed == ["d"]


def test_cleanup_keeps_what_finished_a_short_time_ago(project: Path) -> None:
    from datetime import UTC, datetime, timedelta

    run("start", "explain", "a.py", "-d", "echo", "--trust", "-q")
    (identifier,) = [one["id"] for one in json.loads(run("list", "--json"))["delegations"]]
    now = datetime.now(UTC)
    assert not worktrees._ended(identifier, now - timedelta(hours=24))
    assert worktrees._ended(identifier, now)
    assert worktrees._ended("20200101-000000-aaaaa", now)


def test_monitor_shows_every_change_and_ends_with_ctrl_c(project: Path) -> None:
    process = forked.Forked(["monitor"], stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        run("start", "explain", "a.py", "-d", "echo", "--trust", "-q")
        assert process.stdout is not None
        seen = next(line for line in process.stdout if "answered" in line)
        assert "(echo): answered" in seen
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
    assert "answered" in run("monitor", "--once")
    assert "answered" not in run("monitor", "--once", "-n", "0")
    assert json.loads(run("monitor", "--once", "--json"))["verdict"] == "answered"


@pytest.mark.parametrize(
    ("group", "option"),
    [("instructions", "--print"), ("tools", "--refresh"), ("groups", "--limit"), ("queue", "--json")],
)
def test_the_help_of_a_group_shows_what_it_takes_without_a_command(group: str, option: str) -> None:
    shown = run(group, "--help")
    assert f"{group} [OPTIONS] [COMMAND] [ARGS]..." in shown
    options, _, commands = shown.partition("Options:")[2].partition("Commands:")
    assert option in options
    assert options.count("--help") == 1
    assert commands
