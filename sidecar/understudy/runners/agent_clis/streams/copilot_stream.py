"""Parse the JSON lines of GitHub Copilot CLI.

The format was derived from the streams in ``tests/runners/recordings/copilot`` (1.0.102).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from understudy.model.delegation import events
from understudy.model.delegation.events import File, Phase, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.text import foreign_json
from understudy.model.tools import declared
from understudy.model.wire import snake
from understudy.runners.agent_clis.streams.stream_values import (
    MOST_ITEMS,
    RecordStream,
    WorktreePaths,
    bounded,
    failure,
    string,
    whole,
)
from understudy.runners.driver.source import AgentFinished, Heartbeat, SourceItem

CAPABILITIES = declared("copilot")
_MOST_USAGE_BYTES = 1 << 20
_KINDS = {
    "authentication": ErrorKind.AUTH_FAILED,
    "authorization": ErrorKind.AUTH_FAILED,
    "quota": ErrorKind.QUOTA_EXHAUSTED,
    "context_limit": ErrorKind.CONTEXT_TOO_LONG,
}
"""``errorType`` of an error → kind; for others, its status and its text decide."""
_WORDS = (
    (re.compile(r"^Error: No session\b", re.MULTILINE), ErrorKind.BAD_REQUEST),
    (re.compile(r"No authentication information|/login"), ErrorKind.AUTH_FAILED),
    (re.compile(r"Could not connect"), ErrorKind.CONNECTION_FAILED),
    (re.compile(r"unexpected EOF|error reading a body"), ErrorKind.STREAM_TRUNCATED),
    (re.compile(r"prompt as too long|exceeds the model's prompt budget"), ErrorKind.CONTEXT_TOO_LONG),
    (re.compile(r"^error: ", re.MULTILINE | re.IGNORECASE), ErrorKind.CONFIG_INVALID),
)
"""Texts of its own, on standard error or without a status; the first match counts."""
_MOST_RETRIES = 2
"""It would try five times more, for up to 70 s, and no setting turns that off. Claude Code has the same limit."""
_FILTERED = "returned no content because the response was blocked by content filtering"
"""What it says itself in place of an answer, in a message that was not streamed."""
_CHANGES: dict[str, Literal["added", "modified", "deleted"]] = {"create": "added", "delete": "deleted"}


class CopilotStream(RecordStream):
    """Parses the output of one run."""

    def __init__(self, tree: Path, session: str, usage: Path) -> None:
        """Start a run; paths are reported relative to ``tree``, and ``usage`` is the file for the tokens used."""
        self._tree = WorktreePaths(tree)
        self._session: str | None = session
        self._usage_file = usage
        self._streamed: set[str] = set()
        self._last_text = ""
        self._error: dict[str, Any] | None = None
        self._call: dict[str, Any] = {}
        """The last request that failed."""
        self._retries = 0
        """Of the current request."""
        self._has_result = False
        self._filtered = False
        self._turns = 0
        self._calls = 0

    def read(self, record: dict[str, Any]) -> Iterable[SourceItem]:
        """Return the events of a record; raise the failure of a request that it would try too often."""
        kind = record["type"]
        self._has_result |= kind == "result"
        read = self._EVENTS.get(kind)
        items = list(read(self, record["data"])) if read is not None else []
        if self._session is not None:
            items.insert(0, events.Session(session_id=self._session))
            self._session = None
        return items

    def ended(self, code: int, stderr: str) -> Sequence[SourceItem]:
        """Return the usage and the result: the last line of the output says that there is one."""
        used = self._used()
        if self._error is not None:
            return [*used, AgentFinished(error=failure_of(self._error))]
        if not self._has_result:
            error_kind = next((kind for words, kind in _WORDS if words.search(stderr)), None) if code else None
            return [AgentFinished(error=_at_start(stderr, error_kind))] if error_kind is not None else used
        if code != 0:
            return used
        if self._filtered:
            return [*used, AgentFinished(error=failure(CAPABILITIES, self._last_text, kind=ErrorKind.CONTENT_REFUSED))]
        return [*used, AgentFinished(text=self._last_text, summary=self._last_text or None)]

    def _text(self, data: dict[str, Any]) -> Iterator[SourceItem]:
        if data.get("parentToolCallId") is None:
            self._streamed.add(str(data["messageId"]))
            yield Text(text=string(data["deltaContent"]))
        else:
            yield Heartbeat()  # of a subagent

    def _thinking(self, data: dict[str, Any]) -> Iterator[SourceItem]:
        yield Thinking(text=string(data["deltaContent"]))

    def _message(self, data: dict[str, Any]) -> Iterator[SourceItem]:
        self._turns += 1
        self._retries = 0
        identifier = str(data["messageId"])
        if data.get("parentToolCallId") is None:
            self._last_text = string(data.get("content"))
            is_whole = identifier not in self._streamed
            self._filtered = is_whole and _FILTERED in self._last_text
            if is_whole and self._last_text and not self._filtered:
                yield Text(text=self._last_text)
        self._streamed.discard(identifier)

    def _tool_started(self, data: dict[str, Any]) -> Iterator[SourceItem]:
        self._calls += 1
        tool, arguments = str(data["toolName"]), data.get("arguments") or {}
        path = string(arguments.get("path"))
        shown = string(arguments.get("command")).strip() if tool in {"bash", "shell"} else ""
        first = shown.split("\n")[0][:160]
        title = f"Run {first}{'' if first == shown else ' …'}" if shown else string(data.get("toolTitle")) or tool
        if path and not shown:
            title = f"{title}: {self._tree.relative(path) or path}"[:200]
        yield ToolCall(call_id=str(data["toolCallId"]), name=tool, title=title, input=bounded(arguments))

    def _tool_ended(self, data: dict[str, Any]) -> Iterator[SourceItem]:
        succeeded = bool(data.get("success"))
        good = succeeded and (data.get("shellExecution") or {}).get("exitCode") in {None, 0}
        output = (data.get("result") or {}).get("content") if succeeded else (data.get("error") or {}).get("message")
        yield ToolResult(call_id=str(data["toolCallId"]), ok=good, output=string(output))
        for edit in (data.get("fileEdits") or [])[:MOST_ITEMS] if good else ():
            path = self._tree.relative(string(edit["path"]))
            if path is not None:
                yield File(path=path, change=_CHANGES.get(str(edit.get("kind")), "modified"))

    def _alive(self, _data: dict[str, Any]) -> Iterator[SourceItem]:
        yield Heartbeat()

    def _call_failed(self, data: dict[str, Any]) -> Iterator[SourceItem]:
        self._call = {**data}
        yield Heartbeat()

    def _retrying(self, data: dict[str, Any]) -> Iterator[SourceItem]:
        if self._call.get("source", "top_level") == "top_level":
            self._retries += 1
        if self._retries > _MOST_RETRIES:
            raise UnderstudyError.from_info(failure_of(_error_of_call(self._call)))
        yield Phase(text=f"The request failed ({string(data.get('reason'))[:100]}); retrying")

    def _compacting(self, _data: dict[str, Any]) -> Iterator[SourceItem]:
        yield Phase(text="Compacting its conversation")

    def _failed(self, data: dict[str, Any]) -> Iterator[SourceItem]:
        self._error = {**data}
        yield Heartbeat()

    def _turn_started(self, _data: dict[str, Any]) -> Iterator[SourceItem]:
        self._error = None  # the error did not end it
        yield Heartbeat()

    def _used(self) -> list[SourceItem]:
        """Return what the run used, if it wrote that."""
        try:
            with self._usage_file.open("rb") as file:
                models = msgspec.json.decode(file.read(_MOST_USAGE_BYTES))["modelMetrics"].values()
            usages = [model["usage"] for model in models]
            total: dict[str, Any] = {
                snake(name): sum(whole(usage.get(name)) for usage in usages)
                for name in ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
            }
        except (OSError, msgspec.MsgspecError, AttributeError, KeyError, TypeError):
            return []
        return [UsageReport(**total, turns=self._turns, tool_calls=self._calls)]

    _EVENTS = {  # noqa: RUF012 - never changed
        "assistant.turn_start": _turn_started,
        "assistant.message_delta": _text,
        "assistant.reasoning_delta": _thinking,
        "assistant.tool_call_delta": _alive,
        "assistant.message": _message,
        "assistant.turn_retry": _retrying,
        "model.call_start": _alive,
        "model.call_failure": _call_failed,
        "tool.execution_start": _tool_started,
        "tool.execution_partial_result": _alive,
        "tool.shell_output": _alive,
        "tool.execution_complete": _tool_ended,
        "session.compaction_start": _compacting,
        "session.error": _failed,
    }


def failure_of(error: Mapping[str, Any]) -> ErrorInfo:
    """Return the failure that a ``session.error`` reports."""
    text, status = string(error.get("message")), whole(error.get("statusCode"))
    kind = _KINDS.get(string(error.get("errorType")))
    if kind is None and not status:
        kind = next((error_kind for words, error_kind in _WORDS[2:-1] if words.search(text)), None)
    return failure(CAPABILITIES, text, kind=kind, status=status, of_request=error.get("errorType") == "query")


def _error_of_call(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ``session.error`` for a ``model.call_failure``, whose message is JSON."""
    message = string(data.get("errorMessage"))
    with contextlib.suppress(*foreign_json.UNREADABLE):
        told = foreign_json.decode(message)
        message = string(told.get("message") if isinstance(told, dict) else told) or message
    status = whole(data.get("statusCode"))
    return {"message": f"{status} {message}" if status else message, "statusCode": status}


def _at_start(stderr: str, kind: ErrorKind) -> ErrorInfo:
    if kind is ErrorKind.BAD_REQUEST:
        first = stderr.partition("\n")[0][:400]
        return ErrorInfo(kind, f"Copilot failed: {first}", "Start it again without the earlier session.")
    return failure(CAPABILITIES, stderr.partition("\n\n")[0], kind=kind)
