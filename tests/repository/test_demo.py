"""The demo shows true verdicts and leaves no files outside of its folder."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "scripts" / "demo.py"
SECONDS = 240


def demo(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo with its own temporary directory; capture standard output and error together."""
    scratch = tmp_path / "tmp"
    scratch.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UNDERSTUDY_")}
    return subprocess.run(
        [sys.executable, str(DEMO), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**environment, "TMPDIR": str(scratch)},
        cwd=tmp_path,
        check=False,
        timeout=SECONDS,
    )


def the_folder(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "tmp").glob("understudy-demo-*")
    return found


@pytest.mark.parametrize(
    ("name", "said"),
    [("missing.py", "does not exist"), ("not-a-module.py", "cannot be imported"), ("data.txt", "cannot be imported")],
)
def test_a_file_that_cannot_be_tested_is_refused_at_once(tmp_path: Path, name: str, said: str):
    if name != "missing.py":
        (tmp_path / name).touch()
    done = demo(tmp_path, "--file", name)
    assert done.returncode == 2
    assert said in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


def test_folders_of_earlier_demos_go_and_those_in_use_stay(tmp_path: Path):
    scratch = tmp_path / "tmp"
    names = {name: scratch / f"understudy-demo-{os.getuid()}-{name}" for name in ("old", "running")}
    for folder in names.values():
        folder.mkdir(parents=True)
    other = scratch / "understudy-demo-of-another-kind"
    other.mkdir()
    program = f"import sys; sys.path.insert(0, {str(DEMO.parent)!r}); import demo; demo.remove_old_demos()"
    with (names["running"] / ".in-use").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(scratch)}, check=True, timeout=30
        )
    assert sorted(path.name for path in scratch.iterdir()) == sorted([names["running"].name, other.name])


@pytest.mark.smoke
@pytest.mark.heavy
def test_the_demo_ends_verified(tmp_path: Path, own_home: Path):
    done = demo(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "VERIFIED" in done.stdout
    assert "+++ b/tests/" in done.stdout
    folder = the_folder(tmp_path)
    assert str(folder / "project") in done.stdout
    assert "make demo DELEGATOR=liar" in done.stdout
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=folder / "project", capture_output=True, check=True, timeout=30
    )
    assert status.stdout == b"", "the agent works in its own worktree"
    touched = [path for path in own_home.rglob("*") if path.is_file()]
    assert touched == [], "no file of the user is written"
    name = re.search(r"understudy show (\S+)", done.stdout)[1]
    shown = subprocess.run(
        [folder / "understudy", "show", name],
        cwd=folder / "project",
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert "VERIFIED" in shown.stdout


@pytest.mark.heavy
def test_a_test_that_cannot_fail_is_not_verified(tmp_path: Path):
    done = demo(tmp_path, "--delegator", "liar")
    assert done.returncode == 1, done.stdout
    assert "UNVERIFIED" in done.stdout
    assert re.search(r"no.mutant.killed", done.stdout)


@pytest.mark.heavy
def test_a_module_of_the_user(tmp_path: Path):
    (tmp_path / "adding.py").write_text(
        '"""Sums."""\n\n\ndef add(left: int, right: int) -> int:\n    """Return the sum."""\n    return left + right\n'
    )
    done = demo(tmp_path, "--file", "adding.py")
    assert done.returncode == 0, done.stdout
    assert "tests for yours/adding.py" in done.stdout
