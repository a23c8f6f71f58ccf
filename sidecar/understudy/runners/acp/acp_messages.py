"""Read what an ACP agent sends about its tools, its usage and its failures, with the models of the protocol's SDK.

An agent reports a failure in one of three ways: as an error of the request (with a code, and ``data`` of its own), as
a stop reason, or as ``end_turn`` with the error as its answer. ``tests/runners/acp`` has recordings of each.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from acp import schema

from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import PermissionKind
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import Event, File, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.text import foreign_json
from understudy.runners.agent_clis.streams.stream_values import (
    MOST_ITEMS,
    WorktreePaths,
    bounded,
    failure,
    shortened,
    string,
    whole,
)
from understudy.runners.runner import Question

CANCELLED = "understudy:cancelled"
"""Id of the option that rejects where the agent offers none: the question is then answered as cancelled."""
_LONGEST_DETAIL = 4000
_LONGEST_OUTPUT = 1 << 20
_LONGEST_TITLE = 200
_KINDS: Mapping[str, PermissionKind] = {
    "read": "read",
    "search": "read",
    "edit": "edit",
    "delete": "edit",
    "move": "edit",
    "execute": "execute",
    "fetch": "fetch",
}
"""``kind`` of a tool call → kind of the permission; all others: ``other``."""
_CHANGES: Mapping[str, Literal["modified", "deleted", "renamed"]] = {
    "edit": "modified",
    "delete": "deleted",
    "move": "renamed",
}
_COMMANDS = ("command", "cmd", "script")
"""Members of a tool's input with a command line, or its words."""
_OUTPUTS = ("output", "content", "text", "stdout", "formatted_output", "error", "message")
"""Members of a tool's output with a text."""
_AUTH_REQUIRED = -32000
_INVALID = frozenset({-32602, -32600, -32601})
"""Invalid parameters or request, and unknown method."""
_DATA_KINDS = {
    # opencode: ``errorName``
    "ContextOverflowError": ErrorKind.CONTEXT_TOO_LONG,
    "ProviderAuthError": ErrorKind.AUTH_FAILED,
    "ProviderModelNotFoundError": ErrorKind.MODEL_NOT_FOUND,
    "MessageOutputLengthError": ErrorKind.OUTPUT_TRUNCATED,
    # Claude's adapter: ``errorKind``
    "authentication_failed": ErrorKind.AUTH_FAILED,
    "billing_error": ErrorKind.QUOTA_EXHAUSTED,
    "rate_limit": ErrorKind.RATE_LIMITED,
    "overloaded": ErrorKind.OVERLOADED,
    "server_error": ErrorKind.OVERLOADED,
    "model_not_found": ErrorKind.MODEL_NOT_FOUND,
    "max_output_tokens": ErrorKind.OUTPUT_TRUNCATED,
}
_HTTP = re.compile(r"\bHTTP ([45]\d\d)\b")
_TEXTS = ("details", "detail", "message", "error", "reason")
"""Members of ``data`` with a text."""
_STATUSES = ("statusCode", "status", "httpStatus", "httpStatusCode")
_RETRIES = ("resetsAt", "retryAt")
"""Members of ``data`` with the time, in epoch seconds, at which a used-up limit is lifted."""


@dataclass
class Call:
    """A tool call, as all messages about it describe it: later ones replace what they name."""

    call_id: str
    title: str = ""
    kind: str = "other"
    input: Any = None
    output: str = ""
    """The text in what the tool returned."""
    text: str = ""
    """The text among its contents."""
    locations: list[str] = field(default_factory=list)
    edits: dict[str, Literal["added", "modified"]] = field(default_factory=dict)
    """Path of each diff → what it does to the file."""
    announced: bool = False
    ended: bool = False

    def update(self, update: schema.ToolCall | schema.ToolCallUpdate) -> None:
        """Take over what a message says."""
        self.title = update.title or self.title
        self.kind = update.kind or self.kind
        if update.raw_input not in (None, {}, "", []):
            self.input = update.raw_input
        if update.raw_output is not None:
            self.output = _output(update.raw_output)[:_LONGEST_OUTPUT]
        if update.locations:
            self.locations = [location.path for location in update.locations[:MOST_ITEMS]]
        if update.content is None:
            return
        texts = []
        for block in update.content[:MOST_ITEMS]:
            if isinstance(block, schema.ContentToolCallContent):
                texts.append(_text_of(block.content))
            elif isinstance(block, schema.FileEditToolCallContent) and len(self.edits) < MOST_ITEMS:
                self.edits.setdefault(block.path, "modified" if block.old_text else "added")
        self.text = "".join(texts)[:_LONGEST_OUTPUT]

    def paths(self, tree: WorktreePaths) -> list[str]:
        """Return the files that it reads or changes: relative where they are inside the worktree."""
        paths = dict.fromkeys([*self.edits, *self.locations])
        return [tree.relative(path) or path for path in paths]

    @property
    def command(self) -> str | None:
        """The command line that it executes; some agents show it as the title only."""
        if self.kind != "execute":
            return None
        arguments = self.input if isinstance(self.input, dict) else {}
        for name in _COMMANDS:
            words = arguments.get(name)
            if isinstance(words, str) and words:
                return words
            if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
                return shlex.join(words)
        return self.title or None

    def begin(self, tree: WorktreePaths) -> Iterator[Event]:
        """Yield its beginning, once."""
        if not self.announced:
            self.announced = True
            title = self._title(tree)
            arguments = self.input if isinstance(self.input, dict) else {"input": self.input} if self.input else {}
            yield ToolCall(call_id=self.call_id, name=self.kind, title=title, input=bounded(arguments))

    def end(self, tree: WorktreePaths, *, ok: bool) -> Iterator[Event]:
        """Yield its result and the files that it changed, once."""
        if self.ended:
            return
        self.ended = True
        yield ToolResult(call_id=self.call_id, ok=ok, output=self.text or self.output)
        changes: dict[str, Any] = dict(self.edits)
        if not changes and self.kind in _CHANGES:
            changes = dict.fromkeys(self.locations, _CHANGES[self.kind])
        for path, change in changes.items() if ok else ():
            relative = tree.relative(path)
            if relative is not None:
                yield File(path=relative, change=change)
        self.input, self.output, self.text = None, "", ""  # not needed again; a turn may have many calls

    def question(self, question_id: str, options: list[schema.PermissionOption], tree: WorktreePaths) -> Question:
        """Return the permission request about it."""
        paths, command = self.paths(tree), self.command
        kind = _KINDS.get(self.kind, "other")
        offered = [PermissionOption(id=option.option_id, title=option.name, kind=option.kind) for option in options]
        if not any(option.kind.startswith("reject") for option in offered):
            offered.append(PermissionOption(id=CANCELLED, title="Reject", kind="reject_once"))
        lines = [f"command: {shortened(command, _LONGEST_DETAIL)}"] if command else []
        lines += [f"file: {path}" for path in paths]
        arguments = self.input if isinstance(self.input, dict) else {}
        for name in ("diff", "url", "description", "justification", "reason"):
            if string(arguments.get(name)):
                lines.append(f"{name}: {shortened(string(arguments.get(name)), _LONGEST_DETAIL)}")
        if self.text:
            lines.append(shortened(self.text, _LONGEST_DETAIL))
        return Question(
            question_id=question_id,
            title=self._title(tree),
            detail="\n".join(lines),
            options=offered,
            tool=self.kind,
            kind=kind,
            command=command,
            paths=(paths or None) if kind in {"read", "edit"} else None,
        )

    def _title(self, tree: WorktreePaths) -> str:
        """Return what it does, in a line; agents title an edit with the path or the name of the tool."""
        if (command := self.command) is not None:
            first, *more = command.strip().split("\n")
            return f"Run {first[:_LONGEST_TITLE]}{' …' if more or len(first) > _LONGEST_TITLE else ''}"
        verb = {"edit": "Edit", "delete": "Delete", "move": "Move", "read": "Read"}.get(self.kind)
        paths = self.paths(tree)
        shown = f"{verb} {', '.join(paths[:3])}" if verb and paths else " ".join(self.title.split())
        return shown[:_LONGEST_TITLE] or self.kind


def usage_of(usage: schema.Usage | None, meta: Any, *, calls: int, cost_usd: str | None) -> UsageReport | None:
    """Return the usage of a turn, from its ``usage`` or Gemini's ``_meta.quota``; None if neither reports it.

    Agents count differently: whether the input includes what was cached, and the output what the model thought, shows
    in the total.
    """
    if usage is not None:
        read, written = whole(usage.cached_read_tokens), whole(usage.cached_write_tokens)
        thought = whole(usage.thought_tokens)
        input_tokens, out, total = whole(usage.input_tokens), whole(usage.output_tokens), whole(usage.total_tokens)
        if input_tokens + out not in {total, total - thought} or not total:
            input_tokens += read + written
        if input_tokens + out + thought == total:
            out += thought
    elif (counted := quota_of(meta)) is not None:
        read = written = thought = 0
        input_tokens, out = (whole(counted.get(name)) for name in ("input_tokens", "output_tokens"))
    else:
        return None
    return UsageReport(
        input_tokens=input_tokens,
        output_tokens=out,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=thought,
        turns=1,
        tool_calls=calls,
        cost_usd=cost_usd,
    )


def added(before: UsageReport | None, turn: UsageReport) -> UsageReport:
    """Return the usage of all turns; the tool calls and the cost of ``turn`` include those before."""
    if before is None:
        return turn
    counts = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "turns")
    summed = {name: getattr(before, name) + getattr(turn, name) for name in counts}
    return msgspec.structs.replace(turn, **summed)


def quota_of(meta: Any) -> dict[str, Any] | None:
    """Return ``quota.token_count`` of a ``_meta``, None without one."""
    quota = meta.get("quota") if isinstance(meta, dict) else None
    counted = quota.get("token_count") if isinstance(quota, dict) else None
    return counted if isinstance(counted, dict) else None


def _text_of(content: Any) -> str:
    return content.text if isinstance(content, schema.TextContentBlock) else ""


def _output(value: Any) -> str:
    """Return the text in a tool's raw output."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        output = next((value[name] for name in _OUTPUTS if isinstance(value.get(name), str) and value[name]), None)
        if output is not None:
            return str(output)
    return shortened(msgspec.json.encode(bounded(value)).decode(), _LONGEST_DETAIL) if value else ""


def failure_of_error(tool: Capabilities, error: Any, logins: Sequence[str] = ()) -> ErrorInfo:
    """Return the failure that the ``error`` of a response reports; ``logins``: how the agent offers to log in."""
    error = error if isinstance(error, dict) else {}
    raw_data = error.get("data")
    data: Mapping[str, Any] = raw_data if isinstance(raw_data, dict) else {}
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 0
    status = next((data[name] for name in _STATUSES if _is_status(data.get(name))), status)
    texts = [_message(string(error.get("message"))), *(string(data.get(name)) for name in _TEXTS), string(raw_data)]
    text = ": ".join(dict.fromkeys(word.strip() for word in texts if word.strip()))
    kind = next(
        (_DATA_KINDS[value] for value in data.values() if isinstance(value, str) and value in _DATA_KINDS), None
    )
    if code == _AUTH_REQUIRED and kind is None:
        kind = ErrorKind.AUTH_FAILED
    resets = next((data[name] for name in _RETRIES if isinstance(data.get(name), int | float)), None)
    reported = failure(tool, text, kind=kind, status=status, resets_at=resets)
    if reported.kind is ErrorKind.TOOL_CRASHED and code in _INVALID:
        return msgspec.structs.replace(reported, kind=ErrorKind.BAD_REQUEST)
    if reported.kind is ErrorKind.AUTH_FAILED and logins:
        return msgspec.structs.replace(reported, hint=f"{reported.hint} It offers: {'; '.join(logins)}.")
    return reported


def failure_of_stop(tool: Capabilities, reason: schema.StopReason, *, rejected: bool) -> ErrorInfo | None:
    """Return the failure that a stop reason means, None for ``end_turn``; ``rejected``: whether a question was."""
    if reason == "end_turn":
        return None
    if reason == "max_tokens":
        hint = "Delegate a smaller piece, or raise the output limit of its model."
        return _failed(tool, ErrorKind.OUTPUT_TRUNCATED, "its model reached its output limit", hint)
    if reason == "max_turn_requests":
        hint = "Delegate a smaller piece, or raise the limit in its own settings."
        return _failed(tool, ErrorKind.BUDGET_EXHAUSTED, "it reached its own limit of requests", hint)
    if reason == "refusal":
        return _failed(tool, ErrorKind.CONTENT_REFUSED, "it refused the task", "Reword the task.")
    if rejected:
        hint = "Allow what it asks, or choose another permission mode."
        return _failed(tool, ErrorKind.PERMISSION_DENIED, "it ended after a rejected question", hint)
    return ErrorInfo(ErrorKind.TOOL_CRASHED, f"{tool.title} was interrupted.", "Try again.")


def failure_of_answer(tool: Capabilities, text: str) -> ErrorInfo:
    """Return the failure of a turn in which no model answered; ``text`` is what the agent wrote instead."""
    if not text.strip():
        return _failed(tool, ErrorKind.EMPTY_OUTPUT, "it ended its turn without an answer of its model", "Retry.")
    status = _HTTP.search(text)
    return failure(tool, _message(text.strip()), status=int(status[1]) if status is not None else 0)


def _message(text: str) -> str:
    """Return the message inside an error that is JSON, as model servers send it; any other text as it is."""
    try:
        decoded = foreign_json.decode(text)
    except foreign_json.UNREADABLE:
        return text
    inner = decoded.get("error") if isinstance(decoded, dict) else None
    words = [string(inner.get(name)) for name in ("code", "status", "message")] if isinstance(inner, dict) else []
    return " ".join(word for word in words if word) or text


def _is_status(value: Any) -> bool:
    return isinstance(value, int) and 400 <= value < 600


def _failed(tool: Capabilities, kind: ErrorKind, what: str, hint: str) -> ErrorInfo:
    return ErrorInfo(kind, f"{tool.title} failed: {what}.", hint)
