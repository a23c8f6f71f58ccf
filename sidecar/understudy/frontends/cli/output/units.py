"""Format durations, counts and sizes."""

from __future__ import annotations

from datetime import datetime

from understudy.model.delegation.ledger import LedgerTotals

_UNITS = ("B", "kB", "MB", "GB", "TB")


def duration(seconds: float) -> str:
    """Return a duration as ``0:07``, ``12:34`` or ``1:02:03``."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def age(at: str, now: datetime) -> str:
    """Return how long ago ``at`` (ISO 8601) was, as ``7s``, ``12m``, ``3h`` or ``2d``; ``?`` if it is not a time."""
    try:
        seconds = max(0, int((now - datetime.fromisoformat(at)).total_seconds()))
    except (ValueError, TypeError):
        return "?"
    for size_, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size_:
            return f"{seconds // size_}{unit}"
    return f"{seconds}s"


def thousands(count: int) -> str:
    """Return ``950``, ``12.3k`` or ``1.2M``."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def cost_origin(source: str, price_date: str | None) -> str:
    """Return where a cost is from, as text."""
    return f"table {price_date}" if source == "table" and price_date else source


def usd(totals: LedgerTotals) -> str:
    """Return a cost in US dollars: ``?`` for an unknown one, ``+?`` for an unknown part, ``~`` before an estimate."""
    if totals.costs_unknown == totals.attempts:
        return "?"
    return ("~" if totals.costs_estimated else "") + totals.cost_usd + ("+?" if totals.costs_unknown else "")


def size(count: int) -> str:
    """Return ``950 B``, ``1.2 MB``: powers of 1000, as in ``df -H``."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
