"""Keep the results under review in this editor up to date, from events and from changes by other processes.

The summary of every finished delegation with pending hunks is kept. Its hunks are read, which runs git, only if
``review.diff`` or a file that it changes is open, and again only after a change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from understudy.api import result_files
from understudy.frontends.lsp.review import hunk_positions, survivor_hints
from understudy.frontends.lsp.review.review_actions import OpenReview
from understudy.frontends.lsp.review.review_document import OriginalReview
from understudy.frontends.lsp.review.survivor_hints import PathIndex
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation
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

_TELLING = (events.Finished, events.Decided, events.Applied, events.Undone, events.Amended, events.Discarded)
_TELLING_TOO = (events.Superseded, events.Worktree, events.Confirmed)


class OpenReviews:
    """The results under review.

    ``changed(ids, paths)`` is called in the loop's thread after some of them changed; ``paths`` are the absolute paths
    of the files that these results change, or changed before.
    """

    def __init__(
        self, client: Client, changed: Callable[[set[str], set[str]], None], is_open: Callable[[str], bool]
    ) -> None:
        """Start empty; ``is_open(path)`` returns whether a file is open in the editor."""
        self.known: dict[str, OpenReview] = {}
        self.generation = 0
        """Grows with every change of ``known``."""
        self._client = client
        self._changed = changed
        self._is_open = is_open
        self._pending = PathIndex()
        """Delegation with pending hunks → the files that its result changes."""
        self._shown = PathIndex()
        """The same for ``known``."""
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

    def at(self, paths: Iterable[str]) -> list[OpenReview]:
        """Return the known results that change one of these files."""
        return [self.known[path] for path in self._shown.at(paths)]

    def consider(self, paths: Iterable[str]) -> None:
        """Schedule reading the pending results that change one of these files and are not in ``known`` yet."""
        self.read({identifier for identifier in self._pending.at(paths) if identifier not in self.known})

    def read(self, delegations: set[str]) -> None:
        """Schedule reading these delegations again."""
        self._stale |= delegations
        if self._stale and not self._reading:
            self._reading = True
            self._settled.clear()
            self._client.spawn(self._read_all(), "review")

    async def settled(self) -> None:
        """Wait, but not for long, until changes are read, so that a decided hunk is not shown as pending."""
        if self._settled.is_set():
            return
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
        review = self.known.get(delegation)
        return review if review is not None else await self._load(delegation)

    async def printed(self, work: OpenReview) -> OriginalReview:
        """Return its ``review.diff`` as Understudy wrote it, with the positions of its hunks."""
        head = work.delegation.head
        cached = self._printed.get(work.delegation.id)
        if cached is None or cached[0] != head:
            cached = head, await asyncio.to_thread(_print, work)
            self._printed[work.delegation.id] = cached
        return cached[1]

    # -- parts -----------------------------------------------------------------------------------------------------

    def _heard(self, delegation: str, events: list[Any]) -> None:
        if self._client.options.review and any(isinstance(event, (*_TELLING, *_TELLING_TOO)) for event in events):
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
            params = {"states": ["finished"], "limit": PAGE, "cursor": cursor}
            page = await self._client.call("delegations/list", params)
            listed |= {delegation.id: delegation for delegation in page.delegations if delegation.review.pending}
            cursor = page.cursor
            if cursor is None:
                break
        self._pending = PathIndex()
        for delegation in listed.values():
            self._pending.put(delegation.id, survivor_hints.paths_of_result(delegation))
        self.read({identifier for identifier, work in self.known.items() if _differs(work, listed.get(identifier))})
        self.read({identifier for identifier in listed if identifier not in self.known and self._concerns(identifier)})

    async def _read_all(self) -> None:
        try:
            await asyncio.sleep(SETTLE_SECONDS)
            while self._stale:
                stale, self._stale = self._stale, set()
                changed: set[str] = set()
                paths: set[str] = set()
                for identifier in stale:
                    try:
                        work = await self._load(identifier)
                    except UnderstudyError as error:
                        # Keep the last known state of this one, and read the others.
                        log.warning("the review of %s could not be read: %s", identifier, error)
                        continue
                    if work != self.known.get(identifier):
                        changed.add(identifier)
                        paths |= self._shown.of(identifier)
                        self._keep(identifier, work)
                        paths |= self._shown.of(identifier)
                if changed:
                    self.generation += 1
                    self._changed(changed, paths)
        finally:
            self._reading = False
            self._settled.set()

    def _keep(self, delegation: str, work: OpenReview | None) -> None:
        if work is None:
            self.known.pop(delegation, None)
            self._shown.drop(delegation)
        else:
            self.known[delegation] = work
            files = survivor_hints.absolute(work.delegation, [file.path for file in work.files])
            self._shown.put(delegation, files | survivor_hints.paths_of_result(work.delegation))

    def _concerns(self, delegation: str) -> bool:
        return any(map(self._is_open, self._pending.of(delegation)))

    async def _load(self, identifier: str) -> OpenReview | None:
        try:
            delegation: Delegation = await self._client.call("delegations/get", {"id": identifier})
            if delegation.state is not State.FINISHED or delegation.head is None:
                return None
            if delegation.review.pending:
                self._pending.put(identifier, survivor_hints.paths_of_result(delegation))
            else:
                self._pending.drop(identifier)
            if identifier not in self._open and not self._concerns(identifier):
                return None
            diff = await self._client.call("delegations/diff", {"id": identifier})
        except UnderstudyError as error:
            if error.kind in {ErrorKind.BASE_UNAVAILABLE, ErrorKind.UNKNOWN_DELEGATION, ErrorKind.FILE_TOO_LARGE}:
                return None  # it was removed, or it has no hunks
            raise
        return OpenReview(delegation, diff.files, next((accept.undo_token for accept in diff.undoable), None))


def _differs(work: OpenReview, listed: Delegation | None) -> bool:
    return listed is None or work.delegation.last_seq != listed.last_seq


def _print(work: OpenReview) -> OriginalReview:
    text = result_files.original_review(work.delegation.id, work.delegation.head)
    return OriginalReview(text, hunk_positions.in_patch(text, work.files))
