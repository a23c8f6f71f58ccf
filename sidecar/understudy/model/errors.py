"""The closed list of error kinds, and the one exception.

    Exception
    └── UnderstudyError        carries one ErrorKind, a message, and what to do next
        (no subclasses: handlers check ``kind``, so a new kind
        is a line in ``ErrorKind`` and a line in the generated table of protocol/README.md)

Clients receive it as ``error.data`` of JSON-RPC code 1001, as ``ErrorInfo`` in attempts and ``finished`` events, and in
the output of ``--json``.
"""

from __future__ import annotations

import enum
from pathlib import Path

import msgspec

from understudy.model.remedies import Remedy


class ErrorKind(enum.StrEnum):
    """The closed list of error kinds; the value is the one on the wire."""

    INVALID_PARAMS = "invalid_params"
    """A request's parameters have the wrong shape or contradict each other."""
    UNKNOWN_METHOD = "unknown_method"
    """No method of this name is served."""
    UNKNOWN_DELEGATOR = "unknown_delegator"
    """No delegator of this name is configured; ``names`` lists similar ones."""
    REMOTE_ONLY_DELEGATOR = "remote_only_delegator"
    """The delegator stands for an agent on another service, which cannot be started here."""
    UNKNOWN_MODEL_SERVER = "unknown_model_server"
    """No model server of this name is configured."""
    UNKNOWN_TOOL = "unknown_tool"
    """No agent CLI of this name is known."""
    UNKNOWN_RECIPE = "unknown_recipe"
    """No recipe of this name exists."""
    UNKNOWN_CHECK = "unknown_check"
    """No check of this name is configured."""
    UNKNOWN_SCHEDULE = "unknown_schedule"
    """No schedule of this name is configured."""
    UNKNOWN_NOTIFICATION = "unknown_notification"
    """No receiver of notifications of this name is configured."""
    UNKNOWN_DELEGATION = "unknown_delegation"
    """No delegation has this ID."""
    UNKNOWN_GROUP = "unknown_group"
    """No group has this ID."""
    CONFIG_INVALID = "config_invalid"
    """A configuration file or value is invalid."""
    NOT_EDITABLE = "not_editable"
    """The file was written by hand, so Understudy does not rewrite it."""
    CONFLICT = "conflict"
    """Another process changed or answered it first; read the current state and retry."""
    ALREADY_EXISTS = "already_exists"
    """The name is taken."""
    UNTRUSTED_WORKSPACE = "untrusted_workspace"
    """No file of this workspace may run before the user trusts it."""
    BASE_UNAVAILABLE = "base_unavailable"
    """The state to start from cannot be read."""
    ISOLATION_UNAVAILABLE = "isolation_unavailable"
    """A worktree cannot be created from this folder."""
    TOOL_MISSING = "tool_missing"
    """A required program is not installed."""
    ENVIRONMENT = "environment"
    """The project's environment lacks what its code or its tests import."""
    TOOL_CRASHED = "tool_crashed"
    """A program ended with an error."""
    TOOL_NO_RESULT = "tool_no_result"
    """A program exited without reporting that it had finished."""
    AUTH_FAILED = "auth_failed"
    """The server refused the key."""
    QUOTA_EXHAUSTED = "quota_exhausted"
    """The account behind the key has no credit left."""
    RATE_LIMITED = "rate_limited"
    """Too many requests; try again later."""
    OVERLOADED = "overloaded"
    """The server is busy or failing, or this machine is out of memory, files or processes; try again later."""
    BAD_REQUEST = "bad_request"
    """The server refused the request as malformed."""
    CONTEXT_TOO_LONG = "context_too_long"
    """The prompt does not fit the model's context window."""
    CONTENT_REFUSED = "content_refused"
    """The model or its filter refused the content."""
    MODEL_NOT_FOUND = "model_not_found"
    """The server does not know the model."""
    CONNECTION_FAILED = "connection_failed"
    """The server could not be reached."""
    TIMED_OUT = "timed_out"
    """A time limit passed."""
    STALLED = "stalled"
    """Nothing happened for longer than the idle limit."""
    STREAM_TRUNCATED = "stream_truncated"
    """The stream ended before its end was announced."""
    OUTPUT_TRUNCATED = "output_truncated"
    """The model stopped at its output limit."""
    EMPTY_OUTPUT = "empty_output"
    """It finished successfully without a result."""
    MALFORMED_OUTPUT = "malformed_output"
    """The output cannot be parsed."""
    BUDGET_EXHAUSTED = "budget_exhausted"
    """A limit on tokens, turns or money was reached."""
    RESOURCE_LIMIT = "resource_limit"
    """A program used more memory or processes than allowed, or wrote a larger file; it was ended."""
    DEPENDENCY_FAILED = "dependency_failed"
    """A task that it comes after in its group did not succeed, so it did not start."""
    CANCELLED = "cancelled"
    """The user cancelled it."""
    INTERRUPTED = "interrupted"
    """Its worker process died."""
    PERMISSION_DENIED = "permission_denied"
    """The operating system or a policy forbids it."""
    SECRET_WITHHELD = "secret_withheld"  # noqa: S105 - the name of a kind, not a secret
    """A key may not be used here, or text may not leave this machine."""
    PATH_ESCAPE = "path_escape"
    """A path leads outside the folder it must stay in."""
    TARGET_EXISTS = "target_exists"
    """The file to be written already exists."""
    INPUT_TOO_LARGE = "input_too_large"
    """The files together are above the limit."""
    FILE_TOO_LARGE = "file_too_large"
    """One file is above the limit."""
    INPUT_EMPTY = "input_empty"
    """There is nothing to work on."""
    MERGE_CONFLICT = "merge_conflict"
    """A change conflicts with the current files."""
    UNSUPPORTED_PLATFORM = "unsupported_platform"
    """Understudy does not run on this operating system."""
    STATE_UNAVAILABLE = "state_unavailable"
    """The state folder cannot be used."""
    DISK_FULL = "disk_full"
    """The disk under the state folder is full."""
    INTERNAL = "internal"
    """A bug in Understudy; please report it."""


class Position(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A place in a text: zero-based line, and character in UTF-16 code units (LSP's own meaning)."""

    line: int
    character: int


class Range(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """From ``start`` up to, not including, ``end``."""

    start: Position
    end: Position


class Location(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A range in a file, the file as a URI."""

    uri: str
    range: Range


def top_of(path: Path) -> Location:
    """Return the place of the first character of a file; ``path`` is absolute."""
    return Location(path.as_uri(), Range(Position(0, 0), Position(0, 0)))


class ErrorScope(enum.StrEnum):
    """What a failure affects, and so what may still work."""

    REQUEST = "request"
    """Only this request; another one may succeed at once."""
    MODEL = "model"
    """Every request to this model on this server."""
    ACCOUNT = "account"
    """Every request with this key or login."""
    TOOL = "tool"
    """Every use of this agent CLI on this machine."""


_SCOPES = {
    ErrorKind.AUTH_FAILED: ErrorScope.ACCOUNT,
    ErrorKind.QUOTA_EXHAUSTED: ErrorScope.ACCOUNT,
    ErrorKind.RATE_LIMITED: ErrorScope.ACCOUNT,
    ErrorKind.OVERLOADED: ErrorScope.MODEL,
    ErrorKind.CONNECTION_FAILED: ErrorScope.MODEL,
    ErrorKind.MODEL_NOT_FOUND: ErrorScope.MODEL,
    ErrorKind.CONTEXT_TOO_LONG: ErrorScope.MODEL,
    ErrorKind.BAD_REQUEST: ErrorScope.REQUEST,
    ErrorKind.CONTENT_REFUSED: ErrorScope.REQUEST,
    ErrorKind.TOOL_MISSING: ErrorScope.TOOL,
}


def scope_of(kind: ErrorKind) -> ErrorScope | None:
    """Return what a failure of a model server or a tool affects; None if its kind does not determine that."""
    return _SCOPES.get(kind)


class FailureClass(enum.StrEnum):
    """Why a delegator cannot work, where another one may.

    Every other failure is about the task, the request or the user, and would happen on any delegator or must not be
    tried again: refused content, a spent budget, a cancel, a missing permission, failed checks.
    """

    AUTH = "auth"
    """Its key or login is refused."""
    QUOTA = "quota"
    """Its account has no credit left."""
    RATE_LIMIT = "rate_limit"
    """It gets too many requests."""
    OVERLOAD = "overload"
    """Its server is busy, fails, or cannot be reached."""
    MODEL_MISSING = "model_missing"
    """Its server does not know the model."""
    TOOL_MISSING = "tool_missing"
    """Its program is not installed."""
    CRASH = "crash"
    """Its program or its stream ended without a result, or with one that cannot be read."""
    TOO_LONG = "too_long"
    """The prompt does not fit its model's context window."""
    STALL = "stall"
    """Nothing happened within a time limit."""


_FAILURE_CLASSES = {
    ErrorKind.AUTH_FAILED: FailureClass.AUTH,
    ErrorKind.QUOTA_EXHAUSTED: FailureClass.QUOTA,
    ErrorKind.RATE_LIMITED: FailureClass.RATE_LIMIT,
    ErrorKind.OVERLOADED: FailureClass.OVERLOAD,
    ErrorKind.CONNECTION_FAILED: FailureClass.OVERLOAD,
    ErrorKind.MODEL_NOT_FOUND: FailureClass.MODEL_MISSING,
    ErrorKind.TOOL_MISSING: FailureClass.TOOL_MISSING,
    ErrorKind.TOOL_CRASHED: FailureClass.CRASH,
    ErrorKind.TOOL_NO_RESULT: FailureClass.CRASH,
    ErrorKind.STREAM_TRUNCATED: FailureClass.CRASH,
    ErrorKind.MALFORMED_OUTPUT: FailureClass.CRASH,
    ErrorKind.EMPTY_OUTPUT: FailureClass.CRASH,
    ErrorKind.CONTEXT_TOO_LONG: FailureClass.TOO_LONG,
    ErrorKind.STALLED: FailureClass.STALL,
    ErrorKind.TIMED_OUT: FailureClass.STALL,
}

UNBILLED = frozenset(
    {FailureClass.AUTH, FailureClass.QUOTA, FailureClass.RATE_LIMIT, FailureClass.MODEL_MISSING}
    | {FailureClass.OVERLOAD, FailureClass.TOOL_MISSING, FailureClass.TOO_LONG}
)
"""Failures in which the model did not work: an attempt that ended so and reports no tokens cost nothing."""


def class_of(kind: ErrorKind) -> FailureClass | None:
    """Return the class of a failure; None if another delegator would not help."""
    return _FAILURE_CLASSES.get(kind)


class ErrorInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An error as sent to clients: what happened, to what, and what to do next."""

    kind: ErrorKind
    message: str
    hint: str | None = None
    location: Location | None = None
    names: list[str] | None = None
    retry_at: str | None = None
    """When a retry can succeed, if the server or tool reports it (RFC 3339, UTC)."""
    scope: ErrorScope | None = None
    log_paths: list[str] | None = None
    """Absolute paths of logs that can explain it, the most useful one first; no text of the error names them."""
    parameter: str | None = None
    """The parameter of the request that is wrong (``launch.permissionMode``), for forms; absent if it may be any."""
    remedy: Remedy | None = None
    """What can be done about it, for a button; ``hint`` says the same to the command line."""


class UnderstudyError(Exception):
    """The one exception that crosses packages.

    ``message`` says what happened and to what; ``hint`` says what to do next; ``names`` lists valid alternatives (names
    similar to an unknown one). Frontends offer ``log_paths`` themselves, so no message or hint names a log.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        hint: str | None = None,
        location: Location | None = None,
        names: list[str] | None = None,
        retry_at: str | None = None,
        scope: ErrorScope | None = None,
        log_paths: list[str] | None = None,
        parameter: str | None = None,
        remedy: Remedy | None = None,
        status: int | None = None,
    ) -> None:
        """Store the parts; ``str(error)`` is only the message, and ``status`` that of an HTTP response."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.location = location
        self.names = names
        self.retry_at = retry_at
        self.scope = scope
        self.log_paths = log_paths
        self.parameter = parameter
        self.remedy = remedy
        self.status = status

    def info(self) -> ErrorInfo:
        """Return the wire form."""
        return ErrorInfo(**{name: getattr(self, name) for name in ErrorInfo.__struct_fields__})

    @classmethod
    def from_info(cls, info: ErrorInfo) -> UnderstudyError:
        """Return the exception for an error that arrived as data."""
        return cls(**msgspec.structs.asdict(info))
