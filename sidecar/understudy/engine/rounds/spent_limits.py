"""Compute what the attempts so far have left of a delegation's limits."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import msgspec

from understudy.model.config.delegators import Limits
from understudy.model.delegations import Attempt


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
