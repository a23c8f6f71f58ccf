"""A test runner that exists only here, in one file, is proposed, run, read and judged; nothing else is edited."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from understudy.judge.runs.runner_registry import BY_NAME

PACKAGE = Path(__file__).parents[1] / "sidecar"
OTHER_WORDS = {"command", "go", "node"}
"""Names that mean something else outside of the judge: an option, a language, a program."""

DECLARATION = """
import json
from understudy.judge.outcomes.observations import Counts, read_json
from understudy.judge.test_runners.shared.test_runner import file_shows
from understudy.judge.test_runners.shared.test_runner import (
    REPORT_SLOT, TESTS_SLOT, NewTestsCheck, ProposedCheck, TestRunner, program_named,
)


def check_new(new):
    tests = rattles(new.changed, new.read)
    if not tests or new.read("rattle.toml") is None:
        return "The new rattles were not run: there is no rattle.toml." if tests else None
    return NewTestsCheck(argv=["rattle", f"--report={REPORT_SLOT}", TESTS_SLOT], tests=tests)


def rattles(paths, read):
    return [path for path in paths if path.endswith(".rattle")]


def counts(output):
    words = list(read_json(output.report).values())
    return Counts(passed=words.count("fine"), failed=words.count("broken"), skipped=0) if words else None


RUNNER = TestRunner(
    name="rattle",
    order=5,
    proposals=(ProposedCheck("rattle", "Rattle", ("rattle", "all"), file_shows("rattle.toml"), instead_of=["make"]),),
    command_lines=(program_named("rattle"),),
    language="Rattle",
    test_files=rattles,
    check_new=check_new,
    order_options=("--shuffle={seed}",),
    options_at=1,
    whole_suite=lambda _: ["rattle", "all"],
    counts=counts,
    outcomes=lambda output, _: {
        test: "passed" if word == "fine" else "failed" for test, word in read_json(output.report).items()
    },
    failed=lambda output: [test for test, word in read_json(output.report).items() if word == "broken"],
    printed=lambda text: (
        (test, "ok" if word == "fine" else "FAILED")
        for test, _, word in (line.partition(" rattles ") for line in text.splitlines())
        if word
    ),
    unbuilt=("cannot rattle",),
    tests=("*.rattle",),
    configuration=("rattle.toml", ".rattlerc"),
    kept_sections={"rattle.toml": ("dependencies",)},
    locks={"rattle.lock": "rattle.toml"},
    completes=("rattle.lock",),
)
"""

PROGRAM = """#!{python}
import json, pathlib, sys
sys.path.insert(0, ".")
import calc
report = [word.partition("=")[2] for word in sys.argv if word.startswith("--report=")]
files = [word for word in sys.argv[1:] if word.endswith(".rattle")] or sorted(map(str, pathlib.Path().glob("*.rattle")))
outcomes = {{}}
for file in files:
    for line in pathlib.Path(file).read_text().splitlines():
        test, _, expression = line.partition(": ")
        outcomes[f"{{file}} {{test}}"] = "fine" if eval(expression) else "broken"
print(*(f"{{test}} rattles {{word}}" for test, word in outcomes.items()), sep="\\n")
for path in report:
    pathlib.Path(path).write_text(json.dumps(outcomes))
sys.exit("broken" in outcomes.values())
"""

SCRIPT = """
import asyncio, json, sys
from pathlib import Path

from understudy.judge import test_runners

test_runners.__path__.append(sys.argv[1])

from understudy.engine.check_setup.check_trial import propose
from understudy.judge.base_runs.earlier_tests import runs_tests, suite_of
from understudy.judge.deciding.deciding_files import CheckFacts, Trees, decides, is_test_file
from understudy.judge.check_findings import altered
from understudy.judge.mutation.mutation_test import MutationRequest, mutation_test
from understudy.judge.runs import runner_registry
from understudy.judge.runs.check_run import CheckContext, Variation, run_once
from understudy.judge.runs.runner_registry import PreparedCheck, build_failed, printed_outcomes
from understudy.model.evidence.checks import Check, Evidence

tree, scratch = Path("project").resolve(), Path("scratch").resolve()


def read(path):
    return (tree / path).read_bytes() if (tree / path).exists() else None


def detect(*changed, read=read):
    return runner_registry.detect(
        [("A", path) for path in changed], tree, read, read, has_python=False, has_pytest=False, has_pytest_cov=False
    )


def shown(run):
    counts = run.counts and [run.counts.passed, run.counts.failed, run.counts.skipped]
    return [run.green, counts, run.observed.outcomes, list(run.failed_tests)]


def deciding(base, result):
    trees = Trees(
        changes=[("M", path) for path in base], base_paths=list(base), result_paths=list(result),
        read_base=base.get, read_result=result.get, read_many=lambda paths: {path: base[path] for path in paths},
    )
    return {each.path: each.content and each.content.decode() for each in decides(trees, CheckFacts(argv=["rattle"]))}


async def main():
    context = CheckContext(tree=tree, workspace=scratch, scratch=scratch, temporary=scratch, mark="rattle")
    [plan] = detect("one.rattle", "calc.py").plans
    green = await run_once(plan, context)
    shuffled = Variation(order="reversed", order_seed=7, hash_seed=1, time_zone="UTC")
    mutated = await mutation_test(
        MutationRequest(
            plan=plan, passed=green.observed.passing, seconds=green.seconds, context=context,
            sources={"calc.py": read("calc.py")}, seed="x", evidence=Evidence(),
        )
    )
    suite = suite_of(plan, green, ["one.rattle", "calc.py"])
    found = {
        "proposed": [[one.title, one.check.argv, one.shown_by] for one in propose(tree, [], [], set_up=False)],
        "planned": [plan.check.name, plan.check.argv, plan.tests],
        "notes": detect("one.rattle", read={}.get).notes,
        "{tests}": runner_registry.test_files([("A", "x.rattle"), ("A", "calc.py")], read),
        "green": shown(green),
        "red": shown(await run_once(PreparedCheck(check=plan.check, kind=plan.kind, tests=("red.rattle",)), context)),
        "silent": shown(await run_once(PreparedCheck(check=plan.check, kind=plan.kind, tests=("no.rattle",)), context)),
        "shuffled": (await run_once(plan, context, variation=shuffled)).argv[1],
        "printed": shown(await run_once(PreparedCheck(check=Check(name="x", argv=["rattle", "one.rattle"])), context)),
        "suite": suite and suite.check.argv,
        "mutants": [mutated.score and len(mutated.score.noticed) > 0, mutated.why],
        "output": [printed_outcomes(b"a rattles fine", b""), build_failed(b"cannot rattle", b"")],
        "runs tests": runs_tests(["rattle"]),
        "is test": is_test_file("deep/x.rattle"),
        "deciding": deciding(
            {"rattle.toml": b"x = 1\\n[dependencies]\\na = 1\\n", "a.rattle": b"", ".rattlerc": b"", "calc.py": b""},
            {"rattle.toml": b"x = 2\\n[dependencies]\\na = 2\\n", "a.rattle": b"1", ".rattlerc": b"1", "calc.py": b"1"},
        ),
        "completed": altered(["rattle.lock", "calc.py"], plan.check, []),
    }
    print(json.dumps(found))


asyncio.run(main())
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("rattle")
    files = {
        "more/rattle.py": DECLARATION,
        "bin/rattle": PROGRAM.format(python=sys.executable),
        "project/rattle.toml": "",
        "project/Makefile": "test:\n\trattle all\n",
        "project/calc.py": "def double(x):\n    return x * 2\n",
        "project/one.rattle": "doubles: calc.double(3) == 6\n",
        "project/red.rattle": "halves: calc.double(3) == 1.5\n",
        "project/no.rattle": "",
        "script.py": SCRIPT,
    }
    (root / "scratch").mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "bin" / "rattle").chmod(0o755)
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-P", "script.py", root / "more"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(PACKAGE), "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_it_is_proposed(found: Any) -> None:
    assert found["proposed"] == [["Rattle", ["rattle", "all"], "rattle.toml"]]


def test_it_runs_new_tests(found: Any) -> None:
    assert found["planned"] == ["tests-rattle", ["rattle", "--report={report}", "{tests}"], ["one.rattle"]]
    assert found["notes"] == ["The new rattles were not run: there is no rattle.toml."]
    assert found["{tests}"] == ["x.rattle"]
    assert found["shuffled"] == "--shuffle=7"
    assert found["suite"] == ["rattle", "all"]


def test_its_report_and_its_output_are_read(found: Any) -> None:
    assert found["green"] == [True, [1, 0, 0], {"one.rattle doubles": "passed"}, []]
    assert found["red"] == [False, [0, 1, 0], {"red.rattle halves": "failed"}, ["red.rattle halves"]]
    assert found["silent"] == [False, None, {}, []], "a run without a report is not believed"
    assert found["printed"] == [True, None, {"one.rattle doubles": "passed"}, []]
    assert found["output"] == [{"a": "passed"}, True]
    assert found["runs tests"]


def test_its_tests_run_on_mutants(found: Any) -> None:
    assert found["mutants"] == [True, ""]


def test_its_files_decide(found: Any) -> None:
    assert found["is test"]
    assert found["deciding"] == {".rattlerc": None, "a.rattle": None, "rattle.toml": "x = 1\n\n[dependencies]\na = 2\n"}
    assert found["completed"] == ["calc.py"]


def compared_names(source: str, names: Collection[str] = BY_NAME.keys()) -> list[int]:
    """Return the lines that compare something with the name of a test runner, or look it up under one."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare() | ast.MatchValue():
                parts = list(ast.walk(node))
            case ast.Subscript(slice=part):
                parts = [part]
            case ast.Dict(keys=keys):
                parts = [key for key in keys if key is not None]
            case _:
                continue
        if {part.value for part in parts if isinstance(part, ast.Constant)}.intersection(names):
            wrong.append(node.lineno)
    return wrong


def test_no_other_module_compares_names_of_runners() -> None:
    wrong = []
    for path in (PACKAGE / "understudy").rglob("*.py"):
        place = path.relative_to(PACKAGE / "understudy").as_posix()
        if place.startswith(("judge/test_runners/", "ghostwriter/")):  # the latter is a program of its own
            continue
        names = BY_NAME.keys() if place.startswith(("judge/", "engine/check_setup/")) else BY_NAME.keys() - OTHER_WORDS
        wrong += [f"{place}:{line}" for line in compared_names(path.read_text(encoding="utf-8"), names)]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('plan.kind == "go"', [1]),
        ('x = kind in {"jest", "vitest"}', [1]),
        ('{"pytest": 1}.get(kind)', [1]),
        ('counts["cargo"]', [1]),
        ('match kind:\n    case "unittest":\n        pass', [2]),
        ('["cargo", "test"]', []),
    ],
)
def test_comparisons_are_found(source: str, lines: list[int]) -> None:
    assert compared_names(source) == lines
