"""The interactive ``delegators add``: tool or server, model, name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.tools import how_to_install
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.delegators import NAME_PATTERN
from understudy.model.errors import UnderstudyError

_MODELS_SHOWN = 30


def delegator() -> dict[str, Any]:
    """Ask for a delegator; return its declaration."""
    listed = call("tools/list").tools
    tools = [tool for tool in listed if tool.found and (tool.runnable or tool.command)]
    servers = call("modelServers/list").model_servers
    missing = [tool for tool in listed if not tool.found and tool.install is not None]
    choices = [f"{tool.display_name} {tool.version or ''}".strip() for tool in tools]
    choices += [f"model server {entry.model_server.name} ({entry.model_server.base_url})" for entry in servers]
    choices += [f"{tool.display_name} (not installed)" for tool in missing]
    chosen = choose("Which agent CLI or model server?", choices)
    if chosen >= len(tools) + len(servers):
        tool = missing[chosen - len(tools) - len(servers)]
        for line in how_to_install(tool):
            output.say(line, err=True)
        raise click.UsageError(f"{tool.display_name} is not installed. Install it, then run this command again.")
    declared: dict[str, Any] = {}
    if chosen < len(tools):
        tool = tools[chosen]
        basis, models = tool.name, list[str]()
        if not tool.runnable:
            launch = {"command": tool.command}
            return {"tool": "generic", "displayName": tool.display_name, "launch": launch, "name": _name(basis, "")}
        declared["tool"] = tool.name
        optional = True
    else:
        server = servers[chosen - len(tools)].model_server
        declared["modelServer"] = server.name
        basis, models = server.name, _models(server.name)
        optional = False
    model = _model(models, optional=optional)
    if model:
        declared["model"] = model
    declared["name"] = _name(basis, model)
    return declared


def choose(question: str, choices: Sequence[str]) -> int:
    """Print numbered choices and return the index of the chosen one."""
    click.echo(question, err=True)
    for number, choice in enumerate(choices, 1):
        output.say(f"  {number}  {terminal.one_line(choice)}", err=True)
    number = click.prompt("Number", type=click.IntRange(1, len(choices)), default=1, err=True)
    return int(number) - 1


def _models(server: str) -> list[str]:
    try:
        return [model.id for model in call("modelServers/models", name=server).models]
    except UnderstudyError as error:
        output.say(f"The models could not be listed: {terminal.one_line(error.message)}", err=True)
        return []


def _model(models: list[str], *, optional: bool) -> str:
    for model in models[:_MODELS_SHOWN]:
        output.say(f"  {terminal.one_line(model)}", err=True)
    if len(models) > _MODELS_SHOWN:
        output.say(f"  and {len(models) - _MODELS_SHOWN} more", err=True)
    default = "" if optional else (models[0] if models else None)
    text = "Model (empty: the tool's default)" if optional else "Model"
    return str(click.prompt(text, default=default, show_default=bool(default), err=True)).strip()


def _name(basis: str, model: str) -> str:
    taken = {entry.delegator.name for entry in call("delegators/list").delegators}
    suggested = re.sub(r"[^a-z0-9._-]+", "-", f"{basis}-{model}".lower() if basis in taken and model else basis.lower())
    name, number = suggested[:60].strip("-"), 2
    while name in taken:
        name, number = f"{suggested[:60].strip('-')}-{number}", number + 1
    while True:
        typed = str(click.prompt("Name", default=name, err=True)).strip()
        if re.fullmatch(NAME_PATTERN, typed) and typed not in taken:
            return typed
        output.say(
            "This name is taken."
            if typed in taken
            else "Use lowercase letters, digits, dots, hyphens and underscores, at most 64.",
            err=True,
        )
