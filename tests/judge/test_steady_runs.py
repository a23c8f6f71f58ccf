"""Tests that pass and fail on the same files, and tests whose run changes the files."""

from __future__ import annotations

import time
from typing import Any

import pytest

from understudy.judge.runs.check_run import faketime
from understudy.judge.runs.repeated_runs import variations
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

HONEST = "from calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
NAMED = Check(name="new", argv=["{python}", "-m", "pytest", "-q", "{tests}"])

DEPENDS = {
    "order": "\nSEEN = []\n\ndef test_first():\n    SEEN.append(add(1, 1))\n\ndef test_second():\n    assert SEEN == [2]\n",
    "time zone": "\ndef test_second():\n    import time\n    assert add(time.timezone, 0) == 0\n",
    "date": "\ndef test_second():\n    import datetime\n    today = datetime.date.today()\n    assert today == datetime.datetime.now(datetime.timezone.utc).date() and add(0, 0) == 0\n",
    "hash seed": "\ndef test_second():\n    import os\n    assert os.environ.get('PYTHONHASHSEED') is None and add(0, 0) == 0\n",
}


@pytest.mark.parametrize(
    "kinds",
    [("hash seed", "order", "time zone"), pytest.param(("date",), marks=pytest.mark.heavy)],
    ids=" and ".join,
)
async def test_tests_that_depend_on_circumstances_are_flaky(
    project: Any, monkeypatch: Any, kinds: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    names = {kind: f"test_{kind.replace(' ', '_')}" for kind in kinds}
    text = HONEST + "".join(DEPENDS[kind].replace("test_second", name) for kind, name in names.items())
    judged = await project.judge({"test_calc.py": text})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.FLAKY)
    assert judged.only.ok
    assert judged.only.flaky
    assert sorted(judged.only.flaky_tests) == [f"test_calc.py::{name}" for name in names.values()]
    assert "test_calc.py::test_" in judged.notes
    assert "TZ=" in judged.notes, "the circumstances, so that a person can repeat them"


@pytest.mark.heavy
@pytest.mark.skipif(not faketime(), reason="libfaketime is not installed")
async def test_a_test_that_passes_until_next_year_is_flaky(project: Any) -> None:
    text = "\ndef test_second():\n    import datetime\n    year = datetime.date.today().year\n"
    text += f"    assert year - {time.localtime().tm_year} < 1 and add(0, 0) == 0\n"
    judged = await project.judge({"test_calc.py": HONEST + text})
    assert Reservation.FLAKY in judged.said
    assert judged.only.flaky_tests == ["test_calc.py::test_second"]
    assert "FAKETIME=+366d" in judged.notes


@pytest.mark.heavy
async def test_a_test_that_fails_at_random_is_flaky_although_the_first_run_is_green(
    project: Any, tmp_path: Any
) -> None:
    count = tmp_path / "count"
    text = f"\ndef test_second():\n    with open({str(count)!r}, 'a+') as f:\n        f.write('x')\n        assert f.tell() != 4 and add(0, 0) == 0\n"
    judged = await project.judge({"test_calc.py": HONEST + text})
    assert Reservation.FLAKY in judged.said
    assert judged.only.flaky_tests == ["test_calc.py::test_second"]


@pytest.mark.heavy
async def test_a_test_that_failed_first_is_named(project: Any, tmp_path: Any) -> None:
    mark = tmp_path / "ran"
    text = f"\ndef test_second():\n    import pathlib\n    mark = pathlib.Path({str(mark)!r})\n    ran = mark.exists()\n    mark.touch()\n    assert ran and add(0, 0) == 0\n"
    judged = await project.judge({"test_calc.py": HONEST + text})
    assert Reservation.FLAKY in judged.said
    assert judged.only.flaky_tests == ["test_calc.py::test_second"]


async def test_unittest_runs_in_another_order_too(project: Any) -> None:
    project.environment("iniconfig")
    text = "import unittest\nimport calc\n\nSEEN = []\n\nclass T(unittest.TestCase):\n    def test_1(self):\n        SEEN.append(calc.add(1, 1))\n\n    def test_2(self):\n        self.assertEqual(SEEN, [calc.add(1, 1)])\n"
    judged = await project.judge({"test_calc.py": text})
    assert Reservation.FLAKY in judged.said
    assert [name.rpartition(".")[2] for name in judged.only.flaky_tests] == ["test_2"]


@pytest.mark.heavy
async def test_other_recipes_with_a_check_of_the_new_tests_are_run_again(project: Any) -> None:
    judged = await project.judge(
        {"test_calc.py": HONEST + DEPENDS["order"]}, recipe="implement", writes=["**"], checks=(NAMED,)
    )
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.FLAKY)


@pytest.mark.heavy
async def test_earlier_tests_that_need_an_order_are_not_the_results_fault(project: Any) -> None:
    project.has({"test_calc.py": HONEST + DEPENDS["order"]})
    added = "\ndef test_new():\n    assert add(2, 2) == 4\n"
    judged = await project.judge({"test_calc.py": HONEST + DEPENDS["order"] + added})
    assert judged.is_(Verdict.VERIFIED)
    assert "with and without this result" in judged.notes


async def test_an_honest_test_costs_three_more_runs_in_a_time_zone_that_is_pinned(
    project: Any, monkeypatch: Any, tmp_path: Any
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    check = Check(name="new", argv=NAMED.argv, env={"TZ": "UTC"})
    count = tmp_path / "count"
    text = f"\nwith open({str(count)!r}, 'a') as f:\n    f.write('x')\n"
    judged = await project.judge(
        {"test_calc.py": HONEST + DEPENDS["time zone"] + text}, recipe="implement", writes=["**"], checks=(check,)
    )
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    assert count.stat().st_size == 4


def test_the_same_tree_is_run_in_the_same_circumstances() -> None:
    assert variations("tree") == variations("tree")
    assert variations("tree") != variations("other")
    assert len({variation.time_zone for variation in variations("tree")}) == 3


async def test_a_run_that_changes_a_tracked_file_is_reserved(project: Any) -> None:
    swap = "import pathlib\n\ndef test_swap():\n    from calc import add\n    assert add(1, 1) == 2\n    pathlib.Path('calc.py').write_text('def add(a, b):\\n    return 0\\n')\n"
    judged = await project.judge({"test_calc.py": swap})
    assert judged.verdict is Verdict.UNVERIFIED
    assert Reservation.TREE_CHANGED in judged.said
    assert judged.only.changed_files == ["calc.py"]
    assert "calc.py" in judged.notes


COMPLETES = "pathlib.Path('Cargo.lock').write_text('version = 4')\n"


async def test_caches_untracked_files_and_a_lock_file_that_the_runner_completes_change_nothing(project: Any) -> None:
    project.has({"Cargo.lock": "version = 3\n"})
    text = HONEST + "\nimport pathlib\npathlib.Path('report.xml').write_text('x')\npathlib.Path('calc.py').touch()\n"
    judged = await project.judge({"test_calc.py": text + COMPLETES})
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.changed_files is None


@pytest.mark.heavy
async def test_a_lock_file_of_the_result_that_a_run_changes_is_reserved(project: Any) -> None:
    project.has({"Cargo.lock": "version = 3\n"})
    text = HONEST + "\nimport pathlib\n" + COMPLETES
    judged = await project.judge({"test_calc.py": text, "Cargo.lock": "version = 5\n"}, writes=["*"])
    assert Reservation.TREE_CHANGED in judged.said
