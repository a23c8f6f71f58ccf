"""Read and write the values of an agent's JSON stream: bounded, of the expected types, and its failures as errors.

For a failure, a typed field of the agent decides first, then an HTTP status, then the text; the text of an answer is
never read.
"""

from __future__ import annotations

import abc
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.capabilities import Capabilities
from understudy.model.errors import ErrorInfo, ErrorKind, scope_of
from understudy.model.text import foreign_json
from understudy.model.wire import retry_time
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.error_texts import kind_by_words, kind_of
from understudy.runners.driver.source import SourceItem

LONGEST_INPUT = 4000
"""Longest text kept of a tool's input, in characters; the change itself is in the worktree."""
MOST_ITEMS = 100
_MAX_COUNT = 10**12
_SHOWN_CHARACTERS = 1000
_HINTS = {
    ErrorKind.QUOTA_EXHAUSTED: "Wait until the limit is lifted, or choose another delegator.",
    ErrorKind.RATE_LIMITED: "Retry later.",
    ErrorKind.OVERLOADED: "Retry later.",
    ErrorKind.CONTEXT_TOO_LONG: "Delegate a smaller piece, with fewer files.",
    ErrorKind.MODEL_NOT_FOUND: "Correct the delegator's model.",
    ErrorKind.CONTENT_REFUSED: "Reword the task.",
    ErrorKind.OUTPUT_TRUNCATED: "Delegate a smaller piece, or raise the output limit of the model.",
    ErrorKind.EMPTY_OUTPUT: "Retry, or choose another delegator or model.",
    ErrorKind.CONNECTION_FAILED: "Check whether the network, the proxy and the model server are up.",
    ErrorKind.STREAM_TRUNCATED: "Retry; if it happens often, check the proxies between you and the server.",
    ErrorKind.TIMED_OUT: "Retry later, or raise the limits.",
    ErrorKind.PERMISSION_DENIED: "Choose another permission mode, or answer its questions.",
}
_WITHOUT_STATUS: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = (
    (
        ErrorKind.OUTPUT_TRUNCATED,
        re.compile(r"output token maximum|reason: max_output_tokens|output (token )?limit", re.IGNORECASE),
    ),
    (
        ErrorKind.EMPTY_OUTPUT,
        re.compile(r"ended with empty response|no response was returned|without visible progress", re.IGNORECASE),
    ),
    (
        ErrorKind.MALFORMED_OUTPUT,
        re.compile(
            r"non-SSE response|incomplete JSON segment|unexpected token .* is not valid JSON"
            r"|unexpected end of JSON|JSON parsing failed",
            re.IGNORECASE,
        ),
    ),
    (
        ErrorKind.STREAM_TRUNCATED,
        re.compile(
            r"ECONNRESET|socket hang up|stream (closed|disconnected|ended)|truncated|terminated|premature(ly)? clos"
            r"|closed mid|without a finish reason|peer closed|was lost|incomplete (chunked )?(read|response)"
            r"|malformed response|EOF while parsing|without sending any chunks",
            re.IGNORECASE,
        ),
    ),
    (
        ErrorKind.CONNECTION_FAILED,
        re.compile(
            r"ECONNREFUSED|ENOTFOUND|EAI_AGAIN|connection (refused|error|failed)|(unable|failed|cannot) to connect"
            r"|cannot connect|fetch failed|network error|ECONN|certificate|\b(TLS|SSL)\b",
            re.IGNORECASE,
        ),
    ),
    (ErrorKind.TIMED_OUT, re.compile(r"timed? ?out|ETIMEDOUT", re.IGNORECASE)),
)
"""Texts of agents about an answer or a connection, where no HTTP status says more; the first match counts."""
_STATUS_IN_TEXT = re.compile(r"^(?:(?:API )?Error: )?([45]\d\d)\b|\(HTTP ([45]\d\d)\)")
"""Where agents write an HTTP status for which they have no field."""


class RecordStream(abc.ABC):
    """Parses lines that are JSON objects. A line of another version's structure is kept in the log only."""

    def line(self, line: bytes) -> list[SourceItem | Reply] | None:
        """Parse one line and return its events."""
        try:
            record = foreign_json.decode(line)
        except foreign_json.UNREADABLE:
            return None
        if not isinstance(record, dict):
            return None
        try:
            return list(self.read(record))
        except (AttributeError, TypeError, ValueError, KeyError):
            return self.unread(record)

    @abc.abstractmethod
    def read(self, record: dict[str, Any]) -> Iterable[SourceItem | Reply]:
        """Return the events of a record."""

    def unread(self, record: dict[str, Any]) -> list[SourceItem | Reply] | None:  # noqa: ARG002
        """Return what follows a record of another structure: nothing, unless it is a question that would wait."""
        return None


class WorktreePaths:
    """Turns the paths that an agent names into paths relative to its worktree."""

    def __init__(self, tree: Path) -> None:
        """Accept paths below ``tree``, with or without its links resolved."""
        self._trees = [str(tree), os.path.realpath(tree)]

    def relative(self, path: str) -> str | None:
        """Return ``path`` relative to the worktree, None if it leads outside."""
        for tree in self._trees:
            relative = os.path.relpath(Path(tree, path), tree)
            if relative != ".." and not relative.startswith("../"):
                return relative
        return None


def bounded(value: Any, depth: int = 6) -> Any:
    """Return a tool's input with long texts, long lists and deep nesting cut to a readable size."""
    if isinstance(value, str):
        more = len(value) - LONGEST_INPUT
        return value if more <= 0 else f"{value[:LONGEST_INPUT]}… ({more} more characters)"
    if depth == 0:
        return None
    if isinstance(value, list):
        return [bounded(item, depth - 1) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {str(name)[:200]: bounded(item, depth - 1) for name, item in list(value.items())[:MOST_ITEMS]}
    return value


def shortened(text: str, longest: int) -> str:
    """Return the beginning and the end of a text, with a count of the omitted characters between them."""
    more = len(text) - longest
    if more <= 0:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {more} characters are not shown here …\n{text[-half:]}"


def whole(value: Any, otherwise: int = 0) -> int:
    """Return ``value`` if it is a plausible count, else ``otherwise``."""
    return value if isinstance(value, int) and 0 <= value <= _MAX_COUNT else otherwise


def string(value: Any) -> str:
    """Return ``value`` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def line_of(value: dict[str, Any]) -> bytes:
    """Return a JSON line."""
    return msgspec.json.encode(value) + b"\n"


def failure(
    tool: Capabilities,
    text: str,
    *,
    kind: ErrorKind | None = None,
    status: int = 0,
    resets_at: float | None = None,
    of_request: bool = False,
) -> ErrorInfo:
    """Return the failure that ``tool`` reports with ``text``.

    ``kind`` is what a typed field says, ``status`` the HTTP status (0: unknown), ``resets_at`` when a used-up limit is
    lifted, in epoch seconds. ``of_request``: whether the tool says that a request to its model failed, and so that it
    has not crashed itself, whatever the text is.
    """
    error_kind = kind or kind_reported(text, status)
    if of_request and error_kind is ErrorKind.TOOL_CRASHED:
        error_kind = kind_of(0, text)
    limited = error_kind in {ErrorKind.QUOTA_EXHAUSTED, ErrorKind.RATE_LIMITED}
    return ErrorInfo(
        error_kind,
        f"{tool.title} failed: {text.strip()[:_SHOWN_CHARACTERS] or 'It gave no reason.'}",
        login_hint(tool)
        if error_kind is ErrorKind.AUTH_FAILED
        else _HINTS.get(error_kind, "Correct what it names, then retry."),
        retry_at=retry_time(resets_at) if limited and resets_at is not None else None,
        scope=scope_of(error_kind),
    )


def kind_reported(text: str, status: int = 0) -> ErrorKind:
    """Return the kind of an error text and its HTTP status (0: unknown); ``tool_crashed`` if neither says one."""
    if not status and (written := _STATUS_IN_TEXT.search(text)) is not None:
        status = int(written[1] or written[2])
    if status == 404:
        return ErrorKind.MODEL_NOT_FOUND
    if status >= 400:
        return kind_of(status, text)
    if (named := kind_by_words(text)) is not None:
        return named
    return next((kind for kind, words in _WITHOUT_STATUS if words.search(text)), ErrorKind.TOOL_CRASHED)


def login_hint(tool: Capabilities) -> str:
    """Return how to log in, or where else the key is set."""
    command = tool.install.login_command if tool.install is not None else None
    login = f"Log in with `{command}` in a terminal" if command else "Log in"
    where = "set the key of its model server" if tool.takes_model_server else "give the delegator a key by reference"
    return f"{login}, or {where}."
