"""Hold the budget that the delegations of a group share.

No process is in charge of a group: the process that starts the next member compares what all of them spent with the
budget, and so does each running member whenever its model reports usage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, InvalidOperation

from understudy.journal import delegation_folder, groups
from understudy.journal.summaries import summary
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError

CHECK_SECONDS = 1.0
"""How often a running member reads what the others spent; their summaries are as old as this, too."""


class Watch:
    """Compares the budget of a group, if there is one, with what its members spent, for one that runs."""

    def __init__(self, group_id: Callable[[], str | None]) -> None:
        """Watch the group whose id ``group_id`` returns; None: none now."""
        self._group_id = group_id
        self._checked = float("-inf")

    def check(self, own: Delegation) -> None:
        """Raise ``budget_exhausted`` if the budget is spent; ``own`` is the current state of this member."""
        group = self._group_id()
        if group is None or time.monotonic() - self._checked < CHECK_SECONDS:
            return
        spent = exceeded(group, own)
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
    budget = group.budget
    if budget is None:
        return None
    tokens, cost = 0, Decimal(0)
    for member in group.delegations:
        with suppress(UnderstudyError):  # one that was removed
            found = own if own is not None and own.id == member else summary.peek(delegation_folder.open_folder(member))
            tokens += found.usage.input_tokens + found.usage.output_tokens
            with suppress(InvalidOperation):
                cost += Decimal(found.cost_usd or 0)
    most_tokens, most_usd = budget.max_tokens, budget.max_usd
    if most_tokens is not None and (tokens > most_tokens or (own is None and tokens == most_tokens)):
        return _spent(group_id, f"{tokens} of {most_tokens} tokens")
    if most_usd is not None and (cost > Decimal(most_usd) or (own is None and cost == Decimal(most_usd))):
        return _spent(group_id, f"{cost} of {most_usd} USD")
    return None


def _spent(group_id: str, how_much: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.BUDGET_EXHAUSTED,
        f"The budget of group {group_id} is spent: {how_much}.",
        hint="Start what is left in another group, with another budget.",
    )
