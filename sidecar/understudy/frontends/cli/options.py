"""Options that several commands share, and what the shell completes for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])

_COMPLETED_IDS = 50


def examples(*lines: str) -> str:
    """Return an epilog with examples, laid out as written."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def as_json(command: Command) -> Command:
    """Add ``--json``."""
    return click.option("--json", "json_", is_flag=True, help="Print the contract's structure as JSON.")(command)


def identifiers(command: Command) -> Command:
    """Add the argument ``ID…``."""
    return click.argument("identifiers", metavar="ID...", nargs=-1, required=True, shell_complete=complete_identifiers)(
        command
    )


def identifier(command: Command) -> Command:
    """Add the argument ``ID``."""
    return click.argument("identifier", metavar="ID", shell_complete=complete_identifiers)(command)


def following(command: Command) -> Command:
    """Add ``--detach`` and ``--quiet``, for commands that start a delegation and follow it."""
    command = click.option("-q", "--quiet", is_flag=True, help="Show the result only, no progress.")(command)
    return click.option("--detach", is_flag=True, help="Print the id and return at once; it goes on.")(command)


def scope(command: Command) -> Command:
    """Add ``--scope``."""
    return click.option(
        "--scope",
        type=click.Choice(["user", "workspace"]),
        default="user",
        show_default=True,
        help="Whose configuration: yours, or the repository's .understudy folder.",
    )(command)


def in_workspace(command: Command) -> Command:
    """Add ``--workspace``; the commands that list configuration see it as this folder does."""
    return click.option(
        "--workspace",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="As seen from this folder; here by default.",
    )(command)


def complete_identifiers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ids, newest first, with their titles."""
    _ = context, parameter
    return _quietly(lambda: _identifiers(incomplete))


def complete_delegators(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of delegators."""
    _ = context, parameter
    return _quietly(lambda: _names("delegators/list", "delegators", "delegator", incomplete))


def complete_servers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of model servers."""
    _ = context, parameter
    return _quietly(lambda: _names("modelServers/list", "model_servers", "model_server", incomplete))


def complete_recipes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete recipes."""
    _ = context, parameter
    return _quietly(lambda: _recipes(incomplete))


def complete_tools(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of agent CLIs."""
    _ = context, parameter
    return _quietly(lambda: _tools(incomplete))


def _quietly(find: Callable[[], list[CompletionItem]]) -> list[CompletionItem]:
    # A person who presses TAB wants names or nothing.
    with contextlib.suppress(Exception):
        return find()
    return []


def _identifiers(incomplete: str) -> list[CompletionItem]:
    from understudy.faces.cli.calls import call  # noqa: PLC0415 - only in a completion
    from understudy.faces.cli.terminal import one_line  # noqa: PLC0415

    found = call("delegations/list", limit=_COMPLETED_IDS).delegations
    return [
        CompletionItem(one.id, help=f"{one.verdict or one.state} {one_line(one.title)}")
        for one in found
        if one.id.startswith(incomplete) or one.id.rpartition("-")[2].startswith(incomplete)
    ]


def _here() -> str:
    from pathlib import Path  # noqa: PLC0415 - only in a completion

    return str(Path.cwd())


def _names(method: str, plural: str, singular: str, incomplete: str) -> list[CompletionItem]:
    from understudy.faces.cli.calls import call  # noqa: PLC0415 - only in a completion

    entries = getattr(call(method, workspace=_here()), plural)
    found = [getattr(entry, singular) for entry in entries]
    return [CompletionItem(one.name, help=one.display_name or "") for one in found if one.name.startswith(incomplete)]


def _recipes(incomplete: str) -> list[CompletionItem]:
    from understudy.faces.cli.calls import call, uri  # noqa: PLC0415 - only in a completion

    found = call("recipes/list", uri=uri(".")).recipes
    return [CompletionItem(one.name, help=one.title) for one in found if one.name.startswith(incomplete)]


def _tools(incomplete: str) -> list[CompletionItem]:
    from understudy.faces.cli.calls import call  # noqa: PLC0415 - only in a completion

    found = call("tools/list").tools
    return [CompletionItem(one.name, help=one.display_name) for one in found if one.name.startswith(incomplete)]
