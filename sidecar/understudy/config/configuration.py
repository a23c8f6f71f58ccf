"""The merged configuration of a workspace, and its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from understudy.config.findings import unknown_name, unusable
from understudy.model.config.config_entries import (
    CheckEntry,
    DelegatorEntry,
    ModelServerEntry,
    NotificationEntry,
    Problem,
    ScheduleEntry,
    has_errors,
)
from understudy.model.config.delegators import (
    FIRST_EVENT_SECONDS,
    IDLE_SECONDS,
    DayBudget,
    Delegator,
    InputLimits,
    Launch,
    Limits,
    ModelServer,
    ProgramLimits,
    Recipe,
    Scope,
)
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.spec import Bootstrap, Handover, PauseBounds, RelayBounds
from understudy.model.errors import ErrorKind, Location, UnderstudyError
from understudy.model.evidence.checks import Check, Evidence
from understudy.process.program_spec import processors

_FEWEST_SLOTS = 4
"""Agents mostly wait for their models."""
"""Agents mostly wait for a model, so run more of them than cores; each takes a few hundred MB (measured)."""

DEFAULT_LIMITS = Limits(
    total_seconds=3600.0,
    idle_seconds=IDLE_SECONDS,
    first_event_seconds=FIRST_EVENT_SECONDS,
    # Some CLIs hang after their result; this leaves them time to write a session file.
    after_result_seconds=30.0,
    # Long enough for a coffee break, short enough that a forgotten question does not occupy a slot for hours.
    answer_seconds=900.0,
)


def default_slots() -> int:
    """Return how many delegations run at once by default: one for each processor, at least four."""
    return max(_FEWEST_SLOTS, processors())


class Defaults(msgspec.Struct, frozen=True):
    """Default delegators; a workspace's defaults override the user's."""

    delegator: str | None = None
    recipes: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Recipe → delegator."""
    scope: Scope | None = None
    """Where ``delegator`` is configured."""


class GeneralLimits(Limits):
    """``[limits]``: limits of every delegation whose delegator sets none; times in seconds, money in USD."""

    slots: int | None = None
    """The most delegations that run at once; others wait in a queue. Absent: one for each processor, at least 4."""


class PerDay(DayBudget):
    """``[per_day]``: what all your work may cost in one day; in a user's own configuration only."""


class Worktrees(Bootstrap):
    """``[worktrees]``: what a new worktree gets besides tracked files, and how long worktrees are kept."""

    keep_days: float = 14.0
    """Days to keep a worktree after its last event; only in a user's own configuration, like the next one."""
    keep_bytes: int = 20_000_000_000
    """Bytes that all worktrees may take together; fully decided ones are removed first, the oldest of them first."""


class Retention(msgspec.Struct, frozen=True):
    """``[retention]``: how long files of finished delegations are kept; in a user's own configuration only.

    Days count from the last event; 0 sets no limit. When all files of a kind take more bytes than allowed, the oldest
    are removed first. Files of a delegation that runs, waits, has pending hunks or is needed by a reply are kept.
    """

    journal_days: float = 90.0
    """Days to keep the journal of a delegation and everything else in its folder, once its worktree is removed."""
    journal_bytes: int = 2_000_000_000
    """Bytes that the folders of all delegations may take together."""
    prompt_days: float = 30.0
    """Days to keep prompts and unsaved editor texts."""
    prompt_bytes: int = 500_000_000
    """Bytes that all prompts and unsaved editor texts may take together."""
    log_days: float = 14.0
    """Days to keep the raw output of agents, workers and checks."""
    log_bytes: int = 1_000_000_000
    """Bytes that all raw output may take together."""
    key_days: float = 1.0
    """Days during which an idempotency key returns the delegation that it started."""
    group_days: float = 90.0
    """Days to keep a group after its last delegation is removed."""


class Fallback(PauseBounds):
    """``[fallback]``: when another delegator takes over; in a user's own configuration only."""

    remote: bool = False
    """`true`: a delegator on a server of other machines may take over from one on this machine. Never from one with
    `locality = "local"`."""
    handover: Handover = "continue"
    """`"continue"`: who takes over continues the work of the one before, if its account, its server or a limit was the
    reason. `"fresh"`: it always begins with a fresh worktree."""


class Environment(msgspec.Struct, frozen=True):
    """``[environment]``: the project's own tools."""

    python: str | None = None
    """Path of the interpreter for checks; in the configuration of a workspace it may be relative to the workspace."""


class Mcp(msgspec.Struct, frozen=True):
    """``[mcp]``: what other agents may do through `understudy mcp`; in a user's own configuration only."""

    decide: bool = False
    """Whether they may accept results into your files, and reject them."""


class DefinedTool(msgspec.Struct, frozen=True):
    """A tool that a file defines, with its scope and location."""

    definition: ToolDefinition
    scope: Scope
    location: Location
    problems: list[Problem]

    @property
    def usable(self) -> bool:
        """Whether it has no errors."""
        return not has_errors(self.problems)


class Configuration(msgspec.Struct, frozen=True):
    """The merged configuration for one workspace."""

    workspace: Path | None
    trusted: bool
    delegators: dict[str, DelegatorEntry]
    model_servers: dict[str, ModelServerEntry]
    checks: dict[str, Check]
    schedules: dict[str, ScheduleEntry]
    notifications: dict[str, NotificationEntry]
    check_entries: dict[str, CheckEntry]
    recipes: dict[str, Recipe]
    tools: dict[str, DefinedTool]
    """The tools that files define, with errors or without; no name is that of a tool that Understudy knows."""
    defaults: Defaults
    launch: Launch
    """The user's defaults for launch options."""
    limits: GeneralLimits
    worktrees: Worktrees
    retention: Retention
    fallback: Fallback
    per_day: PerDay
    relay: RelayBounds
    evidence: Evidence
    input: InputLimits
    programs: ProgramLimits
    environment: Environment
    mcp: Mcp
    problems: list[Problem]
    missing: list[Problem]
    """Problems that affect every delegation, because a limit, a check, the set-up of worktrees or a whole hand-written
    file is missing. The user must see them before anything starts."""

    @property
    def python(self) -> str | None:
        """The absolute path of the project's interpreter, if one is configured."""
        return self.environment.python

    @property
    def routes(self) -> dict[str, DelegatorEntry]:
        """The entries among the delegators that are routes."""
        return {name: entry for name, entry in self.delegators.items() if entry.delegator.route is not None}

    def definition_of(self, delegator: Delegator) -> ToolDefinition | None:
        """Return the definition of a delegator's tool; None for a tool that no file defines."""
        entry = self.tools.get(delegator.tool or "")
        return entry.definition if entry is not None else None

    def server_of(self, delegator: Delegator) -> ModelServer | None:
        """Return the model server of a delegator; None without one, or if the configuration does not have it."""
        entry = self.model_servers.get(delegator.model_server or "")
        return entry.model_server if entry is not None else None

    def require_server(self, delegator: Delegator) -> ModelServer | None:
        """Return the model server of a delegator, None without one; raise an error for one that cannot be used."""
        if delegator.model_server is None:
            return None
        entry = self.model_servers.get(delegator.model_server)
        if entry is None:
            raise unknown_name(ErrorKind.UNKNOWN_MODEL_SERVER, delegator.model_server, self.model_servers)
        wrong = next((problem for problem in entry.state.problems if problem.severity == "error"), None)
        if wrong is not None:
            raise unusable("model server", entry.model_server.name, wrong, entry.location)
        return entry.model_server

    def require_recipe(self, name: str) -> Recipe:
        """Return the recipe of a request. Errors: ``config_invalid`` (``incompleteness``), ``unknown_recipe``."""
        incomplete = self.incompleteness()
        if incomplete is not None:
            raise incomplete
        recipe = self.recipes.get(name)
        if recipe is None:
            raise unknown_name(ErrorKind.UNKNOWN_RECIPE, name, self.recipes)
        return recipe

    def incompleteness(self) -> UnderstudyError | None:
        """Return the error that prevents every start under this configuration, or None.

        If a limit or a check cannot be read, the run would lack it without the user noticing.
        """
        if not self.missing:
            return None
        first = self.missing[0]
        return UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The configuration has an error, so limits or checks may be missing: {first.message}",
            hint=first.hint or "Correct it. `understudy delegators list` lists every problem with its location.",
            location=first.location,
        )
