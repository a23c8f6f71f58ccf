"""Report what happens to documents with accepted text, so that hunks which the user reverts are pending again.

Every editor gains from it, also one that shows results itself. The engine decides what was reverted. This is not a
feature: features are loaded in the background, and what happens to a document before that would be missed.
An editor that ends without closing its documents says nothing, so the server compares them with the disk at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from understudy.api.editor_files.accepted_documents import LATER_SECONDS, AcceptedDocuments, begin, end, reconcile
from understudy.model.errors import UnderstudyError
from understudy.model.text import path_quoting

if TYPE_CHECKING:
    from understudy.api.editor_files.accepted_documents import DocumentState
    from understudy.frontends.lsp.editor.client import Client

log = logging.getLogger(__name__)

MOST_WAITING = 50
"""How many states of documents wait for the one that is compared; of more, the oldest are skipped."""
END_SECONDS = 4.0
"""How long the end of a session may wait for the comparisons; the next reader compares what is left."""

_Event = Literal["open", "change", "save", "close", "later"]


class AcceptedText:
    """The documents with accepted text in one editor."""

    def __init__(self, client: Client) -> None:
        """Follow the documents."""
        self._client = client
        self._accepted = AcceptedDocuments()
        self._waiting: deque[DocumentState] = deque(maxlen=MOST_WAITING)
        self._later: dict[Path, asyncio.TimerHandle] = {}
        self._comparing: asyncio.Task[None] | None = None
        self._client.on_document.append(self._document)
        self._client.on_ready.append(self._begin)

    async def end(self) -> None:
        """Compare what waits, then the documents with the files on disk: the editor does not show them any longer.

        Call this after the client is closed: a request in flight may hold the lock of a delegation until then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                if self._comparing is not None:
                    await asyncio.wait([self._comparing])
                await asyncio.to_thread(end, by="lsp")

    def _begin(self) -> None:
        self._client.spawn(asyncio.to_thread(begin, by="lsp"), "accepted text of editors that ended")

    def _document(self, event: str, uri: str) -> None:
        path = path_quoting.path_of(uri)
        if path is None or (event != "close" and self._client.documents.out_of_sync(uri)):
            return
        self._happened(path, cast("_Event", event))

    def _happened(self, path: Path, event: _Event) -> None:
        state = self._accepted.state_after(path, event, self._client.documents.snapshot)
        if state is None:
            return
        if (timer := self._later.pop(path, None)) is not None:
            timer.cancel()
        last = self._waiting[-1] if self._waiting else None
        if last is not None and (last.path, last.event) == (path, event):
            self._waiting.pop()  # someone types; the newest text is enough
        self._waiting.append(state)
        if self._comparing is None:
            self._comparing = asyncio.get_running_loop().create_task(self._compare())
            self._client.spawn(self._until_compared(self._comparing), "accepted text of documents")

    async def _until_compared(self, comparing: asyncio.Task[None]) -> None:
        """Report the errors of a comparison, which goes on when the client cancels its tasks."""
        await asyncio.shield(comparing)

    async def _compare(self) -> None:
        try:
            while self._waiting:
                state = self._waiting.popleft()
                try:
                    again = await asyncio.to_thread(reconcile, state, by="lsp")
                except UnderstudyError as error:
                    log.warning("%s could not be compared with its accepts: %s", state.path, error)
                    continue
                if again and all(other.path != state.path for other in self._waiting):
                    loop = asyncio.get_running_loop()
                    self._later[state.path] = loop.call_later(LATER_SECONDS, self._happened, state.path, "later")
        finally:
            self._comparing = None
