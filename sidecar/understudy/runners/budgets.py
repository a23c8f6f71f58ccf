"""Estimate tokens, and report a budget that is used up."""

from __future__ import annotations

from understudy.model.config.delegators import Limits
from understudy.model.errors import ErrorKind, UnderstudyError

CHARACTERS_PER_TOKEN = 4
"""The usual rule of thumb, used only where no count was reported; such counts are marked as estimates."""


def estimate_tokens(text: str) -> int:
    """Return roughly how many tokens ``text`` is."""
    return estimate_tokens_of(len(text))


def estimate_tokens_of(characters: int) -> int:
    """Return roughly how many tokens this many characters are."""
    return (characters + CHARACTERS_PER_TOKEN - 1) // CHARACTERS_PER_TOKEN


def over_budget(
    limits: Limits, *, turns: int, output_tokens: int, tokens: int, cost_usd: str | None
) -> UnderstudyError | None:
    """Return the error for the first limit that these counts exceed, None if they exceed none."""
    from decimal import Decimal, InvalidOperation

    for name, count, limit in (
        ("maxTurns", turns, limits.max_turns),
        ("maxOutputTokens", output_tokens, limits.max_output_tokens),
        ("maxTokens", tokens, limits.max_tokens),
    ):
        if limit is not None and count > limit:
            return _exhausted(name, str(limit), str(count))
    if limits.max_usd is not None and cost_usd is not None:
        try:
            above = Decimal(cost_usd) > Decimal(limits.max_usd)
        except InvalidOperation:
            return None
        if above:
            return _exhausted("maxUsd", limits.max_usd, f"{cost_usd} USD")
    return None


def _exhausted(name: str, limit: str, reached: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.BUDGET_EXHAUSTED,
        f"The attempt was stopped at {reached}: its limit `{name}` is {limit}.",
        hint=f"Raise `{name}` in the delegator's limits, or delegate a smaller piece.",
    )
