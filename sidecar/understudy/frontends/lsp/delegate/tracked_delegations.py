"""The delegations that this editor's person cares about: those of its folders, and those that it started itself.

Each is read once and then kept up to date from its events. While a client has subscribed, it hears everything itself,
and nothing is told here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.journal import summary
from understudy.model import events as e
from understudy.model.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.states import State

if TYPE_CHECKING:
    from understudy.faces.lsp.client import Client

REMEMBERED = 1000
"""Delegations started here that are remembered as such."""
MOST_READS = 20
"""Reading again is needed when events come faster than a delegation is read, which does not happen twice in a row."""
LOOK_SECONDS = 1.0
"""How soon it is noticed that the client has subscribed."""


class Runs:
    """What runs for this editor."""

    def __init__(self, client: Client) -> None:
        """Listen to ``client``."""
        self._client = client
        self.on_update: list[Callable[[Delegation, list[Any]], None]] = []
        """``(delegation, events)``: the delegation as it is now, and what happened since the last time (nothing the
        first time, but for an end)."""
        self.on_gone: list[Callable[[str], None]] = []
        """The editor does not show this delegation any more: it closed the folder, or subscribed."""
        self._shown: dict[str, Delegation] = {}
        self._others: set[str] = set()
        """Delegations of other folders that run."""
        self._read: dict[str, list[Any]] = {}
        """Delegations that are being read, with the events that must not be lost."""
        self._here: dict[str, str | int | None] = {}
        """Delegations that this editor started, with the token it wants their progress under."""
        self._looking: asyncio.Task[Any] | None = None
        client.on_events.append(self._heard)
        client.on_started.append(self._started)
        client.on_folders.append(self._folders)

    def is_ours(self, identifier: str) -> bool:
        """Tell whether this editor started it."""
        return identifier in self._here

    def token(self, identifier: str) -> str | int | None:
        """Return the client's own token for its progress, once: where ``workDoneToken`` named one."""
        token = self._here.get(identifier)
        if token is not None:
            self._here[identifier] = None
        return token

    # -- what is heard ---------------------------------------------------------------------------------------------

    def _started(self, identifier: str, params: Any) -> None:
        if len(self._here) >= REMEMBERED:
            del self._here[next(iter(self._here))]
        token = params.get("workDoneToken") if isinstance(params, dict) else getattr(params, "work_done_token", None)
        self._here[identifier] = token if isinstance(token, str | int) and not isinstance(token, bool) else None
        self._others.discard(identifier)
        if not self._client.subscribed and identifier not in self._shown:
            self._begin(identifier, [])

    def _heard(self, identifier: str, events: list[Any]) -> None:
        if self._client.subscribed:
            return
        ended = any(isinstance(event, e.Finished) for event in events)
        if identifier in self._shown:
            self._update(identifier, events)
        elif identifier in self._others:
            if ended:
                self._others.discard(identifier)
        elif identifier in self._read:
            self._read[identifier] += _kept(events)
        elif events and not _is_review(events):
            self._begin(identifier, _kept(events))

    def _folders(self) -> None:
        """Show what belongs to a folder that was opened, and no more what belongs to one that was closed."""
        for identifier, delegation in list(self._shown.items()):
            if not self._cares(delegation):
                del self._shown[identifier]
                self._others.add(identifier)
                self._gone(identifier)
        if not self._client.subscribed:
            for identifier in list(self._others):
                self._others.discard(identifier)
                self._begin(identifier, [])

    # -- what is told ----------------------------------------------------------------------------------------------

    def _begin(self, identifier: str, events: list[Any]) -> None:
        if identifier in self._read:
            self._read[identifier] += events
            return
        self._read[identifier] = events
        self._client.spawn(self._meet(identifier), f"meeting {identifier}")

    async def _meet(self, identifier: str) -> None:
        """Read a delegation; events that came meanwhile and are newer than what was read follow."""
        try:
            for _ in range(MOST_READS):
                found: Delegation = await self._client.call("delegations/get", {"id": identifier})
                if all(event.seq <= found.last_seq for event in self._read[identifier]):
                    break
        except UnderstudyError:
            return
        finally:
            events = self._read.pop(identifier)
        ended = [event for event in events if isinstance(event, e.Finished)]
        if self._client.subscribed or (found.state is State.FINISHED and not ended):
            return
        if not self._cares(found):
            if found.state is not State.FINISHED:
                self._others.add(identifier)
            return
        self._shown[identifier] = found
        self._tell(found, ended if found.state is State.FINISHED else [])
        self._look()

    def _update(self, identifier: str, events: list[Any]) -> None:
        before = self._shown[identifier]
        new = [event for event in events if event.seq > before.last_seq]
        for event in new:
            before = summary.fold(before, event)
        self._shown[identifier] = before
        if new:
            self._tell(before, new)

    def _tell(self, delegation: Delegation, events: list[Any]) -> None:
        self._client.run_hooks(self.on_update, delegation, events)
        if delegation.state is State.FINISHED:
            self._shown.pop(delegation.id, None)

    def _gone(self, identifier: str) -> None:
        self._client.run_hooks(self.on_gone, identifier)

    def _cares(self, delegation: Delegation) -> bool:
        return self.is_ours(delegation.id) or self._client.has(Path(delegation.workspace))

    def _look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = self._client.spawn(self._until_subscribed(), "runs")

    async def _until_subscribed(self) -> None:
        """Take everything back when the client subscribes; ends with the last run."""
        while self._shown:
            if self._client.subscribed:
                for identifier in list(self._shown):
                    del self._shown[identifier]
                    self._gone(identifier)
                return
            await asyncio.sleep(LOOK_SECONDS)


def _kept(events: list[Any]) -> list[Any]:
    """Return what must be known of events that come while their delegation is read: ends, and how far they go."""
    return [event for event in events[:-1] if isinstance(event, e.Finished)] + events[-1:]


def _is_review(events: list[Any]) -> bool:
    """Tell whether all of this happened after the end."""
    after = e.Decided | e.Applied | e.Undone | e.Amended | e.Discarded | e.Superseded
    return all(isinstance(event, after) for event in events)
