"""What a delegation was asked to do: resolved once when it starts, written to ``spec.json``, never changed."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.model.capabilities import Pane
from understudy.model.config.delegators import DayBudget, Delegator, Limits, ModelServer, ProgramLimits, Recipe
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.delegations import AskedBy, Delegation, Explanation, StartParams, no_usage
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check, Evidence
from understudy.model.hunks import Review
from understudy.model.remedies import Lack
from understudy.model.states import State
from understudy.model.wire import Wire, ready

RELAY = "relay"
"""The frontend of delegations that an agent started with its relay tools."""
SPEC_VERSION = 3
"""The only version that ``decode`` reads."""


class Bootstrap(Wire, kw_only=True):
    """What a new worktree gets besides tracked files (``[worktrees]`` of the configuration)."""

    copy: list[str] = msgspec.field(default_factory=list)
    """Patterns of ignored or untracked files that are copied from the checkout, besides ``.worktreeinclude``."""
    link: list[str] = msgspec.field(default_factory=list)
    """Paths that each new worktree gets as links into the checkout; agents can write through them."""
    setup: list[str] = msgspec.field(default_factory=list)
    """Argument vector of a command that runs once in each new worktree."""
    setup_timeout_seconds: float = 600.0
    """How long the set-up command may take. It installs a project's dependencies; a slow `npm ci` takes ten minutes."""


class Origin(Wire, kw_only=True):
    """The delegation that this one continues: a reply to its result, or a retry from its base."""

    kind: Literal["reply", "retry"]
    parent: str
    base: str
    """The parent's base."""
    head: str | None = None
    """The parent's result, for a reply."""
    undecided: list[str] = msgspec.field(default_factory=list)
    """Pending hunks of the parent's result; they are under review again."""
    edited: list[str] = msgspec.field(default_factory=list)
    """Those of them that the user edited."""
    words: str | None = None
    """Instructions after the parent's task: accepted and rejected hunks with reasons, and the new request."""
    said: list[str] = msgspec.field(default_factory=list)
    """The replies of the chain so far, oldest first."""
    sessions: dict[str, str] = msgspec.field(default_factory=dict)
    """For a reply: the last session of each tool (see ``session_owner``) in the parent."""


class SpecCandidate(Wire, kw_only=True):
    """A delegator that may do the work, with everything that an attempt on it needs."""

    delegator: Delegator
    model_server: ModelServer | None = None
    tool_definition: ToolDefinition | None = None
    """The definition of its tool, for a tool that a file defines."""
    tools: list[str] | None = None
    """For a model without an agent CLI: the only tools of the loop that it gets (see ``loop_tools``); None: all."""
    limits: Limits
    """The limits in force: of the request, the delegator and the configuration, with the defaults."""

    @property
    def has_relay(self) -> bool:
        """Return whether its agent gets relay tools."""
        return self.delegator.launch is not None and self.delegator.launch.relay is True


Handover = Literal["continue", "fresh"]
"""Whether who takes over continues the work of the one before, unless the agent was the reason, or begins again."""


class PauseBounds(Wire, kw_only=True):
    """When a delegator that keeps failing is paused, and how long (``[fallback]`` of the configuration)."""

    failures: int = 3
    """After how many failures of one kind, one after another, a delegator is paused."""
    outage_pause_seconds: float = 15.0
    """The shortest pause of a server or agent that is busy, refuses too many requests, breaks off or says nothing; a
    pause lasts a quarter of the outage so far, unless the provider says when to try again."""
    pause_minutes: float = 5.0
    """How long the first pause is where someone must act (a login, an account without credit, a missing model), unless
    the provider says when to try again; each further one is twice as long."""
    longest_pause_minutes: float = 60.0
    """How long a pause becomes at most."""


class RelayBounds(Wire, kw_only=True):
    """``[relay]``: how far agents with ``launch.relay`` may delegate further; in a user's own configuration only."""

    max_depth: int = 2
    """How many delegations may be below one that you started; `0`: agents delegate nothing."""
    max_delegations: int = 8
    """How many delegations the agents of one group start, all together."""
    max_tokens: int | None = None
    """The most tokens that these read and write, all together. Absent: as many as the first delegation may."""
    max_usd: str | None = None
    """What these cost, all together, in USD: `"0.50"`. Absent: as much as the first delegation may."""


class Spec(Wire, kw_only=True):
    """Everything a worker needs, except keys (it reads those by reference) and the unsaved texts in ``buffers/``."""

    version: int
    id: str
    title: str
    params: StartParams
    """As asked, without ``buffers``."""
    recipe: Recipe
    workspace: str
    """Absolute path of the workspace."""
    candidates: list[SpecCandidate]
    """The delegators that may do the work, in the order of attempts; at least one."""
    explain: Explanation
    """Why the first candidate was chosen."""
    files: list[str]
    """The files to work on: paths inside the workspace, POSIX, C-quoted when not UTF-8; so are the next two."""
    context: list[str]
    target: str | None = None
    size: int | None = None
    """Bytes of ``files`` on disk when they were requested; None without files."""
    checks: list[Check]
    fallback_checks: list[Check] = msgspec.field(default_factory=list)
    """The checks to run if there are neither ``checks`` nor a check of the recipe's own for the result."""
    slots: int
    """How many delegations may run at once, as configured when this one was requested."""
    program_limits: ProgramLimits = msgspec.field(default_factory=ProgramLimits)
    bootstrap: Bootstrap
    evidence: Evidence = msgspec.field(default_factory=Evidence)
    """How much the tests must notice."""
    pauses: PauseBounds = msgspec.field(default_factory=PauseBounds)
    per_day: DayBudget = msgspec.field(default_factory=DayBudget)
    """What all work may cost in one day."""
    handover: Handover = "continue"
    escalates: bool = False
    """Whether further candidates try while no result is verified; see ``Route``."""
    relay: RelayBounds = msgspec.field(default_factory=RelayBounds)
    """How far its agent may delegate further."""
    rounds: int = 0
    """How often the agent is asked again for tests that notice more."""
    repairs: int = 0
    """How often the agent is asked again while a required check fails."""
    interpreter: str | None = None
    """The project's interpreter where one is configured or the editor selected one."""
    trusted: bool
    asked_by: AskedBy
    caller_pane: Pane | None = None
    """The tmux pane that the user asked from, for an agent that runs in one."""
    created_at: str
    buffers: dict[str, str]
    """Path inside the workspace (POSIX, C-quoted when it is not UTF-8) → file name in ``buffers/``."""
    notes: list[str]
    """Notes of the caller about this request, such as a text that could not be passed on."""
    lacks: list[Lack] = msgspec.field(default_factory=list)
    """What its worktree lacks for the project's tests."""
    group_id: str | None = None
    after: list[str] = msgspec.field(default_factory=list)
    """Delegations of the same group that must succeed before this one starts."""
    start_at: str | None = None
    """When it starts at the earliest: RFC 3339, UTC."""
    parent_id: str | None = None
    origin: Origin | None = None

    @property
    def in_checkout(self) -> bool:
        """Return whether the agent works in the user's checkout. An agent that only answers has a worktree."""
        return runs_in_checkout(self.candidates[0].delegator, self.recipe)

    @property
    def has_relay(self) -> bool:
        """Return whether any of its agents gets relay tools."""
        return any(candidate.has_relay for candidate in self.candidates)

    @property
    def relay_parent(self) -> str | None:
        """The delegation whose agent started this one, and with which it ends."""
        return self.asked_by.parent if self.asked_by.frontend == RELAY else None

    def asked(self) -> StartParams:
        """Return the parameters for the prompt: the task, and for a follow-up the decisions on the work so far."""
        if self.origin is None or not self.origin.words:
            return self.params
        task = "\n\n".join(part for part in ((self.params.task or "").strip(), self.origin.words) if part)
        return msgspec.structs.replace(self.params, task=task)


def runs_in_checkout(delegator: Delegator, recipe: Recipe) -> bool:
    """Return whether an agent works in the user's checkout."""
    return recipe.returns != "text" and delegator.launch is not None and delegator.launch.use_worktree is False


def initial(spec: Spec) -> Delegation:
    """Return the delegation before its first event."""
    return Delegation(
        id=spec.id,
        title=spec.title,
        recipe=spec.recipe.name,
        state=State.PREPARING,
        reservations=[],
        workspace=spec.workspace,
        delegator=spec.candidates[0].delegator.name,
        attempts=[],
        checks=[],
        review=Review(pending=0, accepted=0, rejected=0),
        confined=False,
        usage=no_usage(),
        cost_known=False,
        asked_by=spec.asked_by,
        started_at=spec.created_at,
        group_id=spec.group_id,
        after=spec.after,
        start_at=spec.start_at,
        parent_id=spec.parent_id,
        last_seq=0,
    )


def session_owner(tool: str | None, delegator: str) -> str | None:
    """Return who can resume a tool's session: the tool; None where there are none.

    Generic tools are different programs under one name, so a session of one belongs to its delegator.
    """
    return f"generic:{delegator}" if tool == "generic" else tool


class _Version(msgspec.Struct):
    version: int


def decode(data: bytes) -> Spec:
    """Return the specification in ``data``.

    Raises ``state_unavailable`` for one of another version, and ``msgspec.MsgspecError`` for invalid data.
    """
    version = msgspec.json.decode(data, type=ready(_Version)).version
    if version != SPEC_VERSION:
        age, advice = ("A newer", "Update Understudy, or use") if version > SPEC_VERSION else ("An older", "Use")
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"{age} Understudy wrote this delegation: version {version} of its specification, and this one reads "
            f"version {SPEC_VERSION}.",
            hint=f"{advice} the version that started the delegation.",
        )
    return msgspec.json.decode(data, type=ready(Spec))
