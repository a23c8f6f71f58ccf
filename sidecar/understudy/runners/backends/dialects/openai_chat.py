"""OpenAI's chat completions, which nearly every model server supports.

``[DONE]`` is optional after ``finish_reason``: some servers never send it. Usage: the last value of each field wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from understudy.model.delegation.events import Event
from understudy.runners.backends import dialects
from understudy.runners.backends.content.streamed_answer import StreamedAnswer, part, parts
from understudy.runners.backends.content.tool_calls import CallResult, ToolSpec, parse_arguments
from understudy.runners.runner import Task
from understudy.secrets import Redactor

_CALL_FIELDS = frozenset({"index", "id", "type", "function"})


class Dialect(dialects.Dialect):
    """Builds the request and parses the answer."""

    protocols = frozenset({"openai"})
    path = "/chat/completions"
    answer_field = "choices"
    result_field = "content"

    def __init__(self) -> None:
        """Begin a conversation."""
        self._reasoned = False
        """Whether the server has sent ``reasoning_content``, or asked for it."""

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

    def probe(self, prompt: str, tokens: int) -> dict[str, Any]:
        """Return the body of a short request, without the model."""
        return {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens}

    def relax(self, body: dict[str, Any], status: int, refusal: str) -> bool:
        """Remove ``stream_options``, which older servers do not support; add reasoning that a server misses."""
        if status in {400, 422} and "reasoning_content" in refusal and not self._reasoned:
            # DeepSeek wants it back with every tool call, even if it was empty.
            self._reasoned = True
            asked = [
                message
                for message in body["messages"]
                if message.get("tool_calls") and "reasoning_content" not in message
            ]
            for message in asked:
                message["reasoning_content"] = ""
            return bool(asked)
        named = "stream_options" in refusal or "include_usage" in refusal
        return status in {400, 422} and named and body.pop("stream_options", None) is not None

    def offer(self, body: dict[str, Any], tools: Sequence[ToolSpec]) -> None:
        """Add the tools."""
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in tools
        ]

    def extend(
        self, body: dict[str, Any], history: list[dict[str, Any]], results: Sequence[CallResult], user_text: str | None
    ) -> list[dict[str, Any]]:
        """Append an answer, the results of its calls and what the user says."""
        self._reasoned = self._reasoned or any("reasoning_content" in message for message in history)
        if self._reasoned:
            for message in history:
                if message.get("tool_calls"):
                    message.setdefault("reasoning_content", "")
        added = [{"role": "tool", "tool_call_id": result.call_id, "content": result.text} for result in results]
        body["messages"] += [*history, *added]
        if user_text is not None:
            body["messages"].append({"role": "user", "content": user_text})
        return added

    def answer(self, server: str, redactor: Redactor) -> ChatStream:
        """Return the parser of one answer."""
        return ChatStream(server, redactor)


class ChatStream(StreamedAnswer):
    """One answer, as far as it has been received."""

    thoughts: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Field in which the server sent the model's thoughts → its pieces."""
    details: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """OpenRouter's blocks of thoughts, which may be signed."""

    def history(self) -> list[dict[str, Any]]:
        """Return the message as the server wants it back; arguments that are not JSON would be refused."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        self.calls()  # gives each call its id
        calls = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {
                    "name": call.name or "unknown",
                    "arguments": call.text if parse_arguments(call.text)[1] is None and call.text.strip() else "{}",
                },
                **call.more,
            }
            for call in self.assembler.calls
        ]
        if calls:
            message["tool_calls"] = calls
        message |= {name: "".join(pieces) for name, pieces in self.thoughts.items()}
        if self.details:
            message["reasoning_details"] = self.details
        return [message]

    def value(self, value: dict[str, Any]) -> list[Event]:
        """Take one decoded chunk, or a whole answer that was not streamed."""
        if value.get("error"):
            raise self.error(value["error"])
        if value.get("type") == "error" or ("choices" not in value and "code" in value and "message" in value):
            raise self.error(value)
        self._take_usage(value.get("usage"))
        events: list[Event] = []
        for choice in parts(value, "choices"):
            # Only one choice was requested; ignore any others.
            if not choice.get("index"):
                events += self._choice(choice)
        return events

    def _choice(self, choice: dict[str, Any]) -> list[Event]:
        delta = part(choice, "delta") or part(choice, "message")
        events = self.think(delta.get("reasoning")) or self.think(delta.get("reasoning_content"))
        for name in ("reasoning", "reasoning_content"):
            if isinstance(delta.get(name), str):
                self.thoughts.setdefault(name, []).append(delta[name])
        for detail in parts(delta, "reasoning_details"):
            self._detail(detail)
        events += self.say(_text_of(delta.get("content")))
        self._calls(delta)
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            self.refused = True
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
            self.refused = self.refused or reason == "content_filter"
            self.reached_limit = reason in {"length", "max_tokens"}
        return events

    def _calls(self, delta: dict[str, Any]) -> None:
        for piece in parts(delta, "tool_calls"):
            function = part(piece, "function")
            self.take_call(
                index=piece.get("index"),
                call_id=piece.get("id"),
                name=function.get("name"),
                arguments=function.get("arguments"),
            )
            more = {name: value for name, value in piece.items() if name not in _CALL_FIELDS}
            if more and self.assembler.calls:
                self.assembler.calls[-1].more |= more
        legacy = part(delta, "function_call")
        if legacy and not delta.get("tool_calls"):
            self.take_call(index=0, name=legacy.get("name"), arguments=legacy.get("arguments"))

    def _detail(self, detail: dict[str, Any]) -> None:
        """Keep a piece of OpenRouter's thoughts: pieces of one block have its index and type."""
        last = self.details[-1] if self.details else {}
        if last and all(last.get(name) == detail.get(name) for name in ("type", "index")):
            for name, value in detail.items():
                grows = name in {"text", "summary", "data"} and isinstance(last.get(name), str)
                if grows and isinstance(value, str):
                    last[name] += value
                elif value is not None:
                    last[name] = value
        else:
            self.details.append(dict(detail))

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        prompt_details, output_details = part(usage, "prompt_tokens_details"), part(usage, "completion_tokens_details")
        # DeepSeek's own name for it; OpenAI's wins.
        self.take_counts({"cache_read_tokens": usage.get("prompt_cache_hit_tokens")})
        self.take_counts(
            {
                "input_tokens": usage.get("prompt_tokens"),
                "output_tokens": usage.get("completion_tokens"),
                "cache_read_tokens": prompt_details.get("cached_tokens"),
                "cache_write_tokens": prompt_details.get("cache_write_tokens"),
                "reasoning_tokens": output_details.get("reasoning_tokens"),
            }
        )
        cost = usage.get("cost")  # OpenRouter's, in USD
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= 10**6:
            self.cost_usd = f"{cost:.9f}".rstrip("0").rstrip(".")


def _text_of(content: Any) -> str:
    """Return the text of ``content``: a string, or a list of parts as some servers send it."""
    if isinstance(content, str):
        return content
    return "".join(item["text"] for item in parts({"content": content}, "content") if isinstance(item.get("text"), str))
