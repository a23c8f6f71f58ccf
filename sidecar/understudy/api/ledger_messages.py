"""Parameters and results of requests about the ledger."""

from __future__ import annotations

from understudy.model.delegation.ledger import GroupBy, LedgerGroup, LedgerLine, LedgerShare, LedgerTotals
from understudy.model.wire import Strict, Wire


class LedgerPrices(Strict, kw_only=True):
    """Prices to compare with, in US dollars per million tokens, as decimal numbers."""

    read_usd: str
    written_usd: str
    cached_usd: str | None = None
    """For tokens that were read from a provider's cache; default: ``readUsd``."""


class LedgerParams(Strict, kw_only=True):
    """Select attempts and group them; ``limit`` is at most 1000, default 100.

    ``since`` and ``until`` (exclusive) are dates or times in RFC 3339; a date is its beginning in UTC.
    """

    since: str | None = None
    until: str | None = None
    workspace: str | None = None
    delegator: str | None = None
    tool: str | None = None
    model_server: str | None = None
    model: str | None = None
    recipe: str | None = None
    verdict: str | None = None
    session: str | None = None
    """Session of the agent that asked."""
    by: GroupBy | None = None
    compare: LedgerPrices | None = None
    share: bool = False
    """Also read the session files of Claude Code and Codex, and return the share of the work that was delegated; only
    with `since`, `until`, `workspace` and `session`."""
    limit: int | None = None
    cursor: str | None = None


class LedgerResult(Wire, kw_only=True):
    """Attempts, newest first (``cursor`` if more follow), and totals of all selected attempts."""

    lines: list[LedgerLine]
    totals: LedgerTotals
    groups: list[LedgerGroup]
    """Empty without ``by``."""
    cursor: str | None = None
    share: LedgerShare | None = None
    """Only with ``share``."""
