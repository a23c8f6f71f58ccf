"""The merged configuration of a workspace, and its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from understudy.config.fallback import Fallback
from understudy.config.retention import Retention
from understudy.model.config.config_entries import CheckEntry, DelegatorEntry, ModelServerEntry, Problem
from understudy.model.config.delegators import Delegator, InputLimits, Launch, Limits, Scope
from understudy.model.config.evidence_bounds import Evidence
from understudy.model.config.recipes import Recipe
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.errors import Location
from understudy.model.evidence.checks import Check
from understudy.model.relay.relay_bounds import RelayBounds

SETUP_TIMEOUT_SECONDS = 600.0
"""A set-up command installs a project's dependencies; ten minutes is a slow `npm ci`."""


KEEP_DAYS = 14.0
"""A worktree that has not changed for two weeks is removed; a rescue ref can restore it."""


KEEP_BYTES = 20_000_000_000
"""All worktrees together: acceptable on a laptop, and enough for about a hundred worktrees of a medium project."""

DEFAULT_SLOTS = 8
"""Agents mostly wait for a model, so run more of them than cores; each takes a few hundred MB (measured)."""

DEFAULT_LIMITS = Limits(
    total_seconds=3600.0,
    # An agent CLI that hides its retries is silent for minutes (measured: up to 270 s).
    idle_seconds=600.0,
    # A model server may queue a request for a minute without sending even headers (measured: 60 s of silence).
    first_event_seconds=300.0,
    # Some CLIs hang after their result; this leaves them time to write a session file.
    after_result_seconds=30.0,
    # Long enough for a coffee break, short enough that a forgotten question does not occupy a slot for hours.
    answer_seconds=900.0,
)


class Defaults(msgspec.Struct, frozen=True):
    """Default delegators; a workspace's defaults override the user's."""

    delegator: str | None = None
    recipes: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Recipe → delegator."""
    scope: Scope | None = None
    """Where ``delegator`` is configured."""


class Worktrees(msgspec.Struct, frozen=True):
    """What a new worktree gets besides tracked files, and how long worktrees are kept."""

    copy: list[str] = msgspec.field(default_factory=list)
    link: list[str] = msgspec.field(default_factory=list)
    setup: list[str] = msgspec.field(default_factory=list)
    setup_timeout_seconds: float = SETUP_TIMEOUT_SECONDS
    keep_days: float = KEEP_DAYS
    keep_bytes: int = KEEP_BYTES


class DefinedTool(msgspec.Struct, frozen=True):
    """A tool that a file defines, with its scope and location."""

    definition: ToolDefinition
    scope: Scope
    location: Location
    problems: list[Problem]

    @property
    def usable(self) -> bool:
        """Whether it has no errors."""
        return not any(problem.severity == "error" for problem in self.problems)


class Configuration(msgspec.Struct, frozen=True):
    """The merged configuration for one workspace."""

    workspace: Path | None
    trusted: bool
    delegators: dict[str, DelegatorEntry]
    model_servers: dict[str, ModelServerEntry]
    checks: dict[str, Check]
    """Those without errors."""
    check_entries: dict[str, CheckEntry]
    recipes: dict[str, Recipe]
    tools: dict[str, DefinedTool]
    """The tools that files define, with errors or without; no name is that of a tool that Understudy knows."""
    defaults: Defaults
    launch: Launch
    """The user's defaults for launch options."""
    limits: Limits
    slots: int | None
    worktrees: Worktrees
    python: str | None
    """The absolute path of the project's interpreter, if one is configured."""
    problems: list[Problem]
    missing: list[Problem] = msgspec.field(default_factory=list)
    """Problems that affect every delegation, because a limit, a check, the set-up of worktrees or a whole hand-written
    file is missing. The user must see them before anything starts."""
    retention: Retention = msgspec.field(default_factory=Retention)
    evidence: Evidence = msgspec.field(default_factory=Evidence)
    input: InputLimits = msgspec.field(default_factory=InputLimits)
    mcp_decide: bool = False
    """Whether agents may accept and reject results through the MCP server."""
    fallback: Fallback = msgspec.field(default_factory=Fallback)
    relay: RelayBounds = msgspec.field(default_factory=RelayBounds)

    def definition_of(self, delegator: Delegator) -> ToolDefinition | None:
        """Return the definition of a delegator's tool; None for a tool that no file defines."""
        found = self.tools.get(delegator.tool or "")
        return found.definition if found is not None else None
