"""What work costs, and for a request to a model server where the amount is from. An unknown cost is never zero.

In this order: what the server reported, the prices that the user configured, nothing for a server that is declared
local, and the price table for the addresses of the providers in it. A proxy on another address has its own prices.
"""

from __future__ import annotations

import re
from decimal import Decimal
from urllib.parse import urlsplit

import msgspec

from understudy.model.config.delegators import ModelServer, Price
from understudy.model.config.price_table import PRICES, PRICES_DATE
from understudy.model.delegation.delegations import Usage
from understudy.model.delegation.events import UsageReport
from understudy.policy.budget import amount

_MILLION = 1_000_000
_DATED = re.compile(r"(-latest|[-@]\d{4}-?\d{2}-?\d{2})?")
"""What may follow a name of the table: a version of the same model. Anything else is another model."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Prices in US dollars per million tokens."""

    read: Decimal
    written: Decimal
    cache_read: Decimal | None = None
    """For tokens read from a provider's cache; None: as ``read``."""
    cache_write: Decimal | None = None
    """For tokens written to it; None: as ``read``."""

    def cost(self, usage: UsageReport | Usage) -> Decimal:
        """Return what ``usage`` costs; its input tokens include those read from and written to a cache."""
        cached = min(usage.cache_read_tokens, usage.input_tokens)
        stored = min(usage.cache_write_tokens, usage.input_tokens - cached)
        total = (
            (usage.input_tokens - cached - stored) * self.read
            + cached * (self.read if self.cache_read is None else self.cache_read)
            + stored * (self.read if self.cache_write is None else self.cache_write)
            + usage.output_tokens * self.written
        )
        return total / _MILLION


def priced(report: UsageReport, server: ModelServer | None, model: str, *, size: int | None = None) -> UsageReport:
    """Return the report of one request with its cost and the source of the cost; ``cost_usd`` is what was reported.

    ``size`` is that of the request in tokens, if the report is about several: large ones have other prices.
    """
    if server is None:
        return report
    reported = amount(report.cost_usd)
    # Only OpenRouter says 0 for what is free; proxies say it for a model whose price they do not know.
    if reported is not None and (reported > 0 or server.kind == "openrouter"):
        return msgspec.structs.replace(report, cost_source="reported")
    configured = _configured(server, model)
    if configured is not None:
        return msgspec.structs.replace(report, cost_usd=_cost(report, configured), cost_source="configured")
    if server.locality == "local":
        return msgspec.structs.replace(report, cost_usd="0", cost_source="local")
    listed = _listed(server, model, report.input_tokens if size is None else size)
    if listed is not None:
        cost = _cost(report, listed)
        return msgspec.structs.replace(report, cost_usd=cost, cost_source="table", price_date=PRICES_DATE)
    return msgspec.structs.replace(report, cost_usd=None, cost_source="unknown")


def list_cost(host: str, model: str, usage: Usage) -> str | None:
    """Return what ``usage`` costs at the list price of a provider's model, as if no request was a large one."""
    price = _in_table(host, model, 0)
    return _cost(usage, price) if price is not None else None


def _configured(server: ModelServer, model: str) -> Price | None:
    prices = server.prices or {}
    fits = [prefix for prefix in prices if model.startswith(prefix)]
    return prices[max(fits, key=len)] if fits else None


def _listed(server: ModelServer, model: str, size: int) -> Price | None:
    try:
        host = urlsplit(server.base_url).hostname or ""
    except ValueError:
        return None
    return _in_table(host, model, size)


def _in_table(host: str, model: str, size: int) -> Price | None:
    table = PRICES.get(host, {})
    # Google's own clients write the name as a path.
    name = model.removeprefix("models/")
    fits = [prefix for prefix in table if name.startswith(prefix) and _DATED.fullmatch(name[len(prefix) :])]
    if not fits:
        return None
    read_price, written, cache_read, cache_write, largest = (*table[max(fits, key=len)], "", "", "")[:5]
    if largest and size > int(largest):
        return None
    return Price(input=read_price, output=written, cache_read=cache_read or None, cache_write=cache_write or None)


def _cost(usage: UsageReport | Usage, price: Price) -> str | None:
    read, written = amount(price.input), amount(price.output)
    if read is None or written is None:
        return None
    rates = Rates(
        read=read, written=written, cache_read=amount(price.cache_read), cache_write=amount(price.cache_write)
    )
    return format(rates.cost(usage).normalize(), "f")
