"""Turn what an agent CLI reports about a failure into an error with a kind and a hint.

A typed field of the agent decides first, then an HTTP status, then the text; the text of an answer is never read.
"""

from __future__ import annotations

import re

from understudy.model.capabilities import Capabilities
from understudy.model.errors import ErrorInfo, ErrorKind, scope_of
from understudy.model.wire import retry_time
from understudy.runners.driver.error_texts import kind_by_words, kind_of

_SHOWN_CHARACTERS = 1000
_HINTS = {
    ErrorKind.QUOTA_EXHAUSTED: "Wait until the limit is lifted, or choose another delegator.",
    ErrorKind.RATE_LIMITED: "Retry later.",
    ErrorKind.OVERLOADED: "Retry later.",
    ErrorKind.CONTEXT_TOO_LONG: "Delegate a smaller piece, with fewer files.",
    ErrorKind.MODEL_NOT_FOUND: "Correct the delegator's model.",
    ErrorKind.CONTENT_REFUSED: "Reword the task.",
    ErrorKind.CONNECTION_FAILED: "Check whether the network, the proxy and the model server are up.",
    ErrorKind.STREAM_TRUNCATED: "Retry; if it happens often, check the proxies between you and the server.",
    ErrorKind.TIMED_OUT: "Retry later, or raise the limits.",
    ErrorKind.PERMISSION_DENIED: "Choose another permission mode, or answer its questions.",
}
_CONNECTIONS: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = (
    (
        ErrorKind.STREAM_TRUNCATED,
        re.compile(
            r"ECONNRESET|socket hang up|stream (closed|disconnected|ended)|truncated|terminated|premature(ly)? clos"
            r"|closed mid|peer closed|was lost|incomplete (chunked )?(read|response)|malformed response",
            re.IGNORECASE,
        ),
    ),
    (
        ErrorKind.CONNECTION_FAILED,
        re.compile(
            r"ECONNREFUSED|ENOTFOUND|EAI_AGAIN|connection (refused|error|failed)|(unable|failed|cannot) to connect"
            r"|cannot connect|fetch failed|network error|ECONN",
            re.IGNORECASE,
        ),
    ),
    (ErrorKind.TIMED_OUT, re.compile(r"timed? ?out|ETIMEDOUT", re.IGNORECASE)),
)


def failure(
    tool: Capabilities, text: str, *, kind: ErrorKind | None = None, status: int = 0, resets_at: float | None = None
) -> ErrorInfo:
    """Return the failure that ``tool`` reports with ``text``.

    ``kind`` is what a typed field says, ``status`` the HTTP status (0: unknown), ``resets_at`` when a used-up limit is
    lifted, in epoch seconds.
    """
    error_kind = kind or kind_reported(text, status)
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
    if status == 404:
        return ErrorKind.MODEL_NOT_FOUND
    if status >= 400:
        return kind_of(status, text)
    if (named := kind_by_words(text)) is not None:
        return named
    return next((kind for kind, words in _CONNECTIONS if words.search(text)), ErrorKind.TOOL_CRASHED)


def login_hint(tool: Capabilities) -> str:
    """Return how to log in, or where else the key is set."""
    command = tool.install.login_command if tool.install is not None else None
    login = f"Log in with `{command}` in a terminal" if command else "Log in"
    where = "set the key of its model server" if tool.takes_model_server else "give the delegator a key by reference"
    return f"{login}, or {where}."
