"""The options that change a delegator for one delegation, for every command that starts one."""

from __future__ import annotations

import json
from typing import Any

import click

from understudy.frontends.cli.arguments import options

add = options.all_of(
    click.option("--model", metavar="ID", help="Use this model of the delegator's tool or server."),
    click.option("--mode", type=click.Choice(["headless", "acp", "tmux"]), help="Drive the tool like this."),
    click.option("--permission-mode", metavar="MODE", help="What the tool may do without asking."),
    click.option(
        "--set", "properties", metavar="KEY=VALUE", multiple=True, help="Set a model property; may be repeated."
    ),
    click.option(
        "--limit",
        "limits",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set a limit by its name in the configuration (answer_seconds=60); may be repeated.",
    ),
    click.option(
        "--worktree/--no-worktree",
        "use_worktree",
        default=None,
        help="Let the agent work in a worktree, or in your checkout itself.",
    ),
)


def of(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the ``LaunchOverride`` among a command's options, None if there is none."""
    override = {
        "model": arguments["model"],
        "mode": arguments["mode"],
        "permissionMode": arguments["permission_mode"],
        "modelProperties": dict(map(_property, arguments["properties"])) or None,
        "limits": dict(map(_limit, arguments["limits"])) or None,
        "useWorktree": arguments["use_worktree"],
    }
    return {name: value for name, value in override.items() if value is not None} or None


def _property(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="--set")
    try:
        decoded = json.loads(value)
    except ValueError:
        return name, value
    return name, decoded if isinstance(decoded, bool | int | float) else value


def _limit(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint="--limit")
    return name, value
