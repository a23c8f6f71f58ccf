"""The merged configuration of a workspace, and its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from understudy.config.retention import Retention
from understudy.model.checks import Check
from understudy.model.config.config_entries import CheckEntry, DelegatorEntry, ModelServerEntry, Problem
from understudy.model.config.delegators import Limits, Scope
from understudy.model.config.evidence_bounds import Evidence
from understudy.model.config.recipes import Recipe

SETUP_TIMEOUT_SECONDS = 600.0
"""A set-up command installs a project's dependencies; ten minutes is a slow `npm ci`."""


KEEP_DAYS = 14.0
"""A worktree that has not changed for two weeks is removed; a rescue ref can restore it."""


KEEP_BYTES = 20_000_000_000
"""All worktrees together: acceptable on a laptop, and enough for about a hundred worktrees of a medium project."""


@dataclass(frozen=True)
class Defaults:
    """Default delegators; a workspace's defaults override the user's."""

    delegator: str | None = None
    recipes: Mapping[str, str] = field(default_factory=dict)
    """Recipe → delegator."""
    scope: Scope | None = None
    """Where ``delegator`` is configured."""


@dataclass(frozen=True)
class Worktrees:
    """What a new worktree gets besides tracked files, and how long worktrees are kept."""

    copy: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    setup_timeout_seconds: float = SETUP_TIMEOUT_SECONDS
    keep_days: float = KEEP_DAYS
    keep_bytes: int = KEEP_BYTES


@dataclass(frozen=True)
class Configuration:
    """The merged configuration for one workspace."""

    workspace: Path | None
    trusted: bool
    delegators: dict[str, DelegatorEntry]
    model_servers: dict[str, ModelServerEntry]
    checks: dict[str, Check]
    """Those without errors."""
    check_entries: dict[str, CheckEntry]
    recipes: dict[str, Recipe]
    defaults: Defaults
    limits: Limits
    slots: int | None
    worktrees: Worktrees
    python: str | None
    """The absolute path of the project's interpreter, if one is configured."""
    problems: list[Problem]
    missing: list[Problem] = field(default_factory=list)
    """Problems that affect every delegation, because a limit, a check, the set-up of worktrees or a whole hand-written
    file is missing. The user must see them before anything starts."""
    retention: Retention = field(default_factory=Retention)
    evidence: Evidence = field(default_factory=Evidence)
