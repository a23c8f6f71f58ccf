"""A tracked program that Understudy starts is part of what the user trusts."""

from __future__ import annotations

import os
import subprocess

import pytest

from understudy.config.loading.loader import load
from understudy.config.trust import effects, records


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
    assert effects.tracked_programs(project, load(project, trusted=True)) == []
    git(project, "-c", f"index.version={version}", "add", "-f", ".")
    assert set(effects.tracked_programs(project, load(project, trusted=True))) == STARTED


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


@pytest.mark.parametrize(
    "path",
    [
        ".venv/pyvenv.cfg",
        "venv/lib/python3.12/site-packages/own.pth",
        ".venv/lib/python3.12/site-packages/sitecustomize.py",
    ],
)
def test_a_change_of_what_a_tracked_environment_executes_at_each_start_asks_again(project, state, write, path):
    write(project / path, "first")
    records.record(project, state, trusted=True)
    write(project / path, "made again")
    assert records.status(project, state).trusted, "not tracked"
    git(project, "add", "-f", path)
    records.record(project, state, trusted=True)
    write(project / path, "second")
    found = records.status(project, state)
    assert (found.trusted, found.changed) == (False, [f"changed: {path}"])


@pytest.mark.parametrize("path", [".venv/bin/understudy", "node_modules/.bin/anything", "bin/git", "scripts/claude"])
def test_a_change_of_a_tracked_program_that_nothing_configures_asks_again(project, state, write, path):
    write(project / path, "first")
    records.record(project, state, trusted=True)
    write(project / path, "made again")
    assert records.status(project, state).trusted, "not tracked"
    git(project, "add", "-f", path)
    records.record(project, state, trusted=True)
    write(project / path, "second")
    found = records.status(project, state)
    assert (found.trusted, found.changed) == (False, [f"changed: {path}"])


def test_an_environment_that_the_user_makes_again_does_not_ask(project, state, write):
    git(project, "add", "ci")
    records.record(project, state, trusted=True)
    write(project / ".venv/bin/python", "second")
    write(project / "bin/setup", "second")
    assert records.status(project, state).trusted


def test_a_file_name_that_looks_like_part_of_an_index_does_not_count_as_one(project, state, write):
    write(project / "x.egg-info/dependency_links.txt", "")
    git(project, "add", "x.egg-info")
    records.record(project, state, trusted=True)
    write(project / ".venv/bin/python", "second")
    assert records.status(project, state).trusted


def test_programs_are_found_in_an_index_that_is_split(project):
    git(project, "add", "-f", ".")
    git(project, "update-index", "--split-index")
    assert set(effects.tracked_programs(project, load(project, trusted=True))) == STARTED


def test_a_linked_worktree_has_its_own_index(project, tmp_path):
    git(project, "add", "-f", ".")
    git(project, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", "x")
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert set(effects.tracked_programs(tmp_path / "linked", load(tmp_path / "linked", trusted=True))) == STARTED


@pytest.mark.parametrize(
    "command",
    [["python3", "-u", "tools/agent"], ["env", "./tools/agent"], ["node", "--import=./tools/agent", "x"],
     ["python3", "{options}", "tools/agent"]],
)  # fmt: skip
def test_the_script_of_an_agent_is_found_wherever_it_stands(project, write, command):
    (project / ".understudy/config.toml").unlink()
    write(project / ".understudy/tools/own.toml", f'title = "Own"\ncommand = {command}\n')
    git(project, "add", "-f", ".")
    assert "tools/agent" in effects.tracked_programs(project, load(project, trusted=True))


@pytest.mark.parametrize(
    ("first", "path"),
    [
        ("#!/usr/bin/env python3", ".venv/bin/python3"),
        ("#!/usr/bin/env own-shell", "bin/own-shell"),
        ("#!/usr/bin/env -S own-shell -x", "bin/own-shell"),
        ("#!/usr/bin/env -S A=1 tools/shell -x", "tools/shell"),
        ("#!tools/shell", "tools/shell"),
        ("#! {root}/tools/shell -e", "tools/shell"),
    ],
)
def test_the_interpreter_that_a_script_names_is_part_of_what_is_run(project, state, write, first, path):
    write(project / path, "first")
    write(project / "ci/run.sh", first.replace("{root}", str(project)) + "\necho x\n")
    git(project, "add", "-f", ".")
    assert path in effects.tracked_programs(project, load(project, trusted=True))
    records.record(project, state, trusted=True)
    write(project / path, "second")
    found = records.status(project, state)
    assert (found.trusted, found.changed) == (False, [f"changed: {path}"])


def test_interpreters_of_interpreters_are_found_and_a_circle_ends(project, write):
    for script, interpreter in (("ci/run.sh", "tools/one"), ("tools/one", "tools/two"), ("tools/two", "tools/one")):
        write(project / script, f"#!{interpreter}\n")
    git(project, "add", "-f", ".")
    assert {"tools/one", "tools/two"} <= set(effects.tracked_programs(project, load(project, trusted=True)))


def test_a_pipe_in_the_place_of_a_tracked_script_does_not_block(project):
    git(project, "add", "-f", ".")
    (project / "ci/run.sh").unlink()
    os.mkfifo(project / "ci/run.sh")
    assert set(effects.tracked_programs(project, load(project, trusted=True))) == STARTED


def test_the_configured_interpreter_and_the_options_of_a_defined_tool_are_programs(project, write):
    write(project / ".understudy/config.toml", '[environment]\npython = "env/python"\n')
    tool = 'title = "Own"\ncommand = ["/usr/bin/env", "{options}"]\noptions = { yolo = ["tools/wrapper", "--yes"] }\n'
    write(project / ".understudy/tools/own.toml", tool)
    for path in ("env/python", "tools/wrapper"):
        write(project / path, "first")
    git(project, "add", "-f", ".")
    found = effects.tracked_programs(project, load(project, trusted=True))
    assert set(found) == {"env/python", "tools/wrapper", ".venv/bin/python"}


@pytest.mark.parametrize("linked", [False, True], ids=["plain", "behind a link"])
def test_a_program_may_be_named_from_the_home_folder(project, write, monkeypatch, linked):
    home = project.parent
    if linked:
        home = project.parent / "link"
        home.symlink_to(project.parent)
    monkeypatch.setenv("HOME", str(home))
    words = ", ".join(f'"~/{project.name}/{path}"' for path in ("own/agent", "own/script"))
    config = f'[[delegators]]\nname = "mine"\ntool = "generic"\nlaunch = {{ command = [{words}] }}\n'
    write(project / ".understudy/config.toml", config)
    for path in ("own/agent", "own/script"):
        write(project / path, "first")
    git(project, "add", "-f", ".")
    found = effects.tracked_programs(project, load(project, trusted=True))
    assert {"own/agent", "own/script"} <= set(found)


def test_a_program_without_a_folder_may_be_one_of_the_workspace(project, write):
    write(project / "node_modules/.bin/make", "first")
    git(project, "add", "-f", ".")
    assert "node_modules/.bin/make" in effects.tracked_programs(project, load(project, trusted=True))


def test_a_program_behind_a_tracked_link_to_a_folder_asks_again(project, state, write):
    (project / ".venv").rename(project / "env")
    (project / ".venv").symlink_to("env")
    git(project, "add", "-f", ".")
    assert "env/bin/python" in effects.tracked_programs(project, load(project, trusted=True))
    records.record(project, state, trusted=True)
    assert records.status(project, state).trusted
    write(project / "env/bin/python", "second")
    assert not records.status(project, state).trusted
