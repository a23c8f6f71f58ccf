"""Conversations that a later attempt of the same worker may continue; they end with the process."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.runners.backends.dialects import Answer
from understudy.runners.model_loop.conversation import Conversation

_MOST = 4
"""Delegators of one delegation whose conversations are kept; one may have tens of megabytes."""


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


def keep(session_id: str, kept: KeptConversation) -> None:
    """Keep a conversation; the oldest is dropped when there are too many."""
    _kept.pop(session_id, None)
    _kept[session_id] = kept
    while len(_kept) > _MOST:
        del _kept[next(iter(_kept))]


def find(session_id: str | None) -> KeptConversation | None:
    """Return the conversation of a session of this process."""
    return _kept.get(session_id) if session_id is not None else None
