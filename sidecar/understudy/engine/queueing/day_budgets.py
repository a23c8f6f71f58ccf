"""What was spent today, of the budgets of a day: nothing new begins when one is spent."""

from __future__ import annotations

from datetime import datetime

from understudy.journal import ledger
from understudy.model.config.delegators import DayBudget, Delegator, Limits
from understudy.model.delegation.delegations import Usage
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp
from understudy.policy.budget import NOTHING, Budget, Shortage, Spending

_WORDS = {"max_usd": "US dollars", "max_tokens": "tokens"}


def shortage(delegator: Delegator, of_all: DayBudget) -> str | None:
    """Return why an attempt on ``delegator`` may not begin today; None if its budgets allow one.

    It counts attempts that have ended today. One of an unknown cost may have cost everything.
    """
    of_one = delegator.per_day or DayBudget()
    if not (of_one.is_set or of_all.is_set):
        return None  # the usual case, which reads no ledger
    everything = mine = NOTHING
    for entry in ledger.read(timestamp(midnight())):
        spent = Spending.of(entry.usage, entry.cost_usd, unknown_is_free=entry.usage == _NO_TOKENS)
        everything += spent
        if entry.delegator == delegator.name:
            mine += spent
    for budget, spent, whose in ((of_one, mine, f"of {delegator.name}"), (of_all, everything, "of all work")):
        reserved = Budget(Limits(max_usd=budget.usd, max_tokens=budget.tokens)).charge(spent).reserve()
        if isinstance(reserved, Shortage):
            what = f"{reserved.most} {_WORDS[reserved.limit]}"
            if reserved.spent is None:
                return f"what was spent today is not known, and the budget {whose} is {what} per day"
            return f"the budget {whose}, {what} per day, is spent"
    return None


def require(delegator: Delegator, of_all: DayBudget) -> None:
    """Raise ``budget_exhausted`` if an attempt on ``delegator`` may not begin today."""
    why = shortage(delegator, of_all)
    if why is not None:
        raise UnderstudyError(
            ErrorKind.BUDGET_EXHAUSTED,
            f"{why[:1].upper()}{why[1:]}.",
            hint="It begins again at midnight. To go on now, raise `per_day` of the delegator or in your config.toml.",
        )


def midnight() -> datetime:
    """Return when the user's day began."""
    return datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)


_NO_TOKENS = Usage(**dict.fromkeys(Usage.__struct_fields__, 0))
