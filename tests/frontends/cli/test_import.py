"""Test the command ``import``: what it shows, asks and writes, and that ``doctor`` mentions it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from understudy.config.loading import loader
from understudy.frontends.cli import app
from understudy.model.errors import ErrorKind, UnderstudyError

SECRET = "sk-test-0123456789abcdef"
PROFILES = f"""\
default_profile = "far"

[profiles.far]
backend = "openai-compat"
base_url = "https://models.example/v1"
default_model = "m"
api_key = "{SECRET}"
retries = 3
"""


@pytest.fixture
def profiles(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("AGENT_DELEGATE_HOME", str(tmp_path / "theirs"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    file = tmp_path / "theirs" / "profiles.toml"
    file.parent.mkdir()
    file.write_text(PROFILES)
    return file


def run(*arguments: str, answers: str = "") -> str:
    result = CliRunner().invoke(app.group, list(arguments), input=answers, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output


def own() -> list[str]:
    return [name for name, entry in loader.load(None, trusted=False).delegators.items() if entry.scope == "user"]


def test_a_dry_run_writes_nothing(profiles: Path, own_home: Path) -> None:
    text = run("import", "agent-delegate", "--dry-run")
    assert '+base_url = "https://models.example/v1"' in text
    assert f"profiles.far.retries ({profiles}:8): " in text
    assert f"profiles.far.api_key ({profiles}:7): " in text
    assert SECRET not in text
    assert own() == []
    assert json.loads(run("import", "agent-delegate", "--dry-run", "--json"))["written"] is False


def test_a_tool_has_its_earlier_name(profiles: Path) -> None:
    profiles.write_text("profiles:\n  mine: {command: /bin/cat, headless: true}\n")
    text = run("import", "agent-offload", str(profiles), "--dry-run")
    assert text == run("import", "sideagent", str(profiles), "--dry-run")
    assert text == run("import", "SideAgent", str(profiles), "--dry-run")
    assert '+name = "mine"' in text


def test_it_asks_before_it_writes(profiles: Path) -> None:
    with pytest.raises(click.Abort):
        run("import", "agent-delegate", answers="n\n")
    assert own() == []
    text = run("import", "agent-delegate", answers="y\n")
    assert "Write 1 model server, 1 delegator, 1 file of defaults?" in text
    assert "Imported 1 model server, 1 delegator, 1 file of defaults from agent-delegate." in text
    assert own() == ["far"]
    assert "There is nothing to import: 2 of its entries exist already." in run("import", "agent-delegate")


def test_a_key_goes_to_the_key_store_only(profiles: Path, own_home: Path) -> None:
    text = run("import", "agent-delegate", "--yes", "--store-keys")
    assert "Stored the API key for far." in text
    assert "set-key" not in text, "it is stored already"
    assert SECRET not in text
    server = loader.load(None, trusted=False).model_servers["far"].model_server
    assert server.api_key is not None
    folder = own_home / "config" / "understudy"
    assert not [path for path in folder.rglob("*") if path.is_file() and SECRET in path.read_text()]
    assert "nothing to import" in run("import", "agent-delegate", "--yes", "--store-keys")


def test_json_does_not_ask(profiles: Path) -> None:
    with pytest.raises(click.UsageError, match="--yes"):
        run("import", "agent-delegate", "--json")
    made = json.loads(run("import", "agent-delegate", "--json", "--yes"))
    assert made["written"]
    assert [(one["kind"], one["name"]) for one in made["files"]] == [
        ("modelServer", "far"),
        ("delegator", "far"),
        ("default", "defaults"),
    ]


def test_what_was_shown_is_what_is_written(profiles: Path) -> None:
    from understudy.frontends.cli.calls.api_calls import call

    seen = call("configuration/import", source="agent-delegate", dryRun=True)
    profiles.write_text(PROFILES.replace("models.example", "elsewhere.example"))
    with pytest.raises(UnderstudyError) as caught:
        call("configuration/import", source="agent-delegate", revision=seen.revision)
    assert caught.value.kind is ErrorKind.CONFLICT
    assert own() == []


def test_doctor_mentions_what_can_be_imported(profiles: Path) -> None:
    from understudy.api.caller import TerminalCaller
    from understudy.api.handlers.setup import importing

    caller = TerminalCaller(Path.cwd())
    assert importing.importable(caller) == ["agent-delegate"]
    assert "understudy import agent-delegate" in run("doctor")
    run("import", "agent-delegate", "--yes")
    assert importing.importable(caller) == []
    profiles.write_text("not TOML")
    assert importing.importable(caller) == []


@pytest.fixture
def projects(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return two trusted projects that agent-delegator is configured for, differently."""
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    made = []
    for name, order in (("one", ["claude", "copilot"]), ("two", ["codex", "claude"])):
        project = tmp_path / name
        project.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
        text = json.dumps({"provider_priority": order, "cooldown_minutes": 10})
        (project / ".agent-delegator.json").write_text(text)
        made.append(project)
    return made


def test_the_file_of_a_project_becomes_the_configuration_of_that_project(
    projects: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for project, default, other in zip(projects, ("claude", "codex"), ("copilot", "claude"), strict=True):
        monkeypatch.chdir(project)
        with pytest.raises(UnderstudyError) as caught:
            run("import", "agent-delegator", "--scope", "workspace", "--dry-run")
        assert caught.value.kind is ErrorKind.UNTRUSTED_WORKSPACE
        run("trust", "--yes")
        text = run("import", "agent-delegator", "--scope", "workspace", "--yes")
        assert "pause_minutes = 10" in text, "a workspace may not set it"
        found = loader.load(project, trusted=True)
        assert (found.defaults.delegator, found.defaults.scope) == (default, "workspace")
        assert found.delegators[default].delegator.fallback == [other]
        assert "nothing to import" in run("import", "agent-delegator", "--scope", "workspace", "--yes")
        assert "is trusted" in run("trust", "--status")
    assert own() == []


def test_the_next_one_works_where_the_imported_default_has_no_program(
    projects: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    answer = {"type": "result", "subtype": "success", "is_error": False, "result": "42", "session_id": "s"}
    (programs / "claude").write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.chdir(projects[1])
    run("import", "agent-delegator", "--yes")
    shown = run("start", "explain", "-t", "x", "--trust", "--quiet", "--json")
    assert [one["delegator"] for one in json.loads(shown)["attempts"]] == ["codex", "claude"]
