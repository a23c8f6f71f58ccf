"""Configured entries as sent to clients, with scope, state and problems; tools, backends and presets."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from understudy.model.capabilities import Install, MessageTime, OptionValue
from understudy.model.config.delegators import Delegator, ModelServer, Scope
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.config.schedules import Schedule
from understudy.model.errors import ErrorInfo, FailureClass, Location
from understudy.model.evidence.checks import Check
from understudy.model.remedies import Remedy
from understudy.model.wire import Wire

ImportSource = Literal["agent-delegate", "delegate-local", "agent-delegator", "sideagent", "operator"]
"""The tools whose configuration can be imported."""
AGENT_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names of agents and skills; Claude Code's own use lowercase letters, digits and hyphens."""


class Problem(Wire, kw_only=True):
    """A problem of a configuration, with its location."""

    severity: Literal["error", "warning", "information"]
    message: str
    hint: str | None = None
    location: Location | None = None


class CircuitState(enum.StrEnum):
    """Whether a kind of failure keeps a delegator from being tried.

    ``closed`` → ``open``: it failed so often one after another, or its provider said when to try again.
    ``open`` → ``half_open``: the pause is over, and one attempt probes whether it works again.
    ``half_open`` → ``open``: the probe failed, and the next pause is twice as long; or it showed nothing.
    Any → ``closed``: an attempt succeeded, or the user reset it.
    """

    CLOSED = "closed"
    """It is tried."""
    OPEN = "open"
    """It is paused; after ``until``, the next attempt probes it."""
    HALF_OPEN = "half_open"
    """One attempt probes it; others do not try it."""


class Pause(Wire, kw_only=True):
    """A pause of a delegator after failures of one kind: its fallbacks are tried instead."""

    failure: FailureClass
    state: CircuitState
    failures: int
    """How many there were one after another."""
    until: str
    """RFC 3339, UTC."""
    message: str
    """The last failure."""


class EntryState(Wire, kw_only=True):
    """Whether a delegator can be used now."""

    ready: bool
    problems: list[Problem]
    running: int
    queued: int
    pauses: list[Pause] = msgspec.field(default_factory=list)
    """Why its fallbacks are tried instead; without fallbacks, it is tried all the same."""


KeyState = Literal["set", "missing", "keyring"]
"""Whether the key of a model server is where it is configured. A keyring is not asked: it may want to be unlocked."""


class DelegatorEntry(Wire, kw_only=True):
    """A delegator with its scope, location and state."""

    delegator: Delegator
    scope: Scope
    revision: str
    """Changes with every change of its file; pass it to ``update`` and ``delete`` to detect conflicts."""
    editable: bool
    location: Location | None = None
    tool_display_name: str | None = None
    """The display name of its tool; absent without a tool, and for an unknown tool."""
    follows_instructions: bool = True
    """Whether its agent reads a task's text and replies; one that works without a model does not."""
    is_default: bool = False
    """Whether it is the default for everything that no other default covers."""
    default_for: list[str] = msgspec.field(default_factory=list)
    """The recipes whose default it is."""
    host: str | None = None
    """The host of its model server, with the port if its address has one; absent without a model server."""
    key: KeyState | None = None
    """The key of its model server; absent if that needs none."""
    state: EntryState


class ServerState(Wire, kw_only=True):
    """Whether a model server can be used."""

    problems: list[Problem]


class ModelServerEntry(Wire, kw_only=True):
    """A model server with its scope, location and state."""

    model_server: ModelServer
    scope: Scope
    revision: str
    editable: bool
    location: Location | None = None
    state: ServerState


class CheckState(Wire, kw_only=True):
    """Whether a check can be used; an unusable one stops every start."""

    problems: list[Problem]


class CheckEntry(Wire, kw_only=True):
    """A check with its scope, location and state."""

    check: Check
    scope: Scope
    revision: str
    editable: bool
    location: Location | None = None
    state: CheckState


class ScheduleRun(Wire, kw_only=True):
    """What a schedule started at one of its times."""

    due: str
    """The time."""
    started_at: str
    delegation: str | None = None
    group: str | None = None
    """The group of a batch."""
    missed: int = 0
    """How many times before it nothing was started for."""
    error: ErrorInfo | None = None
    """Why nothing could be started."""


def has_errors(problems: Iterable[Problem]) -> bool:
    """Return whether an entry with these problems cannot be used."""
    return any(problem.severity == "error" for problem in problems)


class ScheduleState(Wire, kw_only=True):
    """What is wrong with a schedule, and its next and last runs."""

    problems: list[Problem]
    next_at: str | None = None
    """When it starts work next; absent while it is paused or has errors."""
    paused: bool = False
    missed: int = 0
    """How many times nothing was started for since the last run."""
    runs: list[ScheduleRun] = msgspec.field(default_factory=list)
    """The last ones, the newest last."""


class ScheduleEntry(Wire, kw_only=True):
    """A schedule with its location and state."""

    schedule: Schedule
    scope: Scope
    revision: str
    editable: bool
    location: Location | None = None
    state: ScheduleState

    @property
    def usable(self) -> bool:
        """Return whether it has no errors."""
        return not has_errors(self.state.problems)


class NotificationState(Wire, kw_only=True):
    """What is wrong with a receiver of notifications, and the outcome of the last notifications."""

    problems: list[Problem]
    sent: int = 0
    """How many notifications it took."""
    last_sent_at: str | None = None
    failed: int = 0
    """How many it did not get since the last one that it took."""
    last_error: ErrorInfo | None = None
    """Why it did not get the last of these."""


class NotificationEntry(Wire, kw_only=True):
    """A receiver of notifications with its location and state."""

    receiver: NotificationReceiver
    scope: Scope
    revision: str
    editable: bool
    location: Location | None = None
    state: NotificationState

    @property
    def usable(self) -> bool:
        """Return whether it has no errors."""
        return not has_errors(self.state.problems)


class CheckProposal(Wire, kw_only=True):
    """A check that the files of a workspace suggest."""

    title: str
    """The test runner."""
    check: Check
    shown_by: str
    """The file that shows that the project uses this runner, relative to the workspace."""
    problem: str | None = None
    """What keeps it from running here, as far as files show it."""
    hint: str | None = None
    """What to do, as a sentence for the command line."""
    remedy: Remedy | None = None
    """The same for a button; then the check can be tried."""
    configured: bool
    """Whether a check with the same command is configured."""


class CheckTrial(Wire, kw_only=True):
    """The outcome of one run of a check on the current files, in a worktree of its own."""

    ok: bool
    """Whether it passed, so that a result can pass it, too."""
    argv: list[str]
    """The command with its slots filled."""
    exit_code: int | None = None
    """Absent if it could not be started or was killed."""
    seconds: float
    """How long the command ran."""
    timed_out: bool
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    """Tests, where the runner reports them."""
    output_tail: str
    """The end of its output, or why it could not be started."""
    notes: list[str]
    """What differs from the user's checkout, such as files that were left out."""
    hint: str | None = None
    """What to do so that it may pass, as a sentence for the command line."""
    remedy: Remedy | None = None
    """The same for a button; then it can be tried again."""


class SupportedOption(Wire, kw_only=True):
    """A field that can be set and has an effect, with everything that a form needs to ask for it."""

    name: str
    """The field of ``Delegator``, ``Launch``, ``Limits`` or ``modelProperties``."""
    title: str
    """Its label."""
    description: str
    type: Literal["boolean", "integer", "number", "string", "decimal", "list"]
    """A decimal is sent as a string; a list is a list of strings."""
    values: list[OptionValue] | None = None
    """The allowed values; absent: any value of its type."""
    default: str | None = None
    """The value that applies if it is absent, where there is one."""
    placeholder: str | None = None
    """An example."""
    required: bool = False
    """Whether every delegator needs it."""
    minimum: float | None = None
    exclusive_minimum: float | None = None
    """The value must be above this."""
    maximum: float | None = None
    slots: list[OptionValue] | None = None
    """Words that are replaced in its elements, each with what replaces it; others like them are refused."""
    only_with: dict[str, str] | None = None
    """Fields of ``Launch`` and the values that this option requires to have an effect."""
    needs_slot: str | None = None
    """A word that an argument of ``launch.command`` must contain for this option to have an effect."""
    per_delegation: bool = False
    """Whether one delegation can change it: with the field of this name in ``LaunchOverride``, or, for an option in
    ``properties`` or ``limits``, in its ``modelProperties`` or ``limits``."""


class SupportedOptions(Wire, kw_only=True):
    """The options of a delegator that have an effect; all others are refused, never ignored."""

    delegator: list[SupportedOption]
    """Fields of ``Delegator`` itself: ``model``, ``mode``."""
    launch: list[SupportedOption]
    """Fields of ``Launch``, in the order in which a form asks for them."""
    limits: list[SupportedOption]
    """Fields of ``Limits``."""
    properties: list[SupportedOption]
    """Well-known ``modelProperties``; empty: ``modelProperties`` has no effect. A tool takes only these; a model server
    gets all others unchanged."""
    modes: list[str]
    """How it can be driven: ``headless``, ``acp``."""
    permission_modes: list[OptionValue]
    """The allowed values of ``launch.permissionMode``."""
    protocols: list[str]
    """Protocols of the model servers that it can use, the default first; empty: it cannot use one."""
    needs_model_server: bool
    """Whether it works only with a model server; then ``model`` is required too."""
    sessions: bool
    """Whether a reply continues the session of the previous attempt."""
    messages: MessageTime
    """When it gets a message that the user sends while it works."""
    returns: list[Literal["text", "file", "tree"]]
    """Kinds of recipes that it can run."""
    only_new_tests: bool = False
    """Whether it can run only recipes that are judged by new tests."""


class BackendEntry(Wire, kw_only=True):
    """A backend of our own loop, which runs delegators with a model server and no tool."""

    name: str
    title: str
    protocols: list[str]
    """It runs the delegators whose model server uses one of these protocols."""
    supports: SupportedOptions


class ServerPreset(Wire, kw_only=True):
    """A kind of model server, and its default address."""

    kind: str
    """The value of ``kind`` in a model server."""
    title: str
    base_url: str
    """Its usual address; empty: there is none."""
    protocols: list[str]
    local: bool
    """Whether it usually runs on the user's own machine."""
    needs_key: bool
    """Whether it usually requires an API key."""
    key_variable: str | None = None
    """The environment variable in which its documentation expects the key."""
    key_in_environment: bool
    """Whether the environment of the sidecar has that variable."""
    key_url: str | None = None
    """The page on which its users create API keys."""
    families: list[str] = msgspec.field(default_factory=list)
    """Names under which users know the models that it serves, for searches; all of a local server are `models`."""
    running: bool
    """Whether a model server responds at ``baseUrl`` on this machine now."""
    models: list[str] | None = None
    """The models that it lists, while it is running."""


class ToolEntry(Wire, kw_only=True):
    """An agent CLI that Understudy knows, found on this machine or not."""

    name: str
    display_name: str
    description: str | None = None
    """What it does, unless its name says it."""
    found: bool
    path: str | None = None
    install: Install | None = None
    """How to install it and log in; absent if it is part of Understudy or named by the delegator."""
    scope: Scope | None = None
    """Where the file is that defines it; absent: Understudy knows it."""
    location: Location | None = None
    """The file that defines it."""
    command: list[str] | None = None
    """The ``launch.command`` that runs it as a custom command; absent if ``runnable``, and if none is known."""
    version: str | None = None
    runnable: bool
    """Whether this version of Understudy has a runner for it."""
    modes: list[str]
    supports: SupportedOptions | None = None
    """The options of its delegators; absent if Understudy has no runner for it."""
    supports_acp: SupportedOptions | None = None
    """The options of its delegators with the mode ``acp``; absent if it does not speak the Agent Client Protocol."""
    supports_tmux: SupportedOptions | None = None
    """The options of its delegators with the mode ``tmux``; absent if it does not run in a terminal."""
    problems: list[Problem]


class ConnectionTestStep(Wire, kw_only=True):
    """One step of a connection test: ``binary``, ``version``, ``tmux``, ``endpoint``, ``key``, ``round_trip`` …."""

    name: str
    ok: bool
    message: str
    seconds: float


class ConnectionTest(Wire, kw_only=True):
    """The result of a connection test; ``ok`` when every step succeeded."""

    ok: bool
    steps: list[ConnectionTestStep]


class IgnoredField(Wire, kw_only=True):
    """A field of the front matter that has no effect."""

    name: str
    reason: str
    """Why, as a sentence."""


class AgentEntry(Wire, kw_only=True):
    """An agent that a delegation may name in `agent`."""

    name: str
    description: str = ""
    kind: Literal["agent", "skill"]
    """A file of a folder `agents`, or the `SKILL.md` of a folder in `skills`."""
    scope: Scope
    """Its tier: of the workspace, of the user, or built in. The nearer one wins."""
    location: Location
    """Where it is written."""
    model: str | None = None
    """The model that it asks for; one named at the start wins."""
    tools: list[str] | None = None
    """The only tools that it may use; absent: all."""
    disallowed_tools: list[str] | None = None
    """Tools that it may not use."""
    honoured: list[str]
    """Fields of its front matter that have an effect."""
    ignored: list[IgnoredField] = msgspec.field(default_factory=list)
    """Fields of its front matter that have none."""
    hides: list[Location] = msgspec.field(default_factory=list)
    """Files with the same name that it takes precedence over, the nearest first."""
    problems: list[Problem] = msgspec.field(default_factory=list)
    prompt: str = ""
    """Its instructions, in Markdown."""


LOOP_TOOLS = ("read_file", "list_files", "search_files", "edit_file", "write_file", "run_command")
"""All tools of the loop, in the order in which a model gets them; relay tools are not among them."""


_MEANT = {
    "bash": "run_command",
    "edit": "edit_file",
    "glob": "list_files",
    "grep": "search_files",
    "ls": "list_files",
    "multiedit": "edit_file",
    "read": "read_file",
    "write": "write_file",
    **{name: name for name in LOOP_TOOLS},
}
"""Claude Code's names (lowercase) and our own."""


class LoopTools(msgspec.Struct, frozen=True):
    """What an agent file leaves of the loop's tools."""

    names: list[str]
    unknown: list[str]
    """Names in the file that are not tools of the loop; they permit nothing and forbid nothing."""
    with_arguments: list[str]
    """Permitted names with arguments, such as ``Bash(git log:*)``: the loop cannot check these, and permits nothing."""


def loop_tools(tools: Sequence[str] | None, disallowed: Sequence[str] | None) -> LoopTools:
    """Return the loop's tools that remain of ``tools`` (None: all) without ``disallowed``.

    ``disallowed`` wins. An entry with arguments forbids its whole tool and permits nothing: no restriction is weakened.
    """
    named = [*(tools or ()), *(disallowed or ())]
    permitted = set(LOOP_TOOLS) if tools is None else {_meant(tool) for tool in tools if "(" not in tool}
    forbidden = set(LOOP_TOOLS) if "*" in (disallowed or ()) else {_meant(tool) for tool in disallowed or ()}
    if "*" in (tools or ()):
        permitted = set(LOOP_TOOLS)
    return LoopTools(
        names=[name for name in LOOP_TOOLS if name in permitted - forbidden],
        unknown=[tool for tool in dict.fromkeys(named) if _meant(tool) is None and tool != "*"],
        with_arguments=[tool for tool in dict.fromkeys(tools or ()) if "(" in tool and _meant(tool) is not None],
    )


def may_change(names: Collection[str]) -> bool:
    """Return whether these tools of the loop, or edits in an answer, may change files."""
    return "edit_file" in names or "write_file" in names


def _meant(name: str) -> str | None:
    return _MEANT.get(name.partition("(")[0].lower())
