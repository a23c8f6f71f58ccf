"""Answer requests of the contract in threads, from raw JSON parameters."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api import method_table
from understudy.api.caller import describe_asker
from understudy.api.serving import request, thread_pool
from understudy.frontends.lsp.editor import apply_edit
from understudy.model.delegation.delegations import AskedBy
from understudy.model.errors import UnderstudyError

if TYPE_CHECKING:
    import msgspec

    from understudy.api.caller import BufferEdit
    from understudy.frontends.lsp.editor.client import Answer, Client

STARTS = frozenset(
    method_table.PREFIX + name for name in ("delegations/start", "delegations/reply", "delegations/retry")
)
"""Requests that start a delegation and return its id."""


class ApiRequest(request.InFlightRequest):
    """One request in flight, which is the ``Caller`` of its handler."""

    name = "lsp"

    def __init__(self, client: Client, method: str, params: Any, answer: Answer) -> None:
        """Prepare a request; ``params`` is parsed JSON or the method's structure."""
        super().__init__()
        self.method = method
        self.params = params
        self._client = client
        self._answer = answer

    def run(self) -> None:
        """Call the handler and answer the request."""
        if not self.begins():
            return
        try:
            result = method_table.call(self.method, self.params, self)
        except UnderstudyError as error:
            self.refuse(error)
        else:
            if self.first_to_answer():
                self._answer(result, None)

    def refuse(self, error: UnderstudyError) -> None:
        """Answer with this error unless the request has been answered."""
        if self.first_to_answer():
            self._answer(None, error)

    def asked_by(self) -> AskedBy:
        """Return a description of the editor, with this process's environment, which the editor has set."""
        client = self._client
        return describe_asker(
            self.name,
            client=f"{client.name} {client.version}".strip(),
            pid=client.process or os.getppid(),
            cwd=self.folder(),
            environ=os.environ,
        )

    def documents(self) -> Mapping[str, str]:
        """Return a snapshot of the open documents."""
        return self._client.documents.snapshot()

    def editable(self) -> Collection[str]:
        """Return the URIs of the open documents, or none if the editor does not let servers change them."""
        return self._client.documents.open_uris() if apply_edit.can_edit(self._client) else ()

    def edit(self, edits: list[BufferEdit]) -> bool:
        """Change open documents, all or none; runs in the event loop and blocks the thread of the request."""
        changed: bool = self._client.wait_in_loop(apply_edit.change(self._client, edits), apply_edit.LIMIT_SECONDS)
        return changed

    def folder(self) -> Path | None:
        """Return the first workspace folder."""
        return next(iter(self._client.folders), None)

    def opened(self) -> Sequence[Path]:
        """Return all workspace folders."""
        return self._client.folders

    @property
    def distrusts(self) -> Callable[[Path], bool] | None:
        """The function that returns whether trust in a workspace is revoked; None if the editor revoked none."""
        return None if self._client.options.trusted else self._client.distrusts

    def trusts(self, workspace: Path) -> None:
        """Note that the user trusted this workspace after the editor had revoked trust."""
        self._client.regained.add(workspace)

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Start sending events of one delegation or of all."""
        self._client.subscribe(delegation, after)

    def unfollow(self, delegation: str | None) -> None:
        """Stop sending events of one delegation or of all."""
        self._client.unsubscribe(delegation)

    def tell(self, name: str, params: msgspec.Struct) -> None:
        """Send a notification, as fast as the editor reads."""
        self._client.notify_when_room(method_table.PREFIX + name, params)


class ApiRequests:
    """The requests in flight, and the threads that answer them."""

    def __init__(self, client: Client) -> None:
        """Start without requests and threads."""
        self._client = client
        self._threads = thread_pool.RequestThreads()
        self._lock = threading.Lock()
        self._pending: set[ApiRequest] = set()

    def begin(self, method: str, params: Any, answer: Answer) -> ApiRequest:
        """Answer a request of the contract, by its wire name, in a thread."""
        call: ApiRequest

        def finished(result: Any, error: UnderstudyError | None) -> None:
            with self._lock:
                self._pending.discard(call)
            if error is None and method in STARTS:
                # Before the client gets the answer, because its next request may be about this delegation.
                self._client.started(result.id, call.params)
            answer(result, error)

        call = ApiRequest(self._client, method, params, finished)
        with self._lock:
            full = len(self._pending) >= request.MAX_IN_FLIGHT
            if not full:
                self._pending.add(call)
        if full:
            call.refuse(request.overloaded_error())
        else:
            self._threads.submit(method, call.run)
        return call

    def cancel_all(self) -> None:
        """Cancel every request, because the session ends."""
        with self._lock:
            unanswered = list(self._pending)
        for call in unanswered:
            call.cancel()
        self._threads.close()
