"""Hold the budget that the delegations of a group share.

No process is in charge of a group: the process that starts the next member compares what all of them spent with the
budget, and so does each running member whenever its model reports usage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from understudy.journal import delegation_folder, groups
from understudy.journal.summaries import summary
from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import Delegation, GroupBudget
from understudy.model.delegation.spec import RelayBounds
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.policy.budget import COST, Budget, Shortage, Spending

CHECK_SECONDS = 1.0
"""How often a running member reads what the others spent; their summaries are as old as this, too."""


class Watch:
    """Compares the budget of a group, if there is one, with what its members spent, for one that runs."""

    def __init__(self, group_id: Callable[[], str | None]) -> None:
        """Watch the group whose id ``group_id`` returns; None: none now."""
        self._group_id = group_id
        self._checked = float("-inf")

    def check(self, member: Delegation) -> None:
        """Raise ``budget_exhausted`` if the budget is spent; ``member`` is the current state of this one."""
        group = self._group_id()
        if group is None or time.monotonic() - self._checked < CHECK_SECONDS:
            return
        spent = exceeded(group, member)
        if spent is not None:
            raise spent
        self._checked = time.monotonic()


def exceeded(group_id: str | None, own: Delegation | None = None) -> UnderstudyError | None:
    """Return the error for the budget of a group that is spent; None if some is left or there is none.

    ``own`` is the current state of a member that runs: it may spend the last of the budget, but no more, while one that
    waits needs some left. A group that cannot be read limits nothing.
    """
    if group_id is None:
        return None
    try:
        group = groups.read(group_id)
    except UnderstudyError:
        return None
    if group.budget is None:
        return None
    budget = budget_of(group.budget)
    for member in group.delegations:
        with suppress(UnderstudyError):  # one that was removed
            delegation = (
                own if own is not None and own.id == member else summary.peek(delegation_folder.open_folder(member))
            )
            budget = budget.charge(spent_by(delegation))
    short = budget.exceeded() if own is not None else budget.reserve()
    return _spent(group_id, described(short)) if isinstance(short, Shortage) else None


def budget_of(bounds: GroupBudget | RelayBounds) -> Budget:
    """Return the budget of what several delegations spend together."""
    return Budget(Limits(max_tokens=bounds.max_tokens, max_usd=bounds.max_usd))


def spent_by(delegation: Delegation) -> Spending:
    """Return what a delegation cost; what has no known cost counts as free."""
    return Spending.of(delegation.usage, delegation.cost_usd, unknown_is_free=True)


def described(short: Shortage) -> str:
    """Return how much was spent of how much."""
    return f"{short.spent} of {short.most} {'USD' if short.limit == COST else 'tokens'}"


def _spent(group_id: str, how_much: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.BUDGET_EXHAUSTED,
        f"The budget of group {group_id} is spent: {how_much}.",
        hint="Start what is left in another group, with another budget.",
    )
