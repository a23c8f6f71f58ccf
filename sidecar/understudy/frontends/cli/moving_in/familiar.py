"""The commands of other tools, as other names for the commands here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Alias(NamedTuple):
    """What a command of another tool is here."""

    command: str
    """The words of the command, and options that it always gets."""
    about: str
    """Its line in the help."""
    argument: str = ""
    """The option of the other tool whose value is an argument here."""


ALIASES = {
    "capabilities": Alias("tools list", "tools: what each agent CLI can do here.", "--agent"),
    "routes": Alias("recipes", "recipes: which delegator each of them would take."),
    "model": Alias("ledger --by delegator --model", "ledger: what was spent on a model."),
    "cleanup": Alias("worktrees cleanup", "worktrees cleanup: remove what is decided."),
    "monitor": Alias("watch --all", "watch --all: everything in progress, live."),
    "profiles init": Alias("init", "init: write a commented configuration file."),
    "profiles": Alias("delegators", "delegators: list, show…"),
}


def translated(arguments: Sequence[str]) -> list[str]:
    """Return a command line with the command of another tool replaced."""
    for name, alias in ALIASES.items():
        words = name.split()
        if list(arguments[: len(words)]) == words:
            return [*alias.command.split(), *(word for word in arguments[len(words) :] if word != alias.argument)]
    return list(arguments)
