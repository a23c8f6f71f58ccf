"""Decide how a run ends: its verdict, its reservations and its error. Pure functions of what is known by then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from understudy.judge import verdict_rules
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.verdicts import Reservation, ReservationFact, Verdict, in_order

if TYPE_CHECKING:  # imported while the agent works
    from understudy.judge.judge import Judgement

ENDED_EARLY = frozenset(
    {Verdict.CANCELLED, Verdict.INTERRUPTED, Verdict.TIMED_OUT, Verdict.BUDGET_EXHAUSTED, Verdict.FAILED}
)
"""How the work itself ended; checks that run again later do not change that."""
_LASTING = frozenset({Reservation.TAMPERED, Reservation.OUTSIDE_CHANGED, Reservation.NOT_ISOLATED})
"""Running checks again does not make up for these."""
_LIMITS: dict[ErrorKind, verdict_rules.LimitReached] = {
    ErrorKind.TIMED_OUT: "timed_out",
    ErrorKind.STALLED: "timed_out",
    ErrorKind.BUDGET_EXHAUSTED: "budget_exhausted",
}


@dataclass(frozen=True)
class RunEnd:
    """How a delegation ends."""

    verdict: Verdict
    reservations: list[Reservation]
    facts: list[ReservationFact] = field(default_factory=list)
    """What the reservations are about."""
    error: ErrorInfo | None = None


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Everything that decides how a run ends."""

    cancelled: bool
    interrupted: bool
    failure: UnderstudyError | None
    answer: str | None
    """The answer of a text recipe; None for recipes that change files."""
    changed: bool
    judgement: Judgement | None
    reservations: Iterable[Reservation]
    """Those that do not come from the judgement."""


def end_of(facts: RunFacts) -> RunEnd:
    """Return how the run ends."""
    failure, judgement = facts.failure, facts.judgement
    verdict, reservations = verdict_rules.verdict_of(
        verdict_rules.VerdictFacts(
            cancelled=facts.cancelled,
            interrupted=facts.interrupted,
            limit=_LIMITS.get(failure.kind) if failure is not None else None,
            failed=failure is not None,
            answer=facts.answer,
            changed=facts.changed,
            results=tuple(judgement.results) if judgement is not None else (),
            reservations=frozenset(facts.reservations).union(judgement.reservations if judgement is not None else ()),
        )
    )
    about = judgement.facts if judgement is not None else []
    return RunEnd(verdict, reservations, about, failure.info() if failure is not None else None)


def earlier_end(before: Delegation) -> RunEnd:
    """Return how a delegation had ended before its checks ran again."""
    verdict = before.verdict or Verdict.INTERRUPTED
    return RunEnd(verdict, before.reservations, before.reservation_facts, before.error)


def after_recheck(before: Delegation, end: RunEnd, error: ErrorInfo | None) -> RunEnd:
    """Return how a delegation ends whose checks ran again, to ``end``: how the work itself ended does not change.

    ``error`` is why the work had ended early, as far as that still holds.
    """
    if before.verdict in ENDED_EARLY:
        return RunEnd(before.verdict, before.reservations, before.reservation_facts, error)
    lasting = _LASTING.intersection(before.reservations)
    if lasting <= set(end.reservations):
        return end
    verdict = Verdict.UNVERIFIED if end.verdict is Verdict.VERIFIED else end.verdict
    facts = [*end.facts, *(fact for fact in before.reservation_facts if fact.reservation in lasting)]
    reservations = in_order({*end.reservations, *lasting})
    return replace(end, verdict=verdict, reservations=reservations, facts=facts)
