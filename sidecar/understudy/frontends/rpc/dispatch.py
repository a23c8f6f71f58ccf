"""Answer one request through jsonrpcserver."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec

from understudy.api import error_codes, method_table
from understudy.api.caller import Caller
from understudy.api.internal_errors import internal_error
from understudy.frontends import json_rpc
from understudy.model import wire
from understudy.model.errors import ErrorKind, UnderstudyError

with warnings.catch_warnings():
    # It reads its schema with a function that is deprecated in Python 3.11 and 3.12.
    warnings.simplefilter("ignore", DeprecationWarning)
    import jsonrpcserver


def answer(request: json_rpc.Message, caller: Caller) -> bytes:
    """Answer one valid request; return the response as a line, ``b""`` for a notification. Never raises."""
    method = request["method"]

    def respond(caller: Caller, /, *positional: Any, **params: Any) -> Any:
        try:
            _require_prefix(method)
            result = method_table.call(method, list(positional) or params, caller)
            return jsonrpcserver.Success(msgspec.to_builtins(result))
        except UnderstudyError as problem:
            return jsonrpcserver.Error(*error_codes.to_json_rpc(problem, cancelled=caller.cancelled()))

    # It knows no other members, and no null as parameters.
    members: dict[str, Any] = {name: request[name] for name in ("jsonrpc", "method", "id") if name in request}
    members["params"] = request.get("params") or {}
    try:
        response = jsonrpcserver.dispatch_to_serializable(
            "",  # the request is parsed and checked already
            deserializer=lambda _: members,
            validator=lambda _: None,
            methods={method: respond},
            context=caller,
        )
        return b"" if response is None else encode(response)
    except Exception as fault:
        if "id" not in request:
            return b""
        return encode(json_rpc.failure(request["id"], internal_error(method, fault)))


def encode(message: Any) -> bytes:
    """Return a message as one line."""
    return wire.encode(message) + b"\n"


def _require_prefix(name: str) -> None:
    if not name.startswith(method_table.PREFIX):
        near = [f"{method_table.PREFIX}{name}"] if name in method_table.METHODS else None
        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            f"There is no method {name!r}.",
            hint=f"Method names begin with {method_table.PREFIX}; protocol/README.md lists them.",
            names=near,
        )
