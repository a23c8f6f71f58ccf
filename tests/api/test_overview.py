"""Test the overview: what runs, what waits and what was spent, and the first configuration file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.config.loading import loader
from understudy.model.errors import ErrorKind, UnderstudyError


@pytest.fixture
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "claude").write_text("#!/bin/sh\necho '2.1.5 (Claude Code)'\n")
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    top = tmp_path / "project"
    (top / "tests").mkdir(parents=True)
    (top / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (top / "tests" / "test_a.py").write_text("def test_a():\n    assert True\n")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=top, check=True)
    call(top, "workspace/trust", trusted=True)
    return top


def call(top: Path, method: str, **params):
    return method_table.call(method, {"workspace": str(top), **params}, TerminalCaller(top))


@pytest.mark.parametrize("scope", ["user", "workspace"])
def test_the_first_file_changes_nothing_and_is_valid_without_its_comments(project: Path, scope: str) -> None:
    before = loader.load(project, trusted=True)
    made = call(project, "configuration/init", scope=scope)
    assert made.tools == ["claude"]
    assert made.checks == (["pytest"] if scope == "workspace" else [])
    after = loader.load(project, trusted=True)
    assert (after.delegators, after.checks, after.limits, after.problems) == (
        before.delegators,
        before.checks,
        before.limits,
        [],
    )
    assert call(project, "workspace/trust").trusted, "writing it revoked the trust"
    file = Path(made.location.uri.removeprefix("file://"))
    # Every line that is a setting, as a user would enable it.
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines()]
    file.write_text("\n".join(line for line in lines if re.match(r'\[|\]|  |"|\w+ = ', line)))
    enabled = loader.load(project, trusted=True)
    assert [problem.message for problem in enabled.problems] == []
    assert {"claude", "quick"} <= set(enabled.delegators)
    assert list(enabled.checks) == made.checks


def test_a_file_that_exists_is_never_replaced(project: Path, own_home: Path) -> None:
    file = own_home / "config" / "understudy" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(own_home / "nowhere")
    with pytest.raises(UnderstudyError) as refused:
        call(project, "configuration/init")
    assert refused.value.kind is ErrorKind.ALREADY_EXISTS
    assert file.is_symlink()


def test_the_status_counts_delegations_and_what_was_spent(project: Path, own_home: Path) -> None:
    folder = own_home / "config" / "understudy" / "delegators"
    folder.mkdir(parents=True)
    command = json.dumps([sys.executable, "-c", "open('new.txt', 'w').write('x')"])
    (folder / "writer.toml").write_text(
        f'name = "writer"\ntool = "generic"\n[launch]\noutput = "text"\ncommand = {command}\n'
    )
    (folder / "gone.toml").write_text('name = "gone"\ntool = "codex"\n')
    empty = call(project, "status")
    assert (empty.delegators, empty.not_ready, empty.trusted, empty.to_review) == (2, ["gone"], True, 0)
    assert empty.spent.attempts == 0
    started = call(project, "delegations/start", recipe="implement", task="x", delegator="writer")
    ended = method_table.call("delegations/wait", {"id": started.id}, TerminalCaller(project))
    assert ended.review.pending == 1
    after = call(project, "status")
    assert (after.states, after.questions, after.to_review, after.spent.attempts) == ({}, [], 1, 1)
