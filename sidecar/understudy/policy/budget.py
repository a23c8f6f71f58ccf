"""One budget: what may be spent, and what was. A budget never changes; charging it returns another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import Attempt, Usage
from understudy.model.delegation.events import UsageReport
from understudy.model.errors import UNBILLED, ErrorInfo, class_of

CHARACTERS_PER_TOKEN = 4
"""The usual rule of thumb, used only where no count was reported; such counts are marked as estimates."""

TOTAL_TIME, COST = "total_seconds", "max_usd"


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What work cost."""

    seconds: float = 0.0
    turns: int = 0
    output_tokens: int = 0
    tokens: int = 0
    """Read and written."""
    usd: Decimal = Decimal(0)
    """As far as it is known."""
    usd_known: bool = True

    @classmethod
    def of(cls, usage: Usage | UsageReport, cost_usd: str | None, *, unknown_is_free: bool = False) -> Spending:
        """Return what an attempt or a delegation spent; ``cost_usd`` is a decimal string, None: unknown."""
        usd = amount(cost_usd)
        return cls(
            turns=usage.turns,
            output_tokens=usage.output_tokens,
            tokens=usage.input_tokens + usage.output_tokens,
            usd=usd or Decimal(0),
            usd_known=usd is not None or unknown_is_free,
        )

    def __add__(self, other: Spending) -> Spending:
        """Return both together."""
        return Spending(
            seconds=self.seconds + other.seconds,
            turns=self.turns + other.turns,
            output_tokens=self.output_tokens + other.output_tokens,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            usd_known=self.usd_known and other.usd_known,
        )


NOTHING = Spending()


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that allows no more."""

    limit: str
    """Its name, a field of ``Limits``."""
    most: str
    spent: str | None
    """None: unknown."""

    @property
    def why(self) -> str:
        """Why another attempt is impossible."""
        if self.limit == TOTAL_TIME:
            return "the total time is over"
        if self.spent is None:
            return f"the cost so far is not known, and the limit `{self.limit}` is {self.most}"
        return f"the limit `{self.limit}` of {self.most} is used up"


class Budget(msgspec.Struct, frozen=True):
    """Limits, and what was spent or reserved of them. What a limit is None for is not limited."""

    limits: Limits
    spent: Spending = NOTHING

    def charge(self, *spending: Spending) -> Budget:
        """Return the budget after more was spent."""
        return Budget(self.limits, sum(spending, self.spent))

    def reserve(self, spending: Spending = NOTHING) -> Budget | Shortage:
        """Return the budget for what begins now and may spend so much, or the limit that leaves too little for it.

        Nothing begins when nothing is left; an unknown cost may have been everything.
        """
        for name, most, spent in self._counts():
            if name == COST and not self.spent.usd_known:
                return Shortage(limit=name, most=str(self.limits.max_usd), spent=None)
            if spent >= most:
                return self._shortage(name, spent)
        after = self.charge(spending)
        return after.exceeded() or after

    def exceeded(self) -> Shortage | None:
        """Return the first limit that was exceeded. Work that has begun may spend the last of a budget, and no more."""
        over = (self._shortage(name, spent) for name, most, spent in self._counts() if spent > most)
        return next(over, None)

    def left(self) -> Limits:
        """Return the limits with what is left of each; the total time stays as it is, see ``seconds_left``."""
        rest = {name: most - spent for name, most, spent in self._counts() if name != TOTAL_TIME}
        if COST in rest:
            rest[COST] = format(rest[COST], "f")
        return msgspec.structs.replace(self.limits, **rest)

    @property
    def seconds_left(self) -> float | None:
        """What is left of the total time; None: it is not limited."""
        total = self.limits.total_seconds
        return None if total is None else round(max(0.0, total - self.spent.seconds), 3)

    def _counts(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield the name of each limit that is set, its value, and what was spent of it."""
        for name, spent in (
            (TOTAL_TIME, self.spent.seconds),
            ("max_turns", self.spent.turns),
            ("max_output_tokens", self.spent.output_tokens),
            ("max_tokens", self.spent.tokens),
            (COST, self.spent.usd),
        ):
            most = getattr(self.limits, name)
            if most is not None:
                yield name, Decimal(most) if name == COST else most, spent

    def _shortage(self, name: str, spent: Any) -> Shortage:
        text = format(spent, "f") if name == COST else str(spent)
        return Shortage(limit=name, most=str(getattr(self.limits, name)), spent=text)


def spent_in(attempts: Sequence[Attempt]) -> Spending:
    """Return what attempts cost."""
    return sum((Spending.of(attempt.usage, attempt.cost_usd) for attempt in attempts), NOTHING)


def billed(attempts: Sequence[Attempt], failure: ErrorInfo) -> list[Attempt]:
    """Return the attempts that may have cost something: not those that a server refused before its model worked.

    ``failure`` is that of the last attempt, which is not recorded yet.
    """
    kinds = [attempt.failure.kind if attempt.failure is not None else None for attempt in attempts[:-1]]
    return [
        attempt
        for attempt, kind in zip(attempts, [*kinds, failure.kind], strict=True)
        if kind is None
        or attempt.cost_usd is not None
        or attempt.usage.input_tokens + attempt.usage.output_tokens > 0
        or class_of(kind) not in UNBILLED
    ]


def amount(text: str | None) -> Decimal | None:
    """Return an amount of money; None if ``text`` is missing or invalid."""
    try:
        value = Decimal(text or "NaN")
    except InvalidOperation:
        return None
    return value if value.is_finite() and value >= 0 else None


def estimate_tokens(text: str) -> int:
    """Return roughly how many tokens ``text`` is."""
    return estimate_tokens_of(len(text))


def estimate_tokens_of(characters: int) -> int:
    """Return roughly how many tokens this many characters are."""
    return (characters + CHARACTERS_PER_TOKEN - 1) // CHARACTERS_PER_TOKEN
