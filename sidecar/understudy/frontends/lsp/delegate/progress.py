"""Report the progress of delegations with LSP's work done progress, which has a button to cancel.

A delegation has one token, from its first event to its end. No progress is sent to a client that does not support it,
that refuses the token, or that has subscribed and so shows events itself.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.frontends.lsp.editor.client import Client, EditorRefused
from understudy.frontends.lsp.editor.user_messages import say
from understudy.model.delegation import events as event_types
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.states import State
from understudy.model.text import delegation_text
from understudy.model.text.sanitize import one_line

if TYPE_CHECKING:
    from understudy.frontends.lsp.delegate.tracked_delegations import TrackedDelegations

REPORT_SECONDS = 0.5
"""Shortest time between two reports of one delegation, unless its state changes."""
CLOCK_SECONDS = 1.0
"""How often the elapsed time is reported while nothing else happens."""
CREATE_SECONDS = (2.0, 4.0, 8.0, 16.0)
"""How long to wait for the client to accept a token, attempt by attempt.

An editor may lose the request: lsp-mode drops messages that it reads together with the response it waits for.
"""
_STATES = {
    State.PREPARING: "preparing",
    State.QUEUED: "waiting",
    State.RUNNING: "running",
    State.WAITING: "waiting for your answer",
    State.CHECKING: "checking",
}


class Shown:
    """One delegation's progress."""

    def __init__(self, delegation: Delegation, token: str | int, *, chosen_by_client: bool) -> None:
        """Use ``token``; ``chosen_by_client``: the client chose it, so it need not be created."""
        self.token = token
        self.given = chosen_by_client
        self.delegation = delegation
        self.began = datetime.fromisoformat(delegation.rechecked_at or delegation.started_at).timestamp()
        self.open = False
        self.over = False
        """The progress has ended; may be set before it is open."""
        self.sent = ""
        self.sent_at = 0.0
        self.state = delegation.state
        self.percentage: int | None = None

    def message(self) -> str:
        """Return the current activity and the elapsed time."""
        delegation = self.delegation
        elapsed = delegation_text.duration(time.time() - self.began)
        parts = [_STATES.get(delegation.state, str(delegation.state)), delegation.activity or "", elapsed]
        return one_line(" · ".join(dict.fromkeys(part for part in parts if part)))


class Progress:
    """All progress that the editor shows."""

    def __init__(self, client: Client, runs: TrackedDelegations) -> None:
        """Follow the delegations in ``runs``."""
        self._client = client
        self._runs = runs
        self._shown: dict[str, Shown] = {}
        self._refused: set[str] = set()
        """Live delegations for which the client refused a token."""
        self._clock: asyncio.Task[Any] | None = None
        runs.on_update.append(self._update)
        runs.on_gone.append(self._gone)
        client.on_progress_cancel.append(self._cancelled)

    def _cancelled(self, token: str | int) -> None:
        """Cancel the delegation whose progress the user cancelled."""
        for identifier, shown in self._shown.items():
            if shown.token == token and not shown.over:
                self._client.spawn(self._cancel(identifier), f"cancel {identifier}")

    def _update(self, delegation: Delegation, events: list[Any]) -> None:
        shown = self._shown.get(delegation.id)
        if delegation.state is State.FINISHED:
            self._refused.discard(delegation.id)
            sentence = delegation_text.verdict_sentence(delegation)
            self._end(delegation.id, sentence)
        elif shown is not None:
            shown.delegation = delegation
            for event in events:
                if isinstance(event, event_types.Plan):
                    shown.percentage = _done(event.entries, shown.percentage)
            self._report(shown)
        elif delegation.id not in self._refused:
            self._begin(delegation)

    def _gone(self, identifier: str) -> None:
        self._refused.discard(identifier)
        self._end(identifier, "no longer shown here")

    def _begin(self, delegation: Delegation) -> None:
        client_token = self._runs.token(delegation.id)
        if client_token is None and not self._client.can("window.workDoneProgress"):
            return
        token = client_token if client_token is not None else _new_token(delegation)
        shown = self._shown[delegation.id] = Shown(delegation, token, chosen_by_client=client_token is not None)
        if shown.given:
            self._open(shown)
        else:
            self._client.spawn(self._create(shown), f"progress {delegation.id}")
        if self._clock is None or self._clock.done():
            self._clock = self._client.spawn(self._tick(), "progress clock")

    async def _create(self, shown: Shown) -> None:
        """Have the client accept a token, a new one for each attempt, and begin."""
        for seconds in CREATE_SECONDS:
            try:
                await self._client.ask(types.WINDOW_WORK_DONE_PROGRESS_CREATE, {"token": shown.token}, seconds)
            except TimeoutError:
                if shown.over:
                    break
                shown.token = _new_token(shown.delegation)
            except EditorRefused:
                # LSP 3.17 forbids using a token that the client refused.
                break
            else:
                if not shown.over:
                    self._open(shown)
                    return
                break
        if not shown.over:
            self._refused.add(shown.delegation.id)
        self._forget(shown)

    def _open(self, shown: Shown) -> None:
        shown.open = True
        shown.sent, shown.sent_at = shown.message(), time.monotonic()
        self._send(
            shown,
            types.WorkDoneProgressBegin(
                title=one_line(f"{shown.delegation.delegator}: {shown.delegation.title}"),
                cancellable=True,
                message=shown.sent,
            ),
        )

    def _report(self, shown: Shown) -> None:
        """Report a change, or leave it to the clock if the last report is too recent."""
        now = time.monotonic()
        changed = shown.delegation.state is not shown.state
        if not shown.open or shown.over or (now - shown.sent_at < REPORT_SECONDS and not changed):
            return
        message = shown.message()
        if message == shown.sent:
            return
        shown.sent, shown.sent_at, shown.state = message, now, shown.delegation.state
        self._send(shown, types.WorkDoneProgressReport(cancellable=True, message=message, percentage=shown.percentage))

    def _end(self, identifier: str, message: str) -> None:
        shown = self._shown.get(identifier)
        if shown is None or shown.over:
            return
        shown.over = True
        if shown.open:
            self._send(shown, types.WorkDoneProgressEnd(message=message))
            self._forget(shown)

    def _forget(self, shown: Shown) -> None:
        """Drop the progress, and its token if the client is still creating it."""
        shown.over = True
        for identifier, other in list(self._shown.items()):
            if other is shown:
                del self._shown[identifier]

    async def _tick(self) -> None:
        """Report the elapsed time; ends with the last progress."""
        while self._shown:
            for shown in self._shown.values():
                self._report(shown)
            await asyncio.sleep(CLOCK_SECONDS)

    async def _cancel(self, identifier: str) -> None:
        try:
            await self._client.call("delegations/cancel", {"id": identifier})
        except UnderstudyError as error:
            say(self._client, types.MessageType.Warning, f"{error.message} {error.hint or ''}".strip())

    def _send(self, shown: Shown, value: Any) -> None:
        self._client.notify(types.PROGRESS, {"token": shown.token, "value": value})


def _new_token(delegation: Delegation) -> str:
    return f"understudy-{delegation.id}-{uuid.uuid4().hex[:8]}"


def _done(entries: list[Any], before: int | None) -> int | None:
    """Return the completed share of the agent's plan, in per cent, but never less than ``before``."""
    states = [entry.get("status") for entry in entries if isinstance(entry, dict)]
    if not states or any(state is None for state in states):
        return before
    share: int = 100 * sum(state == "completed" for state in states) // len(states)
    return share if before is None else max(share, before)
