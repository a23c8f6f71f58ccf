"""The worker's side of what the user says: hand it to the agent, or keep it for the next attempt or the next reply.

A message is durable in ``requests.jsonl`` before the worker reads it. ``user_message`` records what the worker does
with it, ``message_delivered`` that the agent got it. An agent that takes messages during its turn gets it at once; if
the attempt ends before the agent got it, a follow-up attempt in the same session has it in its prompt. What is not
delivered at the end of the run is part of the next reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from understudy.journal.worker_requests import Item, Say
from understudy.model.capabilities import MessageTime
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delivery, SentMessage
from understudy.model.errors import UnderstudyError
from understudy.runners.runner import Message, Send

HAND_OVER_SECONDS = 2.0
"""After this, a message that the agent does not read waits for the end of its turn."""
_WORKS = (events.Text, events.Thinking, events.ToolCall, events.Plan, events.File)
"""Events that show that an agent has read its prompt."""


@dataclass
class _Held:
    """A message of this run."""

    message: Message
    by: str
    recorded: bool = False
    attempt: int | None = None
    """The attempt whose agent got it."""


class UserMessages:
    """The messages of one run, for one event loop; the ``Messages`` of each of its attempts."""

    def __init__(self, emit: Callable[[events.Event], None], recorded: Iterable[SentMessage]) -> None:
        """Take the messages that an earlier worker of the same run ``recorded``, before its first attempt."""
        self._emit = emit
        self._known = {message.id for message in recorded}
        self._held: dict[str, _Held] = {}
        self._in_prompt: list[_Held] = []
        self._outgoing: asyncio.Queue[_Held] = asyncio.Queue()
        self._handing: asyncio.Task[None] | None = None
        self._attempt = 0
        self._time: MessageTime = "next_attempt"
        self._has_next_turn = True

    def take(self, items: Iterable[Item]) -> None:
        """Read new lines of ``requests.jsonl``."""
        for item in items:
            if not isinstance(item, Say) or item.message_id in self._held:
                continue
            held = _Held(Message(message_id=item.message_id, text=item.text), item.by, item.message_id in self._known)
            self._held[item.message_id] = held
            if self._handing is not None:
                self._outgoing.put_nowait(held)
            else:
                self._record(held)

    # -- around an attempt -----------------------------------------------------------------------------------

    def begin_attempt(self, number: int, time: MessageTime, *, continues: bool, known_to: Iterable[int]) -> list[str]:
        """Return the texts that belong in the prompt: of all messages that the agent has not got in its session.

        ``known_to`` are the attempts whose session is continued; ``continues`` says whether the agent can be asked for
        more after its turn.
        """
        self._attempt, self._time = number, time
        self._has_next_turn = continues or time == "after_turn"
        sessions = set(known_to)
        self._in_prompt = [held for held in self._held.values() if held.attempt is None or held.attempt not in sessions]
        return [held.message.text for held in self._in_prompt]

    def saw(self, event: events.Event) -> None:
        """Note that the agent has read its prompt, if ``event`` shows it."""
        if self._in_prompt and isinstance(event, _WORKS):
            for held in self._in_prompt:
                self._delivered(held)
            self._in_prompt = []

    def connect(self, send: Send) -> None:
        """Hand messages over with ``send`` from now on, first those that came after the prompt was written."""
        if self._handing is None and self._time in {"during_turn", "after_turn"}:
            for held in self._held.values():
                if held.attempt is None and held not in self._in_prompt:
                    self._outgoing.put_nowait(held)
            self._handing = asyncio.get_running_loop().create_task(self._hand_over(send))

    def taken(self, message_id: str) -> None:
        """Record that the agent got a message."""
        held = self._held.get(message_id)
        if held is not None and held.attempt is None:
            self._delivered(held)

    async def end_attempt(self, *, succeeded: bool) -> None:
        """Hand over no more; an agent that succeeded has read its prompt."""
        handing, self._handing = self._handing, None
        if handing is not None:
            handing.cancel()
            await asyncio.wait([handing])
        while not self._outgoing.empty():
            self._record(self._outgoing.get_nowait())
        for held in self._in_prompt if succeeded else ():
            self._delivered(held)
        self._in_prompt = []

    @property
    def waiting(self) -> bool:
        """Whether there is a message that no agent got."""
        return any(held.attempt is None for held in self._held.values())

    @property
    def delivered(self) -> list[str]:
        """The texts that an agent got."""
        return [held.message.text for held in self._held.values() if held.attempt is not None]

    def close(self) -> None:
        """Keep everything that comes from now on for the next reply."""
        self._has_next_turn = False

    # -- parts -----------------------------------------------------------------------------------------------

    async def _hand_over(self, send: Send) -> None:
        while True:
            held = await self._outgoing.get()
            delivery: Delivery | None = None
            try:
                async with asyncio.timeout(HAND_OVER_SECONDS):
                    await send(held.message)
                if self._time == "during_turn":
                    delivery = "sent"
            except (UnderstudyError, TimeoutError):
                pass
            finally:
                self._record(held, delivery)

    def _record(self, held: _Held, delivery: Delivery | None = None) -> None:
        if not held.recorded:
            held.recorded = True
            message = held.message
            default: Delivery = "waiting" if self._has_next_turn else "kept"
            self._emit(
                events.UserMessage(
                    message_id=message.message_id, text=message.text, by=held.by, delivery=delivery or default
                )
            )

    def _delivered(self, held: _Held) -> None:
        self._record(held, "sent")
        if held.attempt is None:
            self._emit(events.MessageDelivered(message_id=held.message.message_id))
        held.attempt = self._attempt
