"""Test the commands that tell other agents when to delegate."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from understudy.frontends.cli import app
from understudy.frontends.mcp.tools import tool_table
from understudy.integrations.agent_instructions import instruction_files
from understudy.model.errors import UnderstudyError


@pytest.fixture
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = own_home / "agents"
    (home / ".claude").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app.group, ["instructions", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code, result.output
    return click.unstyle(result.output)


def test_the_names_of_agent_delegate_are_known(home: Path) -> None:
    assert run("install", "--tool", "claude-code,codex-cli") == (
        "✓ claude-md: written to ~/.claude/CLAUDE.md\n✓ codex-md: written to ~/.codex/AGENTS.md\n"
    )
    assert run("uninstall", "codex-cli", "--tool", "claude-code").count("removed from") == 2
    assert run("install", "--print", "claude-desktop") == run("--print", "desktop")
    assert run("install", "--print", "codex-cli") == run("--print", "agent")
    with pytest.raises(click.UsageError, match="instructions --print desktop"):
        run("install", "claude-desktop")


def test_install_list_and_uninstall(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skill = home / ".claude/skills/understudy/SKILL.md"
    planned = run("install", "--dry-run")
    assert "+name: understudy" in planned
    assert not skill.exists()
    assert run("install") == "✓ claude: written to ~/.claude/skills/understudy/SKILL.md\n"
    assert run("install") == "  claude: nothing to do in ~/.claude/skills/understudy/SKILL.md\n"
    assert "claude     installed      ~/.claude/skills/understudy/SKILL.md\n" in run()
    skill.write_text("mine " + skill.read_text())
    assert "`--force` replaces or removes them" in run("uninstall", code=1)
    assert skill.exists()
    assert run("uninstall", "--force") == "✓ claude: removed from ~/.claude/skills/understudy/SKILL.md\n"
    assert list((home / ".claude").iterdir()) == []
    assert run("uninstall") == "There are no instructions to remove.\n"
    for command in ((), ("status",), ("install",)):
        text = run(*command, "--print")
        assert text.startswith("## Delegating with Understudy\n")
        assert "understudy start tests" in text
        assert "`start` delegates one task" in run(*command, "--print", "desktop")
    assert not skill.exists()

    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    monkeypatch.chdir(project)
    found = json.loads(run("install", "project-agents-md", "--project", "--json"))
    assert [(one["name"], one["after"]) for one in found["changes"]] == [("project-agents-md", "installed")]
    assert "understudy start tests" in (project / "AGENTS.md").read_text()


def test_an_unknown_place(home: Path) -> None:
    with pytest.raises(UnderstudyError, match="There is no place for instructions 'claud'"):
        run("install", "claud")
    assert list((home / ".claude").iterdir()) == []


def commands_of(text: str) -> list[list[str]]:
    """Return the arguments of the commands that a text shows."""
    lines = re.findall(r"`understudy ([^`]+)`", " ".join(text.split()))
    return [shlex.split(line.replace("…", "words")) for line in lines]


def test_every_command_that_they_teach_exists_with_its_options() -> None:
    shown = commands_of(instruction_files.BODY)
    assert {"start", "wait", "diff", "evidence", "reply", "accept", "ask", "summarize", "write"} <= {
        words[0] for words in shown
    }
    for name, *arguments in shown:
        context = click.Context(app.group)
        command = app.group.get_command(context, name)
        assert command is not None, name
        if name in {"ask", "summarize", "write"} and arguments:
            command.make_context(name, arguments, parent=context)


def test_the_text_for_applications_names_tools_that_the_server_has() -> None:
    names = set(tool_table.TOOLS)
    taught = set(re.findall(r"`([a-z_]+)`", instruction_files.SNIPPET))
    assert taught - names == {"workspace", "running", "verified"}
    assert "ask" in taught
