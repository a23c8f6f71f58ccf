"""Check ``[evidence]``: how much a result must show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from understudy.config.findings import Finding
from understudy.model.config.evidence_bounds import LEAST_EXECUTED, LEAST_KILLED

LEAST = {"least_killed": LEAST_KILLED, "least_executed": LEAST_EXECUTED}
"""Shares that a workspace may raise but not lower, with their defaults."""


def check_evidence(table: Any) -> Iterator[Finding]:
    """Find values of the table ``[evidence]`` that make no sense."""
    for name in LEAST:
        value = getattr(table, name)
        if value is not None and not 0 <= value <= 1:
            yield Finding((name,), f"`{name}` must be a share from 0 to 1.", "Write 30 % as 0.3.")
    if table.max_mutants is not None and not 1 <= table.max_mutants <= 1000:
        yield Finding(("max_mutants",), "`max_mutants` must be from 1 to 1000.")
    if table.max_copies is not None and not 1 <= table.max_copies <= 64:
        yield Finding(("max_copies",), "`max_copies` must be from 1 to 64.")
    if table.mutation_seconds is not None and table.mutation_seconds <= 0:
        yield Finding(("mutation_seconds",), "`mutation_seconds` must be above zero.")
