"""Recipes and where they apply."""

from __future__ import annotations

from typing import Literal

from understudy.model.config.delegators import Scope
from understudy.model.errors import Location
from understudy.model.wire import Strict, Wire

MOST_ROUNDS = 10
"""The most rounds that a recipe or a request may ask for."""


class AppliesTo(Strict, kw_only=True):
    """Where a recipe is offered."""

    languages: list[str] | None = None
    """Language IDs as editors use them (`python`, `typescriptreact`); absent: every language."""
    on: list[Literal["file", "selection", "diagnostic"]]
    """What must be at the cursor: a whole file, a selection, a diagnostic."""


class Recipe(Wire, kw_only=True):
    """A reusable task."""

    name: str
    title: str
    returns: Literal["text", "file", "tree"]
    writes: list[str] | None = None
    checks: list[str] | None = None
    delegator: str | None = None
    rounds: int | None = None
    """How often the agent is asked again: for a repair while a required check fails, then for tests that notice more.
    Absent: a model without an agent CLI is asked once for a repair."""
    applies_to: AppliesTo
    scope: Scope
    location: Location | None = None
    prompt: str = ""
    """The instructions, in Markdown; the user's instructions and the files are appended."""
