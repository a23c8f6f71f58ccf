"""JSON-RPC 2.0, for every transport: what is a request, an id, an answer; and the descriptors of stdin and stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeGuard

from understudy.api import error_answers
from understudy.model.errors import UnderstudyError

Message = dict[str, Any]
Key = tuple[bool, Any]
"""Whether an id is a string, and the id: 1 and "1" are different ids, 1 and 1.0 are the same."""

CANCEL = "$/cancelRequest"
"""The notification that cancels a request, from LSP 3.17."""


def is_id(value: Any) -> bool:
    """Return whether a value is valid as the id of a request (JSON-RPC 2.0 §4)."""
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def is_strict_id(value: Any) -> TypeGuard[str | int]:
    """Return whether a value is valid as an id where it is ``integer | string``: in LSP 3.17 and ACP."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def problem(message: Any, valid_id: Callable[[Any], bool] = is_id) -> str | None:
    """Return why a JSON value is neither request nor notification (JSON-RPC 2.0 §4), None if it is one."""
    if not isinstance(message, dict):
        return "A request must be an object."
    if message.get("jsonrpc") != "2.0":
        return 'The member "jsonrpc" must be "2.0".'
    if not isinstance(message.get("method"), str):
        return 'The member "method" must be a string.'
    if "id" in message and not valid_id(message["id"]):
        kinds = "a string, a number or null" if valid_id is is_id else "a string or an integer"
        return f'The member "id" must be {kinds}.'
    if not isinstance(message.get("params"), dict | list | None):
        return 'The member "params" must be an object or an array.'
    return None


def is_response(message: Any) -> bool:
    """Return whether a message is the answer to a request."""
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


def key(identifier: Any) -> Key:
    """Return what distinguishes an id from all others."""
    return isinstance(identifier, str), identifier


def cancelled(params: Any) -> Key | None:
    """Return which request the parameters of ``CANCEL`` name, None if they name none."""
    if isinstance(params, dict) and "id" in params and is_id(params["id"]):
        return key(params["id"])
    return None


def notification(method: str, params: Any) -> Message:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(identifier: Any, value: Any) -> Message:
    """Return the response to a request that succeeded."""
    return {"jsonrpc": "2.0", "id": identifier, "result": value}


def error(identifier: Any, code: int, message: str, data: Any = None) -> Message:
    """Return an error response."""
    body = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": identifier, "error": body}


def failure(identifier: Any, problem: UnderstudyError, *, cancelled: bool = False) -> Message:
    """Return the response for a typed error; ``cancelled``: the client cancelled the request."""
    return error(identifier, *error_answers.to_json_rpc(problem, cancelled=cancelled))


def take_stdio() -> tuple[int, int]:
    """Move stdin and stdout to new descriptors and return them; libraries and children then cannot use the stream."""
    reading, writing = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    os.close(nowhere)
    sys.stdout = sys.stderr
    return reading, writing
