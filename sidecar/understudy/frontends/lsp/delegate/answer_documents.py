"""Run text recipes for editors without a page of their own: progress with a button to cancel, then a document.

A client that subscribes to events, or names a stream for the pieces of the answer, shows everything itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING

from lsprotocol import types

from understudy.api import method_table, result_files
from understudy.frontends.lsp.delegate.result_messages import ANSWER_CHARACTERS, SHOW, stops_typing
from understudy.frontends.lsp.editor.client import Client, EditorRefused
from understudy.frontends.lsp.editor.user_messages import PERSON_SECONDS, can_ask, choose, say, show_document
from understudy.model.errors import UnderstudyError
from understudy.model.text.sanitize import one_line

if TYPE_CHECKING:
    from understudy.api.messages import TextResult
    from understudy.api.serving.request import InFlightRequest

RUN = method_table.PREFIX + "text/run"


class AnswerDocuments:
    """The text requests of one editor."""

    def __init__(self, client: Client) -> None:
        """Start without requests."""
        self._client = client
        self._running: dict[InFlightRequest, tuple[str, asyncio.Event]] = {}
        """Request → the token of its progress, and its end."""
        client.on_command_begun.append(self._begun)
        client.on_command.append(self._done)
        client.on_progress_cancel.append(self._cancelled)

    def _begun(self, request: InFlightRequest) -> None:
        """Show the progress of a text recipe."""
        params, client = request.params, self._client
        is_shown = client.subscribed or (isinstance(params, dict) and params.get("stream") is not None)
        if request.method == RUN and not is_shown:
            token, ended = f"understudy-text-{uuid.uuid4().hex[:12]}", asyncio.Event()
            self._running[request] = token, ended
            client.spawn(self._show_progress(token, ended, f"Understudy: {_title(request)}"), "text request")

    def _done(self, request: InFlightRequest, result: TextResult, error: UnderstudyError | None) -> None:
        """Show the answer."""
        if request in self._running:
            self._running.pop(request)[1].set()
            if error is None:
                self._client.spawn(self._tell(_title(request), result), f"answer {result.id}")

    def _cancelled(self, token: str | int) -> None:
        """Cancel the request whose progress the user cancelled."""
        for request, (shown, _) in self._running.items():
            if shown == token:
                request.cancel()

    async def _show_progress(self, token: str, ended: asyncio.Event, title: str) -> None:
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
        await ended.wait()
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
                if chosen is None or await show_document(client, path):
                    return
        elif not stops_typing(client) and await show_document(client, path, take_focus=False):
            say(client, types.MessageType.Info, text)
            return
        say(client, types.MessageType.Info, f"{text} The answer is in {path}.\n\n{_start_of(result.text)}")


def message(title: str, result: TextResult) -> str:
    """Return the text of the message: who answered, with tokens and cost, and the warnings."""
    tokens = result.usage.input_tokens + result.usage.output_tokens
    cost = f"${result.cost_usd}" if result.cost_usd is not None else "unknown cost"
    text = f"“{title}”: {result.delegator} answered in {result.seconds:.1f} s ({tokens} tokens, {cost})."
    return " ".join([text, *result.notes])


def _start_of(text: str) -> str:
    shown = text.strip()
    return shown if len(shown) <= ANSWER_CHARACTERS else f"{shown[:ANSWER_CHARACTERS]}…"


def _title(request: InFlightRequest) -> str:
    return one_line(str(request.params.get("recipe", ""))) if isinstance(request.params, dict) else ""
