"""From facts to a verdict: the first row that fits, and nothing else decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from understudy.model.delegations import CheckResult
from understudy.model.states import Reservation, Verdict

LimitReached = Literal["timed_out", "budget_exhausted"]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that decides a verdict."""

    cancelled: bool = False
    """A person stopped it."""
    interrupted: bool = False
    """Its worker was gone."""
    limit: LimitReached | None = None
    """The limit that ended it."""
    failed: bool = False
    """The last attempt failed."""
    answer: str | None = None
    """What a text recipe answered; ``None`` for recipes that change files."""
    changed: bool = False
    """The tree of the result differs from the tree of the base."""
    results: tuple[CheckResult, ...] = ()
    """The checks that ran on the result."""
    reservations: frozenset[Reservation] = field(default_factory=frozenset)
    """What ``judge`` and the journal have to say."""


def verdict_of(facts: Facts) -> tuple[Verdict, list[Reservation]]:
    """Return the verdict and the reservations, in the order in which ``Reservation`` lists them.

    Reservations that the results of required checks imply are added, so that ``verified`` cannot be said over them.
    """
    reservations = facts.reservations | _implied(facts.results)
    required = [result for result in facts.results if result.required]
    verdict = _ended_early(facts)
    if verdict is None and not facts.changed:
        verdict = Verdict.NO_CHANGES
    if verdict is None:
        if not required:
            reservations |= {Reservation.NO_CHECKS}
        if any(not result.ok and not result.fails_on_base for result in required):
            verdict = Verdict.CHECKS_FAILED
        elif any(result.ok for result in required) and not reservations:
            verdict = Verdict.VERIFIED
        else:
            verdict = Verdict.UNVERIFIED
    return verdict, in_order(reservations)


def in_order(reservations: Iterable[Reservation]) -> list[Reservation]:
    """Return the reservations once each, in the order in which they are declared."""
    present = set(reservations)
    return [reservation for reservation in Reservation if reservation in present]


def _ended_early(facts: Facts) -> Verdict | None:
    if facts.cancelled:
        return Verdict.CANCELLED
    if facts.interrupted:
        return Verdict.INTERRUPTED
    if facts.limit is not None:
        return Verdict(facts.limit)
    if facts.failed:
        return Verdict.FAILED
    if facts.answer is not None:
        return Verdict.ANSWERED if facts.answer.strip() else Verdict.FAILED
    return None


def _implied(results: Iterable[CheckResult]) -> frozenset[Reservation]:
    implied: set[Reservation] = set()
    for result in results:
        if not result.required:
            continue
        if result.flaky:
            implied.add(Reservation.FLAKY)
        if result.fails_on_base:
            implied.add(Reservation.FAILS_ON_BASE)
        if result.wrong_tree:
            implied.add(Reservation.WRONG_TREE)
    return frozenset(implied)
