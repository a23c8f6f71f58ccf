"""What a journal holds: one ``Event`` a line, oldest first, ``seq`` being the line number.

A runner makes an event without ``seq``, ``at`` and ``attempt``; the journal's one writer fills them in.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from understudy.model.delegations import CheckResult, Control, FileStat, PermissionOption, Review
from understudy.model.errors import ErrorInfo
from understudy.model.states import Reservation, State, Verdict
from understudy.model.wire import Wire

UNSTAMPED = -1


class Event(Wire, tag_field="type", kw_only=True):
    """What every event carries. ``at`` is RFC 3339 UTC with milliseconds; ``attempt`` 0 is before the first."""

    seq: int = UNSTAMPED
    at: str = ""
    attempt: int = UNSTAMPED


class Base(Event, tag="base", kw_only=True):
    """The commit the work starts from."""

    commit: str
    files: int
    left_out: list[str]


class Worktree(Event, tag="worktree", kw_only=True):
    """The isolated tree is there."""

    path: str
    seconds: float


class Queued(Event, tag="queued", kw_only=True):
    """No slot was free."""

    position: int


class Started(Event, tag="started", kw_only=True):
    """An attempt begins."""

    delegator: str
    tool: str | None = None
    model_server: str | None = None
    model: str
    why: str
    confined: bool = False
    """Whether this attempt's processes run in a sandbox."""


class Phase(Event, tag="phase", kw_only=True):
    """What is going on, in a few words for people."""

    text: str


class Prompt(Event, tag="prompt", kw_only=True):
    """The prompt was handed over; its text is in ``prompt.md``."""

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
    """What the tool said."""

    call_id: str
    ok: bool
    output: str
    truncated_bytes: int | None = None


class File(Event, tag="file", kw_only=True):
    """The agent says that it changed a file."""

    path: str
    change: Literal["added", "modified", "deleted", "renamed"]


class Plan(Event, tag="plan", kw_only=True):
    """The agent's plan as it is now."""

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
    estimated: bool = False


class Session(Event, tag="session", kw_only=True):
    """The tool's own session, for a follow-up."""

    session_id: str


class Permission(Event, tag="permission", kw_only=True):
    """The agent asks a person; the fields are those of ``PermissionRequest``."""

    request_id: str
    title: str
    detail: str
    options: list[PermissionOption]
    deadline: str | None = None
    on_deadline: str


class PermissionAnswered(Event, tag="permission_answered", kw_only=True):
    """Somebody, or the deadline, answered."""

    request_id: str
    option: str
    by: str


class AttemptFailed(Event, tag="attempt_failed", kw_only=True):
    """The attempt is over and came to nothing."""

    kind: str
    message: str
    hint: str | None = None
    will_retry: bool
    next_delegator: str | None = None
    wait_seconds: float | None = None


class Checkpoint(Event, tag="checkpoint", kw_only=True):
    """What the attempt left in the tree, as a commit."""

    commit: str


class Result(Event, tag="result", kw_only=True):
    """What came back: a commit and its files, or a text."""

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
    tree: str
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    output_tail: str
    control: Control | None = None
    flaky: bool
    fails_on_base: bool
    wrong_tree: list[str] | None = None
    ok: bool
    required: bool

    @classmethod
    def of(cls, result: CheckResult) -> CheckFinished:
        """Return the event that reports ``result``."""
        return cls(**msgspec.structs.asdict(result))

    def check_result(self) -> CheckResult:
        """Return the result that this event reports."""
        names = CheckResult.__struct_fields__
        return CheckResult(**{name: getattr(self, name) for name in names})


class Note(Event, tag="note", kw_only=True):
    """Something a person should know."""

    level: Literal["info", "warning", "error"]
    text: str


class Finished(Event, tag="finished", kw_only=True):
    """The end. Exactly one of a run; ``delegations/check`` adds another after the checks ran again."""

    verdict: Verdict
    reservations: list[Reservation]
    error: ErrorInfo | None = None


class Decided(Event, tag="decided", kw_only=True):
    """A person decided on a hunk."""

    path: str
    hunk: str
    decision: Literal["accept", "reject", "pending"]
    was: Literal["accept", "reject", "pending", "superseded"] = "pending"
    """What the hunk's decision was before, so that counts follow from the events alone.

    ``superseded``: the follow-up that was to take it over ended before it did; it is undecided again.
    """
    conflict: bool = False
    """An accept was tried and does not merge into what the person sees; the hunk stays pending."""
    reason: str | None = None
    by: str


class Applied(Event, tag="applied", kw_only=True):
    """Accepted hunks are in the user's files."""

    paths: list[str]
    undo_token: str
    by: str


class Undone(Event, tag="undone", kw_only=True):
    """An accept was taken back."""

    undo_token: str


class Amended(Event, tag="amended", kw_only=True):
    """The result was edited by hand."""

    path: str
    head: str
    carried: dict[str, str] = msgspec.field(default_factory=dict)
    """Hunk of the new result → the same hunk before: its decision holds. Every other hunk is pending."""
    edited: list[str] = msgspec.field(default_factory=list)
    """Hunks of the new result that hold what was edited by hand."""
    review: Review | None = None
    """The counts after the edit."""


class Discarded(Event, tag="discarded", kw_only=True):
    """The tree is gone; the rescue ref brings it back."""

    rescue_ref: str


class Superseded(Event, tag="superseded", kw_only=True):
    """A follow-up took over what was undecided."""

    by: str


class Unknown(Event, tag="unknown", kw_only=True):
    """An event of a newer version: kept in its place, its content not understood."""

    original: str


AnyEvent = (
    Base
    | Worktree
    | Queued
    | Started
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
    | AttemptFailed
    | Checkpoint
    | Result
    | CheckStarted
    | CheckFinished
    | Note
    | Finished
    | Decided
    | Applied
    | Undone
    | Amended
    | Discarded
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
