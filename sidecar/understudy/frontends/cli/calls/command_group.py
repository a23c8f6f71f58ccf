"""Groups of commands: they suggest one for an unknown name, or have a default; and other tools' names for commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

_START = ("start implement --task TEXT", "recipes")
_MEANT = {
    "ad": ("ask", "write", "summarize"),
    "alert": ("inbox",),
    "api": ("rpc",),
    "apply": ("accept",),
    "approve": ("accept",),
    "configure": ("config", "init"),
    "costs": ("ledger",),
    "create": _START,
    "dashboard": ("monitor", "status"),
    "delegate": _START,
    "delete": ("discard", "remove"),
    "docs": ("start docs FILE",),
    "edit": ("amend", "update"),
    "exec": _START,
    "fix": ("start fix --task TEXT",),
    "health": ("delegators test --all", "status"),
    "history": ("list", "ledger"),
    "implement": _START,
    "import-profile": ("delegators import FILE",),
    "info": ("show",),
    "install": ("instructions install", "mcp install"),
    "install-skill": ("instructions install",),
    "kill": ("cancel",),
    "launch": _START,
    "log": ("watch", "show"),
    "logs": ("watch", "show"),
    "ls": ("list",),
    "merge": ("accept",),
    "models": ("servers models NAME",),
    "new": ("start", "add"),
    "pause": ("queue pause",),
    "profile": ("profiles show NAME",),
    "ps": ("list",),
    "resume": ("queue resume",),
    "revert": ("undo",),
    "rm": ("discard", "remove"),
    "run": _START,
    "set": ("config", "update"),
    "settings": ("config",),
    "setup": ("doctor", "init"),
    "stalled": ("monitor", "inbox"),
    "stats": ("metrics",),
    "stop": ("cancel",),
    "test": ("doctor", "start tests FILE"),
    "tests": ("start tests FILE",),
    "uninstall": ("instructions uninstall", "mcp uninstall"),
    "workflow": ("delegators export NAME --format agnt", "recipes"),
}
"""What other programs call a command → the command lines here that do it, of which a group has some."""

_BEFORE_COMMAND = ("--profile", "--model", "--temperature")
"""Options that agent-delegate has before its command; each takes a value."""


class SuggestingGroup(click.Group):
    """A group that suggests commands for an unknown name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; fail for an unknown one with similar names."""
        commands = self.list_commands(ctx)
        if args and args[0] not in commands and not args[0].startswith("-"):
            import difflib

            names = {*commands, *(ALIASES if ctx.parent is None else ())}
            meant = [line for line in _MEANT.get(args[0], ()) if line.split()[0] in names]
            near = meant or difflib.get_close_matches(args[0], commands, n=3, cutoff=0.5)
            lines = " or ".join(f"`{ctx.command_path} {line}`" for line in near)
            hint = f"Did you mean {lines}?" if near else f"`{ctx.command_path} --help` lists the commands."
            ctx.fail(f"Unknown command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)


class DefaultGroup(SuggestingGroup):
    """A group whose first command is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the name of the first command where there is none."""
        first = args[0] if args else ""
        if not ctx.resilient_parsing and (not first or (first.startswith("-") and first not in ctx.help_option_names)):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return what the usage shows: the command is optional."""
        return [piece.replace("COMMAND", "[COMMAND]") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the first command, and all commands."""
        next(iter(self.commands.values())).format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


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
    "model": Alias("ledger --by delegator --model", "ledger: what was spent on a model."),
    "learn": Alias("routes suggest", "routes suggest: who should do what, from past runs."),
    "optimize": Alias("routes suggest", "routes suggest, too."),
    "routes learn": Alias("routes suggest", "routes suggest: who should do what, from past runs."),
    "routes optimize": Alias("routes suggest", "routes suggest, too."),
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


def after_command(arguments: Sequence[str]) -> list[str]:
    """Return a command line with the options before its command behind it, as far as agent-delegate has them there."""
    place = 0
    while place < len(arguments) and arguments[place].partition("=")[0] in _BEFORE_COMMAND:
        place += 1 if "=" in arguments[place] else 2
    if not place or place >= len(arguments) or arguments[place].startswith("-"):
        return list(arguments)
    return [arguments[place], *arguments[:place], *arguments[place + 1 :]]
