"""Test the commands that manage checks, in a real repository."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from project_python import project_python

from understudy.api.messages import ListResult
from understudy.frontends.cli import app
from understudy.frontends.cli.calls import api_calls
from understudy.frontends.cli.setup import checks
from understudy.frontends.cli.terminal import terminal
from understudy.model.hunks import Review
from understudy.model.states import State
from understudy.model.verdicts import Verdict


@pytest.fixture
def repository(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    top = tmp_path / "project"
    top.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=top, check=True)
    (top / "Makefile").write_text("test:\n\t@echo 2 passed in 0.1s\n")
    monkeypatch.chdir(top)
    return top


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app.group, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code, result.output
    return result.output


def test_the_suggested_check_is_tried_saved_listed_and_removed(repository: Path) -> None:
    assert "make test  found in Makefile" in run("checks")
    with pytest.raises(Exception, match="is not trusted"):
        run("checks", "add")
    run("trust", "--yes")
    assert "It passes" in run("checks", "add")
    saved = repository / ".understudy" / "checks" / "make.toml"
    assert saved.is_file()
    listed = json.loads(run("checks", "list", "--json"))
    assert [(one["check"]["name"], one["scope"]) for one in listed["checks"]] == [("make", "workspace")]
    assert [one["configured"] for one in listed["proposals"]] == [True]
    assert "It passes" in run("checks", "test", "make")
    run("checks", "remove", "make")
    assert not saved.exists()


def test_all_checks_run_on_the_current_files(repository: Path) -> None:
    run("trust", "--yes")
    output = run("checks", "test")
    assert "make\n" in output, "the suggested one, without saving it"
    assert "It passes" in output
    assert not (repository / ".understudy" / "checks").exists()
    run("checks", "add", "own", "--no-test", "--", "test", "-f", "new.txt")
    run("checks", "add", "style", "--no-test", "--optional", "--", "false")
    assert "It fails with exit code 1" in run("checks", "test", code=1)
    (repository / "new.txt").write_text("not committed\n")
    trials = json.loads(run("checks", "test", "--json"))
    assert {name: trial["ok"] for name, trial in trials.items()} == {"own": True, "style": False}
    run("checks", "test", "style", code=1)


def test_what_comes_after_adding_a_check(repository: Path, monkeypatch: pytest.MonkeyPatch, delegation: Any) -> None:
    run("trust", "--yes")
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    assert "next: understudy start tests FILE\n" in click.unstyle(run("checks", "add"))
    untested = run("checks", "add", "other", "--no-test", "--", "true")
    assert "next: understudy checks test other\n" in click.unstyle(untested)
    run("checks", "remove", "make")

    def call(method: str, /, **given: Any) -> Any:
        if method != "delegations/list":
            return api_calls.call(method, **given)
        pending = Review(pending=1, accepted=0, rejected=0)
        one = delegation(state=State.FINISHED, verdict=Verdict.UNVERIFIED, review=pending)
        return ListResult(delegations=[one])

    monkeypatch.setattr(checks, "call", call)
    assert "next: understudy check k3f9q\n" in click.unstyle(run("checks", "add"))


def test_a_failing_check_is_saved_only_on_request(repository: Path) -> None:
    run("trust", "--yes")
    command = ["--", sys.executable, "-c", "print('why it fails'); raise SystemExit(1)"]
    output = run("checks", "add", "own", *command, code=1)
    assert "exit code 1" in output
    assert "why it fails" in output
    assert not (repository / ".understudy" / "checks").exists()
    run("checks", "add", "own", "--no-test", "--optional", *command)
    assert "required = false" in (repository / ".understudy" / "checks" / "own.toml").read_text()


def test_doctor_says_what_is_missing_for_the_first_delegation(repository: Path) -> None:
    def doctor() -> str:
        # What else it finds depends on the machine.
        return CliRunner().invoke(app.group, ["doctor"], standalone_mode=False).output

    (repository / "pyproject.toml").write_text("")
    assert f"! trust: You have not trusted {repository}: no delegation starts there yet.\n    See what" in doctor()
    assert "interpreter:" not in doctor(), "no program of an untrusted workspace runs"
    run("trust", "--yes")
    assert f"✓ trust: You trust {repository}.\n" in doctor()
    venv.create(repository / ".venv", symlinks=True)
    found = doctor()
    assert f"! interpreter: Tests of this project run with Python {platform.python_version()} at {repository}" in found
    assert f"Install it there: {repository}/.venv/bin/python -m pip install pytest hypothesis\n" in found
    [libraries] = (repository / ".venv").glob("lib/python*/site-packages")
    (libraries / "pytest.py").touch()
    assert "✓ interpreter: " in doctor()


def test_trust_and_doctor_say_what_the_tests_of_a_service_need(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = repository / "api"
    (service / "tests").mkdir(parents=True)
    (service / "pyproject.toml").write_text('[project.optional-dependencies]\ntest = ["pytest", "numerics-x"]\n')
    (service / "tests" / "test_a.py").write_text("open('was_run', 'w').close()\nimport numerics_x\n")
    (repository / ".understudy").mkdir()
    (repository / ".understudy" / "config.toml").write_text(f'[environment]\npython = "{project_python()}"\n')

    def doctor() -> str:
        arguments = ["doctor", "--json"]
        return CliRunner().invoke(app.group, arguments, standalone_mode=False).output

    monkeypatch.chdir(service)
    assert "interpreter" not in doctor()
    assert not (service / "was_run").exists(), "no test of an untrusted workspace is loaded"
    said = run("trust", "--yes")
    assert (service / "was_run").exists()
    why = "tests/test_a.py:2 cannot be loaded: numerics_x is not installed in the project's environment."
    assert re.search(rf"✗ interpreter: Tests in api run with Python \S+ at \S+\. {re.escape(why)}\n", said)
    hint = f"In api: Install what the project declares: {project_python()} -m pip install -e '.[test]'"
    assert f"    {hint}\n" in said
    [found] = [check for check in json.loads(doctor())["checks"] if check["name"] == "interpreter"]
    assert (found["ok"], found["hint"], found["remedy"]["folder"]) == (False, hint, "api")
    (service / ".gitignore").write_text("numerics_x.py\n")
    [found] = [check for check in json.loads(doctor())["checks"] if check["name"] == "interpreter"]
    assert found["hint"] == 'Add `worktrees.copy = ["api/numerics_x.py"]` to .understudy/config.toml.'
    assert found["remedy"]["paths"] == ["api/numerics_x.py"]
    monkeypatch.chdir(repository)
    assert "interpreter" not in doctor(), "the top is not a Python project"


def test_doctor_says_that_a_project_has_no_python(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "pyproject.toml").write_text("")
    run("trust", "--yes")
    programs = repository.parent / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(programs))
    found = CliRunner().invoke(app.group, ["doctor"], standalone_mode=False).output
    assert (
        "! interpreter: No Python was found for this project.\n"
        "    Install Python 3, then create its environment: python3 -m venv .venv\n"
    ) in found


def test_pytest_of_the_environment_is_proposed_and_runs(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "Makefile").unlink()
    venv.create(repository / ".venv", symlinks=True)
    [libraries] = (repository / ".venv").glob("lib/python*/site-packages")
    (libraries / "pytest").mkdir()
    (libraries / "pytest" / "__init__.py").touch()
    main = libraries / "pytest" / "__main__.py"
    main.write_text("print('1 passed in 0.1s')")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # no other pytest
    assert "pytest  {python} -m pytest  found in .venv/lib/python" in run("checks")
    run("trust", "--yes")
    assert "It passes" in run("checks", "add", "pytest")
    assert "pytest  {python} -m pytest" in run("checks")


def test_a_check_without_tests_says_so(repository: Path) -> None:
    run("trust", "--yes")
    output = run("checks", "add", "own", "--", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", code=1)
    assert "✗ No test ran (exit code 5)" in output
    assert "let some be written first (understudy start tests FILE)" in output


def test_every_text_about_a_missing_check_has_an_example(repository: Path) -> None:
    (repository / "Makefile").unlink()
    example = "understudy checks add tests -- {python} -m pytest"
    assert example in run("checks")
    with pytest.raises(click.UsageError, match=re.escape(example)):
        run("checks", "add")
    with pytest.raises(click.UsageError, match=re.escape(example.replace("tests", "unit"))):
        run("checks", "add", "unit")
    shown = run("checks", "add", "--help")
    assert "understudy checks add lint -- {python} -m ruff check ." in shown
    assert "`{python}` is the project's own Python" in " ".join(shown.split())


def test_doctor_proposes_a_check_and_then_names_it(repository: Path) -> None:
    def doctor() -> str:
        # What else it finds depends on the machine.
        return CliRunner().invoke(app.group, ["doctor"], standalone_mode=False).output

    assert "None is configured. This project uses make test (Makefile)." in doctor()
    assert "understudy checks add" in doctor()
    run("trust", "--yes")
    run("checks", "add")
    assert "Results are checked with: make." in doctor()


def test_doctor_proposes_no_check_that_cannot_run(repository: Path) -> None:
    (repository / "Makefile").unlink()
    (repository / "package.json").write_text('{"devDependencies": {"vitest": "3"}, "scripts": {"test": "vitest run"}}')
    (repository / "node_modules").mkdir()
    shown = CliRunner().invoke(app.group, ["doctor"], standalone_mode=False).output
    problem = "Worktrees have no node_modules."
    assert f"! checks: None is configured. This project uses Vitest (package.json). {problem}\n" in shown
    assert '    Set `link = ["node_modules"]`' in shown
    assert "understudy checks add" not in shown
