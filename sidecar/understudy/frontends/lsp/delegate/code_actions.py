"""Offer code actions that delegate a file, a selection or diagnostics, one for each recipe that fits.

They are listed last and are never preferred. Automatic requests, which clients send when the cursor moves, get none.
Each action has its command from the start: VS Code drops a command that is resolved after its list was closed.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.api import method_table, result_files
from understudy.frontends.lsp.editor import documents
from understudy.frontends.lsp.editor.requests import ApiRequest
from understudy.model.errors import UnderstudyError
from understudy.model.text import path_quoting

if TYPE_CHECKING:
    from understudy.api.handlers.offers import Offers, RecipeOffer
    from understudy.frontends.lsp.editor.aggregator import Aggregator
    from understudy.frontends.lsp.editor.client import Client
    from understudy.model.config.delegators import Recipe

START = method_table.PREFIX + "delegations/start"
ASK = method_table.PREFIX + "text/run"
SOURCE = "Understudy"
"""The source of Understudy's own diagnostics, about hunks and configuration files; they cannot be delegated."""
KEPT = 256
"""How many offers are cached, one for each folder and file extension."""
KEPT_SECONDS = 10.0
"""How long offers are cached: no notification tells the server that a folder became a repository."""
TITLE_CHARACTERS = 60
_QUICK_FIX = "quickfix.delegate"

_SEND_WORD_AT_CURSOR = {"", "eglot"}
"""Names of clients that send the range of the word at the cursor if nothing is selected: Eglot, and ALE and older
Eglot, which send no name."""


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
        selected = self._selects(uri, params.range)
        diagnostics = [diagnostic for diagnostic in params.context.diagnostics if not _is_ours(diagnostic)]
        actions = []
        for offer in offers.offers:
            fits = offer.recipe.applies_to.on
            if offer.recipe.returns == "file":
                continue  # the user has to name the file to write, and a code action cannot ask for it
            if diagnostics and "diagnostic" in fits:
                actions.append(self._on_diagnostics(offer, offers, uri, diagnostics))
            if selected and "selection" in fits and _knows_task(offer.recipe):
                actions.append(self._on_selection(offer, offers, uri, params.range))
            elif "file" in fits and "task" not in (offer.recipe.needs or ()):
                actions.append(self._on_file(offer, offers, uri))
        return sorted(actions, key=lambda action: action.kind != _QUICK_FIX)

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

    def _on_file(self, offer: RecipeOffer, offers: Offers, uri: str) -> types.CodeAction:
        kind = f"refactor.delegate.{offer.recipe.name}"
        return _action(offer, _title(offer, "this file"), kind, _params(offer, offers, uri))

    def _on_selection(self, offer: RecipeOffer, offers: Offers, uri: str, selected: types.Range) -> types.CodeAction:
        kind = f"refactor.delegate.{offer.recipe.name}"
        params = _params(offer, offers, uri) | {"range": self._client.to_wire(selected)}
        if offer.recipe.action is not None and offer.recipe.action.selection is not None:
            params["task"] = offer.recipe.action.selection
        return _action(offer, _title(offer, "the selection"), kind, params)

    def _on_diagnostics(
        self, offer: RecipeOffer, offers: Offers, uri: str, diagnostics: list[types.Diagnostic]
    ) -> types.CodeAction:
        plain = [self._client.to_wire(diagnostic) for diagnostic in diagnostics]
        first = min(plain, key=lambda diagnostic: _place(diagnostic["range"]["start"]))["range"]["start"]
        last = max(plain, key=lambda diagnostic: _place(diagnostic["range"]["end"]))["range"]["end"]
        params = _params(offer, offers, uri) | {"range": {"start": first, "end": last}, "diagnostics": plain}
        about = f"“{_short(diagnostics[0].message)}”" if len(diagnostics) == 1 else f"{len(diagnostics)} problems"
        action = _action(offer, _title(offer, about), _QUICK_FIX, params)
        action.diagnostics = diagnostics
        return action


def _read(client: Client, uri: str, path: Path, is_open: bool) -> Offers | None:
    if result_files.is_own(path) or not (is_open or path.is_file()):
        return None
    from understudy.api.handlers import offers as offering

    caller = ApiRequest(client, "", None, lambda *_: None)
    try:
        return offering.offers(caller, uri)
    except UnderstudyError:
        return None


def _action(offer: RecipeOffer, title: str, kind: str, params: dict[str, Any]) -> types.CodeAction:
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


def _knows_task(recipe: Recipe) -> bool:
    """Return whether it starts without a question for the task, which a code action cannot ask."""
    return "task" not in (recipe.needs or ()) or (recipe.action is not None and recipe.action.selection is not None)


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
