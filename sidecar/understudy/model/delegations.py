"""Delegations: the start request, the current state, attempts, usage and result."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from understudy.model.checks import CheckResult
from understudy.model.config.delegators import Limits
from understudy.model.confinement import Sandbox
from understudy.model.errors import ErrorInfo, Range
from understudy.model.evidence.mutation import Round
from understudy.model.hunks import Review
from understudy.model.states import State
from understudy.model.verdicts import Reservation, Verdict
from understudy.model.wire import Strict, Wire


class Buffer(Strict, kw_only=True):
    """The text of an open document, which may differ from the file on disk."""

    uri: str
    text: str


class StartParams(Strict, kw_only=True):
    """What to delegate. Only ``recipe`` is always required."""

    recipe: str
    task: str | None = None
    """Instructions of the user."""
    files: list[str] | None = None
    """URIs of the files to work on; for ``tests``, the files under test."""
    range: Range | None = None
    diagnostics: list[Any] | None = None
    context_files: list[str] | None = None
    """URIs of files attached for reading."""
    input: str | None = None
    """Text to work on, for recipes that return text."""
    target: str | None = None
    """URI of the file to write, for recipes that return a file."""
    delegator: str | None = None
    workspace: str | None = None
    """URI of the workspace; absent: the git top level of the first file, else its folder."""
    base: str | None = None
    """``current`` (the user's files and buffers, the default), ``head``, or a revision."""
    checks: list[str] | None = None
    """Names of configured checks to run instead of the recipe's."""
    limits: Limits | None = None
    rounds: int | None = None
    """How often the agent is asked again for tests that notice more, from 0 to 10; absent: as the recipe says."""
    group_id: str | None = None
    """The group that the delegation joins, made by ``groups/create``."""
    idempotency_key: str | None = None
    work_done_token: str | int | None = None
    buffers: list[Buffer] | None = None


class Candidate(Wire, kw_only=True):
    """A delegator that was considered."""

    name: str
    skipped_because: str | None = None


class Explanation(Wire, kw_only=True):
    """The chosen delegator, and why."""

    delegator: str
    candidates: list[Candidate]
    reason: str


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
    """Return a usage of zero."""
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

    number: int
    delegator: str
    tool: str | None = None
    model_server: str | None = None
    model: str
    started_at: str
    finished_at: str | None = None
    session_id: str | None = None
    start_commit: str
    end_commit: str | None = None
    usage: Usage
    cost_usd: str | None = None
    cost_estimated: bool = False
    """Whether the amount was computed from counted text instead of reported."""
    failure: ErrorInfo | None = None


class FileStat(Wire, kw_only=True):
    """How much of a file changed."""

    path: str
    status: str
    additions: int
    deletions: int


class DelegationResult(Wire, kw_only=True):
    """The result of a delegation."""

    text: str | None = None
    summary: str | None = None
    files: list[FileStat]


class PermissionOption(Wire, kw_only=True):
    """One possible answer; choose by ``kind``, never by ``id``."""

    id: str
    title: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


PermissionKind = Literal["read", "edit", "execute", "fetch", "other"]
"""What a tool would do: read files, change files, run a command, access the network, or something else."""


class PermissionRequest(Wire, kw_only=True):
    """A permission request of an agent."""

    request_id: str
    attempt: int
    title: str
    detail: str
    options: list[PermissionOption]
    tool: str = ""
    """The tool, as the agent names it."""
    kind: PermissionKind = "other"
    command: str | None = None
    """For ``execute``: the complete command line; absent when it is too long to be shown."""
    paths: list[str] | None = None
    """For ``read`` and ``edit``: the files; absent when they are not known, or too many."""
    deadline: str | None = None
    deadline_action: str


class AskedBy(Wire, kw_only=True):
    """Who started a delegation or made a group, as far as the frontend knows."""

    frontend: str
    """``cli``, ``rpc`` or ``lsp``."""
    client: str | None = None
    """Name and version of the editor or other client, as it introduced itself."""
    session: str | None = None
    """Session of the agent that made the request, from its environment."""
    pid: int | None = None
    """Process of the client."""
    cwd: str | None = None
    """Folder in which the client works."""
    parent: str | None = None
    """Delegation whose agent made the request."""
    depth: int
    """How many delegations are above: 0 for one that a user started."""


GroupKind = Literal["batch", "compare"]
"""Different tasks that belong together, or one task on several delegators."""


class Group(Wire, kw_only=True):
    """Delegations that were started together."""

    id: str
    kind: GroupKind
    delegations: list[str]
    """Ids in the order in which they joined; replies and retries of members join too."""
    asked_by: AskedBy
    created_at: str


class Delegation(Wire, kw_only=True):
    """The current state of one delegation."""

    id: str
    title: str
    recipe: str
    state: State
    verdict: Verdict | None = None
    reservations: list[Reservation]
    confirmed_tests: int = 0
    """Changed tests that the user confirmed by accepting them; they no longer count as a reservation."""
    workspace: str
    delegator: str
    attempts: list[Attempt]
    base: str | None = None
    head: str | None = None
    worktree: str | None = None
    rescue_ref: str | None = None
    """The ref for ``worktrees/restore``; only while the worktree is removed."""
    result: DelegationResult | None = None
    checks: list[CheckResult]
    rounds: list[Round] = msgspec.field(default_factory=list)
    """What the tests noticed in each round; empty unless rounds were asked for."""
    review: Review
    sandbox: Sandbox | None = None
    """The isolation of its agents, the weakest of all attempts; absent while no agent ran a program."""
    confined: bool
    """Whether the isolation is `landlock` or stronger."""
    usage: Usage
    cost_usd: str | None = None
    cost_known: bool
    activity: str | None = None
    asked_by: AskedBy
    started_at: str
    finished_at: str | None = None
    error: ErrorInfo | None = None
    group_id: str | None = None
    parent_id: str | None = None
    conflicts: list[str] = msgspec.field(default_factory=list)
    """Ids of pending hunks whose accept failed because they conflict with the user's file."""
    dismissed: bool = False
    """The user dismissed it: it no longer needs attention, whatever its outcome."""
    superseded_by: str | None = None
    """The follow-up that continues the pending hunks; None again if that follow-up failed."""
    waiting_for: PermissionRequest | None = None
    last_seq: int
