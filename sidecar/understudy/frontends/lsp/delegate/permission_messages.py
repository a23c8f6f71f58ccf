"""What an agent asks, put to the editor's person: one question at a time, and never an answer that holds for ever.

An editor that cannot ask is told how to answer elsewhere. Whoever answers first has answered; who was later is told so.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.faces.harmless import one_line
from understudy.faces.lsp.client import Client, Refused
from understudy.faces.lsp.runs import Runs
from understudy.faces.lsp.saying import can_ask, choose, log, say
from understudy.model import events as e
from understudy.model.delegations import Delegation, PermissionOption, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from understudy.faces.lsp.server import Server

LATER = "Later"
DEFAULT_SECONDS = 3600.0
"""How long a question without a deadline may stand in the editor."""
DETAIL_CHARACTERS = 1500
REMEMBERED = 200
"""Answers that are remembered for those who come too late."""


class Question:
    """One question."""

    def __init__(self, delegation: Delegation, request: PermissionRequest) -> None:
        """Be open until ``closed`` is set."""
        self.delegation = delegation
        self.request = request
        self.closed = asyncio.Event()

    @property
    def key(self) -> tuple[str, str]:
        """Return what tells it from every other."""
        return self.delegation.id, self.request.request_id


class Questions:
    """Questions in the order in which they came."""

    def __init__(self, client: Client, runs: Runs) -> None:
        """Listen to ``runs``."""
        self._client = client
        self._open: dict[tuple[str, str], Question] = {}
        self._waiting: deque[Question] = deque()
        self._answered: dict[tuple[str, str], tuple[str, str]] = {}
        """Question → who answered, and what."""
        self._asking: asyncio.Task[Any] | None = None
        runs.on_update.append(self._update)
        runs.on_gone.append(self._gone)

    def _update(self, delegation: Delegation, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, e.PermissionAnswered):
                self._remember((delegation.id, event.request_id), event)
        request = delegation.waiting_for
        for question in list(self._open.values()):
            if question.delegation.id == delegation.id and (
                request is None or request.request_id != question.request.request_id
            ):
                self._close(question)
        if request is not None and (delegation.id, request.request_id) not in self._open:
            question = Question(delegation, request)
            self._open[question.key] = question
            self._put(question)

    def _gone(self, identifier: str) -> None:
        for question in list(self._open.values()):
            if question.delegation.id == identifier:
                self._close(question)

    def _close(self, question: Question) -> None:
        question.closed.set()
        self._open.pop(question.key, None)

    def _remember(self, key: tuple[str, str], event: e.PermissionAnswered) -> None:
        if len(self._answered) >= REMEMBERED:
            del self._answered[next(iter(self._answered))]
        self._answered[key] = event.by, event.option

    def _put(self, question: Question) -> None:
        if not can_ask(self._client) or not offered(question.request):
            say(self._client, types.MessageType.Warning, f"{_words(question)}\n\n{_elsewhere(question)}")
            return
        self._waiting.append(question)
        if self._asking is None or self._asking.done():
            self._asking = self._client.spawn(self._ask_in_turn(), "questions")

    async def _ask_in_turn(self) -> None:
        while self._waiting:
            question = self._waiting.popleft()
            if question.closed.is_set():
                continue
            asked = self._client.spawn(self._ask(question), f"question of {question.delegation.id}")
            closed = asyncio.ensure_future(question.closed.wait())
            try:
                # One that was answered elsewhere is no question any more, although it may still stand in the editor.
                await asyncio.wait({asked, closed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                closed.cancel()

    async def _ask(self, question: Question) -> None:
        titles = offered(question.request)
        try:
            title = await choose(
                self._client,
                types.MessageType.Warning,
                _words(question),
                [LATER, *titles],
                _seconds(question.request),
            )
        except (Refused, TimeoutError):
            title = None
        option = titles.get(title or "")
        if option is not None:
            await self._answer(question, option)
        elif question.closed.is_set():
            return
        elif title == LATER:
            say(self._client, types.MessageType.Info, _elsewhere(question))
        else:
            log(self._client, _elsewhere(question))

    async def _answer(self, question: Question, option: PermissionOption) -> None:
        identifier, request = question.key
        params = {"id": identifier, "requestId": request, "option": option.id}
        try:
            await self._client.call("delegations/answer", params)
        except UnderstudyError as error:
            message = self._too_late(question) if error.kind is ErrorKind.CONFLICT else f"{error.message} {error.hint}"
            say(self._client, types.MessageType.Info, message)

    def _too_late(self, question: Question) -> str:
        by, option = self._answered.get(question.key, ("", ""))
        title = one_line(next((one.title for one in question.request.options if one.id == option), option))
        about = f"“{one_line(question.request.title)}”"
        if by == "deadline":
            return f"The time for {about} had passed; it was answered with “{title}”."
        if by == "withdrawn":
            return f"The agent took {about} back before you answered."
        if not by:
            return f"{about} was answered already; the first answer counts."
        return f"{about} was answered already, with “{title}” (by {by}); the first answer counts."


def offered(request: PermissionRequest) -> dict[str, PermissionOption]:
    """Return title → option of what a person may choose here: no "always", which cannot be taken back."""
    found: dict[str, PermissionOption] = {}
    for option in request.options:
        if option.kind.endswith("_always"):
            continue
        title = one_line(option.title) or option.kind.replace("_", " ")
        while title in found or title == LATER:
            title += f" ({option.kind.replace('_', ' ')})"
        found[title] = option
    return found


def _words(question: Question) -> str:
    delegation, request = question.delegation, question.request
    detail = request.detail.strip()
    if len(detail) > DETAIL_CHARACTERS:
        detail = detail[:DETAIL_CHARACTERS] + "…"
    head = f"{delegation.delegator} asks about “{one_line(delegation.title)}”: {one_line(request.title)}"
    return f"{head}\n\n{detail}" if detail and detail != request.title else head


def _elsewhere(question: Question) -> str:
    return f"Answer it in a terminal: understudy answer {question.delegation.id}"


def _seconds(request: PermissionRequest) -> float:
    """Return how long it may stand: until its deadline, and a little, so that a late answer is told so."""
    if request.deadline is None:
        return DEFAULT_SECONDS
    try:
        return max(0.0, datetime.fromisoformat(request.deadline).timestamp() - time.time()) + DEFAULT_SECONDS
    except ValueError:
        return DEFAULT_SECONDS


def register(server: Server, runs: Runs) -> None:
    """Ask."""
    Questions(server.client, runs)
