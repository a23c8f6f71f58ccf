"""Installing the engine from wheels as the extension does: hashes, the program, and what stays out."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "unpack_wheels.py"

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the scripts are not here")


@pytest.fixture
def wheels(tmp_path):
    folder = tmp_path / "the wheels"
    folder.mkdir()
    shutil.copy2(SCRIPT, folder)
    return folder


def wheel(folder, package, text):
    path = folder / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{package}/__init__.py", "")
        archive.writestr(f"{package}/__main__.py", text)
        archive.writestr(f"{package}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"


def run(wheels, home):
    script = wheels / "unpack_wheels.py"
    return subprocess.run([sys.executable, "-I", script, home], check=False, capture_output=True, text=True)


MAIN = """
import importlib.metadata, sys, other

def main():
    print(sys.argv[1:], importlib.metadata.version("other"), sys.prefix)
    return 3
"""


def test_the_program_runs_in_its_own_environment(wheels, tmp_path):
    listed = wheel(wheels, "understudy", MAIN) + wheel(wheels, "other", "")
    (wheels / f"python3.{sys.version_info.minor}.txt").write_text(listed)
    home = tmp_path / "a folder with spaces" / "engine"
    done = run(wheels, home)
    assert (done.returncode, done.stdout.split()) == (0, ["1/2", "2/2"]), done.stderr
    answer = subprocess.run([home / "bin" / "understudy", "a", "b c"], check=False, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (3, f"['a', 'b c'] 1.0 {home}\n"), answer.stderr
    assert not list(home.rglob("pip")), "nothing installs anything there later"


def test_a_wheel_that_is_not_the_listed_one_is_not_used(wheels, tmp_path):
    listed = wheel(wheels, "understudy", MAIN)
    (wheels / f"python3.{sys.version_info.minor}.txt").write_text(listed)
    wheel(wheels, "understudy", MAIN + "# changed\n")
    done = run(wheels, tmp_path / "engine")
    assert done.returncode == 1
    assert done.stderr == "understudy-1.0-py3-none-any.whl is damaged: its hash is not the one in the list.\n"
    assert not list((tmp_path / "engine").rglob("understudy"))


def test_another_python_is_refused_before_anything_is_written(wheels, tmp_path):
    done = run(wheels, tmp_path / "engine")
    assert done.stderr == f"There are no wheels for Python 3.{sys.version_info.minor}.\n"
    assert not (tmp_path / "engine").exists()
