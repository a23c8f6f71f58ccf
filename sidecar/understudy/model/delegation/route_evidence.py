"""What is known about delegators for a kind of work, and the route that follows from it."""

from __future__ import annotations

from typing import Literal

from understudy.model.config.delegators import Delegator
from understudy.model.wire import Wire

SizeClass = Literal["small", "medium", "large"]
SIZES: dict[SizeClass, int | None] = {"small": 10_000, "medium": 100_000, "large": None}
"""Size of the files of the work together → its most bytes; the smallest that fits applies."""


class Interval(Wire, kw_only=True):
    """A value lies between these with a probability of 95 %."""

    low: float
    high: float


class RouteEvidence(Wire, kw_only=True):
    """How the runs of one delegator ended: all its attempts of one delegation are one run."""

    delegator: str
    runs: int
    """Those that say something about it: not what was cancelled, or failed because of this machine."""
    succeeded: int
    """Runs with a verified result; for recipes that answer in text, those that answered."""
    share: Interval
    """The share of runs that succeed, from 0 to 1: the Wilson interval."""
    accepted: int
    """Hunks of its results that you accepted; of delegations that are still on disk, as is the next one."""
    decided: int
    """Hunks of its results that you accepted or rejected."""
    cost_usd: str | None = None
    """Sum of the known costs, a decimal number as text; absent if none is known."""
    costs_unknown: int = 0
    """Runs with an unknown cost."""
    success_usd: str | None = None
    """``costUsd`` for each run that succeeded."""
    median_seconds: float
    seconds: Interval
    """Of the median: the runs at the ends of the Wilson interval of one half."""
    reason: str = ""
    """Why it has this place, in one line."""
    skipped_because: str | None = None
    """Why it is left out."""


class RouteGroup(Wire, kw_only=True):
    """The candidates for one kind of work."""

    language: str = ""
    """LSP language ID of the first file; empty in the first group, for all languages."""
    size: SizeClass | None = None
    """Absent in the first group, for all sizes, and where the size is not known."""
    candidates: list[RouteEvidence]
    """Those in the proposed order, then those that are left out."""


class RouteSuggestion(Wire, kw_only=True):
    """The order of the delegators of one recipe that follows from the ledger, with the evidence."""

    recipe: str
    groups: list[RouteGroup]
    """First the group of all runs, which the order is from; then those for each language and size."""
    route: Delegator | None = None
    """For ``delegators/create``, or ``delegators/update`` if there is a ``revision``; absent without evidence."""
    revision: str | None = None
    """Of the route that it replaces."""
    diff: str = ""
    """What saving it changes in the user's file, as a unified diff; empty if nothing, or if the route was written by
    hand: ``delegators/update`` then says where."""
