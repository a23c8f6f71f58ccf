"""Which of two results is kept, and what is said about the other one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.model.evidence.checks import CheckResult, JudgedMutant, MutantStatus, Noticed
from understudy.model.verdicts import Reservation, Verdict
from understudy.policy.comparison import objection
from understudy.policy.next_step import Evidence, NextCandidate, Request, SendBack

STRENGTHEN = SendBack(request=Request.STRENGTHEN, why="w")
REPAIR = SendBack(request=Request.REPAIR, why="w")


def noticed(*killed: str, survivors: str = "") -> Noticed:
    def mutant(name: str, status: MutantStatus) -> JudgedMutant:
        return JudgedMutant(
            id=name, path="calc.py", line=6, function="f", operator="o", before="a", after="b", status=status
        )

    return Noticed(
        killed=len(killed),
        viable=9,
        kills={name: mutant(name, MutantStatus.KILLED) for name in killed},
        survivors=[mutant(name, MutantStatus.SURVIVED) for name in survivors],
        idle=[],
        scope="files",
        nothing_executed=False,
        sampled=False,
        listed=True,
    )


def evidence(verdict: Verdict, *reservations: Reservation, kills: Noticed | None = None, **checks: bool) -> Evidence:
    results = [
        CheckResult(
            name=name, argv=["x"], seconds=0.0, tree="t", output_tail="", flaky=False, fails_on_base=False, ok=ok,
            required=True,
        )
        for name, ok in checks.items()
    ]  # fmt: skip
    return Evidence(verdict=verdict, reservations=reservations, checks=results, noticed=kills)


WEAK = evidence(Verdict.UNVERIFIED, Reservation.FEW_MUTANTS_KILLED, kills=noticed("a", survivors="b"))


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (evidence(Verdict.VERIFIED, kills=noticed("a", "b")), None),
        (evidence(Verdict.UNVERIFIED, Reservation.LITTLE_EXECUTED, kills=noticed("a", "b")), None),
        (evidence(Verdict.CHECKS_FAILED, kills=noticed("a", "b")), "a check fails"),
        (
            evidence(Verdict.UNVERIFIED, Reservation.OUTSIDE_SCOPE, Reservation.FLAKY, kills=noticed("a", "b")),
            "it adds flaky, outside_scope",
        ),
        (evidence(Verdict.NO_CHANGES, kills=noticed("a", "b")), "the verdict would be no_changes"),
        (evidence(Verdict.VERIFIED), "its tests could not be judged in the same way"),
        (
            evidence(Verdict.VERIFIED, kills=noticed("b", "c", survivors="a")),
            "its tests no longer notice 1 of the changes before (calc.py:6)",
        ),
        (evidence(Verdict.UNVERIFIED, kills=noticed("a")), "its tests notice nothing more"),
    ],
)
def test_stronger_tests_notice_more_and_lose_nothing(new: Evidence, why: str | None) -> None:
    assert objection(STRENGTHEN, WEAK, new, failing=[], changed=[]) == why


def test_a_repair_may_leave_other_checks_red_and_may_break_or_deceive_none() -> None:
    before = evidence(Verdict.CHECKS_FAILED, tests=False, lint=True, types=False)
    after = evidence(Verdict.CHECKS_FAILED, tests=True, lint=True, types=False)
    assert objection(REPAIR, before, after, failing=["types"], changed=[]) is None
    broken = evidence(Verdict.CHECKS_FAILED, tests=True, lint=False, types=False)
    assert objection(REPAIR, before, broken, failing=["lint", "types"], changed=[]) == "now lint fails"
    lied = evidence(Verdict.UNVERIFIED, Reservation.TESTS_CHANGED, Reservation.FLAKY, tests=True, lint=True)
    assert objection(REPAIR, before, lied, failing=[], changed=[]) == "it adds tests_changed"


@given(st.sampled_from(Verdict), st.sampled_from(Verdict))
def test_the_result_of_another_candidate_has_to_be_better(before: Verdict, new: Verdict) -> None:
    order = [Verdict.CHECKS_FAILED, Verdict.UNVERIFIED, Verdict.VERIFIED]
    why = objection(NextCandidate(), evidence(before), evidence(new), failing=[], changed=[])
    if before in order and new in order:
        assert (why is None) == (order.index(new) > order.index(before))
    if before is Verdict.VERIFIED:
        assert why == f"it is {new}, and the one before is verified", "nothing replaces a verified result"
