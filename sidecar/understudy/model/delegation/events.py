"""The events of a journal: one ``Event`` per line, oldest first; ``seq`` is the line number.

A runner creates events without ``seq``, ``at`` and ``attempt``; the journal's only writer sets them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from understudy.model.capabilities import Pane
from understudy.model.config.delegators import PermissionRule
from understudy.model.confinement import Sandbox
from understudy.model.delegation.delegations import CostSource, Count, Delivery, FileStat, PermissionOption, RequestKind
from understudy.model.errors import ErrorInfo
from understudy.model.evidence.checks import BaseComparison, CheckResult, MutationResult
from understudy.model.hunks import Review
from understudy.model.places import ChangedPlace
from understudy.model.remedies import Remedy
from understudy.model.states import State
from understudy.model.verdicts import Reservation, ReservationFact, Verdict
from understudy.model.wire import Wire

UNSTAMPED = -1


class Event(Wire, tag_field="type", kw_only=True):
    """The fields of every event. ``at`` is RFC 3339 UTC with milliseconds; ``attempt`` 0 is before the first."""

    seq: int = UNSTAMPED
    at: str = ""
    attempt: int = UNSTAMPED


class Base(Event, tag="base", kw_only=True):
    """The commit the work starts from."""

    commit: str
    files: int
    left_out: list[str]


class Worktree(Event, tag="worktree", kw_only=True):
    """The worktree was created."""

    path: str
    seconds: float


class Queued(Event, tag="queued", kw_only=True):
    """As many delegations as allowed were running."""

    position: int


CUSTOM_COMMAND = "generic"
"""The tool of a delegator that runs a command of the user."""


class Started(Event, tag="started", kw_only=True):
    """An attempt begins."""

    delegator: str
    tool: str | None = None
    model_server: str | None = None
    model: str
    reason: str
    commit: str | None = None
    """The contents of the worktree when the attempt starts, as a commit; absent without a worktree."""


class AgentStarted(Event, tag="agent_started", kw_only=True):
    """The program of an attempt's agent runs; of a delegator without a tool, the first command of its model."""

    sandbox: Sandbox
    terminal: Pane | None = None
    """Its pane, for one that runs in tmux."""


class Phase(Event, tag="phase", kw_only=True):
    """The current activity, as a short text for people."""

    text: str
    count: Count | None = None
    """The same as numbers, for an activity that is counted."""


class Prompt(Event, tag="prompt", kw_only=True):
    """The prompt was sent; its text is in ``prompt.md``."""

    tokens: int


class Text(Event, tag="text", kw_only=True):
    """More of the agent's answer."""

    text: str


class Thinking(Event, tag="thinking", kw_only=True):
    """More of the agent's reasoning."""

    text: str


class ToolCall(Event, tag="tool_call", kw_only=True):
    """The agent uses one of its tools."""

    call_id: str
    name: str
    title: str
    input: Any


class ToolResult(Event, tag="tool_result", kw_only=True):
    """The output of the tool."""

    call_id: str
    ok: bool
    output: str
    truncated_bytes: int | None = None


class File(Event, tag="file", kw_only=True):
    """The agent reports that it changed a file."""

    path: str
    change: Literal["added", "modified", "deleted", "renamed"]


class Plan(Event, tag="plan", kw_only=True):
    """The agent's current plan."""

    entries: list[Any]


class UsageReport(Event, tag="usage", kw_only=True):
    """What the attempt has used so far; the last report counts."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    turns: int
    tool_calls: int
    cost_usd: str | None = None
    cost_source: CostSource | None = None
    """Where the cost is from; absent: the agent reported it."""
    price_date: str | None = None
    """The date of the price table, where it was used."""
    estimated: bool = False
    """Whether the tokens are an estimate."""


class Session(Event, tag="session", kw_only=True):
    """The tool's own session, for a follow-up."""

    session_id: str


class Permission(Event, tag="permission", kw_only=True):
    """The agent asks the user for permission; the fields are those of ``PermissionRequest``."""

    request_id: str
    title: str
    detail: str
    options: list[PermissionOption]
    tool: str = ""
    kind: RequestKind = "other"
    command: str | None = None
    paths: list[str] | None = None
    deadline: str | None = None
    deadline_action: str
    rule: PermissionRule | None = None


class PermissionAnswered(Event, tag="permission_answered", kw_only=True):
    """The user, a rule or the deadline answered."""

    request_id: str
    option: str
    by: str


class UserMessage(Event, tag="user_message", kw_only=True):
    """The user said something to the agent while the delegation was in progress."""

    message_id: str
    text: str
    by: str
    delivery: Delivery


class MessageDelivered(Event, tag="message_delivered", kw_only=True):
    """The agent got the message, or a reply to this delegation took it along."""

    message_id: str


class AgentMessage(Event, tag="agent_message", kw_only=True):
    """The agent of another delegation of the group sent a message to this one's."""

    message_id: str
    sender: str
    """The id of its delegation."""
    kind: Literal["message", "ask", "reply", "broadcast"]
    text: str
    reply_to: str | None = None
    """The id of the message that this one answers."""


class Grouped(Event, tag="grouped", kw_only=True):
    """The delegation joined a group: its agent delegates, or another result is to be compared with it."""

    group_id: str


class AttemptFailed(Event, tag="attempt_failed", kw_only=True):
    """The attempt failed; its partial work is kept."""

    error: ErrorInfo
    will_retry: bool
    """Whether the same delegator is tried again."""
    next_delegator: str | None = None
    """The delegator of the next attempt."""
    continues: bool = False
    """Whether the next attempt continues with the files of this one; otherwise it begins with a fresh worktree."""
    wait_seconds: float | None = None


class Checkpoint(Event, tag="checkpoint", kw_only=True):
    """The partial work of the attempt, as a commit."""

    commit: str
    rescue_ref: str | None = None
    """Where the whole worktree is kept, if the next attempt has a fresh one."""
    files: list[str] = msgspec.field(default_factory=list)
    """What the attempt changed since it began, at most 100 paths; only where other delegators may take over."""


class Result(Event, tag="result", kw_only=True):
    """The result: a commit and its files, or a text."""

    head: str | None = None
    files: list[FileStat]
    text: str | None = None
    summary: str | None = None
    hunks: int = 0
    """How many hunks there are to decide on."""


class CheckStarted(Event, tag="check_started", kw_only=True):
    """A check runs."""

    name: str


class CheckFinished(Event, tag="check_finished", kw_only=True):
    """A check ran; the fields are those of ``CheckResult``."""

    name: str
    argv: list[str]
    exit_code: int | None = None
    seconds: float
    judging_seconds: float | None = None
    tree: str
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    output_tail: str
    mutation: MutationResult | None = None
    flaky: bool
    flaky_tests: list[str] | None = None
    fails_on_base: bool
    checkout_files: list[str] | None = None
    changed_files: list[str] | None = None
    ok: bool
    required: bool
    sandbox: Sandbox | None = None
    base: BaseComparison | None = None
    tampered: list[str] | None = None

    @classmethod
    def of(cls, result: CheckResult) -> CheckFinished:
        """Return the event that reports ``result``."""
        return cls(**msgspec.structs.asdict(result))

    def check_result(self) -> CheckResult:
        """Return the result that this event reports."""
        names = CheckResult.__struct_fields__
        return CheckResult(**{name: getattr(self, name) for name in names})


class PlacesJudged(Event, tag="places_judged", kw_only=True):
    """Evidence for changed places was found, or corrected, while checks run; ``finished`` has the last word."""

    places: list[ChangedPlace]
    total: int
    """How many changed places the result has."""


class RoundJudged(Event, tag="round_judged", kw_only=True):
    """A result was compared with the one before it; the fields are those of ``Round``."""

    number: int
    killed: int
    viable: int
    kept: bool
    why: str | None = None


class Note(Event, tag="note", kw_only=True):
    """A message for the user."""

    level: Literal["info", "warning", "error"]
    text: str
    begins_again: bool = False
    """Whether the agent's text since its last turn does not count: the answer begins again."""
    hint: str | None = None
    """What to do, as a sentence for the command line."""
    remedy: Remedy | None = None
    """The same for a button; only Understudy sets it."""


class Finished(Event, tag="finished", kw_only=True):
    """The end of a run, exactly one; ``delegations/check`` adds another after the checks ran again."""

    verdict: Verdict
    reservations: list[Reservation]
    reservation_facts: list[ReservationFact] = msgspec.field(default_factory=list)
    """What the reservations are about; a reservation may have none, or several."""
    places: list[ChangedPlace] = msgspec.field(default_factory=list)
    """The changed places of the result, those without evidence first, at most 200; none if no required check passed."""
    error: ErrorInfo | None = None


class Confirmed(Event, tag="confirmed", kw_only=True):
    """The user accepted all changed tests that were the only reservation, or no longer accepts them."""

    tests: int
    """How many tests were confirmed; 0: the question is open again."""


class Decided(Event, tag="decided", kw_only=True):
    """The user decided on a hunk."""

    path: str
    hunk: str
    decision: Literal["accept", "reject", "pending"]
    was: Literal["accept", "reject", "pending", "superseded"] = "pending"
    """The previous decision on the hunk, so that counts follow from the events alone.

    ``superseded``: the follow-up that was to continue it ended too early; the hunk is pending again.
    """
    conflict: bool = False
    """An accept failed because the hunk conflicts with the user's file; the hunk stays pending."""
    reason: str | None = None
    by: str


class Applied(Event, tag="applied", kw_only=True):
    """Accepted hunks are in the user's files."""

    paths: list[str]
    undo_token: str
    by: str


class Undone(Event, tag="undone", kw_only=True):
    """An accept was undone."""

    undo_token: str


class Amended(Event, tag="amended", kw_only=True):
    """The result was edited by hand."""

    path: str
    head: str
    carried: dict[str, str] = msgspec.field(default_factory=dict)
    """Hunk of the new result → the same hunk before, whose decision is kept. Every other hunk is pending."""
    edited: list[str] = msgspec.field(default_factory=list)
    """Hunks of the new result that contain the edit."""
    undoes: str | None = None
    """The result commit of the edit that this one undoes: the file is as it was before it."""
    review: Review | None = None
    """The counts after the edit."""


class Discarded(Event, tag="discarded", kw_only=True):
    """The worktree was removed; the rescue ref restores it."""

    rescue_ref: str


class Dismissed(Event, tag="dismissed", kw_only=True):
    """The user dismissed a run that needed their attention."""

    by: str


class Superseded(Event, tag="superseded", kw_only=True):
    """A follow-up continues the pending hunks."""

    by: str


class Unknown(Event, tag="unknown", kw_only=True):
    """An event of a newer version, or a line that cannot be decoded."""

    original: str


AnyEvent = (
    Base
    | Worktree
    | Queued
    | Started
    | AgentStarted
    | Phase
    | Prompt
    | Text
    | Thinking
    | ToolCall
    | ToolResult
    | File
    | Plan
    | UsageReport
    | Session
    | Permission
    | PermissionAnswered
    | UserMessage
    | MessageDelivered
    | AgentMessage
    | Grouped
    | AttemptFailed
    | Checkpoint
    | Result
    | CheckStarted
    | CheckFinished
    | PlacesJudged
    | RoundJudged
    | Note
    | Finished
    | Confirmed
    | Decided
    | Applied
    | Undone
    | Amended
    | Discarded
    | Dismissed
    | Superseded
    | Unknown
)

STATE_AFTER: dict[type[Event], State] = {
    Queued: State.QUEUED,
    Started: State.RUNNING,
    Permission: State.WAITING,
    PermissionAnswered: State.RUNNING,
    CheckStarted: State.CHECKING,
    Finished: State.FINISHED,
}
"""The state a delegation is in after an event of this type; before the first of them it is ``preparing``."""
