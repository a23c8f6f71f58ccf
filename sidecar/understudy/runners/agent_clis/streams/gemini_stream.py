"""Parse the JSON lines of ``gemini --output-format stream-json``.

The format was derived from the streams in ``tests/runners/recordings/gemini`` (0.61.0). A failed run may end with a
line that says why, or with an exit code and standard error only. Thoughts are not printed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from understudy.model.delegation import events
from understudy.model.delegation.events import File, Text, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.text import foreign_json
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
from understudy.runners.driver.source import AgentFinished, Heartbeat, SourceItem

CAPABILITIES = declared("gemini")
_EXITS = {
    41: ErrorKind.AUTH_FAILED,
    42: ErrorKind.BAD_REQUEST,
    44: ErrorKind.CONFIG_INVALID,
    52: ErrorKind.CONFIG_INVALID,
    53: ErrorKind.BUDGET_EXHAUSTED,
    55: ErrorKind.CONFIG_INVALID,
}
"""Exit code → kind: no login, input or session, sandbox, settings, turns, a folder that must be trusted."""
_WORDS = (
    (re.compile(r"exhausted your [^.]{0,40}\b(quota|capacity)", re.IGNORECASE), ErrorKind.QUOTA_EXHAUSTED),
    (re.compile(r"API key not valid|API_KEY_INVALID", re.IGNORECASE), ErrorKind.AUTH_FAILED),
)
"""Texts of its own, and of Google, that say more than their status."""
_ENDS = (
    (re.compile(r"empty (text )?response|no final response"), ErrorKind.EMPTY_OUTPUT),
    (re.compile(r"token limit"), ErrorKind.OUTPUT_TRUNCATED),
    (re.compile(r"was blocked due to"), ErrorKind.CONTENT_REFUSED),
    (re.compile(r"Loop detected|session turns exceeded"), ErrorKind.BUDGET_EXHAUSTED),
)
"""How it announces that an answer is not one; there is nothing else that says so."""
_UNKNOWN_OPTION = re.compile(r"^Unknown arguments?: .*|^Not enough arguments .*|^Invalid values:", re.MULTILINE)
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_API_ERROR = re.compile(r"\[API Error: (.*?)\](?:\n.*)?$", re.DOTALL)
_NOISE = re.compile(r"^(Warning: |\[STARTUP\]|Ripgrep is not|Loaded cached|Project hooks disabled).*\n?", re.MULTILINE)
"""Lines of standard error that do not explain a failure."""
_RETRY = re.compile(r"retry (?:after|in) (\d{1,9}(?:\.\d{1,9})?) ?s", re.IGNORECASE)
_OUR_FOLDER = re.compile(r"\S*/understudy-gemini-\w+(?=/\.gemini/)")
"""The home folder of the run, which stands for the user's own."""
_TITLES = {
    "run_shell_command": "Run",
    "read_file": "Read",
    "read_many_files": "Read",
    "write_file": "Write",
    "replace": "Edit",
    "list_directory": "List",
    "glob": "Find",
    "grep_search": "Search",
    "web_fetch": "Fetch",
    "google_web_search": "Search for",
}
_SUBJECTS = ("command", "file_path", "pattern", "query", "dir_path", "url", "prompt")
"""Inputs of tools that say what they work on, the most telling first."""
_TODO_STATES = {"pending": "pending", "in_progress": "in_progress", "completed": "completed"}


class GeminiStream(RecordStream):
    """Parses the output of one run."""

    def __init__(self, tree: Path) -> None:
        """Start a run; paths are reported relative to ``tree``."""
        self._tree = WorktreePaths(tree)
        self._answer = ""
        """The text since the last result of a tool."""
        self._between = True
        """Whether the next line of the model begins a turn."""
        self._turns = 0
        self._calls = 0
        self._edits: dict[str, tuple[str, str]] = {}
        """Call → its tool and file, while it has not ended."""
        self._known: set[str] = set()
        """Files that it has read or written."""
        self._said = ""
        """The last error that it announced while it ran."""
        self._failed: str | None = None
        """Why the run failed, as its last line says."""

    def read(self, record: dict[str, Any]) -> Iterable[SourceItem]:
        """Return the events of a record."""
        read = self._LINES.get(record["type"])
        return read(self, record) if read is not None else []

    def ended(self, code: int, stderr: str) -> list[SourceItem]:
        """Return how a program ended that exited with ``code``."""
        if self._failed is not None:
            if self._failed or not self._said:
                return [AgentFinished(error=failure_of(self._failed, code))]
            kind = next((kind for words, kind in _ENDS if words.search(self._said)), None)
            return [AgentFinished(error=failure(CAPABILITIES, self._said, kind=kind))]
        text = _NOISE.sub("", _OUR_FOLDER.sub("~", _COLORS.sub("", stderr)) + "\n").strip()
        if (unknown := _UNKNOWN_OPTION.search(text)) is not None:
            return [AgentFinished(error=failure(CAPABILITIES, unknown[0], kind=ErrorKind.CONFIG_INVALID))]
        if code in _EXITS:
            return [AgentFinished(error=failure_of(text, code))]
        return []

    def _init(self, event: dict[str, Any]) -> Iterator[SourceItem]:
        if session := string(event.get("session_id")):
            yield events.Session(session_id=session)

    def _message(self, event: dict[str, Any]) -> Iterator[SourceItem]:
        if event.get("role") != "assistant":
            yield Heartbeat()  # it repeats the prompt
            return
        self._begin_turn()
        text = string(event.get("content"))
        self._answer += text
        yield Text(text=text)

    def _begin_turn(self) -> None:
        if self._between:
            self._turns += 1
            self._answer = ""
        self._between = False

    def _tool_started(self, event: dict[str, Any]) -> Iterator[SourceItem]:
        self._begin_turn()
        self._calls += 1
        tool, call, arguments = string(event["tool_name"]), string(event["tool_id"]), event.get("parameters") or {}
        path = string(arguments.get("file_path"))
        if path and len(self._edits) < MOST_ITEMS:
            self._edits[call] = (tool, path)
        subject = next((string(arguments[name]) for name in _SUBJECTS if string(arguments.get(name))), "").strip()
        if subject and subject == path:
            subject = self._tree.relative(path) or path
        first = subject.split("\n")[0][:160]
        title = f"{_TITLES.get(tool, tool)} {first}{'' if first == subject else ' …'}"
        yield ToolCall(call_id=call, name=tool, title=title.strip(), input=bounded(arguments))
        if tool == "write_todos":
            entries = [
                {"content": string(todo["description"]), "status": _TODO_STATES[todo["status"]]}
                for todo in arguments["todos"][:MOST_ITEMS]
                if todo["status"] in _TODO_STATES
            ]
            yield events.Plan(entries=entries)

    def _tool_ended(self, event: dict[str, Any]) -> Iterator[SourceItem]:
        self._between = True
        good = event.get("status") == "success"
        output = string(event.get("output")) or string((event.get("error") or {}).get("message"))
        call = string(event["tool_id"])
        yield ToolResult(call_id=call, ok=good, output=output)
        tool, path = self._edits.pop(call, ("", ""))
        relative = self._tree.relative(path) if path and good else None
        if relative is None:
            return
        if tool in {"write_file", "replace"}:
            # It does not say whether a file is new; it writes known files only to replace them.
            is_new = tool == "write_file" and relative not in self._known
            change: Literal["added", "modified"] = "added" if is_new else "modified"
            yield File(path=relative, change=change)
        self._known.add(relative)

    def _error(self, event: dict[str, Any]) -> Iterator[SourceItem]:
        text = string(event.get("message"))
        if event.get("severity") == "error" or text.startswith("Loop detected"):
            self._said = text
            yield Heartbeat()
        else:
            yield events.Note(level="warning", text=text)

    def _result(self, event: dict[str, Any]) -> Iterator[SourceItem]:
        stats = event.get("stats") or {}
        total, read, written = (whole(stats.get(f"{name}_tokens")) for name in ("total", "input", "output"))
        thought = max(0, total - read - written)
        if total:
            yield UsageReport(
                input_tokens=read,
                output_tokens=written + thought,
                cache_read_tokens=whole(stats.get("cached")),
                cache_write_tokens=0,
                reasoning_tokens=thought,
                turns=self._turns,
                tool_calls=self._calls,
            )
        if event.get("status") == "success" and not self._said:
            yield AgentFinished(text=self._answer, summary=self._answer or None)
        else:
            self._failed = string((event.get("error") or {}).get("message"))

    _LINES = {  # noqa: RUF012 - never changed
        "init": _init,
        "message": _message,
        "tool_use": _tool_started,
        "tool_result": _tool_ended,
        "error": _error,
        "result": _result,
    }


def failure_of(text: str, code: int) -> ErrorInfo:
    """Return the failure that a text reports; ``code``: the exit code, which is the HTTP status modulo 256 or its own.

    The text may contain the error of the Gemini API as JSON.
    """
    status = code + 256 if 144 <= code <= 255 else 0
    kind = None if status else _EXITS.get(code)
    is_request = _API_ERROR.search(text) is not None
    if (match := _API_ERROR.search(text)) is not None:
        text = match[1]
        try:
            error = foreign_json.decode(text[text.index("{") :])["error"]
            status, text = whole(error.get("code"), status), string(error.get("message")) or text
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass  # a sentence
    if kind is None:
        kind = next((error_kind for words, error_kind in _WORDS if words.search(text)), None)
    wait = _RETRY.search(text)
    resets_at = time.time() + float(wait[1]) if wait is not None else None
    error_info = failure(CAPABILITIES, text, kind=kind, status=status, resets_at=resets_at, of_request=is_request)
    if kind is ErrorKind.BAD_REQUEST and "session" in text:
        return msgspec.structs.replace(error_info, hint="Start it again without the earlier session.")
    return error_info
