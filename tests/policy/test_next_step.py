"""What follows an attempt, for every history: a run ends, within its limits, and asks for nothing in vain."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.model.config.delegators import AppliesTo, Limits, Recipe, Scope
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.evidence.checks import CheckResult, JudgedMutant, MutantStatus, Noticed
from understudy.model.verdicts import Reservation, Verdict
from understudy.policy import next_step
from understudy.policy.budget import Budget, Spending
from understudy.policy.next_step import (
    MAX_ATTEMPTS,
    RULES,
    Decision,
    Evidence,
    Failed,
    History,
    Judged,
    NextCandidate,
    Request,
    Retry,
    Rule,
    SendBack,
    Step,
    Stop,
    Try,
    Unheard,
    objection,
)

NEXT = {
    *("auth_failed", "quota_exhausted", "rate_limited", "overloaded", "connection_failed", "model_not_found"),
    *("tool_missing", "tool_crashed", "tool_no_result", "stream_truncated", "stalled", "timed_out"),
    *("malformed_output", "empty_output", "context_too_long"),
}
"""Written out: a new kind of error ends the delegation until someone decides otherwise."""
RECIPE = Recipe(
    name="tests", title="T", returns="tree", changes="tests", applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN
)
STRENGTHEN = SendBack(request=Request.STRENGTHEN, why="w")
REPAIR = SendBack(request=Request.REPAIR, why="w")


def check(name: str = "tests", *, ok: bool, required: bool = True) -> CheckResult:
    return CheckResult(
        name=name, argv=["x"], seconds=0.0, tree="t", output_tail="", flaky=False, fails_on_base=False, ok=ok,
        required=required,
    )  # fmt: skip


def noticed(killed: int, *, sampled: bool = False) -> Noticed:
    return Noticed(
        killed=killed, viable=9, kills={}, survivors=[], idle=[], scope="files", nothing_executed=False,
        sampled=sampled, listed=True,
    )  # fmt: skip


VERIFIED = Evidence(verdict=Verdict.VERIFIED, checks=[check(ok=True)], noticed=noticed(9))


WEAK = Evidence(
    verdict=Verdict.UNVERIFIED, checks=[check(ok=True)], noticed=noticed(1, sampled=True), worth_asking=True
)


RED = Evidence(verdict=Verdict.CHECKS_FAILED, checks=[check(ok=False)])


FAILURES = st.builds(ErrorInfo, kind=st.sampled_from(ErrorKind), message=st.just("It failed."))


OUTCOMES = st.one_of(
    FAILURES.map(Failed),
    st.just(Unheard()),
    st.builds(Judged, st.sampled_from([VERIFIED, WEAK, RED]), st.none() | st.just("it is no better")),
)


SPENT = st.builds(
    Spending,
    seconds=st.sampled_from([0.0, 5.0, 40.0]),
    turns=st.integers(0, 3),
    tokens=st.integers(0, 60),
    usd=st.sampled_from([Decimal(0), Decimal("0.3")]),
    usd_known=st.sampled_from([True, True, False]),
)


LIMITS = st.builds(
    Limits,
    total_seconds=st.sampled_from([None, 60.0]),
    max_turns=st.sampled_from([None, 4]),
    max_tokens=st.sampled_from([None, 100]),
    max_usd=st.sampled_from([None, "1"]),
)


def history(*tries: Try, **more: object) -> History:
    kept = next(
        (
            one.outcome.evidence
            for one in reversed(tries)
            if isinstance(one.outcome, Judged) and one.outcome.objection is None
        ),
        None,
    )
    facts = {
        "tries": tries,
        "attempts": (),
        "clock": 0.0,
        "budget": Budget(Limits()),
        "recipe": RECIPE,
        "repairs": 0,
        "rounds": 0,
        "followers": False,
        "kept": kept,
    }
    return History(**facts | more)  # type: ignore[arg-type]


def stubborn(answer: Decision) -> Rule:
    return lambda _: answer


ANY_RULES: st.SearchStrategy[Sequence[Rule]] = st.one_of(
    st.just(RULES),
    st.lists(
        st.sampled_from(
            [
                *RULES,
                stubborn(Retry()),
                stubborn(Retry(30.0)),
                stubborn(NextCandidate()),
                stubborn(NextCandidate(fresh=False)),
                stubborn(SendBack(request=Request.MESSAGES, why="w")),
                stubborn(SendBack(request=Request.STRENGTHEN, why="w")),
            ]
        ),
        max_size=5,
    ),
)


@given(st.data(), ANY_RULES, LIMITS)
def test_a_run_ends_within_its_limits_whatever_the_rules_say(
    data: st.DataObject, rules: Sequence[Rule], limits: Limits
) -> None:
    repairs, rounds, candidates = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)))
    tries: list[Try] = []
    budget, place = Budget(limits), 0
    step: Decision = NextCandidate()
    while not isinstance(step, Stop):
        assert len(tries) < MAX_ATTEMPTS
        outcome = data.draw(OUTCOMES)
        budget = budget.charge(data.draw(SPENT))
        tries.append(Try(step, outcome))
        now = history(
            *tries,
            budget=budget,
            repairs=repairs,
            rounds=rounds,
            followers=place + 1 < candidates,
            waiting=data.draw(st.booleans()),
            can_continue=data.draw(st.booleans()),
            escalates=data.draw(st.booleans()),
            hands_over=data.draw(st.booleans()),
        )
        step = next_step.next_step(now, rules)
        assert next_step.next_step(now, rules) == step, "the same history, the same decision"
        if isinstance(step, NextCandidate):
            place += 1
            assert place < candidates
        elif not isinstance(step, Stop):
            assert isinstance(budget.reserve(), Budget), "nothing begins when nothing is left"
            left = budget.seconds_left
            assert left is None or not isinstance(step, Retry) or left > step.wait_seconds
    if rules is RULES:
        assert len(now.asked(Request.REPAIR)) <= repairs
        assert len(now.asked(Request.STRENGTHEN)) <= rounds
        assert not any(isinstance(one.step, Retry) for one in tries), "agents have made their own retries"


@given(FAILURES, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_another_delegator_gets_what_it_may_be_able_to_do(
    failure: ErrorInfo, followers: bool, waiting: bool, can_continue: bool, hands_over: bool
) -> None:
    told = history(
        Try(NextCandidate(), Failed(failure)), followers=followers, waiting=waiting, can_continue=can_continue,
        repairs=3, rounds=3, hands_over=hands_over,
    )  # fmt: skip
    decision = next_step.next_step(told)
    if failure.kind in NEXT and followers:
        at_fault = failure.kind in {"tool_crashed", "tool_no_result", "malformed_output", "empty_output"}
        assert decision == NextCandidate(fresh=at_fault or not hands_over), "what a broken agent left is in no result"
    elif isinstance(decision, SendBack):
        assert waiting
        assert can_continue
        assert failure.kind not in {"auth_failed", "quota_exhausted", "budget_exhausted", "timed_out", "tool_missing"}
    else:
        assert decision == Stop()


@pytest.mark.parametrize("step", [NextCandidate(), SendBack(request=Request.REPAIR, why="w")])
@given(followers=st.booleans(), waiting=st.booleans())
def test_after_success_it_stops(step: Step, followers: bool, waiting: bool) -> None:
    done = history(
        Try(step, Judged(VERIFIED)), followers=followers, waiting=waiting, can_continue=True, repairs=3, rounds=3
    )
    assert next_step.next_step(done) == Stop(), "a verified result whose tests notice everything needs no other"


def test_what_the_user_says_is_heard_before_a_result_is_judged() -> None:
    said = {"waiting": True, "can_continue": True}
    expected = SendBack(request=Request.MESSAGES, why="the user said more")
    assert next_step.next_step(history(Try(NextCandidate(), Unheard()), **said)) == expected
    improving = SendBack(request=Request.STRENGTHEN, why="w")
    assert next_step.next_step(history(Try(improving, Unheard()), **said)) == Stop()


def test_repairs_come_before_rounds_and_end_with_the_first_that_is_not_kept() -> None:
    first = Try(NextCandidate(), Judged(RED))
    asked = next_step.next_step(history(first, repairs=2, rounds=1))
    assert asked == SendBack(request=Request.REPAIR, why="the check tests failed", number=1)
    again = next_step.next_step(history(first, Try(asked, Judged(RED)), repairs=2))
    assert again == SendBack(request=Request.REPAIR, why="the check tests failed", number=2)
    assert next_step.next_step(history(first, Try(asked, Judged(RED, "now lint fails")), repairs=2, rounds=1)) == Stop()
    repaired = history(first, Try(asked, Judged(WEAK)), repairs=2, rounds=1)
    assert next_step.begins_rounds(repaired)
    assert next_step.next_step(repaired) == SendBack(
        request=Request.STRENGTHEN, why="its tests should notice more", number=1
    )
    assert not next_step.begins_rounds(history(first, repairs=0, rounds=1)), "a red result has no rounds"


def test_an_improvement_that_the_limits_forbid_says_why_it_ends() -> None:
    spent = Budget(Limits(max_tokens=100)).charge(Spending(tokens=100))
    ended = next_step.next_step(history(Try(NextCandidate(), Judged(WEAK)), rounds=2, budget=spent))
    assert isinstance(ended, Stop)
    assert ended.instead_of is not None
    assert (ended.instead_of.number, ended.why) == (1, "the limit `max_tokens` of 100 is used up")


def test_a_result_that_was_improved_for_a_sample_is_judged_by_another_one() -> None:
    asked = SendBack(request=Request.STRENGTHEN, why="w")
    first = Try(NextCandidate(), Judged(WEAK))
    assert not next_step.needs_fresh_sample(history(first, rounds=1))
    assert not next_step.needs_fresh_sample(history(first, Try(asked, Judged(WEAK, "no")), rounds=1))
    assert next_step.needs_fresh_sample(history(first, Try(asked, Judged(WEAK)), rounds=1))


def test_a_rule_may_answer_a_verdict_with_the_next_candidate() -> None:
    def until_verified(now: History) -> Decision | None:
        unverified = now.is_settled and now.kept is not None and now.kept.verdict is not Verdict.VERIFIED
        return NextCandidate() if unverified else None

    rules = [until_verified, *RULES]
    assert next_step.next_step(history(Try(NextCandidate(), Judged(WEAK)), followers=True), rules) == NextCandidate()
    assert next_step.next_step(history(Try(NextCandidate(), Judged(VERIFIED)), followers=True), rules) == Stop()
    assert next_step.next_step(history(Try(NextCandidate(), Judged(WEAK)), followers=True)) == Stop()


def test_a_rule_cannot_retry_for_ever_and_not_longer_than_the_time() -> None:
    failed = Try(NextCandidate(), Failed(ErrorInfo(ErrorKind.RATE_LIMITED, "Later.")))
    tries = [failed]
    while len(tries) < 100 and next_step.next_step(history(*tries), [stubborn(Retry())]) == Retry():
        tries.append(failed)
    assert len(tries) == MAX_ATTEMPTS
    budget = Budget(Limits(total_seconds=60.0)).charge(Spending(seconds=30.0))
    assert next_step.next_step(history(failed, budget=budget), [stubborn(Retry(29.0))]) == Retry(29.0)
    assert next_step.next_step(history(failed, budget=budget), [stubborn(Retry(30.0))]) == Stop()


def test_no_other_candidate_repairs_what_an_agent_could_not_improve() -> None:
    first = Try(NextCandidate(), Judged(RED))
    asked = SendBack(request=Request.REPAIR, why="w")
    failed = Try(asked, Failed(ErrorInfo(ErrorKind.OVERLOADED, "Busy.")))
    assert next_step.next_step(history(first, failed, followers=True, repairs=3)) == Stop()


def kills_of(*killed: str, survivors: str = "") -> Noticed:
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


FEW_KILLED = evidence(Verdict.UNVERIFIED, Reservation.FEW_MUTANTS_KILLED, kills=kills_of("a", survivors="b"))


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (evidence(Verdict.VERIFIED, kills=kills_of("a", "b")), None),
        (evidence(Verdict.UNVERIFIED, Reservation.LITTLE_EXECUTED, kills=kills_of("a", "b")), None),
        (evidence(Verdict.CHECKS_FAILED, kills=kills_of("a", "b")), "a check fails"),
        (
            evidence(Verdict.UNVERIFIED, Reservation.OUTSIDE_SCOPE, Reservation.FLAKY, kills=kills_of("a", "b")),
            "it adds flaky, outside_scope",
        ),
        (evidence(Verdict.NO_CHANGES, kills=kills_of("a", "b")), "the verdict would be no_changes"),
        (evidence(Verdict.VERIFIED), "its tests could not be judged in the same way"),
        (
            evidence(Verdict.VERIFIED, kills=kills_of("b", "c", survivors="a")),
            "its tests no longer notice 1 of the changes before (calc.py:6)",
        ),
        (evidence(Verdict.UNVERIFIED, kills=kills_of("a")), "its tests notice nothing more"),
    ],
)
def test_stronger_tests_notice_more_and_lose_nothing(new: Evidence, why: str | None) -> None:
    assert objection(STRENGTHEN, FEW_KILLED, new, failing=[], changed=[]) == why


SHOW, HIDE = ("money.py", "show"), ("money.py", "hide")


@pytest.mark.parametrize(
    ("tested", "untested", "why"),
    [
        ({SHOW}, {HIDE}, None),
        ({SHOW, HIDE}, set(), None),
        (set(), {SHOW, HIDE}, "its tests could not be judged in the same way"),
        ({HIDE}, set(), None),
        (set(), set(), "its tests could not be judged in the same way"),
    ],
)
def test_stronger_tests_show_places_that_are_still_there(
    tested: set[tuple[str, str]], untested: set[tuple[str, str]], why: str | None
) -> None:
    before = Evidence(verdict=Verdict.UNVERIFIED, untested=frozenset({SHOW, HIDE}))
    new = Evidence(verdict=Verdict.UNVERIFIED, tested=frozenset(tested), untested=frozenset(untested))
    assert objection(STRENGTHEN, before, new, failing=[], changed=[]) == why
    worse = Evidence(verdict=Verdict.UNVERIFIED, tested=frozenset({HIDE}), untested=frozenset({SHOW}))
    assert objection(STRENGTHEN, worse, new, failing=[], changed=[]) == (
        None if SHOW in tested and HIDE not in untested else "its tests could not be judged in the same way"
    )


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
