"""The work: what is asked for, what a delegation is at any moment, and what came of it."""

from __future__ import annotations

import enum
from typing import Any, Literal

from understudy.model.delegators import Limits
from understudy.model.errors import ErrorInfo, Range
from understudy.model.states import Reservation, State, Verdict
from understudy.model.wire import Strict, Wire


class Buffer(Strict, kw_only=True):
    """The text of an open document, which may differ from the file on disk."""

    uri: str
    text: str


class StartParams(Strict, kw_only=True):
    """What to delegate. Only ``recipe`` is always needed."""

    recipe: str
    task: str | None = None
    """What the person adds in their own words."""
    files: list[str] | None = None
    """URIs of the files the work is about; for ``tests``, the files under test."""
    range: Range | None = None
    diagnostics: list[Any] | None = None
    context: list[str] | None = None
    """URIs of files to read along."""
    input: str | None = None
    """Text to work on, for recipes that return text."""
    target: str | None = None
    """URI of the file to write, for recipes that return a file."""
    delegator: str | None = None
    route: str | None = None
    agent: str | None = None
    workspace: str | None = None
    """URI of the workspace; absent: the git top level of the first file, else its folder."""
    base: str | None = None
    """``seen`` (what the person sees, the default), ``head``, or a revision."""
    checks: list[str] | None = None
    """Names of configured checks to run instead of the recipe's."""
    limits: Limits | None = None
    idempotency_key: str | None = None
    work_done_token: str | int | None = None
    buffers: list[Buffer] | None = None


class Tried(Wire, kw_only=True):
    """A delegator that was considered."""

    name: str
    skipped: str | None = None


class Explanation(Wire, kw_only=True):
    """Which delegator, and why."""

    delegator: str
    tried: list[Tried]
    because: str


class Usage(Wire, kw_only=True):
    """Tokens and turns; the input counts include cached tokens."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    turns: int
    tool_calls: int


def no_usage() -> Usage:
    """Return a usage of nothing."""
    return Usage(
        input_tokens=0,
        output_tokens=0,
        cache_read_tokens=0,
        cache_write_tokens=0,
        reasoning_tokens=0,
        turns=0,
        tool_calls=0,
    )


class Attempt(Wire, kw_only=True):
    """One try on one delegator."""

    n: int
    delegator: str
    tool: str | None = None
    model: str
    started_at: str
    finished_at: str | None = None
    session_id: str | None = None
    from_: str
    to: str | None = None
    usage: Usage
    cost_usd: str | None = None
    cost_estimated: bool = False
    """The amount was computed from counted text, not reported."""
    failure: ErrorInfo | None = None
    handover: str | None = None


class FileStat(Wire, kw_only=True):
    """How much of a file changed."""

    path: str
    status: str
    additions: int
    deletions: int


class DelegationResult(Wire, kw_only=True):
    """What came back."""

    text: str | None = None
    summary: str | None = None
    files: list[FileStat]


class Control(Wire, kw_only=True):
    """The control run: the code under test broken on purpose."""

    bitten: int
    """Tests that fail when the code under test raises."""
    survived: list[str]
    """Tests that pass all the same, by their id."""


class CheckResult(Wire, kw_only=True):
    """What one check came to on one tree."""

    name: str
    argv: list[str]
    exit_code: int | None = None
    seconds: float
    tree: str
    """Object id of the tree that was judged."""
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    output_tail: str
    control: Control | None = None
    flaky: bool
    fails_on_base: bool
    wrong_tree: list[str] | None = None
    ok: bool
    """Green on this tree (also when flaky)."""
    required: bool


class PermissionOption(Wire, kw_only=True):
    """One possible answer; choose by ``kind``, never by ``id``."""

    id: str
    title: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionRequest(Wire, kw_only=True):
    """What an agent asks a person."""

    request_id: str
    attempt: int
    title: str
    detail: str
    options: list[PermissionOption]
    deadline: str | None = None
    on_deadline: str


class HunkState(enum.StrEnum):
    """Where a hunk stands in review."""

    PENDING = "pending"
    """Not decided."""
    ACCEPTED = "accepted"
    """Merged into the user's files."""
    REJECTED = "rejected"
    """Turned down."""
    SUPERSEDED = "superseded"
    """A follow-up took it over."""


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


class FileDiff(Wire, kw_only=True):
    """One changed file. Paths that are not UTF-8 or begin with ``"`` are C-quoted as git does."""

    path: str
    from_: str | None = None
    status: Literal["added", "deleted", "modified", "renamed", "mode", "type"]
    binary: bool
    flagged: str | None = None
    """Why an accept of it wants the person's word (``flagged``): what executes or obeys such a file."""
    hunks: list[Hunk]


class Review(Wire, kw_only=True):
    """How many hunks are undecided, accepted, rejected."""

    pending: int
    accepted: int
    rejected: int


class Delegation(Wire, kw_only=True):
    """One piece of delegated work as it stands now."""

    id: str
    title: str
    recipe: str
    state: State
    verdict: Verdict | None = None
    reservations: list[Reservation]
    workspace: str
    delegator: str
    attempts: list[Attempt]
    base: str | None = None
    head: str | None = None
    worktree: str | None = None
    rescue_ref: str | None = None
    """What ``worktrees/restore`` takes to bring its tree back; only while it is removed."""
    result: DelegationResult | None = None
    checks: list[CheckResult]
    review: Review
    confined: bool
    usage: Usage
    cost_usd: str | None = None
    cost_known: bool
    activity: str | None = None
    started_at: str
    finished_at: str | None = None
    error: ErrorInfo | None = None
    group_id: str | None = None
    parent_id: str | None = None
    superseded_by: str | None = None
    """The follow-up that took over what was undecided here; None again when that came to nothing."""
    waiting_for: PermissionRequest | None = None
    last_seq: int
