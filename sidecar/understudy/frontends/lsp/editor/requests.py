"""Requests of the contract: raw JSON in, the table's answer out, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api import pending, pool, table
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from understudy.engine.buffers import BufferEdit
    from understudy.faces.lsp.client import Client

STARTS = frozenset(table.PREFIX + name for name in ("delegations/start", "delegations/reply", "delegations/retry"))
"""Requests whose result names a delegation that is under way from then on."""

Answer = Callable[[Any, UnderstudyError | None], None]
"""Gets the result or the error, once, in whatever thread."""


class Call(pending.Pending):
    """One request under way; it is the ``Caller`` of the function that answers it."""

    name = "lsp"

    def __init__(self, client: Client, method: str, params: Any, answer: Answer) -> None:
        """``params`` is parsed JSON, or the method's structure."""
        super().__init__()
        self.method = method
        self.params = params
        self._client = client
        self._answer = answer

    def run(self) -> None:
        """Answer it."""
        if not self.begins():
            return
        if isinstance(self.params, list):
            self.refuse(_positional(self.method))
            return
        try:
            result = table.call(self.method, self.params, self)
        except UnderstudyError as error:
            self.refuse(error)
        else:
            if self.first_to_answer():
                self._answer(result, None)

    def refuse(self, error: UnderstudyError) -> None:
        """Answer with this error, if no answer was given yet."""
        if self.first_to_answer():
            self._answer(None, error)

    def documents(self) -> Mapping[str, str]:
        """Return what is open in the editor."""
        return self._client.documents.snapshot()

    def editable(self) -> Collection[str]:
        """Return the open documents, where the editor lets a server change them."""
        from understudy.faces.lsp import edits  # noqa: PLC0415 - it imports the client, which imports this

        return self._client.documents.open_uris() if edits.can_edit(self._client) else ()

    def edit(self, edits: list[BufferEdit]) -> bool:
        """Change open documents, all or none; called in a request's thread, done in the event loop's."""
        from understudy.faces.lsp import edits as editing  # noqa: PLC0415 - as above

        done: bool = self._client.wait_in_loop(editing.change(self._client, edits), editing.LIMIT_SECONDS)
        return done

    def folder(self) -> Path | None:
        """Return the first workspace folder."""
        return next(iter(self._client.folders), None)

    @property
    def withdrawn(self) -> Callable[[Path], bool] | None:
        """Tell of workspaces that count as untrusted in this session; None while the editor withdrew nothing."""
        return None if self._client.options.trusted else self._client.distrusts

    def trusts(self, workspace: Path) -> None:
        """Take note that the person trusts this workspace after all."""
        self._client.regained.add(workspace)

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Send events of one delegation or all from now on."""
        self._client.subscribe(delegation, after)

    def unfollow(self, delegation: str | None) -> None:
        """Stop sending them."""
        self._client.unsubscribe(delegation)


class Calls:
    """The threads that answer, and what is under way."""

    def __init__(self, client: Client) -> None:
        """Start nothing yet."""
        self._client = client
        self._quick = pool.Pool(pool.QUICK_THREADS)
        self._patient = pool.Pool(pool.PATIENT_THREADS)
        self._lock = threading.Lock()
        self._pending: set[Call] = set()

    def begin(self, method: str, params: Any, answer: Answer) -> Call:
        """Answer a request of the table, by its wire name, in a thread."""
        call: Call

        def finished(result: Any, error: UnderstudyError | None) -> None:
            with self._lock:
                self._pending.discard(call)
            if error is None and method in STARTS:
                # Before the client hears of it: what it asks next about this delegation finds it known.
                self._client.started(result.id, call.params)
            answer(result, error)

        call = Call(self._client, method, params, finished)
        with self._lock:
            full = len(self._pending) >= pending.MOST
            if not full:
                self._pending.add(call)
        if full:
            call.refuse(pending.overloaded())
        else:
            (self._patient if method in pool.PATIENT else self._quick).submit(call.run)
        return call

    def withdraw_all(self) -> None:
        """Take everything back: the editor is gone, or says good-bye."""
        with self._lock:
            unanswered = list(self._pending)
        for call in unanswered:
            call.withdraw()
        self._quick.close()
        self._patient.close()


def _positional(method: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"{method} got its parameters as an array.",
        hint="Pass them by name, as an object.",
    )
