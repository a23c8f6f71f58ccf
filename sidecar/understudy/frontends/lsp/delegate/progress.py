"""Progress of what runs, in the editor's own way, with its own button to cancel.

A delegation has one token from its first news to its end. A client that cannot show progress gets none, nor one that
refuses a token; one that has subscribed shows events itself.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.faces import words
from understudy.faces.harmless import one_line
from understudy.faces.lsp.client import Client, Refused
from understudy.faces.lsp.saying import say
from understudy.model import events as e
from understudy.model.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.states import State

if TYPE_CHECKING:
    from understudy.faces.lsp.runs import Runs
    from understudy.faces.lsp.server import Server

REPORT_SECONDS = 0.5
"""Between two reports of one delegation, unless its state changes."""
CLOCK_SECONDS = 1.0
"""How often the time that has passed is told anew while nothing else happens."""
_STATES = {
    State.PREPARING: "preparing",
    State.QUEUED: "waiting for a free slot",
    State.RUNNING: "running",
    State.WAITING: "waiting for your answer",
    State.CHECKING: "checking",
}


class Shown:
    """One delegation's progress."""

    def __init__(self, delegation: Delegation, token: str | int, *, given: bool) -> None:
        """Show it under ``token``; ``given``: the client chose it, and need not be asked."""
        self.token = token
        self.given = given
        self.delegation = delegation
        self.began = _began(delegation)
        self.open = False
        self.over = False
        """Nothing is to be shown any more; set before it is open, too."""
        self.told = ""
        self.told_at = 0.0
        self.state = delegation.state
        self.percentage: int | None = None

    def message(self) -> str:
        """Return what goes on, and for how long."""
        delegation = self.delegation
        parts = [_STATES.get(delegation.state, str(delegation.state)), delegation.activity or "", self.elapsed()]
        return one_line(" · ".join(dict.fromkeys(part for part in parts if part)))

    def elapsed(self) -> str:
        """Return the time since the beginning, ``0:07``."""
        minutes, seconds = divmod(max(0, int(time.time() - self.began)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Progress:
    """All that is shown now."""

    def __init__(self, client: Client, runs: Runs) -> None:
        """Listen to ``runs``."""
        self._client = client
        self._runs = runs
        self._shown: dict[str, Shown] = {}
        self._refused: set[str] = set()
        """Delegations that run and for which the client gave no token."""
        self._clock: asyncio.Task[Any] | None = None
        runs.on_update.append(self._update)
        runs.on_gone.append(self._gone)

    def cancel(self, token: str | int) -> None:
        """Cancel the delegation whose progress a person cancelled."""
        for identifier, shown in self._shown.items():
            if shown.token == token and not shown.over:
                self._client.spawn(self._cancel(identifier), f"cancel {identifier}")

    def _update(self, delegation: Delegation, events: list[Any]) -> None:
        shown = self._shown.get(delegation.id)
        if delegation.state is State.FINISHED:
            self._refused.discard(delegation.id)
            self._end(delegation.id, words.verdict(delegation))
        elif shown is not None:
            shown.delegation = delegation
            for event in events:
                if isinstance(event, e.Plan):
                    shown.percentage = _done(event.entries, shown.percentage)
            self._report(shown)
        elif delegation.id not in self._refused:
            self._begin(delegation)

    def _gone(self, identifier: str) -> None:
        self._refused.discard(identifier)
        self._end(identifier, "no longer shown here")

    def _begin(self, delegation: Delegation) -> None:
        given = self._runs.token(delegation.id)
        if given is None and not self._client.can("window.workDoneProgress"):
            return
        token = given if given is not None else f"understudy-{delegation.id}-{uuid.uuid4().hex[:8]}"
        shown = self._shown[delegation.id] = Shown(delegation, token, given=given is not None)
        if shown.given:
            self._open(shown)
        else:
            self._client.spawn(self._create(shown), f"progress {delegation.id}")
        if self._clock is None or self._clock.done():
            self._clock = self._client.spawn(self._tick(), "progress clock")

    async def _create(self, shown: Shown) -> None:
        try:
            await self._client.ask(types.WINDOW_WORK_DONE_PROGRESS_CREATE, {"token": shown.token})
        except (Refused, TimeoutError):
            # The specification forbids to use the token then.
            if not shown.over:
                self._refused.add(shown.delegation.id)
            self._forget(shown)
            return
        if shown.over:
            self._forget(shown)
        else:
            self._open(shown)

    def _open(self, shown: Shown) -> None:
        shown.open = True
        shown.told, shown.told_at = shown.message(), time.monotonic()
        self._send(
            shown,
            types.WorkDoneProgressBegin(
                title=one_line(f"{shown.delegation.delegator}: {shown.delegation.title}"),
                cancellable=True,
                message=shown.told,
            ),
        )

    def _report(self, shown: Shown) -> None:
        """Tell what is new, unless something was told a moment ago: the clock tells it then."""
        now = time.monotonic()
        changed = shown.delegation.state is not shown.state
        if not shown.open or shown.over or (now - shown.told_at < REPORT_SECONDS and not changed):
            return
        message = shown.message()
        if message == shown.told:
            return
        shown.told, shown.told_at, shown.state = message, now, shown.delegation.state
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
        """Drop the token; one that is about to be created is dropped when the client has answered."""
        shown.over = True
        for identifier, one in list(self._shown.items()):
            if one is shown:
                del self._shown[identifier]

    async def _tick(self) -> None:
        """Tell the time; ends with the last progress."""
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


def _began(delegation: Delegation) -> float:
    try:
        return datetime.fromisoformat(delegation.started_at).timestamp()
    except ValueError:
        return time.time()


def _done(entries: list[Any], before: int | None) -> int | None:
    """Return how much of an agent's own plan is done, in per cent: the only measure there is; it never falls."""
    states = [entry.get("status") for entry in entries if isinstance(entry, dict)]
    if not states or any(state is None for state in states):
        return before
    found: int = 100 * sum(state == "completed" for state in states) // len(states)
    return found if before is None else max(found, before)


def register(server: Server, runs: Runs) -> None:
    """Show progress."""
    progress = Progress(server.client, runs)
    server.on_progress_cancel.append(progress.cancel)
