"""Understudy's own line format for agents: one JSON object per line on standard output, UTF-8, the last a ``result``.

    {"type": "session", "sessionId": "s1"}                      the agent's session id, for a follow-up
    {"type": "phase", "text": "Reading the module"}             current activity
    {"type": "thinking", "text": "…"}                           next part of its reasoning
    {"type": "text", "text": "…"}                               next part of its answer
    {"type": "plan", "entries": [{"content": "…", "status": "pending"}]}
    {"type": "tool_call", "callId": "1", "name": "write", "title": "Write x.py", "input": {…}}
    {"type": "tool_result", "callId": "1", "ok": true, "output": "…"}
    {"type": "file", "path": "tests/test_x.py", "change": "added"}     added, modified, deleted or renamed
    {"type": "usage", "inputTokens": 10, "outputTokens": 2, "turns": 1, "costUsd": "0.01"}   totals so far; all optional
    {"type": "note", "level": "warning", "text": "…"}           info, warning or error
    {"type": "result", "ok": true, "text": "…", "summary": "…"}        the end; both texts optional
    {"type": "result", "ok": false, "error": {"kind": "tool_missing", "message": "…", "hint": "…"}}

Unknown fields are ignored. Lines of other types and lines that are not JSON are not events: they are kept in the log
and do not count as progress. The exit code must agree: a successful ``result`` with a non-zero exit code is a crash.
"""

from __future__ import annotations

from typing import Any

import msgspec

from understudy.model.delegation import events
from understudy.model.delegation.events import Event, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.remedies import Remedy
from understudy.model.text import foreign_json
from understudy.model.wire import Wire, ready
from understudy.runners.driver.source import AgentFinished

REPORTABLE = frozenset(
    {
        *(
            "tool_missing",
            "tool_crashed",
            "auth_failed",
            "quota_exhausted",
            "rate_limited",
            "overloaded",
            "bad_request",
        ),
        *("context_too_long", "content_refused", "model_not_found", "connection_failed", "timed_out", "stalled"),
        *("stream_truncated", "output_truncated", "empty_output", "malformed_output", "budget_exhausted"),
        "resource_limit",
        *("permission_denied", "file_too_large", "input_empty", "config_invalid", "target_exists", "path_escape"),
    }
)
"""Kinds that an agent may report. Only Understudy decides the others: an agent cannot declare itself cancelled."""

_MAX_COUNT = 10**12


class _Error(Wire, kw_only=True):
    kind: str = "tool_crashed"
    message: str = ""
    hint: str | None = None
    remedy: Remedy | None = None


class _Result(Wire, tag_field="type", tag="result", kw_only=True):
    ok: bool
    text: str | None = None
    summary: str | None = None
    error: _Error | None = None


class _Usage(Wire, tag_field="type", tag="usage", kw_only=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    turns: int = 0
    tool_calls: int = 0
    cost_usd: str | None = None


_Line = (
    events.Text
    | events.Thinking
    | events.ToolCall
    | events.ToolResult
    | events.File
    | events.Plan
    | events.Session
    | events.Note
    | events.Phase
    | _Usage
    | _Result
)


class EventLines:
    """Parses the format above. Only an agent of Understudy says what a button does."""

    def __init__(self, *, is_ours: bool = False) -> None:
        """Create the decoder."""
        self._is_ours = is_ours
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ready(_Line))

    def line(self, line: bytes) -> list[Event | AgentFinished] | None:
        """Parse one line and return its events, None when it is not an event."""
        try:
            value = foreign_json.decode(line, self._decoder.decode)
        except foreign_json.UNREADABLE:
            return None
        if isinstance(value, _Result):
            if not self._is_ours and value.error is not None:
                value.error.remedy = None
            return [_finished(value)]
        if isinstance(value, _Usage):
            return [_usage(value)]
        # Only Understudy sets these fields.
        value.seq, value.at, value.attempt = events.UNSTAMPED, "", events.UNSTAMPED
        if isinstance(value, events.Note):
            value.hint, value.remedy, value.begins_again = None, None, False
        if isinstance(value, events.Phase):
            value.count = None
        return [value]


def _finished(result: _Result) -> AgentFinished:
    if result.ok:
        return AgentFinished(text=result.text, summary=result.summary)
    error = result.error or _Error(message="The agent reported a failure without a message.")
    kind = ErrorKind(error.kind) if error.kind in REPORTABLE else ErrorKind.TOOL_CRASHED
    reported = ErrorInfo(kind, error.message, error.hint, remedy=error.remedy)
    return AgentFinished(text=result.text, summary=result.summary, error=reported)


def _usage(usage: _Usage) -> UsageReport:
    counts: dict[str, Any] = {
        name: value if 0 <= value <= _MAX_COUNT else 0
        for name, value in msgspec.structs.asdict(usage).items()
        if isinstance(value, int)
    }
    return UsageReport(**counts, cost_usd=money(usage.cost_usd))


def money(value: str | None) -> str | None:
    """Return an amount as a decimal string, or None if it is not a plausible non-negative number."""
    import re

    return value if value is not None and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,12})?", value) else None
