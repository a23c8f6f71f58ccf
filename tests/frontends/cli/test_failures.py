"""Test that each failure, provoked for real, ends with a card that names its cause and what to do."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, own_home: Path) -> Run:
    """Run a command in a new repository that is trusted."""
    top = tmp_path / "project"
    top.mkdir()
    (top / "a.py").write_text("def f(x):\n    return x + 1\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=top, check=True)

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "understudy", *arguments],
            cwd=top,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            check=False,
        )

    assert call("trust", "--yes").returncode == 0
    return call


def script(folder: Path, name: str, text: str) -> str:
    """Write an executable shell script and return its path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_repository_of_another_user_is_refused_before_anything_starts(run: Run, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    top = tmp_path / "project"
    for path in (top, *top.rglob("*")):
        os.lchown(path, 65534, 65534)
    for command in (["start"], ["preview"]):
        refused = run(*command, "tests", "a.py")
        assert f"error: git refuses the repository {top} because it belongs to another user.\nhint: " in refused.stderr
    assert json.loads(run("list", "--json").stdout)["delegations"] == [], "nothing was started"
    doctor = run("doctor").stdout
    assert f"✗ repository: git refuses the repository {top} because it belongs to another user.\n    If you " in doctor
    proposed = re.search(r"run: (git config --global --add safe\.directory .+)", doctor)
    assert proposed is not None
    subprocess.run(shlex.split(proposed[1]), check=True)
    assert f"✓ repository: {top} is a git repository.\n" in run("doctor").stdout
    assert run("preview", "tests", "a.py").returncode == 0


@pytest.mark.parametrize(
    ("command", "cause", "todo"),
    [
        (
            ["/no/such/program"],
            "The program '/no/such/program' was not found",
            "Install it there, or correct the path.",
        ),
        (["no-such-program"], "The program 'no-such-program' was not found", "Install it, or add its folder to PATH."),
        (
            "echo 'no space' >&2; exit 3",
            "Delegator 'mine' exited with code 3: no space",
            "Correct what its output says, then",
        ),
    ],
)
def test_a_failed_start_names_cause_and_next_step(
    run: Run, tmp_path: Path, command: list[str] | str, cause: str, todo: str
) -> None:
    argv = command if isinstance(command, list) else [script(tmp_path, "agent", command)]
    run("delegators", "add", "mine", "--tool", "generic", "--", *argv)
    ended = run("start", "fix", "a.py", "-t", "x")
    assert f"\nFAILED: {cause}\n    {todo}" in ended.stdout
    [found] = json.loads(run("list", "--json").stdout)["delegations"]
    steps = ended.stdout.partition("next: ")[2]
    assert f"understudy retry {found['id']}\n" in steps
    assert " -d " not in steps, "no other delegator can do this"
    assert f"  failed: {found['error']['kind'].replace('_', ' ')}  " in run("list").stdout
    assert f"  failed ({cause})  " in run("wait", found["id"]).stdout
    run("delegators", "add", "absent", "--tool", "generic", "--", "no-such-program")
    run("delegators", "add", "second", "--tool", "generic", "--", "true")
    assert f"understudy retry {found['id']} -d second\n" in run("show", found["id"]).stdout, "the one that can start"


def test_a_delegator_without_its_program_is_added_with_a_warning(run: Run) -> None:
    for arguments in (
        ["delegators", "add", "one", "--tool", "generic", "--", "no-such-program"],
        ["delegators", "add", "two", "--tool", "generic", "--mode", "acp", "--", "no-such-program"],
        ["delegators", "update", "one", "--", "no-such-program", "{prompt}"],
    ):
        added = run(*arguments)
        assert added.returncode == 0
        assert (
            "The program 'no-such-program' was not found.\n  Install it, or add its folder to PATH.\n" in added.stderr
        )
        assert "It is saved, but cannot be used yet. Afterwards, test it: understudy delegators test " in added.stderr
    assert run("delegators", "update", "one", "--", "true").stderr == ""
