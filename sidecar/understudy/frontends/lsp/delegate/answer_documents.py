"""Run text recipes for editors without a page of their own: progress with a button to cancel, then a document.

A client that subscribes to events, or names a stream for the pieces of the answer, shows everything itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.api import result_files
from understudy.frontends.lsp.delegate.result_messages import ANSWER_CHARACTERS, PERSON_SECONDS, SHOW, stops_typing
from understudy.frontends.lsp.editor.client import Client, EditorRefused
from understudy.frontends.lsp.editor.user_messages import can_ask, choose, say
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import uris
from understudy.model.text.sanitize import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.api.messages import TextResult
    from understudy.frontends.lsp.editor.feature_host import FeatureHost

RUN = "text/run"


class AnswerDocuments:
    """The text requests of one editor."""

    def __init__(self, client: Client) -> None:
        """Start without requests."""
        self._client = client
        self._running: dict[str | int, asyncio.Task[Any]] = {}
        """Progress token → the request."""

    async def run(self, params: Any) -> Any:
        """Answer the command; errors are those of the request."""
        client = self._client
        if client.subscribed or (isinstance(params, dict) and params.get("stream") is not None):
            return await client.call(RUN, params)
        request = asyncio.ensure_future(client.call(RUN, params))
        token = f"understudy-text-{uuid.uuid4().hex[:12]}"
        self._running[token] = request
        title = one_line(str(params.get("recipe", ""))) if isinstance(params, dict) else ""
        client.spawn(self._show_progress(token, request, f"Understudy: {title}"), "text request")
        try:
            result: TextResult = await asyncio.shield(request)
        except asyncio.CancelledError:
            if not request.cancelled():  # the command was cancelled, and not its progress
                request.cancel()
                raise
            raise UnderstudyError(
                ErrorKind.CANCELLED, "The request was cancelled.", hint="Run it again if you still need the answer."
            ) from None
        finally:
            del self._running[token]
        client.spawn(self._tell(title, result), f"answer {result.id}")
        return result

    def cancel(self, token: str | int) -> None:
        """Cancel the request whose progress the user cancelled."""
        if token in self._running:
            self._running[token].cancel()

    async def _show_progress(self, token: str, request: asyncio.Task[Any], title: str) -> None:
        """Show that the request runs, until it ends."""
        if not self._client.can("window.workDoneProgress"):
            return
        try:
            await self._client.ask(types.WINDOW_WORK_DONE_PROGRESS_CREATE, {"token": token})
        except (EditorRefused, TimeoutError):
            return
        self._client.notify(
            types.PROGRESS, {"token": token, "value": types.WorkDoneProgressBegin(title=title, cancellable=True)}
        )
        await asyncio.wait({request})
        self._client.notify(types.PROGRESS, {"token": token, "value": types.WorkDoneProgressEnd()})

    async def _tell(self, title: str, result: TextResult) -> None:
        """Offer the answer as a document; where that would interrupt typing, show it without asking."""
        client, text = self._client, message(title, result)
        try:
            path = await asyncio.to_thread(result_files.write_text_answer, result.id, result.text)
        except UnderstudyError as error:
            say(client, types.MessageType.Warning, f"{text}\n\n{_start_of(result.text)}\n\n{error.message}")
            return
        if can_ask(client) and not stops_typing(client):
            with contextlib.suppress(EditorRefused, TimeoutError):
                chosen = await choose(client, types.MessageType.Info, text, [SHOW], PERSON_SECONDS)
                if chosen is None or await self._open(path, take_focus=True):
                    return
        elif not stops_typing(client) and await self._open(path, take_focus=False):
            say(client, types.MessageType.Info, text)
            return
        say(client, types.MessageType.Info, f"{text} The answer is in {path}.\n\n{_start_of(result.text)}")

    async def _open(self, path: Path, *, take_focus: bool) -> bool:
        if not self._client.can("window.showDocument.support"):
            return False
        params = types.ShowDocumentParams(uri=uris.uri_of(path), take_focus=take_focus)
        try:
            answer = await self._client.ask(types.WINDOW_SHOW_DOCUMENT, params)
        except (EditorRefused, TimeoutError):
            return False
        return isinstance(answer, dict) and answer.get("success") is True


def message(title: str, result: TextResult) -> str:
    """Return the text of the message: who answered, with tokens and cost, and the warnings."""
    tokens = result.usage.input_tokens + result.usage.output_tokens
    cost = f"${result.cost_usd}" if result.cost_usd is not None else "unknown cost"
    text = f"“{title}”: {result.delegator} answered in {result.seconds:.1f} s ({tokens} tokens, {cost})."
    return " ".join([text, *result.notes])


def _start_of(text: str) -> str:
    shown = text.strip()
    return shown if len(shown) <= ANSWER_CHARACTERS else f"{shown[:ANSWER_CHARACTERS]}…"


def register(host: FeatureHost) -> None:
    """Register the command."""
    answers = AnswerDocuments(host.client)
    host.instead[RUN] = answers.run
    host.on_progress_cancel.append(answers.cancel)
