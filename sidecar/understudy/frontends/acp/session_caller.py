"""The caller of the API for one prompt, or another request, of a session."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from understudy.api import method_table
from understudy.api.caller import Caller, describe_asker
from understudy.api.serving.thread_pool import ThreadPool, settle
from understudy.model.delegation.delegations import AskedBy

NAME = "acp"
MOST_THREADS = 64
_Result = TypeVar("_Result")


@dataclass
class SessionCaller(Caller):
    """Answers requests; its methods block, and are called in a thread."""

    workspace: Path
    session: str
    client: str | None = None
    """Name and version of the editor, as it introduced itself."""
    unsaved: Mapping[str, str] = field(default_factory=dict)
    """URI → text of files as the editor shows them."""
    name: str = NAME
    cancel_event: threading.Event = field(default_factory=threading.Event)
    """Set when the answer is no longer needed."""

    def call(self, method: str, /, **params: Any) -> Any:
        """Answer one request; parameters that are None are left out."""
        return method_table.call(method, {key: value for key, value in params.items() if value is not None}, self)

    def asked_by(self) -> AskedBy:
        """Return the editor, with the session by which its delegations are found again."""
        asker = describe_asker(self.name, pid=os.getppid(), cwd=self.workspace, environ=os.environ, client=self.client)
        return msgspec.structs.replace(asker, session=self.session)

    def documents(self) -> Mapping[str, str]:
        """Return the texts that came with the prompt."""
        return self.unsaved

    def folder(self) -> Path:
        """Return the session's folder."""
        return self.workspace

    def cancelled(self) -> bool:
        """Return whether the answer is no longer needed."""
        return self.cancel_event.is_set()


class Threads:
    """Runs functions that block; a cancelled task does not wait for them."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._pool = ThreadPool(MOST_THREADS)

    async def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call a function in a thread and return its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()

        def job() -> None:
            try:
                settle(loop, future, function(*arguments))
            except Exception as error:
                settle(loop, future, None, error)

        self._pool.submit(job)
        return await future

    async def call(self, caller: SessionCaller, method: str, /, **params: Any) -> Any:
        """Answer one request of the API; one that waits stops when the task is cancelled."""
        # Tasks of one prompt share its caller, and one of them may be cancelled.
        cancellable = dataclasses.replace(caller, cancel_event=threading.Event())
        try:
            return await self.run(lambda: cancellable.call(method, **params))
        except asyncio.CancelledError:
            cancellable.cancel_event.set()
            raise
