"""Answering one request through jsonrpcserver."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec

from understudy.api import codes, table
from understudy.api.caller import Caller
from understudy.api.faults import internal
from understudy.model import wire
from understudy.model.errors import ErrorKind, UnderstudyError

with warnings.catch_warnings():
    # It reads its schema with a function that Python 3.11 and 3.12 call deprecated, and 3.13 no longer.
    warnings.simplefilter("ignore", DeprecationWarning)
    import jsonrpcserver

Message = dict[str, Any]

MEMBERS = ("jsonrpc", "method", "params", "id")


def problem(message: Any) -> str | None:
    """Return why a JSON value is no request (JSON-RPC 2.0 §4), None when it is one."""
    if not isinstance(message, dict):
        return "a request is an object"
    if message.get("jsonrpc") != "2.0":
        return 'the member "jsonrpc" must be "2.0"'
    if not isinstance(message.get("method"), str):
        return 'the member "method" must be a string'
    if not isinstance(message.get("params"), dict | list | None):
        return 'the member "params" must be an object or an array'
    if "id" in message and not is_id(message["id"]):
        return 'the member "id" must be a string, a number or null'
    return None


def is_id(value: Any) -> bool:
    """Tell whether a value may be the id of a request."""
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def normalised(message: Message) -> Message:
    """Return a request as jsonrpcserver wants it: no ``params``, or null, is ``{}``, and nothing it does not know."""
    found = {name: message[name] for name in MEMBERS if name in message}
    if found.get("params") is None:
        found["params"] = {}
    return found


def error(identifier: Any, code: int, message: str, data: Any = None) -> Message:
    """Return an error response."""
    body = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "error": body, "id": identifier}


def failure(identifier: Any, problem: UnderstudyError, *, withdrawn: bool = False) -> Message:
    """Return the response for an error of ours."""
    return error(identifier, *codes.of(problem, withdrawn=withdrawn))


def answer(request: Message, caller: Caller) -> bytes | None:
    """Answer one normalised request; return the response as bytes, None for a notification. Never raises."""
    try:
        found = jsonrpcserver.dispatch_to_serializable(
            "",  # it is parsed already, and checked:
            deserializer=lambda _: request,
            validator=lambda _: None,
            methods=_METHODS,
            context=caller,
        )
        return None if found is None else encode(found)
    except Exception as fault:
        if "id" not in request:
            return None
        return encode(failure(request["id"], internal(request["method"], fault)))


def encode(message: Any) -> bytes:
    """Return a message as one line."""
    return wire.encode(message) + b"\n"


class _Methods(dict[str, Any]):
    """The table as jsonrpcserver's methods; an unknown name gets a function that says so, with near ones."""

    def __missing__(self, name: str) -> Any:
        if name.startswith(table.PREFIX) and name.removeprefix(table.PREFIX) in table.METHODS:
            self[name] = _adapted(name)
            return self[name]
        # Not kept: a client could name any number of them.
        return _adapted(name)


def _adapted(name: str) -> Any:
    def respond(caller: Caller, /, *positional: Any, **params: Any) -> Any:
        try:
            _refuse(name, positional)
            return jsonrpcserver.Success(msgspec.to_builtins(table.call(name, params, caller)))
        except UnderstudyError as problem:
            return jsonrpcserver.Error(*codes.of(problem, withdrawn=caller.cancelled()))

    return respond


def _refuse(name: str, positional: tuple[Any, ...]) -> None:
    if not name.startswith(table.PREFIX):
        near = [f"{table.PREFIX}{name}"] if name in table.METHODS else None
        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            f"There is no method {name!r}.",
            hint=f"Every method begins with {table.PREFIX}; protocol/README.md lists them.",
            names=near,
        )
    table.method(name)
    if positional:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{name} got its parameters as an array.",
            hint="Pass them by name, as an object.",
        )


_METHODS = _Methods()
