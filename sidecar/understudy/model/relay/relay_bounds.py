"""How far agents may delegate further."""

from __future__ import annotations

from understudy.model.wire import Wire


class RelayBounds(Wire, kw_only=True):
    """How far agents may delegate further (``[relay]`` of the configuration)."""

    max_depth: int = 2
    """How many delegations may be below one that a user started; 0: agents delegate nothing."""
    max_delegations: int = 8
    """How many delegations the agents of one group start, all together."""
    max_tokens: int | None = None
    """The most tokens that they read and write, all together; None: see ``child_delegations.budget_of``."""
    max_usd: str | None = None
    """What they cost, all together, in USD as a decimal string."""
