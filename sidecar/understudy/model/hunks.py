"""Hunks, changed files and review counts."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from understudy.model.places import ChangedPlace, untested
from understudy.model.wire import Wire


class HunkState(enum.StrEnum):
    """The review state of a hunk."""

    PENDING = "pending"
    """Not decided."""
    ACCEPTED = "accepted"
    """Merged into the user's files."""
    REJECTED = "rejected"
    """Rejected."""
    SUPERSEDED = "superseded"
    """Continued by a follow-up."""


class EarlierRejection(Wire, kw_only=True):
    """The rejection of a change in an earlier result of the same task."""

    id: str
    """The delegation whose result had the change."""
    reason: str | None = None


class Hunk(Wire, kw_only=True):
    """The unit of review: a maximal run of changed lines between base and result (one-based, no context)."""

    id: str
    """First 12 hex digits of SHA-256 over path, both blobs and ordinal."""
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    state: HunkState
    conflict: bool
    edited: bool
    reason: str | None = None
    by: str | None = None
    undo_token: str | None = None
    """The accept that merged it into the user's files, which ``delegations/undo`` undoes."""
    places: list[ChangedPlace] = msgspec.field(default_factory=list)
    """Its places and what shows that tests notice them; none if that is not known."""
    tested: bool | None = None
    """Whether every place has evidence that no reservation of the result puts in doubt; null if it has no places."""
    rejected_before: EarlierRejection | None = None
    """The user rejected this change in an earlier result; only in the answer of ``delegations/diff``."""

    @property
    def doubted(self) -> bool:
        """Return whether every place has evidence, which a reservation puts in doubt."""
        return self.tested is False and not untested(self.places)


class FileDiff(Wire, kw_only=True):
    """One changed file. Paths that are not UTF-8 or begin with ``"`` are C-quoted as git does."""

    path: str
    from_: str | None = None
    status: Literal["added", "deleted", "modified", "renamed", "mode", "type"]
    binary: bool
    flag_reason: str | None = None
    """Why an accept of the file needs confirmation: what executes or reads such a file, or what a reader cannot see."""
    hunks: list[Hunk]


class Review(Wire, kw_only=True):
    """How many hunks are pending, accepted and rejected."""

    pending: int
    accepted: int
    rejected: int
