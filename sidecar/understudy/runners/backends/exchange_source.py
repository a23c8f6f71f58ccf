"""A model server as a source for the driver: its exchange blocks a thread, and the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import Event
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.runners.backends.exchange import Exchange
from understudy.runners.driver.source import CLOSE_SECONDS, AgentFinished, Background, SourceItem
from understudy.runners.runner import Message

Deliver = Callable[[str], tuple[AgentFinished, Sequence[Event]]]
"""Turns the model's text into the result and the events about written files."""
Result = TypeVar("Result")


async def in_background(call: Callable[[], Result]) -> Result:
    """Return the result of a function that blocks; when cancelled, do not wait for its thread."""
    background = Background(call() for _ in range(1))
    try:
        result = await asyncio.wrap_future(background.next())
    finally:
        background.end()
    assert result is not None  # noqa: S101 - no function here returns None
    return result


class ExchangeSource:
    """One attempt of one model that answers with a text or a file."""

    def __init__(self, exchange: Exchange, deliver: Deliver) -> None:
        """Prepare; the request is sent when the first item is read."""
        self.subject = exchange.subject
        self.redactor = exchange.redactor
        self._exchange = exchange
        self._deliver = deliver
        self._begun = False

    async def items(self) -> AsyncIterator[SourceItem]:
        """Send the request and yield the answer as it arrives; an interrupted answer cannot be continued."""
        if self._begun:
            return
        self._begun = True
        async with aclosing(self._answered()) as items:  # type: ignore[type-var]
            async for item in items:
                yield item
        finished, events = self._deliver(self._exchange.text())
        for event in events:
            yield event
        yield finished

    async def _answered(self) -> AsyncIterator[SourceItem]:
        """Yield what ``Exchange.answered`` does."""
        background = Background(self._exchange.answered(), self._exchange.end)
        try:
            while (item := await asyncio.wrap_future(background.next())) is not None:
                yield item
        finally:
            background.end()
            closed = asyncio.wrap_future(background.closed)
            await asyncio.wait([closed], timeout=CLOSE_SECONDS)
            closed.cancel()  # the thread may end after the event loop

    async def answer(self, question_id: str, option: PermissionOption, note: str | None) -> None:
        """Do nothing: a model without tools asks no questions."""

    async def interrupt(self) -> None:
        """Do nothing: closing the connection ends the request."""

    async def send(self, message: Message) -> None:  # noqa: ARG002 - as the protocol has it
        """Refuse: a request cannot be extended."""
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{self.subject} cannot take messages while it answers.",
            hint="Reply to its result instead.",
        )

    async def explain(self) -> ErrorInfo | None:
        """Return None: ``items`` raises all errors."""
        return None

    async def close(self) -> Sequence[Event]:
        """Report the usage of an unfinished request; closing ``items`` has closed its connection."""
        return self._exchange.usage()
