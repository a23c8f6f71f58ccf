"""Answer one request through jsonrpcserver."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec

from understudy.api import error_codes, method_table
from understudy.api.caller import Caller
from understudy.api.internal_errors import internal_error
from understudy.model import wire
from understudy.model.errors import ErrorKind, UnderstudyError

with warnings.catch_warnings():
    # It reads its schema with a function that is deprecated in Python 3.11 and 3.12.
    warnings.simplefilter("ignore", DeprecationWarning)
    import jsonrpcserver

Message = dict[str, Any]

MEMBERS = ("jsonrpc", "method", "params", "id")


def problem(message: Any) -> str | None:
    """Return why a JSON value is not a request (JSON-RPC 2.0 §4), None if it is one."""
    if not isinstance(message, dict):
        return "A request must be an object."
    if message.get("jsonrpc") != "2.0":
        return 'The member "jsonrpc" must be "2.0".'
    if not isinstance(message.get("method"), str):
        return 'The member "method" must be a string.'
    if not isinstance(message.get("params"), dict | list | None):
        return 'The member "params" must be an object or an array.'
    if "id" in message and not is_id(message["id"]):
        return 'The member "id" must be a string, a number or null.'
    return None


def is_id(value: Any) -> bool:
    """Return whether a value is valid as the id of a request."""
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def normalized(message: Message) -> Message:
    """Return a request for jsonrpcserver: missing or null ``params`` as ``{}``, without unknown members."""
    found = {name: message[name] for name in MEMBERS if name in message}
    if found.get("params") is None:
        found["params"] = {}
    return found


def error(identifier: Any, code: int, message: str, data: Any = None) -> Message:
    """Return an error response."""
    body = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "error": body, "id": identifier}


def failure(identifier: Any, problem: UnderstudyError, *, cancelled: bool = False) -> Message:
    """Return the response for a typed error."""
    return error(identifier, *error_codes.to_json_rpc(problem, cancelled=cancelled))


def answer(request: Message, caller: Caller) -> bytes | None:
    """Answer one normalized request; return the response as bytes, None for a notification. Never raises."""
    try:
        found = jsonrpcserver.dispatch_to_serializable(
            "",  # the request is parsed and checked already
            deserializer=lambda _: request,
            validator=lambda _: None,
            methods=_METHODS,
            context=caller,
        )
        return None if found is None else encode(found)
    except Exception as fault:
        if "id" not in request:
            return None
        return encode(failure(request["id"], internal_error(request["method"], fault)))


def encode(message: Any) -> bytes:
    """Return a message as one line."""
    return wire.encode(message) + b"\n"


class _Methods(dict[str, Any]):
    """The method table for jsonrpcserver; for an unknown name, a function that raises ``unknown_method``."""

    def __missing__(self, name: str) -> Any:
        if name.startswith(method_table.PREFIX) and name.removeprefix(method_table.PREFIX) in method_table.METHODS:
            self[name] = _adapted(name)
            return self[name]
        # Not cached: a client can send any number of names.
        return _adapted(name)


def _adapted(name: str) -> Any:
    def respond(caller: Caller, /, *positional: Any, **params: Any) -> Any:
        try:
            _require_prefix(name)
            given = list(positional) or params
            return jsonrpcserver.Success(msgspec.to_builtins(method_table.call(name, given, caller)))
        except UnderstudyError as problem:
            return jsonrpcserver.Error(*error_codes.to_json_rpc(problem, cancelled=caller.cancelled()))

    return respond


def _require_prefix(name: str) -> None:
    if not name.startswith(method_table.PREFIX):
        near = [f"{method_table.PREFIX}{name}"] if name in method_table.METHODS else None
        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            f"There is no method {name!r}.",
            hint=f"Method names begin with {method_table.PREFIX}; protocol/README.md lists them.",
            names=near,
        )


_METHODS = _Methods()
