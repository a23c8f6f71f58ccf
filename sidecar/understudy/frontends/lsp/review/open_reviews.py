"""Which results are under review in this editor, kept up to date from events and from what other processes do.

Of every finished delegation with undecided hunks the summary is kept. Its hunks are read only when a file that it
changes is open, or its ``review.diff``: that costs a start of git. Nothing is read twice that did not change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from understudy.faces.lsp import hunks, places
from understudy.faces.lsp.review_offers import Work
from understudy.faces.lsp.review_text import Found, Printed, Spot
from understudy.journal import store
from understudy.model import events
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

if TYPE_CHECKING:
    from understudy.faces.lsp.client import Client

log = logging.getLogger(__name__)

PAGE = 200
PAGES = 5
"""How far back undecided results are looked for."""
SETTLE_SECONDS = 0.05
"""Events that come within this time are answered by one reading."""
SETTLED_SECONDS = 5.0
LOOK_SECONDS = 1.0
"""How often the list is read at most when something, somewhere, changed."""
TAIL_EVENTS = 256
"""Read at once, from a journal's end back to the last accept."""

_TELLING = (events.Finished, events.Decided, events.Applied, events.Undone, events.Amended, events.Discarded)
_TELLING_TOO = (events.Superseded, events.Worktree)


class Works:
    """The results under review. ``changed(ids)`` is called in the loop's thread after some were read anew."""

    def __init__(
        self, client: Client, changed: Callable[[set[str]], None], concerns: Callable[[Delegation], bool]
    ) -> None:
        """Know nothing yet; ``concerns(workspace)`` tells whether this editor has to do with a workspace."""
        self.known: dict[str, Work] = {}
        self.generation = 0
        """Grows with every change of ``known``."""
        self._client = client
        self._changed = changed
        self._concerns = concerns
        self._undecided: dict[str, Delegation] = {}
        self._open: dict[str, int] = {}
        self._printed: dict[str, tuple[str | None, Printed]] = {}
        self._stale: set[str] = set()
        self._reading = False
        self._settled = asyncio.Event()
        self._settled.set()
        self._looking = False
        self._look_again = False
        client.on_ready.append(self.look)
        client.on_events.append(self._heard)
        client.on_changed.append(self._something_changed)

    def opened(self, delegation: str) -> None:
        """Know a delegation as long as its review is open in the editor."""
        self._open[delegation] = self._open.get(delegation, 0) + 1
        self.read({delegation})

    def closed(self, delegation: str) -> None:
        """Say that one of its documents is closed."""
        left = self._open.pop(delegation, 1) - 1
        if left > 0:
            self._open[delegation] = left
        else:
            self._printed.pop(delegation, None)
            self.read({delegation})

    def consider(self) -> None:
        """Read what concerns the open files and is not known yet, soon."""
        self.read({one.id for one in self._undecided.values() if one.id not in self.known and self._concerns(one)})

    def read(self, delegations: set[str]) -> None:
        """Read these anew, soon."""
        self._stale |= delegations
        if self._stale and not self._reading:
            self._reading = True
            self._settled.clear()
            self._client.spawn(self._read_all(), "review")

    async def settled(self) -> None:
        """Wait, not for long, until what has changed was read: who just decided on a hunk must not see it undecided."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_SECONDS):
                await self._settled.wait()

    def look(self) -> None:
        """Read the list anew, soon."""
        self._look_again = True
        if not self._looking and self._client.options.review:
            self._looking = True
            self._client.spawn(self._look(), "reviews")

    async def work(self, delegation: str) -> Work | None:
        """Return a result, read now when it is not known; None when there is nothing to review any more."""
        known = self.known.get(delegation)
        return known if known is not None else await self._load(delegation)

    async def printed(self, work: Work) -> Printed:
        """Return its ``review.diff`` as Understudy wrote it, with the places of its hunks."""
        head = work.delegation.head
        known = self._printed.get(work.delegation.id)
        if known is None or known[0] != head:
            known = head, await asyncio.to_thread(_print, work)
            self._printed[work.delegation.id] = known
        return known[1]

    # -- parts -----------------------------------------------------------------------------------------------------

    def _heard(self, delegation: str, found: list[Any]) -> None:
        if self._client.options.review and any(isinstance(event, (*_TELLING, *_TELLING_TOO)) for event in found):
            self.read({delegation})

    def _something_changed(self, collections: frozenset[str]) -> None:
        # A client that subscribed gets the events itself, and nobody tells us.
        if "delegations" in collections and self._client.subscribed:
            self.look()

    async def _look(self) -> None:
        try:
            while self._look_again:
                self._look_again = False
                await self._list()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._looking = False

    async def _list(self) -> None:
        listed: dict[str, Delegation] = {}
        cursor = None
        for _ in range(PAGES):
            wanted = {"states": ["finished"], "limit": PAGE, "cursor": cursor}
            page = await self._client.call("delegations/list", wanted)
            listed |= {one.id: one for one in page.delegations if one.review.pending}
            cursor = page.cursor
            if cursor is None:
                break
        self._undecided = listed
        self.read({one for one, work in self.known.items() if _differs(work, listed.get(one))})
        self.consider()

    async def _read_all(self) -> None:
        try:
            await asyncio.sleep(SETTLE_SECONDS)
            while self._stale:
                wanted, self._stale = self._stale, set()
                changed = set()
                for one in wanted:
                    try:
                        work = await self._load(one)
                    except UnderstudyError as error:
                        # The others are shown; this one stays as it was known.
                        log.warning("the review of %s could not be read: %s", one, error)
                        continue
                    if work != self.known.get(one):
                        changed.add(one)
                        if work is None:
                            self.known.pop(one, None)
                        else:
                            self.known[one] = work
                if changed:
                    self.generation += 1
                    self._changed(changed)
        finally:
            self._reading = False
            self._settled.set()

    async def _load(self, identifier: str) -> Work | None:
        try:
            delegation: Delegation = await self._client.call("delegations/get", {"id": identifier})
            if delegation.state is not State.FINISHED or delegation.head is None:
                return None
            if delegation.review.pending:
                self._undecided[identifier] = delegation
            else:
                self._undecided.pop(identifier, None)
            if identifier not in self._open and not (delegation.review.pending and self._concerns(delegation)):
                return None
            found = await self._client.call("delegations/diff", {"id": identifier})
            token = await self._token(delegation) if delegation.review.accepted else None
        except UnderstudyError as error:
            if error.kind in {ErrorKind.BASE_UNAVAILABLE, ErrorKind.UNKNOWN_DELEGATION, ErrorKind.FILE_TOO_LARGE}:
                return None  # taken away, or nothing that hunks can be made of
            raise
        return Work(delegation, found.files, token)

    async def _token(self, delegation: Delegation) -> str | None:
        """Return the undo token of the last accept that was not taken back."""
        undone: set[str] = set()
        until = delegation.last_seq
        while until > 0:
            after = max(0, until - TAIL_EVENTS)
            page = {"id": delegation.id, "after": after, "limit": TAIL_EVENTS}
            for event in reversed((await self._client.call("delegations/events", page)).events):
                if isinstance(event, events.Undone):
                    undone.add(event.undo_token)
                elif isinstance(event, events.Applied) and event.undo_token not in undone:
                    return event.undo_token
            until = after
        return None


def _differs(work: Work, listed: Delegation | None) -> bool:
    return listed is None or work.delegation.last_seq != listed.last_seq


def delegation_of(uri: str) -> str | None:
    """Return the delegation whose ``review.diff`` a document is; None for any other document."""
    path = places.path_of(uri)
    if path is None or path.name != "review.diff" or not store.is_id(path.parent.name):
        return None
    try:
        root = store.delegations_root()
    except UnderstudyError:
        return None
    if path.parent.parent == root or os.path.realpath(path.parent.parent) == os.path.realpath(root):
        return path.parent.name
    return None


def _print(work: Work) -> Printed:
    from understudy.engine import ground  # noqa: PLC0415 - only where a review is open

    folder = store.open_folder(work.delegation.id)
    record, objects = ground.load(folder)
    head = work.delegation.head or record.base_commit
    text = ground.review_text(folder, objects, record.base_commit, head).decode("utf-8", "replace")
    return Printed(
        text,
        [
            Found(Spot(one.path, one.hunk), one.first, one.last)
            for one in hunks.in_patch(text, work.files)
            if one.hunk is not None
        ],
    )
