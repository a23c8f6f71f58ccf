"""Code actions that delegate: a file, a selection or diagnostics, by every recipe that fits.

They come last and are never preferred, and a client that asks by itself, at every move of the cursor, gets none.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.api import table
from understudy.faces.lsp import documents, places
from understudy.faces.lsp.calls import Call
from understudy.journal import store
from understudy.model.delegators import Scope
from understudy.model.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.api.offers import Offer, Offers
    from understudy.faces.lsp.client import Client
    from understudy.faces.lsp.server import Server

BY = "delegate"
START = table.PREFIX + "delegations/start"
SOURCE = "Understudy"
"""The source of our own diagnostics: hunks and configuration are nothing to delegate."""
KEPT = 256
"""Folders and languages whose offers are remembered at once."""
KEPT_SECONDS = 10.0
"""Changes of configuration are told; that a folder became a repository is not."""
TITLE_CHARACTERS = 60

_BRINGS = {
    "tests": "tests for",
    "docs": "documentation for",
    "fix": "a fix for",
    "review": "a review of",
    "explain": "an explanation of",
    "summarize": "a summary of",
    "ask": "an answer about",
    "implement": "an implementation of",
}
"""Built-in recipe → what it brings, as it goes on after "Delegate"; everybody else's are quoted by their title."""
_IN_THEIR_WORDS = {
    "ask": "The selected lines hold the question.",
    "implement": "The selected lines say what is wanted.",
}
"""Recipes that need a person's words: a code action has none but those that are selected."""

_SEND_A_WORD = {"", "eglot"}
"""Names of clients whose range is that of the word at the cursor when nothing is selected: ALE and
older Eglot, which tell no name, and Eglot."""


class Actions:
    """What is offered where."""

    def __init__(self, client: Client) -> None:
        """Know nothing yet."""
        self._client = client
        self._known: dict[tuple[Path, str], tuple[float, Offers]] = {}
        self._age = 0
        """Counts what was forgotten, so that a reading that began before is not kept after it."""

    async def offer(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return the actions for a place in a file."""
        if params.context.trigger_kind == types.CodeActionTriggerKind.Automatic:
            return []
        uri = params.text_document.uri
        found = await self._offers(uri)
        if found is None:
            return []
        selected = self._selects(uri, params.range)
        diagnostics = [one for one in params.context.diagnostics if not _is_ours(one)]
        actions = []
        for one in found.offers:
            fits = one.recipe.fits.on
            if one.recipe.returns == "file":
                continue  # which file to write is for a person to say, and nothing in a code action asks
            if diagnostics and "diagnostic" in fits:
                actions.append(self._on_diagnostics(one, found, uri, diagnostics))
            if selected and "selection" in fits:
                actions.append(self._on_selection(one, found, uri, params.range))
            elif "file" in fits and one.recipe.name not in _IN_THEIR_WORDS:
                actions.append(self._on_file(one, found, uri))
        return sorted(actions, key=lambda action: action.kind != _quick_fix())

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """Give an action its command, and say who would do it and why."""
        data: Any = action.data
        params = data.get("params") if isinstance(data, dict) else None
        if not isinstance(params, dict) or not params.get("files"):
            return action
        found = await self._offers(str(params["files"][0]))
        wanted = (params.get("recipe"), params.get("delegator"))
        offers = found.offers if found else []
        one = next((one for one in offers if (one.recipe.name, one.delegator) == wanted), None)
        if one is None or one.refused is not None:
            action.disabled = types.CodeActionDisabled(reason=_reason(one))
            return action
        explanation = _explanation(one)
        action.command = types.Command(
            title=f"{action.title}: {explanation}", command=START, arguments=[params], tooltip=explanation
        )
        action.data = {**data, "explanation": explanation}
        return action

    def forget(self) -> None:
        """Read everything anew when it is next asked for."""
        self._known.clear()
        self._age += 1

    def changed(self, collections: frozenset[str]) -> None:
        """Read anew what depends on configuration; that a delegation went on changes nothing here."""
        if collections - {"delegations"}:
            self.forget()

    def _selects(self, uri: str, given: types.Range) -> bool:
        """Tell whether a person selected something; some editors send the word at the cursor as well."""
        if given.start == given.end:
            return False
        text = self._client.documents.text(uri)
        if given.start.line != given.end.line or self._client.name.casefold() not in _SEND_A_WORD or text is None:
            return True
        start, end = (documents.offset_of(text, one, self._client.encoding) for one in (given.start, given.end))
        return len(text[start:end].split()) > 1

    async def _offers(self, uri: str) -> Offers | None:
        """Return what is offered for a file; None for what is none, or one of Understudy's own."""
        path = places.path_of(uri)
        if path is None:
            return None
        key = (path.parent, path.suffix.lower())
        known = self._known.get(key)
        if known is not None and time.monotonic() - known[0] < KEPT_SECONDS:
            return known[1]
        age, is_open = self._age, self._client.documents.version(uri) is not None
        found = await asyncio.to_thread(_read, self._client, uri, path, is_open)
        if found is None:
            return None
        self._client.watch(found.workspace)
        if age == self._age:
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = (time.monotonic(), found)
        return found

    def _on_file(self, one: Offer, found: Offers, uri: str) -> types.CodeAction:
        kind = f"refactor.delegate.{one.recipe.name}"
        return _action(one, _title(one, "this file"), kind, _params(one, found, uri))

    def _on_selection(self, one: Offer, found: Offers, uri: str, selected: types.Range) -> types.CodeAction:
        kind = f"refactor.delegate.{one.recipe.name}"
        params = _params(one, found, uri) | {"range": self._client.to_wire(selected)}
        if one.recipe.name in _IN_THEIR_WORDS:
            params["task"] = _IN_THEIR_WORDS[one.recipe.name]
        return _action(one, _title(one, "the selection"), kind, params)

    def _on_diagnostics(
        self, one: Offer, found: Offers, uri: str, diagnostics: list[types.Diagnostic]
    ) -> types.CodeAction:
        plain = [self._client.to_wire(diagnostic) for diagnostic in diagnostics]
        first = min(plain, key=lambda each: _place(each["range"]["start"]))["range"]["start"]
        last = max(plain, key=lambda each: _place(each["range"]["end"]))["range"]["end"]
        params = _params(one, found, uri) | {"range": {"start": first, "end": last}, "diagnostics": plain}
        about = f"“{_short(diagnostics[0].message)}”" if len(diagnostics) == 1 else f"{len(diagnostics)} problems"
        action = _action(one, _title(one, about), _quick_fix(), params)
        action.diagnostics = diagnostics
        return action


def _read(client: Client, uri: str, path: Path, is_open: bool) -> Offers | None:
    if store.state_root() in path.parents or not (is_open or path.is_file()):
        return None
    from understudy.api import offers as offering  # noqa: PLC0415 - the engine, which an editor's start need not wait for

    caller = Call(client, "", None, lambda *_: None)
    try:
        return offering.offers(caller, uri)
    except UnderstudyError:
        return None


def _action(one: Offer, title: str, kind: str, params: dict[str, Any]) -> types.CodeAction:
    action = types.CodeAction(title=title, kind=kind, data={"by": BY, "params": params})
    if one.refused is not None:
        action.disabled = types.CodeActionDisabled(reason=_reason(one))
    return action


def _params(one: Offer, found: Offers, uri: str) -> dict[str, Any]:
    params = {"recipe": one.recipe.name, "files": [uri], "workspace": places.uri_of(found.workspace)}
    return params if one.delegator is None else params | {"delegator": one.delegator}


def _title(one: Offer, what: str) -> str:
    brings = _BRINGS.get(one.recipe.name) if one.recipe.scope is Scope.BUILTIN else None
    to = f" to “{_short(one.delegator)}”" if one.delegator is not None else ""
    return f"Delegate {brings or f'“{_short(one.recipe.title)}” for'} {what}{to}"


def _reason(one: Offer | None) -> str:
    if one is None or one.refused is None:
        return "This is not on offer any more: the recipe or the delegator is gone, or another one is the default."
    return f"{one.refused.message} {one.refused.hint or ''}".strip()


def _explanation(one: Offer) -> str:
    if one.explain is None:
        return ""
    passed = [f"{tried.name} was passed over: {tried.skipped}" for tried in one.explain.tried if tried.skipped]
    return ". ".join([f"{one.explain.delegator} does it, because {one.explain.because}", *passed]).rstrip(".") + "."


def _quick_fix() -> str:
    return "quickfix.delegate"


def _is_ours(diagnostic: types.Diagnostic) -> bool:
    return (diagnostic.source or "").casefold().startswith(SOURCE.casefold())


def _place(position: dict[str, int]) -> tuple[int, int]:
    return position["line"], position["character"]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARACTERS else line[: TITLE_CHARACTERS - 1] + "…"


def register(server: Server) -> None:
    """Offer delegations; to be registered after everything else that offers code actions."""
    actions = Actions(server.client)
    server.gathered.actions.append(actions.offer)
    server.gathered.resolvers[BY] = actions.resolve
    server.client.on_changed.append(actions.changed)
    server.client.on_folders.append(actions.forget)
