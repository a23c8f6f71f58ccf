"""Encode an event as one line of bounded length, whatever an agent wrote into it."""

from __future__ import annotations

from typing import Any

import msgspec

from understudy.model.delegation.events import Event
from understudy.model.wire import ready

LONGEST_LINE = 1024 * 1024
"""An event is one ``write`` and one message to a client; anything larger belongs in a file."""

_SHORTEST_TEXT = 64
_DEEPEST = 64

_encoder = msgspec.json.Encoder()


def encode(event: Event) -> tuple[Event, bytes]:
    """Return the event that is written, and its line with the newline.

    Invalid Unicode (lone surrogates) is replaced. If the line is longer than ``LONGEST_LINE``, the longest texts
    are cut (``… [N characters left out]``), then lists, until
    it fits; ``truncatedBytes`` of a ``tool_result`` counts what was cut. The event returned equals what a
    reader will decode.
    """
    try:
        line = _encoder.encode(event)
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError, ValueError):
        event = _plain(event)
        line = _encoder.encode(event)
    if len(line) >= LONGEST_LINE:
        event, line = _shortened(event, line)
    return event, line + b"\n"


def _plain(event: Event) -> Event:
    fields = {name: _writable(getattr(event, name), 0) for name in event.__struct_fields__}
    return type(event)(**fields)


def _writable(value: Any, depth: int) -> Any:
    """Return ``value`` with everything replaced that JSON cannot represent."""
    if isinstance(value, str):
        return type(value)(value) if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        # Other programs read JSON numbers of at most 64 bits.
        return value if -(2**63) <= value < 2**63 else hex(value)
    if depth > _DEEPEST:
        return "… [nested too deeply]"
    if isinstance(value, msgspec.Struct):
        parts = {name: _writable(getattr(value, name), depth + 1) for name in value.__struct_fields__}
        return type(value)(**parts)
    if isinstance(value, dict):
        return {str(_writable(str(key), depth)): _writable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_writable(item, depth + 1) for item in value]
    return str(value).encode("utf-8", "replace").decode()


def _shortened(event: Event, line: bytes) -> tuple[Event, bytes]:
    # Not to_builtins: reading the line back gives the plain data that a reader would see.
    data = msgspec.json.decode(line)
    longest_text, longest_list = LONGEST_LINE // 2, 1 << 30
    while len(line) >= LONGEST_LINE:
        if longest_text > _SHORTEST_TEXT:
            longest_text //= 2
        elif longest_list > 1:
            longest_list = min(longest_list, 1 << 16) // 2
        else:
            data = _without_free_form(data)
        short = _cut(data, longest_text, longest_list)
        if short.get("type") == "tool_result" and len(data["output"]) > longest_text:
            gone = len(data["output"][longest_text:].encode())
            short["truncatedBytes"] = (data.get("truncatedBytes") or 0) + gone
        event = msgspec.convert(short, ready(type(event)))
        line = _encoder.encode(event)
    return event, line


def _cut(value: Any, text: int, items: int) -> Any:
    if isinstance(value, str):
        if len(value) <= text:
            return value
        return f"{value[:text]}… [{len(value) - text} characters left out]"
    if isinstance(value, list):
        return [_cut(item, text, items) for item in value[:items]]
    if isinstance(value, dict):
        return {key: _cut(item, text, items) for key, item in list(value.items())[: max(items, 64)]}
    return value


def _without_free_form(data: Any) -> Any:
    """Drop free-form values that an agent may nest; nothing else can still be this large."""
    return {key: None if key == "input" else [] if isinstance(value, list) else value for key, value in data.items()}
