"""Rules for ``[relay]`` of ``config.toml``: how far agents may delegate further."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from understudy.config.findings import Finding
from understudy.config.validation import delegator_rules
from understudy.model.config.delegators import Limits

if TYPE_CHECKING:
    from understudy.config.parsing.file_schema import RelayTable


def check(table: RelayTable) -> Iterator[Finding]:
    """Find numbers that make no sense."""
    for name in ("max_depth", "max_delegations"):
        value = getattr(table, name)
        if value is not None and value < 0:
            yield Finding((name,), f"`{name}` must not be negative.")
    yield from delegator_rules.check_limits(Limits(max_tokens=table.max_tokens, max_usd=table.max_usd))
