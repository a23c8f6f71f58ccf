"""Write the results of mutation testing in the mutation-testing report schema, version 2.

Stryker's viewers, such as ``mutation-testing-elements``, show such a report. The schema is documented at
https://github.com/stryker-mutator/mutation-testing-elements/tree/master/packages/report-schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from understudy.judge.mutation.copies.runs import MutantResult
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.mutant import Mutant

_THRESHOLDS = {"high": 80, "low": 30}
"""Percentages between which a viewer shows a score as neither good nor bad."""


def report(
    results: Iterable[MutantResult],
    sources: Mapping[str, bytes],
    covered_by: Mapping[tuple[str, Mutant], Iterable[str]],
) -> dict[str, Any]:
    """Return the report of all mutants except the sham ones, with the sources of their files.

    ``covered_by`` has the ids of the tests that execute each mutant.
    """
    files: dict[str, dict[str, Any]] = {}
    tests: dict[str, set[str]] = {}
    for number, result in enumerate(mutant_result for mutant_result in results if not mutant_result.sham):
        covering = sorted(covered_by.get((result.path, result.mutant), ()))
        for test in {*covering, *result.killers}:
            tests.setdefault(test.partition("::")[0], set()).add(test)
        file = files.setdefault(result.path, _file(result.path, sources[result.path]))
        file["mutants"].append(_mutant(str(number), result, sources[result.path], covering))
    return {
        "schemaVersion": "2.0",
        "thresholds": _THRESHOLDS,
        "files": files,
        "testFiles": {
            path: {"tests": [{"id": test, "name": test.partition("::")[2] or test} for test in sorted(of_file)]}
            for path, of_file in sorted(tests.items())
        },
        "framework": {"name": "Understudy"},
    }


def _file(path: str, source: bytes) -> dict[str, Any]:
    language = language_of(path)
    return {
        "language": language.name if language is not None else "",
        "source": source.decode("utf-8", "replace"),
        "mutants": [],
    }


def _mutant(number: str, result: MutantResult, source: bytes, covering: list[str]) -> dict[str, Any]:
    mutant = result.mutant
    return {
        "id": number,
        "mutatorName": mutant.operator,
        "location": {"start": _position(source, mutant.start), "end": _position(source, mutant.end)},
        "replacement": mutant.text.decode("utf-8", "replace"),
        "status": result.status.value,
        "coveredBy": covering,
        "killedBy": list(result.killers),
        "testsCompleted": len(result.ran),
        "duration": round(result.seconds * 1000),
    }


def _position(source: bytes, at: int) -> dict[str, int]:
    """Return the line and column of a byte, both from 1, the column in characters."""
    line_start = source.rfind(b"\n", 0, at) + 1
    column = len(source[line_start:at].decode("utf-8", "replace")) + 1
    return {"line": source.count(b"\n", 0, at) + 1, "column": column}
