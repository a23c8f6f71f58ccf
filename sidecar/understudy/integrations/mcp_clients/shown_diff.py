"""The diff of a configuration as it is shown: without the values of other entries, which may be keys. Pure.

The lines around an entry may be the environment of another server, and a file may be one line. So every text and every
comment is replaced, except for names of keys, and for what the entry itself starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from understudy.model.text import line_diff

HIDDEN = "…"
_LITERAL = re.compile(
    r"""(?P<comment>//[^\r\n]*|/\*.*?\*/|\#[^\r\n]*)
    |(?P<text>\"\"\".*?\"\"\"|'''.*?'''|"(?:[^"\\\r\n]|\\.)*"?|'[^'\r\n]*'?)(?P<key>[ \t]*[:=.])?""",
    re.VERBOSE | re.DOTALL,
)
_ALNUM = re.compile(r"[^\W_]")


def unified(before: str, after: str, old_name: str, new_name: str, *entries: Any) -> str:
    """Return the diff of two texts; what the ``entries`` start is shown, unless it looks like an assignment."""
    shown = {text for entry in entries for text in _texts(entry)}
    old, new = (_hidden(text, shown) for text in (before, after))
    found = line_diff.unified(old, new, old_name, new_name)
    # A change of hidden values only is a change, too.
    return found or ("" if before == after else f"--- {old_name}\n+++ {new_name}\n")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


def _hidden(text: str, shown: set[str]) -> str:
    def replace(found: re.Match[str]) -> str:
        comment, literal, key = found["comment"], found["text"], found["key"] or ""
        if comment is not None:
            start = 2 if comment.startswith("/") else 1
            return _keeping_lines(comment, comment[:start], "*/" if comment.endswith("*/") else "")
        if key or not _ALNUM.search(literal) or _value(literal) in shown:
            return found[0]
        return _keeping_lines(literal, literal[0], literal[0])

    return _LITERAL.sub(replace, text)


def _keeping_lines(text: str, opening: str, closing: str) -> str:
    """Hide a text, but not where its lines end: a diff has the numbers of lines."""
    if not _ALNUM.search(text):
        return text
    return f"{opening}{HIDDEN}" + "\n" * text.count("\n") + closing


def _value(literal: str) -> str:
    try:
        value = json.loads(literal)
    except ValueError:
        value = literal.strip("'\"")
    return str(value)
