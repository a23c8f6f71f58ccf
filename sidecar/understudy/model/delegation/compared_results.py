"""Results side by side: where they change the same lines, which of them agree, and what was decided."""

from __future__ import annotations

import msgspec

from understudy.model.delegation.delegations import Delegation
from understudy.model.hunks import HunkState
from understudy.model.wire import Wire

MOST_LINES = 300
"""Most removed and most added lines of one variant."""


class ComparedResult(Wire, kw_only=True):
    """One column: a delegation, and whether its changes are compared."""

    delegation: Delegation
    compared: bool
    """Whether it has a result that can be read; otherwise `problem` says why not."""
    problem: str | None = None


class ComparedHunk(Wire, kw_only=True):
    """A hunk of one result."""

    delegation: str
    """The id of the delegation."""
    hunk: str
    """Its id, as in ``FileDiff``."""
    path: str
    state: HunkState
    conflict: bool
    tested: bool | None = None
    """As in ``Hunk``."""


class Variant(Wire, kw_only=True):
    """One way to change some lines, with every result that has it."""

    delegations: list[str]
    """The ids of the results that agree on it."""
    hunks: list[ComparedHunk]
    """Those of all these results; to accept the variant, accept the hunks of one of them."""
    removed: list[str]
    """Lines of the base that it replaces."""
    added: list[str]
    omitted: int = 0
    """How many further lines it removes and adds."""
    note: str | None = None
    """What it does where lines do not say it: the file is created, deleted, renamed, binary, or has another mode."""
    conflicts_with: list[str] = msgspec.field(default_factory=list)
    """The ids of results with an accepted hunk of another variant of the same lines."""


class ComparedPlace(Wire, kw_only=True):
    """Lines of the base that at least one result changes."""

    start: int
    """The first line in the base, from 1; for inserted lines, the line before them. 0: the whole file."""
    lines: int
    variants: list[Variant]
    """The one with most results first."""
    unchanged: list[str]
    """The ids of the results that do not change these lines."""


class ComparedFile(Wire, kw_only=True):
    """A file that at least one result changes."""

    path: str
    flag_reason: str | None = None
    """As in ``FileDiff``."""
    places: list[ComparedPlace]
