"""The report that Stryker's viewers read."""

from __future__ import annotations

import json

from understudy.judge.mutant_runners.mutant_runs import MutantResult, report
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.controls import same_bytes
from understudy.mutants.generate import mutants_of

SOURCE = "def f(ä, b):\n    return 'ü' + g(\n        ä, 2)\n".encode()
STRING, PLUS, NUMBER = (
    next(one for one in mutants_of("calc.py", SOURCE) if one.operator == operator)
    for operator in ("string", "arithmetic", "number")
)


def test_a_whole_report() -> None:
    sham = same_bytes(SOURCE)
    made = report(
        [
            MutantResult(
                path="calc.py",
                mutant=PLUS,
                status=MutantStatus.KILLED,
                killers=("tests/test_calc.py::test_f",),
                ran=("tests/test_calc.py::test_f",),
                seconds=0.1234,
            ),
            MutantResult(path="calc.py", mutant=sham, status=MutantStatus.SURVIVED, sham=True),
            MutantResult(path="calc.py", mutant=NUMBER, status=MutantStatus.NO_COVERAGE),
            MutantResult(path="calc.py", mutant=STRING, status=MutantStatus.SURVIVED),
        ],
        {"calc.py": SOURCE},
        {("calc.py", PLUS): ["tests/test_calc.py::test_g", "tests/test_calc.py::test_f"]},
    )
    assert json.loads(json.dumps(made)) == made
    assert (made["schemaVersion"], made["files"].keys()) == ("2.0", {"calc.py"})
    file = made["files"]["calc.py"]
    assert (file["language"], file["source"]) == ("python", SOURCE.decode())
    plus, number, string = file["mutants"]
    assert plus == {
        "id": "0",
        "mutatorName": "arithmetic",
        "location": {"start": {"line": 2, "column": 16}, "end": {"line": 2, "column": 17}},
        "replacement": "-",
        "status": "Killed",
        "coveredBy": ["tests/test_calc.py::test_f", "tests/test_calc.py::test_g"],
        "killedBy": ["tests/test_calc.py::test_f"],
        "testsCompleted": 1,
        "duration": 123,
    }
    assert number["location"]["start"] == {"line": 3, "column": 12}
    assert [number["status"], string["status"]] == ["NoCoverage", "Survived"]
    assert string["location"] == {"start": {"line": 2, "column": 13}, "end": {"line": 2, "column": 13}}
    assert made["testFiles"] == {
        "tests/test_calc.py": {
            "tests": [
                {"id": "tests/test_calc.py::test_f", "name": "test_f"},
                {"id": "tests/test_calc.py::test_g", "name": "test_g"},
            ]
        }
    }


def test_positions_point_at_what_is_replaced() -> None:
    for one in mutants_of("calc.py", SOURCE):
        made = report([MutantResult(path="calc.py", mutant=one, status=MutantStatus.SURVIVED)], {"calc.py": SOURCE}, {})
        [place] = made["files"]["calc.py"]["mutants"]
        start, end = place["location"]["start"], place["location"]["end"]
        lines = SOURCE.decode().splitlines(keepends=True)
        offsets = [sum(map(len, lines[: at["line"] - 1])) + at["column"] - 1 for at in (start, end)]
        assert SOURCE.decode()[offsets[0] : offsets[1]].encode() == SOURCE[one.start : one.end]
