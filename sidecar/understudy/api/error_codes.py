"""Map error kinds to JSON-RPC error codes."""

from __future__ import annotations

from typing import Any

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
REQUEST_CANCELLED = -32800
"""LSP 3.17's code for a request that its client cancelled."""
UNDERSTUDY_ERROR = 1001
"""All other errors; outside the ranges that JSON-RPC 2.0 §5.1 and LSP reserve."""

_STANDARD = {ErrorKind.UNKNOWN_METHOD: METHOD_NOT_FOUND, ErrorKind.INVALID_PARAMS: INVALID_PARAMS}


def to_json_rpc(error: UnderstudyError, *, cancelled: bool = False) -> tuple[int, str, dict[str, Any]]:
    """Return code, message and data of an error; ``cancelled``: the client cancelled the request."""
    data: dict[str, Any] = msgspec.to_builtins(error.info())
    if cancelled and error.kind is ErrorKind.CANCELLED:
        return REQUEST_CANCELLED, error.message, data
    return _STANDARD.get(error.kind, UNDERSTUDY_ERROR), error.message, data
