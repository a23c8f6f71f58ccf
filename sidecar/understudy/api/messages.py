"""Parameters and results of requests; the structures in them are declared in ``understudy.model``."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from understudy.model.config.config_entries import (
    BackendEntry,
    CheckEntry,
    CheckProposal,
    DelegatorEntry,
    ModelServerEntry,
    NotificationEntry,
    Problem,
    ScheduleEntry,
    ScheduleRun,
    ServerPreset,
    ToolEntry,
)
from understudy.model.config.delegators import Delegator, Limits, Model, ModelServer, Recipe
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.config.schedules import Schedule
from understudy.model.delegation.delegations import (
    Buffer,
    Delegation,
    Explanation,
    Group,
    GroupBudget,
    GroupKind,
    GroupTask,
    LaunchOverride,
    Usage,
)
from understudy.model.delegation.events import AnyEvent
from understudy.model.errors import Location, Range
from understudy.model.evidence.checks import Check
from understudy.model.hunks import FileDiff
from understudy.model.remedies import Lack, Remedy
from understudy.model.states import State
from understudy.model.wire import Strict, Wire

EditableScope = Literal["user", "workspace"]


class NoParams(Strict, kw_only=True):
    """No parameters."""


class EmptyResult(Wire, kw_only=True):
    """An empty result."""


class TrustParams(Strict, kw_only=True):
    """Trust a workspace or revoke its trust; without ``trusted``, only return whether it is trusted."""

    workspace: str
    """URI or absolute path of the workspace, or of a file or folder in it."""
    trusted: bool | None = None
    digest: str | None = None
    """``digest`` of the result that was shown; if it has changed since, nothing is recorded (``conflict``)."""


class TrustResult(Wire, kw_only=True):
    """Whether the workspace is trusted, and the effects of trusting it."""

    workspace: str
    """Absolute path of the workspace: the top level of its repository if it has one."""
    trusted: bool
    effects: list[str]
    """What trusting the workspace would run or allow, as text."""
    changed: list[str]
    """What changed since the workspace was trusted."""
    digest: str
    """Digest of the listed effects; pass it with ``trusted``."""
    declined: bool = False
    """The user declined to trust the workspace with these effects."""


class WorkspaceParams(Strict, kw_only=True):
    """The workspace whose configuration is returned; absent: only the user's configuration."""

    workspace: str | None = None


class NameParams(Strict, kw_only=True):
    """A delegator or model server, by its name."""

    name: str
    workspace: str | None = None


class DelegatorTestParams(Strict, kw_only=True):
    """Test a delegator: the saved one with this name, or an unsaved one."""

    name: str
    delegator: Delegator | None = None
    """Test this declaration instead of the saved one; it is not saved."""
    scope: EditableScope = "user"
    """Where ``delegator`` would be saved; decides which model servers it can use."""
    workspace: str | None = None


class DeleteParams(Strict, kw_only=True):
    """Remove a delegator, model server or check; with ``revision``, only if it still has that revision."""

    name: str
    revision: str | None = None
    workspace: str | None = None


class DelegatorsResult(Wire, kw_only=True):
    """Every delegator, and the problems of the configuration."""

    delegators: list[DelegatorEntry]
    problems: list[Problem]
    defaults: dict[str, str] = msgspec.field(default_factory=dict)
    """Recipe → the delegator that a start takes now if it names none. A recipe that could not start is absent."""


class DelegatorCreateParams(Strict, kw_only=True):
    """Create a delegator."""

    delegator: Delegator
    scope: EditableScope = "user"
    workspace: str | None = None


class DelegatorUpdateParams(Strict, kw_only=True):
    """Replace a delegator."""

    name: str
    delegator: Delegator
    revision: str | None = None
    workspace: str | None = None


class DelegatorFromToolParams(Strict, kw_only=True):
    """Create a delegator for an agent CLI, with a generated name."""

    tool: str
    model: str | None = None
    scope: EditableScope = "user"
    workspace: str | None = None


class DefaultParams(Strict, kw_only=True):
    """Set the delegator that is used when neither a request nor its recipe names one."""

    delegator: str | None = None
    """Absent: remove the default."""
    recipe: str | None = None
    """The recipe whose default it is; absent: the default for everything that no other default covers."""
    scope: EditableScope = "user"
    workspace: str | None = None


class DefaultResult(Wire, kw_only=True):
    """The default that applies now."""

    delegator: str | None = None
    """Another one than was set if a configuration with precedence sets it; absent: none."""


class ModelServersResult(Wire, kw_only=True):
    """Every model server, and the problems of the configuration."""

    model_servers: list[ModelServerEntry]
    problems: list[Problem]


class ModelServerCreateParams(Strict, kw_only=True):
    """Create a model server."""

    model_server: ModelServer
    scope: EditableScope = "user"
    workspace: str | None = None


class ModelServerUpdateParams(Strict, kw_only=True):
    """Replace a model server."""

    name: str
    model_server: ModelServer
    revision: str | None = None
    workspace: str | None = None


class SetKeyParams(Strict, kw_only=True):
    """Store an API key; it is never returned."""

    name: str
    key: str
    workspace: str | None = None


class ModelsResult(Wire, kw_only=True):
    """The models of a model server."""

    models: list[Model]


class ChecksResult(Wire, kw_only=True):
    """Every configured check, those that the project suggests, and the problems of the configuration."""

    checks: list[CheckEntry]
    proposals: list[CheckProposal]
    """The most specific first; found by reading files, so they may not pass."""
    problems: list[Problem]


class CheckCreateParams(Strict, kw_only=True):
    """Create a check."""

    check: Check
    scope: EditableScope = "workspace"
    """A check of the scope ``user`` applies in every workspace."""
    workspace: str | None = None


class SchedulesResult(Wire, kw_only=True):
    """Every schedule, and the problems of the configuration."""

    schedules: list[ScheduleEntry]
    problems: list[Problem]


class ScheduleCreateParams(Strict, kw_only=True):
    """Create a schedule: one file in the user's configuration."""

    schedule: Schedule


class SchedulePauseParams(Strict, kw_only=True):
    """Let a schedule start nothing until it is resumed; the times until then are not made up for."""

    name: str
    paused: bool


class ScheduleNameParams(Strict, kw_only=True):
    """A schedule, by its name."""

    name: str


class ScheduleInstallParams(Strict, kw_only=True):
    """Let a timer of the system start what is due."""

    dry_run: bool = False
    """Only return what would be written."""


class ScheduleInstallResult(Wire, kw_only=True):
    """The timer of the system."""

    files: dict[str, str]
    """Path → text; `crontab` for a line that the user adds."""
    command: list[str]
    """What begins to use the files; empty where the user does that."""
    installed: bool


class ScheduleServeResult(Wire, kw_only=True):
    """What this request started, or could not start."""

    runs: list[ScheduleRun]


class NotificationsResult(Wire, kw_only=True):
    """Every receiver of notifications, and the problems of the configuration."""

    notifications: list[NotificationEntry]
    problems: list[Problem]


class NotificationCreateParams(Strict, kw_only=True):
    """Create a receiver of notifications: one file in the user's configuration."""

    receiver: NotificationReceiver


class NotificationTestParams(Strict, kw_only=True):
    """Send a notification to a receiver now."""

    name: str


class NotificationTestResult(Wire, kw_only=True):
    """The receiver took the notification."""

    seconds: float


class CheckTestParams(Strict, kw_only=True):
    """Run a check on the current files of a workspace: the configured one with this name, or an unsaved one."""

    name: str
    check: Check | None = None
    """Run this declaration instead of the saved one; it is not saved."""
    workspace: str | None = None


class ToolsParams(Strict, kw_only=True):
    """List agent CLIs; ``refresh`` queries their versions again."""

    refresh: bool = False
    workspace: str | None = None


class ToolCreateParams(Strict, kw_only=True):
    """Write a commented definition of an agent CLI that Understudy does not know."""

    name: str
    """The value of ``tool`` in its delegators."""
    like: str | None = None
    """Begin with the definition of a tool that Understudy does not drive: ``crush``, ``cursor`` or ``goose``."""
    scope: EditableScope = "user"
    workspace: str | None = None


class ToolFile(Wire, kw_only=True):
    """The file that defines an agent CLI."""

    location: Location


class ToolsResult(Wire, kw_only=True):
    """Every supported agent CLI, installed or not."""

    tools: list[ToolEntry]
    backends: list[BackendEntry]
    """The agent loops of Understudy itself; the protocol of the model server decides which one runs a delegator."""
    problems: list[Problem] = msgspec.field(default_factory=list)
    """Problems of the configuration, including files that define a tool and cannot be read."""


class PresetsResult(Wire, kw_only=True):
    """Every kind of model server."""

    presets: list[ServerPreset]


class RecipesParams(Strict, kw_only=True):
    """The file to which the recipes must apply; absent: list all recipes of the user."""

    uri: str | None = None


class RecipesResult(Wire, kw_only=True):
    """Recipes, shipped ones first."""

    recipes: list[Recipe]
    problems: list[Problem]


class StartResult(Wire, kw_only=True):
    """The delegation has started."""

    id: str
    explain: Explanation


class PreviewFile(Wire, kw_only=True):
    """A file that would be sent, or why it would be withheld."""

    path: str
    bytes: int
    tokens: int
    withheld: str | None = None


class PreviewResult(Wire, kw_only=True):
    """Exactly what a start would send; tokens are estimates (bytes divided by four)."""

    prompt: str
    """Empty for a delegator that works without a model and reads only the files."""
    files: list[PreviewFile]
    tokens: int
    explain: Explanation
    lacks: list[Lack] = msgspec.field(default_factory=list)
    """What worktrees lack for the project's tests."""


class TextParams(Strict, kw_only=True):
    """A text recipe to run in this process: one request to a model server, without a delegation."""

    recipe: str
    """Name of a recipe that returns text."""
    task: str | None = None
    """Instructions of the user, such as the question."""
    files: list[str] | None = None
    """URIs of files and folders to send; what is open in the editor is sent as the editor shows it."""
    range: Range | None = None
    """The selected lines of the first file."""
    diagnostics: list[Any] | None = None
    """Problems in the first file, as LSP declares them."""
    input: str | None = None
    """Text to work on."""
    delegator: str | None = None
    fallback: list[str] | None = None
    """Those that take over if it fails, in order; absent: as the delegator says."""
    launch: LaunchOverride | None = None
    """Changes of the delegator for this request."""
    limits: Limits | None = None
    workspace: str | None = None
    """URI of the workspace; absent: the git top level of the first file, else its folder."""
    buffers: list[Buffer] | None = None
    """Open documents, for clients that do not synchronise them."""
    stream: str | None = None
    """Send the answer as it arrives in `understudy/text`, under this name."""


class TextResult(Wire, kw_only=True):
    """The whole answer; the request is in the ledger."""

    id: str
    """ID of its lines in the ledger, one for each attempt."""
    text: str
    delegator: str
    """The one that answered."""
    model: str
    usage: Usage
    """Of all attempts."""
    cost_usd: str | None = None
    """Of all attempts; absent: unknown."""
    seconds: float
    notes: list[str]
    """Warnings: files that were not sent, limits without effect, retries."""


class IdParams(Strict, kw_only=True):
    """One delegation, by its ID or an unambiguous prefix of it."""

    id: str


class CancelParams(IdParams, kw_only=True):
    """Cancel a delegation."""

    only_checks: bool = False
    """Only stop the checks of its result: it ends with what they have shown so far, and can be decided on."""


class AttachParams(IdParams, kw_only=True):
    """Show the terminal of an agent that runs in tmux."""

    tmux: str | None = None
    """The values of `TMUX` and `TMUX_PANE` where it will be shown, separated by a blank; absent: outside tmux."""


class AttachResult(Wire, kw_only=True):
    """The command to run in the user's terminal, without the variable `TMUX`."""

    argv: list[str]


class WaitParams(IdParams, kw_only=True):
    """Wait for the end, for at most ``timeoutSeconds`` (default 3600, maximum 86400)."""

    timeout_seconds: float | None = None


class GroupCreateParams(Strict, kw_only=True):
    """Create an empty group; delegations join it with ``groupId`` of their start."""

    kind: GroupKind


class GroupStartParams(Strict, kw_only=True):
    """Start tasks as one group, from one base with one set of unsaved texts: all of them, or none after an error."""

    tasks: list[GroupTask]
    """At most 200, each as for ``delegations/start``, without ``groupId``, ``idempotencyKey`` and ``buffers``."""
    kind: GroupKind = "batch"
    budget: GroupBudget | None = None
    """What all of them may spend together."""
    buffers: list[Buffer] | None = None
    """Unsaved texts, for every task."""
    idempotency_key: str | None = None
    """With a key that was used before, return the group that was started with it."""


class GroupStartResult(Wire, kw_only=True):
    """All tasks have started, or wait for a free slot."""

    group: Group
    explanations: list[Explanation]
    """Why each task got its delegator, in the order of ``group.delegations`` and of the tasks."""


class QueuePauseParams(Strict, kw_only=True):
    """Let nothing that waits start, or let it start again; what runs is not affected."""

    paused: bool


class QueueMoveParams(IdParams, kw_only=True):
    """Move one waiting delegation to another place."""

    position: int
    """1 is the next to start; a number beyond the end is the last place."""


class QueueResult(Wire, kw_only=True):
    """What waits for a slot."""

    paused: bool
    delegations: list[Delegation]
    """In the order in which they start."""


class GroupListParams(Strict, kw_only=True):
    """List groups, newest first; ``limit`` is at most 1000, default 20."""

    limit: int | None = None


class GroupOverview(Wire, kw_only=True):
    """A group and how far its members are."""

    group: Group
    title: str | None = None
    """The title of its first member; absent while it has none."""
    states: dict[str, int]
    """How many members are in each state, or have each verdict."""


class GroupListResult(Wire, kw_only=True):
    """The newest groups."""

    groups: list[GroupOverview]


class GroupWaitParams(WaitParams, kw_only=True):
    """Wait until every member has finished, for at most ``timeoutSeconds`` (default 3600, maximum 86400)."""


class GroupResult(Wire, kw_only=True):
    """The current members of a group, in the order in which they joined."""

    delegations: list[Delegation]


class ListParams(Strict, kw_only=True):
    """List delegations, newest first; ``limit`` is at most 1000, default 100."""

    states: list[State] | None = None
    workspace: str | None = None
    delegator: str | None = None
    group_id: str | None = None
    text: str | None = None
    limit: int | None = None
    cursor: str | None = None


class ListResult(Wire, kw_only=True):
    """A page; ``cursor`` is present if more follow."""

    delegations: list[Delegation]
    cursor: str | None = None


class EventsParams(IdParams, kw_only=True):
    """Return events after ``after``; with ``waitSeconds`` (at most 60), wait for the next one if there is none."""

    after: int = 0
    limit: int | None = None
    wait_seconds: float | None = None


class EventsResult(Wire, kw_only=True):
    """Events in order, and the last ``seq`` among them (``after`` if there is none)."""

    events: list[AnyEvent]
    last: int


class SubscribeParams(Strict, kw_only=True):
    """Follow one delegation or all; ``after`` has, for each delegation, the last ``seq`` that the client knows."""

    id: str | None = None
    after: dict[str, int] = msgspec.field(default_factory=dict)


class UnsubscribeParams(Strict, kw_only=True):
    """Stop following one delegation or all."""

    id: str | None = None


class UndoableAccept(Wire, kw_only=True):
    """An accept that ``delegations/undo`` can undo."""

    undo_token: str
    paths: list[str]
    """The files that it changed, as ``delegations/diff`` names them."""


class EditedFile(Wire, kw_only=True):
    """A file of the result that was edited by hand; ``path`` as in ``files``, where it is absent if nothing differs."""

    path: str
    at: str
    """When it was edited last, or its edit undone."""
    undoable: bool
    """Whether ``delegations/undoAmend`` can undo an edit."""


class DiffResult(Wire, kw_only=True):
    """The changes between base and result."""

    base: str
    head: str
    files: list[FileDiff]
    undoable: list[UndoableAccept]
    """Accepts that are in effect, newest first."""
    edited: list[EditedFile] = msgspec.field(default_factory=list)
    """The last edited first."""


class FileParams(IdParams, kw_only=True):
    """One file on one side of the review; paths as ``delegations/diff`` names them."""

    path: str
    side: Literal["base", "result"]


class FileResult(Wire, kw_only=True):
    """The contents, as text if they are UTF-8; ``mode`` as git writes it (``100644``)."""

    text: str | None = None
    base64: str | None = None
    mode: str


class LogFile(Wire, kw_only=True):
    """What an agent's program printed in one attempt, as it is on disk."""

    attempt: int
    path: str
    """Absolute path; ``stdout*.log`` or ``stderr*.log``."""
    bytes: int


class LogsResult(Wire, kw_only=True):
    """What was sent to the agent, and the logs of its program."""

    prompt: str | None = None
    """The prompt of the last attempt; absent if none was sent, or if it has expired."""
    prompt_omitted_bytes: int = 0
    """How much of a very long prompt is missing at its end."""
    files: list[LogFile]
    """By attempt; without empty logs. A model of a server has none."""


class EvidenceResult(Wire, kw_only=True):
    """Everything that was looked at to judge a result."""

    markdown: str


class DismissParams(IdParams, kw_only=True):
    """Leave out mutants that no test can notice."""

    mutants: list[str]
    """Their ids (``JudgedMutant.id``); they must have survived."""


class DoctorParams(Strict, kw_only=True):
    """What is looked at: a workspace (absent: the caller's folder), and the names of checks (absent: all of them)."""

    workspace: str | None = None
    only: list[str] | None = None


class DoctorCheck(Wire, kw_only=True):
    """One finding of the diagnostics."""

    name: str
    ok: bool
    message: str
    hint: str | None = None
    remedy: Remedy | None = None
    """The hint for a button."""


class RemedyParams(Strict, kw_only=True):
    """Do something about a problem, in the configuration of a workspace."""

    remedy: Remedy
    """As it was reported."""
    workspace: str | None = None


class DoctorResult(Wire, kw_only=True):
    """The state of this installation."""

    checks: list[DoctorCheck]


class VersionResult(Wire, kw_only=True):
    """The version of Understudy and of its protocol."""

    version: str
    protocol_version: int


class EventNotification(Wire, kw_only=True):
    """``understudy/event``: new events of one delegation, in ``seq`` order."""

    id: str
    events: list[AnyEvent]


class TextNotification(Wire, kw_only=True):
    """``understudy/text``: the next piece of an answer that `text/run` waits for."""

    stream: str
    """The name in the request."""
    text: str
    restart: bool = False
    """Whether the answer begins again with this piece, as its server failed or broke off: what came before it does not
    count."""


class ChangedNotification(Wire, kw_only=True):
    """``understudy/changed``: these collections changed; read them again."""

    collections: list[Literal["delegations", "delegators", "modelServers", "recipes", "trust"]]
