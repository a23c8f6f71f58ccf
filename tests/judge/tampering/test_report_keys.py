"""Which processes get a key to sign the report of a check, and that it is nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

MAKE = Check(name="make", argv=["make", "-s", "test"])
OLD = "import calc\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
CHANGE = {"calc.py": "def add(a, b):\n    return b + a\n"}

ANCESTORS = """
import json, os, re, socket, subprocess, sys, time

def ancestors():
    pid = os.getpid()
    while pid > 1:
        with open(f"/proc/{pid}/environ") as file:
            yield file.read().split("\\0")
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
"""

NO_KEY = (
    ANCESTORS
    + """
def test_no_key():
    seen = list(ancestors())
    assert len(seen) > 2
    assert not re.search(r"[0-9a-f]{64}", repr(seen)), seen
"""
)

ASK = (
    ANCESTORS
    + """
ASK = '''
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(20)
try:
    connection.connect(sys.argv[1])
    answer = connection.recv(999)
except OSError:
    answer = b"refused"
with open(sys.argv[2], "ab") as file:
    file.write(answer + b".")
'''

def test_ask():
    for line in sum(ancestors(), []):
        name, _, value = line.partition("=")
        if value.startswith("{") and "keys" in value:
            run(json.loads(value)["keys"])
            break
"""
)
RUN = {
    "the process": "def run(path):\n    sys.argv[1:] = [path, ANSWERS]\n    exec(ASK)\n",
    "a child": "def run(path):\n    subprocess.run([sys.executable, '-c', ASK, path, ANSWERS])\n",
    "an orphan": """
def run(path):
    read, write = os.pipe()
    if not os.fork():
        middle = os.getpid()
        if not os.fork():
            os.setsid()
            while os.getppid() == middle:
                time.sleep(0.001)
            os.set_inheritable(write, True)
            os.execve(sys.executable, [sys.executable, '-c', ASK, path, ANSWERS], {})
        os._exit(0)
    os.close(write)
    assert os.read(read, 1) == b''
""",
    "a program instead of this one": "def run(path):\n    os.execv(sys.executable, [sys.executable, '-c', ASK, path, ANSWERS])\n",
}


@pytest.mark.heavy
async def test_no_environment_of_make_or_a_shell_has_the_key(project: Any) -> None:
    project.has({"Makefile": "test:\n\t@sh ./run.sh || exit 1\n", "run.sh": "pytest -q\ntrue\n", "test_old.py": OLD})
    judged = await project.judge(CHANGE | {"test_new.py": NO_KEY}, recipe="implement", checks=(MAKE,))
    assert judged.only.ok, judged.only.output


@pytest.mark.heavy
@pytest.mark.parametrize("way", RUN)
async def test_what_tests_start_gets_no_key(project: Any, way: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    project.has({"Makefile": "test:\n\tpytest -q\n", "test_old.py": OLD})
    text = f"ANSWERS = {str(answers)!r}\n{ASK}{RUN[way]}"
    judged = await project.judge(CHANGE | {"test_new.py": text}, recipe="implement", checks=(MAKE,))
    assert set(answers.read_bytes()) == set(b"."), "asked, and got nothing"
    if way == "an orphan":
        return
    assert judged.verdict is not Verdict.VERIFIED
    if judged.only.ok:
        assert Reservation.TAMPERED in judged.said
        assert any("asked for the key of the report" in text for text in judged.only.tampered), judged.only.tampered


WAYS = {
    "two at the same time": {"Makefile": "MAKEFLAGS += -j2\ntest: a b\na:\n\tpytest -q test_old.py\nb:\n\tpytest -q\n"},
    "python, which closes descriptors": {
        "Makefile": "test:\n\tpython run.py\n",
        "run.py": "import subprocess\nfor args in (['test_old.py'], []):\n    subprocess.run(['pytest', '-q', *args], check=True)\n",
    },
    "a shell without descriptors": {
        "Makefile": "test:\n\tsh -c 'exec 3>&- 4>&- 5>&- 6>&- </dev/null; pytest -q test_old.py && pytest -q'\n"
    },
    "npm": {
        "Makefile": "test:\n\tnpm --offline test\n",
        "package.json": '{"scripts": {"test": "pytest -q test_old.py && pytest -q"}}',
    },
}


@pytest.mark.heavy
@pytest.mark.parametrize("way", WAYS)
async def test_each_test_run_gets_a_key_whatever_started_it(project: Any, way: str) -> None:
    if way == "npm" and shutil.which("npm") is None:
        pytest.skip("no npm here")
    project.has({**WAYS[way], "test_old.py": OLD})
    judged = await project.judge(CHANGE, recipe="implement", checks=(MAKE,))
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.passed == 1, "the same test in both runs, as both report"
