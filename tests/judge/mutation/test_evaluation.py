"""What the results of all runs make necessary, and what they show then."""

from __future__ import annotations

from typing import Any, cast

import pytest

from understudy.judge.mutant_runners.mutant_runs import MutantResult, MutantRuns, PlannedRun
from understudy.judge.mutation.mutation_test import MutationRequest, _Evaluation
from understudy.judge.mutation.planning import PlaceChange, plan, score
from understudy.model.evidence.checks import Evidence, MutantStatus

SOURCES = {"a.py": b"def f(a):\n    return a + 1\n"}
LINES = {"a.py": frozenset({1, 2})}


def evaluation(**more: Any) -> _Evaluation:
    request = MutationRequest(
        plan=cast("Any", None),
        passed=frozenset({"t"}),
        seconds=1.0,
        context=cast("Any", None),
        sources=SOURCES,
        lines=LINES,
        seed="s",
        evidence=Evidence(),
        **more,
    )
    planned = plan(SOURCES, lambda *_: ["t"], count=2, seed="s", lines=LINES)
    return _Evaluation(request, planned, SOURCES, None, score=score(planned, ()))


def result(run: PlannedRun, status: MutantStatus) -> MutantResult:
    killers = ("t",) if status is MutantStatus.KILLED else ()
    return MutantResult(path=run.path, mutant=run.mutant, status=status, killers=killers, ran=("t",), sham=run.sham)


@pytest.mark.parametrize(
    ("again", "killed"),
    [(MutantStatus.SURVIVED, 2), (MutantStatus.KILLED, 0), (MutantStatus.PENDING, 0)],
)
def test_what_noticed_something_must_pass_on_the_unchanged_code_after_all(again: MutantStatus, killed: int) -> None:
    """A test that counts its runs fails there, and one that is much slower there may do so."""
    evaluated = evaluation()
    runs = list(evaluated._planned.runs)
    statuses = [MutantStatus.SURVIVED if run.sham else MutantStatus.KILLED for run in runs]
    further = evaluated.follow_up(
        MutantRuns(planned=runs, results=[result(*pair) for pair in zip(runs, statuses, strict=True)])
    )
    [unchanged] = next(further)
    assert (unchanged.sham, unchanged.tests, unchanged.mutant.apply(SOURCES["a.py"])) == (True, ("t",), SOURCES["a.py"])
    with pytest.raises(StopIteration):
        further.send([result(unchanged, again)])
    assert evaluated.score.killed == killed


@pytest.mark.parametrize(
    ("status", "emptied", "base", "lines"),
    [
        (MutantStatus.SURVIVED, False, ("a.py",), {1}),
        (MutantStatus.KILLED, False, ("a.py",), {1, 2}),
        (MutantStatus.SURVIVED, True, ("a.py",), {1, 2}),
        (MutantStatus.SURVIVED, False, ("a.py", "data.json"), {1, 2}),
    ],
    ids=["unnoticed", "noticed", "only its body is empty", "beside another file"],
)
def test_tests_that_run_only_what_makes_no_difference_are_not_repaired(
    status: MutantStatus, emptied: bool, base: tuple[str, ...], lines: set[int]
) -> None:
    run = evaluation()._planned.runs[0]
    change = PlaceChange(path="a.py", mutant=run.mutant, group=7, only_if_missed=False, only_if_noticed=False)
    evaluated = evaluation(changes=(change,), groups={"a.py": {1: 6, 2: 7}}, base=dict.fromkeys(base))
    undone = PlannedRun(path="a.py", mutant=run.mutant, tests=("t",), of_place=True, group=7, only_if_noticed=emptied)
    found = evaluated.lines_with_effect([(undone, result(undone, status))])
    assert found == {"a.py": frozenset(lines)}
