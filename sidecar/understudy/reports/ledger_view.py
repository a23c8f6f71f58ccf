"""The ledger as users see it: the newest attempts, and totals by day, model, recipe and more."""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from understudy.journal import delegation_folder, ledger, reader
from understudy.model.delegation.delegations import Usage, no_usage
from understudy.model.delegation.ledger import GroupBy, LedgerEntry, LedgerGroup, LedgerLine, LedgerTotals
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp
from understudy.policy.budget import Rates, amount

_HIGHEST_PRICE = 1_000_000
_POSITION = re.compile(r"(\d{4}-\d{2}):(\d{1,12})")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which attempts to look at; None selects all."""

    since: str = ""
    """RFC 3339 in UTC, as ``moment`` returns it; empty: from the beginning."""
    until: str | None = None
    """Exclusive."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Field of an entry → its value."""
    session: str | None = None

    def has(self, entry: LedgerEntry) -> bool:
        """Return whether an entry is selected; ``ledger.numbered`` has compared ``since``."""
        if self.until is not None and entry.at >= self.until:
            return False
        if self.session is not None and entry.asked_by.session != self.session:
            return False
        return all(getattr(entry, name) == value for name, value in self.fields.items())


@dataclass(frozen=True)
class View:
    """A page of attempts, newest first, and totals of all selected ones."""

    lines: list[LedgerLine]
    cursor: str | None
    totals: LedgerTotals
    groups: list[LedgerGroup]


def view(
    selection: Wanted, *, by: GroupBy | None = None, prices: Rates | None = None, limit: int, cursor: str | None = None
) -> View:
    """Read the ledger; ``limit`` and ``cursor`` select the page, never the totals.

    Groups are in the order of their keys for times, otherwise by cost and tokens, the highest first. Raises
    ``invalid_params`` for a cursor that no view returned.
    """
    before = None if cursor is None else _position(cursor)
    page: collections.deque[tuple[tuple[str, int], LedgerEntry]] = collections.deque(maxlen=limit + 1)
    everything = _Sums(prices)
    groups: dict[str, _Sums] = {}
    for position, entry in ledger.numbered(selection.since):
        if not selection.has(entry):
            continue
        everything.add(entry)
        if by is not None:
            groups.setdefault(_KEYS[by](entry), _Sums(prices)).add(entry)
        if before is None or position < before:
            page.append((position, entry))
    further = len(page) > limit
    shown = list(page)[-limit:]
    return View(
        lines=[_line(entry) for _, entry in reversed(shown)],
        cursor="{}:{}".format(*shown[0][0]) if further else None,
        totals=everything.totals(),
        groups=[LedgerGroup(key=key, totals=sums.totals()) for key, sums in _ordered(groups, by)],
    )


def first_start(selection: Wanted) -> str:
    """Return when the first selected attempt began, as ``moment`` does; now, if there is none."""
    for _, entry in ledger.numbered(selection.since):
        if selection.has(entry):
            return timestamp(datetime.fromisoformat(entry.at) - timedelta(seconds=entry.seconds))
    return timestamp()


def moment(text: str) -> str:
    """Return a date or time in the form of ``LedgerEntry.at``; a date is its beginning in UTC.

    Raises ``invalid_params`` for anything else.
    """
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if time.tzinfo is not None else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{text!r} is not a time.",
            hint="Write a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.",
        ) from None
    return timestamp(time)


def price(text: str) -> Decimal:
    """Return a price; raise ``invalid_params`` unless it is a plain number from 0 to below a million."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or not 0 <= amount < _HIGHEST_PRICE:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{text!r} is not a price.",
            hint="Write US dollars per million tokens, such as 3 or 0.25.",
        )
    return amount


class _Sums:
    """Adds up attempts."""

    def __init__(self, prices: Rates | None) -> None:
        self._prices = prices
        self._delegations: set[str] = set()
        self._outcomes: collections.Counter[str] = collections.Counter()
        self._usage = dict.fromkeys(Usage.__struct_fields__, 0)
        self._seconds: list[float] = []
        self._estimated = self._computed = self._unknown = 0
        self._compared = Decimal(0)
        self.cost = Decimal(0)

    @property
    def tokens(self) -> int:
        return self._usage["input_tokens"] + self._usage["output_tokens"]

    def add(self, entry: LedgerEntry) -> None:
        self._delegations.add(entry.id)
        # An attempt before the last one has no verdict, and may have ended without an error.
        self._outcomes[entry.failure or entry.verdict or "continued"] += 1
        for name in self._usage:
            self._usage[name] += getattr(entry.usage, name)
        self._seconds.append(entry.seconds)
        cost = amount(entry.cost_usd)
        if cost is None:
            self._unknown += 1
        else:
            self.cost += cost
            self._estimated += entry.cost_estimated or entry.cost_source == "estimated"
            self._computed += entry.cost_source in {"configured", "table"}
        if self._prices is not None:
            self._compared += self._prices.cost(entry.usage)

    def totals(self) -> LedgerTotals:
        ordered = sorted(self._seconds)
        return LedgerTotals(
            attempts=len(ordered),
            delegations=len(self._delegations),
            outcomes=dict(self._outcomes.most_common()),
            usage=Usage(**self._usage) if ordered else no_usage(),
            cost_usd=_printed(self.cost),
            costs_estimated=self._estimated,
            costs_computed=self._computed,
            costs_unknown=self._unknown,
            seconds=round(sum(ordered), 3),
            median_seconds=_percentile(ordered, 0.5),
            p90_seconds=_percentile(ordered, 0.9),
            compared_usd=None if self._prices is None else _printed(self._compared),
        )


_KEYS: Mapping[GroupBy, Callable[[LedgerEntry], str]] = {
    "day": lambda entry: entry.at[:10],
    "month": lambda entry: entry.at[:7],
    "delegator": lambda entry: entry.delegator,
    "tool": lambda entry: entry.tool or "",
    "model_server": lambda entry: entry.model_server or "",
    "model": lambda entry: entry.model,
    "recipe": lambda entry: entry.recipe,
    "language": lambda entry: entry.language,
    "workspace": lambda entry: entry.workspace,
    "requester": lambda entry: entry.asked_by.agent or entry.asked_by.client or entry.asked_by.frontend,
}


def _ordered(groups: Mapping[str, _Sums], by: GroupBy | None) -> Iterable[tuple[str, _Sums]]:
    if by in {"day", "month"}:
        return sorted(groups.items())
    return sorted(groups.items(), key=lambda item: (-item[1].cost, -item[1].tokens, item[0]))


def _line(entry: LedgerEntry) -> LedgerLine:
    review = None
    if entry.verdict is not None:
        try:
            review = reader.peek(delegation_folder.open_folder(entry.id)).review
        except (UnderstudyError, OSError):  # it was removed: the ledger is kept longer
            review = None
    return LedgerLine(entry=entry, review=review)


def _position(cursor: str) -> tuple[str, int]:
    match = _POSITION.fullmatch(cursor)
    if match is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"{cursor!r} is not a cursor.", hint="Use the `cursor` of the page before."
        )
    return match[1], int(match[2])


def _percentile(ordered: list[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed; 0 without values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _printed(amount: Decimal) -> str:
    return format(round(amount, 6).normalize(), "f")
