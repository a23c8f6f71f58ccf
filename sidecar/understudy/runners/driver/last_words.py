"""Choose what to show of the output of a program that failed."""

from __future__ import annotations

import re

SHOWN_CHARACTERS = 600
"""Characters of standard error, or of the last output, that a message quotes."""

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):|^  File \".*\", line \d+", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?:\w+\.)*[A-Za-z_]\w*(?:: .*)?$")
_ERROR = re.compile(r"^(?:Uncaught )?(?:\w+\.)*\w*(?:Error|Exception)\b(?: \[\w+\])?: .+")


def last_words(text: str) -> str:
    """Return the last lines of ``text`` that fit, or the end of the last one; the error comes first if it is known.

    Some places show only the first line. Python names the error at the end of a traceback, Node.js in the middle.
    """
    shown = _last_lines(text)
    error = _error(shown)
    return shown if error is None or shown.startswith(error) else f"{error}\n{shown}"


def _last_lines(text: str) -> str:
    shown = text[-SHOWN_CHARACTERS:]
    if len(text) > len(shown) and "\n" in shown:
        shown = shown.partition("\n")[2]
        # Python marks a part of the line above: without that line, its ^^^^ mark nothing.
        while not any(map(str.isalnum, shown.partition("\n")[0])) and "\n" in shown:
            shown = shown.partition("\n")[2]
    return shown


def _error(text: str) -> str | None:
    """Return the line with which the text names an error, if it looks like an uncaught one."""
    lines = text.splitlines()
    if _TRACEBACK.search(text) and (found := [line for line in lines if _EXCEPTION.match(line)]):
        return found[-1]
    found = [line for line in lines if _ERROR.match(line)]
    return found[-1] if found else None
