"""Real pytest runs on mutants: what is killed, what survives, and what proves nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from understudy.judge.mutant_runners import python_tests
from understudy.judge.mutant_runners.mutant_runs import Lane, MutantRuns, PlannedRun, RecordedTests, run_mutants
from understudy.judge.mutant_runners.python_tests import PytestRunner, TestEnvironment, record
from understudy.judge.project.interpreter import PROBE_FOLDER
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.controls import decoy, other_text, same_bytes
from understudy.mutants.generate import Mutant, mutants_of
from understudy.process.call_checks import base_environment
from understudy.process.program_spec import TreeLimits

CALC = """\
RATE = 2

def double(x):
    return x * RATE

def sign(x):
    if x < 0:
        return -1
    return 1

def unused(x):
    return x + 1
"""
TESTS = """\
from calc import double, sign

def test_double():
    assert double(4) == 8

def test_sign():
    assert sign(5) == 1
"""


LIGHT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""A project without plugins starts several times faster than the environment of these tests."""


class Place:
    """A tree with a module and its tests."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.helpers = folder / "helpers"
        self.helpers.mkdir()
        scratch = folder / "scratch"
        scratch.mkdir()
        self.where = TestEnvironment(
            python=sys.executable,
            environment=base_environment(
                {"PYTHONPATH": f"{PROBE_FOLDER}:{self.helpers}", "HOME": str(self.helpers), **LIGHT}
            ),
            tree=self.tree,
            scratch=scratch,
            mark="20261122-100000-mutants",
        )
        self.files = ["test_calc.py"]
        self.has("calc.py", CALC)

    def has(self, name: str, text: str) -> None:
        (self.tree / name).write_text(text)

    async def record(self, tests: str = TESTS) -> RecordedTests:
        self.has(self.files[0], tests)
        return await record(self.where, ["calc.py"], self.files, seconds=60)

    async def run(self, recorded: RecordedTests, planned: Sequence[PlannedRun], seconds: float = 60) -> MutantRuns:
        before = {path: path.read_bytes() for path in self.tree.iterdir() if path.is_file()}
        lane = Lane(runner=PytestRunner(self.where, self.files))
        runs = await run_mutants([lane], recorded, planned, seconds=seconds)
        assert {path: path.read_bytes() for path in self.tree.iterdir() if path.is_file()} == before
        return runs

    async def judge(self, tests: str = TESTS, *, seconds: float = 60) -> MutantRuns:
        recorded = await self.record(tests)
        return await self.run(recorded, self.plan(recorded), seconds)

    def plan(self, recorded: RecordedTests) -> list[PlannedRun]:
        return [
            PlannedRun(path="calc.py", mutant=one, tests=tuple(recorded.tests_of("calc.py", one)))
            for one in mutants_of("calc.py", (self.tree / "calc.py").read_bytes())
        ]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def statuses(runs: MutantRuns) -> dict[str, str]:
    return {f"{one.mutant.function} {one.mutant.operator} {one.mutant.line}": one.status.value for one in runs.results}


CHILDREN = """\
import os, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from calc import double, sign

def test_own_environment():
    code = "import calc; print(calc.double(4))"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": os.getcwd()}, capture_output=True)
    assert done.stdout == b"8\\n"

def test_fork():
    child = os.fork()
    if not child:
        os._exit(sign(5))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1

def test_pool():
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        assert list(pool.map(sign, [-5])) == [-1]

def test_nothing():
    pass
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Python 3.12, for a fork beside threads
async def test_lines_that_other_processes_execute_are_those_of_the_test(place: Place) -> None:
    lines = (await place.record(CHILDREN)).lines["calc.py"]
    found = {test.partition("::")[2]: seen for test, seen in lines.items()}
    assert found["test_own_environment"] >= {4}
    assert found["test_fork"] == {7, 9}
    assert found["test_pool"] == {7, 8}
    assert "test_nothing" not in found


async def test_which_test_executes_which_line(place: Place) -> None:
    recorded = await place.record(f"{TESTS}\ndef test_red():\n    assert double(1) == 3\n")
    assert set(recorded.passed) == {"test_calc.py::test_double", "test_calc.py::test_sign"}
    assert recorded.failed == {"test_calc.py::test_red"}
    lines = recorded.lines["calc.py"]
    assert lines["test_calc.py::test_double"] == {4}
    assert lines["test_calc.py::test_sign"] == {7, 9}
    assert lines[""] >= {1, 3, 6, 11}


async def test_killed_survived_and_not_executed(place: Place) -> None:
    runs = await place.judge()
    assert runs.complete
    assert runs.kept
    assert statuses(runs) == {
        " number 1": "Killed",
        "double return 4": "Killed",
        "double arithmetic 4": "Killed",
        "sign condition 7": "Killed",
        "sign comparison 7": "Survived",
        "sign number 7": "Survived",
        "sign return 8": "NoCoverage",
        "sign number 8": "NoCoverage",
        "sign return 9": "Killed",
        "sign number 9": "Killed",
        "unused return 12": "NoCoverage",
        "unused arithmetic 12": "NoCoverage",
        "unused number 12": "NoCoverage",
    }
    by_line = {one.mutant.line: one for one in runs.results if one.status is MutantStatus.KILLED}
    assert by_line[4].killers == ("test_calc.py::test_double",)


SUBTESTS = """\
import unittest
from calc import double, sign

def ran(test):
    with open({ran!r}, "a") as file:
        file.write(test)

class Many(unittest.TestCase):
    def test_it(self):
        for number in range(1, 9):
            with self.subTest(number=number):
                ran("u")
                self.assertEqual(double(number), number + number)
        sign(5)

def test_many(subtests):
    for number in range(1, 9):
        with subtests.test(number=number):
            ran("p")
            assert double(number) == number + number
    sign(5)
"""


async def test_subtests_are_counted_once(place: Place) -> None:
    ran = place.helpers / "ran"
    recorded = await place.record(SUBTESTS.format(ran=str(ran)))
    tests = {"test_calc.py::Many::test_it", "test_calc.py::test_many"}
    assert set(recorded.passed) == tests
    assert {test: recorded.lines["calc.py"][test] for test in tests} == {test: {4, 7, 9} for test in tests}
    [mutant] = [run for run in place.plan(recorded) if run.mutant.operator == "arithmetic" and run.mutant.line == 4]
    ran.unlink()
    runs = await place.run(
        recorded, [replace(mutant, to_the_end=True), replace(mutant, tests=("test_calc.py::test_many",))]
    )
    assert [sorted(result.killers) for result in runs.results] == [sorted(tests), ["test_calc.py::test_many"]]
    # Before mutants are tried, all run on the code as it is.
    assert {test: ran.read_text().count(test) for test in "up"} == {"u": 8 + 1, "p": 8 + 8 + 1}


async def test_tests_that_look_at_no_value_kill_only_what_raises(place: Place) -> None:
    runs = await place.judge("from calc import *\ndef test_it():\n    double(4)\n    assert sign(5) == sign(5)\n")
    assert {one.status for one in runs.results} == {MutantStatus.SURVIVED, MutantStatus.NO_COVERAGE}


@pytest.mark.heavy
async def test_a_new_interpreter_for_each_mutant_gives_the_same_results(place: Place) -> None:
    forked = await place.judge()
    # The tests need a module outside the tree that loads the code under test, so the runner would keep it.
    (place.helpers / "helper.py").write_text("import calc\n")
    fresh = await place.judge(f"import helper\n{TESTS}")
    assert (forked.kept, fresh.kept) == (True, False)
    assert statuses(fresh) == statuses(forked)


def count_configurations(place: Place, plugin: Path) -> Path:
    """Load a plugin; return a file with one line for each time that pytest read its configuration."""
    log = place.helpers / "configured"
    plugin.write_text(f"def pytest_addoption():\n    open({str(log)!r}, 'a').write('once\\n')\n")
    place.where = replace(
        place.where, environment={**place.where.environment, "PYTEST_ADDOPTS": f"-p {plugin.stem} --strict-markers"}
    )
    return log


async def test_pytest_is_configured_once_for_all_mutants(place: Place) -> None:
    place.has("conftest.py", "import calc\ndef pytest_configure(config):\n    assert config.option.strict_markers\n")
    log = count_configurations(place, place.helpers / "counting.py")
    runs = await place.judge()
    assert runs.kept
    assert statuses(runs)["sign condition 7"] == "Killed", "the conftest.py loads the mutant"
    assert statuses(runs)["sign comparison 7"] == "Survived"
    assert log.read_text().splitlines() == ["once"] * 2, "by the recorded run, and before all others"


async def test_test_files_in_two_folders_may_have_two_configurations(place: Place) -> None:
    log = count_configurations(place, place.helpers / "counting.py")
    place.files = ["test_calc.py", "more/test_more.py"]
    (place.tree / "more").mkdir()
    (place.tree / "more" / "pytest.ini").write_text("[pytest]\n")
    place.has("more/test_more.py", "def test_more(pytestconfig):\n    import calc; assert calc.double(1) == 2\n")
    runs = await place.judge()
    assert runs.kept
    assert len(log.read_text().splitlines()) == 2 + len([one for one in runs.results if one.ran])


async def test_a_plugin_of_the_project_is_loaded_for_each_mutant(place: Place) -> None:
    log = count_configurations(place, place.tree / "own.py")
    place.has("own.py", f"import calc\n{(place.tree / 'own.py').read_text()}")
    recorded = await place.record()
    assert recorded.early
    runs = await place.run(recorded, place.plan(recorded))
    assert runs.kept
    assert statuses(runs)["sign condition 7"] == "Killed"
    assert len(log.read_text().splitlines()) == 2 + len([one for one in runs.results if one.ran])


@pytest.mark.heavy
async def test_a_recorded_run_cannot_make_mutants_share_a_plugin_of_the_project(place: Place) -> None:
    count_configurations(place, place.tree / "own.py")
    place.has("own.py", f"import calc\n{(place.tree / 'own.py').read_text()}")
    recorded = replace(await place.record(), early=False)
    runs = await place.run(recorded, place.plan(recorded))
    assert not runs.kept
    assert statuses(runs)["sign condition 7"] == "Killed"


async def test_the_process_for_mutants_starts_before_it_is_needed(place: Place) -> None:
    """It loads nothing from the tree then: tests write there while they are recorded."""
    (place.tree / "src").mkdir()
    searched = place.where.environment["PYTHONPATH"] + f":{place.tree / 'src'}:{place.tree / 'src'}"
    place.where = replace(place.where, environment={**place.where.environment, "PYTHONPATH": searched})
    place.has("src/twice.py", "FACTOR = 2\n")
    tests = f"import os, twice\n{TESTS}\ndef test_path():\n    assert os.environ['PYTHONPATH'] == {searched!r}\n"
    recorded = await place.record(tests)
    started = place.helpers / "started"
    place.has("src/pluggy.py", f"open({str(started)!r}, 'a').close()\n")
    runner = PytestRunner(place.where, place.files)
    await runner.start()
    async with asyncio.timeout(30):
        while len(list(place.where.scratch.glob("*/out.jsonl"))) < 2:  # one is of the recorded run
            await asyncio.sleep(0.01)
    (place.tree / "src" / "pluggy.py").unlink()
    runs = await run_mutants([Lane(runner=runner)], recorded, place.plan(recorded), seconds=60)
    assert statuses(runs)["sign condition 7"] == "Killed"
    assert not started.exists()


async def test_what_cannot_be_loaded_was_not_killed(place: Place) -> None:
    recorded = await place.record()
    [one, *_] = place.plan(recorded)
    broken = replace(one, mutant=replace(one.mutant, text=b"("))
    missing = replace(one, mutant=replace(one.mutant, start=0, end=len(CALC), text=b""))
    runs = await place.run(recorded, [broken, missing, one])
    assert [result.status.value for result in runs.results] == ["CompileError", "CompileError", "Killed"]


async def test_a_mutant_that_never_ends_is_stopped_and_counts(place: Place) -> None:
    place.has("calc.py", "def count(n):\n    while n > 0:\n        n -= 1\n    return n\n")
    runs = await place.judge("import calc\ndef test_it():\n    assert calc.count(3) == 0\n")
    assert "Timeout" in statuses(runs).values()


async def test_a_run_that_ends_early_proves_nothing(place: Place) -> None:
    recorded = await place.record()
    place.has("test_calc.py", f"import os, calc\nif calc.double(1) != 2: os._exit(0)\n{TESTS}")
    runs = await place.run(recorded, place.plan(recorded))
    assert statuses(runs)["double arithmetic 4"] == "Pending"


async def test_a_mutant_that_crashes_the_interpreter_is_killed(place: Place) -> None:
    place.has("calc.py", "import os\ndef stop(really):\n    if really:\n        os.abort()\n    return 1\n")
    runs = await place.judge("import calc\ndef test_it():\n    calc.stop(False)\n")
    assert statuses(runs)["stop condition 3"] == "Killed"


async def test_tests_that_fail_without_a_mutant_teach_nothing(place: Place) -> None:
    recorded = await place.record()
    place.has("test_calc.py", TESTS.replace("== 8", "== 9"))
    runs = await place.run(recorded, place.plan(recorded))
    assert {one.status for one in runs.results} == {MutantStatus.PENDING, MutantStatus.NO_COVERAGE}


async def test_the_time_of_all_mutants_is_limited(place: Place) -> None:
    recorded = await place.record(f"import time\n{TESTS}    time.sleep(0.4)\n")
    runs = await place.run(recorded, place.plan(recorded) * 40, seconds=3)
    assert not runs.complete
    assert {MutantStatus.PENDING, MutantStatus.KILLED} <= {one.status for one in runs.results}


LOOKING = {
    "size": f"import pathlib\n    assert pathlib.Path('calc.py').stat().st_size == {len(CALC)}",
    "spaces": "import inspect\n    assert 'return x * RATE' in inspect.getsource(calc.double)",
    "count": "import os\n    assert os.system('echo >> $HOME/runs; test $(wc -l < $HOME/runs) -lt 4') == 0",
}
"""What tests look at instead of values."""


async def test_sham_mutants_expose_tests_that_do_not_look_at_values(place: Place) -> None:
    looking = "".join(
        f"\ndef test_{name}():\n    import calc; calc.double(1)\n    {looks}\n" for name, looks in LOOKING.items()
    )
    recorded = await place.record(TESTS + looking)
    shams = [
        PlannedRun(path="calc.py", mutant=one, tests=tuple(recorded.passed), sham=True)
        for one in (same_bytes(CALC.encode()), other_text("calc.py", CALC.encode(), "seed"))
    ]
    runs = await place.run(recorded, [*shams, *shams])
    assert {killer for one in runs.results for killer in one.killers} == {
        f"test_calc.py::test_{name}" for name in LOOKING
    }
    assert all(one.sham for one in runs.results)


async def test_a_snapshot_of_a_test_notices_no_place(place: Place, tmp_path: Path) -> None:
    """Runs without a changed place have a home and temporary files of their own, even where these were looked up."""
    shared = tmp_path / "shared"
    shared.mkdir()
    environment = {**place.where.environment, "TMPDIR": str(shared)}
    place.where = replace(place.where, environment=environment, temporary=shared, own_folders=("HOME", "TMPDIR"))
    (place.helpers / "looked_up.py").write_text("import tempfile\ntempfile.gettempdir()\n")
    recorded = await place.record(
        "import looked_up, pathlib, tempfile\nimport calc\n\n\ndef test_snapshot():\n"
        "    kept = pathlib.Path(tempfile.gettempdir(), 'kept')\n"
        "    kept.exists() or kept.write_text(str(calc.double(1)))\n"
        "    assert kept.read_text() == str(calc.double(1))\n"
    )
    runs = [run for run in place.plan(recorded) if run.mutant.function == "double"]
    assert MutantStatus.KILLED in {result.status for result in (await place.run(recorded, runs)).results}
    undone = [replace(run, of_place=True) for run in runs]
    assert MutantStatus.KILLED not in {result.status for result in (await place.run(recorded, undone)).results}
    assert [file.name for file in shared.iterdir() if file.is_dir() and not file.name.startswith("pytest")] == []


READING = {
    "tree": "'op=Mult' in ast.dump(ast.parse(pathlib.Path('calc.py').read_text()))",
    "source": "re.search(r'x +[*] +RATE', inspect.getsource(calc.double))",
}


async def test_a_decoy_exposes_tests_that_read_the_source(place: Place) -> None:
    reading = "".join(
        f"\ndef test_{name}():\n    calc.double(1)\n    assert {condition}\n" for name, condition in READING.items()
    )
    recorded = await place.record(f"import ast, inspect, pathlib, re\nimport calc\n{TESTS}{reading}")
    assert recorded.compiled == {"calc.py"}
    changed = decoy(CALC.encode(), mutants_of("calc.py", CALC.encode()))
    run = PlannedRun(path="calc.py", mutant=changed, tests=tuple(recorded.passed), sham=True, decoy=True)
    runs = await place.run(recorded, [run, *place.plan(recorded), run])
    for place_of_decoy in (0, -1):
        assert set(runs.results[place_of_decoy].killers) == {f"test_calc.py::test_{name}" for name in READING}
    assert statuses(runs)["double arithmetic 4"] == "Killed", "compiled files of the decoy do not stay"


@pytest.mark.parametrize(
    "way",
    ["import runpy; runpy.run_path('calc.py')", "import os, sys; assert os.system(sys.executable + ' calc.py') == 0"],
    ids=["in the process", "in another"],
)
async def test_a_file_that_runs_from_its_text_gets_no_decoy(place: Place, way: str) -> None:
    recorded = await place.record(f"{TESTS}\ndef test_script():\n    {way}\n")
    assert recorded.lines["calc.py"]["test_calc.py::test_script"]
    assert recorded.compiled == frozenset()


async def test_nothing_shows_a_test_that_it_runs_on_a_mutant(place: Place) -> None:
    spy = (
        "import json, os, sys, pathlib, calc\n"
        "def test_spy():\n"
        "    calc.double(1)\n"
        "    seen = [sorted(os.environ.items()), sys.argv[:5], sys.orig_argv[:5], sys.modules['__main__'].__file__,\n"
        "            sorted(name for name in sys.modules), sorted(os.listdir('.')), sorted(os.listdir('/proc/self/fd'))[:3],\n"
        "            open('/proc/self/cmdline').read().count('child')]\n"
        "    with open(os.environ['HOME'] + '/spy', 'a') as stream:\n"
        "        stream.write(json.dumps(seen) + '\\n')\n"
    )
    runs = await place.judge(spy)
    seen = (place.helpers / "spy").read_text().splitlines()
    assert len(seen) > len([one for one in runs.results if one.ran]) >= 3
    assert len(set(seen[1:])) == 1, "the runs on mutants and the one on the code as it is look the same"
    _, arguments, _, program, modules, *_ = json.loads(seen[-1])
    assert program == arguments[0]
    assert program.endswith("pytest/__main__.py")
    assert not [name for name in modules if "understudy" in name or (name.startswith("m") and len(name) == 13)]


async def test_processes_that_a_test_leaves_behind_are_killed(place: Place, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    leaves = f"import subprocess\ndef test_leaves():\n    import calc; calc.double(1)\n    subprocess.Popen(['sh', '-c', 'while :; do echo >> {beats}; sleep 0.02; done'])\n"
    recorded = await place.record()
    place.has("test_calc.py", TESTS + leaves)
    recorded = await record(place.where, ["calc.py"], ["test_calc.py"], seconds=60)
    await place.run(recorded, place.plan(recorded)[:2])
    size = beats.stat().st_size
    runs = await place.run(recorded, [])
    assert runs.results == []
    assert beats.stat().st_size == size


async def test_tests_that_cannot_start_are_told(place: Place) -> None:
    place.where = replace(place.where, environment={**place.where.environment, "PYTEST_ADDOPTS": "--no-such-option"})
    with pytest.raises(UnderstudyError, match="could not be run") as caught:
        await place.record()
    assert "no-such-option" in (caught.value.hint or "")


@pytest.mark.heavy
async def test_code_that_loads_slowly_is_not_stuck(place: Place) -> None:
    place.has("calc.py", f"import time\n\ntime.sleep(4)\n{CALC}")
    recorded = await place.record()
    planned = [run for run in place.plan(recorded) if run.tests and run.mutant.function][:1]
    runs = await place.run(recorded, planned)
    assert [one.status for one in runs.results] == [MutantStatus.KILLED]
    assert runs.kept, "the run on the unchanged code ended within its limit"


GREEDY = "import time\ndef size(n):\n    held = b'x' * (n * 1)\n    if len(held) > 1000:\n        time.sleep(0.9)\n    return len(held)\n"


async def test_a_mutant_that_uses_up_the_memory_is_ended_as_one_without_end(place: Place) -> None:
    place.has("calc.py", GREEDY)
    place.where = replace(place.where, limits=TreeLimits(memory_bytes=200 << 20))
    recorded = await place.record("from calc import size\n\ndef test_size():\n    assert size(1) == 1\n")
    at = GREEDY.index("* 1)") + 2
    made = Mutant(
        start=at, end=at + 1, text=b"(300 << 20)", operator="x", line=3, first_line=3, last_line=3, function="size"
    )
    tests = tuple(recorded.tests_of("calc.py", made))
    planned = [PlannedRun(path="calc.py", mutant=each, tests=tests) for each in (made, replace(made, text=b"2"))]
    runs = await place.run(recorded, planned)
    assert [one.status for one in runs.results] == [MutantStatus.TIMEOUT, MutantStatus.KILLED]


async def test_tests_that_use_up_the_memory_are_reported(place: Place) -> None:
    place.where = replace(place.where, limits=TreeLimits(memory_bytes=150 << 20))
    with pytest.raises(UnderstudyError) as caught:
        await place.record("def test_it():\n    held = b'x' * (200 << 20)\n    import time; time.sleep(600)\n")
    assert caught.value.kind is ErrorKind.RESOURCE_LIMIT
    assert caught.value.message.startswith("The test run of a mutant ")


@pytest.mark.parametrize(
    ("output", "end"),
    [
        ("....F [ 5%]\n......  [ 15%]\n", "It ended without a word, at 15% of the tests."),
        (
            "..F [ 15%]\nFatal Python error: Aborted\n",
            "of the output: Fatal Python error: Aborted",
        ),
        ("", "It printed nothing."),
    ],
)
def test_the_end_of_a_run_is_what_it_says_not_how_far_it_came(output: str, end: str) -> None:
    assert python_tests._end_of(output).endswith(end)
