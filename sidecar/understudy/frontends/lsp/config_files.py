"""Diagnostics, completion, hover and quick fixes in Understudy's configuration files, by ``api.config_language``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.api import messages as m
from understudy.frontends.lsp.editor import documents
from understudy.model.text import uris

if TYPE_CHECKING:
    from understudy.api.config_language import FileKind, Finding, Fix, Known, Span
    from understudy.frontends.lsp.editor.feature_host import FeatureHost

OWNER = "understudy-files"
SETTLE_SECONDS = 0.15
"""Delay between the last keystroke and new diagnostics."""

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
}
_KINDS = {
    "key": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.EnumMember,
    "name": types.CompletionItemKind.Reference,
    "table": types.CompletionItemKind.Struct,
    "file": types.CompletionItemKind.Snippet,
}
_CONFIGURATION = frozenset({"delegators", "modelServers", "recipes", "trust"})


class ConfigFiles:
    """The configuration files that are open in one editor."""

    def __init__(self, host: FeatureHost) -> None:
        """Start without open files."""
        self.client = host.client
        self.aggregator = host.aggregator
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._known: dict[Path | None, asyncio.Task[Known]] = {}

    # -- diagnostics -----------------------------------------------------------------------------------------------

    def document(self, what: str, uri: str) -> None:
        """Check a document again after the user paused."""
        if _kind_of(uri) is None:
            return
        if what == "close":
            waiting = self._waiting.pop(uri, None)
            if waiting is not None:
                waiting.cancel()
            self.aggregator.diagnostics.put(OWNER, uri, [])
            return
        if what == "save":
            self._known.clear()
        self._look_soon(uri, 0.0 if what in {"open", "save"} else SETTLE_SECONDS)

    def changed(self, collections: frozenset[str]) -> None:
        """Check everything again: names may have been added or removed."""
        if collections & _CONFIGURATION:
            self._known.clear()
            for uri in self.client.documents.open_uris():
                if _kind_of(uri) is not None:
                    self._look_soon(uri, 0.0)

    def _look_soon(self, uri: str, seconds: float) -> None:
        waiting = self._waiting.pop(uri, None)
        if waiting is not None:
            waiting.cancel()

        def look() -> None:
            self._waiting.pop(uri, None)
            self.client.spawn(self._look(uri), "configuration file")

        self._waiting[uri] = asyncio.get_running_loop().call_later(seconds, look)

    async def _look(self, uri: str) -> None:
        found = await self._findings(uri)
        if found is None:
            self.aggregator.diagnostics.put(OWNER, uri, [])  # closed, or out of sync
            return
        text, version, findings = found
        if self.client.documents.version(uri) != version:
            return  # a newer check is scheduled
        encoding = self.client.encoding
        self.aggregator.diagnostics.put(
            OWNER,
            uri,
            [
                types.Diagnostic(
                    range=_range(text, one.span, encoding),
                    message=one.message,
                    severity=_SEVERITIES[one.severity],
                    source="understudy",
                    code=one.code,
                )
                for one in findings
            ],
        )

    async def _findings(self, uri: str) -> tuple[str, int, list[Finding]] | None:
        kind, path = _kind_of(uri), uris.path_of(uri)
        looked = self.client.documents.look(uri)
        if kind is None or path is None or looked is None:
            return None
        version, text = looked
        known = await self._known_for(path)
        return text, version, await asyncio.to_thread(_language().diagnostics, kind, path, text, known)

    # -- at a position ---------------------------------------------------------------------------------------------

    async def completion(self, params: types.CompletionParams) -> types.CompletionList | None:
        """Return the completions at a position."""
        at = await self._at(params.text_document.uri, params.position)
        if at is None:
            return None
        kind, text, (line, character), known = at
        found = await asyncio.to_thread(_language().complete, kind, text, line, character, known)
        snippets = self.client.can("textDocument.completion.completionItem.snippetSupport")
        deprecated = self.client.can("textDocument.completion.completionItem.tagSupport")
        items = []
        for number, one in enumerate(found):
            snippet = one.snippet if snippets else None
            items.append(
                types.CompletionItem(
                    label=one.label,
                    kind=_KINDS[one.kind],
                    detail=one.detail or None,
                    documentation=self._markup(one.documentation, "completion.completionItem.documentationFormat"),
                    filter_text=one.filter or None,
                    sort_text=f"{number:05}",
                    text_edit=types.TextEdit(_range(text, one.span, self.client.encoding), snippet or one.text),
                    insert_text_format=types.InsertTextFormat.Snippet if snippet else None,
                    tags=[types.CompletionItemTag.Deprecated] if one.deprecated and deprecated else None,
                )
            )
        return types.CompletionList(is_incomplete=False, items=items)

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Describe the field or name at a position."""
        at = await self._at(params.text_document.uri, params.position)
        if at is None:
            return None
        kind, text, (line, character), known = at
        found = await asyncio.to_thread(_language().hover, kind, text, line, character, known)
        if found is None:
            return None
        content = self._markup(found.markdown, "hover.contentFormat")
        if content is None:
            return None
        return types.Hover(contents=content, range=_range(text, found.span, self.client.encoding))

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return the quick fixes for the problems in a range."""
        uri = params.text_document.uri
        kind = _kind_of(uri)
        found = None if kind is None else await self._findings(uri)
        if kind is None or found is None:
            return []
        text, version, findings = found
        lines = (params.range.start.line, params.range.end.line)
        return [
            self._fix(uri, text, version, finding, fix)
            for finding in findings
            if finding.span.start.line <= lines[1] and finding.span.end.line >= lines[0]
            for fix in _language().fixes(kind, text, finding)
        ]

    def _fix(self, uri: str, text: str, version: int, finding: Finding, fix: Fix) -> types.CodeAction:
        encoding = self.client.encoding
        edits = [types.TextEdit(_range(text, one.span, encoding), one.text) for one in fix.edits]
        if self.client.can("workspace.workspaceEdit.documentChanges"):
            document = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
            edit = types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, [*edits])])
        else:
            edit = types.WorkspaceEdit(changes={uri: edits})
        about = types.Diagnostic(
            range=_range(text, finding.span, encoding),
            message=finding.message,
            severity=_SEVERITIES[finding.severity],
            source="understudy",
            code=finding.code,
        )
        return types.CodeAction(
            title=fix.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[about],
            edit=edit,
            is_preferred=True if fix.preferred else None,
        )

    async def _at(self, uri: str, position: Any) -> tuple[FileKind, str, tuple[int, int], Known] | None:
        kind, path = _kind_of(uri), uris.path_of(uri)
        text = self.client.documents.text(uri)
        if kind is None or path is None or text is None:
            return None
        offset = documents.offset_of(text, position, self.client.encoding)
        return kind, text, documents.position_of(text, offset, "utf-32"), await self._known_for(path)

    def _markup(self, markdown: str, capability: str) -> types.MarkupContent | None:
        if not markdown:
            return None
        formats = self.client.capability(f"textDocument.{capability}")
        takes = isinstance(formats, list) and "markdown" in formats
        return types.MarkupContent(types.MarkupKind.Markdown if takes else types.MarkupKind.PlainText, markdown)

    async def _known_for(self, path: Path) -> Known:
        """Return the configuration that applies to a file; it is cached until it changes."""
        workspace = _workspace_of(path) or next(iter(self.client.folders), None)
        task = self._known.get(workspace)
        if task is None:
            task = self._known[workspace] = asyncio.create_task(self._read(workspace))
        try:
            return await asyncio.shield(task)
        except Exception:
            self._known.pop(workspace, None)
            raise

    async def _read(self, workspace: Path | None) -> Known:
        trusted = False
        if workspace is not None:
            answer = await self.client.call("workspace/trust", m.TrustParams(workspace=str(workspace)))
            trusted = answer.trusted
        return await asyncio.to_thread(_language().know, workspace, trusted=trusted)


def register(host: FeatureHost) -> None:
    """Register the language features of configuration files."""
    files = ConfigFiles(host)
    host.client.on_document.append(files.document)
    host.client.on_changed.append(files.changed)
    host.aggregator.completions.append(files.completion)
    host.aggregator.hovers.append(files.hover)
    host.aggregator.actions.append(files.actions)


def _kind_of(uri: str) -> FileKind | None:
    path = uris.path_of(uri)
    if path is None or path.suffix not in {".toml", ".md"}:
        return None
    found: FileKind | None = _language().kind_of(path)
    return found


def _language() -> ModuleType:
    """Return ``api.config_language``, imported when the first TOML or Markdown file is opened."""
    from understudy.api import config_language

    return config_language


def _workspace_of(path: Path) -> Path | None:
    """Return the folder whose ``.understudy`` contains a file."""
    for parent in path.parents:
        if parent.name == ".understudy":
            return parent.parent
    return None


def _range(text: str, span: Span, encoding: str) -> types.Range:
    """Convert a span, which counts code points, to the client's encoding."""
    start = documents.offset_of(text, (span.start.line, span.start.character), "utf-32")
    end = documents.offset_of(text, (span.end.line, span.end.character), "utf-32")
    first, last = documents.position_of(text, start, encoding), documents.position_of(text, end, encoding)
    return types.Range(types.Position(*first), types.Position(*last))
