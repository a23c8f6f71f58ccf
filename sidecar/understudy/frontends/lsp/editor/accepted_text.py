"""Report what happens to documents with accepted text, so that hunks which the user reverts are pending again.

Every editor gains from it, also one that shows results itself. The engine decides what was reverted. This is not a
feature: features are loaded in the background, and what happens to a document before that would be missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from understudy.api.accepted_documents import LATER_SECONDS, AcceptedDocuments, reconcile
from understudy.model.errors import UnderstudyError
from understudy.model.text import uris

if TYPE_CHECKING:
    from understudy.api.accepted_documents import Look
    from understudy.frontends.lsp.editor.client import Client

log = logging.getLogger(__name__)

MOST_WAITING = 50
"""How many looks wait for the one that is compared; of more, the oldest are skipped."""

_Occasion = Literal["open", "change", "save", "close", "later"]


class AcceptedText:
    """The documents with accepted text in one editor."""

    def __init__(self, client: Client) -> None:
        """Follow the documents."""
        self._client = client
        self._accepted = AcceptedDocuments()
        self._waiting: deque[Look] = deque(maxlen=MOST_WAITING)
        self._later: dict[Path, asyncio.TimerHandle] = {}
        self._is_running = False
        self._client.on_document.append(self._document)

    def _document(self, what: str, uri: str) -> None:
        path = uris.path_of(uri)
        if path is None or (what != "close" and self._client.documents.out_of_sync(uri)):
            return
        self._look(path, cast("_Occasion", what))

    def _look(self, path: Path, occasion: _Occasion) -> None:
        look = self._accepted.look(path, occasion, self._client.documents.snapshot)
        if look is None:
            return
        if (timer := self._later.pop(path, None)) is not None:
            timer.cancel()
        last = self._waiting[-1] if self._waiting else None
        if last is not None and (last.path, last.occasion) == (path, occasion):
            self._waiting.pop()  # someone types; the newest text is enough
        self._waiting.append(look)
        if not self._is_running:
            self._is_running = True
            self._client.spawn(self._run(), "accepted text of documents")

    async def _run(self) -> None:
        try:
            while self._waiting:
                look = self._waiting.popleft()
                try:
                    again = await asyncio.to_thread(reconcile, look, by="lsp")
                except UnderstudyError as error:
                    log.warning("%s could not be compared with its accepts: %s", look.path, error)
                    continue
                if again and all(other.path != look.path for other in self._waiting):
                    loop = asyncio.get_running_loop()
                    self._later[look.path] = loop.call_later(LATER_SECONDS, self._look, look.path, "later")
        finally:
            self._is_running = False
