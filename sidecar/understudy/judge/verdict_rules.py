"""Compute a verdict from facts: the first rule that applies decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from understudy.model.evidence.checks import CheckResult
from understudy.model.verdicts import Reservation, Verdict, in_order

LimitReached = Literal["timed_out", "budget_exhausted"]


@dataclass(frozen=True, kw_only=True)
class VerdictFacts:
    """Everything that decides a verdict."""

    cancelled: bool = False
    """The user cancelled it."""
    interrupted: bool = False
    """Its worker died."""
    limit: LimitReached | None = None
    """The limit that stopped it."""
    failed: bool = False
    """The last attempt failed."""
    answer: str | None = None
    """The answer of a text recipe; None for recipes that change files."""
    changed: bool = False
    """The result differs from the base."""
    results: tuple[CheckResult, ...] = ()
    """The checks that ran on the result."""
    reservations: frozenset[Reservation] = field(default_factory=frozenset)
    """Reservations of ``judge`` and of the journal."""


def verdict_of(facts: VerdictFacts) -> tuple[Verdict, list[Reservation]]:
    """Return the verdict and the reservations, in the order in which ``Reservation`` lists them.

    Reservations that follow from the results of required checks are added, so that they prevent ``verified``.
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


def _ended_early(facts: VerdictFacts) -> Verdict | None:
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
        if result.checkout_files:
            implied.add(Reservation.LOADED_CHECKOUT)
        if result.changed_files:
            implied.add(Reservation.TREE_CHANGED)
        if result.tampered:
            implied.add(Reservation.TAMPERED)
    return frozenset(implied)
