"""Parameters and results of the requests with which a person decides what becomes of a result."""

from __future__ import annotations

from typing import Literal

from understudy.model.delegations import Hunk
from understudy.model.wire import Strict, Wire


class Decision(Strict, kw_only=True):
    """One decision: without ``path`` on everything pending, without ``hunk`` on the whole file."""

    path: str | None = None
    hunk: str | None = None
    decision: Literal["accept", "reject"]
    reason: str | None = None
    """Why it is turned down; a follow-up tells the agent."""
    by_hand: bool = False
    """The person has merged it into their files already: an accept that changes none of them."""


class DecideParams(Strict, kw_only=True):
    """Decide on hunks; accepting merges them into what the person sees now, in the same call."""

    id: str
    decisions: list[Decision]
    flagged: bool = False
    """The person has seen that hooks, CI, editor or agent configuration or package scripts change, and means it."""


class Conflict(Wire, kw_only=True):
    """A hunk that does not merge; it stays pending.

    The three sides are texts (what is not UTF-8 in them is replaced), each absent where that side has no file.
    """

    path: str
    hunk: str
    base: str | None = None
    result: str | None = None
    yours: str | None = None
    in_the_way: bool = False
    """At ``yours`` is a folder, or something else that is neither file nor link."""


class DecideResult(Wire, kw_only=True):
    """Every hunk as it stands now, what did not merge, and how to take the accept back."""

    hunks: list[Hunk]
    moved: list[str]
    """Ids of the hunks that this call accepted or rejected; another one's decisions of the same moment are not here."""
    conflicts: list[Conflict]
    undo_token: str | None = None


class UndoParams(Strict, kw_only=True):
    """Take an accept back."""

    undo_token: str


class AmendParams(Strict, kw_only=True):
    """Change a file on the result side by hand; ``head`` is the result it was read from."""

    id: str
    path: str
    text: str
    head: str


class AmendResult(Wire, kw_only=True):
    """The new result, split into hunks anew; the verdict is ``unverified`` until the checks ran again."""

    head: str
    hunks: list[Hunk]


class ReplyParams(Strict, kw_only=True):
    """Send a result back with words."""

    id: str
    text: str


class RetryParams(Strict, kw_only=True):
    """Try again from the original base."""

    id: str
    delegator: str | None = None


class AnswerParams(Strict, kw_only=True):
    """Answer a question of an agent by the id of an option."""

    id: str
    request_id: str
    option: str
    note: str | None = None


class StartedResult(Wire, kw_only=True):
    """The new delegation."""

    id: str


class ExportParams(Strict, kw_only=True):
    """Take a result out as a branch, a commit or a patch; the person's branch and files stay as they are."""

    id: str
    to: Literal["branch", "commit", "patch"]
    branch: str | None = None
    message: str | None = None


class ExportResult(Wire, kw_only=True):
    """Where it is now."""

    branch: str | None = None
    commit: str | None = None
    patch: str | None = None


class RescueResult(Wire, kw_only=True):
    """What brings it back."""

    rescue_ref: str


class RestoreParams(Strict, kw_only=True):
    """Bring back a tree that was removed."""

    rescue_ref: str


class RestoreResult(Wire, kw_only=True):
    """Where it is again."""

    path: str


class WorktreeEntry(Wire, kw_only=True):
    """A tree on disk."""

    id: str
    path: str
    repo: str
    bytes: int
    state: Literal["working", "undecided", "decided", "expired", "orphaned"]
    leased_by: str | None = None


class RescueEntry(Wire, kw_only=True):
    """A tree that was removed and can be brought back."""

    rescue_ref: str
    path: str
    """Where it was, and would be again."""
    repo: str
    at: str
    """When it was removed."""
    notes: list[str]
    """What could not be kept."""


class WorktreesResult(Wire, kw_only=True):
    """Every tree that Understudy made, and those it removed that can be brought back, the newest first."""

    worktrees: list[WorktreeEntry]
    rescues: list[RescueEntry]
