"""What a session can be set to: its delegator and its recipe, as the protocol's options, modes and commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from acp import schema

from understudy.frontends.acp.session_caller import SessionCaller
from understudy.model.config.delegators import Scope
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import one_line

DELEGATOR = "delegator"
RECIPE = "recipe"
DEFAULT = "understudy:default"
"""The delegator that Understudy chooses; no delegator can have this name."""
FIRST_RECIPE = "implement"
MOST_LISTED = 500
_DESCRIBED = 200

DECISIONS: dict[str, tuple[str, str | None]] = {
    "accept": ("Merge changes into your files: all, or those you name.", "[NUMBER… | PATH…]"),
    "reject": ("Reject changes: all, or those you name, with a reason.", "[NUMBER… | PATH…] [REASON]"),
    "undo": ("Undo the last accept; your later edits stay.", None),
    "diff": ("Show the changes that are not decided.", None),
    "evidence": ("Show everything the verdict rests on.", None),
}
"""Commands besides the recipes → description, and the hint for what follows them."""


@dataclass(frozen=True)
class Options:
    """What the user can choose in a workspace."""

    delegators: dict[str, str]
    """Name → what it runs, the default first."""
    recipes: dict[str, str]
    """Name → title."""
    writes_file: frozenset[str]
    """The recipes that write one file, which must be named."""

    def config_options(self, delegator: str, recipe: str) -> list[schema.SessionConfigOptionSelect]:
        """Return the options with their current values."""
        return [
            schema.SessionConfigOptionSelect(
                type="select",
                id=DELEGATOR,
                name="Delegator",
                description="Who does the work.",
                category="model",
                current_value=delegator,
                options=[
                    schema.SessionConfigSelectOption(value=name, name=_shown(name), description=about or None)
                    for name, about in self._delegators(delegator).items()
                ],
            ),
            schema.SessionConfigOptionSelect(
                type="select",
                id=RECIPE,
                name="Recipe",
                description="The kind of work, if a prompt does not begin with a command.",
                current_value=recipe,
                options=[
                    schema.SessionConfigSelectOption(value=name, name=title)
                    for name, title in {recipe: recipe, **self.recipes}.items()
                ],
            ),
        ]

    def modes(self, delegator: str) -> schema.SessionModeState:
        """Return the delegators as modes, for clients without options."""
        return schema.SessionModeState(
            current_mode_id=delegator,
            available_modes=[
                schema.SessionMode(id=name, name=_shown(name), description=about or None)
                for name, about in self._delegators(delegator).items()
            ],
        )

    def commands(self) -> list[schema.AvailableCommand]:
        """Return the recipes and the decisions as commands."""
        listed = [
            schema.AvailableCommand(
                name=name,
                description=f"{title} in a new delegation.",
                input=_input("FILE INSTRUCTIONS" if name in self.writes_file else "[FILE…] [INSTRUCTIONS]"),
            )
            for name, title in self.recipes.items()
            if name not in DECISIONS
        ]
        for name, (description, hint) in DECISIONS.items():
            command_input = None if hint is None else _input(hint)
            listed.append(schema.AvailableCommand(name=name, description=description, input=command_input))
        return listed

    def require_delegator(self, name: str) -> str:
        """Return the name of a delegator; raise ``unknown_delegator``."""
        return _one_of(name, self._delegators(DEFAULT), ErrorKind.UNKNOWN_DELEGATOR)

    def require_recipe(self, name: str) -> str:
        """Return the name of a recipe; raise ``unknown_recipe``."""
        return _one_of(name, self.recipes, ErrorKind.UNKNOWN_RECIPE)

    def _delegators(self, current: str) -> dict[str, str]:
        """Return the default, then all delegators; ``current`` stays listed after its file was removed."""
        offered = {DEFAULT: "The one that Understudy chooses for the recipe.", **self.delegators}
        return offered if current in offered else {**offered, current: "It is no longer configured."}


def read_options(caller: SessionCaller) -> Options:
    """Return what the user can choose now; blocks."""
    workspace = path_quoting.uri_of(caller.workspace)
    entries = caller.call("delegators/list", workspace=workspace).delegators
    recipes = caller.call("recipes/list", uri=f"{workspace}/any").recipes
    shown = [entry for entry in entries if entry.scope is not Scope.BUILTIN or len(entries) == 1]
    delegators: dict[str, str] = {}
    for entry in sorted(shown, key=lambda entry: not entry.is_default)[:MOST_LISTED]:
        parts: list[Any] = [entry.tool_display_name or entry.delegator.tool or entry.delegator.model_server]
        parts += [entry.delegator.model, "default" if entry.is_default else None]
        problem = next((finding.message for finding in entry.state.problems if finding.severity == "error"), None)
        about = ", ".join(one_line(str(part)) for part in parts if part)
        delegators[entry.delegator.name] = (one_line(problem) if problem else about)[:_DESCRIBED]
    listed = recipes[:MOST_LISTED]
    titles = {recipe.name: one_line(recipe.title) for recipe in listed}
    return Options(delegators, titles, frozenset(recipe.name for recipe in listed if recipe.returns == "file"))


def _input(hint: str) -> schema.AvailableCommandInput:
    return schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint))


def _shown(name: str) -> str:
    return "Default" if name == DEFAULT else name


def _one_of(name: str, offered: dict[str, str], kind: ErrorKind) -> str:
    if name in offered:
        return name
    import difflib

    raise UnderstudyError(
        kind,
        f"{name[:64]!r} is not offered.",
        hint=f"Choose one of {', '.join(list(offered)[:20])}.",
        names=difflib.get_close_matches(name[:64], offered, n=3),
    )
