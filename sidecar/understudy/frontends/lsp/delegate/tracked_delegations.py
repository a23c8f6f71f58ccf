"""Track the delegations in the folders of this editor and those that it started.

Each is read once and then updated from its events. A client that has subscribed receives the events itself, so nothing
is reported to the features then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api.serving import subscriptions
from understudy.model.delegation import events as event_types
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.states import State

if TYPE_CHECKING:
    from understudy.frontends.lsp.editor.client import Client

REMEMBERED = 1000
"""How many delegations are remembered as started by this editor."""
MOST_READS = 20
"""Limit of attempts to read a delegation; another one is needed only if events arrive during the previous one."""
LOOK_SECONDS = 1.0
"""How often to check whether the client has subscribed."""


class TrackedDelegations:
    """The delegations that this editor follows."""

    def __init__(self, client: Client) -> None:
        """Follow the events of ``client``."""
        self._client = client
        self.on_update: list[Callable[[Delegation, list[Any]], None]] = []
        """``(delegation, events)``: the current delegation and the events since the last call; the first call has no
        events, except the end of a delegation that has finished."""
        self.on_gone: list[Callable[[str], None]] = []
        """Called with a delegation that is no longer tracked: the editor closed its folder, or subscribed."""
        self._shown: dict[str, Delegation] = {}
        self._others: set[str] = set()
        """Live delegations in other folders."""
        self._read: dict[str, list[Any]] = {}
        """Delegations that are being read → the events that arrived meanwhile and are still needed."""
        self._here: dict[str, str | int | None] = {}
        """Delegations that this editor started → the progress token that it chose."""
        self._looking: asyncio.Task[Any] | None = None
        client.on_events.append(self._heard)
        client.on_started.append(self._started)
        client.on_folders.append(self._folders)

    def is_ours(self, identifier: str) -> bool:
        """Return whether this editor started a delegation."""
        return identifier in self._here

    def token(self, identifier: str) -> str | int | None:
        """Return the progress token that the client chose (``workDoneToken``), only once; None if it chose none."""
        token = self._here.get(identifier)
        if token is not None:
            self._here[identifier] = None
        return token

    # -- hooks of the client ---------------------------------------------------------------------------------------

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
        ended = any(isinstance(event, event_types.Finished) for event in events)
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
        """Track the delegations of folders that were opened, and no longer those of folders that were closed."""
        for identifier, delegation in list(self._shown.items()):
            if not self._cares(delegation):
                del self._shown[identifier]
                self._others.add(identifier)
                self._gone(identifier)
        if not self._client.subscribed:
            for identifier in list(self._others):
                self._others.discard(identifier)
                self._begin(identifier, [])

    # -- reports to the features -----------------------------------------------------------------------------------

    def _begin(self, identifier: str, events: list[Any]) -> None:
        if identifier in self._read:
            self._read[identifier] += events
            return
        self._read[identifier] = events
        self._client.spawn(self._read_and_track(identifier), f"reading {identifier}")

    async def _read_and_track(self, identifier: str) -> None:
        """Read a delegation until the result includes all events that arrived meanwhile, then track it."""
        try:
            for _ in range(MOST_READS):
                delegation: Delegation = await self._client.call("delegations/get", {"id": identifier})
                if all(event.seq <= delegation.last_seq for event in self._read[identifier]):
                    break
        except UnderstudyError:
            return
        finally:
            events = self._read.pop(identifier)
        ended = [event for event in events if isinstance(event, event_types.Finished)]
        if self._client.subscribed or (delegation.state is State.FINISHED and not ended):
            return
        if not self._cares(delegation):
            if delegation.state is not State.FINISHED:
                self._others.add(identifier)
            return
        self._shown[identifier] = delegation
        self._tell(delegation, ended if delegation.state is State.FINISHED else [])
        self._look()

    def _update(self, identifier: str, events: list[Any]) -> None:
        before = self._shown[identifier]
        new = [event for event in events if event.seq > before.last_seq]
        for event in new:
            before = subscriptions.updated(before, event)
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
        """Stop tracking everything when the client subscribes; ends with the last tracked delegation."""
        while self._shown:
            if self._client.subscribed:
                for identifier in list(self._shown):
                    del self._shown[identifier]
                    self._gone(identifier)
                return
            await asyncio.sleep(LOOK_SECONDS)


def _kept(events: list[Any]) -> list[Any]:
    """Return the events that are needed while their delegation is read: ends, and the last one for its ``seq``."""
    return [event for event in events[:-1] if isinstance(event, event_types.Finished)] + events[-1:]


def _is_review(events: list[Any]) -> bool:
    """Return whether all events are decisions or cleanup after the end of the delegation."""
    after = (
        event_types.Confirmed
        | event_types.Decided
        | event_types.Applied
        | event_types.Undone
        | event_types.Amended
        | event_types.Discarded
        | event_types.Dismissed
        | event_types.Superseded
    )
    return all(isinstance(event, after) for event in events)
