"""One line of the ledger: what one attempt cost and how it ended."""

from __future__ import annotations

from typing import Literal

from understudy.model.delegations import AskedBy, Usage
from understudy.model.wire import Wire

LEDGER_VERSION = 1

CostSource = Literal["reported", "estimated", "unknown"]
"""``reported`` by the server or the tool, ``estimated`` from counted text, or ``unknown``: there is no cost."""


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
    workspace: str
    delegator: str
    tool: str | None = None
    model_server: str | None = None
    model: str
    usage: Usage
    cost_usd: str | None = None
    """Decimal number as text."""
    cost_source: CostSource
    seconds: float
    verdict: str | None = None
    """How the delegation ended, for its last attempt."""
    failure: str | None = None
    """Error kind, when the attempt failed."""
