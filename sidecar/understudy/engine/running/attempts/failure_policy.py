"""Decide what follows a failed attempt: the same candidate again, the next one, or the end.

A policy is a pure function: it reads no clock, file, process or configuration. ``attempt_loop`` carries out the
decision, within the total time, the number of attempts and the list of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from understudy.model.delegation.delegations import Attempt
from understudy.model.errors import ErrorInfo, class_of


@dataclass(frozen=True)
class Retry:
    """Try the same candidate again after a pause."""

    wait_seconds: float = 0.0


@dataclass(frozen=True)
class Next:
    """Try the next candidate of the specification at once, in a fresh worktree."""


@dataclass(frozen=True)
class Stop:
    """End the delegation with this failure."""


Decision = Retry | Next | Stop

FailurePolicy = Callable[[Sequence[Attempt], ErrorInfo, datetime], Decision]
"""Takes all attempts so far (the failed one last), its failure, and the current time (UTC)."""


def decide(attempts: Sequence[Attempt], failure: ErrorInfo, clock: datetime) -> Decision:
    """Return what follows ``failure``: the next candidate, if another delegator may not have this failure.

    The same candidate is never tried again: backends and agents have made their own retries before they failed.
    """
    _ = attempts, clock
    return Next() if class_of(failure.kind) is not None else Stop()
