"""Map the errors of model servers to error kinds: by HTTP status, error object, or free text.

The formats are those of real servers and proxies: OpenAI's ``{"error": {message, type, code}}``, FastAPI's ``{"detail":
…}``, a flat ``{code, message, type}``, plain text, and HTML from a proxy.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError, scope_of
from understudy.model.text import foreign_json
from understudy.model.text.sanitize import strip_controls

SHOWN_CHARACTERS = 200
"""Characters kept of a body that is not JSON."""
MAX_WAIT_SECONDS = 120.0
"""A request for a longer pause fails the attempt (the openai client has the same limit)."""

_RETRIED = frozenset({408, 409, 429})

_HINTS: dict[ErrorKind, str] = {
    ErrorKind.AUTH_FAILED: "Set a valid key (`understudy servers set-key {server}`, or the variable its entry names).",
    ErrorKind.QUOTA_EXHAUSTED: "Add credit at the provider, or choose another delegator.",
    ErrorKind.RATE_LIMITED: "Wait and retry, or choose another delegator.",
    ErrorKind.OVERLOADED: "Retry later, or choose another delegator.",
    ErrorKind.BAD_REQUEST: "Check `base_url`, `model` and `model_properties`.",
    ErrorKind.CONTEXT_TOO_LONG: "Delegate fewer or smaller files, or choose a model with a larger context.",
    ErrorKind.CONTENT_REFUSED: "Reword the task, or choose another model.",
    ErrorKind.MODEL_NOT_FOUND: "List the server's models (`understudy servers models {server}`) and set one of them.",
    ErrorKind.CONNECTION_FAILED: "Check that the server is running and that `base_url` is correct.",
    ErrorKind.TIMED_OUT: "Retry later, or raise the limits.",
    ErrorKind.MALFORMED_OUTPUT: "Check that `base_url` points to a model server.",
}


def _hint(kind: ErrorKind, server: str) -> str | None:
    hint = _HINTS.get(kind)
    return None if hint is None else hint.replace("{server}", server)


def reason_of(error: Exception, scrub: Callable[[str], str]) -> str:
    """Return why a connection failed, on one line and without the number of the system's error."""
    text = re.sub(r"\s+", " ", scrub(strip_controls(str(error)))).strip()
    return re.sub(r"^\[Errno -?\d+\] ", "", text)[:SHOWN_CHARACTERS].rstrip(".") or type(error).__name__


def refusal(status: int, body: str, server: str, scrub: Callable[[str], str]) -> UnderstudyError:
    """Return the error for a response with HTTP ``status`` (not 200) and ``body`` (possibly cut off)."""
    reason = message_of(body)
    from understudy.runners.driver.error_texts import kind_of

    kind = kind_of(status, reason, body)
    text = f"Model server {server!r} answered {status}"
    shown = scrub(strip_controls(reason))[:SHOWN_CHARACTERS].strip().rstrip(":")  # what came after it looked like a key
    hint = _hint(kind, server)
    if 300 <= status < 400:
        return UnderstudyError(
            ErrorKind.CONNECTION_FAILED,
            f"{text}, a redirect. Redirects are not followed, because the prompt and the key would be sent there too.",
            hint="Set `base_url` to the address that it redirects to.",
            status=status,
        )
    message = f"{text}: {shown}" if shown else f"{text}."
    return UnderstudyError(kind, message, hint=hint, scope=scope_of(kind), status=status)


def reported(error: Any, server: str, scrub: Callable[[str], str]) -> UnderstudyError:
    """Return the error for an error object inside a response with HTTP 200."""
    reason = _from_object(error) or "an error without a message"
    status = error.get("code") if isinstance(error, dict) else None
    if isinstance(status, str) and status.isascii() and status.isdigit():
        status = int(status[:4])
    numeric = status if isinstance(status, int) and 400 <= status < 600 else 0
    from understudy.runners.driver.error_texts import kind_of

    kind = kind_of(numeric, reason, msgspec.json.encode(error).decode())
    shown = scrub(strip_controls(reason))[:SHOWN_CHARACTERS].strip()
    message = f"Model server {server!r} reported: {shown}"
    return UnderstudyError(kind, message, hint=_hint(kind, server), scope=scope_of(kind))


def message_of(body: str) -> str:
    """Return the message of a body's error object, or the body's text."""
    try:
        value = foreign_json.decode(body)
    except foreign_json.UNREADABLE:
        return re.sub(r"\s+", " ", re.sub(r"<[^<>]{0,400}>", " ", body)).strip()
    if isinstance(value, dict):
        for name in ("error", "detail", "message"):
            if value.get(name):
                return _from_object(value[name])
    return body


def _from_object(error: Any) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        for name in ("message", "msg", "detail", "code", "type"):
            if isinstance(error.get(name), str) and error[name]:
                return str(error[name])
    return msgspec.json.encode(error).decode()[: 4 * SHOWN_CHARACTERS]


def may_retry(status: int, kind: ErrorKind, headers: Mapping[str, str]) -> bool:
    """Return whether the same request may succeed later. ``x-should-retry`` wins, as in the openai client."""
    asked = headers.get("x-should-retry", "").lower()
    if asked in {"true", "false"}:
        return asked == "true"
    if kind in {ErrorKind.QUOTA_EXHAUSTED, ErrorKind.CONTEXT_TOO_LONG, ErrorKind.CONTENT_REFUSED}:
        return False
    return status in _RETRIED or status >= 500


def asked_wait(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return the pause in seconds that the server asked for; None when there is none, or an invalid one."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    # litellm drops its upstream's header and passes it on under this name.
    for name in ("retry-after", "llm_provider-retry-after"):
        value = headers.get(name)
        if value is None:
            continue
        seconds = _number(value)
        if seconds is not None:
            return seconds
        try:
            return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now())
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", value.strip()):
        return None
    return float(value)
