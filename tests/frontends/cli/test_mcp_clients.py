"""Test ``mcp install``, ``uninstall`` and ``status``: what they show, ask and write."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from understudy.frontends.cli import app
from understudy.frontends.cli.calls import exit_codes


@pytest.fixture
def settings(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (own_home / ".claude").mkdir()
    file = own_home / ".claude.json"
    file.write_text('{\n  "numStartups": 1\n}')
    return file


def run(*arguments: str, answers: str = "", code: int = exit_codes.Exit.OK) -> str:
    result = CliRunner().invoke(app.group, ["mcp", *arguments], input=answers, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == code
    return result.output


def test_a_diff_is_shown_and_nothing_is_written_without_a_yes(settings: Path) -> None:
    before = settings.read_bytes()
    text = run("install", "--dry-run")
    assert '+      "command": ' in text
    assert '   "numStartups": 1' in text
    with pytest.raises(click.Abort):
        run("install", answers="n\n")
    with pytest.raises(click.UsageError, match="--json needs"):
        run("install", "--json")
    assert settings.read_bytes() == before
    assert "not registered; the client is here" in run("status")


def test_an_install_is_undone_by_an_uninstall(settings: Path) -> None:
    before = settings.read_bytes()
    text = run("install", answers="y\n")
    assert "Change ~/.claude.json?" in text
    assert "✓ Claude Code: registered in ~/.claude.json" in text
    assert "claude: nothing to do in ~/.claude.json" in run("install")
    assert "registered      ~/.claude.json" in run("status")
    assert json.loads(run("uninstall", "--dry-run", "--json"))["changes"][0]["after"] == "absent"
    text = run("uninstall", "--yes")
    assert '-    "understudy": {' in text
    assert "✓ Claude Code: removed from ~/.claude.json" in text
    assert settings.read_bytes() == before
    assert "is not registered anywhere" in run("uninstall")


def test_a_file_that_cannot_be_parsed_is_named_and_the_others_are_changed(settings: Path) -> None:
    settings.write_text("{\n  oops\n}")
    text = run("install", "claude", "vscode", "--yes", code=exit_codes.Exit.UNVERIFIED)
    assert "✗ claude: " in text
    assert ".claude.json: Line 2, column 3: unexpected 'o'." in text
    assert "✓ VS Code: registered in " in text
    assert "MCP: List Servers" in text
    assert settings.read_text() == "{\n  oops\n}"


def test_a_workspace_has_files_of_its_own(settings: Path, tmp_path: Path) -> None:
    run("install", "vscode", "claude", "--workspace", "--yes")
    entry = json.loads((tmp_path / ".vscode/mcp.json").read_text())["servers"]["understudy"]
    assert entry == {"type": "stdio", "command": "understudy", "args": ["mcp"]}
    assert "understudy" not in settings.read_text()
    assert run("status", "--workspace", ".").count("  registered ") == 2
    run("uninstall", "--workspace", str(tmp_path), "--yes")
    assert not (tmp_path / ".vscode").exists()
    assert not (tmp_path / ".mcp.json").exists()
