"""Say how a delegation ended, with the cause of a failure."""

from __future__ import annotations

from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorInfo
from understudy.model.text.sanitize import one_line
from understudy.model.verdicts import RESERVATIONS, VERDICTS, Reservation, Verdict


def cause(error: ErrorInfo) -> str:
    """Return why something failed, on one line without a full stop: what follows is output of a program."""
    return one_line(error.message.strip().partition("\n")[0]).removesuffix(".")


def meaning(verdict: Verdict, error: ErrorInfo | None) -> str:
    """Return why a delegation ended like this, without a full stop: the cause, or what the verdict means."""
    return VERDICTS[verdict] if error is None else cause(error)


def facts_of(reservation: Reservation, delegation: Delegation) -> list[str]:
    """Return what a reservation of a delegation is about, as sentences; none if only its meaning is known."""
    return [one_line(fact.text) for fact in delegation.reservation_facts if fact.reservation is reservation]


def reservation_reason(reservation: Reservation, delegation: Delegation) -> str:
    """Return why a result is not verified, without a full stop: the first fact, or what the reservation means."""
    facts = facts_of(reservation, delegation)
    if not facts:
        return RESERVATIONS[reservation][0]
    more = f" (and {len(facts) - 1} more)" if facts[1:] else ""
    return f"{facts[0].removesuffix('.')}{more}"


def verdict_sentence(delegation: Delegation) -> str:
    """Return how a delegation ended, without a full stop: its verdict, then the cause and every reservation."""
    verdict, error = delegation.verdict, delegation.error
    if verdict is None:
        return "not finished yet"
    reasons = [reservation_reason(reservation, delegation) for reservation in delegation.reservations]
    if error is not None or not reasons:
        reasons.insert(0, meaning(verdict, error))
    return f"{verdict.replace('_', ' ')}: {'; '.join(reasons)}"
