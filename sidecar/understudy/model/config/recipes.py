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


class RecipeAction(Strict, kw_only=True):
    """How a recipe reads in an editor's menu of actions."""

    brings: str | None = None
    """The words between "Delegate" and what it is about: `tests for`. Absent: the title of the recipe."""
    answers: str | None = None
    """What the menu says instead when a model server answers and nothing is delegated: `Explain`."""
    selection: str | None = None
    """The task when the user selected lines that contain it: `The selected lines describe the task.`"""


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
    needs: list[Literal["file", "task"]] | None = None
    """What it cannot do without: a `file` to work on, which a request must name; a `task`, which frontends ask for."""
    judged_by: Literal["checks", "new_tests"] = "checks"
    """`new_tests`: by the tests that the result adds, and by which small changes of the code they notice."""
    changes: Literal["code", "documentation", "tests"] = "code"
    """What its result changes. Only `code` is sent back because of a check that failed before the work, too."""
    action: RecipeAction | None = None
    """How editors offer it; absent: by its title."""
    order: int = 0
    """Its place in lists: smaller ones first. The user's own come before the built-in ones."""
    scope: Scope
    location: Location | None = None
    prompt: str = ""
    """The instructions, in Markdown; the user's instructions and the files are appended."""
