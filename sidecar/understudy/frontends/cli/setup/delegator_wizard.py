"""The interactive ``delegators add``: what works, its model or command, and a name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.tools import how_to_install
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.config_entries import ServerPreset, ToolEntry
from understudy.model.config.delegators import NAME_PATTERN, Scope
from understudy.model.delegation.events import CUSTOM_COMMAND
from understudy.model.errors import UnderstudyError

_MODELS_SHOWN = 30


def delegator() -> dict[str, Any]:
    """Ask for a delegator; return its declaration. A model server that runs here and is chosen is added."""
    listed = call("tools/list").tools
    there = {entry.delegator.tool for entry in call("delegators/list").delegators if entry.scope is Scope.BUILTIN}
    asked = there | {CUSTOM_COMMAND}
    tools = [tool for tool in listed if tool.found and (tool.runnable or tool.command) and tool.name not in asked]
    servers = [entry.model_server for entry in call("modelServers/list").model_servers]
    addresses = {server.base_url.rstrip("/") for server in servers}
    presets = call("modelServers/presets").presets
    running = [preset for preset in presets if preset.running and preset.base_url.rstrip("/") not in addresses]
    missing = [tool for tool in listed if not tool.found and tool.install is not None]
    # What runs now comes first, and what cannot work yet last.
    choices: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        *((f"{preset.title}, running at {preset.base_url}", partial(_of_running, preset)) for preset in running),
        *((f"model server {server.name} ({server.base_url})", partial(_of_server, server.name)) for server in servers),
        *((f"{tool.display_name} {tool.version or ''}".strip(), partial(_of_tool, tool)) for tool in tools),
        ("Custom command", _of_command),
        *((f"{tool.display_name} (not installed)", partial(_refuse, tool)) for tool in missing),
    ]
    chosen = choose("Which agent CLI or model server?", [text for text, _ in choices])
    return choices[chosen][1]()


def for_running_server() -> str:
    """Return a sentence with the commands that add a model of a server that runs here; empty if none does."""
    running = [preset for preset in call("modelServers/presets").presets if preset.running and preset.models]
    if not running:
        return ""
    preset = running[0]
    model = shlex.quote((preset.models or [""])[0])
    return (
        f"{preset.title} runs at {preset.base_url}: understudy servers add {preset.kind} --kind {preset.kind} && "
        f"understudy delegators add local --server {preset.kind} --model {model}"
    )


def _of_running(preset: ServerPreset) -> dict[str, Any]:
    taken = {entry.model_server.name for entry in call("modelServers/list").model_servers}
    name = _free([preset.kind, f"{preset.kind}-local"], taken)
    model = _model(preset.models or [], optional=False)
    delegator_name = _name(name, model)
    # After the last question, so that Ctrl-C leaves nothing behind.
    server = {"name": name, "kind": preset.kind, "baseUrl": preset.base_url, "protocols": preset.protocols}
    call("modelServers/create", modelServer=server, scope="user", workspace=uri("."))
    output.say(f"Added the model server {name}.", err=True)
    return {"modelServer": name, "model": model, "name": delegator_name}


def _of_server(name: str) -> dict[str, Any]:
    model = _model(_models(name), optional=False)
    return {"modelServer": name, "model": model, "name": _name(name, model)}


def _of_tool(tool: ToolEntry) -> dict[str, Any]:
    if not tool.runnable:
        launch = {"command": tool.command}
        declared = {"tool": CUSTOM_COMMAND, "displayName": tool.display_name, "launch": launch}
        return declared | {"name": _name(tool.name, "")}
    model = _model([], optional=True)
    return {"tool": tool.name, **({"model": model} if model else {}), "name": _name(tool.name, model)}


def _of_command() -> dict[str, Any]:
    output.say(
        "The command gets the task on its standard input, or where it has {prompt}, or with {promptFile} as the path "
        "of a file. It is started in the worktree, without a shell.",
        err=True,
    )
    while True:
        try:
            words = shlex.split(click.prompt("Command", err=True))
        except ValueError as error:
            output.say(f"This is not a command: {error}.", err=True)
            continue
        words[:1] = map(os.path.expanduser, words[:1])
        if words and shutil.which(words[0]):
            return {"tool": CUSTOM_COMMAND, "launch": {"command": words}, "name": _name(Path(words[0]).stem, "")}
        output.say(f"There is no program {terminal.one_line(' '.join(words[:1]))!r} on PATH.", err=True)


def _refuse(tool: ToolEntry) -> dict[str, Any]:
    for line in how_to_install(tool):
        output.say(line, err=True)
    raise click.UsageError(f"{tool.display_name} is not installed. Install it, then run this command again.")


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


def _free(names: Sequence[str], taken: Collection[str]) -> str:
    """Return the first name that is not taken, at last with a number behind it."""
    numbered = (f"{names[-1]}-{number}" for number in count(2))
    return next(name for name in chain(names, numbered) if name not in taken)


def _name(basis: str, model: str) -> str:
    taken = {entry.delegator.name for entry in call("delegators/list").delegators}
    suggested = re.sub(r"[^a-z0-9._-]+", "-", f"{basis}-{model}".lower() if basis in taken and model else basis.lower())
    name = _free([suggested[:60].strip("-")], taken)
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
