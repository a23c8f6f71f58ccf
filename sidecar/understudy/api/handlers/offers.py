"""List the recipes that fit a file, each with the delegator that would run it, or the reason why it cannot start."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

import msgspec

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers import configuration
from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.trust import records
from understudy.config.validation import usable
from understudy.engine.planning import delegator_choice
from understudy.git import repository
from understudy.journal import reader
from understudy.model.config import delegators
from understudy.model.config.delegators import Recipe, Scope
from understudy.model.delegation.delegations import Delegation, Explanation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.verdicts import Verdict
from understudy.policy import candidates
from understudy.policy.candidates import Standing

_SUCCESSES = frozenset({Verdict.VERIFIED, Verdict.UNVERIFIED, Verdict.ANSWERED})
_RECENT = 200
"""How many delegations are searched for those that a delegator has done."""


class RecipeOffer(msgspec.Struct, frozen=True, kw_only=True):
    """One recipe; exactly one of ``explain`` and ``refused`` is set."""

    recipe: Recipe
    delegator: str | None = None
    """The delegator to name at the start; None: the start chooses it."""
    choices: tuple[str, ...] = ()
    """The delegators among which the user has to choose, because none of them is the default."""
    explain: Explanation | None = None
    is_text_request: bool = False
    """Whether it runs in this process (``text/run``): it returns text, and the delegator is a model server's."""
    refused: UnderstudyError | None = None
    """Why a start would be refused now, for any file."""


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """The recipes for a file, including those for a selection or diagnostic in it (``recipe.applies_to.on``)."""

    workspace: Path
    offers: list[RecipeOffer]


def offers(caller: Caller, uri: str) -> Offers:
    """Return the recipes that fit the language of a file, in their order, without starting anything.

    Errors: ``invalid_params`` if ``uri`` does not name a file.
    """
    distrusts = caller.distrusts
    with records.withdrawing(distrusts) if distrusts is not None else contextlib.nullcontext():
        workspace = repository.workspace_of([uri], None, None, caller.opened())
        loaded = configuration.load(caller, str(workspace))
    language = delegators.language_of(repository.require_path(uri).name)
    incomplete = loaded.incompleteness()
    offered = []
    for recipe in sorted(loaded.recipes.values(), key=lambda recipe: recipe.order):
        if recipe.applies_to.languages and language not in recipe.applies_to.languages:
            continue
        if incomplete is not None:
            offered.append(RecipeOffer(recipe=recipe, refused=incomplete))
            continue
        offered.append(_of(recipe, loaded))
    return Offers(workspace=workspace, offers=offered)


def offer_with(caller: Caller, workspace: Path, recipe: str, delegator: str | None) -> RecipeOffer:
    """Return a recipe with the delegator that the user chose; None: the default. Errors: those of a start."""
    loaded = configuration.load(caller, str(workspace))
    declared = loaded.recipes.get(recipe)
    if declared is None:
        raise UnderstudyError(
            ErrorKind.UNKNOWN_RECIPE, f"The recipe {recipe!r} no longer exists.", hint="Ask for the code actions again."
        )
    return _offer(declared, loaded, delegator)


def taken_by_recipe(caller: Caller, workspace: str | None) -> list[RecipeOffer]:
    """Return every recipe with the delegator that a start without a delegator would take now, or why it is refused."""
    loaded = configuration.load(caller, workspace)
    incomplete = loaded.incompleteness()
    offered = []
    for recipe in loaded.recipes.values():
        try:
            offer = _offer(recipe, loaded, None) if incomplete is None else None
        except UnderstudyError as refused:
            offer = RecipeOffer(recipe=recipe, refused=refused)
        offered.append(offer or RecipeOffer(recipe=recipe, refused=incomplete))
    return offered


def alternative(caller: Caller, workspace: str, recipe: str, tried: Collection[str]) -> str | None:
    """Return a delegator that could run a recipe instead of those that were tried; None if there is none.

    The recipe's default comes first, then the general one; others only if they have done the recipe before.
    """
    loaded = configuration.load(caller, workspace)
    declared = loaded.recipes.get(recipe)
    if declared is None or loaded.incompleteness() is not None:
        return None
    entries = configuration.delegators(caller, messages.WorkspaceParams(workspace=workspace)).delegators
    possible = {
        entry.delegator.name: entry
        for entry in entries
        if entry.state.ready and not entry.state.pauses and entry.delegator.name not in tried
    }
    succeeded = _succeeded(recipe)
    order = candidates.suggested(
        Standing(
            name=name,
            default_for_recipe=recipe in entry.default_for,
            default=entry.is_default,
            builtin=entry.scope is Scope.BUILTIN,
            succeeded=name in succeeded,
        )
        for name, entry in possible.items()
    )
    able = (name for name in order if usable.why_unusable(loaded, possible[name], declared) is None)
    return next(able, None)


def _succeeded(recipe: str) -> set[str]:
    """Return the delegators with a result among the newest delegations of a recipe."""
    recent, _ = reader.page(states=[State.FINISHED], limit=_RECENT)
    return {
        delegation.attempts[-1].delegator
        for delegation in recent
        if delegation.recipe == recipe and delegation.attempts and delegation.verdict in _SUCCESSES
    }


def follows_instructions(delegation: Delegation) -> bool:
    """Return whether the agent that worked last would read a reply; the ghostwriter does not."""
    return not delegation.attempts or reads_prompts(delegation.attempts[-1].tool)


def reads_prompts(tool: str | None) -> bool:
    """Return whether an agent, or a model without one, reads its prompt; the ghostwriter reads only the files."""
    declared = declarations.tools().get(tool or "")
    return declared is None or declared.follows_instructions


def _of(recipe: Recipe, loaded: Configuration) -> RecipeOffer:
    try:
        return _offer(recipe, loaded, None)
    except UnderstudyError as refused:
        names = refused.names or () if refused.kind is ErrorKind.UNKNOWN_DELEGATOR else ()
        able = (name for name in names if usable.why_unusable(loaded, loaded.delegators[name], recipe) is None)
        return RecipeOffer(recipe=recipe, refused=refused, choices=tuple(able))


def _offer(recipe: Recipe, loaded: Configuration, name: str | None) -> RecipeOffer:
    entry, explain = delegator_choice.choose(loaded, recipe, name, with_fallback=recipe.returns == "tree")
    asks_server = entry.delegator.tool is None and entry.delegator.model_server is not None
    return RecipeOffer(
        recipe=recipe, delegator=name, explain=explain, is_text_request=asks_server and recipe.returns == "text"
    )
