"""One line of the ledger: what one attempt cost and how it ended."""

from __future__ import annotations

from typing import Literal

from understudy.model.delegation.delegations import AskedBy, CostSource, Usage
from understudy.model.hunks import Review
from understudy.model.wire import Wire

LEDGER_VERSION = 1

GroupBy = Literal[
    "day", "month", "delegator", "tool", "model_server", "model", "recipe", "language", "workspace", "requester"
]
"""What attempts can be grouped by; days and months are those of UTC."""


class LedgerEntry(Wire, kw_only=True):
    """An attempt that has ended."""

    version: int = LEDGER_VERSION
    at: str
    """When the attempt ended."""
    id: str
    """The delegation."""
    attempt: int
    """Its number, from 1."""
    asked_by: AskedBy
    recipe: str
    language: str = ""
    """LSP language ID of the first file; empty when there is none or it is not known."""
    size: int | None = None
    """Bytes of the files of the work when it was requested; absent without files and in entries of earlier versions."""
    workspace: str
    target: str | None = None
    """The file that it was asked to write, for recipes that write one."""
    delegator: str
    tool: str | None = None
    model_server: str | None = None
    model: str
    usage: Usage
    cost_usd: str | None = None
    """Decimal number as text."""
    cost_source: CostSource | Literal["estimated"]
    """``estimated`` is only in entries of earlier versions."""
    price_date: str | None = None
    """The date of the price table that the cost was computed with."""
    cost_estimated: bool = False
    """Whether the cost was computed from tokens that Understudy estimated."""
    seconds: float
    verdict: str | None = None
    """How the delegation ended, for its last attempt."""
    failure: str | None = None
    """Error kind, when the attempt failed."""


class LedgerLine(Wire, kw_only=True):
    """One attempt, with what the user decided about the result."""

    entry: LedgerEntry
    review: Review | None = None
    """Decisions on the hunks of its delegation; only on the last attempt, and while the delegation is on disk."""


class LedgerTotals(Wire, kw_only=True):
    """Sums over attempts that have ended."""

    attempts: int
    delegations: int
    outcomes: dict[str, int]
    """Verdict, or the kind of the error for an attempt that failed → number of attempts."""
    usage: Usage
    cost_usd: str
    """Sum of the known costs, a decimal number as text."""
    costs_estimated: int
    """Attempts whose cost was computed from estimated tokens."""
    costs_computed: int = 0
    """Attempts whose cost was computed from prices instead of reported."""
    costs_unknown: int
    """Attempts without a known cost; they add nothing to the sum."""
    seconds: float
    """Sum of the durations."""
    median_seconds: float
    p90_seconds: float
    """Nine of ten attempts took at most this long."""
    handovers: int = 0
    """Attempts after which another delegator took over."""
    verified_usd: str | None = None
    """The sum of the costs, also those of attempts that failed, for each verified result; absent without a verified
    result or a known cost."""
    compared_usd: str | None = None
    """What the same tokens would cost at the prices of the request."""


class LedgerGroup(Wire, kw_only=True):
    """The totals of the attempts with one value, such as one delegator."""

    key: str
    """Empty for attempts that have no such value."""
    totals: LedgerTotals


class OrchestratorUsage(Wire, kw_only=True):
    """What the sessions of one agent CLI used that a person works with."""

    tool: str
    model: str
    sessions: int
    usage: Usage
    delegated_usd: str | None = None
    """What the delegated tokens would have cost on this model, at its list price; absent if that is not known."""
    price_date: str | None = None
    """The day of that price."""


class LedgerShare(Wire, kw_only=True):
    """How much of the work was delegated, in tokens.

    Sessions of an agent that are themselves delegations count as delegated, not as an orchestrator's.
    """

    since: str
    """From this time on, RFC 3339; without `since` in the request, the beginning of the first attempt, and 1970 for one
    session."""
    orchestrators: list[OrchestratorUsage]
    read_percent: float | None = None
    """Tokens that delegations read, of all that were read; absent when none was read."""
    written_percent: float | None = None
    """The same for tokens that were written."""
    unread: list[str]
    """What could not be read, as sentences; the share is too high by it."""
