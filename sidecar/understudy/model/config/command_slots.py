"""The slots of a ``generic`` tool's command, and words that were meant to be slots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from understudy.model.capabilities import OptionValue

MODEL = "{model}"
MCP_CONFIG = "{mcpConfig}"
SLOTS = (
    OptionValue(value="{prompt}", title="the task, as text"),
    OptionValue(
        value="{promptFile}",
        title="the path of a file with the task; without it and {prompt}, the task is sent to standard input",
    ),
    OptionValue(value=MODEL, title="the delegator's model"),
    OptionValue(value="{worktree}", title="the folder to work in, which is also the current folder"),
    OptionValue(
        value=MCP_CONFIG, title="the path of a file with the relay tools, as MCP servers; omitted without them"
    ),
    OptionValue(value="{sessionId}", title="the session to continue; omitted in the first turn"),
)

NAMES = tuple(slot.value.strip("{}") for slot in SLOTS)
SLOT = re.compile(r"\{(" + "|".join(NAMES) + r")\}")
_BRACES = re.compile(r"\{([A-Za-z]+)(\}|$)")
_SAME = 3
"""A word in braces that begins with this many letters of a slot was meant to be one; programs take other braces."""


def misspelt(command: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the arguments, by number, that contain a word in braces that was meant to be a slot, and that word.

    Also a slot at the end of an argument without its closing brace.
    """
    starts = {name[:_SAME].lower() for name in NAMES}
    for number, argument in enumerate(command):
        for match in _BRACES.finditer(argument):
            word, closed = match[1], bool(match[2])
            meant = match[0] == argument or word[:_SAME].lower() in starts
            if (word in NAMES and not closed) or (word not in NAMES and closed and meant):
                yield number, match[0]


def delivery_of(command: list[str], asked: str | None) -> tuple[str, str | None]:
    """Return how ``command`` gets its prompt (``argument``, ``file``, ``stdin``), and a contradiction if there is one.

    Without ``asked`` the template decides: ``{prompt}`` → argument, ``{promptFile}`` → file, neither → standard input.
    """
    joined = "\n".join(command)
    delivery = asked or ("argument" if "{prompt}" in joined else "file" if "{promptFile}" in joined else "stdin")
    if delivery != "argument" and "{prompt}" in joined:
        return delivery, f"delivers its prompt by {delivery} but has {{prompt}} in its command"
    if delivery == "file" and "{promptFile}" not in joined:
        return delivery, "delivers its prompt as a file but has no {promptFile} in its command"
    return delivery, None
