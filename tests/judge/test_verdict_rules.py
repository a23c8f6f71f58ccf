"""From facts to a verdict: every row, and the promise that `verified` never lies."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.judge.verdict_rules import VerdictFacts, verdict_of
from understudy.model.evidence.checks import CheckResult
from understudy.model.verdicts import Reservation, Verdict


def result(
    *,
    ok: bool = True,
    required: bool = True,
    flaky: bool = False,
    fails_on_base: bool = False,
    checkout_files: list[str] | None = None,
) -> CheckResult:
    return CheckResult(
        name="check",
        argv=[],
        seconds=0.0,
        tree="0" * 40,
        output_tail="",
        flaky=flaky,
        fails_on_base=fails_on_base,
        checkout_files=checkout_files,
        ok=ok,
        required=required,
    )


GREEN, RED = result(), result(ok=False)


@pytest.mark.parametrize(
    ("facts", "verdict", "reservations"),
    [
        (VerdictFacts(changed=True, results=(GREEN,)), "verified", []),
        (VerdictFacts(changed=True, results=(GREEN, result(ok=False, required=False))), "verified", []),
        (VerdictFacts(changed=True), "unverified", ["no_checks"]),
        (VerdictFacts(changed=True, results=(result(required=False),)), "unverified", ["no_checks"]),
        (VerdictFacts(changed=True, results=(RED,)), "checks_failed", []),
        (VerdictFacts(changed=True, results=(GREEN, RED)), "checks_failed", []),
        (VerdictFacts(changed=True, results=(result(ok=False, fails_on_base=True),)), "unverified", ["fails_on_base"]),
        (
            VerdictFacts(changed=True, results=(GREEN, result(ok=False, fails_on_base=True))),
            "unverified",
            ["fails_on_base"],
        ),
        (VerdictFacts(changed=True, results=(result(flaky=True),)), "unverified", ["flaky"]),
        (VerdictFacts(changed=True, results=(result(checkout_files=["/x.py"]),)), "unverified", ["loaded_checkout"]),
        (VerdictFacts(changed=False, results=()), "no_changes", []),
        (VerdictFacts(answer="yes"), "answered", []),
        (VerdictFacts(answer=" \n"), "failed", []),
        (VerdictFacts(failed=True, changed=True, results=(GREEN,)), "failed", []),
    ],
)
def test_each_row(facts: VerdictFacts, verdict: str, reservations: list[str]) -> None:
    assert verdict_of(facts) == (verdict, reservations)


@pytest.mark.parametrize("reservation", list(Reservation))
def test_any_reservation_withholds_verified(reservation: Reservation) -> None:
    facts = VerdictFacts(changed=True, results=(GREEN,), reservations=frozenset({reservation}))
    assert verdict_of(facts) == (Verdict.UNVERIFIED, [reservation])


def test_the_first_row_that_fits_wins() -> None:
    ends = [("cancelled", True), ("interrupted", True), ("limit", "budget_exhausted"), ("failed", True)]
    expected = {"cancelled": "cancelled", "interrupted": "interrupted", "limit": "budget_exhausted", "failed": "failed"}
    for first, second in itertools.combinations(ends, 2):
        facts = VerdictFacts(changed=True, results=(GREEN,), **dict([first, second]))
        assert verdict_of(facts)[0] == expected[first[0]]


results = st.builds(
    result,
    ok=st.booleans(),
    required=st.booleans(),
    flaky=st.booleans(),
    fails_on_base=st.booleans(),
    checkout_files=st.sampled_from([None, ["/x.py"]]),
)


@given(
    st.builds(
        VerdictFacts,
        cancelled=st.booleans(),
        interrupted=st.booleans(),
        limit=st.sampled_from([None, "timed_out", "budget_exhausted"]),
        failed=st.booleans(),
        answer=st.sampled_from([None, "", "yes"]),
        changed=st.booleans(),
        results=st.lists(results, max_size=3).map(tuple),
        reservations=st.frozensets(st.sampled_from(list(Reservation)), max_size=2),
    )
)
def test_verified_needs_a_required_passed_check_and_no_reservation(facts: VerdictFacts) -> None:
    verdict, reservations = verdict_of(facts)
    required = [each for each in facts.results if each.required]
    if verdict is Verdict.VERIFIED:
        assert not reservations
        assert not facts.reservations
        assert facts.changed
        assert any(each.ok for each in required)
        assert all(each.ok and not each.flaky and not each.checkout_files for each in required)
        assert not any((facts.cancelled, facts.interrupted, facts.limit, facts.failed))
    assert reservations == sorted(set(reservations), key=list(Reservation).index)
