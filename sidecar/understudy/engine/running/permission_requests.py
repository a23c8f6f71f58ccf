"""Forward an agent's questions to the user: one at a time, through the journal, with a default after a deadline.

``permission`` is appended (the state is then ``waiting``), any process answers through ``requests.jsonl``, the first
valid answer wins, and ``permission_answered`` records which. The deadline answers through the
same file as the user, so they cannot both win.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from understudy.engine.running import permission_policy
from understudy.journal import worker_requests
from understudy.journal.delegation_folder import Folder
from understudy.journal.worker_requests import Answer, Item
from understudy.model.config.delegators import Delegator, PermissionRule
from understudy.model.delegation import events
from understudy.model.delegation.delegations import PermissionOption, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.timestamps import timestamp
from understudy.runners.runner import Question

DEADLINE = "deadline"
"""The value of ``by`` when the deadline passed."""
POLICY = "policy"
"""The value of ``by`` when a rule answered."""
WITHDRAWN = "withdrawn"  # english: allow withdrawn - a value in journals
"""The value of ``by`` when the agent cancelled the question."""


class PermissionRequests:
    """The questions of one run; for one event loop."""

    def __init__(self, folder: Folder, emit: Callable[[events.Event], None], seconds: float = 0.0) -> None:
        """Ask through ``emit``; wait at most ``seconds`` for each answer."""
        self._folder = folder
        self._emit = emit
        self._seconds = seconds
        self._rules: list[PermissionRule] = []
        self._unanswered = "reject"
        self._tree: Path | None = None
        self._turn = asyncio.Lock()
        self._number = 0
        self._open: PermissionRequest | None = None
        self._answer: asyncio.Future[Answer] | None = None

    def begin_attempt(self, delegator: Delegator, seconds: float, tree: Path | None) -> None:
        """Use the delegator's rules, and wait at most ``seconds`` for each answer; ``tree`` is the worktree."""
        self._seconds, self._tree = seconds, tree
        self._rules = list(delegator.permissions or ())
        self._unanswered = (delegator.launch.unanswered if delegator.launch is not None else None) or "reject"

    async def ask(self, question: Question) -> tuple[PermissionOption, str | None]:
        """Decide by the rules, or ask the user; return the chosen option and the note with it.

        Concurrent questions are asked one after another. One of the options must reject: it is chosen
        when no one answers in time, unless the delegator says otherwise. Raises ``permission_denied`` if it says that
        the attempt ends then.
        """
        options = question.options
        rejecting = next((option for option in options if option.kind.startswith("reject")), None)
        if rejecting is None or len({option.id for option in options}) != len(options):
            raise UnderstudyError(
                ErrorKind.INTERNAL,
                f"The question {question.title!r} has no option that rejects, or two options with the same ID.",
            )
        allowing = next((option for option in options if option.kind == "allow_once"), None)
        async with self._turn:
            self._number += 1
            asks_user = question.kind == "question"  # no rule answers it, and nothing is allowed with it
            decision = None if asks_user else permission_policy.decide(self._rules, question, self._tree)
            deadline = timestamp(time.time() + self._seconds)
            request = PermissionRequest(
                # The agent's own ids may repeat after a restart; these do not. They cannot be guessed either: an answer
                # that an agent wrote into `requests.jsonl` beforehand answers no question.
                request_id=f"q{self._number}-{secrets.token_hex(3)}",
                attempt=0,  # the event is stamped with it
                deadline=deadline.replace("+00:00", "Z"),
                deadline_action=(
                    allowing if allowing and self._unanswered == "allow" and not asks_user else rejecting
                ).id,
                rule=permission_policy.rule_for(question, self._tree) if allowing and not asks_user else None,
                **question.fields(),
            )
            if decision == "reject":
                return self._decided(request, rejecting), "A rule of the user rejects this."
            if decision == "allow" and allowing is not None:
                return self._decided(request, allowing), None
            return await self._put(request)

    def _decided(self, request: PermissionRequest, option: PermissionOption) -> PermissionOption:
        """Record what a rule decided."""
        self._emit(_asked(request))
        self._emit(events.PermissionAnswered(request_id=request.request_id, option=option.id, by=POLICY))
        return option

    def take(self, items: Iterable[Item]) -> None:
        """Read new lines of ``requests.jsonl``; the first valid answer to the open question counts."""
        waiting, request = self._answer, self._open
        if waiting is None or request is None or waiting.done():
            return
        answer = worker_requests.first_answer(list(items), request)
        if answer is not None:
            waiting.set_result(answer)

    async def _put(self, request: PermissionRequest) -> tuple[PermissionOption, str | None]:
        self._open, self._answer = request, asyncio.get_running_loop().create_future()
        try:
            self._emit(_asked(request))
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await asyncio.shield(self._answer)
            except TimeoutError:
                answer = self._on_deadline(request)
            except asyncio.CancelledError:
                # The agent cancelled its question: it can no longer be answered.
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
        if answer.by == DEADLINE and self._unanswered == "stop" and request.kind != "question":
            raise UnderstudyError(
                ErrorKind.PERMISSION_DENIED,
                f"No one answered within {self._seconds:g} s: {request.title}",
                hint="Retry and answer it, raise `answer_seconds`, or add a rule to the delegator's `permissions`.",
            )
        chosen = next(option for option in request.options if option.id == answer.option)
        if answer.remember and request.rule is not None and chosen.kind.startswith("allow"):
            self._rules.append(request.rule)
        return chosen, answer.note

    def _on_deadline(self, request: PermissionRequest, by: str | None = None) -> Answer:
        """Answer with the default, unless the user has just answered."""
        default = Answer(request_id=request.request_id, option=request.deadline_action, by=by or DEADLINE)
        try:
            worker_requests.append_answer(self._folder, default, request)
        except UnderstudyError as error:
            if error.kind is ErrorKind.CONFLICT:
                return worker_requests.first_answer(worker_requests.read_requests(self._folder), request) or default
            # The default applies even if it cannot be written: a full disk must not grant a permission.
        return default


def _asked(request: PermissionRequest) -> events.Permission:
    return events.Permission(
        **{name: getattr(request, name) for name in request.__struct_fields__ if name != "attempt"}
    )


def open_question(waiting: PermissionRequest | None, request_id: str, identifier: str) -> PermissionRequest:
    """Return the question ``request_id``; raise ``conflict`` if it is not open."""
    if waiting is None or waiting.request_id != request_id:
        now = f"it asks {waiting.request_id!r}" if waiting is not None else "it was answered, or its deadline passed"
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} is not waiting for an answer to {request_id!r}: {now}.",
            hint=f"See what it asks now: understudy show {identifier}",
        )
    return waiting
