"""Offer code actions that delegate a file, a selection or diagnostics: tests, a fix, and "Delegate…" for the rest.

They are listed last and are never preferred. Automatic requests, which clients send when the cursor moves, get none.
Each action has its command from the start: VS Code drops a command that is resolved after its list was closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lsprotocol import types

from understudy.api import method_table, result_files
from understudy.frontends.lsp.editor import documents
from understudy.frontends.lsp.editor.client import CHOOSE, EditorRefused
from understudy.frontends.lsp.editor.requests import ApiRequest
from understudy.frontends.lsp.editor.user_messages import PERSON_SECONDS, can_ask, choose
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

if TYPE_CHECKING:
    from understudy.api.handlers.offers import Offers, RecipeOffer
    from understudy.frontends.lsp.editor.aggregator import Aggregator
    from understudy.frontends.lsp.editor.client import Client
    from understudy.model.config.delegators import Recipe

Place = Literal["file", "selection", "diagnostic"]
START = method_table.PREFIX + "delegations/start"
ASK = method_table.PREFIX + "text/run"
SOURCE = "Understudy"
"""The source of Understudy's own diagnostics, about hunks and configuration files; they cannot be delegated."""
KEPT = 256
"""How many offers are cached, one for each folder and file extension."""
KEPT_SECONDS = 10.0
"""How long offers are cached: no notification tells the server that a folder became a repository."""
TITLE_CHARACTERS = 60
CHOICE = "Delegate…"
_QUICK_FIX = "quickfix.delegate"
_DEFAULT = " `understudy delegators default` sets a default."

_SEND_WORD_AT_CURSOR = {"", "eglot"}
"""Names of clients that send the range of the word at the cursor if nothing is selected: Eglot, and ALE and older
Eglot, which send no name."""


@dataclass(frozen=True, slots=True)
class _Offered:
    """An action, and whether it has a place of its own in the menu."""

    action: types.CodeAction
    is_listed: bool


class Actions:
    """The code actions of one editor."""

    def __init__(self, shared: Aggregator) -> None:
        """Start with no offers; the actions of every other source, created before, are listed first."""
        self._client = shared.client
        self._known: dict[tuple[Path, str], tuple[float, Offers]] = {}
        self._age = 0
        """Grows when the cache is cleared, so that offers that were read before are not cached afterwards."""
        shared.actions.append(self._offer)
        shared.client.on_changed.append(self._changed)
        shared.client.on_folders.append(self._forget)

    async def _offer(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return the actions for a range of a file."""
        if params.context.trigger_kind == types.CodeActionTriggerKind.Automatic:
            return []
        uri = params.text_document.uri
        offers = None if self._client.documents.out_of_sync(uri) else await self._offers(uri)
        if offers is None:
            return []
        asked_for = {getattr(kind, "value", kind) for kind in params.context.only or ()}
        every = self._every(offers, uri, params.range, params.context.diagnostics)
        if not can_ask(self._client):
            return [offered.action for offered in every]
        actions = [offered.action for offered in every if offered.is_listed or offered.action.kind in asked_for]
        return [*actions, self._choice_of_all(offers, uri, params)] if every else []

    def _every(
        self, offers: Offers, uri: str, at: types.Range, diagnostics: Sequence[types.Diagnostic]
    ) -> list[_Offered]:
        """Return an action for each recipe that fits, fixes of diagnostics first."""
        selected = self._selects(uri, at)
        problems = [diagnostic for diagnostic in diagnostics if not _is_ours(diagnostic)]
        fixes: list[_Offered] = []
        others: list[_Offered] = []
        for offer in offers.offers:
            fits, knows_task = offer.recipe.applies_to.on, "task" not in (offer.recipe.needs or ())
            if offer.recipe.returns == "file":
                continue  # the user has to name the file to write, and a code action cannot ask for it
            if problems and "diagnostic" in fits:
                fixes.append(self._on_diagnostics(offer, offers, uri, problems))
            about_selection = selected and "selection" in fits and (knows_task or _selection_is_task(offer.recipe))
            if "file" in fits and knows_task and (not about_selection or _is_listed_on(offer.recipe, "file")):
                others.append(self._on_file(offer, offers, uri))
            if about_selection:
                others.append(self._on_selection(offer, offers, uri, at))
        return [*fixes, *others]

    def _choice_of_all(self, offers: Offers, uri: str, params: types.CodeActionParams) -> types.CodeAction:
        """Return the action that asks what to delegate."""
        problems = [self._client.to_wire(problem) for problem in params.context.diagnostics if not _is_ours(problem)]
        arguments = {"files": [uri], "workspace": path_quoting.uri_of(offers.workspace), "diagnostics": problems}
        if self._selects(uri, params.range):
            arguments["range"] = self._client.to_wire(params.range)
        command = types.Command(title=CHOICE, command=CHOOSE, arguments=[arguments])
        return types.CodeAction(title=CHOICE, kind="refactor.delegate", command=command)

    # -- the command that asks -------------------------------------------------------------------------------------

    async def choose_command(self, *arguments: Any) -> Any:
        """Run ``CHOOSE``: ask for the recipe, unless the parameters name one, and for the delegator; then start.

        The parameters are those of a start. Returns its result, or None if the user chose nothing.
        """
        params: Any = dict(arguments[0]) if arguments and isinstance(arguments[0], dict) else {}
        files = params.get("files")
        uri = files[0] if isinstance(files, list) and files and isinstance(files[0], str) else ""
        offers = await self._offers(uri) if uri else None
        if offers is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, "`files` names no file of the user.", hint="Ask for the code actions again."
            )
        if params.get("recipe") is None:
            chosen = await self._ask_recipe(offers, uri, params)
            if chosen is None:
                return None
            [params] = chosen.arguments or [{}]
            if chosen.command != CHOOSE:
                return await self._run(chosen.command, params)
        recipe = params["recipe"]
        names = next((offer.choices for offer in offers.offers if offer.recipe.name == recipe), ())
        delegator = None
        if names:  # otherwise the user has set a default since the action was listed
            delegator = await self._ask(f"Several delegators can do this. Which one should?{_DEFAULT}", names)
            if delegator is None:
                return None
            params["delegator"] = delegator
        caller = ApiRequest(self._client, "", None, lambda *_: None)
        from understudy.api.handlers import offers as offering

        chosen_offer = await asyncio.to_thread(offering.offer_with, caller, offers.workspace, recipe, delegator)
        method = ASK if chosen_offer.is_text_request else START
        return await self._run(method, params)

    async def _ask_recipe(self, offers: Offers, uri: str, params: dict[str, Any]) -> types.Command | None:
        """Return the command of the action that the user chose among those that can start.

        Errors: why none can.
        """
        at, problems = self._place_of(params)
        every = [offered.action for offered in self._every(offers, uri, at, problems)]
        commands = {action.title: action.command for action in every if action.command is not None}
        refused = next((offer.refused for offer in offers.offers if offer.refused is not None), None)
        if not commands and refused is not None:
            raise refused
        title = await self._ask("What should be delegated?", list(commands))
        return None if title is None else commands[title]

    def _place_of(self, params: dict[str, Any]) -> tuple[types.Range, list[types.Diagnostic]]:
        """Return the range and the diagnostics that the action was asked for with."""
        nothing = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
        at = self._client.structure(params.get("range") or nothing, types.Range)
        diagnostics = params.get("diagnostics")
        listed = diagnostics if isinstance(diagnostics, list) else []
        return at, [self._client.structure(diagnostic, types.Diagnostic) for diagnostic in listed]

    async def _ask(self, question: str, titles: Sequence[str]) -> str | None:
        """Return what the user chose; None if nothing."""
        try:
            return await choose(self._client, types.MessageType.Info, question, titles, PERSON_SECONDS)
        except (EditorRefused, TimeoutError):
            return None

    async def _run(self, method: str, params: Any) -> Any:
        return await self._client.call(method.removeprefix(method_table.PREFIX), params, as_command=True)

    # -- offers ----------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Clear the cache."""
        self._known.clear()
        self._age += 1

    def _changed(self, collections: frozenset[str]) -> None:
        """Clear the cache unless only delegations changed."""
        if collections - {"delegations"}:
            self._forget()

    def _selects(self, uri: str, selected: types.Range) -> bool:
        """Return whether the user selected something; some editors send the word at the cursor as well."""
        if selected.start == selected.end:
            return False
        text = self._client.documents.text(uri)
        if (
            selected.start.line != selected.end.line
            or self._client.name.casefold() not in _SEND_WORD_AT_CURSOR
            or text is None
        ):
            return True
        start, end = (
            documents.offset_of(text, (at.line, at.character), self._client.encoding)
            for at in (selected.start, selected.end)
        )
        return len(text[start:end].split()) > 1

    async def _offers(self, uri: str) -> Offers | None:
        """Return the offers for a file; None if it is missing or in Understudy's state folder."""
        path = path_quoting.path_of(uri)
        if path is None:
            return None
        key = (path.parent, path.suffix.lower())
        cached = self._known.get(key)
        if cached is not None and time.monotonic() - cached[0] < KEPT_SECONDS:
            return cached[1]
        age, is_open = self._age, self._client.documents.version(uri) is not None
        offers = await asyncio.to_thread(_read, self._client, uri, path, is_open)
        if offers is None:
            return None
        self._client.watch(offers.workspace)
        if age == self._age:
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = (time.monotonic(), offers)
        return offers

    def _on_file(self, offer: RecipeOffer, offers: Offers, uri: str) -> _Offered:
        kind = f"refactor.delegate.{offer.recipe.name}"
        return self._action(offer, "file", _title(offer, "this file"), kind, _params(offer, offers, uri))

    def _on_selection(self, offer: RecipeOffer, offers: Offers, uri: str, selected: types.Range) -> _Offered:
        kind = f"refactor.delegate.{offer.recipe.name}"
        params = _params(offer, offers, uri) | {"range": self._client.to_wire(selected)}
        if offer.recipe.action is not None and offer.recipe.action.selection is not None:
            params["task"] = offer.recipe.action.selection
        return self._action(offer, "selection", _title(offer, "the selection"), kind, params)

    def _on_diagnostics(
        self, offer: RecipeOffer, offers: Offers, uri: str, diagnostics: list[types.Diagnostic]
    ) -> _Offered:
        plain = [self._client.to_wire(diagnostic) for diagnostic in diagnostics]
        first = min(plain, key=lambda diagnostic: _place(diagnostic["range"]["start"]))["range"]["start"]
        last = max(plain, key=lambda diagnostic: _place(diagnostic["range"]["end"]))["range"]["end"]
        params = _params(offer, offers, uri) | {"range": {"start": first, "end": last}, "diagnostics": plain}
        about = f"“{_short(diagnostics[0].message)}”" if len(diagnostics) == 1 else f"{len(diagnostics)} problems"
        offered = self._action(offer, "diagnostic", _title(offer, about), _QUICK_FIX, params)
        offered.action.diagnostics = diagnostics
        return offered

    def _action(self, offer: RecipeOffer, place: Place, title: str, kind: str, params: dict[str, Any]) -> _Offered:
        action = _action(offer, title, kind, params, asks=can_ask(self._client))
        return _Offered(action, is_listed=_is_listed_on(offer.recipe, place))


def _read(client: Client, uri: str, path: Path, is_open: bool) -> Offers | None:
    if result_files.is_own(path) or not (is_open or path.is_file()):
        return None
    from understudy.api.handlers import offers as offering

    caller = ApiRequest(client, "", None, lambda *_: None)
    try:
        return offering.offers(caller, uri)
    except UnderstudyError:
        return None


def _action(offer: RecipeOffer, title: str, kind: str, params: dict[str, Any], *, asks: bool) -> types.CodeAction:
    if asks and offer.choices:
        return types.CodeAction(title=title, kind=kind, command=types.Command(title, CHOOSE, arguments=[params]))
    if offer.refused is not None:
        reason = f"{offer.refused.message} {offer.refused.hint or ''}".strip()
        return types.CodeAction(title=title, kind=kind, disabled=types.CodeActionDisabled(reason=reason))
    explanation = _explanation(offer)
    command = types.Command(
        title=f"{title}: {explanation}",
        command=ASK if offer.is_text_request else START,
        arguments=[params],
        tooltip=explanation,
    )
    return types.CodeAction(title=title, kind=kind, command=command)


def _params(offer: RecipeOffer, offers: Offers, uri: str) -> dict[str, Any]:
    params = {"recipe": offer.recipe.name, "files": [uri], "workspace": path_quoting.uri_of(offers.workspace)}
    return params if offer.delegator is None else params | {"delegator": offer.delegator}


def _is_listed_on(recipe: Recipe, place: Place) -> bool:
    return recipe.action is not None and place in (recipe.action.listed_on or ())


def _selection_is_task(recipe: Recipe) -> bool:
    """Return whether the selected lines can be the task, for which a code action cannot ask."""
    return recipe.action is not None and recipe.action.selection is not None


def _title(offer: RecipeOffer, what: str) -> str:
    action = offer.recipe.action
    delegator = None if offer.delegator is None else f"“{_short(offer.delegator)}”"
    if offer.is_text_request and action is not None and action.answers is not None:
        return f"{_short(action.answers)} {what}" + (f" with {delegator}" if delegator else "")
    brings = f"“{_short(offer.recipe.title)}” for" if action is None or action.brings is None else _short(action.brings)
    return f"Delegate {brings} {what}" + (f" to {delegator}" if delegator else "")


def _explanation(offer: RecipeOffer) -> str:
    if offer.explain is None:
        return ""
    skipped = [
        f"{tried.name} was skipped: {tried.skipped_because}"
        for tried in offer.explain.candidates
        if tried.skipped_because
    ]
    return ". ".join([f"Uses {offer.explain.delegator}: {offer.explain.reason}", *skipped]).rstrip(".") + "."


def _is_ours(diagnostic: types.Diagnostic) -> bool:
    return (diagnostic.source or "").casefold().startswith(SOURCE.casefold())


def _place(position: dict[str, int]) -> tuple[int, int]:
    return position["line"], position["character"]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARACTERS else line[: TITLE_CHARACTERS - 1] + "…"
