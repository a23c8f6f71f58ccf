"""Test what a person sees who delegates tests of a JavaScript project, with a stand-in for vitest."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import screens
from click.testing import CliRunner

from understudy.config.loading.loader import load
from understudy.frontends.cli import app
from understudy.frontends.cli.calls import workspace_trust

VITEST = """#!/bin/sh
for word in "$@"; do case "$word" in --outputFile.json=*) report="${word#*=}";; esac; done
echo " FAIL  src/half.test.ts"
cat > "$report" <<'X'
{"numTotalTests": 1, "numPassedTests": 0, "numFailedTests": 1, "testResults": [{"name": "half.test.ts", "status": "failed",
 "assertionResults": [{"fullName": "halves", "status": "failed",
 "failureMessages": ["AssertionError: expected 1.5 to be 2\\n    at /x/half.test.ts:3"]}]}]}
X
exit 1
"""
AGENT = "echo 'test(1);' > src/half.test.ts"
OFFER = "Let each worktree link to node_modules? [Y/n]: "


@pytest.fixture
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=top, check=True)
    (top / ".gitignore").write_text("node_modules\n")
    (top / "package.json").write_text(json.dumps({"devDependencies": {"vitest": "*"}}))
    (top / "src" / "half.ts").write_text("export const half = (x: number) => x / 2;\n")
    program = top / "node_modules" / ".bin" / "vitest"
    program.parent.mkdir(parents=True)
    program.write_text(VITEST)
    program.chmod(0o755)
    monkeypatch.chdir(top)
    command = shlex.join(["sh", "-c", AGENT])
    run("delegators", "add", "fake", "--command", command)
    return top


def run(*arguments: str, answers: str = "") -> str:
    result = CliRunner().invoke(app.group, list(arguments), standalone_mode=False, input=answers)
    if result.exception is not None:
        raise result.exception
    return click.unstyle(result.output)


def test_installed_packages_are_offered_when_a_project_is_trusted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_trust, "can_ask", lambda: True)
    said = run("trust", answers="y\ny\n")
    assert "! packages: Worktrees have no node_modules, so no test of JavaScript or TypeScript runs in them.\n" in said
    assert OFFER in said
    assert 'link = [\n    "node_modules",\n]' in (project / ".understudy" / "worktrees.toml").read_text()
    assert "! packages:" not in run("doctor"), "it is mended, and the project still trusted"
    assert f"You trust {project}." in run("doctor")


def test_without_a_terminal_nothing_is_asked_and_the_command_is_named(project: Path) -> None:
    said = run("trust", "--yes")
    assert OFFER not in said
    assert "understudy init --scope workspace --link node_modules" in said
    assert not (project / ".understudy").exists()


def test_a_hand_written_configuration_is_added_to_and_not_changed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".understudy").mkdir()
    own = project / ".understudy" / "config.toml"
    own.write_text('# mine\n[worktrees]\nlink = ["data"]\n')
    before = own.read_text()
    monkeypatch.setattr(workspace_trust, "can_ask", lambda: True)
    run("trust", answers="y\ny\n")
    assert own.read_text() == before
    assert load(project, trusted=True).worktrees.link == ["node_modules", "data"]
    assert "! packages:" not in run("doctor"), "it is still trusted"


def test_a_start_says_what_is_missing_before_and_the_card_why_nothing_was_checked(project: Path) -> None:
    shown = screens.run(["start", "tests", "src/half.ts", "-d", "fake", "--trust"], 400, project, code=1)
    missing = next(n for n, row in enumerate(shown) if row.startswith("warning: Worktrees have no node_modules, so"))
    assert "understudy init --scope workspace --link node_modules" in shown[missing]
    assert missing < next(n for n, row in enumerate(shown) if row.startswith("fake started")), "before it is paid"
    why = shown.index("! no checks: no required check ran") + 1
    assert shown[why].startswith("    The new JavaScript tests were not run: node_modules of the worktree has neither")


def test_the_card_shows_the_message_of_a_failed_assertion(project: Path) -> None:
    run("trust", "--yes")
    run("init", "--scope", "workspace", "--link", "node_modules")
    shown = screens.run(["start", "tests", "src/half.ts", "-d", "fake"], 120, project, code=3)
    assert "    | halves: AssertionError: expected 1.5 to be 2" in shown
    assert not [row for row in shown if "so no test of JavaScript" in row]
