"""The make targets do what `make help` says, on a machine with only Python, git and make."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
SECONDS = 240


def program(folder: Path, name: str, *lines: str) -> Path:
    """An executable shell script in ``folder``."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def run(*argv: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, argv)),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def test_help_lists_every_target():
    makefile = (TOP / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split())
    said = run("make", "-s", "help", cwd=TOP).stdout
    assert set(re.findall(r"^  make (\S+)", said, re.MULTILINE)) == targets


@pytest.mark.parametrize("script", ["extension", "vscode.py", "package_extension.py"])
def test_help_of_a_script_has_no_side_effect(script: str):
    path = TOP / "scripts" / script
    argv = [sys.executable, path] if path.suffix else [path]
    asked = run(*argv, "--help", cwd=TOP)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "Node" in asked.stdout
    mistyped = run(*argv, "--tset", cwd=TOP)
    assert (mistyped.returncode, mistyped.stdout) == (2, "")
    assert mistyped.stderr


def test_every_extension_command_is_documented():
    text = (TOP / "scripts" / "extension").read_text()
    commands = re.search(r"^([a-z |]+)\) command=", text, re.MULTILINE)[1].split(" | ")
    said = run(TOP / "scripts" / "extension", "help", cwd=TOP).stdout
    assert re.findall(r"^  scripts/extension (\S+)  +\S", said, re.MULTILINE) == commands
    scripts = json.loads((TOP / "vscode-extension" / "package.json").read_text())["scripts"]
    assert set(commands) - {"packages"} <= scripts.keys()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout without .venv, and a folder ``bin`` next to it that can replace PATH."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(TOP / "scripts" / "setup", checkout / "scripts" / "setup")
    for name in ("dirname", "touch", "sh"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    return checkout


def test_setup_reports_a_missing_python(bare: Path):
    done = run("scripts/setup", cwd=bare, PATH=str(bare.parent / "bin"))
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
    assert "make setup PYTHON=" in done.stderr
    assert not (bare / ".venv").exists()


def test_setup_reports_an_old_python(bare: Path):
    program(bare.parent / "bin", "python3", 'case "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac')
    done = run("scripts/setup", cwd=bare, PATH=str(bare.parent / "bin"))
    assert done.returncode == 1
    assert "python3 is 3.9.2" in done.stderr


def test_setup_uses_a_later_candidate(bare: Path):
    folder = bare.parent / "bin"
    program(folder, "python3", 'case "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac')
    program(folder, "python3.12", 'case "$2" in *platform*) echo 3.12.0;; *ensurepip*) exit 0;; *) exit 7;; esac')
    done = run("scripts/setup", cwd=bare, PATH=str(folder))
    assert "python3.12 (3.12.0)" in done.stdout
    assert done.returncode == 7, "it stops when creating the environment fails"
    assert not (bare / ".venv" / ".setup-complete").exists()


def test_setup_keeps_a_working_environment(bare: Path):
    log = bare.parent / "log"
    program(bare.parent / "bin", "python3", "exit 1")
    (bare / ".venv").mkdir()
    program(bare / ".venv" / "bin", "python", f'echo "$@" >>{log}')
    (bare / ".venv" / "precious").touch()
    done = run("scripts/setup", cwd=bare, PATH=str(bare.parent / "bin"))
    assert done.returncode == 0, done.stderr
    assert (bare / ".venv" / "precious").exists()
    assert (bare / ".venv" / ".setup-complete").exists()
    calls = log.read_text().splitlines()[1:]
    *calls, compiled = calls
    assert compiled == "-m compileall -q sidecar"
    assert len(calls) == 3
    assert all("--no-deps --no-build-isolation" in call for call in calls)
    assert sum("--require-hashes" in call for call in calls) == 2


@pytest.fixture
def heavy(tmp_path: Path) -> Path:
    """A project whose heavy tests the test writes."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  heavy\n  smoke\naddopts = -p no:cacheprovider\n")
    return tmp_path


def e2e(project: Path, *lines: str, arguments: tuple[str, ...] = ("-n0",)) -> subprocess.CompletedProcess[str]:
    (project / "test_heavy.py").write_text(
        "\n".join(["import pathlib, pytest", "pytestmark = pytest.mark.heavy", *lines]) + "\n"
    )
    # Only the plugins that the script needs: the others take a second to load, in each process of pytest-xdist again.
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,pytest_timeout"}
    return run(
        sys.executable, TOP / "scripts" / "e2e.py", *arguments, cwd=project, PYTHONDONTWRITEBYTECODE="1", **plugins
    )


def test_a_failed_heavy_test_is_not_repeated(heavy: Path):
    done = e2e(
        heavy, "def test_bad():", "    with open('runs', 'a') as file:", "        file.write('x')", "    assert False"
    )
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert (heavy / "runs").read_text() == "x"


def test_smoke_runs_the_tests_with_its_mark(heavy: Path):
    lines = "@pytest.mark.smoke", "def test_one():", "    pass", "def test_other():", "    assert False"
    done = e2e(heavy, *lines, arguments=("--smoke", "-n0"))
    assert done.returncode == 0
    assert "1 passed, 1 deselected" in done.stdout


def test_no_heavy_test_is_an_error(heavy: Path):
    assert e2e(heavy).returncode == 5


def test_without_a_browser_the_vscode_tests_are_skipped_with_a_message(heavy: Path, monkeypatch: pytest.MonkeyPatch):
    (heavy / "vscode-extension" / "e2e").mkdir(parents=True)
    (heavy / "vscode-extension" / "e2e" / "run.ts").touch()
    monkeypatch.setenv("PATH", str(heavy / "empty"))
    done = e2e(heavy, "def test_good():", "    pass", arguments=())
    assert done.returncode == 0
    said = done.stdout.splitlines()[-1]
    assert said.startswith("Heavy tests: passed. VS Code: skipped. ")
    assert "on PATH" in said or "run on Linux" in said


def test_ci_runs_every_target_and_reports_failures(tmp_path: Path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(TOP / ".ci" / "run", tmp_path / ".ci" / "run")
    noted = '{ echo "test_a.py::test_b: why" >>"$UNDERSTUDY_FAILURES"; exit 1; }'
    program(tmp_path / "bin", "make", 'echo "ran $1"', f'[ "$1" != test ] || {noted}')
    program(tmp_path / "bin", "timeout", "shift 2", '[ "$2" != lint ] || exit 124', 'exec "$@"')
    program(tmp_path / "bin", "id", "echo 1000")  # not root: nothing is installed
    done = run(".ci/run", cwd=tmp_path, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert re.findall(r"^ran (\w+)", done.stdout, re.MULTILINE) == ["setup", "test", "smoke", "package"]
    assert "make lint took longer than 900 s and was interrupted.\n" in done.stdout, "printed when the tests have ended"
    assert done.stderr.endswith("test_a.py::test_b: why\nFailed: test lint\n")


@pytest.mark.heavy
def test_failed_tests_are_noted_for_the_end_of_the_ci_run(tmp_path: Path):
    shutil.copy(TOP / "tests" / "conftest.py", tmp_path)
    broken = "@pytest.fixture\ndef broken():\n    raise OSError('no disk')\n"
    tests = "def test_good():\n    pass\n\ndef test_bad():\n    assert 1 == 2\n\ndef test_error(broken):\n    pass\n"
    (tmp_path / "test_it.py").write_text(f"import pytest\n\n{broken}\n{tests}")
    noted, support = tmp_path / "failures", str(TOP / "tests" / "support")
    for options in ((), ("-n", "1")):
        noted.unlink(missing_ok=True)
        run(
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *options,
            "test_it.py",
            cwd=tmp_path,
            UNDERSTUDY_FAILURES=str(noted),
            PYTHONPATH=support,
        )
        lines = noted.read_text().splitlines()
        assert lines == ["test_it.py::test_bad: assert 1 == 2", "test_it.py::test_error: OSError: no disk"], options
