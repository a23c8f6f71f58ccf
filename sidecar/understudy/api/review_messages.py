"""Parameters and results of review requests."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.api.messages import IdParams
from understudy.model.delegation.compared_results import ComparedFile, ComparedResult
from understudy.model.delegation.delegations import Delivery, LaunchOverride
from understudy.model.hunks import Hunk
from understudy.model.wire import Strict, Wire


class Decision(Strict, kw_only=True):
    """One decision: on all pending hunks without ``path``, on the whole file without ``hunk``.

    ``pending`` takes rejections back; it never changes a hunk that was accepted.
    """

    path: str | None = None
    hunk: str | None = None
    decision: Literal["accept", "reject", "pending"]
    reason: str | None = None
    """Why the hunk is rejected; a follow-up sends it to the agent."""
    merged_manually: bool = False
    """The user merged the hunk by hand and saved the file: accept it without changing a file."""


class DecideParams(IdParams, kw_only=True):
    """Decide on hunks; accepted hunks are merged into the user's current files and buffers in the same request."""

    decisions: list[Decision]
    include_flagged: bool = False
    """The user confirmed changes to hooks, CI, editor or agent configuration, or package scripts."""


class Conflict(Wire, kw_only=True):
    """A hunk that conflicts with the user's file; it stays pending.

    The three sides are texts, in which invalid UTF-8 is replaced; a side is absent if it has no file.
    """

    path: str
    hunk: str
    base: str | None = None
    result: str | None = None
    yours: str | None = None
    blocked: bool = False
    """The user's path is a folder, or something else that is neither a file nor a link."""


class DecideResult(Wire, kw_only=True):
    """The current state of every hunk, the conflicts, and the token to undo the accept."""

    hunks: list[Hunk]
    decided: list[str]
    """Ids of the hunks that this request accepted or rejected, without concurrent decisions of other processes."""
    conflicts: list[Conflict]
    undo_token: str | None = None


class UndoParams(Strict, kw_only=True):
    """Undo an accept, or only some of its hunks."""

    undo_token: str
    hunks: list[str] | None = None
    """Ids of the hunks to undo; absent: all of the accept."""


class AmendParams(IdParams, kw_only=True):
    """Edit a file of the result; ``head`` is the result from which it was read."""

    path: str
    text: str
    head: str


class UndoAmendParams(IdParams, kw_only=True):
    """Undo the last edit of a file of the result; ``head`` is the result from which it was read."""

    path: str
    head: str


class AmendResult(Wire, kw_only=True):
    """The new result, and the hunks of the edited file; after an edit, the result is unverified until a check."""

    head: str
    hunks: list[Hunk]


class DropParams(IdParams, kw_only=True):
    """Remove new tests that notice nothing from a result."""

    tests: list[str] = msgspec.field(default_factory=list)
    """Their ids (``MutationResult.idle``); empty: all of them."""


class KeptTest(Wire, kw_only=True):
    """A test that notices nothing, and was not removed."""

    test: str
    why: str


class DropResult(Wire, kw_only=True):
    """The new result; the verdict is ``unverified`` until the checks run again."""

    head: str
    dropped: list[str]
    """Ids of the tests that are gone."""
    files: list[str]
    """The changed or deleted files."""
    kept: list[KeptTest]
    """Without ``tests``: those that are in the base, or of which another parameter set may notice something."""


class ReplyParams(IdParams, kw_only=True):
    """Send a result back with instructions."""

    text: str


class RetryParams(IdParams, kw_only=True):
    """Run a delegation again from its original base."""

    delegator: str | None = None
    launch: LaunchOverride | None = None
    """Changes of the delegator for this delegation; absent: those of the first one, if the delegator is the same."""
    compare: bool = False
    """Both results are to be compared: they are in one group, and no other delegator takes over."""


class StrengthenParams(IdParams, kw_only=True):
    """Send a result back with the small changes of the code that no test noticed."""

    rounds: int | None = None
    """How often the agent is asked again after that, from 0 to 10; absent: as for the result."""


class AnswerParams(IdParams, kw_only=True):
    """Answer a permission request of an agent with the ID of an option."""

    request_id: str
    option: str
    note: str | None = None
    remember: bool = False
    """Add the request's `rule` to the delegator, so that it is not asked again."""


class SayParams(IdParams, kw_only=True):
    """Say something to the agent of a delegation in progress, in at most 64 KiB."""

    text: str


class SayResult(Wire, kw_only=True):
    """What happens to the message."""

    message_id: str
    delivery: Delivery


class StartedResult(Wire, kw_only=True):
    """The new delegation."""

    id: str


class ExportParams(IdParams, kw_only=True):
    """Export a result as a branch, commit or patch; the user's branch and files do not change."""

    to: Literal["branch", "commit", "patch"]
    branch: str | None = None
    message: str | None = None


class ExportResult(Wire, kw_only=True):
    """Where the exported result is."""

    branch: str | None = None
    commit: str | None = None
    patch: str | None = None


class CommitParams(IdParams, kw_only=True):
    """Commit the accepted files of a result on the user's branch, with the user's own git and its hooks."""

    message: str | None = None
    """Absent: the task, with the delegator, the verdict and how much is tested."""
    dry_run: bool = False
    """Only return what would be committed."""


class CommitResult(Wire, kw_only=True):
    """What was committed."""

    message: str
    files: list[str]
    """The accepted files that differ from the last commit."""
    mixed: list[str]
    """Those of them in which the user changed more than was accepted, which is committed with it."""
    commit: str | None = None
    """Absent for a dry run."""


class RescueResult(Wire, kw_only=True):
    """How to restore the worktree."""

    rescue_ref: str


class RestoreParams(Strict, kw_only=True):
    """Restore a removed worktree."""

    rescue_ref: str


class RestoreResult(Wire, kw_only=True):
    """Where the restored worktree is."""

    path: str


class WorktreeEntry(Wire, kw_only=True):
    """A worktree on disk."""

    id: str
    path: str
    repo: str
    bytes: int
    state: Literal["working", "pending", "decided", "expired", "orphaned"]
    owner: str | None = None


class RescueEntry(Wire, kw_only=True):
    """A removed worktree that can be restored."""

    rescue_ref: str
    path: str
    """The path of the worktree, before its removal and after a restore."""
    repo: str
    at: str
    """When it was removed."""
    notes: list[str]
    """Files that could not be kept."""


class WorktreesResult(Wire, kw_only=True):
    """Every worktree of Understudy, and the removed ones that can be restored, newest first."""

    worktrees: list[WorktreeEntry]
    rescues: list[RescueEntry]


class CompareResult(Wire, kw_only=True):
    """The results of a group side by side. Replies take the place of the results that they continue."""

    results: list[ComparedResult]
    """In the order in which they joined."""
    files: list[ComparedFile]
