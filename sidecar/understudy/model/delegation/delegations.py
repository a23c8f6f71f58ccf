"""Delegations: the start request, the current state, attempts, usage and result."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from understudy.model.capabilities import Pane
from understudy.model.config.delegators import Limits, PermissionRule
from understudy.model.confinement import Sandbox
from understudy.model.errors import ErrorInfo, Range
from understudy.model.evidence.checks import CheckResult, Round
from understudy.model.hunks import Review
from understudy.model.places import ChangedPlace
from understudy.model.states import State
from understudy.model.verdicts import Reservation, ReservationFact, Verdict
from understudy.model.wire import Strict, Wire


class Buffer(Strict, kw_only=True):
    """The text of an open document, which may differ from the file on disk."""

    uri: str
    text: str


class LaunchOverride(Strict, kw_only=True):
    """What one delegation changes of its delegator; what has no effect there is refused."""

    model: str | None = None
    """Model ID."""
    mode: Literal["headless", "acp", "tmux"] | None = None
    """How the tool is driven."""
    permission_mode: str | None = None
    """What the tool may do without asking; it replaces `yolo`, too."""
    model_properties: dict[str, Any] | None = None
    """Properties of the model, in addition to the delegator's."""
    use_worktree: bool | None = None
    """Whether the agent works in a worktree, and not in the user's checkout."""
    limits: dict[str, int | float | str] | None = None
    """Limits, in addition to those beside `launch`, by the names that a configuration file gives them
    (`total_seconds`)."""


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
    fallback: list[str] | None = None
    """Delegators that take over when the first one cannot work, in this order, instead of those that it names itself;
    `[]`: none. `launch` does not apply to them, limits do."""
    agent: str | None = None
    """An agent (see ``agents/list``) whose instructions, model and tools apply to this delegation."""
    workspace: str | None = None
    """URI of the workspace; absent: the git top level of the first file, else its folder."""
    whole_folder: bool | None = None
    """Copy all files of a workspace without git, however many there are; otherwise a large one is refused."""
    base: str | None = None
    """``current`` (the user's files and buffers, the default), ``head``, or a revision."""
    checks: list[str] | None = None
    """Names of configured checks to run instead of the recipe's."""
    limits: Limits | None = None
    launch: LaunchOverride | None = None
    """Changes of the delegator for this delegation."""
    rounds: int | None = None
    """How often the agent is asked again, from 0 to 10: for a repair while a required check fails, then for tests that
    notice more. Absent: as the recipe says."""
    labels: list[str] | None = None
    """Words about the work, for the conditions of routes."""
    start_at: str | None = None
    """When it starts at the earliest, as RFC 3339 with an offset; it waits in the queue until then."""
    when: Literal["quota"] | None = None
    """`quota`: while the delegator and all that may take over are paused, it waits for the end of the first pause."""
    group_id: str | None = None
    """The group that the delegation joins, made by ``groups/create``."""
    idempotency_key: str | None = None
    work_done_token: str | int | None = None
    buffers: list[Buffer] | None = None


class GroupTask(StartParams, kw_only=True):
    """One task of a group."""

    name: str | None = None
    """What the other tasks of the group call it; no two tasks have the same name."""
    after: list[str] | None = None
    """Names of tasks of the group that must succeed before this one starts: with the verdict `answered`, `verified`,
    `unverified` or `no_changes`. If one ends in another way, this task ends with the error `dependency_failed`."""

    def single(self) -> StartParams:
        """Return the task without what only its group needs."""
        return StartParams(**{name: getattr(self, name) for name in StartParams.__struct_fields__})


class Candidate(Wire, kw_only=True):
    """A delegator that was considered."""

    name: str
    reason: str | None = None
    """Why it has its place on a route."""
    skipped_because: str | None = None


class Explanation(Wire, kw_only=True):
    """The chosen delegator, and why."""

    delegator: str
    candidates: list[Candidate]
    """Others that were considered, also as its fallbacks, and why each was left out."""
    reason: str
    fallback: list[str] = msgspec.field(default_factory=list)
    """The delegators that take over when this one cannot work, in this order."""
    route: str | None = None
    """The route that chose it; ``candidates`` has all of its candidates then, also those that may be taken."""


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
    return Usage(**dict.fromkeys(Usage.__struct_fields__, 0))


CostSource = Literal["reported", "configured", "table", "local", "unknown"]
"""``reported`` by the server or the tool; computed with the prices that the user ``configured`` or with the price
``table`` of this version; free because the server is declared ``local``; or ``unknown``, which is never zero."""


class Attempt(Wire, kw_only=True):
    """One try on one delegator."""

    number: int
    delegator: str
    tool: str | None = None
    model_server: str | None = None
    model: str
    reason: str | None = None
    """Why this attempt was made on this delegator."""
    started_at: str
    finished_at: str | None = None
    session_id: str | None = None
    start_commit: str
    end_commit: str | None = None
    rescue_ref: str | None = None
    """Where its worktree is kept, if it changed files and the next attempt began again from the base; see
    ``worktrees/list``."""
    files: list[str] = msgspec.field(default_factory=list)
    """What it changed, at most 100 paths; only where other delegators may take over. The next attempt continues with it
    if it starts from the end commit of this one."""
    usage: Usage
    cost_usd: str | None = None
    cost_source: CostSource = "unknown"
    """Where the amount is from."""
    price_date: str | None = None
    """The date of the price table that it was computed with."""
    cost_estimated: bool = False
    """Whether it was computed from tokens that Understudy estimated, because nothing reported them."""
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


RequestKind = Literal["read", "edit", "execute", "fetch", "other", "question"]
"""What an agent asks for: what one of its tools would do, or the user's answer to a question."""


class PermissionOption(Wire, kw_only=True):
    """One possible answer; choose by ``kind``, never by ``id``."""

    id: str
    title: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]
    takes_text: bool = False
    """Whether the answer is the text that is sent as its `note`."""


class PermissionRequest(Wire, kw_only=True):
    """A permission request of an agent."""

    request_id: str
    attempt: int
    title: str
    detail: str
    options: list[PermissionOption]
    tool: str = ""
    """The tool, as the agent names it."""
    kind: RequestKind = "other"
    """What the tool would do; `question`: the agent asks the user, and nothing is permitted."""
    command: str | None = None
    """For ``execute``: the complete command line; absent when it is too long to be shown."""
    paths: list[str] | None = None
    """For ``read`` and ``edit``: the files; absent when they are not known, or too many."""
    deadline: str | None = None
    deadline_action: str
    """The option that is chosen when no one answers in time."""
    rule: PermissionRule | None = None
    """The rule that an answer with `remember` adds to the delegator; absent when none is proposed."""


Delivery = Literal["sent", "waiting", "kept"]
"""Sent to the agent while it works; waiting for its start or the end of its turn; kept for the next reply."""


class SentMessage(Wire, kw_only=True):
    """What the user said to the agent while the delegation was in progress."""

    id: str
    text: str
    """Its beginning, as one line."""
    by: str
    delivery: Delivery
    """How it was to reach the agent; `kept` after the end of a run that did not deliver it."""
    delivered: bool = False
    """Whether the agent got it, or a reply took it along."""


CountOf = Literal["tests", "small_changes", "places"]
"""What a long step of judging counts: tests that ran, small changes of the code that were tried, changed places."""


class Count(Wire, kw_only=True):
    """How far a long step of judging is."""

    of: CountOf
    done: int
    total: int
    run: str = ""
    """Which of several runs it is, as a few words; empty for the first one."""
    seconds_left: float | None = None
    """About how long the rest takes; absent: it is over soon, or nothing shows it."""


class AskedBy(Wire, kw_only=True):
    """Who started a delegation or made a group, as far as the frontend knows."""

    frontend: str
    """``cli``, ``rpc``, ``lsp``, ``mcp`` or ``acp``; ``relay``: an agent that Understudy runs, with its relay tools."""
    client: str | None = None
    """Name and version of the editor or other client, as it introduced itself."""
    session: str | None = None
    """Session of the agent that made the request, from its environment; over ACP, the session of the editor."""
    agent: str | None = None
    """Tool of that agent."""
    pid: int | None = None
    """Process of the client; of the command line, the process that started it."""
    cwd: str | None = None
    """Folder in which the client works."""
    parent: str | None = None
    """Delegation whose agent made the request."""
    depth: int
    """How many delegations are above: 0 for one that a user started."""


GroupKind = Literal["batch", "compare", "relay"]
"""Different tasks that belong together, one task on several delegators, or a delegation and what its agent delegated.
"""


class GroupBudget(Strict, kw_only=True):
    """What all delegations of a group may spend together.

    When it is spent, those that wait do not start, and those that run are stopped; their partial work is kept.
    """

    max_tokens: int | None = None
    """The most tokens that they read and write."""
    max_usd: str | None = None
    """The highest cost, in USD as a decimal string; what has no known cost counts as free."""


class Group(Wire, kw_only=True):
    """Delegations that were started together."""

    id: str
    kind: GroupKind
    delegations: list[str]
    """Ids in the order in which they joined; replies and retries of members join too."""
    budget: GroupBudget | None = None
    """What they may spend together; absent: each has only its own limits."""
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
    reservation_facts: list[ReservationFact] = msgspec.field(default_factory=list)
    """What the reservations are about; those of other reservations no longer hold."""
    places: list[ChangedPlace] = msgspec.field(default_factory=list)
    """The changed places of the result, those without evidence first, at most 200; none if no required check passed.

    While checks run, and after they were cancelled, those of which something is known, in the order in which it was
    found.
    """
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
    terminal: Pane | None = None
    """Where the user can watch and answer the agent (see ``delegations/attach``); only while it runs in tmux."""
    usage: Usage
    cost_usd: str | None = None
    cost_known: bool
    activity: str | None = None
    count: Count | None = None
    """How far the activity is, if it is counted."""
    asked_by: AskedBy
    started_at: str
    rechecked_at: str | None = None
    """When its checks were last started again after its end."""
    finished_at: str | None = None
    error: ErrorInfo | None = None
    group_id: str | None = None
    after: list[str] = msgspec.field(default_factory=list)
    """Ids of the delegations of its group that must succeed before it starts."""
    start_at: str | None = None
    """When it starts at the earliest."""
    parent_id: str | None = None
    conflicts: list[str] = msgspec.field(default_factory=list)
    """Ids of pending hunks whose accept failed because they conflict with the user's file."""
    dismissed: bool = False
    """The user dismissed it: it no longer needs attention, whatever its outcome."""
    superseded_by: str | None = None
    """The follow-up that continues the pending hunks; None again if that follow-up failed."""
    waiting_for: PermissionRequest | None = None
    messages: list[SentMessage] = msgspec.field(default_factory=list)
    """What the user said to the agent, oldest first."""
    last_seq: int
