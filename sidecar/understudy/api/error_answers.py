"""Errors as answers: their JSON-RPC codes, and internal ones, whose traceback goes into a log file for a bug report."""

from __future__ import annotations

import contextlib
import os
import traceback
from typing import Any

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
REQUEST_CANCELLED = -32800
"""LSP 3.17's code for a request that its client cancelled."""
UNDERSTUDY_ERROR = 1001
"""All other errors; outside the ranges that JSON-RPC 2.0 §5.1 and LSP reserve."""
_STANDARD = {ErrorKind.UNKNOWN_METHOD: METHOD_NOT_FOUND, ErrorKind.INVALID_PARAMS: INVALID_PARAMS}
KEPT_BYTES = 1_000_000
"""The log file is rotated above this size."""


def to_json_rpc(error: UnderstudyError, *, cancelled: bool = False) -> tuple[int, str, dict[str, Any]]:
    """Return code, message and data of an error; ``cancelled``: the client cancelled the request."""
    data: dict[str, Any] = msgspec.to_builtins(error.info())
    if cancelled and error.kind is ErrorKind.CANCELLED:
        return REQUEST_CANCELLED, error.message, data
    return _STANDARD.get(error.kind, UNDERSTUDY_ERROR), error.message, data


def internal_error(what: str, error: BaseException) -> UnderstudyError:
    """Write ``error``'s traceback to ``<state>/internal-errors.log`` and return the typed error with its path.

    A failure of the machine (no space, no memory, a read-only file system) has a kind of its own.
    """
    from understudy.files import durable

    fault = durable.system_failure(error)
    if fault is not None:
        return fault
    path = None
    with contextlib.suppress(Exception):
        from understudy.journal.delegation_folder import state_root

        log_path = state_root() / "internal-errors.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        if log_path.exists() and log_path.stat().st_size > KEPT_BYTES:
            log_path.replace(log_path.with_suffix(".old"))
        descriptor = os.open(log_path, flags, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"{timestamp(precision='seconds')} {what}\n")
            log.writelines(traceback.format_exception(error))
        path = log_path
    return UnderstudyError(
        ErrorKind.INTERNAL,
        f"Internal error in {what}: {type(error).__name__}: {error}.",
        hint="This is a bug in Understudy. Please report it.",
        log_paths=[str(path)] if path else None,
    )
