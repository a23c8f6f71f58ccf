"""The way out: whole messages, in order, from any thread, and never more in memory than the client is behind."""

from __future__ import annotations

import collections
import os
import select
import threading
import time

ROOM_BYTES = 1024 * 1024
"""Above this, ``send_when_room`` waits; a notification of ours has at most a quarter of it."""
FULL_BYTES = 16 * 1024 * 1024
"""Above this, nothing more is read from the client: it asks without reading the answers."""
CLOSE_SECONDS = 2.0
"""How long a client that is slow may still read what it was owed when the server ends."""


class Outbox:
    """One writer thread on one descriptor; small messages are written directly while nothing is queued."""

    def __init__(self, descriptor: int) -> None:
        """Own ``descriptor``, a blocking one; the thread starts when it is first needed."""
        self._descriptor = descriptor
        self._queue: collections.deque[bytes] = collections.deque()
        self._size = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._closing = False
        self._gone = False
        self._poller = select.poll()
        self._poller.register(descriptor, select.POLLOUT)

    @property
    def gone(self) -> bool:
        """Whether the client no longer reads."""
        return self._gone

    @property
    def full(self) -> bool:
        """Whether the client should be read no further."""
        return self._size > FULL_BYTES

    def send(self, message: bytes) -> None:
        """Send a whole message; never waits. What a client that is gone should have got is dropped."""
        with self._changed:
            if self._gone or self._closing:
                return
            if not self._queue and not self._busy and len(message) <= select.PIPE_BUF and self._writable():
                # A descriptor that polls writable takes so much without waiting (poll(2), pipe(7)).
                self._write(message)
                return
            self._queue.append(message)
            self._size += len(message)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def send_when_room(self, message: bytes) -> None:
        """Send a message as soon as little is queued; raise ``BrokenPipeError`` when the client is gone."""
        with self._changed:
            while self._size > ROOM_BYTES and not self._gone and not self._closing:
                self._changed.wait(60.0)
            if self._gone or self._closing:
                raise BrokenPipeError
        self.send(message)

    def close(self) -> None:
        """Send what is queued, within a limit, then no more."""
        deadline = time.monotonic() + CLOSE_SECONDS
        with self._changed:
            while (self._queue or self._busy) and not self._gone:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._closing = True
            self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Wait until the client has read most of what it is owed, or is gone."""
        with self._changed:
            while self._size > FULL_BYTES // 2 and not self._gone and not self._closing:
                self._changed.wait(60.0)

    def _writable(self) -> bool:
        return any(what & select.POLLOUT for _, what in self._poller.poll(0))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing and not self._gone:
                    self._changed.wait()
                if not self._queue or self._gone:
                    return
                message = self._queue.popleft()
                self._busy = True
            self._write(message)
            with self._changed:
                self._busy = False
                self._size -= len(message)
                self._changed.notify_all()

    def _write(self, message: bytes) -> None:
        left = memoryview(message)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                # Whoever holds the other end made the pipe non-blocking for both.
                select.select([], [self._descriptor], [], 1.0)
            except OSError:
                with self._changed:
                    self._gone = True
                    self._queue.clear()
                    self._size = 0
                    self._changed.notify_all()
                return
