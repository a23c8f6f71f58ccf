"""How far agents may delegate further."""

from __future__ import annotations

from understudy.model.wire import Wire


class RelayBounds(Wire, kw_only=True):
    """``[relay]``: how far agents with ``launch.relay`` may delegate further; in a user's own configuration only."""

    max_depth: int = 2
    """How many delegations may be below one that you started; `0`: agents delegate nothing."""
    max_delegations: int = 8
    """How many delegations the agents of one group start, all together."""
    max_tokens: int | None = None
    """The most tokens that these read and write, all together. Absent: as many as the first delegation may."""
    max_usd: str | None = None
    """What these cost, all together, in USD: `"0.50"`. Absent: as much as the first delegation may."""
