"""Diagnostics of Understudy's configuration files, saved or not, by ``api.editor_files``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from understudy.api import messages
from understudy.frontends.lsp.editor import documents
from understudy.model.errors import Range
from understudy.model.text import path_quoting

if TYPE_CHECKING:
    from understudy.api.editor_files.config_diagnostics import Diagnostic, Snapshot
    from understudy.frontends.lsp.editor.aggregator import Aggregator

OWNER = "understudy-files"
SETTLE_SECONDS = 0.15
"""Delay between the last keystroke and new diagnostics."""

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
}
_CONFIGURATION = frozenset({"delegators", "modelServers", "recipes", "trust"})


class ConfigFiles:
    """The configuration files that are open in one editor."""

    def __init__(self, shared: Aggregator) -> None:
        """Start without open files."""
        self.client = shared.client
        self.diagnostics = shared.diagnostics
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._snapshots: dict[Path | None, asyncio.Task[Snapshot]] = {}
        shared.client.on_document.append(self._document)
        shared.client.on_changed.append(self._changed)

    def _document(self, what: str, uri: str) -> None:
        """Check a document again after the user paused."""
        if _config_file(uri) is None:
            return
        if what == "close":
            waiting = self._waiting.pop(uri, None)
            if waiting is not None:
                waiting.cancel()
            self.diagnostics.put(OWNER, uri, [])
            return
        if what == "save":
            self._snapshots.clear()
        self._check_soon(uri, 0.0 if what in {"open", "save"} else SETTLE_SECONDS)

    def _changed(self, collections: frozenset[str]) -> None:
        """Check everything again: names may have been added or removed."""
        if collections & _CONFIGURATION:
            self._snapshots.clear()
            for uri in self.client.documents.open_uris():
                if _config_file(uri) is not None:
                    self._check_soon(uri, 0.0)

    def _check_soon(self, uri: str, seconds: float) -> None:
        waiting = self._waiting.pop(uri, None)
        if waiting is not None:
            waiting.cancel()

        def check() -> None:
            self._waiting.pop(uri, None)
            self.client.spawn(self._check(uri), "configuration file")

        self._waiting[uri] = asyncio.get_running_loop().call_later(seconds, check)

    async def _check(self, uri: str) -> None:
        from understudy.api.editor_files import config_diagnostics

        path, opened = _config_file(uri), self.client.documents.look(uri)
        if path is None or opened is None:
            self.diagnostics.put(OWNER, uri, [])  # closed, or out of sync
            return
        version, text = opened
        snapshot = await self._snapshot_for(path)
        problems = await asyncio.to_thread(config_diagnostics.diagnostics, path, text, snapshot)
        if self.client.documents.version(uri) == version:  # otherwise, a newer check is scheduled
            encoding = self.client.encoding
            self.diagnostics.put(OWNER, uri, [_diagnostic(text, problem, encoding) for problem in problems])

    async def _snapshot_for(self, path: Path) -> Snapshot:
        """Return the configuration that applies to a file; it is cached until it changes."""
        workspace = _workspace_of(path) or next(iter(self.client.folders), None)
        task = self._snapshots.get(workspace)
        if task is None:
            task = self._snapshots[workspace] = asyncio.create_task(self._read(workspace))
        try:
            return await asyncio.shield(task)
        except Exception:
            self._snapshots.pop(workspace, None)
            raise

    async def _read(self, workspace: Path | None) -> Snapshot:
        from understudy.api.editor_files import config_diagnostics

        trusted = False
        if workspace is not None:
            answer = await self.client.call("workspace/trust", messages.TrustParams(workspace=str(workspace)))
            trusted = answer.trusted
        return await asyncio.to_thread(config_diagnostics.snapshot, workspace, trusted=trusted)


def _config_file(uri: str) -> Path | None:
    """Return the path of a configuration file; None for other documents."""
    path = path_quoting.path_of(uri)
    if path is None or path.suffix not in {".toml", ".md"}:
        return None
    # Imported when the first TOML or Markdown file is opened.
    from understudy.api.editor_files import config_diagnostics

    return path if config_diagnostics.is_config_file(path) else None


def _workspace_of(path: Path) -> Path | None:
    """Return the folder whose ``.understudy`` contains a file."""
    return next((parent.parent for parent in path.parents if parent.name == ".understudy"), None)


def _diagnostic(text: str, problem: Diagnostic, encoding: str) -> types.Diagnostic:
    return types.Diagnostic(
        range=_range(text, problem.range, encoding),
        message=problem.message,
        severity=_SEVERITIES[problem.severity],
        source="understudy",
        code=problem.code,
    )


def _range(text: str, span: Range, encoding: str) -> types.Range:
    """Convert a range, which counts UTF-16 code units, to the client's encoding."""
    ends = [documents.offset_of(text, (at.line, at.character), "utf-16") for at in (span.start, span.end)]
    first, last = (types.Position(*documents.position_of(text, offset, encoding)) for offset in ends)
    return types.Range(first, last)
