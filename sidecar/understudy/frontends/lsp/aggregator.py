"""Methods that several features answer together: code actions, lenses, completion, hover, diagnostics.

A feature adds a *source* to the lists of the server's ``Gatherer`` (``server.gathered``); sources are asked in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.api import faults
from understudy.model.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.faces.lsp.client import Client
    from understudy.faces.lsp.server import Server

ActionSource = Callable[[types.CodeActionParams], Awaitable[list[types.CodeAction]]]
LensSource = Callable[[types.CodeLensParams], Awaitable[list[types.CodeLens]]]
CompletionSource = Callable[[types.CompletionParams], Awaitable[types.CompletionList | None]]
HoverSource = Callable[[types.HoverParams], Awaitable[types.Hover | None]]
Resolver = Callable[[types.CodeAction], Awaitable[types.CodeAction]]

LENS_REFRESH = "workspace/codeLens/refresh"


class Gatherer:
    """Who answers what."""

    def __init__(self, client: Client) -> None:
        """Nobody answers yet."""
        self.client = client
        self.actions: list[ActionSource] = []
        self.resolvers: dict[str, Resolver] = {}
        """By the key ``by`` in an action's ``data``."""
        self.lenses: list[LensSource] = []
        self.completions: list[CompletionSource] = []
        self.hovers: list[HoverSource] = []
        self.diagnostics = Diagnostics(client)

    async def code_action(self, params: types.CodeActionParams) -> list[types.CodeAction | types.Command] | None:
        """Return every source's actions whose kind was asked for; commands for clients without literals."""
        found = [action for source in self.actions for action in await _asked(source, params, [])]
        wanted = params.context.only
        if wanted:
            found = [action for action in found if any(_is_below(action.kind, kind) for kind in wanted)]
        if not self.client.can("textDocument.codeAction.codeActionLiteralSupport"):
            # LSP 3.17: such clients take commands only; what needs resolving is resolved now.
            resolved = [await self.resolve(action) for action in found]
            return [action.command for action in resolved if action.command is not None and action.disabled is None]
        lazily = self.client.capability("textDocument.codeAction.resolveSupport.properties")
        if not isinstance(lazily, list) or "command" not in lazily:
            # A client that cannot resolve a command gets it at once.
            found = [await self.resolve(action) if action.command is None else action for action in found]
        if not self.client.can("textDocument.codeAction.disabledSupport"):
            found = [action for action in found if action.disabled is None]
        return list(found)

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """Complete an action."""
        data = action.data if isinstance(action.data, dict) else {}
        resolver = self.resolvers.get(str(data.get("by")))
        return action if resolver is None else await resolver(action)

    async def code_lens(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """Return every source's lenses."""
        return [lens for source in self.lenses for lens in await _asked(source, params, [])]

    async def completion(self, params: types.CompletionParams) -> types.CompletionList | None:
        """Return the first source's answer that is one."""
        for source in self.completions:
            found: types.CompletionList | None = await _asked(source, params, None)
            if found is not None:
                return found
        return None

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Return the first source's answer that is one."""
        for source in self.hovers:
            found: types.Hover | None = await _asked(source, params, None)
            if found is not None:
                return found
        return None

    def refresh_lenses(self) -> None:
        """Ask the client to read the lenses again, where it can."""
        if self.lenses and self.client.can("workspace.codeLens.refreshSupport"):
            self.client.spawn(self.client.ask(LENS_REFRESH, None), "lens refresh")


class Diagnostics:
    """Diagnostics by document and owner: published together, since a client knows one list a document."""

    def __init__(self, client: Client) -> None:
        """Publish nothing yet."""
        self._client = client
        self._found: dict[str, dict[str, list[types.Diagnostic]]] = {}

    def put(self, owner: str, uri: str, found: list[types.Diagnostic]) -> None:
        """Replace what ``owner`` says of a document, and publish when that changes anything."""
        of_document = self._found.setdefault(uri, {})
        before = of_document.get(owner, [])
        if before == found:
            return
        if found:
            of_document[owner] = found
        else:
            of_document.pop(owner, None)
        together = [one for each in of_document.values() for one in each]
        if not of_document:
            del self._found[uri]
        self._client.notify(
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS,
            types.PublishDiagnosticsParams(uri=uri, diagnostics=together, version=self._version(uri)),
        )

    def of(self, owner: str) -> list[str]:
        """Return the documents about which ``owner`` says something."""
        return [uri for uri, owners in self._found.items() if owner in owners]

    def _version(self, uri: str) -> int | None:
        if not self._client.can("textDocument.publishDiagnostics.versionSupport"):
            return None
        return self._client.documents.version(uri)


def register(server: Server) -> None:
    """Register the methods; the capabilities say what the sources need."""
    gathered = server.gathered
    kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.Refactor]
    triggers = ['"', "[", "=", ".", "-"]
    server.answer(
        types.TEXT_DOCUMENT_CODE_ACTION,
        gathered.code_action,
        types.CodeActionOptions(code_action_kinds=kinds, resolve_provider=True),
    )
    server.answer(types.CODE_ACTION_RESOLVE, gathered.resolve)
    server.answer(types.TEXT_DOCUMENT_CODE_LENS, gathered.code_lens, types.CodeLensOptions(resolve_provider=False))
    server.answer(
        types.TEXT_DOCUMENT_COMPLETION, gathered.completion, types.CompletionOptions(trigger_characters=triggers)
    )
    server.answer(types.TEXT_DOCUMENT_HOVER, gathered.hover)


async def _asked(source: Callable[[Any], Awaitable[Any]], params: Any, otherwise: Any) -> Any:
    """Ask one source; its failure must not take the others' answers away."""
    try:
        return await source(params)
    except asyncio.CancelledError:
        raise
    except UnderstudyError:
        return otherwise
    except Exception as error:
        faults.internal("lsp source", error)
        return otherwise


def _is_below(kind: types.CodeActionKind | str | None, wanted: types.CodeActionKind | str) -> bool:
    """Kinds are hierarchical: ``refactor`` asks for ``refactor.delegate.tests``, too (LSP 3.17, CodeActionKind)."""
    # Members of the enumeration are strings, but ``str`` of one is its name in Python.
    own, asked = (getattr(one, "value", one) or "" for one in (kind, wanted))
    return asked in {"", own} or own.startswith(asked + ".")
