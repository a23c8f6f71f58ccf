"""What work costs, and a budget: what may be spent, and what was. Charging a budget returns another one.

The cost of work is, in this order: what the server reported, the prices that the user configured, nothing for a server
that is declared local, and the price table for the addresses of the providers in it. A proxy on another address has its
own prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

import msgspec

from understudy.model.config.delegators import Limits, ModelServer, Price
from understudy.model.config.price_table import price_table
from understudy.model.delegation.delegations import Attempt, Usage
from understudy.model.delegation.events import UsageReport
from understudy.model.errors import UNBILLED, ErrorInfo, class_of

CHARACTERS_PER_TOKEN = 4
"""The usual rule of thumb, used only where no count was reported; such counts are marked as estimates."""
TOTAL_TIME, COST = "total_seconds", "max_usd"
_MILLION = 1_000_000
_DATED = re.compile(r"(-latest|[-@]\d{4}-?\d{2}-?\d{2})?")
"""What may follow a name of the table: a version of the same model. Anything else is another model."""


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


def sum_of(usages: Iterable[Usage | UsageReport]) -> Usage:
    """Return the tokens, turns and tool calls of several together."""
    every = list(usages)
    return Usage(**{name: sum(getattr(usage, name) for usage in every) for name in Usage.__struct_fields__})


def together(first: UsageReport, second: UsageReport) -> UsageReport:
    """Return what two requests used together; the cost only if that of both is known.

    A computed part makes the sum computed.
    """
    counts = msgspec.structs.asdict(sum_of([first, second]))
    first_usd, second_usd = amount(first.cost_usd), amount(second.cost_usd)
    estimated = first.estimated or second.estimated
    if first_usd is None or second_usd is None:
        return msgspec.structs.replace(
            second, **counts, cost_usd=None, cost_source="unknown", price_date=None, estimated=estimated
        )
    return msgspec.structs.replace(
        second,
        **counts,
        cost_usd=format(first_usd + second_usd, "f"),
        cost_source=first.cost_source if second.cost_source == "reported" else second.cost_source,
        estimated=estimated,
    )


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
        return msgspec.structs.replace(report, cost_usd=cost, cost_source="table", price_date=price_table().date)
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
    table = price_table().prices.get(host, {})
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
