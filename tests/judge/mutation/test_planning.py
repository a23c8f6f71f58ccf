"""Which mutants are judged, and what their results add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from understudy.judge.mutant_runners.mutant_runs import MutantResult, PlannedRun
from understudy.judge.mutation import planning
from understudy.judge.mutation.planning import (
    FurtherRuns,
    MutationPlan,
    PlaceChange,
    further_runs,
    plan,
    score,
    unchanged_again,
    without_busy,
)
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.generate import Mutant

SOURCES = {
    "a.py": b"".join(b"def f%d(a):\n    return a + %d\n" % (index, index) for index in range(10)),
    "b.py": b"def g(a):\n    return a * 2\n",
}


def everything(path: str, mutant: Mutant) -> Sequence[str]:
    return [f"test_{path}"]


def test_only_executed_mutants_are_chosen_and_a_sham_is_among_them() -> None:
    chosen = plan(SOURCES, lambda path, one: ["t"] if path == "b.py" or one.function == "f3" else [], count=4, seed="s")
    real = [run for run in chosen.runs if not run.sham]
    assert (len(real), len(chosen.runs), chosen.executed, chosen.total) == (4, 5, 6, 33)
    assert {(run.path, run.mutant.function) for run in real} == {("a.py", "f3"), ("b.py", "g")}
    assert {run.tests for run in chosen.runs} == {("t",)}


def test_only_the_changed_lines_and_none_that_is_dismissed() -> None:
    chosen = plan(SOURCES, everything, count=50, seed="s", lines={"a.py": frozenset({2, 4})})
    assert {run.mutant.line for run in chosen.runs if not run.sham} == {2, 4}
    left = plan(SOURCES, everything, count=50, seed="s", left_out=lambda _, one: one.operator == "number")
    assert {run.mutant.operator for run in left.runs if not run.sham} == {"arithmetic", "return"}


@given(st.text(max_size=10), st.integers(min_value=1, max_value=40))
def test_the_same_seed_gives_the_same_plan(seed: str, count: int) -> None:
    first = plan(SOURCES, everything, count=count, seed=seed)
    assert first == plan(dict(reversed(SOURCES.items())), everything, count=count, seed=seed)
    assert sum(not run.sham for run in first.runs) == min(count, 33)


def test_the_mutants_of_an_earlier_sample_come_first() -> None:
    before = plan(SOURCES, everything, count=6, seed="s")
    known = {(run.path, run.mutant) for run in before.runs if not run.sham}
    again = plan(SOURCES, everything, count=6, seed="other", first=lambda path, one: (path, one) in known)
    assert {(run.path, run.mutant) for run in again.runs if not run.sham} == known
    more = plan(SOURCES, everything, count=9, seed="other", first=lambda path, one: (path, one) in known)
    assert known < {(run.path, run.mutant) for run in more.runs if not run.sham}


def test_changes_of_places_come_last_and_more_mutants_of_a_place_are_only_for_one_that_is_missed() -> None:
    undo = Mutant(start=0, end=9, text=b"", operator="", line=2, first_line=2, last_line=2, function="f0")
    change = PlaceChange(path="a.py", mutant=undo, group=0, only_if_missed=True, only_if_noticed=False)
    groups = {
        path: {line: number for number in range(10) for line in (2 * number + 1, 2 * number + 2)} for path in SOURCES
    }
    chosen = plan(SOURCES, everything, count=33, seed="s", groups=groups, changes=[change])
    assert (chosen.runs[-1].mutant, chosen.runs[-1].of_place, chosen.runs[-1].tests) == (undo, True, ("test_a.py",))
    mutants = [run for run in chosen.runs if not run.sham and not run.of_place]
    assert not any(run.only_if_missed for run in mutants[:8])
    first = {run.group: index for index, run in reversed(list(enumerate(mutants)))}
    assert {run.only_if_missed for index, run in enumerate(mutants) if index >= 8 and first[run.group] != index} == {
        True
    }
    assert not any(run.sham for run in plan(SOURCES, everything, count=5, seed="s", shams=False).runs)


def test_nothing_executed_means_nothing_to_run() -> None:
    planned = plan(SOURCES, lambda _, __: [], count=5, seed="s")
    assert planned == MutationPlan(runs=(), executed=0, total=33, reached={}, unreached=planned.unreached)
    assert len(planned.unreached) == 33


PLAN = plan(SOURCES, everything, count=5, seed="s")
REAL = [run for run in PLAN.runs if not run.sham]
SHAM = [run for run in PLAN.runs if run.sham]


def result(run: PlannedRun, status: MutantStatus, *killers: str, ran: Sequence[str] = ("t1", "t2")) -> MutantResult:
    return MutantResult(path=run.path, mutant=run.mutant, status=status, killers=killers, ran=tuple(ran), sham=run.sham)


def test_what_counts() -> None:
    added = score(
        PLAN,
        [
            result(REAL[0], MutantStatus.KILLED, "t1"),
            result(REAL[1], MutantStatus.TIMEOUT),
            result(REAL[2], MutantStatus.SURVIVED, ran=("t1", "t3")),
            result(REAL[3], MutantStatus.COMPILE_ERROR),
            result(REAL[4], MutantStatus.PENDING),
            result(SHAM[0], MutantStatus.SURVIVED),
        ],
    )
    assert (added.killed, added.viable) == (2, 3)
    assert [one.mutant for one in added.survivors] == [REAL[2].mutant]
    assert added.idle == ("t2", "t3")
    assert added.share == 2 / 3


def test_tests_that_notice_only_replaced_results_see_no_value() -> None:
    every = [run for run in plan(SOURCES, everything, count=33, seed="s").runs if not run.sham]
    results = [run for run in every if run.mutant.operator == "return"]
    others = [run for run in every if run.mutant.operator != "return"]

    def sees_only_replaced(killed: Sequence[PlannedRun], missed: Sequence[PlannedRun]) -> bool:
        found = [result(run, MutantStatus.KILLED, "t1") for run in killed]
        return score(PLAN, [*found, *(result(run, MutantStatus.SURVIVED) for run in missed)]).sees_only_replaced

    assert sees_only_replaced(results, others)
    assert sees_only_replaced(results[:1], [*results[1:], *others[:3]])
    assert not sees_only_replaced(results, others[:2]), "two may make no difference"
    assert not sees_only_replaced([*results, others[0]], others[1:])
    assert not sees_only_replaced([], others), "nothing is noticed"


def test_idle_tests_run_on_more_mutants() -> None:
    narrow = max(PLAN.reached)
    both = dict.fromkeys(PLAN.reached, ("t1", "t2")) | {narrow: ("t2",)}
    planned = replace(PLAN, reached=both)
    results = [result(run, MutantStatus.SURVIVED, ran=("t1",)) for run in REAL]
    further = further_runs(planned, results, ["t1", "t2", "t3"], per_test=3, seed="s")
    assert (narrow, ("t2",)) in [((run.path, run.mutant), run.tests) for run in further.runs], "few tests execute it"
    for test in ("t1", "t2"):
        assert 3 <= sum(test in run.tests for run in further.runs) <= 6
    assert not further.skipped, "t3 executes nothing more"
    tried = {(run.path, run.mutant) for run in REAL}
    left = {(run.path, run.mutant) for run in further_runs(planned, results, ["t1"], per_test=99, seed="s").runs}
    assert left == both.keys() - tried - {narrow}
    assert further_runs(planned, results, ["t1", "t2"], per_test=3, seed="s").runs == further.runs


def test_a_further_runs_is_bounded() -> None:
    tests = tuple(f"t{number}" for number in range(300))
    reached = {key: tests[index::33] for index, key in enumerate(sorted(PLAN.reached))}
    assert not further_runs(replace(PLAN, reached=reached), [], tests, per_test=4, seed="s").skipped
    keys = [(path, replace(mutant, start=start)) for path, mutant in PLAN.reached for start in range(5)]
    reached = dict(zip(keys, ((test,) for test in tests), strict=False))
    further = further_runs(replace(PLAN, reached=reached), [], tests, per_test=4, seed="s")
    assert len(further.runs) == 100
    assert len(further.skipped) == len(reached) - 100


def test_a_test_that_a_further_runs_does_not_judge_is_not_idle() -> None:
    found = replace(score(PLAN, []), idle=("t1", "t2", "t3", "t4", "t5"))
    tests = ("t1", "t2", "t3", "t1")
    runs = tuple(replace(run, tests=(test,)) for run, test in zip(REAL, tests, strict=False))
    told = [
        result(runs[0], MutantStatus.SURVIVED),
        result(runs[1], MutantStatus.KILLED, "t2"),
        result(runs[2], MutantStatus.PENDING),
        result(runs[3], MutantStatus.COMPILE_ERROR),
    ]
    further = FurtherRuns(runs=runs, skipped=frozenset({"t5"}))
    assert without_busy(found, further, told).idle == ("t1", "t4")


def test_kills_by_tests_that_fail_on_a_sham_do_not_count() -> None:
    added = score(
        PLAN,
        [
            result(SHAM[0], MutantStatus.KILLED, "looks"),
            result(REAL[0], MutantStatus.KILLED, "looks"),
            result(REAL[1], MutantStatus.KILLED, "t1"),
            result(REAL[2], MutantStatus.SURVIVED),
        ],
    )
    assert added.unreliable == {"looks"}
    assert (added.killed, added.viable) == (1, 2)


def test_tests_that_get_stuck_without_a_cause_do_not_kill_by_being_stuck() -> None:
    stuck = [result(SHAM[0], MutantStatus.TIMEOUT), result(REAL[0], MutantStatus.TIMEOUT)]
    added = score(PLAN, [*stuck, result(REAL[1], MutantStatus.KILLED, "t1")])
    assert (added.killed, added.viable) == (1, 1)


def test_the_tests_that_noticed_something_run_on_the_unchanged_code_after_all_others() -> None:
    noticed = {0: ("t1",), 2: ("t1", "t2"), 3: ()}
    results = [
        result(run, MutantStatus.KILLED if index in noticed else MutantStatus.SURVIVED, *noticed.get(index, ()))
        for index, run in enumerate(PLAN.runs)
    ]
    [again] = unchanged_again(PLAN.runs, results, SOURCES)
    assert (again.sham, again.mutant.apply(SOURCES[again.path])) == (True, SOURCES[again.path])
    assert set(again.tests) == {"t1", "t2", *PLAN.runs[3].tests}
    assert not unchanged_again(PLAN.runs, [result(run, MutantStatus.SURVIVED) for run in PLAN.runs], SOURCES)
    assert not unchanged_again(REAL, [result(run, MutantStatus.KILLED, "t1") for run in REAL], SOURCES)


def test_without_any_mutant_that_counts_the_share_is_zero() -> None:
    added = score(PLAN, [])
    assert added.share == 0.0


def test_what_was_dismissed_since_the_run_began_does_not_count(tmp_path: Path) -> None:
    """The agent of a run can write to the state: it must not dismiss what its own tests miss."""
    planning.dismiss(tmp_path, "/project", ["0123456789ab"])
    changed_at = (tmp_path / "dismissed-mutants.jsonl").stat().st_ctime
    assert planning.dismissed(tmp_path, "/project", changed_at + 1) == {"0123456789ab"}
    assert planning.dismissed(tmp_path, "/other", changed_at + 1) == frozenset()
    assert planning.dismissed(tmp_path, "/project", changed_at) == frozenset()
