"""Parse the JSON lines of ``opencode run --format json``.

The format was derived from the streams in ``tests/runners/recordings/opencode``. No line announces the end: a run has
finished when its last ``step_finish`` has the reason ``stop`` and the exit code is 0. Subagents are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.delegation import events
from understudy.model.delegation.events import File, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.tools import declared
from understudy.runners.agent_clis.streams.stream_values import (
    MOST_ITEMS,
    RecordStream,
    WorktreePaths,
    bounded,
    failure,
    string,
    whole,
)
from understudy.runners.driver.source import AgentFinished, SourceItem

CAPABILITIES = declared("opencode")
_KINDS = {
    "ProviderAuthError": ErrorKind.AUTH_FAILED,
    "ContextOverflowError": ErrorKind.CONTEXT_TOO_LONG,
    "MessageOutputLengthError": ErrorKind.OUTPUT_TRUNCATED,
    "ContentFilterError": ErrorKind.CONTENT_REFUSED,
    "ProviderModelNotFoundError": ErrorKind.MODEL_NOT_FOUND,
    "ProviderInitError": ErrorKind.CONFIG_INVALID,
}
"""``error.name`` → kind; the HTTP status and the text decide the others."""
_REASONS = {
    "length": (ErrorKind.OUTPUT_TRUNCATED, "The model stopped at its output limit."),
    "content-filter": (ErrorKind.CONTENT_REFUSED, "The model's filter stopped the answer."),
}
"""Reason of the last step → failure."""
_VERBS = {"write": "Write", "edit": "Edit", "read": "Read", "list": "List", "webfetch": "Fetch", "glob": "Find",
          "grep": "Search", "skill": "Use", "task": "Ask"}  # fmt: skip
"""Tool → the first word of its title."""
_SUBJECTS = ("filePath", "path", "pattern", "url", "name", "description")
"""Inputs of tools that say what they work on, the most telling first."""
_CHANGES = {"add": "added", "delete": "deleted", "move": "renamed", "update": "modified"}
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_LOGGED = re.compile(r'ref=(\w+) error="(\w+): ((?:[^"\\]|\\.)*)"')
"""A line of its log on standard error: the reference, the name and the text of an error that it does not print."""


class OpencodeStream(RecordStream):
    """Parses the output of one run."""

    def __init__(self, tree: Path) -> None:
        """Start a run; paths are reported relative to ``tree``."""
        self._tree = WorktreePaths(tree)
        self._session = ""
        self._used = dict.fromkeys(("input", "output", "reasoning", "read", "write"), 0)
        self._cost = 0.0
        self._turns = 0
        self._calls = 0
        self._message = ""
        """The message that the last text belongs to."""
        self._text = ""
        """The texts of that message."""
        self._reason = ""
        """Why the last step ended; empty while one runs."""
        self._error: ErrorInfo | None = None
        self._reference = ""
        """What the log calls the error, if only that explains it."""

    def read(self, record: dict[str, Any]) -> Iterable[SourceItem]:
        """Return the events of a record; raise ``context_too_long`` when the conversation does not fit.

        opencode would compact it and try again, without a limit, and end with a failure even if that helped.
        """
        items = list(self._parse(record))
        if self._error is not None and self._error.kind is ErrorKind.CONTEXT_TOO_LONG:
            raise UnderstudyError.from_info(self._error)
        return items

    def ended(self, code: int, stderr: str) -> list[SourceItem]:
        """Return how a program ended that exited with ``code``."""
        if self._error is None and code == 0 and self._reason == "stop":
            return [AgentFinished(text=self._text, summary=self._text or None)]
        error = (_failure_in_log(stderr, self._reference) if self._reference else None) or self._error
        if error is None and self._reason in _REASONS:
            kind, text = _REASONS[self._reason]
            error = failure(CAPABILITIES, text, kind=kind)
        if error is None and code != 0:
            error = _failure_on_stderr(stderr)
        return [AgentFinished(error=error)] if error is not None else []

    def _parse(self, event: dict[str, Any]) -> Iterator[SourceItem]:
        session = string(event.get("sessionID"))
        if session and not self._session:
            self._session = session
            yield events.Session(session_id=session)
        kind = event["type"]
        if kind == "error":
            self._error = failure_of(event["error"], event.get("timestamp"))
            self._reference = string((event["error"].get("data") or {}).get("ref"))
            return
        part = event["part"]
        if kind == "step_start":
            self._reason = ""
        elif kind == "text":
            yield from self._said(part)
        elif kind == "reasoning":
            yield Thinking(text=string(part["text"]))
        elif kind == "tool_use":
            yield from self._tool(string(part["tool"]), str(part["callID"]), part["state"])
        elif kind == "step_finish":
            yield from self._step(part)

    def _said(self, part: dict[str, Any]) -> Iterator[SourceItem]:
        text, message = string(part["text"]), string(part.get("messageID"))
        if not text:
            return
        earlier = self._text
        self._text = f"{self._text}{text}" if message == self._message else text
        self._message = message
        # Each text is whole, so something must separate it from the one before.
        yield Text(text=f"\n\n{text}" if earlier else text)

    def _tool(self, tool: str, identifier: str, state: dict[str, Any]) -> Iterator[SourceItem]:
        """Report a call, which is printed once, when it has ended."""
        arguments = state.get("input") or {}
        details = state.get("metadata") or {}
        good = state["status"] == "completed" and details.get("exit") in {0, None}
        output = string(state.get("output")) or string(state.get("error"))
        self._calls += 1
        yield ToolCall(
            call_id=identifier, name=tool, title=self._title(tool, arguments, state), input=bounded(arguments)
        )
        yield ToolResult(call_id=identifier, ok=good, output=output)
        if not good:
            return
        if tool == "todowrite":
            entries = [
                {"content": string(todo["content"]), "status": string(todo["status"])} for todo in arguments["todos"]
            ]
            yield events.Plan(entries=entries[:MOST_ITEMS])
        for path, change in _changed(tool, arguments, details):
            relative = self._tree.relative(path)
            if relative is not None:
                yield File(path=relative, change=change)  # type: ignore[arg-type]

    def _title(self, tool: str, arguments: Mapping[str, Any], state: Mapping[str, Any]) -> str:
        if tool == "bash":
            command = string(arguments.get("command")).strip()
            first = command.split("\n")[0][:160]
            return f"Run {first}{'' if first == command else ' …'}"
        if tool == "apply_patch":
            paths = [path for path, _ in _changed(tool, arguments, state.get("metadata") or {})]
            return f"Edit {', '.join(self._tree.relative(path) or path for path in paths[:3]) or 'files'}"[:200]
        subject = next((string(arguments[name]) for name in _SUBJECTS if string(arguments.get(name))), "")
        if subject.startswith("/"):
            subject = self._tree.relative(subject) or subject
        if tool in _VERBS and subject:
            return f"{_VERBS[tool]} {subject}"[:200]
        return (string(state.get("title")).split("\n")[0] or tool)[:200]

    def _step(self, part: dict[str, Any]) -> Iterator[SourceItem]:
        self._reason = string(part.get("reason"))
        tokens = part["tokens"]
        for name, value in {**tokens, **tokens["cache"]}.items():
            if name in self._used:
                self._used[name] += whole(value)
        cost = part.get("cost")
        if isinstance(cost, int | float) and 0 < cost < 10**6:
            self._cost += cost
        self._turns += 1
        # Its input excludes what was cached, and its output excludes the reasoning; the contract's include them.
        yield UsageReport(
            input_tokens=self._used["input"] + self._used["read"] + self._used["write"],
            output_tokens=self._used["output"] + self._used["reasoning"],
            cache_read_tokens=self._used["read"],
            cache_write_tokens=self._used["write"],
            reasoning_tokens=self._used["reasoning"],
            turns=self._turns,
            tool_calls=self._calls,
            # It reports 0 where it does not know the price.
            cost_usd=f"{self._cost:.9f}".rstrip("0") if self._cost else None,
        )


def failure_of(error: Mapping[str, Any], timestamp: Any = None) -> ErrorInfo:
    """Return the failure that an ``error`` reports; ``timestamp``: when, in milliseconds since the epoch."""
    details = error.get("data") or {}
    code = string((details.get("metadata") or {}).get("code"))
    text = f"{string(details.get('message')) or string(error.get('name'))}{f' ({code})' if code else ''}"
    wait = string((details.get("responseHeaders") or {}).get("retry-after"))
    resets_at = whole(timestamp) / 1000 + float(wait) if re.fullmatch(r"\d{1,9}(\.\d{1,3})?", wait) else None
    kind = _KINDS.get(string(error.get("name")))
    return failure(CAPABILITIES, text, kind=kind, status=whole(details.get("statusCode")), resets_at=resets_at)


def _failure_in_log(log: str, reference: str) -> ErrorInfo | None:
    """Return the failure that the log explains under ``reference``, None if it does not."""
    match = next((match for match in _LOGGED.finditer(log) if match[1] == reference), None)
    if match is None:
        return None
    error = failure(CAPABILITIES, match[3], kind=_KINDS.get(match[2]))
    if error.kind is not ErrorKind.MODEL_NOT_FOUND:
        return error
    hint = "Log in to its provider with `opencode auth login`, or correct the model; `opencode models` lists yours."
    return msgspec.structs.replace(error, hint=hint)


def _failure_on_stderr(stderr: str) -> ErrorInfo | None:
    """Return the failure that a program reported only on standard error, None if it is unknown."""
    text = _COLORS.sub("", stderr).strip()
    if text.endswith("Session not found"):
        hint = "Start it again without the earlier session."
        return ErrorInfo(ErrorKind.BAD_REQUEST, "opencode does not know the session.", hint)
    if "Configuration is invalid" in text or "is not valid JSON" in text:
        return failure(CAPABILITIES, text, kind=ErrorKind.CONFIG_INVALID)
    return None


def _changed(tool: str, arguments: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the paths that a successful call changed, and how."""
    if tool == "write":
        yield string(arguments.get("filePath")), "modified" if details.get("exists") else "added"
    elif tool == "edit":
        yield string(arguments.get("filePath")), "modified" if arguments.get("oldString") else "added"
    elif tool == "apply_patch":
        for file in (details.get("files") or [])[:MOST_ITEMS]:
            yield string(file.get("movePath")) or string(file["filePath"]), _CHANGES.get(file.get("type"), "modified")
