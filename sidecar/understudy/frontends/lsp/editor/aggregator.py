"""What several features answer together: code actions, lenses and diagnostics.

A feature adds a *source* to the lists of the ``Aggregator``; sources are asked in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.api import error_answers
from understudy.model.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.frontends.lsp.editor.client import Client

ActionSource = Callable[[types.CodeActionParams], Awaitable[list[types.CodeAction]]]
LensSource = Callable[[types.CodeLensParams], Awaitable[list[types.CodeLens]]]

LENS_REFRESH = "workspace/codeLens/refresh"


class Aggregator:
    """Combine the answers of all sources."""

    def __init__(self, client: Client) -> None:
        """Start with no sources."""
        self.client = client
        self.actions: list[ActionSource] = []
        self.lenses: list[LensSource] = []
        self.diagnostics = Diagnostics(client)

    async def code_action(self, params: types.CodeActionParams) -> list[types.CodeAction | types.Command] | None:
        """Return every source's actions of the requested kinds; commands if the client has no code action literals."""
        actions = [action for source in self.actions for action in await _asked(source, params, [])]
        kinds = params.context.only
        if kinds:
            actions = [action for action in actions if any(_is_below(action.kind, kind) for kind in kinds)]
        if not self.client.can("textDocument.codeAction.codeActionLiteralSupport"):
            # LSP 3.17: such clients accept only commands.
            return [action.command for action in actions if action.command is not None]
        if not self.client.can("textDocument.codeAction.disabledSupport"):
            actions = [action for action in actions if action.disabled is None]
        return list(actions)

    async def code_lens(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """Return every source's lenses."""
        return [lens for source in self.lenses for lens in await _asked(source, params, [])]

    def refresh_lenses(self) -> None:
        """Ask the client to read the lenses again, if it supports that."""
        if self.lenses and self.client.can("workspace.codeLens.refreshSupport"):
            self.client.spawn(self.client.ask(LENS_REFRESH, None), "lens refresh")


class Diagnostics:
    """Diagnostics by document and owner; all owners are published together, since LSP has one list per document."""

    def __init__(self, client: Client) -> None:
        """Publish nothing yet."""
        self._client = client
        self._found: dict[str, dict[str, list[types.Diagnostic]]] = {}

    def put(self, owner: str, uri: str, diagnostics: list[types.Diagnostic]) -> None:
        """Replace the diagnostics of ``owner`` for a document; publish them if they changed."""
        of_document = self._found.setdefault(uri, {})
        before = of_document.get(owner, [])
        if before == diagnostics:
            return
        if diagnostics:
            of_document[owner] = diagnostics
        else:
            of_document.pop(owner, None)
        together = [diagnostic for group in of_document.values() for diagnostic in group]
        if not of_document:
            del self._found[uri]
        self._client.notify(
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS,
            types.PublishDiagnosticsParams(uri=uri, diagnostics=together, version=self._version(uri)),
        )

    def _version(self, uri: str) -> int | None:
        if not self._client.can("textDocument.publishDiagnostics.versionSupport"):
            return None
        return self._client.documents.version(uri)


async def _asked(source: Callable[[Any], Awaitable[Any]], params: Any, otherwise: Any) -> Any:
    """Ask one source; if it fails, return ``otherwise``, so that the answers of the others are kept."""
    try:
        return await source(params)
    except asyncio.CancelledError:
        raise
    except UnderstudyError:
        return otherwise
    except Exception as error:
        error_answers.internal_error("lsp source", error)
        return otherwise


def _is_below(kind: types.CodeActionKind | str | None, parent: types.CodeActionKind | str) -> bool:
    """Return whether ``kind`` is ``parent`` or below it, as ``refactor.delegate`` is below ``refactor`` (LSP 3.17)."""
    # ``str`` of a member of the enumeration is its name in Python, not its value.
    actual, asked = (getattr(value, "value", value) or "" for value in (kind, parent))
    return asked in {"", actual} or actual.startswith(asked + ".")
