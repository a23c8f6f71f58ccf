"""Show permission requests of agents in the editor, one at a time, without the options that apply permanently.

If the editor cannot ask, a message names the terminal command. The first answer counts; a later one gets a message.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import datetime
from typing import Any

from lsprotocol import types

from understudy.frontends.lsp.delegate.tracked_delegations import TrackedDelegations
from understudy.frontends.lsp.editor.client import Client, EditorRefused
from understudy.frontends.lsp.editor.user_messages import PERSON_SECONDS, can_ask, choose, log, say
from understudy.model.delegation import events as event_types
from understudy.model.delegation.delegations import Delegation, PermissionOption, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import delegation_text
from understudy.model.text.sanitize import one_line

LATER = "Later"
RULE_CHARACTERS = 80
"""Longest rule that the title of a button shows; a longer one is not offered to be remembered."""
DETAIL_CHARACTERS = 1500
REMEMBERED = 200
"""How many answers are kept to explain a late one."""


class Question:
    """A permission request and whether it is still open."""

    def __init__(self, delegation: Delegation, request: PermissionRequest) -> None:
        """Start open; ``closed`` is set when the request is answered or gone."""
        self.delegation = delegation
        self.request = request
        self.closed = asyncio.Event()

    @property
    def key(self) -> tuple[str, str]:
        """The ids of the delegation and of the request."""
        return self.delegation.id, self.request.request_id


class PermissionMessages:
    """The permission requests of one editor, in order."""

    def __init__(self, client: Client, runs: TrackedDelegations) -> None:
        """Follow the delegations in ``runs``."""
        self._client = client
        self._open: dict[tuple[str, str], Question] = {}
        self._waiting: deque[Question] = deque()
        self._answered: dict[tuple[str, str], tuple[str, str]] = {}
        """Question → the frontend that answered, and the option."""
        self._asking: asyncio.Task[Any] | None = None
        runs.on_update.append(self._update)
        runs.on_gone.append(self._gone)

    def _update(self, delegation: Delegation, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, event_types.PermissionAnswered):
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

    def _remember(self, key: tuple[str, str], event: event_types.PermissionAnswered) -> None:
        if len(self._answered) >= REMEMBERED:
            del self._answered[next(iter(self._answered))]
        self._answered[key] = event.by, event.option

    def _put(self, question: Question) -> None:
        if not can_ask(self._client) or not offered(question.request):
            say(self._client, types.MessageType.Warning, f"{_text(question)}\n\n{_elsewhere(question)}")
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
                # A request that was answered elsewhere is closed, although the editor may still show it.
                await asyncio.wait({asked, closed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                closed.cancel()

    async def _ask(self, question: Question) -> None:
        titles = offered(question.request)
        try:
            title = await choose(
                self._client,
                types.MessageType.Warning,
                _text(question),
                [LATER, *titles, *(always(question.request) or ())[:1]],
                _seconds(question.request),
            )
        except (EditorRefused, TimeoutError):
            title = None
        option = titles.get(title or "")
        remembered = always(question.request)
        if option is not None:
            await self._answer(question, option)
        elif remembered is not None and title == remembered[0]:
            await self._answer(question, remembered[1], remember=True)
        elif question.closed.is_set():
            return
        elif title == LATER:
            say(self._client, types.MessageType.Info, _elsewhere(question))
        else:
            log(self._client, _elsewhere(question))

    async def _answer(self, question: Question, option: PermissionOption, *, remember: bool = False) -> None:
        identifier, request = question.key
        params = {"id": identifier, "requestId": request, "option": option.id, "remember": remember}
        try:
            await self._client.call("delegations/answer", params)
        except UnderstudyError as error:
            message = self._too_late(question) if error.kind is ErrorKind.CONFLICT else f"{error.message} {error.hint}"
            say(self._client, types.MessageType.Info, message)

    def _too_late(self, question: Question) -> str:
        by, option = self._answered.get(question.key, ("", ""))
        title = one_line(next((choice.title for choice in question.request.options if choice.id == option), option))
        about = f"“{one_line(question.request.title)}”"
        if by == "deadline":
            return f"{about} was answered automatically at its deadline, with “{title}”."
        if by == "withdrawn":  # english: allow withdrawn - a wire value
            return f"The agent cancelled {about} before you answered."
        if not by:
            return f"{about} was already answered; the first answer counts."
        return f"{about} was already answered with “{title}” (by {by}); the first answer counts."


def offered(request: PermissionRequest) -> dict[str, PermissionOption]:
    """Return title → option, without the "always" options, which cannot be revoked."""
    by_title: dict[str, PermissionOption] = {}
    for option in request.options:
        if option.kind.endswith("_always") or option.takes_text:  # a message has no field for a text
            continue
        title = one_line(option.title) or option.kind.replace("_", " ")
        while title in by_title or title == LATER:
            title += f" ({option.kind.replace('_', ' ')})"
        by_title[title] = option
    return by_title


def always(request: PermissionRequest) -> tuple[str, PermissionOption] | None:
    """Return title and option of the answer that also saves a rule, which can be removed again; None if there is none.

    A rule that does not fit a button is left out: it must be visible as a whole.
    """
    what = delegation_text.remembered(request)
    if what is None or len(what) > RULE_CHARACTERS:
        return None
    return f"Always allow {one_line(what)}", next(option for option in request.options if option.kind == "allow_once")


def _text(question: Question) -> str:
    delegation, request = question.delegation, question.request
    detail = delegation_text.describe_request(request).strip()
    if len(detail) > DETAIL_CHARACTERS:
        detail = detail[:DETAIL_CHARACTERS] + "…"
    what = "asks you" if request.kind == "question" else "asks for permission"
    head = f"{delegation.delegator} {what} in “{one_line(delegation.title)}”: {one_line(request.title)}"
    if any(option.takes_text for option in request.options):
        detail = f"{detail}\n\n{_elsewhere(question)} TEXT".strip()
    return f"{head}\n\n{detail}" if detail and detail != request.title else head


def _elsewhere(question: Question) -> str:
    return f"Answer it in a terminal: understudy answer {question.delegation.id}"


def _seconds(request: PermissionRequest) -> float:
    """Return how long to show a request: beyond its deadline, so that a late answer gets a message."""
    if request.deadline is None:
        return PERSON_SECONDS
    return max(0.0, datetime.fromisoformat(request.deadline).timestamp() - time.time()) + PERSON_SECONDS
