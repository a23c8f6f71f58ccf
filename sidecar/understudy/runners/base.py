"""What every runner takes and gives: ``Task`` in, events through ``emit``, ``Outcome`` out.

Failures are raised as ``UnderstudyError``; there is no failed ``Outcome``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from understudy.model.delegations import PermissionOption, Usage
from understudy.model.delegators import Delegator, Launch, Limits, ModelServer, Recipe
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event

FIRST_EVENT_SECONDS = 300.0
"""Local models load for minutes before their first token, and agent CLIs retry silently for as long."""
IDLE_SECONDS = 600.0
"""Agents run test suites between two events; ten minutes of nothing is a stall."""
AFTER_RESULT_SECONDS = 30.0
"""Some CLIs never exit after their result; thirty seconds is the grace their other users settled on."""
CHARACTERS_PER_TOKEN = 4
"""The usual rule of thumb, used only where nobody counted; such counts are marked as estimates."""

Emit = Callable[[Event], None]
"""Takes one event without ``seq``, ``at`` and ``attempt``; returns at once."""

Ask = Callable[[str, str, list[PermissionOption]], Awaitable[tuple[PermissionOption, str | None]]]
"""Asks a person: title, detail and options (one of them must reject) in; the option chosen, and a note, out.

It appends ``permission`` and ``permission_answered`` itself, puts one question after another, and answers with the
option that rejects when nobody does within the limit ``answer_seconds``. Idle limits must not run while it waits.
"""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One attempt's work, completely resolved."""

    delegation_id: str
    recipe: Recipe
    prompt: str
    """Exactly what is handed over: prefix, suffix and files included (see ``decorate``)."""
    prompt_file: Path
    """The same text on disk, outside the tree."""
    worktree: Path | None
    """The isolated tree; None for recipes that return text."""
    delegator: Delegator
    model_server: ModelServer | None = None
    files: list[str] = field(default_factory=list)
    """What the work is about: POSIX paths relative to the workspace."""
    target: str | None = None
    """The file to write, for recipes that return a file; POSIX, relative."""
    interpreter: str | None = None
    """The project's Python."""
    limits: Limits = field(default_factory=Limits)
    """The limits in force; the delegator's own are already merged in."""
    session_id: str | None = None
    """The tool's session to go on with."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the delegator with a plain value, or resolved from the names it asked for."""
    key: Callable[[], str | None] | None = None
    """Reads the model server's key when it is needed."""
    ask: Ask | None = None
    """Puts a question of the agent to a person; None where nobody can be asked."""
    stdout_log: Path | None = None
    stderr_log: Path | None = None
    """Where raw output is kept, capped; None: it is not kept."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended well."""

    text: str | None = None
    summary: str | None = None
    session_id: str | None = None
    usage: Usage
    cost_usd: str | None = None
    """As the tool or the server reported it; None: nobody said."""
    estimated: bool = False
    """The usage was not reported and is Understudy's estimate."""


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a runner can do; everything else in a configuration is refused, never ignored."""

    launch: frozenset[str] = frozenset()
    """Fields of ``Launch`` that have an effect."""
    limits: frozenset[str] = frozenset({"total_seconds", "idle_seconds", "first_event_seconds", "after_result_seconds"})
    """Fields of ``Limits`` that have an effect."""
    returns: frozenset[str] = frozenset({"text", "file", "tree"})
    """Kinds of recipes."""
    recipes: frozenset[str] | None = None
    """Recipes by name; None: every recipe of a kind in ``returns``."""
    tree_recipes: frozenset[str] | None = None
    """Recipes that return a tree, where only some can be done."""
    needs_model_server: bool = False
    takes_model_server: bool = False
    protocols: frozenset[str] = frozenset({"openai", "auto"})
    """What a model server that it takes may speak."""
    properties: bool = False
    """``model_properties`` have an effect."""


class Runner(Protocol):
    """Drives one kind of worker."""

    name: str
    abilities: Abilities

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Do ``task``, telling what happens through ``emit``; raise ``UnderstudyError`` when it cannot be done.

        Cancelling the call ends everything that it started before ``CancelledError`` leaves it.
        """
        ...


def decorate(prompt: str, launch: Launch | None) -> str:
    """Return ``prompt`` between the delegator's ``promptPrefix`` and ``promptSuffix``.

    Whoever builds the prompt calls this, so that a preview shows exactly what will be sent.
    """
    if launch is None:
        return prompt
    return "\n\n".join(part for part in (launch.prompt_prefix, prompt, launch.prompt_suffix) if part)


def delivery_of(command: list[str], asked: str | None) -> tuple[str, str | None]:
    """Return how a generic command gets its prompt (``argument``, ``file``, ``stdin``), and what is wrong with that.

    Without ``asked`` the template decides: ``{prompt}`` → argument, ``{promptFile}`` → file, neither → standard input.
    """
    joined = "\n".join(command)
    delivery = asked or ("argument" if "{prompt}" in joined else "file" if "{promptFile}" in joined else "stdin")
    if delivery != "argument" and "{prompt}" in joined:
        return delivery, f"delivers its prompt by {delivery} but has the slot {{prompt}} in its command"
    if delivery == "file" and "{promptFile}" not in joined:
        return delivery, "delivers its prompt as a file but has no slot {promptFile} in its command"
    return delivery, None


def estimate_tokens(text: str) -> int:
    """Return roughly how many tokens ``text`` is."""
    return (len(text) + CHARACTERS_PER_TOKEN - 1) // CHARACTERS_PER_TOKEN


_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, screen
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC (clipboard, links, title), DCS, SOS, PM, APC
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI as one C1 character
    r"|\x1b[ -/]*[0-~]?"  # any other escape, and a lone one
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # control characters but tab, line feed, carriage return
)


def plain(text: str) -> str:
    """Return ``text`` without terminal escapes and control characters: it will be shown by terminals and web pages."""
    return _ESCAPES.sub("", text)


def plain_json(value: Any, depth: int = 32) -> Any:
    """Return JSON data with every string made ``plain``; what lies deeper than ``depth`` is left out."""
    if isinstance(value, str):
        return plain(value)
    if depth == 0:
        return None
    if isinstance(value, list):
        return [plain_json(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {plain(str(name)): plain_json(item, depth - 1) for name, item in value.items()}
    return value


def over_budget(
    limits: Limits, *, turns: int, output_tokens: int, tokens: int, cost_usd: str | None
) -> UnderstudyError | None:
    """Return the error for the first limit that these counts are above, None while all hold."""
    from decimal import Decimal, InvalidOperation  # noqa: PLC0415 - needed only where money is counted

    for name, count, limit in (
        ("maxTurns", turns, limits.max_turns),
        ("maxOutputTokens", output_tokens, limits.max_output_tokens),
        ("maxTokens", tokens, limits.max_tokens),
    ):
        if limit is not None and count > limit:
            return UnderstudyError(
                ErrorKind.BUDGET_EXHAUSTED,
                f"The attempt was stopped at {count}: its limit {name} is {limit}.",
                hint=f"Raise {name} in the delegator's limits, or delegate a smaller piece.",
            )
    if limits.max_usd is not None and cost_usd is not None:
        try:
            above = Decimal(cost_usd) > Decimal(limits.max_usd)
        except InvalidOperation:
            return None
        if above:
            return UnderstudyError(
                ErrorKind.BUDGET_EXHAUSTED,
                f"The attempt was stopped at {cost_usd} USD: its limit maxUsd is {limits.max_usd}.",
                hint="Raise maxUsd in the delegator's limits, or delegate a smaller piece.",
            )
    return None
