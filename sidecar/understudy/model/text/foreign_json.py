"""Decode JSON that other programs wrote: agents, model servers, clients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What ``decode`` raises for data that is not JSON, is nested too deeply, or has another structure."""

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    rb"|.)",  # any other escape, also that of a backslash
    re.DOTALL,
)


def decode(data: bytes | str, decoder: Callable[[bytes], Any] = msgspec.json.decode) -> Any:
    """Return a JSON value, with U+FFFD for what no text contains: bytes that are not UTF-8, halves of surrogate pairs.

    Programs in JavaScript write half a pair whenever they cut a text inside an emoji, and msgspec refuses the line.
    Raises ``UNREADABLE``.
    """
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    try:
        return decoder(raw)
    except (msgspec.ValidationError, RecursionError):
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return decoder(with_whole_pairs(raw).decode("utf-8", "replace").encode())


def with_whole_pairs(data: bytes) -> bytes:
    r"""Return JSON with ``\ufffd`` for each escape that is half of a surrogate pair."""
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)
