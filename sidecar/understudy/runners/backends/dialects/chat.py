"""OpenAI's chat completions, which nearly every model server supports.

A stream succeeded only if its end was announced (``finish_reason``, or ``[DONE]``). ``[DONE]`` is optional after
``finish_reason``: some servers never send it. Usage: the last value of each field wins. For every field that must not
be null, some server sends null, so no field is assumed to be present.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from understudy.model.delegations import Usage, no_usage
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event, Text, Thinking
from understudy.model.text.sanitize import strip_controls
from understudy.runners.backends import http_errors
from understudy.runners.budgets import estimate_tokens, estimate_tokens_of
from understudy.runners.runner import Task
from understudy.secrets import Redactor

MAX_TEXT_CHARACTERS = 8 << 20
"""More than any model's output limit, and still small enough to keep in memory."""
_MAX_COUNT = 10**12


class Dialect:
    """Builds the request and parses the answer."""

    protocols = frozenset({"openai", "auto"})
    path = "/chat/completions"

    def body(self, task: Task, system: str | None) -> dict[str, Any]:
        """Return the request body for ``task``."""
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": task.prompt})
        body: dict[str, Any] = dict(task.delegator.model_properties or {})
        body |= {
            "model": task.delegator.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if task.limits.max_output_tokens is not None:
            body.setdefault("max_tokens", task.limits.max_output_tokens)
        return body

    def relax(self, body: dict[str, Any], status: int, refusal: str) -> bool:
        """Remove ``stream_options``, which older servers do not support."""
        named = "stream_options" in refusal or "include_usage" in refusal
        return status in {400, 422} and named and body.pop("stream_options", None) is not None

    def answer(self, server: str, redactor: Redactor) -> ChatStream:
        """Return the parser of one answer."""
        return ChatStream(server, redactor)


@dataclass
class ChatStream:
    """One answer, as far as it has been received."""

    server: str
    redactor: Redactor
    """Knows the key: a server that echoes the key must not get it into an error message."""
    parts: list[str] = field(default_factory=list)
    characters: int = 0
    events: int = 0
    """Number of complete data events, whatever their content."""
    finish_reason: str | None = None
    done: bool = False
    """``[DONE]`` was seen."""
    wants_tool: bool = False
    refused: bool = False
    reported_usage: dict[str, int] = field(default_factory=dict)
    cost_usd: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the answer's end was announced."""
        return self.finish_reason is not None or self.done

    @property
    def text(self) -> str:
        """The answer so far, byte for byte as the model wrote it."""
        return "".join(self.parts)

    def data(self, data: str) -> list[Event]:
        """Take the data of one event; raise ``malformed_output`` or the error that the server reported."""
        if data.strip() == "[DONE]":
            self.done = True
            return []
        try:
            value = msgspec.json.decode(data)
        except (msgspec.MsgspecError, RecursionError):
            shown = self.redactor.redact(strip_controls(data[: http_errors.SHOWN_CHARACTERS]))
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"Model server {self.server!r} sent an event that is not JSON: {shown}",
                hint="Retry; if it happens again, report it to the server's maintainers.",
            ) from None
        return self.value(value)

    def value(self, value: Any) -> list[Event]:
        """Take one decoded chunk, or a whole answer that was not streamed."""
        self.events += 1
        if not isinstance(value, dict):
            return []
        if value.get("error"):
            raise http_errors.reported(value["error"], self.server, self.redactor.redact)
        if value.get("type") == "error" or ("choices" not in value and "code" in value and "message" in value):
            raise http_errors.reported(value, self.server, self.redactor.redact)
        self._take_usage(value.get("usage"))
        events: list[Event] = []
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            # Only one choice was requested; ignore any others.
            if isinstance(choice, dict) and choice.get("index") in {0, None}:
                events += self._choice(choice)
        return events

    def failure(self) -> UnderstudyError | None:
        """Return why an answer cannot be used after its stream ended; None if it can (it may still be empty)."""
        name = self.server
        if not self.ended:
            what = (
                "before its first event"
                if self.events == 0
                else f"after {self.events} events without announcing its end"
            )
            return UnderstudyError(
                ErrorKind.STREAM_TRUNCATED, f"The answer of model server {name!r} ended {what}.", hint="Retry."
            )
        if self.refused or self.finish_reason == "content_filter":
            return UnderstudyError(
                ErrorKind.CONTENT_REFUSED,
                f"Model server {name!r} or its filter refused this content.",
                hint="Reword the task, or choose another model.",
            )
        if self.finish_reason in {"length", "max_tokens"}:
            return UnderstudyError(
                ErrorKind.OUTPUT_TRUNCATED,
                f"The model stopped at its output limit after {self.characters} characters.",
                hint="Raise `maxOutputTokens`, or delegate a smaller piece.",
            )
        if self.finish_reason == "error":
            return UnderstudyError(
                ErrorKind.OVERLOADED, f"Model server {name!r} ended the answer with an error.", hint="Retry."
            )
        if self.wants_tool and not self.text.strip():
            return UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                "The model tried to call a tool, but none was offered.",
                hint="Choose a model that answers in text.",
            )
        return None

    def usage(self, prompt: str) -> tuple[Usage, bool]:
        """Return the usage, and whether it is Understudy's estimate because the server did not report it."""
        usage = no_usage()
        usage.turns = 1
        for name, count in self.reported_usage.items():
            setattr(usage, name, count)
        known = "input_tokens" in self.reported_usage and "output_tokens" in self.reported_usage
        if not known:
            usage.input_tokens = self.reported_usage.get("input_tokens", estimate_tokens(prompt))
            usage.output_tokens = self.reported_usage.get("output_tokens", estimate_tokens_of(self.characters))
        return usage, not known

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
                events.append(Thinking(text=thought))
            content = _text_of(delta.get("content"))
            if content:
                self._count(content)
                self.parts.append(content)
                events.append(Text(text=content))
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
                hint="Set `maxOutputTokens`.",
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
