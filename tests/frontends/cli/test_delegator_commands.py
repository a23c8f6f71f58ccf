"""Test the commands that help to install agents and that add delegators for them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from understudy.config.discovery import server_presets
from understudy.frontends.cli import app
from understudy.frontends.cli.calls import workspace_trust
from understudy.journal import ledger
from understudy.model.delegation.delegations import AskedBy, no_usage
from understudy.model.delegation.ledger import LedgerEntry
from understudy.model.errors import UnderstudyError
from understudy.model.wire import timestamp


@pytest.fixture
def programs(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, and an empty configuration."""
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    # Programs below the current folder are not started.
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return folder


def run(*arguments: str, answers: str = "") -> str:
    result = CliRunner().invoke(app.group, list(arguments), input=answers, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output


def install(folder: Path, name: str) -> None:
    program = folder / name
    program.write_text("#!/bin/sh\necho 1.2.3\n")
    program.chmod(0o755)


def test_the_tools_command_shows_how_to_install_an_agent(programs: Path) -> None:
    text = run("tools", "gemini")
    assert "Gemini CLI: not found on PATH" in text
    assert "Install:  npm install -g @google/gemini-cli" in text
    assert "Log in:   gemini" in text
    assert "add --from-tool" not in text
    install(programs, "gemini")
    text = run("tools", "gemini", "--refresh")
    assert "Gemini CLI 1.2.3" in text
    assert "understudy delegators add --from-tool gemini" in text
    assert json.loads(run("tools", "goose", "--json"))["install"]["loginCommand"] == "goose configure"
    with pytest.raises(UnderstudyError, match="There is no tool 'gemeni'") as refused:
        run("tools", "gemeni")
    assert "gemini" in str(refused.value.hint)


def test_an_agent_without_a_driver_is_added_with_its_command(programs: Path) -> None:
    install(programs, "crush")
    saved = json.loads(run("delegators", "add", "--from-tool", "crush", "--json"))
    assert saved["delegator"]["tool"] == "generic"
    assert saved["delegator"]["launch"]["command"][:2] == ["crush", "run"]
    with pytest.raises(UnderstudyError, match="does not name a model"):
        run("delegators", "add", "--from-tool", "crush", "--model", "m")
    with pytest.raises(UnderstudyError, match="cannot drive the tool 'goose'"):
        run("delegators", "add", "--from-tool", "goose")


def test_a_command_alone_is_a_generic_tool() -> None:
    saved = json.loads(run("delegators", "add", "mine", "--json", "--", "cat", "{prompt}"))
    assert (saved["delegator"]["tool"], saved["delegator"]["launch"]["command"]) == ("generic", ["cat", "{prompt}"])
    with pytest.raises(UnderstudyError, match="neither"):
        run("delegators", "add", "other", "--model", "small")


def test_a_missing_program_is_reported_with_its_installation(programs: Path) -> None:
    run("delegators", "add", "--from-tool", "crush")
    entry = json.loads(run("delegators", "show", "crush", "--json"))
    assert not entry["state"]["ready"]
    hint = "Install Crush (npm install -g @charmland/crush), or add its folder to PATH."
    assert entry["state"]["problems"][0]["hint"] == hint
    assert hint in run("doctor", "--json")
    install(programs, "crush")
    assert json.loads(run("delegators", "show", "crush", "--json"))["state"]["ready"]


def test_a_delegator_that_overrides_another_is_listed_with_what_keeps_it_from_running(programs: Path) -> None:
    _ = programs
    run("delegators", "add", "mine", "--", "no-such-program", "{prompt}")
    run("trust", "--yes")
    run("delegators", "add", "mine", "--scope", "workspace", "--", "no-such-program", "{prompt}")
    listed = next(line for line in run("delegators", "list").splitlines() if line.startswith("mine "))
    assert listed.endswith("The program 'no-such-program' was not found.")


def test_the_questions_of_add_end_with_the_help_for_an_agent_that_is_missing(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_trust, "can_ask", lambda: True)
    install(programs, "gemini")
    shown = CliRunner().invoke(app.group, ["delegators", "add"], input="99\n", standalone_mode=False).output
    number = next(line.split()[0] for line in shown.splitlines() if "Codex CLI (not installed)" in line)
    result = CliRunner().invoke(app.group, ["delegators", "add"], input=f"{number}\n", standalone_mode=False)
    assert isinstance(result.exception, click.UsageError)
    assert "Install:  npm install -g @openai/codex" in result.output
    number = next(line.split()[0] for line in shown.splitlines() if "Gemini CLI 1.2.3" in line)
    assert "Added gemini" in run("delegators", "add", answers=f"{number}\n\n\n")
    assert json.loads(run("delegators", "show", "gemini", "--json"))["delegator"]["tool"] == "gemini"


def test_what_a_first_delegator_takes_from_the_ghostwriter_is_said(programs: Path) -> None:
    _ = programs
    keep = "To keep ghostwriter: understudy delegators default ghostwriter --for tests\n"
    said = run("delegators", "add", "one", "--", "cat", "{prompt}")
    assert f"`understudy start tests` now uses one, not ghostwriter. {keep}" in said
    assert run("delegators", "add", "two", "--json", "--", "cat", "{prompt}").startswith("{")
    run("delegators", "remove", "two")
    run("delegators", "default", "ghostwriter", "--for", "tests")
    assert "start tests" not in run("delegators", "add", "two", "--", "cat", "{prompt}")
    run("delegators", "remove", "two")
    run("delegators", "default", "--unset", "--for", "tests")
    said = run("delegators", "add", "two", "--", "cat", "{prompt}")
    recipes = "ask, docs, explain, fix, implement, review, summarize, tests, write"
    needs = f"`understudy start` now needs a delegator (-d NAME), not one, for {recipes}."
    assert said.endswith(f"{needs} To keep one: understudy delegators default one\n")
    run("delegators", "default", "one")
    run("delegators", "remove", "two")
    assert "understudy start" not in run("delegators", "add", "two", "--", "cat", "{prompt}")


def test_a_delegator_without_the_key_of_its_server_is_not_ready(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ = programs
    run("servers", "add", "lab", "--url", "http://127.0.0.1:9/v1", "--key-env", "LAB_KEY")
    said = run("delegators", "add", "quick", "--model-server", "lab", "--model", "m")
    assert "The key of its model server 'lab' is missing: The environment variable LAB_KEY is not set." in said
    assert "quick" in json.loads(run("status", "--json"))["notReady"]
    monkeypatch.setenv("LAB_KEY", "sk-right-1234")
    assert json.loads(run("delegators", "show", "quick", "--json"))["state"]["ready"]


def test_a_name_that_is_taken_is_answered_with_the_command_that_changes_it(programs: Path) -> None:
    _ = programs
    taken = ("servers", "add", "lab", "--url", "http://127.0.0.1:9/v1"), ("delegators", "add", "mine", "--", "cat")
    for arguments in taken:
        run(*arguments)
        with pytest.raises(UnderstudyError, match="already exists") as refused:
            run(*arguments)
        command = f"understudy {arguments[0]} update {arguments[2]}"
        assert refused.value.hint == f"Choose another name, or change that one: {command}"


def test_a_server_that_refused_the_last_attempt_is_not_ready(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ = programs
    monkeypatch.setenv("LAB_KEY", "sk-right-1234")
    run("servers", "add", "lab", "--url", "http://127.0.0.1:9/v1", "--key-env", "LAB_KEY")
    run("delegators", "add", "quick", "--model-server", "lab", "--model", "m")
    run("delegators", "default", "quick")
    assert "1 of 1 ready, default quick (m at 127.0.0.1:9, key set)" in run("status")
    assert "Sends to its model server (m at 127.0.0.1:9, key set)." in run("delegators", "show", "quick")
    entry = failed_attempt()
    ledger.append(entry)
    assert "failed: connection failed." in run("delegators", "list")
    said = run("status")
    assert "0 of 1 ready" in said
    assert "not ready: quick" in said
    shown = json.loads(run("delegators", "show", "quick", "--json"))
    assert (shown["host"], shown["key"], shown["state"]["ready"]) == ("127.0.0.1:9", "set", False)
    ledger.append(msgspec.structs.replace(entry, at=timestamp(), attempt=2, failure=None))
    assert "1 of 1 ready" in run("status"), "it works again"
    ledger.append(msgspec.structs.replace(entry, at=timestamp(time.time() - 301), attempt=3, delegator="quick"))
    assert "1 of 1 ready" in run("status"), "that was long ago"


def test_a_failure_in_another_workspace_says_nothing_of_a_delegator_of_this_one(programs: Path, tmp_path: Path) -> None:
    _ = programs
    for name in ("one", "two"):
        folder = tmp_path / name / ".understudy" / "delegators"
        folder.mkdir(parents=True)
        (folder / "own.toml").write_text('name = "own"\ntool = "generic"\nlaunch = { command = ["cat"] }\n')
        run("trust", str(tmp_path / name), "--yes")
    ledger.append(failed_attempt(delegator="own", workspace=str(tmp_path / "one")))
    states = [
        json.loads(run("delegators", "show", "own", "--workspace", str(tmp_path / name), "--json"))["state"]["ready"]
        for name in ("one", "two")
    ]
    assert states == [False, True]


def failed_attempt(**changes: Any) -> LedgerEntry:
    entry = LedgerEntry(
        at=timestamp(),
        id="20261128-101500-abcde",
        attempt=1,
        asked_by=AskedBy(frontend="cli", depth=0),
        recipe="ask",
        workspace="",
        delegator="quick",
        model="m",
        usage=no_usage(),
        cost_source="unknown",
        seconds=1.0,
        failure="connection_failed",
    )
    return msgspec.structs.replace(entry, **changes)


def test_the_first_choice_on_an_empty_machine_asks_for_a_command(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_trust, "can_ask", lambda: True)
    install(programs, "my-agent")
    said = run("delegators", "add", answers="\n'\nno-such-program\nmy-agent --fast {prompt}\n\n")
    assert "1  Custom command" in said
    assert "This is not a command: No closing quotation." in said
    assert "There is no program 'no-such-program' on PATH." in said
    saved = json.loads(run("delegators", "show", "my-agent", "--json"))
    assert saved["delegator"]["launch"]["command"] == ["my-agent", "--fast", "{prompt}"]
    assert saved["state"]["ready"]


def test_a_model_server_that_runs_is_the_first_choice(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_trust, "can_ask", lambda: True)
    monkeypatch.setattr(server_presets, "running", lambda _: {"ollama": ["small", "large"]})
    install(programs, "gemini")
    said = run("delegators", "add", answers="\n\n\n")
    assert "1  Ollama, running at http://127.0.0.1:11434/v1" in said
    saved = json.loads(run("delegators", "show", "ollama", "--json"))
    assert (saved["delegator"]["modelServer"], saved["delegator"]["model"]) == ("ollama", "small")
    again = run("delegators", "add", answers="\nlarge\n\n")
    assert "1  model server ollama (http://127.0.0.1:11434/v1)" in again


def test_a_model_server_that_runs_is_added_after_the_last_question(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ = programs
    monkeypatch.setattr(workspace_trust, "can_ask", lambda: True)
    monkeypatch.setattr(server_presets, "running", lambda _: {"ollama": ["small"]})
    for name in ("ollama", "ollama-local"):
        run("servers", "add", name, "--url", f"http://{name}.invalid/v1")
    with pytest.raises(click.Abort):
        run("delegators", "add", answers="\n\n")
    assert "ollama-local-2" not in run("servers", "list", "--json")
    run("delegators", "add", answers="\n\nmine\n")
    saved = json.loads(run("delegators", "show", "mine", "--json"))
    assert saved["delegator"]["modelServer"] == "ollama-local-2"


def test_a_command_in_the_home_folder_is_saved_with_its_whole_path(
    programs: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ = programs
    monkeypatch.setattr(workspace_trust, "can_ask", lambda: True)
    (own_home / "bin").mkdir()
    install(own_home / "bin", "x")
    run("delegators", "add", answers="\n~/bin/x {prompt}\n\n")
    saved = json.loads(run("delegators", "show", "x", "--json"))
    assert saved["delegator"]["launch"]["command"] == [f"{own_home}/bin/x", "{prompt}"]


def test_a_delegator_over_the_agent_client_protocol(programs: Path) -> None:
    run("delegators", "add", "other", "--tool", "generic", "--mode", "acp", "--", "cat", "--acp")
    shown = json.loads(run("delegators", "show", "other", "--json"))
    assert (shown["delegator"]["mode"], shown["state"]["ready"]) == ("acp", True)
    with pytest.raises(UnderstudyError, match="over the Agent Client Protocol"):
        run("delegators", "update", "other", "--output", "events")


def test_the_recipes_are_those_of_this_folder_not_of_the_one_above(programs: Path, tmp_path: Path) -> None:
    _ = programs
    (tmp_path / ".understudy").mkdir()
    said = run("recipes")
    assert "not trusted" not in said
    assert "ghostwriter" in said.splitlines()[1], "the delegator that would do it, also without any of the user"
    own = tmp_path / "project" / ".understudy" / "recipes"
    own.mkdir(parents=True)
    (own / "port.md").write_text(
        '+++\ntitle = "Port this"\nreturns = "tree"\napplies_to = { on = ["file"], languages = ["python"] }\n+++\nPort it.\n'
    )
    run("trust", "--yes", ".")
    assert "Port this" in run("recipes")


def test_defaults_are_chosen_listed_and_removed(programs: Path) -> None:
    for name in ("big", "small"):
        run("delegators", "add", name, "--", "cat", "{prompt}")
    assert run("delegators", "default", "big") == "Default for everything else: big.\n"
    assert "Default for docs: small." in run("delegators", "default", "small", "--for", "docs", "--for", "explain")
    assert json.loads(run("delegators", "default", "--json")) == {
        "delegator": "big",
        "recipes": {"docs": "small", "explain": "small"},
    }
    listed = run("delegators").splitlines()
    assert [
        next(text for text in ("everything", "docs, explain") if text in line)
        for line in listed
        if line.startswith(("big", "small"))
    ] == ["everything", "docs, explain"]
    recipes = {line.split()[0]: line.split()[3] for line in run("recipes").splitlines()}
    assert (recipes["docs"], recipes["tests"]) == ("small", "big")
    with pytest.raises(UnderstudyError, match="ghostwriter") as refused:
        run("delegators", "default", "ghostwriter", "--for", "docs")
    assert refused.value.kind == "config_invalid"
    assert "Removed the default for docs." in run("delegators", "default", "--unset", "--for", "docs")
    assert json.loads(run("delegators", "default", "--json"))["recipes"] == {"explain": "small"}
    for wrong in (["x", "--unset"], ["--for", "docs"]):
        with pytest.raises(click.UsageError):
            run("delegators", "default", *wrong)


def test_all_delegators_are_tested_and_one_that_fails_does_not_hide_the_others(programs: Path) -> None:
    _ = programs
    run("delegators", "add", "good", "--tool", "generic", "--", "/bin/echo", "ready", "{promptFile}")
    run("delegators", "add", "bad", "--tool", "generic", "--", "/bin/false", "{promptFile}")
    found = json.loads(run("delegators", "test", "--all", "--json"))
    assert {name: one["ok"] for name, one in found.items()} == {"ghostwriter": True, "good": True, "bad": False}
    for arguments in (["delegators", "test", "--all"], ["doctor", "--delegators"]):
        lines = run(*arguments).splitlines()[-3:]
        assert [line.split(":")[0] for line in lines] == ["✗ bad", "✓ ghostwriter", "✓ good"]
        assert "round trip: " in lines[0]
        assert CliRunner().invoke(app.group, arguments, standalone_mode=False).return_value == 1


@pytest.mark.parametrize("arguments", [["delegators", "test"], ["delegators", "test", "x", "--all"]])
def test_a_test_takes_one_name_or_all(arguments: list[str], programs: Path) -> None:
    _ = programs
    with pytest.raises(click.UsageError, match="NAME of a delegator, or --all"):
        run(*arguments)


def test_what_changes_nothing_or_leaves_a_default_without_a_delegator_is_said(programs: Path) -> None:
    install(programs, "mine")
    run("delegators", "add", "one", "--tool", "generic", "--", "mine", "{prompt}")
    before = json.loads(run("delegators", "show", "one", "--json"))["revision"]
    assert "Nothing to change in one" in run("delegators", "update", "one")
    assert "Nothing to change in one" in run("delegators", "update", "one", "--tool", "generic")
    assert json.loads(run("delegators", "show", "one", "--json"))["revision"] == before
    assert "Updated one" in run("delegators", "update", "one", "--display-name", "One")
    run("delegators", "default", "one")
    run("delegators", "default", "one", "--for", "docs")
    said = run("delegators", "remove", "one")
    assert "It was the default for everything else, which now has none that exists." in said
    assert "understudy delegators default NAME --for docs" in said
    run("delegators", "add", "two", "--tool", "generic", "--", "mine", "{prompt}")
    assert "default" not in run("delegators", "remove", "two")


def test_an_error_names_the_option_as_it_was_given(programs: Path) -> None:
    install(programs, "mine")
    run("delegators", "add", "one", "--tool", "generic", "--", "mine", "{prompt}")
    with pytest.raises(UnderstudyError, match="--no-worktree has no effect on the recipe 'ask'"):
        run("preview", "ask", "-t", "x", "-d", "one", "--no-worktree")
    with pytest.raises(UnderstudyError, match="--base 'head'") as refused:
        run("preview", "implement", "-t", "x", "-d", "one", "--no-worktree", "--base", "head")
    assert str(refused.value.hint).endswith("--worktree.")


def test_a_question_without_a_delegator_names_the_commands_for_a_server_that_runs(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """agent-delegate answers at once where Ollama runs; who calls us cannot answer the questions of `add`."""
    (Path.cwd() / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(server_presets, "running", lambda _: {"ollama": ["small"]})
    assert app.main(["ask", "-t", "x", "a.py"]) == 2
    hint = " ".join(capsys.readouterr().err.partition("hint: ")[2].split())
    where, _, commands = hint.partition(": understudy ")
    assert where == "Ollama runs at http://127.0.0.1:11434/v1"
    for command in f"understudy {commands}".split(" && "):
        run(*command.split()[1:])
    assert "local" in run("delegators", "list")
    monkeypatch.setattr(server_presets, "running", lambda _: {})
    run("delegators", "remove", "local")
    assert app.main(["ask", "-t", "x", "a.py"]) == 2
    assert "Add one with `understudy delegators add`." in capsys.readouterr().err
