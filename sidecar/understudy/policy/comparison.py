"""Compare two results of a run: say what speaks against keeping the new one."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.model.verdicts import Reservation, Verdict, in_order
from understudy.policy.next_step import Evidence, Request, SendBack, Step

_BY_KILLS = frozenset(
    {
        Reservation.NO_MUTANT_KILLED,
        Reservation.FEW_MUTANTS_KILLED,
        Reservation.LITTLE_EXECUTED,
        Reservation.CHANGE_NOT_TESTED,
    }
)
"""Reservations about what the tests notice: for these, the mutants are compared."""
_DECEIVES = frozenset(
    {
        *(Reservation.CHECK_CHANGED, Reservation.TESTS_CHANGED, Reservation.OUTSIDE_SCOPE, Reservation.TAMPERED),
        *(Reservation.LOADED_CHECKOUT, Reservation.TREE_CHANGED),
    }
)
"""A check that passes like this was not repaired."""
_RANK = {Verdict.VERIFIED: 2, Verdict.UNVERIFIED: 1}
_RANK_OF_CANDIDATES = {Verdict.VERIFIED: 3, Verdict.ANSWERED: 3, Verdict.UNVERIFIED: 2, Verdict.CHECKS_FAILED: 1}
_MOST_NAMED = 5


def objection(
    step: Step, before: Evidence, new: Evidence, *, failing: Sequence[str], changed: Sequence[str]
) -> str | None:
    """Return why the new result is not kept; None if it is better in the way that ``step`` was meant to make it.

    ``failing`` are the names of the new result's failing checks, ``changed`` the paths in which the results differ, as
    mutants name them.
    """
    if not isinstance(step, SendBack):
        return _why_not_better(before, new)
    if step.request is Request.STRENGTHEN:
        return _why_not_stronger(before, new, changed)
    return _why_not_repaired(before, new, failing)


def _why_not_better(before: Evidence, new: Evidence) -> str | None:
    """Return why the result of another candidate is not better."""
    if _RANK_OF_CANDIDATES.get(new.verdict, 0) > _RANK_OF_CANDIDATES.get(before.verdict, 0):
        return None
    return f"it is {new.verdict}, and the one before is {before.verdict}"


def _why_not_repaired(before: Evidence, new: Evidence, failing: Sequence[str]) -> str | None:
    """Return why the new result is not a step to a repair."""
    passed = {check.name for check in before.checks if check.required and check.ok}
    broken = [name for name in failing if name in passed]
    if broken:
        return f"now {', '.join(broken)} fails"
    worse = in_order((set(new.reservations) - set(before.reservations)) & _DECEIVES)
    return f"it adds {', '.join(worse)}" if worse else None


def _why_not_stronger(before: Evidence, new: Evidence, changed: Sequence[str]) -> str | None:
    """Return why the tests of the new result are not better."""
    if new.verdict is Verdict.CHECKS_FAILED:
        return "a check fails"
    worse = in_order(set(new.reservations) - set(before.reservations) - _BY_KILLS)
    if worse:
        return f"it adds {', '.join(worse)}"
    if _RANK.get(new.verdict, 0) < _RANK.get(before.verdict, 0):
        return f"the verdict would be {new.verdict}"
    if new.noticed is None or before.noticed is None:
        return "its tests could not be judged in the same way"
    lost = new.noticed.lost(before.noticed, changed)
    if lost:
        named = ", ".join(f"{mutant.path}:{mutant.line}" for mutant in lost[:_MOST_NAMED])
        return f"its tests no longer notice {len(lost)} of the changes before ({named})"
    return None if new.noticed.gained(before.noticed) else "its tests notice nothing more"
