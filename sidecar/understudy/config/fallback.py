"""When another delegator takes over: ``[fallback]`` of ``config.toml``."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class FallbackTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[fallback]``: when another delegator takes over; in a user's own configuration only."""

    remote: bool | None = None
    """`true`: a delegator on a server of other machines may take over from one on this machine. Never from one with
    `locality = "local"`."""
    failures: int | None = None
    """After how many failures of one kind, one after another, a delegator is paused."""
    pause_minutes: float | None = None
    """How long the first pause is, unless the provider says when to try again; each further one is twice as long."""
    longest_pause_minutes: float | None = None
    """How long a pause becomes at most."""


class Fallback(msgspec.Struct, frozen=True):
    """What applies."""

    remote: bool = False
    failures: int = 3
    pause_minutes: float = 5.0
    longest_pause_minutes: float = 60.0


def invalid_fields(table: FallbackTable) -> Iterator[str]:
    """Return the numbers that are not above zero."""
    for name in ("failures", "pause_minutes", "longest_pause_minutes"):
        value = getattr(table, name)
        if value is not None and value <= 0:
            yield name
