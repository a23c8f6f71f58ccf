"""The verbs do what their lines in `make help` say, on a machine that has nothing but Python, git and make."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
SECONDS = 60


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


def test_help_names_every_verb():
    makefile = (TOP / "Makefile").read_text()
    verbs = set(re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split())
    said = run("make", "-s", "help", cwd=TOP).stdout
    assert set(re.findall(r"^  make (\S+)", said, re.MULTILINE)) == verbs


@pytest.mark.parametrize("script", ["extension", "vscode.py", "package_extension.py"])
def test_a_script_of_the_extension_says_what_it_can_and_does_nothing_else(script: str):
    path = TOP / "scripts" / script
    argv = [sys.executable, path] if path.suffix else [path]
    asked = run(*argv, "--help", cwd=TOP)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "Node" in asked.stdout
    mistyped = run(*argv, "--tset", cwd=TOP)
    assert (mistyped.returncode, mistyped.stdout) == (2, "")
    assert mistyped.stderr


def test_every_verb_of_the_extension_is_explained():
    text = (TOP / "scripts" / "extension").read_text()
    verbs = re.search(r"^([a-z |]+)\) verb=", text, re.MULTILINE)[1].split(" | ")
    said = run(TOP / "scripts" / "extension", "help", cwd=TOP).stdout
    assert re.findall(r"^  scripts/extension (\S+)  +\S", said, re.MULTILINE) == verbs
    scripts = json.loads((TOP / "vscode-extension" / "package.json").read_text())["scripts"]
    assert set(verbs) - {"packages"} <= scripts.keys()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout without .venv, and beside it a folder ``bin`` that can stand for the whole PATH."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(TOP / "scripts" / "setup", checkout / "scripts" / "setup")
    for name in ("dirname", "touch", "sh"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    return checkout


def test_setup_says_what_is_missing(bare: Path):
    done = run("scripts/setup", cwd=bare, PATH=str(bare.parent / "bin"))
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
    assert "make setup PYTHON=" in done.stderr
    assert not (bare / ".venv").exists()


def test_setup_names_the_python_that_is_too_old(bare: Path):
    program(bare.parent / "bin", "python3", 'case "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac')
    done = run("scripts/setup", cwd=bare, PATH=str(bare.parent / "bin"))
    assert done.returncode == 1
    assert "python3 is 3.9.2" in done.stderr


def test_setup_takes_a_later_candidate(bare: Path):
    folder = bare.parent / "bin"
    program(folder, "python3", 'case "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac')
    program(folder, "python3.12", 'case "$2" in *platform*) echo 3.12.0;; *ensurepip*) exit 0;; *) exit 7;; esac')
    done = run("scripts/setup", cwd=bare, PATH=str(folder))
    assert "python3.12 (3.12.0)" in done.stdout
    assert done.returncode == 7, "it stops where making the environment stops"
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
    assert len(calls) == 3
    assert all("--no-deps --no-build-isolation" in call for call in calls)
    assert sum("--require-hashes" in call for call in calls) == 2


@pytest.fixture
def heavy(tmp_path: Path) -> Path:
    """A project whose heavy tests are written by the test."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = heavy\naddopts = -p no:cacheprovider\n")
    return tmp_path


def e2e(project: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    (project / "test_heavy.py").write_text(
        "\n".join(["import pathlib, pytest", "pytestmark = pytest.mark.heavy", *lines]) + "\n"
    )
    return run(sys.executable, TOP / "scripts" / "e2e.py", cwd=project, PYTHONDONTWRITEBYTECODE="1")


ONCE = (
    "def test_second_time():",
    "    seen = pathlib.Path('seen')",
    "    if not seen.exists():",
    "        seen.touch()",
    "        assert False, 'the first time'",
)


def test_a_heavy_test_gets_a_second_chance_and_both_results_are_shown(heavy: Path):
    done = e2e(heavy, *ONCE, "def test_good():", "    pass")
    assert done.returncode == 0
    assert "the first time" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "test_heavy.py::test_second_time PASSED" in done.stdout
    assert "First run: 1 failed. Second run: passed." in done.stdout


def test_a_heavy_test_that_fails_twice_fails(heavy: Path):
    done = e2e(heavy, *ONCE, "@pytest.mark.parametrize('x', ['a b', '[c]'])", "def test_bad(x):", "    assert False")
    assert done.returncode == 1
    assert "First run: 3 failed. Second run: failed again." in done.stdout
    assert "2 failed, 1 passed" in done.stdout


def test_what_cannot_be_collected_is_not_tried_again(heavy: Path):
    done = e2e(heavy, "import nothing_of_this_name")
    assert done.returncode != 0
    assert "once more" not in done.stdout


def test_no_heavy_test_at_all_is_no_success(heavy: Path):
    assert e2e(heavy).returncode == 5


def test_without_a_browser_the_tests_in_vs_code_are_skipped_with_a_sentence(
    heavy: Path, monkeypatch: pytest.MonkeyPatch
):
    (heavy / "vscode-extension" / "e2e").mkdir(parents=True)
    (heavy / "vscode-extension" / "e2e" / "run.ts").touch()
    monkeypatch.setenv("PATH", str(heavy / "empty"))
    done = e2e(heavy, "def test_good():", "    pass")
    assert done.returncode == 0
    said = done.stdout.splitlines()[-1]
    assert said.startswith("Heavy tests: passed. VS Code: skipped. ")
    assert "on PATH" in said or "run on Linux" in said


def test_ci_runs_every_verb_and_says_which_failed(tmp_path: Path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(TOP / ".ci" / "run", tmp_path / ".ci" / "run")
    program(tmp_path / "bin", "make", "for last; do :; done", 'echo "ran $last"', '[ "$last" != test ]')
    program(tmp_path / "bin", "id", "echo 1000")  # somebody who may not install anything
    done = run(".ci/run", cwd=tmp_path, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert re.findall(r"^ran (\w+)", done.stdout, re.MULTILINE) == ["setup", "test", "lint", "e2e", "package"]
    assert "failed: test\n" in done.stderr
