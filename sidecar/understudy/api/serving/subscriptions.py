"""Sending events to a client that subscribed: missed ones first, then live ones, none twice, none lost.

One thread per client reads journals and hands batches to the face's ``send``, which may block for as long
as the client does not read: the journal is the only queue, so a slow client reads later and nothing grows.
A face that serves many clients makes one ``Subscriptions`` for each.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from understudy.api import faults
from understudy.api import messages as m
from understudy.journal import bell as bells
from understudy.journal import store, summary
from understudy.journal.reader import Tail
from understudy.model.errors import UnderstudyError
from understudy.model.events import Event
from understudy.model.states import State

BATCH_BYTES = 256 * 1024
"""A batch is at most so long, unless one event alone is longer."""
BATCHES_A_SECOND = 30
"""In any second; within it, a batch goes out at once. A worker joins deltas at the same pace: a pause after every batch
would come on top of the worker's, and double the time that an event takes."""
DEBOUNCE_SECONDS = 0.1
"""Changes of collections that come within this time are told together."""
SLOW_LOOK_SECONDS = 10.0
"""How long a decision on an ended delegation may go unnoticed when its bell was lost."""
LOOK_AFTER_WORKER_SECONDS = 2.0
"""How long a delegation may be silent before it is asked whether its worker lives."""

_READ_AT_ONCE = 64
"""Events read ahead of a full batch at most; they are the only ones kept in memory."""

Collection = Literal["delegations", "delegators", "modelServers", "recipes", "trust"]
_BY_BELL: dict[str, tuple[Collection, ...]] = {
    "configuration": ("delegators", "modelServers", "recipes"),
    "trust": ("trust", "delegators", "modelServers", "recipes"),
}
"""What a bell that is no delegation's means (trusting a workspace makes its configuration count)."""

_encoder = msgspec.json.Encoder()


class Subscriptions:
    """What one client follows.

    ``send(name, params)`` gets the name of a notification without prefix and its structure, always from the same
    thread; it may block, and raises ``OSError`` when the client is gone, which ends everything.
    """

    def __init__(self, send: Callable[[str, Any], None], folders: Callable[[], Sequence[Path]] = tuple) -> None:
        """Follow nothing yet; no thread is started. ``folders()``: workspaces whose configuration is watched, too."""
        self._send = send
        self._lock = threading.Lock()
        self._orders: list[Callable[[], None]] = []
        self._closed = False
        self._thread: threading.Thread | None = None
        self._wake = -1
        # What follows belongs to the thread alone.
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
        self._fingerprints: tuple[str, ...] = ()

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Follow one delegation from its ``after`` (0: its beginning) on, or all.

        Of all, those named in ``after`` are followed from there, ended ones that are not named from their end
        (decisions still come), all others, future ones included, from their beginning. One that is followed
        already goes on where it is.
        """
        self._order(lambda: self._follow(delegation, dict(after)))

    def unfollow(self, delegation: str | None) -> None:
        """Stop following one delegation, or everything."""
        self._order(lambda: self._unfollow(delegation))

    def announce_changes(self) -> None:
        """Send ``changed`` from now on when a collection should be read again."""
        self._order(self._announce)

    def close(self) -> None:
        """Stop; returns at once, and nothing is sent after a ``send`` that is under way."""
        with self._lock:
            self._closed = True
            self._ring()

    def _order(self, order: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                return
            self._orders.append(order)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="subscriptions", daemon=True)
                self._thread.start()
            self._ring()

    def _ring(self) -> None:
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
                    with bells.Bell() as bell:
                        self._loop(bell, reading)
                except _ClientGoneError:
                    break
                except Exception as error:
                    # A fault (no descriptor left, a folder that cannot be listed) must not end what was promised.
                    faults.internal("subscriptions", error)
                    time.sleep(bells.POLL_SECONDS)
                    for stream in self._active.values():
                        stream.dirty = True
        finally:
            with self._lock:
                self._closed = True
                self._wake = -1
            os.close(reading)
            os.close(writing)

    def _loop(self, bell: bells.Bell, reading: int) -> None:
        poller = select.poll()
        poller.register(bell.fileno(), select.POLLIN)
        poller.register(reading, select.POLLIN)
        while True:
            with self._lock:
                if self._closed:
                    return
                orders, self._orders = self._orders, []
            for order in orders:
                order()
            self._look()
            self._work()
            if poller.poll(self._rest() * 1000):
                with contextlib.suppress(BlockingIOError):
                    os.read(reading, 4096)
                self._heard(bell.drain())

    def _follow(self, delegation: str | None, after: dict[str, int]) -> None:
        if delegation is not None:
            if delegation not in self._active and delegation not in self._ended:
                self._begin(delegation, after.get(delegation, 0))
            return
        self._everything = True
        self._after = after
        for identifier in reversed(store.ids()):
            if identifier in self._active or identifier in self._ended:
                continue
            if identifier in after:
                self._begin(identifier, after[identifier])
                continue
            try:
                found = summary.peek(store.open_folder(identifier))
            except (UnderstudyError, OSError):
                continue
            if found.state is State.FINISHED:
                self._ended[identifier] = found.last_seq
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
            # Known and at its end for ever: a bell or a look must not begin it anew.
            self._ended[delegation] = _NEVER

    def _announce(self) -> None:
        self._announces = True

    def _heard(self, names: set[str]) -> None:
        for name in names:
            if name == bells.EVERYTHING:
                self._looked_at = self._looked_slowly_at = 0.0
                self._note(("delegations", "delegators", "modelServers", "recipes", "trust"))
            elif store.is_id(name):
                self._note(("delegations",))
                self._rang(name)
            else:
                self._note(_BY_BELL.get(name, ()))

    def _rang(self, identifier: str) -> None:
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
        """Find what a lost bell would have told."""
        now = time.monotonic()
        if now - self._looked_at < bells.POLL_SECONDS:
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
            for identifier in store.ids():
                if identifier not in self._active and identifier not in self._ended:
                    self._begin(identifier, self._after.get(identifier, 0))
        if now - self._looked_slowly_at < SLOW_LOOK_SECONDS:
            return
        self._looked_slowly_at = now
        for identifier, seq in list(self._ended.items()):
            with contextlib.suppress(UnderstudyError, OSError):
                if seq != _NEVER and summary.peek(store.open_folder(identifier)).last_seq > seq:
                    self._begin(identifier, self._ended.pop(identifier))

    def _look_at_files(self) -> None:
        """Notice configuration that was edited by hand: nobody rings for that."""
        from understudy import config  # noqa: PLC0415 - a subscription to events alone reads no configuration

        with contextlib.suppress(OSError):
            found = tuple(config.fingerprint(folder) for folder in (None, *self._folders()))
            if self._fingerprints not in {(), found}:
                self._note(("delegators", "modelServers", "recipes", "trust"))
            self._fingerprints = found

    def _work(self) -> None:
        now = time.monotonic()
        if self._changed and now >= self._tell_at:
            # Sorted, so that the same change is always told in the same words.
            self._tell("changed", m.ChangedNotification(collections=sorted(self._changed)))
            self._changed.clear()
        for identifier, stream in list(self._active.items()):
            if not stream.dirty or now < stream.next_at:
                continue
            try:
                batch = stream.batch()
            except (UnderstudyError, OSError):
                # Its folder cannot be read now; the next look tries again.
                stream.dirty = False
                continue
            if batch:
                self._tell("event", m.EventNotification(id=identifier, events=batch))  # type: ignore[arg-type]
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
        """Return how many seconds there is nothing to do, unless a bell rings."""
        now = time.monotonic()
        times = [self._looked_at + bells.POLL_SECONDS]
        if self._changed:
            times.append(self._tell_at)
        times += [stream.next_at for stream in self._active.values() if stream.dirty]
        if not (self._active or self._everything or self._announces):
            return 3600.0
        return max(0.0, min(times) - now)


_NEVER = -1


class _ClientGoneError(Exception):
    """Whoever followed cannot be reached any more."""


class _Stream:
    """Where one delegation's reader is."""

    def __init__(self, identifier: str, after: int) -> None:
        self._identifier = identifier
        self.tail = Tail(store.open_folder(identifier), after)
        self.dirty = True
        self.next_at = 0.0
        self._sent_at: collections.deque[float] = collections.deque(maxlen=BATCHES_A_SECOND)
        self._ahead: list[tuple[Event, int]] = []
        self._heard_at = time.monotonic()
        self._ended = False

    def batch(self) -> list[Event]:
        """Return the next events that fit into a batch; none, and clean, when there are none."""
        taken: list[Event] = []
        size = 0
        while True:
            if not self._ahead:
                found = self.tail.read(_READ_AT_ONCE)
                self._ahead = [(event, len(_encoder.encode(event)) + 1) for event in found]
                if not self._ahead:
                    self.dirty = bool(taken)
                    return taken
            while self._ahead:
                event, length = self._ahead[0]
                if taken and size + length > BATCH_BYTES:
                    return taken
                taken.append(event)
                size += length
                del self._ahead[0]

    def sent(self) -> None:
        """Note that a batch went out."""
        self._heard_at = time.monotonic()
        self._sent_at.append(self._heard_at)
        if len(self._sent_at) == BATCHES_A_SECOND:
            self.next_at = self._sent_at[0] + 1.0

    @property
    def ended(self) -> bool:
        """Whether nothing more comes before somebody decides, or checks again."""
        return self.tail.has_finished or self._ended

    def look_after(self, now: float) -> None:
        """In a silence, ask for the delegation: whoever asks notices a dead worker and ends it."""
        if self.ended or now - self._heard_at < LOOK_AFTER_WORKER_SECONDS:
            return
        self._heard_at = now
        from understudy.api import caller, table  # noqa: PLC0415 - a subscription imports no engine before it must

        with contextlib.suppress(UnderstudyError):
            found = table.call("delegations/get", m.IdParams(id=self._identifier), caller.Here())
            self._ended = found.state is State.FINISHED and found.last_seq <= self.tail.last
