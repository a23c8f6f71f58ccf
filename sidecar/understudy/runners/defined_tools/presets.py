"""The rules for the events of ``codex exec --json`` and ``pi --mode json``, as a definition would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from understudy.model.config.tool_definitions import EventRule


@dataclass(frozen=True)
class Preset:
    """Rules for events, and what ends an attempt."""

    events: Sequence[EventRule]
    completes_by: Literal["result", "exit"]


def _item(kind: str, event: str = "item.completed") -> dict[str, str]:
    return {"type": event, "item.type": kind}


_CODEX = (
    EventRule(event="session", when={"type": "thread.started"}, session_id="thread_id"),
    EventRule(event="text", when=_item("agent_message"), text="item.text", whole=True),
    EventRule(event="thinking", when=_item("reasoning"), text="item.text"),
    EventRule(
        event="tool_call",
        when=_item("command_execution", "item.started"),
        call_id="item.id",
        name="item.type",
        title="item.command",
    ),
    EventRule(
        event="tool_result",
        when=_item("command_execution"),
        call_id="item.id",
        output="item.aggregated_output",
        failed={"item.status": ["failed", "declined"]},
    ),
    EventRule(
        event="tool_call",
        when=_item("mcp_tool_call", "item.started"),
        call_id="item.id",
        name="item.tool",
        input="item.arguments",
    ),
    EventRule(
        event="tool_result",
        when=_item("mcp_tool_call"),
        call_id="item.id",
        output="item.result.content[*].text",
        failed={"item.status": "failed"},
    ),
    EventRule(event="file", when=_item("file_change"), path="item.changes[*].path"),
    EventRule(
        event="plan",
        when={"type": ["item.started", "item.updated"], "item.type": "todo_list"},
        contents="item.items[*].text",
        statuses="item.items[*].completed",
    ),
    EventRule(
        event="usage",
        when={"type": "turn.completed"},
        input_tokens="usage.input_tokens",
        output_tokens="usage.output_tokens",
        cache_read_tokens="usage.cached_input_tokens",
        reasoning_tokens="usage.reasoning_output_tokens",
    ),
    EventRule(event="result", when={"type": "turn.completed"}),
    EventRule(event="failure", when={"type": "turn.failed"}, message="error.message"),
)

_ASSISTANT = {"type": "message_end", "message.role": "assistant"}

_PI = (
    EventRule(event="session", when={"type": "session"}, session_id="id"),
    EventRule(
        event="text",
        when={"type": "message_update", "assistantMessageEvent.type": "text_delta"},
        text="assistantMessageEvent.delta",
    ),
    EventRule(
        event="thinking",
        when={"type": "message_update", "assistantMessageEvent.type": "thinking_delta"},
        text="assistantMessageEvent.delta",
    ),
    EventRule(
        event="tool_call",
        when={"type": "tool_execution_start"},
        call_id="toolCallId",
        name="toolName",
        input="args",
    ),
    EventRule(
        event="tool_result",
        when={"type": "tool_execution_end"},
        call_id="toolCallId",
        output="result.content[*].text",
        failed={"isError": True},
    ),
    EventRule(
        event="usage",
        when=_ASSISTANT,
        input_tokens="message.usage.input",
        output_tokens="message.usage.output",
        cache_read_tokens="message.usage.cacheRead",
        cache_write_tokens="message.usage.cacheWrite",
        cost_usd="message.usage.cost.total",
    ),
    # It tries again after some failures, and exits with 0 after all of them: the last message decides.
    EventRule(event="result", when={**_ASSISTANT, "message.stopReason": "stop"}, text="message.content[*].text"),
    EventRule(
        event="failure",
        when={**_ASSISTANT, "message.stopReason": ["error", "aborted", "length"]},
        message="message.errorMessage",
    ),
)

PRESETS: Mapping[str, Preset] = {"codex": Preset(_CODEX, "result"), "pi": Preset(_PI, "exit")}
"""Dialect → its rules."""
