"""The other half of a conversation with a CLI that is talked to both ways: its questions, and how it is interrupted.

While a person thinks, the CLI's output is read on, so its pipe never fills, and no idle limit runs. Whatever goes wrong
with a question rejects it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from understudy.model.delegations import PermissionOption
from understudy.model.errors import ErrorInfo, UnderstudyError
from understudy.model.events import Event, Note, Permission, PermissionAnswered
from understudy.process.pipes import Input
from understudy.runners.base import Ask

MAX_OPEN_QUESTIONS = 32
"""More at once is a CLI gone wrong; what comes above is rejected unasked."""
NOBODY = "policy"
"""Who answered where nobody can be asked."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """The CLI asks for permission. ``options`` hold one that rejects."""

    request_id: str
    """The CLI's own; it never leaves the runner."""
    title: str
    detail: str
    options: list[PermissionOption]


@dataclass(frozen=True, kw_only=True)
class Withdrawn:
    """The CLI no longer waits for an answer."""

    request_id: str


@dataclass(frozen=True, kw_only=True)
class Send:
    """Something that the CLI has to be told at once."""

    data: bytes


@dataclass(frozen=True)
class Working:
    """A sign of work that is no event of its own: it counts as progress, and nothing is told."""


@runtime_checkable
class Conversation(Protocol):
    """What ``Lines`` of a CLI that is talked to both ways can do besides."""

    def answer(self, question: Question, option: PermissionOption, note: str | None) -> bytes:
        """Return what to write for the answer ``option``."""
        ...

    def interrupt(self) -> bytes:
        """Return what to write to end the current turn."""
        ...

    def explain(self, said: str) -> ErrorInfo | None:
        """Return what went wrong when the CLI ended with an error and ``said`` this on standard error."""
        ...


class Dialogue:
    """The questions of one run of a CLI, answered one after another."""

    def __init__(
        self,
        conversation: Conversation,
        stdin: Input,
        *,
        ask: Ask | None,
        emit: Callable[[Event], None],
        answered: Callable[[], None],
        clean: Callable[[str], str],
    ) -> None:
        """Begin; ``answered`` is called after each question, ``clean`` makes a text fit to be shown."""
        self.conversation = conversation
        self._stdin = stdin
        self._ask = ask
        self._emit = emit
        self._answered = answered
        self._clean = clean
        self._open: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._asked = 0

    @property
    def waiting(self) -> bool:
        """Whether a person has to answer before the CLI goes on."""
        return bool(self._open)

    async def take(self, item: Question | Withdrawn | Send) -> None:
        """Deal with what the CLI said, without waiting for a person."""
        if isinstance(item, Send):
            await self._write(item.data)
        elif isinstance(item, Withdrawn):
            task = self._open.get(item.request_id)
            if task is not None:
                task.cancel()
        elif len(self._open) >= MAX_OPEN_QUESTIONS:
            await self._write(self.conversation.answer(item, _rejecting(item), None))
        elif item.request_id not in self._open:
            task = asyncio.get_running_loop().create_task(self._settle(item))
            self._open[item.request_id] = task
            task.add_done_callback(lambda _: self._settled(item.request_id))

    async def interrupt(self) -> None:
        """Drop the questions and ask the CLI to end its turn."""
        await self.drop_questions()
        await self._write(self.conversation.interrupt())

    async def drop_questions(self) -> None:
        """Ask nobody any more."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def hang_up(self) -> None:
        """End the CLI's input: there will be no further turn."""
        for task in self._open.values():
            task.cancel()
        self._stdin.close()

    async def _settle(self, question: Question) -> None:
        option, note = await self._decide(question)
        await self._write(self.conversation.answer(question, option, note))

    async def _decide(self, question: Question) -> tuple[PermissionOption, str | None]:
        rejecting = _rejecting(question)
        title, detail = self._clean(question.title), self._clean(question.detail)
        if self._ask is None:
            self._unasked(title, detail, question, rejecting)
            return rejecting, "Nobody can be asked here."
        try:
            # Runs side by side would let two questions be open at once; a delegation shows one.
            async with self._turn:
                return await self._ask(title, detail, question.options)
        except UnderstudyError as error:
            self._emit(Note(level="warning", text=f"A question could not be asked, so it was rejected: {error}"))
        except Exception as error:
            # Any fault on the way to a person must not let the agent through.
            self._emit(Note(level="error", text=f"A question could not be asked, so it was rejected: {error!r}"))
        return rejecting, None

    def _unasked(self, title: str, detail: str, question: Question, rejecting: PermissionOption) -> None:
        self._asked += 1
        name = f"q{self._asked}"
        asked = Permission(
            request_id=name, title=title, detail=detail, options=question.options, on_deadline=rejecting.id
        )
        self._emit(asked)
        self._emit(PermissionAnswered(request_id=name, option=rejecting.id, by=NOBODY))

    def _settled(self, request_id: str) -> None:
        del self._open[request_id]
        self._answered()

    async def _write(self, data: bytes) -> None:
        with suppress(UnderstudyError):  # it has closed its input; its end says why
            await self._stdin.write(data)


def _rejecting(question: Question) -> PermissionOption:
    return next(option for option in question.options if option.kind.startswith("reject"))
