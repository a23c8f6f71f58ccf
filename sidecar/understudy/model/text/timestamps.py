"""Write times as text: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal


def timestamp(
    moment: datetime | float | None = None, precision: Literal["milliseconds", "seconds"] = "milliseconds"
) -> str:
    """Return a time, such as ``2026-11-21T00:45:12.000Z``: by default now; a number is seconds since the epoch.

    Texts of one precision sort in the order of time. Raises the errors of ``datetime`` for a number out of its range.
    """
    if not isinstance(moment, datetime):
        moment = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def retry_time(epoch_seconds: float) -> str | None:
    """Return a time in the format of ``retryAt`` of an error; None if it is out of range."""
    try:
        return timestamp(epoch_seconds, "seconds")
    except (ValueError, OverflowError, OSError):
        return None
