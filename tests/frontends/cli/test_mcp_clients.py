"""Test ``mcp install``, ``uninstall`` and ``status``: what they show, ask, run and write."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from understudy.frontends.cli import app
from understudy.frontends.cli.calls import exit_codes

CODEX = """#!/bin/sh
case "$2" in
add) echo "$5 $6" > "$HOME/codex.entry" ;;
remove) rm "$HOME/codex.entry" ;;
get) [ -f "$HOME/codex.entry" ] || { echo "No MCP server named '$3' found." >&2; exit 1; }
     echo "$3"; echo "  command: $(cat "$HOME/codex.entry")" ;;
esac
"""


@pytest.fixture
def programs(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Codex, and a folder of Zed without settings."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "codex").write_text(CODEX)
    (folder / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for name in ("UNDERSTUDY_STATE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    (own_home / ".config/zed").mkdir(parents=True)
    return folder


def run(*arguments: str, answers: str = "", code: int = exit_codes.Exit.OK) -> str:
    result = CliRunner().invoke(app.group, ["mcp", *arguments], input=answers, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code
    return result.output


def test_commands_and_files_are_shown_and_nothing_is_done_without_a_yes(programs: Path, own_home: Path) -> None:
    text = run("install", "--dry-run")
    assert "Codex: codex mcp add understudy -- /" in text
    assert 'Zed: create ~/.config/zed/settings.json\n  {\n    "context_servers": {' in text
    with pytest.raises(click.Abort):
        run("install", answers="n\n")
    with pytest.raises(click.UsageError, match="--json needs"):
        run("install", "--json")
    assert not (own_home / "codex.entry").exists()
    assert not (own_home / ".config/zed/settings.json").exists()
    states = run("status")
    assert states.count("not registered; the client is here") == 2
    assert "claude           the client was not found" in states


def test_an_install_is_undone_by_an_uninstall(programs: Path, own_home: Path) -> None:
    text = run("install", answers="y\ny\n")
    assert "Register it in Codex, Zed?" in text
    assert (
        "✓ Codex: registered\n✓ Zed: registered\nTell them when to delegate, too (~/.codex/skills/understudy/SKILL.md)?"
        in text
    )
    assert "`understudy` gives work to cheaper models" in (own_home / ".codex/skills/understudy/SKILL.md").read_text()
    assert "Codex: nothing to do, see ~/.codex/config.toml" in run("install")
    assert ["codex", "registered", "~/.codex/config.toml"] in map(str.split, run("status").splitlines())
    assert [one["after"] for one in json.loads(run("uninstall", "--dry-run", "--json"))["changes"]] == ["absent"] * 2
    text = run("uninstall", "--yes")
    assert "Codex: codex mcp remove understudy" in text
    assert "✓ Codex: removed" in text
    assert list((own_home / ".config/zed").iterdir()) == []
    assert "is not registered anywhere" in run("uninstall")


def test_a_client_that_is_not_here_is_named_and_the_others_are_changed(programs: Path, own_home: Path) -> None:
    settings = own_home / ".config/zed/settings.json"
    settings.write_text("// mine\n{}\n")
    text = run("install", "claude", "codex", "zed", "--yes", code=exit_codes.Exit.UNVERIFIED)
    assert "They delegate only if told when: understudy instructions install codex\n" in text
    assert "✗ claude: The program 'claude' was not found. Install it, or add its folder to PATH." in text
    assert "✓ Codex: registered" in text
    assert f"Zed: Put this entry into `context_servers` in {settings}.\n  {{\n" in text
    assert settings.read_text() == "// mine\n{}\n"


def test_a_workspace_has_files_of_its_own(programs: Path, own_home: Path) -> None:
    run("install", "vscode", "codex", "--workspace", "--yes")
    entry = json.loads(Path(".vscode/mcp.json").read_text())["servers"]["understudy"]
    assert entry == {"type": "stdio", "command": "understudy", "args": ["mcp"]}
    assert not (own_home / "codex.entry").exists()
    assert run("status", "--workspace", ".").count("  registered ") == 2
    run("uninstall", "--workspace", ".", "--yes")
    assert not Path(".vscode/mcp.json").exists()
    assert not Path(".codex/config.toml").exists()
