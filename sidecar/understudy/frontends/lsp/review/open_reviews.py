"""Keep the results under review in this editor up to date, from events and from changes by other processes.

The summary of every finished delegation with pending hunks is kept. Its hunks are read, which runs git, only if
``review.diff`` or a file that it changes is open, and again only after a change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from understudy.api import result_files
from understudy.frontends.lsp.review import hunk_positions
from understudy.frontends.lsp.review.review_actions import OpenReview
from understudy.frontends.lsp.review.review_document import Found, OriginalReview, ReviewTarget
from understudy.model import events
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

if TYPE_CHECKING:
    from understudy.frontends.lsp.editor.client import Client

log = logging.getLogger(__name__)

PAGE = 200
PAGES = 5
"""How many pages of the list are searched for pending results."""
SETTLE_SECONDS = 0.05
"""Events within this time are handled together."""
SETTLED_SECONDS = 5.0
"""How long ``settled`` waits at most."""
LOOK_SECONDS = 1.0
"""Shortest time between two readings of the list."""
TAIL_EVENTS = 256
"""How many events are read at once when searching a journal backwards for the last accept."""

_TELLING = (events.Finished, events.Decided, events.Applied, events.Undone, events.Amended, events.Discarded)
_TELLING_TOO = (events.Superseded, events.Worktree, events.Confirmed)


class OpenReviews:
    """The results under review. ``changed(ids)`` is called in the loop's thread after some of them changed."""

    def __init__(
        self, client: Client, changed: Callable[[set[str]], None], concerns: Callable[[Delegation], bool]
    ) -> None:
        """Start empty; ``concerns(delegation)`` returns whether a file that a result changes is open in the editor."""
        self.known: dict[str, OpenReview] = {}
        self.generation = 0
        """Grows with every change of ``known``."""
        self._client = client
        self._changed = changed
        self._concerns = concerns
        self._pending: dict[str, Delegation] = {}
        self._open: dict[str, int] = {}
        self._printed: dict[str, tuple[str | None, OriginalReview]] = {}
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
        """Keep a delegation in ``known`` while a document of its review is open in the editor."""
        self._open[delegation] = self._open.get(delegation, 0) + 1
        self.read({delegation})

    def closed(self, delegation: str) -> None:
        """Note that a document of its review was closed."""
        left = self._open.pop(delegation, 1) - 1
        if left > 0:
            self._open[delegation] = left
        else:
            self._printed.pop(delegation, None)
            self.read({delegation})

    def consider(self) -> None:
        """Schedule reading the pending results that change open files and are not in ``known`` yet."""
        self.read({one.id for one in self._pending.values() if one.id not in self.known and self._concerns(one)})

    def read(self, delegations: set[str]) -> None:
        """Schedule reading these delegations again."""
        self._stale |= delegations
        if self._stale and not self._reading:
            self._reading = True
            self._settled.clear()
            self._client.spawn(self._read_all(), "review")

    async def settled(self) -> None:
        """Wait, but not for long, until changes are read, so that a decided hunk is not shown as pending."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_SECONDS):
                await self._settled.wait()

    def look(self) -> None:
        """Schedule reading the list again."""
        self._look_again = True
        if not self._looking and self._client.options.review:
            self._looking = True
            self._client.spawn(self._look(), "reviews")

    async def work(self, delegation: str) -> OpenReview | None:
        """Return a result, reading it if it is not known; None if there is nothing to review."""
        known = self.known.get(delegation)
        return known if known is not None else await self._load(delegation)

    async def printed(self, work: OpenReview) -> OriginalReview:
        """Return its ``review.diff`` as Understudy wrote it, with the positions of its hunks."""
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
        # Once a client has subscribed, the features do not receive events.
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
        self._pending = listed
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
                        # Keep the last known state of this one, and read the others.
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

    async def _load(self, identifier: str) -> OpenReview | None:
        try:
            delegation: Delegation = await self._client.call("delegations/get", {"id": identifier})
            if delegation.state is not State.FINISHED or delegation.head is None:
                return None
            if delegation.review.pending:
                self._pending[identifier] = delegation
            else:
                self._pending.pop(identifier, None)
            if identifier not in self._open and not (delegation.review.pending and self._concerns(delegation)):
                return None
            found = await self._client.call("delegations/diff", {"id": identifier})
            token = await self._token(delegation) if delegation.review.accepted else None
        except UnderstudyError as error:
            if error.kind in {ErrorKind.BASE_UNAVAILABLE, ErrorKind.UNKNOWN_DELEGATION, ErrorKind.FILE_TOO_LARGE}:
                return None  # it was removed, or it has no hunks
            raise
        return OpenReview(delegation, found.files, token)

    async def _token(self, delegation: Delegation) -> str | None:
        """Return the undo token of the last accept that was not undone yet."""
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


def _differs(work: OpenReview, listed: Delegation | None) -> bool:
    return listed is None or work.delegation.last_seq != listed.last_seq


def _print(work: OpenReview) -> OriginalReview:
    text = result_files.original_review(work.delegation.id, work.delegation.head)
    return OriginalReview(
        text,
        [
            Found(ReviewTarget(one.path, one.hunk), one.first, one.last)
            for one in hunk_positions.in_patch(text, work.files)
            if one.hunk is not None
        ],
    )
