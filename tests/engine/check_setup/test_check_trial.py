"""Test that a check is tried in a copy of the current files, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from wait_until import until

from understudy.engine.check_setup import check_trial
from understudy.engine.check_setup.check_trial import CheckTrialRequest
from understudy.journal import delegation_folder
from understudy.model.delegation.spec import Bootstrap
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check


def git(project: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    (root / "kept.txt").write_text("committed\n")
    (root / ".gitignore").write_text("ignored\n")
    (root / "ignored").write_text("ignored\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "start")
    (root / "kept.txt").write_text("changed\n")
    (root / "new.txt").write_text("untracked\n")
    return root


def request(project: Path, code: str, *, copy=(), setup=(), **fields) -> CheckTrialRequest:
    bootstrap = Bootstrap(copy=list(copy), link=[], setup=list(setup), setup_timeout_seconds=20.0)
    check = Check(name="tried", argv=[sys.executable, "-c", code], **fields)
    return CheckTrialRequest(workspace=str(project), check=check, bootstrap=bootstrap)


def trials() -> list[Path]:
    folder = delegation_folder.state_root() / "check-trials"
    return list(folder.iterdir()) if folder.exists() else []


def state_of(project: Path) -> tuple[str, str, list[str]]:
    return git(project, "status", "--short"), git(project, "for-each-ref"), sorted(os.listdir(project / ".git"))


def test_it_sees_the_current_files_and_changes_none(project):
    before = state_of(project)
    code = (
        "import os; print(sorted(os.listdir('.'))); print(open('kept.txt').read(), open('new.txt').read());"
        "open('kept.txt', 'w').write('written by the check'); print('3 passed, 1 skipped in 0.1s')"
    )
    trial = check_trial.ask(request(project, code), lambda: False)
    assert trial.ok, trial
    assert "changed\n untracked" in trial.output_tail
    assert "'ignored'" not in trial.output_tail
    assert trial.seconds > 0
    assert (project / "kept.txt").read_text() == "changed\n"
    assert state_of(project) == before
    assert trials() == []


def test_a_failure_has_its_exit_code_and_output(project):
    trial = check_trial.ask(request(project, "import sys; print('why'); sys.exit(3)"), lambda: False)
    assert (trial.ok, trial.exit_code, trial.timed_out) == (False, 3, False)
    assert "why" in trial.output_tail


def test_a_generated_module_that_is_missing_is_named(project):
    (project / ".gitignore").write_text("_version.py\n")
    package = project / "src" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "_version.py").write_text("VERSION = '1'\n")
    code = "import sys; sys.path.insert(0, 'src'); import shop._version"
    trial = check_trial.ask(request(project, code), lambda: False)
    assert not trial.ok
    assert any('add `worktrees.copy = ["src/shop/_version.py"]`' in note for note in trial.notes), trial.notes
    copied = check_trial.ask(request(project, code, copy=["src/shop/_version.py"]), lambda: False)
    assert copied.ok, copied
    unknown = check_trial.ask(request(project, "import no_such_module"), lambda: False)
    assert not any("no_such_module" in note for note in unknown.notes)


def test_a_missing_program_is_a_failure_with_a_reason(project):
    wish = request(project, "")
    wish.check.argv[:] = ["no-such-runner"]
    trial = check_trial.ask(wish, lambda: False)
    assert (trial.ok, trial.exit_code) == (False, None)
    assert "no-such-runner" in trial.output_tail


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        (".venv/bin/python", "Write {python}, which is the project's own Python."),
        (".venv/bin/python3.11", "Write {python}, which is the project's own Python."),
        (".venv/bin/lint", "Write lint: its folder is on PATH."),
        ("node_modules/.bin/vitest", 'Set `link = ["node_modules"]` or a setup command'),
        ("web/node_modules/.bin/vitest", 'Set `link = ["web/node_modules"]` or a setup command'),
        ("vendor/bin/phpunit", 'Set `link = ["vendor"]` or a setup command'),
    ],
)
def test_a_program_that_git_ignores_is_named(project, program, advice):
    (project / ".gitignore").write_text(".venv\nnode_modules\nvendor\n")
    file = project / program
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    if program.startswith(".venv"):
        (project / ".venv" / "pyvenv.cfg").touch()
    wish = request(project, "")
    wish.check.argv[:] = [program]
    trial = check_trial.ask(wish, lambda: False)
    assert not trial.ok
    assert any(f"{program} is ignored by git, so checks do not have it. {advice}" in note for note in trial.notes), (
        trial
    )
    wish.check.argv[:] = ["no/such/program"]
    assert not any("ignored by git" in note for note in check_trial.ask(wish, lambda: False).notes)


def test_its_time_is_limited(project):
    trial = check_trial.ask(request(project, "import time; time.sleep(60)", timeout_seconds=0.3), lambda: False)
    assert (trial.ok, trial.timed_out) == (False, True)
    assert trials() == []


def test_worktrees_get_extra_files_and_the_set_up(project):
    setup = [sys.executable, "-c", "open('installed', 'w').close()"]
    code = "open('installed'); open('ignored')"
    assert check_trial.ask(request(project, code, copy=["ignored"], setup=setup), lambda: False).ok
    with pytest.raises(UnderstudyError) as caught:
        check_trial.ask(request(project, code, setup=[sys.executable, "-c", "raise SystemExit(2)"]), lambda: False)
    assert caught.value.kind is ErrorKind.TOOL_CRASHED
    assert "exit code 2" in caught.value.message
    assert trials() == []


def test_cancelling_ends_it(project, tmp_path):
    started = tmp_path / "started"
    wish = request(project, f"import time; open({str(started)!r}, 'w').close(); time.sleep(60)")
    with pytest.raises(UnderstudyError) as caught:
        check_trial.ask(wish, started.exists)
    assert caught.value.kind is ErrorKind.CANCELLED


def test_the_folder_of_a_killed_worker_is_removed_by_the_next_trial(project, tmp_path):
    started = tmp_path / "started"
    wish = request(project, f"import time; open({str(started)!r}, 'w').close(); time.sleep(60)")
    argv = [sys.executable, "-P", "-m", "understudy", "worker", check_trial.OPTION]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as worker:
        assert worker.stdin is not None
        worker.stdin.write(msgspec.json.encode(wish))
        worker.stdin.close()
        until(started.exists)
        check_trial.remove_abandoned(delegation_folder.state_root())
        running = [path for path in trials() if path.is_dir()]
        assert len(running) == 1, "the folder of a running worker is kept"
        os.kill(worker.pid, signal.SIGKILL)
    until(lambda: check_trial.remove_abandoned(delegation_folder.state_root()) or trials() == [])
