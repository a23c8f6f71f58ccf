"""Read the report of an agent that prints JSON, as one document or one a line."""

from __future__ import annotations

import json
from typing import Any

MAX_CHARACTERS = 4 << 20
"""Longer output is not read: a report is short."""
_DEPTH = 5
_PLACES = ("result", "response", "summary", "answer", "text", "message", "content", "output", "item", "part", "parts")
"""Where agents put their last message, the most likely place first."""


def report(output: str) -> str | None:
    """Return the last message in ``output``; empty when it has none, None when ``output`` is not JSON."""
    if not output.lstrip().startswith(("{", "[")) or len(output) > MAX_CHARACTERS:
        return None
    try:
        documents = [json.loads(output)]
    except (ValueError, RecursionError):
        try:
            documents = [json.loads(line) for line in output.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            return None
    return next((text for document in reversed(documents) if (text := _message(document, _DEPTH))), "")


def _message(value: Any, depth: int) -> str:
    """Return the message in a document: of a list the last one, of an object that in the most likely place."""
    if isinstance(value, list) and depth:
        return next((text for item in reversed(value) if (text := _message(item, depth - 1))), "")
    if isinstance(value, dict) and depth:
        for place in _PLACES:
            found = value.get(place)
            text = found.strip() if isinstance(found, str) else _message(found, depth - 1)
            if text:
                return text
    return ""
