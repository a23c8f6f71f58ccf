"""Agents: instructions that a delegation can name, read from Markdown files with YAML front matter."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.model.config.config_entries import Problem
from understudy.model.config.delegators import Scope
from understudy.model.errors import Location
from understudy.model.wire import Wire

AGENT_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names of agents and skills; Claude Code's own use lowercase letters, digits and hyphens."""


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
