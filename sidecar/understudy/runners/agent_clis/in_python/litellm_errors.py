"""Map the exceptions of litellm, with which agents in Python send their requests, to error kinds."""

from __future__ import annotations

from understudy.model.errors import ErrorKind
from understudy.runners.agent_clis.streams.agent_failures import kind_reported

_KINDS = {
    "AuthenticationError": ErrorKind.AUTH_FAILED,
    "PermissionDeniedError": ErrorKind.AUTH_FAILED,
    "ContextWindowExceededError": ErrorKind.CONTEXT_TOO_LONG,
    "ContentPolicyViolationError": ErrorKind.CONTENT_REFUSED,
    "NotFoundError": ErrorKind.MODEL_NOT_FOUND,
    "Timeout": ErrorKind.TIMED_OUT,
    "BudgetExceededError": ErrorKind.QUOTA_EXHAUSTED,
    "BadGatewayError": ErrorKind.OVERLOADED,
    "ServiceUnavailableError": ErrorKind.OVERLOADED,
    # Those of aider and of ``host.py``.
    "FinishReasonLength": ErrorKind.OUTPUT_TRUNCATED,
    "UnknownSession": ErrorKind.BAD_REQUEST,
    "Refused": ErrorKind.CONFIG_INVALID,
    "Unsupported": ErrorKind.TOOL_MISSING,
}
_WITHOUT_ANSWER = {
    "APIConnectionError": ErrorKind.CONNECTION_FAILED,
    "InternalServerError": ErrorKind.OVERLOADED,
    "APIError": ErrorKind.OVERLOADED,
    "MidStreamFallbackError": ErrorKind.STREAM_TRUNCATED,
}
"""litellm gives these a status even if the server sent none, so their text decides first."""


def kind_of_exception(name: str, status: int, text: str) -> ErrorKind:
    """Return the kind of an exception: the name of its class, its HTTP status (0: none) and its text."""
    if (known := _KINDS.get(name)) is not None:
        return known
    if (otherwise := _WITHOUT_ANSWER.get(name)) is not None:
        said = kind_reported(text)
        return otherwise if said is ErrorKind.TOOL_CRASHED else said
    return kind_reported(text, status)
