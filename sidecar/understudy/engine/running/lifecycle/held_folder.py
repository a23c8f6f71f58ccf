"""The folder of a delegation while this process runs it: its lock, its journal, and the children to end with it."""

from __future__ import annotations

import asyncio
import os

from understudy.engine.running.emitter import Emitter
from understudy.engine.running.task import proxy_secrets
from understudy.journal import worker_lock
from understudy.journal.change_notifications import notify
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.process import identity
from understudy.secrets.redaction import Redactor


class HeldFolder:
    """A folder that this process has locked, for one event loop. The process holds a slot until it has ended."""

    def __init__(self, folder: Folder, lock: int) -> None:
        """Take over the folder that is locked by ``lock``, and open its journal."""
        self._folder = folder
        self._lock = lock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._children: dict[int, identity.Identity] = {}
        worker_lock.write_holder(lock, identity.current(), [])
        self.writer = Writer(folder, lock)
        proxies = proxy_secrets()  # the setup command uses them, too
        self.emit = Emitter(self.writer, Redactor(proxies) if proxies else None)

    def begin(self) -> None:
        """Use the running event loop."""
        self._loop = asyncio.get_running_loop()

    def tell(self, event: events.Event) -> None:
        """Emit from another thread: the event is appended by the loop, in order, before the thread's result is seen."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._emit_if_open, event)

    def child_changed(self, child: identity.Identity, alive: bool) -> None:
        """Record that a child of this process has started or ended: others end it if this process is killed."""
        if alive:
            self._children[child.pid] = child
        else:
            self._children.pop(child.pid, None)
        if self._lock >= 0:
            worker_lock.write_holder(self._lock, identity.current(), list(self._children.values()))

    def release(self) -> None:
        """Close the journal and free the lock: others may record decisions, or check again, from here on."""
        if self._lock >= 0:
            self.writer.close()
            os.close(self._lock)
            self._lock = -1
            notify(self._folder.id)

    def _emit_if_open(self, event: events.Event) -> None:
        if self._lock >= 0:  # an abandoned thread must not write
            self.emit(event)
