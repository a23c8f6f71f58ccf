"""What an agent asks a person: one question at a time, over the journal, with a policy when nobody answers.

``permission`` is appended (the state is then ``waiting``), any process answers through ``control.jsonl``, the first
valid answer wins, ``permission_answered`` says which. The deadline answers the same way as a person, through the same
file, so a person and the deadline cannot both be right.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from understudy.journal import control
from understudy.journal.control import Answer, Item
from understudy.journal.store import Folder
from understudy.model import events
from understudy.model.delegations import PermissionOption, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError

DEADLINE = "deadline"
WITHDRAWN = "withdrawn"
"""Who answered when nobody did."""


class Questions:
    """The questions of one run; for one event loop."""

    def __init__(self, folder: Folder, emit: Callable[[events.Event], None], seconds: float) -> None:
        """Ask through ``emit``; an answer is waited for at most ``seconds``."""
        self._folder = folder
        self._emit = emit
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._number = 0
        self._open: PermissionRequest | None = None
        self._answer: asyncio.Future[Answer] | None = None

    async def ask(
        self, title: str, detail: str, options: list[PermissionOption]
    ) -> tuple[PermissionOption, str | None]:
        """Ask a person; return the option chosen and the note that came with it.

        Questions asked at the same time are put one after another. ``options`` must hold one that rejects: it is taken
        when nobody answers in time.
        """
        rejecting = next((option for option in options if option.kind.startswith("reject")), None)
        if rejecting is None or len({option.id for option in options}) != len(options):
            raise UnderstudyError(
                ErrorKind.INTERNAL, f"The question {title!r} has no option that rejects, or the same one twice."
            )
        async with self._turn:
            self._number += 1
            deadline = datetime.fromtimestamp(time.time() + self._seconds, UTC).isoformat(timespec="milliseconds")
            request = PermissionRequest(
                # The agent's own ids may come again after a restart; these do not. Nobody can guess them either: an
                # answer that an agent left in `control.jsonl` beforehand is one to no question.
                request_id=f"q{self._number}-{secrets.token_hex(3)}",
                attempt=0,  # the event is stamped with it
                title=title,
                detail=detail,
                options=options,
                deadline=deadline.replace("+00:00", "Z"),
                on_deadline=rejecting.id,
            )
            return await self._put(request)

    def take(self, items: Iterable[Item]) -> None:
        """Look through new lines of ``control.jsonl``; the first valid answer to the open question is the answer."""
        waiting, request = self._answer, self._open
        if waiting is None or request is None or waiting.done():
            return
        found = control.first_answer(list(items), request)
        if found is not None:
            waiting.set_result(found)

    async def _put(self, request: PermissionRequest) -> tuple[PermissionOption, str | None]:
        self._open, self._answer = request, asyncio.get_running_loop().create_future()
        try:
            fields = {name: getattr(request, name) for name in request.__struct_fields__ if name != "attempt"}
            self._emit(events.Permission(**fields))
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await asyncio.shield(self._answer)
            except TimeoutError:
                answer = self._on_deadline(request)
            except asyncio.CancelledError:
                # The agent took its question back: nobody is to answer it any more.
                taken_back = self._on_deadline(request, by=WITHDRAWN)
                self._emit(
                    events.PermissionAnswered(
                        request_id=request.request_id, option=taken_back.option, by=taken_back.by or WITHDRAWN
                    )
                )
                raise
            self._emit(
                events.PermissionAnswered(
                    request_id=request.request_id, option=answer.option, by=answer.by or "unknown"
                )
            )
        finally:
            self._open = self._answer = None
        chosen = next(option for option in request.options if option.id == answer.option)
        return chosen, answer.note

    def _on_deadline(self, request: PermissionRequest, by: str | None = None) -> Answer:
        """Answer as configured, unless a person was a moment quicker."""
        own = Answer(request_id=request.request_id, option=request.on_deadline, by=by or DEADLINE)
        try:
            control.append_answer(self._folder, own, request)
        except UnderstudyError as error:
            if error.kind is ErrorKind.CONFLICT:
                return control.first_answer(control.read_control(self._folder), request) or own
            # What cannot be written is decided all the same: a full disk must not let an agent through.
        return own


def open_question(waiting: PermissionRequest | None, request_id: str, identifier: str) -> PermissionRequest:
    """Return the question ``request_id``; ``conflict`` when it is not open (any more)."""
    if waiting is None or waiting.request_id != request_id:
        now = f"it asks {waiting.request_id!r}" if waiting is not None else "it was answered, or its time has passed"
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} does not wait for an answer to {request_id!r}: {now}.",
            hint="Look at what it asks now: understudy show " + identifier,
        )
    return waiting
