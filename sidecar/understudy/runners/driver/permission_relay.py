"""Relay an agent's permission questions to the user, and the answers back.

While the user thinks, the driver keeps reading the source, so its pipe never fills, and suspends the idle limit. Any
error with a question rejects it; ``permission_denied`` ends the attempt, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import Event, Note, Permission, PermissionAnswered
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.driver.source import Source
from understudy.runners.runner import Ask, Question

MAX_OPEN_QUESTIONS = 32
"""An agent with more open questions is broken; further ones are rejected without asking."""
NOBODY = "policy"
"""The name recorded for the answer where no one can be asked."""
MAX_TITLE_CHARACTERS = 300
MAX_DETAIL_CHARACTERS = 20_000
MAX_COMMAND_CHARACTERS = 8000
MAX_PATHS = 100
MAX_PATH_CHARACTERS = 4096


class PermissionRelay:
    """The questions of one attempt, asked one after another."""

    def __init__(
        self,
        source: Source,
        *,
        ask: Ask | None,
        emit: Callable[[Event], None],
        answered: Callable[[], None],
        stop: Callable[[UnderstudyError], None],
        clean: Callable[[str], str],
    ) -> None:
        """Start without questions; ``answered`` is called after each, ``clean`` redacts and sanitises a text.

        ``stop`` ends the attempt with an error.
        """
        self._source = source
        self._ask = ask
        self._emit = emit
        self._answered = answered
        self._stop = stop
        self._clean = clean
        self._open: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._unasked = 0

    @property
    def waiting(self) -> bool:
        """Whether the agent waits for the user's answer."""
        return bool(self._open)

    async def take(self, question: Question) -> None:
        """Start asking, without waiting for the answer."""
        if len(self._open) >= MAX_OPEN_QUESTIONS:
            await self._reply(question, rejecting(question), None)
        elif question.question_id not in self._open:
            task = asyncio.get_running_loop().create_task(self._settle(question))
            self._open[question.question_id] = task
            task.add_done_callback(lambda _: self._settled(question.question_id))

    def withdraw(self, question_id: str) -> None:
        """Stop asking: the agent cancelled the question."""
        task = self._open.get(question_id)
        if task is not None:
            task.cancel()

    async def drop(self) -> None:
        """Stop asking all open questions, and wait until they are closed in the journal."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _settle(self, question: Question) -> None:
        option, note = await self._decide(question)
        await self._reply(question, option, note)

    async def _reply(self, question: Question, option: PermissionOption, note: str | None) -> None:
        with suppress(UnderstudyError):  # the agent has ended, and its exit will say why
            await self._source.answer(question.question_id, option, note)

    async def _decide(self, question: Question) -> tuple[PermissionOption, str | None]:
        shown = self._shown(question)
        if self._ask is None:
            self._report_unasked(shown)
            return rejecting(question), "No user can be asked here."
        try:
            # A delegation shows one question at a time.
            async with self._turn:
                return await self._ask(shown)
        except UnderstudyError as error:
            if error.kind is ErrorKind.PERMISSION_DENIED:
                self._stop(error)
                return rejecting(question), None
            self._emit(Note(level="warning", text=f"A question could not be asked, so it was rejected: {error}"))
        except Exception as error:
            # An error while asking must never count as permission.
            self._emit(Note(level="error", text=f"A question could not be asked, so it was rejected: {error!r}"))
        return rejecting(question), None

    def _shown(self, question: Question) -> Question:
        """Return the question as it may be stored and shown: redacted, sanitised, bounded.

        A command or a list of paths that is too long is left out, never cut: a part is not enough to decide on.
        """
        clean = self._clean
        command = clean(question.command) if question.command is not None else None
        paths = [clean(path) for path in question.paths] if question.paths is not None else None
        if command is not None and len(command) > MAX_COMMAND_CHARACTERS:
            command = None
        if paths is not None and (len(paths) > MAX_PATHS or any(len(path) > MAX_PATH_CHARACTERS for path in paths)):
            paths = None
        return msgspec.structs.replace(
            question,
            altered=(command, paths) != (question.command, question.paths),
            tool=clean(question.tool)[:MAX_TITLE_CHARACTERS],
            title=clean(question.title)[:MAX_TITLE_CHARACTERS],
            detail=clean(question.detail)[:MAX_DETAIL_CHARACTERS],
            options=[
                msgspec.structs.replace(option, title=clean(option.title)[:MAX_TITLE_CHARACTERS])
                for option in question.options
            ],
            command=command,
            paths=paths,
        )

    def _report_unasked(self, shown: Question) -> None:
        self._unasked += 1
        name, chosen = f"q{self._unasked}", rejecting(shown).id
        self._emit(Permission(request_id=name, deadline_action=chosen, **shown.fields()))
        self._emit(PermissionAnswered(request_id=name, option=chosen, by=NOBODY))

    def _settled(self, question_id: str) -> None:
        del self._open[question_id]
        self._answered()


def rejecting(question: Question) -> PermissionOption:
    """Return the option that rejects; every question has one."""
    return next(option for option in question.options if option.kind.startswith("reject"))
