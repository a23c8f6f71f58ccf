"""A model that calls tools, as a source for the driver: turns of an answer, its calls, and their results."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from understudy.model.delegation.events import AgentStarted, Event, Note, Session, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.policy import budget
from understudy.runners.backends.content.tool_calls import CallResult, RequestedCall, ToolSpec
from understudy.runners.backends.dialects import Answer, Dialect
from understudy.runners.backends.exchange import Exchange, ToolsRefused
from understudy.runners.backends.exchange_source import Deliver, ExchangeSource
from understudy.runners.driver.source import AgentFinished, Heartbeat, MessageTaken, SourceItem
from understudy.runners.model_loop import edit_blocks, instructions
from understudy.runners.model_loop.file_tools import ToolError
from understudy.runners.model_loop.toolbox import Toolbox
from understudy.runners.runner import Message, Task

DEFAULT_TURNS = 15
MAX_TURNS = 40
MOST_CUT_TURNS = 2
"""So many turns that reach the output limit one after another end the work: more of the same would be cut, too."""
CALLS_PER_TURN = 50
RESULT_CHARACTERS_PER_TURN = 120_000
"""Calls beyond these are not executed, and the model is asked to make them in the next turn."""
CHECKPOINT_SHARE = 5
"""A checkpoint follows the last one after at least so many times what that one took."""
_CHECKPOINT_END_SECONDS = 2.0
"""How long the end waits for a checkpoint that is being made; a cancel may take five seconds."""
_TITLE_CHARACTERS = 120
_SUMMARY_CHARACTERS = 2000
_CUT = (
    "Not executed: your answer reached its output limit, so the call may be incomplete. Make smaller calls, for "
    "example several edits instead of a whole file."
)
REMOVED = "[This result was removed because the conversation became too long. Make the call again if you need it.]"
_WORTH_REMOVING = 4 * len(REMOVED)
_MOST = 4
"""Delegators of one delegation whose conversations are kept; one may have tens of megabytes."""


class LoopSource(ExchangeSource):
    """One attempt of one model with tools."""

    def __init__(
        self,
        task: Task,
        dialect: Dialect,
        exchange: Exchange,
        *,
        deliver: Deliver | None,
        toolbox: Toolbox,
    ) -> None:
        """Prepare; the first request is sent when the first item is read.

        ``deliver`` writes files that an answer in text contains, where the recipe has a format for that.
        """
        super().__init__(exchange, deliver or _nothing)
        self._task = task
        self._dialect = dialect
        self._in_text = deliver is not None
        self._toolbox = toolbox
        asked = task.limits.max_turns or DEFAULT_TURNS
        self._limit = min(asked, MAX_TURNS)
        earlier = find_conversation(task.session_id)
        self._session_id = task.session_id if earlier is not None and task.session_id else uuid.uuid4().hex
        self._kept = earlier or KeptConversation(self._begin(tools=True))
        if earlier is not None:
            earlier.say(task.request or task.prompt)
        self._inbox: deque[Message] = deque()
        self._said: list[Message] = []
        """Messages in the request whose answer is not there yet."""
        self._ended = False
        self._checkpoint: asyncio.Task[None] | None = None
        self._checkpoint_seconds = 0.0
        self._checkpoint_at = float("-inf")
        self._total: UsageReport | None = None
        self._called = 0
        self._cut_turns = 0
        """How many turns, one after another, reached the output limit."""
        self._nudged = False
        self._announced = False

    async def items(self) -> AsyncIterator[SourceItem]:
        """Let the model work until it answers without a call; an interrupted loop cannot be continued."""
        if self._begun:
            return
        self._begun = True
        if (self._task.limits.max_turns or 0) > MAX_TURNS:
            yield Note(level="warning", text=f"At most {MAX_TURNS} turns are made, although `max_turns` is more.")
        keep_conversation(self._session_id, self._kept)
        yield Session(session_id=self._session_id)
        for turn in range(1, self._limit + 1):
            async with aclosing(self._turn(turn)) as items:  # type: ignore[type-var]
                async for item in items:
                    yield item
                    if isinstance(item, AgentFinished):
                        self._ended = True
                        return
        raise UnderstudyError(
            ErrorKind.BUDGET_EXHAUSTED,
            f"{self.subject} had not finished after {self._limit} turns (`max_turns`).",
            hint=f"Raise `max_turns` in the delegator's limits (at most {MAX_TURNS}), or delegate a smaller piece.",
        )

    async def _turn(self, turn: int) -> AsyncIterator[SourceItem]:
        async with aclosing(self._asked(first=turn == 1)) as items:  # type: ignore[type-var]
            async for item in items:
                yield item
        for message in self._said:
            yield MessageTaken(message_id=message.message_id)
        self._said = []
        calls = self._exchange.answer.calls() if self._exchange.answer.tools_offered else []
        if not calls:
            await self._checkpointed()
            for item in self._end(turn):
                yield item
            return
        if self._exchange.answer.cut:
            yield self._cut_turn(turn)
        else:
            self._cut_turns = 0
        self._called += len(calls)
        results: list[CallResult] = []
        async with aclosing(self._execute(calls, results, turn)) as items:  # type: ignore[type-var]
            async for item in items:
                yield item
        last = results[-1]
        text = f"{last.text}\n\n{instructions.countdown(turn, self._limit)}"
        results[-1] = CallResult(call_id=last.call_id, text=text, ok=last.ok)
        self._conversation.add(self._exchange.answer, results, self._take_messages() if turn < self._limit else None)
        self._begin_checkpoint()

    def _cut_turn(self, turn: int) -> Note:
        """Return the note about a turn that reached the output limit; raise the error for the second in a row."""
        self._cut_turns += 1
        if self._cut_turns >= MOST_CUT_TURNS:
            raise UnderstudyError(
                ErrorKind.OUTPUT_TRUNCATED,
                f"{self.subject} reached its output limit in {self._cut_turns} turns, one after another, before a call "
                "was complete.",
                hint="Raise `max_output_tokens` in the delegator's limits, or delegate a smaller piece.",
            )
        return Note(level="warning", text=f"Turn {turn} reached the output limit, so its calls were not executed.")

    async def _asked(self, *, first: bool) -> AsyncIterator[SourceItem]:
        """Send the conversation and yield the answer; without tools, or shortened, where the server wants that."""
        while True:
            self._exchange.body = self._conversation.body
            self._exchange.prompt = self._conversation.text
            if not first:
                # A local model may read the whole conversation again before its first word.
                first_event_seconds = self._task.limits.first_event_seconds or self._task.patience.first_event_seconds
                yield Heartbeat(grace_seconds=first_event_seconds)
            try:
                async with aclosing(self._answered()) as items:  # type: ignore[type-var]
                    async for item in items:
                        yield self._summed(item) if isinstance(item, UsageReport) else item
            except ToolsRefused as refused:
                if not first:
                    raise refused.error from None
                yield Note(level="info", text=f"{self.subject} cannot call tools here; it is asked for edits as text.")
                self._kept.conversation = self._begin(tools=False)
            except UnderstudyError as error:
                removed = self._conversation.compact() if error.kind is ErrorKind.CONTEXT_TOO_LONG else 0
                if not removed:
                    raise
                text = f"The conversation was too long for the model: {removed} old results were removed from it."
                yield Note(level="info", text=text)
            else:
                return

    async def _execute(
        self, calls: list[RequestedCall], results: list[CallResult], turn: int
    ) -> AsyncIterator[SourceItem]:
        """Execute the calls in their order, and yield what happens; there is one result for each."""
        await self._checkpointed()
        size = 0
        for number, call in enumerate(calls, 1):
            why = self._refusal(number, size)
            if why is not None:
                results.append(CallResult(call_id=call.call_id, text=why, ok=False))
                continue
            shown = f"{turn}.{number}"  # servers use the same ids again in the next turn
            yield ToolCall(call_id=shown, name=call.name, title=_title(call), input=call.arguments)
            yield Heartbeat(grace_seconds=self._toolbox.seconds(call) + 10)
            text, ok, events = await self._toolbox.execute(call)
            text = self.redactor.redact(text)
            if self._toolbox.sandbox is not None and not self._announced:
                self._announced = True
                yield AgentStarted(sandbox=self._toolbox.sandbox)
            for event in events:
                yield event
            yield ToolResult(call_id=shown, ok=ok, output=text)
            size += len(text)
            results.append(CallResult(call_id=call.call_id, text=text, ok=ok))
        left_out = len(calls) - sum(1 for result in results if not result.text.startswith("Not executed: "))
        if left_out and not self._exchange.answer.cut:
            yield Note(level="info", text=f"{left_out} of {len(calls)} calls of this turn were not executed.")

    def _refusal(self, number: int, size: int) -> str | None:
        if self._exchange.answer.cut:
            return _CUT
        if number > CALLS_PER_TURN:
            return f"Not executed: at most {CALLS_PER_TURN} calls are executed in one turn. Make it again."
        if size > RESULT_CHARACTERS_PER_TURN:
            return "Not executed: the results of this turn are long enough. Make the call again."
        return None

    def _end(self, turn: int) -> Sequence[SourceItem]:
        """Take an answer without calls: it ends the work, unless the user has said more, or its changes do not fit."""
        items = self._end_of_work()
        ends = any(isinstance(item, AgentFinished) for item in items)
        as_files = self._in_text and not self._called and not self._toolbox.changed  # written once
        user_text = self._take_messages() if ends and not as_files and turn < self._limit else None
        if user_text is None:
            return items
        self._kept.say(user_text)
        return [item for item in items if not isinstance(item, AgentFinished)]

    def _end_of_work(self) -> Sequence[SourceItem]:
        text = self.redactor.redact(self._exchange.answer.text)
        finished = AgentFinished(text=text, summary=text[:_SUMMARY_CHARACTERS] or None)
        try:
            self._kept.answer = self._exchange.answer
            blocks = edit_blocks.parse(text) if not self._called and self._toolbox.may_change else []
            if blocks:
                return [*self._toolbox.apply(blocks), finished]
        except ToolError as error:
            refusal = f"Nothing was changed:\n{error}\nAnswer again with all blocks."
            self._kept.say(refusal)
            return [Note(level="info", text=f"The edits of the model were refused: {error}"[:_SUMMARY_CHARACTERS])]
        if self._toolbox.changed or self._called:
            return [finished]
        if self._in_text and "```" in text:
            result, events = self._deliver(text)
            return [*events, result]
        if not text.strip() and self._nudged:
            raise UnderstudyError(
                ErrorKind.EMPTY_OUTPUT,
                f"{self.subject} finished without an answer.",
                hint="Retry, or choose another model.",
            )
        if self._nudged or (text.strip() and not self._toolbox.may_change):
            return [finished]
        self._nudged = True
        self._kept.say(instructions.nudge(edits=self._toolbox.may_change))
        return []

    # -- messages and checkpoints ------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """Take a message, which is part of the next request; raise ``invalid_params`` after the end."""
        if self._ended:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"{self.subject} has finished.", hint="Reply to its result instead."
            )
        self._inbox.append(message)

    def _take_messages(self) -> str | None:
        """Return what the user has said since the last request; None: nothing."""
        if not self._inbox:
            return None
        self._said += self._inbox
        self._inbox.clear()
        return instructions.said_by_user([message.text for message in self._said])

    def _begin_checkpoint(self) -> None:
        """Commit what changed while the model thinks, so that not even a killed worker loses it."""
        due = self._checkpoint_at + CHECKPOINT_SHARE * self._checkpoint_seconds
        if self._task.checkpoint is None or not self._toolbox.touched or time.monotonic() < due:
            return
        self._toolbox.touched = False
        self._checkpoint = asyncio.create_task(self._make_checkpoint())

    async def _make_checkpoint(self) -> None:
        began = time.monotonic()
        if self._task.checkpoint is not None:
            await self._task.checkpoint()
        self._checkpoint_at = time.monotonic()
        self._checkpoint_seconds = self._checkpoint_at - began

    async def _checkpointed(self, limit_seconds: float | None = None) -> None:
        """Wait for a checkpoint that is being made: nothing may change files meanwhile."""
        if self._checkpoint is not None:
            completed, _ = await asyncio.wait([self._checkpoint], timeout=limit_seconds)
            for checkpoint in completed:
                if not checkpoint.cancelled():
                    checkpoint.exception()  # the last checkpoint reports what is wrong
            self._checkpoint = None

    async def close(self) -> Sequence[Event]:
        """Wait for the checkpoint, and report the usage of an unfinished request."""
        self._ended = True
        await self._checkpointed(_CHECKPOINT_END_SECONDS)
        return [self._summed(report) for report in self._exchange.usage()]

    @property
    def _conversation(self) -> Conversation:
        return self._kept.conversation

    def _begin(self, *, tools: bool) -> Conversation:
        offered = self._toolbox.offered if tools else []
        edits = self._toolbox.may_change
        system = instructions.system_message(self._task.recipe, tools=bool(offered), edits=edits)
        return Conversation(self._dialect, self._task, system, offered)

    def _summed(self, report: UsageReport) -> UsageReport:
        """Return what all turns so far have used; a cost only if each of them has one."""
        answer = self._exchange.answer
        called = self._called + (len(answer.calls()) if answer.tools_offered else 0)
        total = report if self._total is None else budget.together(self._total, report)
        self._total = msgspec.structs.replace(total, tool_calls=called)
        return msgspec.structs.replace(self._total)


def _title(call: RequestedCall) -> str:
    """Return a call as a short line."""
    main = call.arguments.get("command") or call.arguments.get("path") or call.arguments.get("text") or ""
    line = " ".join(str(main).split())
    return f"{call.name} {line}".strip()[:_TITLE_CHARACTERS]


def _nothing(text: str) -> tuple[AgentFinished, Sequence[Event]]:
    return AgentFinished(text=text), []


class Conversation:
    """One conversation with one model: a request body that only grows, until its context is full.

    Providers cache the beginning of a conversation and bind thoughts to it, so nothing that was sent changes. Only when
    the server says that the conversation is too long are the oldest results replaced, half of them at once.
    """

    def __init__(self, dialect: Dialect, task: Task, system: str, tools: Sequence[ToolSpec]) -> None:
        """Begin it."""
        self._dialect = dialect
        self.body = dialect.body(task, system)
        dialect.offer(self.body, tools)
        if not tools:
            self.body.pop("tools", None)
        self._results: list[list[dict[str, Any]]] = []
        """The results of each turn, inside ``body``."""

    @property
    def text(self) -> str:
        """Everything that is sent, to estimate its tokens."""
        return msgspec.json.encode(self.body).decode("utf-8", "replace")

    def add(self, answer: Answer, results: Sequence[CallResult], said: str | None = None) -> None:
        """Append an answer, the results of its calls, and what is said to the model."""
        self._results.append(self._dialect.extend(self.body, answer.history(), results, said))

    def say(self, text: str) -> None:
        """Append what the user says after results, or after an answer that was not completed."""
        self._dialect.extend(self.body, [], [], text)

    def compact(self) -> int:
        """Replace the older half of the long results, but none of the last turn; return how many were replaced."""
        name = self._dialect.result_field
        long = [one for turn in self._results[:-1] for one in turn if len(str(one[name])) > _WORTH_REMOVING]
        oldest = long[: (len(long) + 1) // 2]
        for result in oldest:
            result[name] = REMOVED
        if oldest:
            self._dialect.forget_thoughts(self.body)
        return len(oldest)


@dataclass
class KeptConversation:
    """A conversation, and the last answer if nothing was said after it."""

    conversation: Conversation
    answer: Answer | None = None
    tools: bool = True

    def say(self, text: str) -> None:
        """Append what the user says."""
        if self.answer is not None:
            self.conversation.add(self.answer, [], text)
            self.answer = None
        else:
            self.conversation.say(text)


_kept: dict[str, KeptConversation] = {}


def keep_conversation(session_id: str, kept: KeptConversation) -> None:
    """Keep a conversation; the oldest is dropped when there are too many."""
    _kept.pop(session_id, None)
    _kept[session_id] = kept
    while len(_kept) > _MOST:
        del _kept[next(iter(_kept))]


def find_conversation(session_id: str | None) -> KeptConversation | None:
    """Return the conversation of a session of this process."""
    return _kept.get(session_id) if session_id is not None else None
