"""What can be delegated about a file: each recipe that fits it, with who would do it and why, or why nobody can."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from understudy import config
from understudy.api import configuration
from understudy.api.caller import Caller
from understudy.config import trust
from understudy.engine import places, resolve
from understudy.model.delegations import Explanation
from understudy.model.delegators import Recipe
from understudy.model.errors import ErrorKind, UnderstudyError

MOST_CHOICES = 5
"""Delegators that are offered beside each other for one recipe; who has more of them says which is the default."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One recipe; exactly one of ``explain`` and ``refused`` is there."""

    recipe: Recipe
    delegator: str | None = None
    """Who is to be named at the start, where several could do it and none is the default."""
    explain: Explanation | None = None
    refused: UnderstudyError | None = None
    """Why a start would be refused now, whatever file it is about."""


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """What a face can offer for a file: also what fits only a selection or a diagnostic in it (``recipe.fits.on``)."""

    workspace: Path
    offers: list[Offer]


def offers(caller: Caller, uri: str) -> Offers:
    """Return the recipes that fit the language of a file, shipped ones first; nothing is started and nothing asked.

    Raises ``invalid_params`` for what is no file.
    """
    withdrawn = getattr(caller, "withdrawn", None)
    with trust.withdrawing(withdrawn) if withdrawn is not None else contextlib.nullcontext():
        workspace = places.workspace_of([uri], None, None)
        loaded = configuration.load(caller, str(workspace))
    language = configuration.language_of(places.path_of(uri).name)
    incomplete = resolve.incompleteness(loaded)
    found = []
    for recipe in loaded.recipes.values():
        if recipe.fits.languages and language not in recipe.fits.languages:
            continue
        if incomplete is not None:
            found.append(Offer(recipe=recipe, refused=incomplete))
            continue
        found.extend(_of(recipe, loaded))
    return Offers(workspace=workspace, offers=found)


def _of(recipe: Recipe, loaded: config.Configuration) -> list[Offer]:
    try:
        return [Offer(recipe=recipe, explain=resolve.choose(loaded, recipe, None)[1])]
    except UnderstudyError as refused:
        names = resolve.able(loaded, recipe) if refused.kind is ErrorKind.UNKNOWN_DELEGATOR else []
        if not 0 < len(names) <= MOST_CHOICES:
            return [Offer(recipe=recipe, refused=refused)]
    return [Offer(recipe=recipe, delegator=name, explain=resolve.choose(loaded, recipe, name)[1]) for name in names]
