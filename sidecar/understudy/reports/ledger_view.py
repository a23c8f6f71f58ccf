"""The ledger as users see it: the newest attempts, and totals by day, model, recipe and more."""

from __future__ import annotations

import collections
import math
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from understudy.journal import delegation_folder, ledger, reader
from understudy.model.delegation.delegations import Usage
from understudy.model.delegation.ledger import GroupBy, LedgerEntry, LedgerGroup, LedgerLine, LedgerTotals
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.verdicts import Verdict
from understudy.model.wire import timestamp
from understudy.policy.budget import Rates
from understudy.reports import attempt_cache
from understudy.reports.attempt_cache import NANO

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

    def condition(self) -> tuple[str, list[str]]:
        """Return the same as a condition on rows of ``attempt_cache``, and the values of its parameters."""
        parts = [("at >= ?", self.since), ("at < ?", self.until), ("session = ?", self.session)]
        parts += [(f"{name} = ?", value) for name, value in self.fields.items()]
        chosen = [(text, value) for text, value in parts if value is not None]
        return " AND ".join(text for text, _ in chosen), [value for _, value in chosen]


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
    for position, entry in ledger.numbered(selection.since):
        if selection.has(entry) and (before is None or position < before):
            page.append((position, entry))
    further = len(page) > limit
    shown = list(page)[-limit:]
    totals, groups = figures(selection, by=by, prices=prices)
    return View(
        lines=[_line(entry) for _, entry in reversed(shown)],
        cursor="{}:{}".format(*shown[0][0]) if further else None,
        totals=totals,
        groups=groups,
    )


def figures(
    selection: Wanted, *, by: GroupBy | None = None, prices: Rates | None = None
) -> tuple[LedgerTotals, list[LedgerGroup]]:
    """Return the totals of the selected attempts, and of the groups that ``view`` returns."""
    key = None if by is None else _EXPRESSIONS.get(by, f"coalesce({by}, '')")
    everything, groups = attempt_cache.query(lambda connection: _sums(connection, selection, key))
    totals = {key: sums.totals(prices) for key, sums in groups.items()} if by is not None else {}
    return everything.totals(prices), [LedgerGroup(key=key, totals=of_group) for key, of_group in _ordered(totals, by)]


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


_EXPRESSIONS: Mapping[GroupBy, str] = {"day": "substr(at, 1, 10)", "month": "substr(at, 1, 7)"}
"""What attempts are grouped by that is not a column."""
_USAGE = Usage.__struct_fields__
_SUMS = f"""
    SELECT {{key}}, coalesce(failure, verdict, 'continued'), count(*), count(cost), sum(cost), sum(cost_estimated),
        sum(cost_computed), sum(EXISTS (SELECT 1 FROM attempt AS next WHERE next.attempt > 1 AND next.id = attempt.id
            AND next.attempt = attempt.attempt + 1 AND next.delegator <> attempt.delegator)),
        {", ".join(f"sum({name})" for name in _USAGE)}
    FROM attempt WHERE {{where}} GROUP BY 1, 2
"""  # noqa: S608 - values are parameters
"""An attempt before the last one has no verdict, and may have ended without an error."""
_SECONDS = "SELECT {key}, seconds FROM attempt WHERE {where}"
_DELEGATIONS = "SELECT {key}, count(DISTINCT id) FROM attempt WHERE {where} GROUP BY 1"


@dataclass
class _Sums:
    """What the selected attempts, or those of a group, add up to."""

    counts: list[int] = field(default_factory=lambda: [0] * (6 + len(_USAGE)))
    """As ``_SUMS`` has them, from the number of attempts on."""
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    seconds: list[float] = field(default_factory=list)
    delegations: int = 0

    def totals(self, prices: Rates | None) -> LedgerTotals:
        attempts, priced, cost, estimated, computed, handovers, *used = self.counts
        usage, usd = Usage(**dict(zip(_USAGE, used, strict=True))), cost * NANO
        verified = self.outcomes[Verdict.VERIFIED]
        ordered = sorted(self.seconds)
        return LedgerTotals(
            attempts=attempts,
            delegations=self.delegations,
            outcomes=dict(self.outcomes.most_common()),
            usage=usage,
            cost_usd=printed(usd),
            costs_estimated=estimated,
            costs_computed=computed,
            costs_unknown=attempts - priced,
            seconds=round(sum(ordered), 3),
            median_seconds=_percentile(ordered, 0.5),
            p90_seconds=_percentile(ordered, 0.9),
            handovers=handovers,
            verified_usd=printed(usd / verified) if verified and priced else None,
            compared_usd=None if prices is None else printed(prices.cost(usage)),
        )


def _sums(connection: sqlite3.Connection, selection: Wanted, key: str | None) -> tuple[_Sums, dict[str, _Sums]]:
    """Return the sums of all selected attempts, and of those for each value of an expression of SQL."""
    where, values = selection.condition()
    everything, groups = _Sums(), collections.defaultdict[str, _Sums](_Sums)

    def rows(statement: str, key: str = key or "''") -> sqlite3.Cursor:
        return connection.execute(statement.format(key=key, where=where), values)

    for value, outcome, *counts in rows(_SUMS):
        for sums in (everything, groups[value]):
            sums.counts = [before + (count or 0) for before, count in zip(sums.counts, counts, strict=True)]
            sums.outcomes[outcome] += counts[0]
    for value, seconds in rows(_SECONDS):
        groups[value].seconds.append(seconds)
    for value, count in rows(_DELEGATIONS):
        groups[value].delegations = count
    everything.seconds = [seconds for sums in groups.values() for seconds in sums.seconds]
    everything.delegations = sum(count for _, count in rows(_DELEGATIONS, "''"))
    return everything, groups


def _ordered(groups: Mapping[str, LedgerTotals], by: GroupBy | None) -> list[tuple[str, LedgerTotals]]:
    if by in _EXPRESSIONS:
        return sorted(groups.items())

    def place(item: tuple[str, LedgerTotals]) -> tuple[Decimal, int, str]:
        key, totals = item
        return -Decimal(totals.cost_usd), -(totals.usage.input_tokens + totals.usage.output_tokens), key

    return sorted(groups.items(), key=place)


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


def printed(amount: Decimal) -> str:
    """Return an amount of money with at most six decimals."""
    return format(round(amount, 6).normalize(), "f")
