"""Map the HTTP statuses and the error texts of model servers to error kinds."""

from __future__ import annotations

import re

from understudy.model.errors import ErrorKind

_BY_WORDS: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(words, re.IGNORECASE))
    for kind, words in (
        (
            ErrorKind.QUOTA_EXHAUSTED,
            (
                r"insufficient_quota|insufficient[ _](balance|credits)|quota[ _]exceeded|exceeded your current quota"
                # Not "billing" alone: rate-limit errors link to the billing page too.
                r"|plan and billing|billing_(hard_limit|not_active)|credit balance|payment required|out of credits"
            ),
        ),
        (
            ErrorKind.CONTEXT_TOO_LONG,
            (
                r"context_length_exceeded|exceed_context_size|context[ _](length|window|size)|maximum context"
                r"|maximum number of tokens|prompt is too long|too many (input )?tokens|reduce the length"
            ),
        ),
        (
            ErrorKind.CONTENT_REFUSED,
            r"content_filter|content_policy|content management policy|responsible ?ai|moderation",
        ),
        (
            ErrorKind.AUTH_FAILED,
            (
                r"invalid_api_key|(incorrect|invalid) (x-)?api[ -]key|authentication_error|invalid authentication"
                r"|unauthorized|no_db_connection"  # LiteLLM without a database, asked with another key than its own
            ),
        ),
        (
            ErrorKind.MODEL_NOT_FOUND,
            (
                r"model_not_found|model[^.]{0,80}(does not exist|not found|not available|is not a valid)|no such model"
                r"|not a valid model|unknown model|invalid model|no healthy deployments for this model"
            ),
        ),
        (
            ErrorKind.OVERLOADED,
            r"overloaded|engine_overloaded|server is busy|at capacity|no capacity|service unavailable",
        ),
        (ErrorKind.RATE_LIMITED, r"rate[ _-]?limit|too many requests|throttl"),
    )
)


def kind_by_words(*texts: str) -> ErrorKind | None:
    """Return the kind that one of the texts names; None if none does."""
    for kind, words in _BY_WORDS:
        if any(words.search(text) for text in texts):
            return kind
    return None


def kind_of(status: int, message: str, body: str = "") -> ErrorKind:
    """Return the kind of a failed request: HTTP status (0: unknown), the message, and the body around it."""
    if status in {401, 407}:
        return ErrorKind.AUTH_FAILED
    if status == 402:
        return ErrorKind.QUOTA_EXHAUSTED
    if (named := kind_by_words(message, body[:4096])) is not None:
        return named
    if status == 404 and message.startswith("model: "):  # Anthropic's whole message
        return ErrorKind.MODEL_NOT_FOUND
    if status == 413:
        return ErrorKind.CONTEXT_TOO_LONG
    by_status = {
        0: ErrorKind.OVERLOADED,  # an error in the stream without a status code: the server failed
        403: ErrorKind.AUTH_FAILED,
        408: ErrorKind.TIMED_OUT,
        409: ErrorKind.OVERLOADED,
        429: ErrorKind.RATE_LIMITED,
    }
    if status in by_status:
        return by_status[status]
    return ErrorKind.OVERLOADED if status >= 500 else ErrorKind.BAD_REQUEST
