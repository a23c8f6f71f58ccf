"""A tracked program that Understudy starts is part of what the user trusts."""

from __future__ import annotations

import subprocess

import pytest

from understudy.config.trust import programs, records


@pytest.fixture
def project(workspace, write):
    """A repository with programs in it: of a check, of setup and of a delegator, and one that nothing starts."""
    write(
        workspace / ".understudy/config.toml",
        """
        [[checks]]
        name = "own"
        argv = ["./run.sh", "--all"]
        cwd = "ci"

        [[checks]]
        name = "script"
        argv = ["python3", "ci/check.py"]

        [[checks]]
        name = "installed"
        argv = ["make", "Makefile"]

        [worktrees]
        setup = ["bin/setup"]

        [[delegators]]
        name = "mine"
        tool = "generic"
        launch = { command = ["tools/agent", "{prompt}"] }
        """,
    )
    for path in ("ci/run.sh", "ci/check.py", "bin/setup", "tools/agent", "bin/other", "Makefile", ".venv/bin/python"):
        write(workspace / path, "first")
    git(workspace, "init", "-q")
    return workspace


def git(folder, *arguments):
    subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)


STARTED = {"ci/run.sh", "ci/check.py", "bin/setup", "tools/agent", ".venv/bin/python"}


@pytest.mark.parametrize("version", ["2", "4"])
def test_programs_that_are_started_and_tracked_are_found(project, version):
    assert programs.tracked_programs(project) == []
    git(project, "-c", f"index.version={version}", "add", "-f", ".")
    assert set(programs.tracked_programs(project)) == STARTED


@pytest.mark.parametrize("path", sorted(STARTED))
def test_a_change_of_a_tracked_program_asks_again(project, state, write, path):
    git(project, "add", "-f", ".")
    records.record(project, state, trusted=True)
    write(project / "bin/other", "second")
    assert records.status(project, state).trusted
    write(project / path, "second")
    found = records.status(project, state)
    assert (found.trusted, found.changed) == (False, [f"changed: {path}"])
    (project / path).unlink()
    (project / path).symlink_to("/usr/bin/env")
    assert f"changed: {path}" in records.status(project, state).changed


def test_an_environment_that_the_user_makes_again_does_not_ask(project, state, write):
    git(project, "add", "ci")
    records.record(project, state, trusted=True)
    write(project / ".venv/bin/python", "second")
    write(project / "bin/setup", "second")
    assert records.status(project, state).trusted


def test_a_linked_worktree_has_its_own_index(project, tmp_path):
    git(project, "add", "-f", ".")
    git(project, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", "x")
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert set(programs.tracked_programs(tmp_path / "linked")) == STARTED
