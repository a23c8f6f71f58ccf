"""Test ``launch.branch``: a verified result is also a branch, and nothing else ever is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.queueing import launcher
from understudy.model.config import delegators

DONE = "say(type='result', ok=True, text='done')"


def prepared(project: Any, code: str, branch: str = "understudy/{delegator}/{recipe}-{id}") -> None:
    project.settings(f"""
        [launch]
        branch = "{branch}"

        [[checks]]
        name = "passes"
        argv = ["{sys.executable}", "-c", "{code}"]
    """)
    project.program("doer", f"pathlib.Path('new.md').write_text('x')\n{DONE}")


def notes(project: Any, identifier: str) -> list[str]:
    return [event.text for event in project.events(identifier) if type(event).__name__ == "Note"]


def test_a_verified_result_is_also_a_branch(project: Any) -> None:
    prepared(project, "")
    before = project.git("status", "--porcelain=v2", "--branch")
    done = project.run("implement", delegator="doer", task="x")
    assert done.verdict == "verified"
    name = f"understudy/doer/implement-{done.id}"
    assert project.git("show", f"{name}:new.md") == "x"
    assert project.git("merge-base", name, "HEAD") == project.git("rev-parse", "HEAD")
    assert project.git("status", "--porcelain=v2", "--branch") == before, "the checkout is as it was"
    assert f"The result is also on the branch {name}." in notes(project, done.id)


def test_the_branch_is_merged_by_its_short_name(project: Any) -> None:
    prepared(project, "", "understudy/{id}")
    done = project.run("implement", delegator="doer", task="x")
    name = f"understudy/{done.id}"
    for command in (["log", "-1", "--format=%D"], ["diff", "--stat", f"main...{name}"], ["merge", name]):
        git = subprocess.run(
            ["git", *command, *([name] if command[0] == "log" else [])],
            cwd=project.top,
            capture_output=True,
            text=True,
            check=True,
        )
        assert git.stderr == ""  # no "refname is ambiguous"
        assert (name if command[0] == "log" else "new.md") in git.stdout
    assert (project.top / "new.md").read_text() == "x"


def test_a_result_that_is_not_verified_is_no_branch(project: Any) -> None:
    prepared(project, "raise SystemExit(1)")
    done = project.run("implement", delegator="doer", task="x")
    assert done.verdict == "unverified"
    assert project.git("branch", "--list", "understudy/*") == ""


@pytest.mark.heavy
def test_a_branch_that_cannot_be_made_is_a_note_and_the_verdict_stays(project: Any) -> None:
    prepared(project, "")
    project.git("branch", "understudy")  # so that no branch below it can be made
    done = project.run("implement", delegator="doer", task="x")
    assert done.verdict == "verified"
    assert any(text.startswith("The result is not on the branch understudy/doer/") for text in notes(project, done.id))


@pytest.mark.heavy
def test_a_branch_that_the_user_deleted_is_not_made_again(project: Any) -> None:
    prepared(project, "")
    done = project.run("implement", delegator="doer", task="x")
    name = f"understudy/doer/implement-{done.id}"
    project.git("branch", "-D", name)
    project.call("delegations/check", id=done.id)
    checked = project.finish(done.id)
    assert checked.verdict == "verified"
    assert project.git("branch", "--list", "understudy/*") == ""
    assert notes(project, done.id)[-1].startswith("A branch was made when this was verified before")


@pytest.mark.heavy
def test_checks_that_pass_later_make_the_branch(project: Any) -> None:
    prepared(project, f"import os; raise SystemExit(not os.path.exists('{project.config}/allowed'))")
    done = project.run("implement", delegator="doer", task="x")
    assert (done.verdict, project.git("branch", "--list", "understudy/*")) == ("unverified", "")
    (project.config / "allowed").touch()
    project.call("delegations/check", id=done.id)
    assert project.finish(done.id).verdict == "verified"
    assert project.git("show", f"understudy/doer/implement-{done.id}:new.md") == "x"


def test_a_git_that_hangs_ends_at_the_limit_and_the_verdict_stays(project: Any, tmp_path: Path, monkeypatch) -> None:
    prepared(project, "")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(
        f"""#!/bin/sh\ncase "$*" in *update-ref*refs/heads/*) sleep 100;; esac\nexec {shutil.which("git")} "$@"\n"""
    )
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    code = "import sys; from understudy.engine.review import review_state; review_state.SECONDS = 2.0\n"
    code += "from understudy.engine.running.lifecycle import worker; sys.exit(worker.main(sys.argv[1:]))"

    workers = []

    def spawn(arguments: list[str], descriptors: list[int], log: Path) -> None:
        with log.open("w") as output:
            argv = [sys.executable, "-c", code, *arguments]
            workers.append(subprocess.Popen(argv, pass_fds=descriptors, cwd="/", stdout=output, stderr=output))

    monkeypatch.setattr(launcher, "_spawn", spawn)
    done = project.run("implement", delegator="doer", task="x")
    assert [worker.wait(60) for worker in workers] == [0]
    assert done.verdict == "verified"
    assert notes(project, done.id)[-1].startswith(
        f"The result is not on the branch understudy/doer/implement-{done.id}: git took"
    )
    assert project.git("branch", "--list", "understudy/*") == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *[("done", "must contain `{id}`"), ("-{id}", "begin with a hyphen"), ("{id}" + "x" * 200, "longer than 200")],
        *[(name, "slash") for name in ("{id}/", "a//{id}", "/{id}")],
        *[(name, "dot") for name in ("{id}/../x", ".{id}", "{id}.", "a/.b/{id}", "{id}..x")],
        *[(name, ".lock") for name in ("{id}.lock", "a/{id}.lock/b")],
        *[("{id} x", "' '"), ("{id}@{x", "'{'"), ("{id}~1", "'~'"), ("@{id}{", "'{'"), ("{id}/ü", "'ü'")],
        *[(name, "no placeholder {nope}; there are {id}, {recipe}, {delegator}") for name in ("{nope}/{id}", "{nope}")],
    ],
)
def test_a_name_that_is_not_a_branch_is_refused_with_its_own_reason(name: str, reason: str) -> None:
    assert reason in (delegators.why_invalid_branch(name) or "")


@given(st.text(alphabet="ab./-@{}+_ ~^:?*[\\", max_size=8), st.text(alphabet="ab./-@{}+_", max_size=8))
def test_git_accepts_every_name_that_is_valid(before: str, after: str) -> None:
    template = f"{before}{{id}}{after}"
    if delegators.why_invalid_branch(template) is not None:
        return
    name = delegators.branch_name(template, "20260101-000000-abcde", "tests", "worker")
    # The rules of git-check-ref-format(1).
    parts = name.split("/")
    assert all(part and not part.startswith(".") and not part.endswith((".lock", ".")) for part in parts)
    assert not any(text in name for text in ("..", "@{", "//", " ", "~", "^", ":", "?", "*", "[", "\\"))
    assert name[0] not in "-/"
