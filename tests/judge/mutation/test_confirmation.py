"""Kills are confirmed in a fresh clone: a test that compares the code with itself notices nothing there."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from understudy.judge.check_findings import read_record
from understudy.judge.mutant_runners.mutant_runs import MutantResult
from understudy.judge.mutation import confirmation
from understudy.judge.mutation.confirmation import Confirmation, confirm
from understudy.judge.runs import check_run
from understudy.judge.runs.check_run import CheckContext, CheckOutcome
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check, MutantStatus
from understudy.model.verdicts import Reservation, Verdict
from understudy.mutants.generate import mutants_of
from understudy.process.programs.children import why_nothing_is_hidden

SNAPSHOT = """\
import json, os, pathlib, tempfile
import calc

def test_add():
    file = pathlib.Path({place}) / "add.json"
    value = [calc.add(1, 2), calc.add(5, 5)]
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    assert json.loads(file.read_text()) == value
"""
PLACES = {
    "the folder for temporary files": "tempfile.gettempdir()",
    "the home": "pathlib.Path.home() / '.cache' / 'understudy-test-snapshot'",
    "the cache": "os.environ.get('XDG_CACHE_HOME', pathlib.Path.home() / '.cache') + '/understudy-test-snapshot'",
}


@pytest.mark.parametrize("place", PLACES)
async def test_a_snapshot_that_a_test_writes_itself_notices_nothing(
    project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    judged = await project.judge({"test_calc.py": SNAPSHOT.format(place=PLACES[place])})
    assert judged.verdict is Verdict.UNVERIFIED
    assert Reservation.TAMPERED in judged.said
    assert "in a fresh clone, a small change in line 2 of calc.py makes no test fail" in judged.only.tampered[0]


@pytest.mark.parametrize("place", ["committed", "linked"])
async def test_a_snapshot_that_was_there_before_is_honest(project: Any, place: str) -> None:
    for folder in (project.checkout / "linked", project.tree.path):
        folder.mkdir(parents=True)
    (project.checkout / "linked" / "add.json").write_text("[3, 10]")
    (project.tree.path / "linked").symlink_to(project.checkout / "linked")
    project.tree.linked = ("linked",)
    text = SNAPSHOT.format(place=f"pathlib.Path(__file__).parent / '{place}'")
    judged = await project.judge({"test_calc.py": text, "committed/add.json": "[3, 10]"}, writes=["*"])
    assert judged.verdict is Verdict.VERIFIED, judged.notes


COPY = """\
import contextlib, pathlib, types
import calc

def test_add():
    before = types.ModuleType("before")
    with contextlib.suppress(OSError):
        exec(pathlib.Path({place!r}, "calc.py").read_text(), before.__dict__)
        assert [calc.add(1, 2), calc.add(5, 5)] == [before.add(1, 2), before.add(5, 5)]
"""


async def test_a_comparison_with_the_checkout_notices_nothing(project: Any, tmp_path: Path) -> None:
    if why := await why_nothing_is_hidden():
        pytest.skip(why)
    judged = await project.judge({"test_calc.py": COPY.format(place=str(project.checkout))}, reports=tmp_path)
    record = read_record(tmp_path)
    assert record is not None
    how = [run.circumstances for run in record.checks[0].runs if "fresh" in run.circumstances]
    assert how == ["without Understudy's report, in a fresh clone"], "whether anything was hidden is recorded"
    assert judged.verdict is Verdict.UNVERIFIED
    assert Reservation.TAMPERED in judged.said
    assert "in a fresh clone, a small change in line 2 of calc.py makes no test fail" in judged.only.tampered[0]


CALC = "def add(a, b):\n    return a + b\n"
HONEST = "import calc\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
GIT = """\
import subprocess, types
import calc

def test_add():
    before = subprocess.run(["git", "show", "HEAD:calc.py"], capture_output=True, text=True, check=True).stdout
    module = types.ModuleType("before")
    exec(before, module.__dict__)
    assert calc.add(1, 2) == module.add(1, 2)
"""


@pytest.mark.parametrize(
    ("text", "confirmed", "unchanged_fails"),
    [
        pytest.param(COPY, False, False, id="another copy"),
        pytest.param(COPY.replace("OSError", "TypeError"), False, True, id="a copy that must be there"),
        pytest.param(GIT, False, False, id="the committed code"),
        pytest.param(HONEST, True, False, id="honest"),
        pytest.param(
            "import calc, pathlib\n\ndef test_add():\n    assert (pathlib.Path.home() / 'model').exists()\n"
            "    assert calc.add(1, 2) == 3\n",
            False,
            True,
            id="it needs the home",
        ),
        pytest.param(
            "import os\n\ndef test_add():\n    assert os.environ['TMPDIR'].endswith('/judging')\n",
            False,
            True,
            id="it runs nowhere else",
        ),
        pytest.param(
            "import calc, hashlib, pathlib\n\ndef test_add():\n    calc.add(1, 2)\n"
            "    text = pathlib.Path(calc.__file__).read_bytes()\n"
            f"    assert hashlib.sha256(text).hexdigest() == '{hashlib.sha256(CALC.encode()).hexdigest()}'\n",
            True,
            False,
            id="the text of the code",
        ),
    ],
)
async def test_the_mutant_is_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, confirmed: bool, unchanged_fails: bool
) -> None:
    shown = await confirmed_in_clone(tmp_path, monkeypatch, text)
    assert shown.looks_at_source == ("hashlib" in text)
    assert (not shown.unconfirmed and not shown.unchanged_fails, shown.unchanged_fails) == (confirmed, unchanged_fails)


async def test_where_nothing_can_be_hidden_the_runs_see_the_checkout_and_that_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    async def refuse_to_hide(plan: PreparedCheck, setting: CheckContext, *, bare: bool) -> CheckOutcome:
        starts.append(bool(setting.hidden))
        if setting.hidden:
            return check_run._not_started(
                ["pytest"], UnderstudyError(ErrorKind.ISOLATION_UNAVAILABLE, "A mount failed.")
            )
        return await check_run.run_once(plan, setting, bare=bare)

    async def nothing() -> str:
        return ""

    monkeypatch.setattr(confirmation, "why_nothing_is_hidden", nothing)
    monkeypatch.setattr(confirmation, "run_once", refuse_to_hide)
    shown = await confirmed_in_clone(tmp_path, monkeypatch, HONEST)
    assert shown.unchanged is not None
    assert (shown.unchanged.green, shown.unchanged.hidden, shown.unconfirmed) == (True, False, ())
    assert starts == [True, False, False], "it tries to hide only once"


SHARED = """\
import pathlib
import calc

def test_add():
    value = str(calc.add(1, 2))
    for place in {places!r}:
        file = pathlib.Path(place)
        if not file.exists():
            file.write_text(value)
        assert file.read_text() == value
"""


async def test_a_snapshot_in_a_folder_that_all_programs_share_notices_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := await why_nothing_is_hidden():
        pytest.skip(why)
    folders = [folder for folder in ("/tmp", "/var/tmp", "/dev/shm") if Path(folder).is_dir()]
    with contextlib.ExitStack() as files:
        kept = [files.enter_context(tempfile.NamedTemporaryFile(dir=folder, suffix="-add")) for folder in folders]
        for file in kept:
            file.write(b"3")
            file.flush()
        text = SHARED.format(places=[file.name for file in kept])
        shown = await confirmed_in_clone(tmp_path, monkeypatch, text)
    assert (bool(shown.unconfirmed), shown.unchanged_fails) == (True, False)


async def confirmed_in_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Confirmation:
    """Confirm one kill of a test in a fresh clone of a small project."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in ("home", "scratch", "original", "copy", "home/model"):
        (tmp_path / folder).mkdir(exist_ok=True)
    for folder in ("original", "copy"):
        (tmp_path / folder / "calc.py").write_text(CALC)
        (tmp_path / folder / "test_calc.py").write_text(text.replace("{place!r}", repr(str(tmp_path / "original"))))
    tree = tmp_path / "copy"
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "commit", "-qm", "Base"]
    for arguments in (["init", "-q"], ["add", "."], commit):
        subprocess.run(["git", *arguments], cwd=tree, check=True)
    check = Check(
        name="suite", argv=[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], timeout_seconds=60
    )
    context = CheckContext(
        tree=tree,
        workspace=tmp_path / "original",
        scratch=tmp_path / "scratch",
        temporary=tmp_path / "judging",
        mark="x",
    )
    mutant = next(mutant for mutant in mutants_of("calc.py", CALC.encode()) if mutant.operator == "arithmetic")
    kill = MutantResult(path="calc.py", mutant=mutant, status=MutantStatus.KILLED)
    shown = await confirm(PreparedCheck(check=check), context, tmp_path / "original", [kill])
    assert (tree / "calc.py").read_text() == CALC, "the mutant is gone"
    return shown
