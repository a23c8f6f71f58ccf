"""Stream events to a subscribed client: missed ones first, then live ones, each exactly once.

One thread per client reads journals and passes batches to the frontend's ``send``, which may block while the client
does not read: the journal is the only queue, so a slow client reads later and no buffer grows. A frontend with many
clients creates one ``Subscriptions`` for each.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from understudy.api import error_answers, messages
from understudy.journal import change_notifications, delegation_folder, reader
from understudy.journal.reader import Tail
from understudy.journal.summaries import fold
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.events import Event
from understudy.model.errors import UnderstudyError
from understudy.model.states import State

BATCH_BYTES = 256 * 1024
"""Longest batch, unless a single event is longer."""
BATCHES_A_SECOND = 30
"""Limit for any period of one second; within it, batches are sent at once. The worker joins deltas at the same pace: a
pause after every batch would add to the worker's pause and double the latency."""
DEBOUNCE_SECONDS = 0.1
"""Changes of collections within this time are reported together."""
SLOW_LOOK_SECONDS = 10.0
"""How long a decision on a finished delegation may stay unnoticed if its change notification was lost."""
LOOK_AFTER_WORKER_SECONDS = 2.0
"""How long a delegation may be silent before its worker is checked."""

_READ_AT_ONCE = 64
"""Limit of events read ahead of a full batch; no others are kept in memory."""

Collection = Literal["delegations", "delegators", "modelServers", "recipes", "trust"]
_BY_TOPIC: dict[str, tuple[Collection, ...]] = {
    "configuration": ("delegators", "modelServers", "recipes"),
    "trust": ("trust", "delegators", "modelServers", "recipes"),
}
"""Topic of a change notification → changed collections (trusting a workspace enables its configuration)."""

_encoder = msgspec.json.Encoder()


def updated(delegation: Delegation, event: Event) -> Delegation:
    """Return a delegation after applying its next event."""
    return fold.fold(delegation, event)


def fingerprints(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the state of the configuration of the user and of these workspaces, and of what the user trusts.

    Empty if it cannot be read.
    """
    from understudy.config import locations
    from understudy.config.trust import records

    with contextlib.suppress(UnderstudyError, OSError):
        trusted = records.fingerprint(delegation_folder.state_root())
        return (trusted, *(locations.fingerprint(folder) for folder in (None, *folders)))
    return ()


class Subscriptions:
    """The subscriptions of one client.

    ``send(name, params)`` gets the name of a notification without prefix and its structure, always from the same
    thread; it may block, and raises ``OSError`` when the client is gone, which ends the subscriptions.
    """

    def __init__(
        self,
        send: Callable[[str, Any], None],
        folders: Callable[[], Sequence[Path]] = tuple,
        since: tuple[str, ...] | None = None,
    ) -> None:
        """Follow nothing yet and start no thread; ``folders()`` returns the workspaces whose configuration to watch.

        ``since``: their fingerprints when the client could first read the configuration (default: now). A client that
        reads it and subscribes only then must also learn of the changes in between.
        """
        self._send = send
        self._lock = threading.Lock()
        self._orders: collections.deque[Callable[[], None]] = collections.deque()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._wake = -1
        # Only the thread uses the following fields.
        self._active: dict[str, _Stream] = {}
        self._ended: dict[str, int] = {}
        self._everything = False
        self._after: dict[str, int] = {}
        self._announces = False
        self._changed: set[Collection] = set()
        self._tell_at = 0.0
        self._looked_at = 0.0
        self._looked_slowly_at = 0.0
        self._folders = folders
        self._fingerprints = fingerprints(folders()) if since is None else since

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Follow one delegation from its sequence number in ``after`` (default 0: its beginning), or all.

        With all, those in ``after`` are followed from there; of the others, finished ones that are older than the
        newest in ``after`` from their end (decisions may still come), and all the rest from their beginning: the client
        made its list before they were started. A delegation that is already followed continues where it is.
        """
        self._order(lambda: self._follow(delegation, dict(after)))

    def unfollow(self, delegation: str | None) -> None:
        """Stop following one delegation or all."""
        self._order(lambda: self._unfollow(delegation))

    def announce_changes(self) -> None:
        """Start sending ``changed`` for every change of a collection; of configuration, also for earlier changes."""
        self._order(self._announce)

    def close(self) -> None:
        """Stop and return at once; no message is sent after a ``send`` in progress."""
        with self._lock:
            self._closed = True
            self._wake_thread()

    def _order(self, order: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                return
            self._orders.append(order)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="subscriptions", daemon=True)
                self._thread.start()
            self._wake_thread()

    def _wake_thread(self) -> None:
        if self._wake >= 0:
            with contextlib.suppress(OSError):
                os.write(self._wake, b"!")

    def _run(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.set_blocking(reading, False)
        with self._lock:
            self._wake = writing
        try:
            while not self._closed:
                try:
                    with change_notifications.ChangeListener() as listener:
                        self._loop(listener, reading)
                except _ClientGoneError:
                    break
                except Exception as error:
                    # An error (no descriptor free, a folder that cannot be listed) must not end the subscription.
                    error_answers.internal_error("subscriptions", error)
                    time.sleep(change_notifications.POLL_SECONDS)
                    for stream in self._active.values():
                        stream.dirty = True
        finally:
            with self._lock:
                self._closed = True
                self._wake = -1
            os.close(reading)
            os.close(writing)

    def _loop(self, listener: change_notifications.ChangeListener, reading: int) -> None:
        poller = select.poll()
        poller.register(listener.fileno(), select.POLLIN)
        poller.register(reading, select.POLLIN)
        while True:
            if self._closed:
                return
            while self._orders:
                self._orders[0]()
                self._orders.popleft()  # only now: an order that failed is carried out after the pause
            self._look()
            self._work()
            if poller.poll(self._rest() * 1000):
                with contextlib.suppress(BlockingIOError):
                    os.read(reading, 4096)
                self._received(listener.drain())

    def _follow(self, delegation: str | None, after: dict[str, int]) -> None:
        if delegation is not None:
            if delegation not in self._active and delegation not in self._ended:
                self._begin(delegation, after.get(delegation, 0))
            return
        self._everything = True
        self._after = after
        newest = max(after, default=_NEWER_THAN_ALL)
        for identifier in reversed(delegation_folder.ids()):
            if identifier in self._active or identifier in self._ended:
                continue
            if identifier in after:
                self._begin(identifier, after[identifier])
                continue
            try:
                current = reader.peek(delegation_folder.open_folder(identifier))
            except (UnderstudyError, OSError):
                continue
            if current.state is State.FINISHED and identifier < newest:
                self._ended[identifier] = current.last_seq
            else:
                self._begin(identifier, 0)

    def _begin(self, identifier: str, after: int) -> None:
        with contextlib.suppress(UnderstudyError, OSError):
            self._active[identifier] = _Stream(identifier, after)

    def _unfollow(self, delegation: str | None) -> None:
        if delegation is None:
            self._everything = False
            self._active.clear()
            self._ended.clear()
            return
        self._active.pop(delegation, None)
        self._ended.pop(delegation, None)
        if self._everything:
            # Finished and known: a notification must not restart it.
            self._ended[delegation] = _NEVER

    def _announce(self) -> None:
        self._announces = True

    def _received(self, topics: set[str]) -> None:
        for name in topics:
            if name == change_notifications.EVERYTHING:
                self._looked_at = self._looked_slowly_at = 0.0
                self._note(("delegations", "delegators", "modelServers", "recipes", "trust"))
            elif delegation_folder.is_id(name):
                self._note(("delegations",))
                self._delegation_changed(name)
            else:
                self._note(_BY_TOPIC.get(name, ()))

    def _delegation_changed(self, identifier: str) -> None:
        stream = self._active.get(identifier)
        if stream is not None:
            stream.dirty = True
        elif identifier in self._ended:
            if self._ended[identifier] != _NEVER:
                self._begin(identifier, self._ended.pop(identifier))
        elif self._everything:
            self._begin(identifier, self._after.get(identifier, 0))

    def _note(self, collections: tuple[Collection, ...]) -> None:
        if self._announces and collections:
            if not self._changed:
                self._tell_at = time.monotonic() + DEBOUNCE_SECONDS
            self._changed.update(collections)

    def _look(self) -> None:
        """Find changes whose notification was lost."""
        now = time.monotonic()
        if now - self._looked_at < change_notifications.POLL_SECONDS:
            return
        self._looked_at = now
        for stream in self._active.values():
            stream.dirty = True
            stream.look_after(now)
        if self._announces:
            self._look_at_files()
        if not self._everything:
            return
        with contextlib.suppress(UnderstudyError, OSError):
            for identifier in delegation_folder.ids():
                if identifier not in self._active and identifier not in self._ended:
                    self._begin(identifier, self._after.get(identifier, 0))
        if now - self._looked_slowly_at < SLOW_LOOK_SECONDS:
            return
        self._looked_slowly_at = now
        for identifier, seq in list(self._ended.items()):
            with contextlib.suppress(UnderstudyError, OSError):
                if seq != _NEVER and reader.peek(delegation_folder.open_folder(identifier)).last_seq > seq:
                    self._begin(identifier, self._ended.pop(identifier))

    def _look_at_files(self) -> None:
        """Detect configuration that was edited by hand, which sends no notification, and lost notifications."""
        current = fingerprints(self._folders())
        if current and current != self._fingerprints:
            self._note(("delegators", "modelServers", "recipes", "trust"))
            self._fingerprints = current

    def _work(self) -> None:
        now = time.monotonic()
        if self._changed and now >= self._tell_at:
            # Sorted, so that the same change always sends the same message.
            self._tell("changed", messages.ChangedNotification(collections=sorted(self._changed)))
            self._changed.clear()
        for identifier, stream in list(self._active.items()):
            if not stream.dirty or now < stream.next_at:
                continue
            try:
                batch = stream.batch()
            except (UnderstudyError, OSError):
                # Its folder cannot be read now; the next check tries again.
                stream.dirty = False
                continue
            if batch:
                self._tell("event", messages.EventNotification(id=identifier, events=batch))  # type: ignore[arg-type]
                stream.sent()
            elif stream.ended:
                del self._active[identifier]
                self._ended[identifier] = stream.tail.last
            if self._closed:
                return

    def _tell(self, name: str, what: msgspec.Struct) -> None:
        try:
            self._send(name, what)
        except OSError as error:
            raise _ClientGoneError from error

    def _rest(self) -> float:
        """Return how many seconds to wait for a change notification."""
        now = time.monotonic()
        times = [self._looked_at + change_notifications.POLL_SECONDS]
        if self._changed:
            times.append(self._tell_at)
        times += [stream.next_at for stream in self._active.values() if stream.dirty]
        if not (self._active or self._everything or self._announces):
            return 3600.0
        return max(0.0, min(times) - now)


_NEVER = -1
_NEWER_THAN_ALL = "~"
"""Sorts after every id: a client that lists none does not ask for the past."""


class _ClientGoneError(Exception):
    """The client can no longer be reached."""


class _Stream:
    """The read position in one delegation's journal."""

    def __init__(self, identifier: str, after: int) -> None:
        self._identifier = identifier
        self.tail = Tail(delegation_folder.open_folder(identifier), after)
        self.dirty = True
        self.next_at = 0.0
        self._counted_at: collections.deque[float] = collections.deque(maxlen=BATCHES_A_SECOND)
        """Batches of the last second, by the time at which they count."""
        self._written_at: str | None = None
        """When the first event of the last batch was written; None if more events follow than fit into a batch."""
        self._ahead: list[tuple[Event, int]] = []
        self._heard_at = time.monotonic()
        self._ended = False

    def batch(self) -> list[Event]:
        """Return the next events that fit into a batch, if any."""
        taken: list[Event] = []
        size = 0
        while True:
            if not self._ahead:
                events = self.tail.read(_READ_AT_ONCE)
                self._ahead = [(event, len(_encoder.encode(event)) + 1) for event in events]
                if not self._ahead:
                    self.dirty = bool(taken)
                    self._written_at = taken[0].at if taken else None
                    return taken
            while self._ahead:
                event, length = self._ahead[0]
                if taken and size + length > BATCH_BYTES:
                    self._written_at = None
                    return taken
                taken.append(event)
                size += length
                del self._ahead[0]

    def sent(self) -> None:
        """Count a batch; delay the next one if the last second is full."""
        self._heard_at = now = time.monotonic()
        late = 0.0
        if self._written_at is not None:
            # The worker writes its deltas at exactly this pace. If a late batch counted at the time it was sent, it
            # would delay the batch a second later, and so on: the delay would never disappear.
            late = time.time() - datetime.fromisoformat(self._written_at).timestamp()
        self._counted_at.append(now - late if 0 < late < 1 / BATCHES_A_SECOND else now)
        if len(self._counted_at) == BATCHES_A_SECOND:
            self.next_at = self._counted_at[0] + 1.0

    @property
    def ended(self) -> bool:
        """Whether no event can follow before a decision or new checks."""
        return self.tail.has_finished or self._ended

    def look_after(self, now: float) -> None:
        """Read the state of a silent delegation, which ends it if its worker died."""
        if self.ended or now - self._heard_at < LOOK_AFTER_WORKER_SECONDS:
            return
        self._heard_at = now
        from understudy.api import caller, method_table

        with contextlib.suppress(UnderstudyError):
            delegation = method_table.call(
                "delegations/get", messages.IdParams(id=self._identifier), caller.TerminalCaller()
            )
            self._ended = delegation.state is State.FINISHED and delegation.last_seq <= self.tail.last
