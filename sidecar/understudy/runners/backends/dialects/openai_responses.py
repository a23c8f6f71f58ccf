"""OpenAI's Responses (https://platform.openai.com/docs/api-reference/responses-streaming)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from understudy.model.delegation.events import Event
from understudy.runners.backends import dialects
from understudy.runners.backends.content.streamed_answer import StreamedAnswer, part, parts
from understudy.runners.backends.content.tool_calls import CallResult, ToolSpec
from understudy.runners.runner import Task
from understudy.secrets import Redactor

_THOUGHTS = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})

MAX_ITEMS = 4000
"""Items of one response that are kept."""


class Dialect(dialects.Dialect):
    """Builds the request and parses the answer."""

    protocols = frozenset({"responses"})
    path = "/responses"
    answer_field = "output"
    result_field = "output"

    def body(self, task: Task, system: str | None) -> dict[str, Any]:
        """Return the request body for ``task``; the server is asked not to store the conversation."""
        body: dict[str, Any] = dict(task.delegator.model_properties or {})
        body |= {"model": task.delegator.model, "input": task.prompt, "stream": True}
        body.setdefault("store", False)
        if system:
            body["instructions"] = system
        if task.limits.max_output_tokens is not None:
            body.setdefault("max_output_tokens", task.limits.max_output_tokens)
        return body

    def probe(self, prompt: str, tokens: int) -> dict[str, Any]:
        """Return the body of a short request, without the model."""
        return {"input": prompt, "max_output_tokens": tokens, "store": False}

    def relax(self, body: dict[str, Any], status: int, refusal: str) -> bool:
        """Remove ``store`` or ``include``, which servers that store nothing may not know."""
        if status not in {400, 422}:
            return False
        for name, words in (("include", ("include", "encrypted_content")), ("store", ("store",))):
            if any(word in refusal for word in words) and body.pop(name, None) is not None:
                return True
        return False

    def offer(self, body: dict[str, Any], tools: Sequence[ToolSpec]) -> None:
        """Add the tools; ask for thoughts in a form that can be sent back, because the server stores nothing."""
        body["input"] = [{"type": "message", "role": "user", "content": body["input"]}]
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in tools
        ]
        body.setdefault("include", ["reasoning.encrypted_content"])

    def extend(
        self, body: dict[str, Any], history: list[dict[str, Any]], results: Sequence[CallResult], user_text: str | None
    ) -> list[dict[str, Any]]:
        """Append an answer, the results of its calls and what the user says."""
        added = [
            {"type": "function_call_output", "call_id": result.call_id, "output": result.text} for result in results
        ]
        body["input"] += [*history, *added]
        if user_text is not None:
            body["input"].append({"type": "message", "role": "user", "content": user_text})
        return added

    def answer(self, server: str, redactor: Redactor) -> ResponsesStream:
        """Return the parser of one answer."""
        return ResponsesStream(server, redactor)


class ResponsesStream(StreamedAnswer):
    """One answer, as far as it has been received."""

    done_marker: ClassVar[bool] = False

    items: dict[int, dict[str, Any]] = msgspec.field(default_factory=dict)
    """The complete items, by their place in the output."""

    def history(self) -> list[dict[str, Any]]:
        """Return the items as the server wants them back: thoughts only with their content, calls with valid JSON."""
        calls = {call.call_id: call for call in self.calls()}
        items: list[dict[str, Any]] = []
        for _, item in sorted(self.items.items()):
            kind = item.get("type")
            if kind == "function_call":
                call = calls.pop(str(item.get("call_id") or item.get("id")), None)
                if call is not None:
                    items.append(item if call.problem is None else {**item, "arguments": "{}"})
            elif kind != "reasoning" or item.get("encrypted_content") or item.get("content"):
                # Thoughts without content are only an id, which a server that stores nothing does not know.
                items.append(item)
        for call in calls.values():  # of a stream whose items were not completed
            text = "{}" if call.problem else msgspec.json.encode(call.arguments).decode()
            items.append({"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": text})
        if self.text and not any(item.get("type") == "message" for item in items):
            items.insert(0, {"type": "message", "role": "assistant", "content": self.text})
        return items

    def value(self, value: dict[str, Any]) -> list[Event]:
        """Take one decoded event, or a whole response that was not streamed."""
        kind = str(value.get("type"))
        if value.get("error"):
            raise self.error(value["error"])
        if kind == "error":
            raise self.error(value)
        if kind == "response.output_text.delta":
            return self.say(value.get("delta"))
        if kind in _THOUGHTS:
            return self.think(value.get("delta"))
        if kind == "response.output_item.added":
            self._item(part(value, "item"), value.get("output_index"))
        elif kind == "response.function_call_arguments.delta":
            self.take_call(index=value.get("output_index"), arguments=value.get("delta"))
        elif kind == "response.output_item.done":
            self._done(part(value, "item"), value.get("output_index"))
        elif kind == "response.refusal.delta":
            self.refused = True
        elif kind in {"response.completed", "response.incomplete", "response.failed"}:
            self._end(part(value, "response"))
        elif value.get("object") == "response":
            events = [event for index, item in enumerate(parts(value, "output")) for event in self._whole(item, index)]
            self._end(value)
            return events
        return []

    def _item(self, item: dict[str, Any], index: Any) -> None:
        """Take the beginning of an item."""
        if item.get("type") == "function_call":
            self.take_call(index=index, call_id=item.get("call_id") or item.get("id"), name=item.get("name"))
        elif str(item.get("type")).endswith("_call"):
            self.wants_tool = True

    def _done(self, item: dict[str, Any], index: Any) -> None:
        """Take a complete item; its arguments count, whatever the pieces were."""
        self._item(item, index)
        if item.get("type") == "function_call":
            self.take_call(index=index, arguments=item.get("arguments"), whole=True)
        if item and len(self.items) < MAX_ITEMS:
            self._keep(item)
            self.items[index if isinstance(index, int) else len(self.items)] = item

    def _whole(self, item: dict[str, Any], index: int) -> list[Event]:
        """Take an item of a response that was not streamed."""
        self._done(item, index)
        events: list[Event] = []
        for content in parts(item, "content"):
            if content.get("type") == "refusal":
                self.refused = True
            events += self.say(content.get("text"))
        return events

    def _end(self, response: dict[str, Any]) -> None:
        """Take the final state of the response; raise the error that it reports."""
        if response.get("error"):
            raise self.error(response["error"])
        if not self.items:
            for index, item in enumerate(parts(response, "output")):
                self._done(item, index)
        usage = part(response, "usage")
        self.take_counts(
            {
                "input_tokens": usage.get("input_tokens"),
                "output_tokens": usage.get("output_tokens"),
                "cache_read_tokens": part(usage, "input_tokens_details").get("cached_tokens"),
                "cache_write_tokens": part(usage, "input_tokens_details").get("cache_write_tokens"),
                "reasoning_tokens": part(usage, "output_tokens_details").get("reasoning_tokens"),
            }
        )
        self.done = True
        status = response.get("status")
        if status == "incomplete":
            self.finish_reason = str(part(response, "incomplete_details").get("reason"))
            self.refused = self.refused or self.finish_reason == "content_filter"
            self.reached_limit = self.finish_reason == "max_output_tokens"
        elif isinstance(self.asked_tokens, int):
            # llama-server says "completed" even then.
            self.reached_limit = self.reported_usage.get("output_tokens", 0) >= self.asked_tokens
        self.finish_reason = self.finish_reason or ("error" if status in ("failed", "cancelled") else str(status))
