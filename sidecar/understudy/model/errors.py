"""Every way in which something can go wrong, as one closed list.

    Exception
    └── UnderstudyError        carries one ErrorKind, a message, and what to do next
        (no subclasses: whoever handles an error looks at ``kind``, so a new kind
        is a line in ``ErrorKind`` and a line in the generated table of protocol/README.md)

On the wire the same object travels as ``error.data`` of JSON-RPC code 1001, as ``ErrorInfo``
inside attempts and ``finished`` events, and as the body that ``--json`` prints.
"""

from __future__ import annotations

import enum

import msgspec


class ErrorKind(enum.StrEnum):
    """The closed list of error kinds; the value is what travels on the wire."""

    INVALID_PARAMS = "invalid_params"
    """A request's parameters have the wrong shape or contradict each other."""
    UNKNOWN_METHOD = "unknown_method"
    """No method of this name is served."""
    UNKNOWN_DELEGATOR = "unknown_delegator"
    """No delegator of this name is configured; ``names`` lists near ones."""
    UNKNOWN_MODEL_SERVER = "unknown_model_server"
    """No model server of this name is configured."""
    UNKNOWN_TOOL = "unknown_tool"
    """No agent CLI of this name is known."""
    UNKNOWN_RECIPE = "unknown_recipe"
    """No recipe of this name exists."""
    UNKNOWN_ROUTE = "unknown_route"
    """No route of this name is configured."""
    UNKNOWN_CHECK = "unknown_check"
    """No check of this name is configured."""
    UNKNOWN_DELEGATION = "unknown_delegation"
    """No delegation has this id."""
    UNKNOWN_AGENT = "unknown_agent"
    """No agent definition of this name exists."""
    REMOTE_ONLY_DELEGATOR = "remote_only_delegator"
    """The delegator names a remote agent and cannot run here."""
    CONFIG_INVALID = "config_invalid"
    """A configuration file or value cannot be used as it is."""
    NOT_EDITABLE = "not_editable"
    """A person wrote this file by hand, so no face rewrites it."""
    CONFLICT = "conflict"
    """Somebody else changed or answered it first; read again and decide again."""
    ALREADY_EXISTS = "already_exists"
    """The name is taken."""
    UNTRUSTED_WORKSPACE = "untrusted_workspace"
    """Nothing of this workspace may run before a person trusts it."""
    BASE_UNAVAILABLE = "base_unavailable"
    """The state to start from cannot be read."""
    ISOLATION_UNAVAILABLE = "isolation_unavailable"
    """No isolated tree can be made of this folder."""
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    """A sandbox was required and this machine has none."""
    TOOL_MISSING = "tool_missing"
    """A program that is needed is not installed."""
    TOOL_CRASHED = "tool_crashed"
    """A program ended with an error."""
    TOOL_NO_RESULT = "tool_no_result"
    """A program ended without saying that it had finished."""
    AUTH_FAILED = "auth_failed"
    """The server refused the key."""
    QUOTA_EXHAUSTED = "quota_exhausted"
    """The account behind the key has no credit left."""
    RATE_LIMITED = "rate_limited"
    """Too many requests; trying later helps."""
    OVERLOADED = "overloaded"
    """The server is busy or failing; trying later helps."""
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
    """It ended well and said nothing where a result is due."""
    MALFORMED_OUTPUT = "malformed_output"
    """What came back cannot be parsed."""
    BUDGET_EXHAUSTED = "budget_exhausted"
    """A limit on tokens, turns or money was reached."""
    CANCELLED = "cancelled"
    """A person stopped it."""
    INTERRUPTED = "interrupted"
    """Its worker was gone before the end."""
    PERMISSION_DENIED = "permission_denied"
    """The operating system or a policy forbids it."""
    SECRET_WITHHELD = "secret_withheld"  # noqa: S105 - the name of a kind, not a secret
    """A key may not be used or text may not leave this way."""
    PATH_ESCAPE = "path_escape"
    """A path leads outside the folder it must stay in."""
    TARGET_EXISTS = "target_exists"
    """The file to be written already exists."""
    CORPUS_EMPTY = "corpus_empty"
    """No file was left to read."""
    CORPUS_TOO_LARGE = "corpus_too_large"
    """The files together are above the limit."""
    FILE_TOO_LARGE = "file_too_large"
    """One file is above the limit."""
    INPUT_EMPTY = "input_empty"
    """There is nothing to work on."""
    APPLY_CONFLICT = "apply_conflict"
    """A change cannot be merged into what is there now."""
    STORE_UNAVAILABLE = "store_unavailable"
    """The state folder cannot be used."""
    STORE_FULL = "store_full"
    """The disk under the state folder is full."""
    INTERNAL = "internal"
    """A fault of Understudy itself; please report it."""


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


class ErrorInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An error as it travels: what happened, to what, and what to do next."""

    kind: ErrorKind
    message: str
    hint: str | None = None
    location: Location | None = None
    names: list[str] | None = None


class UnderstudyError(Exception):
    """The one exception that crosses rooms.

    ``message`` says what happened and to what; ``hint`` says what to do next; ``names`` lists what
    would have been right (near spellings of an unknown name).
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        hint: str | None = None,
        location: Location | None = None,
        names: list[str] | None = None,
    ) -> None:
        """Keep the parts; ``str(error)`` is the message alone."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.location = location
        self.names = names

    def info(self) -> ErrorInfo:
        """Return the wire form."""
        return ErrorInfo(self.kind, self.message, self.hint, self.location, self.names)

    @classmethod
    def from_info(cls, info: ErrorInfo) -> UnderstudyError:
        """Return the exception for an error that arrived as data."""
        return cls(info.kind, info.message, hint=info.hint, location=info.location, names=info.names)
