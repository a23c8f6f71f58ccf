"""Review in every editor: a result is a file, ``review.diff``, and what editors know to do with a file.

Nothing opens by itself: a person who types must not find the cursor elsewhere. ``open`` is for whoever was just told
that they want it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from lsprotocol import types

from understudy.faces.lsp import places
from understudy.faces.lsp.client import Refused
from understudy.journal import store

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.faces.lsp.server import Server

log = logging.getLogger(__name__)


class Surface:
    """The review surface of one editor."""

    def __init__(self, server: Server) -> None:
        """Show nothing yet."""
        self.client = server.client
        self.gathered = server.gathered

    async def open(self, delegation: str, line: int = 0) -> None:
        """Show the review of a delegation in the editor, the cursor at a line (from zero); else say where it lies.

        Raises ``unknown_delegation``.
        """
        path = await asyncio.to_thread(_review_of, delegation)
        if path is None:
            self._say(types.MessageType.Info, f"{delegation} changed nothing, so there is nothing to review.")
        elif not await self._shown(path, line):
            self._say(types.MessageType.Info, f"The review is in {path}. Open that file in your editor.")

    async def _shown(self, path: Path, line: int) -> bool:
        if not self.client.can("window.showDocument.support"):
            return False
        at = types.Position(line, 0)
        wanted = types.ShowDocumentParams(places.uri_of(path), take_focus=True, selection=types.Range(at, at))
        try:
            answer = await self.client.ask(types.WINDOW_SHOW_DOCUMENT, wanted)
        except (Refused, TimeoutError) as error:
            log.warning("%s could not be shown: %s", path, error)
            return False
        return isinstance(answer, dict) and answer.get("success") is True

    def _say(self, severity: types.MessageType, text: str) -> None:
        self.client.notify(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(severity, text))


def register(server: Server) -> None:
    """Make the surface, as ``server.review``."""
    server.review = Surface(server)


def _review_of(delegation: str) -> Path | None:
    path = store.open_folder(delegation).review
    return path if path.exists() and path.stat().st_size else None
