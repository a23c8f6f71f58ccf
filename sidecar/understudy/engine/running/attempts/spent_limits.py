"""Compute what the attempts so far have left of a delegation's limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import msgspec

from understudy.journal.writing.writer import Writer
from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import Attempt
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import UNBILLED, UnderstudyError, class_of


class SpentLimits:
    """The limits of one run: all of its attempts share them."""

    def __init__(self, writer: Writer) -> None:
        """Count the attempts in the journal of ``writer``, and the time from ``begin`` on."""
        self._writer = writer
        self._began = 0.0

    def begin(self) -> None:
        """Start the total time."""
        self._began = time.monotonic()

    def seconds_left(self, candidate: SpecCandidate) -> float | None:
        """Return how much of the candidate's total time all attempts together have left; None: there is no limit."""
        total = candidate.limits.total_seconds
        return None if total is None else round(max(0.0, total - (time.monotonic() - self._began)), 3)

    def left(self, candidate: SpecCandidate, failure: UnderstudyError | None = None) -> Limits | str:
        """Return the limits of one more attempt on ``candidate``, or why there can be none.

        With the ``failure`` of the last attempt, those that cost nothing do not count.
        """
        attempts = self._writer.delegation.attempts
        counted = attempts if failure is None else _billed(attempts, failure)
        return left(candidate.limits, counted, self.seconds_left(candidate))


def left(limits: Limits, attempts: Sequence[Attempt], seconds: float | None) -> Limits | str:
    """Return the limits of one more attempt, or why there can be none.

    ``seconds`` is what is left of the total time; None: there is no limit.
    """
    if seconds is not None and seconds <= 0:
        return "the total time is over"
    used = {
        "max_turns": sum(one.usage.turns for one in attempts),
        "max_output_tokens": sum(one.usage.output_tokens for one in attempts),
        "max_tokens": sum(one.usage.input_tokens + one.usage.output_tokens for one in attempts),
    }
    changed: dict[str, object] = {}
    for name, spent in used.items():
        limit = getattr(limits, name)
        if limit is None:
            continue
        if spent >= limit:
            return f"the limit `{name}` of {limit} is used up"
        changed[name] = limit - spent
    if limits.max_usd is not None:
        try:
            rest = Decimal(limits.max_usd) - sum((Decimal(one.cost_usd or "NaN") for one in attempts), Decimal(0))
        except InvalidOperation:
            rest = Decimal("NaN")
        if rest.is_nan():
            return f"the cost so far is not known, and the limit `max_usd` is {limits.max_usd}"
        if rest <= 0:
            return f"the limit `max_usd` of {limits.max_usd} is used up"
        changed["max_usd"] = format(rest, "f")
    return msgspec.structs.replace(limits, **changed)


def _billed(attempts: Sequence[Attempt], failure: UnderstudyError) -> list[Attempt]:
    """Return the attempts that may have cost something: not those that a server refused before its model worked.

    ``failure`` is that of the last attempt, which is not recorded yet.
    """
    kinds = [one.failure.kind if one.failure is not None else None for one in attempts[:-1]]
    return [
        one
        for one, kind in zip(attempts, [*kinds, failure.kind], strict=True)
        if kind is None
        or one.cost_usd is not None
        or one.usage.input_tokens + one.usage.output_tokens > 0
        or class_of(kind) not in UNBILLED
    ]
