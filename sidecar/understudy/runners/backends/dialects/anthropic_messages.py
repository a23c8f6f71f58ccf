"""Anthropic's Messages (https://platform.claude.com/docs/en/api/messages), which several other servers support too.

Usage: ``input_tokens`` excludes what was read from or written to the cache. The counts of ``message_delta`` are
cumulative and complete what ``message_start`` has reported; some servers report everything only there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from understudy.model.delegation.events import Event
from understudy.runners.backends import dialects
from understudy.runners.backends.content import request_options
from understudy.runners.backends.content.streamed_answer import StreamedAnswer, part, parts
from understudy.runners.backends.content.tool_calls import CallResult, PartialCall, ToolSpec
from understudy.runners.runner import Task
from understudy.secrets import Redactor

VERSION = "2023-06-01"
"""The version of the API that every server of this protocol supports; newer ones refuse ``temperature``."""

MAX_BLOCKS = 4000
"""Blocks of one message that are kept."""
_CACHED = {"type": "ephemeral"}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


class Dialect(dialects.Dialect):
    """Builds the request and parses the answer."""

    protocols = frozenset({"anthropic"})
    path = "/messages"
    answer_field = "content"
    result_field = "content"

    def body(self, task: Task, system: str | None) -> dict[str, Any]:
        """Return the request body for ``task``."""
        body: dict[str, Any] = dict(task.delegator.model_properties or {})
        body |= {
            "model": task.delegator.model,
            "messages": [{"role": "user", "content": task.prompt}],
            "stream": True,
        }
        if system:
            body["system"] = system
        limit = task.limits.max_output_tokens or request_options.default_output_tokens(task.delegator.model)
        body.setdefault("max_tokens", limit)
        return body

    def probe(self, prompt: str, tokens: int) -> dict[str, Any]:
        """Return the body of a short request, without the model."""
        return {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens}

    def below(self, base: str, path: str) -> str:
        """Return where ``path`` is: addresses are given with and without ``/v1``, which Anthropic's clients add."""
        return path if base.rstrip("/").endswith("/v1") else "/v1" + path

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the version, and the key where Anthropic's own API expects it."""
        return {"anthropic-version": VERSION} | ({"x-api-key": key.strip()} if key and key.strip() else {})

    def relax(self, body: dict[str, Any], status: int, refusal: str) -> bool:
        """Return False: there is no optional field that only this protocol has."""
        _ = body, status, refusal
        return False

    def offer(self, body: dict[str, Any], tools: Sequence[ToolSpec]) -> None:
        """Add the tools, and mark what the server may cache: the system message, and the conversation so far."""
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
        if isinstance(body.get("system"), str):
            body["system"] = [{"type": "text", "text": body["system"], "cache_control": dict(_CACHED)}]
        first = body["messages"][0]
        first["content"] = [{"type": "text", "text": first["content"], "cache_control": dict(_CACHED)}]

    def extend(
        self, body: dict[str, Any], history: list[dict[str, Any]], results: Sequence[CallResult], user_text: str | None
    ) -> list[dict[str, Any]]:
        """Append an answer, the results of its calls and what the user says; the mark moves to their end."""
        added: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": result.call_id, "content": result.text}
            | ({} if result.ok else {"is_error": True})
            for result in results
        ]
        content = added if user_text is None else [*added, {"type": "text", "text": user_text}]
        _unmark(body["messages"])
        if content:
            content[-1]["cache_control"] = dict(_CACHED)
        body["messages"] += [*history, {"role": "user", "content": list(content)}]
        return added

    def forget_thoughts(self, body: dict[str, Any]) -> None:
        """Remove all thoughts: their signatures cover the history before them."""
        for message in body["messages"]:
            if message["role"] == "assistant":
                message["content"] = [block for block in message["content"] if block.get("type") not in _THOUGHTS]

    def answer(self, server: str, redactor: Redactor) -> MessagesStream:
        """Return the parser of one answer."""
        return MessagesStream(server, redactor)


def _unmark(messages: list[dict[str, Any]]) -> None:
    for message in messages:
        for block in message["content"]:
            if message["role"] == "user":
                block.pop("cache_control", None)


class MessagesStream(StreamedAnswer):
    """One answer, as far as it has been received."""

    done_marker: ClassVar[bool] = False

    blocks: dict[int, dict[str, Any]] = msgspec.field(default_factory=dict)
    """The blocks by their index; several may be open at once."""
    pieces: dict[tuple[int, str], list[str]] = msgspec.field(default_factory=dict)
    """What was added to the fields of blocks; joined at the end, because a server may send millions of pieces."""
    inputs: dict[int, PartialCall] = msgspec.field(default_factory=dict)
    """Index of a block → the call in it."""
    uncached: int | None = None
    """The input tokens that were neither read from the cache nor written to it."""

    def value(self, value: dict[str, Any]) -> list[Event]:
        """Take one decoded event, or a whole message that was not streamed."""
        if value.get("error"):  # also without `type`, as some proxies send it
            raise self.error(value["error"])
        match value.get("type"):
            case "error":
                raise self.error(value)
            case "message_start":
                self._take_usage(part(value, "message").get("usage"))
            case "content_block_start":
                return self._block(part(value, "content_block"), value.get("index"))
            case "content_block_delta":
                delta = part(value, "delta")
                self._grow(delta, value.get("index"))
                return self.say(delta.get("text")) or self.think(delta.get("thinking"))
            case "message_delta":
                self._stop(part(value, "delta").get("stop_reason"))
                self._take_usage(value.get("usage"))
            case "message_stop":
                self.done = True
            case "message":
                content = enumerate(parts(value, "content"))
                events = [event for index, block in content for event in self._block(block, index)]
                self._take_usage(value.get("usage"))
                self._stop(value.get("stop_reason"))
                return events
        return []

    def history(self) -> list[dict[str, Any]]:
        """Return the message with all its blocks, also empty and redacted thoughts, as they were received."""
        calls = {call.call_id: call for call in self.calls()}
        content = []
        for index, name in self.pieces:
            if index in self.blocks:
                begun = self.blocks[index]
                begun[name] = str(begun.get(name) or "") + "".join(self.pieces[index, name])
        self.pieces.clear()
        for index, block in sorted(self.blocks.items()):
            call = self.inputs.get(index)
            if call is not None:
                content.append({**block, "id": call.call_id, "input": calls[call.call_id].arguments})
            elif block.get("type") != "text" or block.get("text"):  # the protocol allows no empty text
                content.append(block)
        return [{"role": "assistant", "content": content}] if content else []

    def _grow(self, delta: dict[str, Any], index: Any) -> None:
        """Add a piece to its block."""
        if delta.get("type") == "input_json_delta" or "partial_json" in delta:
            self.take_call(index=index, arguments=delta.get("partial_json"))
            return
        block = self.blocks.get(index) if isinstance(index, int) else None
        for name in ("text", "thinking", "signature", "data"):
            piece = delta.get(name)
            if block is not None and isinstance(piece, str):
                self.pieces.setdefault((index, name), []).append(piece)
                if name in {"signature", "data"}:  # text and thoughts are counted where they are shown
                    self._count(piece)

    def _block(self, block: dict[str, Any], index: Any) -> list[Event]:
        index = index if isinstance(index, int) else len(self.blocks)
        if block and len(self.blocks) < MAX_BLOCKS:
            self._keep(block)
            self.blocks[index] = dict(block)
        if block.get("type") == "tool_use":
            # Servers that do not stream the arguments have them here.
            arguments = block.get("input") or None
            before = len(self.assembler.calls)
            self.take_call(index=index, call_id=block.get("id"), name=block.get("name"), arguments=arguments)
            if len(self.assembler.calls) > before:
                self.inputs[index] = self.assembler.calls[-1]
            else:
                self.blocks.pop(index, None)
        return self.say(block.get("text")) or self.think(block.get("thinking"))

    def _stop(self, reason: Any) -> None:
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
            self.refused = reason == "refusal"
            self.reached_limit = reason in {"max_tokens", "model_context_window_exceeded"}

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        self.take_counts(
            {
                "output_tokens": usage.get("output_tokens"),
                "cache_read_tokens": usage.get("cache_read_input_tokens"),
                "cache_write_tokens": usage.get("cache_creation_input_tokens"),
            }
        )
        count = usage.get("input_tokens")
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            self.uncached = count
        if self.uncached is not None:
            cached = (self.reported_usage.get(name, 0) for name in ("cache_read_tokens", "cache_write_tokens"))
            self.take_counts({"input_tokens": self.uncached + sum(cached)})
