"""What is sent to the model: a request body that only grows, until its context is full.

Providers cache the beginning of a conversation and bind thoughts to it, so nothing that was sent changes. Only when the
server says that the conversation is too long are the oldest results replaced, half of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from understudy.runners.backends.content.tool_calls import CallResult, ToolSpec
from understudy.runners.backends.dialects import Answer, Dialect
from understudy.runners.runner import Task

REMOVED = "[This result was removed because the conversation became too long. Make the call again if you need it.]"
_WORTH_REMOVING = 4 * len(REMOVED)


_MOST = 4
"""Delegators of one delegation whose conversations are kept; one may have tens of megabytes."""


class Conversation:
    """One conversation with one model."""

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
