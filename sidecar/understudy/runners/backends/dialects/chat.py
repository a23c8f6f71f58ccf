"""The chat-completions stream, without I/O: data of events in, Understudy's events and the end out.

A stream succeeded only if its end was announced (``finish_reason``, or ``[DONE]``). ``[DONE]`` alone is optional: some
servers never send it. Usage: the last value of each field wins. Fields that no specification allows to be null are null
somewhere, so everything is read with care and nothing is believed to be present.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from understudy.model.delegations import Usage, no_usage
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event, Text, Thinking
from understudy.runners.backends import failures
from understudy.runners.base import estimate_tokens, plain
from understudy.secrets import Redactor

MAX_TEXT_CHARACTERS = 8 << 20
"""More than any model's output limit, and still harmless to hold."""
_MAX_COUNT = 10**12


@dataclass
class ChatStream:
    """What was received so far of one answer."""

    server: str
    redactor: Redactor
    """Knows the key: a server that sends it back must not bring it into a journal."""
    parts: list[str] = field(default_factory=list)
    characters: int = 0
    events: int = 0
    """Complete data events, whatever they held."""
    finish_reason: str | None = None
    done: bool = False
    """``[DONE]`` was seen."""
    wants_tool: bool = False
    refused: bool = False
    reported_usage: dict[str, int] = field(default_factory=dict)
    cost_usd: str | None = None

    def __post_init__(self) -> None:
        """Prepare for a key that arrives in pieces."""
        self._content = self.redactor.text_stream()
        self._thought = self.redactor.text_stream()

    @property
    def ended(self) -> bool:
        """Whether the answer's end was announced."""
        return self.finish_reason is not None or self.done

    @property
    def text(self) -> str:
        """The answer so far, byte for byte as the model wrote it."""
        return "".join(self.parts)

    def data(self, data: str) -> list[Event]:
        """Take the data of one event; raise ``malformed_output`` or what the server reported."""
        if data.strip() == "[DONE]":
            self.done = True
            return []
        try:
            value = msgspec.json.decode(data)
        except (msgspec.MsgspecError, RecursionError):
            shown = self.redactor.redact(plain(data[: failures.SHOWN_CHARACTERS]))
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"Model server {self.server!r} sent an event that is no JSON: {shown}",
                hint="Retry; if it happens again, report it to the server's maintainers.",
            ) from None
        return self.value(value)

    def value(self, value: Any) -> list[Event]:
        """Take one decoded chunk, or one whole answer that was not streamed."""
        self.events += 1
        if not isinstance(value, dict):
            return []
        if value.get("error"):
            raise failures.reported(value["error"], self.server, self.redactor.redact)
        if value.get("type") == "error" or ("choices" not in value and "code" in value and "message" in value):
            raise failures.reported(value, self.server, self.redactor.redact)
        self._take_usage(value.get("usage"))
        events: list[Event] = []
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            # One answer was asked for; a second choice is not part of it.
            if isinstance(choice, dict) and choice.get("index") in {0, None}:
                events += self._choice(choice)
        return events

    def finish(self) -> list[Event]:
        """Return what was held back until the stream was over."""
        return [*self._think(self._thought.finish()), *self._say(self._content.finish())]

    def failure(self) -> UnderstudyError | None:
        """Return why an answer whose stream is over cannot be used; None for a good one (which may still be empty)."""
        name = self.server
        if not self.ended:
            what = (
                "before its first event"
                if self.events == 0
                else f"after {self.events} events, without announcing its end"
            )
            return UnderstudyError(
                ErrorKind.STREAM_TRUNCATED, f"The answer of model server {name!r} broke off {what}.", hint="Retry."
            )
        if self.refused or self.finish_reason == "content_filter":
            return UnderstudyError(
                ErrorKind.CONTENT_REFUSED,
                f"Model server {name!r} or its filter refused this content.",
                hint="Change the task's wording, or choose another model.",
            )
        if self.finish_reason in {"length", "max_tokens"}:
            return UnderstudyError(
                ErrorKind.OUTPUT_TRUNCATED,
                f"The model stopped at its output limit after {self.characters} characters.",
                hint="Raise maxOutputTokens, or delegate a smaller piece.",
            )
        if self.finish_reason == "error":
            return UnderstudyError(
                ErrorKind.OVERLOADED, f"Model server {name!r} ended the answer with an error.", hint="Retry."
            )
        if self.wants_tool and not self.text.strip():
            return UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                "The model called a tool although none was offered.",
                hint="Choose a model that answers in text.",
            )
        return None

    def usage(self, prompt: str) -> tuple[Usage, bool]:
        """Return what was used, and whether that is Understudy's estimate because the server did not say."""
        usage = no_usage()
        usage.turns = 1
        for name, count in self.reported_usage.items():
            setattr(usage, name, count)
        known = "input_tokens" in self.reported_usage and "output_tokens" in self.reported_usage
        if not known:
            usage.input_tokens = self.reported_usage.get("input_tokens", estimate_tokens(prompt))
            usage.output_tokens = self.reported_usage.get("output_tokens", self.characters // 4 + bool(self.characters))
        return usage, not known

    def _say(self, text: str) -> list[Event]:
        if not text:
            return []
        self.parts.append(text)
        return [Text(text=plain(text))]

    @staticmethod
    def _think(text: str) -> list[Event]:
        return [Thinking(text=plain(text))] if text else []

    def _choice(self, choice: dict[str, Any]) -> list[Event]:
        events: list[Event] = []
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")
        if isinstance(delta, dict):
            thought = delta.get("reasoning")
            if not isinstance(thought, str) or not thought:
                thought = delta.get("reasoning_content")
            if isinstance(thought, str) and thought:
                self._count(thought)
                events += self._think(self._thought.feed(thought))
            content = _text_of(delta.get("content"))
            if content:
                self._count(content)
                events += self._say(self._content.feed(content))
            if delta.get("tool_calls") or delta.get("function_call"):
                self.wants_tool = True
            if isinstance(delta.get("refusal"), str) and delta["refusal"]:
                self.refused = True
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
        return events

    def _count(self, text: str) -> None:
        self.characters += len(text)
        if self.characters > MAX_TEXT_CHARACTERS:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"The model's answer is longer than {MAX_TEXT_CHARACTERS} characters; it was cut off.",
                hint="Set maxOutputTokens.",
            )

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        prompt_details = usage.get("prompt_tokens_details")
        output_details = usage.get("completion_tokens_details")
        prompt_details = prompt_details if isinstance(prompt_details, dict) else {}
        output_details = output_details if isinstance(output_details, dict) else {}
        for name, value in (
            ("input_tokens", usage.get("prompt_tokens")),
            ("output_tokens", usage.get("completion_tokens")),
            # DeepSeek's own name for it, then OpenAI's.
            ("cache_read_tokens", usage.get("prompt_cache_hit_tokens")),
            ("cache_read_tokens", prompt_details.get("cached_tokens")),
            ("cache_write_tokens", prompt_details.get("cache_write_tokens")),
            ("reasoning_tokens", output_details.get("reasoning_tokens")),
        ):
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT:
                self.reported_usage[name] = value
        cost = usage.get("cost")  # OpenRouter's, in USD
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= 10**6:
            self.cost_usd = f"{cost:.9f}".rstrip("0").rstrip(".")


def _text_of(content: Any) -> str:
    """Return the text of ``content``: a string, or a list of parts as some servers send it."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""
