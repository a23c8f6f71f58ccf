"""Read the report of an agent that prints JSON: one document, several, or events between other lines."""

from __future__ import annotations

import json
from typing import Any

from understudy.model import wire
from understudy.model.text import foreign_json

MAX_CHARACTERS = 4 << 20
"""Longer output is not read: a report is short."""
_DEPTH = 5
_PLACES = ("result", "response", "summary", "answer", "text", "message", "content", "output", "item", "part", "parts")
"""Where agents put their last message, the most likely place first."""


def report(output: str) -> str | None:
    """Return the last message in ``output``; empty when it has none, None when ``output`` is not JSON.

    Output with other lines (a banner, a log) counts as JSON if at least half of its lines are events, which are objects
    with a ``type``, and if they have a message; what follows the last event is taken for it. Prose may quote an object.
    """
    if len(output) > MAX_CHARACTERS:
        return None
    documents = _documents(output)
    if documents is not None:
        return _last_message(documents)
    lines = [line for line in output.splitlines() if line.strip()]
    events = [(number, event) for number, line in enumerate(lines) if (event := _event(line)) is not None]
    if not events or 2 * len(events) < len(lines):
        return None
    rest = "\n".join(lines[events[-1][0] + 1 :]).strip()
    return rest or _last_message([event for _, event in events]) or None


def _documents(output: str) -> list[Any] | None:
    """Return the JSON documents that ``output`` consists of; None if there is anything else in it."""
    decoder, position, documents = json.JSONDecoder(), 0, []
    while position < len(output):
        if output[position].isspace():
            position += 1
            continue
        if output[position] not in "{[":
            return None
        try:
            document, position = decoder.raw_decode(output, position)
        except (ValueError, RecursionError):
            return None
        documents.append(wire.whole(document))
    return documents or None


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = foreign_json.decode(line)
    except foreign_json.UNREADABLE:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


def _last_message(documents: list[Any]) -> str:
    return next((text for document in reversed(documents) if (text := _message(document, _DEPTH))), "")


def _message(value: Any, depth: int) -> str:
    """Return the message in a document: of a list the last one, of an object that in the most likely place."""
    if isinstance(value, list) and depth:
        return next((text for item in reversed(value) if (text := _message(item, depth - 1))), "")
    if isinstance(value, dict) and depth:
        for place in _PLACES:
            inner = value.get(place)
            text = inner.strip() if isinstance(inner, str) else _message(inner, depth - 1)
            if text:
                return text
    return ""
