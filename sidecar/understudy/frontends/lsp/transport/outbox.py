"""Write whole messages to the client, in order and from any thread, with bounded memory."""

from __future__ import annotations

import collections
import os
import select
import threading
import time

ROOM_BYTES = 1024 * 1024
"""Above this many queued bytes, ``send_when_room`` waits; a batch of events has at most a quarter of it."""
FULL_BYTES = 16 * 1024 * 1024
"""Above this many queued bytes, the server stops reading: the client sends requests but does not read the answers."""
CLOSE_SECONDS = 2.0
"""How long ``close`` waits for the client to read the queued messages."""


class Outbox:
    """One writer thread on one descriptor; small messages are written directly while nothing is queued."""

    def __init__(self, descriptor: int) -> None:
        """Write to ``descriptor``, which must be blocking; the thread starts when it is first needed."""
        self._descriptor = descriptor
        self._queue: collections.deque[bytes] = collections.deque()
        self._size = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._closing = False
        self.gone = False
        """Whether the client no longer reads."""
        self._poller = select.poll()
        self._poller.register(descriptor, select.POLLOUT)

    @property
    def full(self) -> bool:
        """Whether the server should stop reading from the client."""
        return self._size > FULL_BYTES

    def send(self, message: bytes) -> None:
        """Send a whole message without waiting; drop it if the client is gone."""
        with self._changed:
            if self.gone or self._closing:
                return
            if not self._queue and not self._busy and len(message) <= select.PIPE_BUF and self._writable():
                # A writable pipe accepts this many bytes without blocking (poll(2), pipe(7)).
                self._write(message)
                return
            self._queue.append(message)
            self._size += len(message)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def send_when_room(self, message: bytes) -> None:
        """Wait until little is queued, then send a message; raise ``BrokenPipeError`` if the client is gone."""
        with self._changed:
            while self._size > ROOM_BYTES and not self.gone and not self._closing:
                self._changed.wait(60.0)
            if self.gone or self._closing:
                raise BrokenPipeError
        self.send(message)

    def close(self) -> None:
        """Send what is queued, for at most ``CLOSE_SECONDS``, then stop."""
        deadline = time.monotonic() + CLOSE_SECONDS
        with self._changed:
            while (self._queue or self._busy) and not self.gone:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._closing = True
            self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Wait until the client has read most of the queued messages, or is gone."""
        with self._changed:
            while self._size > FULL_BYTES // 2 and not self.gone and not self._closing:
                self._changed.wait(60.0)

    def _writable(self) -> bool:
        return any(what & select.POLLOUT for _, what in self._poller.poll(0))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing and not self.gone:
                    self._changed.wait()
                if not self._queue or self.gone:
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
                # The other process made the pipe non-blocking, which affects both ends.
                select.select([], [self._descriptor], [], 1.0)
            except OSError:
                with self._changed:
                    self.gone = True
                    self._queue.clear()
                    self._size = 0
                    self._changed.notify_all()
                return
