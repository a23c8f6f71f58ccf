"""Map the failures of ACP agents to error kinds: JSON-RPC errors, stop reasons, and turns without an answer.

An agent reports a failure in one of three ways: as an error of the request (with a code, and ``data`` of its own), as
a stop reason, or as ``end_turn`` with the error as its answer. ``tests/runners/acp`` has recordings of each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from acp import schema

from understudy.model.capabilities import Capabilities
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.text import foreign_json
from understudy.runners.agent_clis.streams.agent_failures import failure
from understudy.runners.agent_clis.streams.stream_values import string

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


def of_error(tool: Capabilities, error: Any, logins: Sequence[str] = ()) -> ErrorInfo:
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


def of_stop(tool: Capabilities, reason: schema.StopReason, *, rejected: bool) -> ErrorInfo | None:
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


def of_answer(tool: Capabilities, text: str) -> ErrorInfo:
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
