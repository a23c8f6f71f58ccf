"""Describe what trusting a workspace would allow, so that the user can decide."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.loading.loader import load
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import EnvReference, Launch, Scope

MAX_JSON_BYTES = 256 * 1024


_MCP_SERVERS = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".github/mcp.json")
"""Files whose servers are listed one by one."""


def obeying(configuration: Configuration | None) -> list[Capabilities]:
    """Return the tools whose configuration in a repository trust covers, including those that the files define."""
    defined = configuration.tools.values() if configuration is not None else ()
    return [*declarations.tools().values(), *(tool.definition.capabilities() for tool in defined)]


def describe_effects(root: Path, files: list[str], configuration: Configuration) -> list[str]:
    """Return what trusting the workspace at ``root`` allows, one effect per line.

    ``files`` are the covered files, ``configuration`` what would apply.
    """
    lines = ["Agents work in copies of this folder, or in it if you choose that, and run its tests and checks."]
    if any(path.startswith(".understudy/") for path in files):
        lines += _own(configuration)
    agents = sum(path.startswith((".understudy/agents/", ".understudy/local/agents/")) for path in files)
    if agents:
        lines.append(f"Agents of this folder can be named (.understudy/agents/, {agents} {_files(agents)}).")
    if ".worktreeinclude" in files:
        lines.append("Files listed in .worktreeinclude, even ignored ones, are copied to the agents, too.")
    for path in _MCP_SERVERS:
        if path in files:
            lines += _mcp_servers(root, path)
    obeyed = [(tool, obeyed_path) for tool in obeying(configuration) for obeyed_path in tool.repository_paths]
    for tool, obeyed_path in obeyed:
        if obeyed_path.has_hooks and obeyed_path.path in files:
            lines += _hooks(root, obeyed_path.path, tool.title)
    for _, obeyed_path in obeyed:
        if not obeyed_path.has_hooks and obeyed_path.path not in _MCP_SERVERS:
            count = sum(
                path == obeyed_path.path or (obeyed_path.path.endswith("/") and path.startswith(obeyed_path.path))
                for path in files
            )
            if count:
                lines.append(f"Agents read {obeyed_path.what} ({obeyed_path.path}, {count} {_files(count)}).")
    outside = [path for path in files if _leads_out(root, path)]
    lines += [f"{path} is a link that leads out of this folder." for path in outside[:20]]
    return lines


def _files(count: int) -> str:
    return "file" if count == 1 else "files"


def _own(configuration: Configuration) -> Iterator[str]:
    for entry in configuration.delegators.values():
        if entry.scope is Scope.WORKSPACE:
            delegator = entry.delegator
            what = f"the tool {delegator.tool}" if delegator.tool else f"the model server {delegator.model_server}"
            launch = delegator.launch or Launch()
            runs = f", which runs {_argv(launch.command)}" if launch.command else ""
            yield f"Delegator {delegator.name} uses {what}{runs}."
            if launch.flags:
                yield f"Delegator {delegator.name} adds {_argv(launch.flags)}."
            if launch.yolo or launch.unanswered == "allow":
                yield f"Delegator {delegator.name} may do everything without asking."
            elif launch.permission_mode is not None:
                yield f"Delegator {delegator.name} works in the permission mode {launch.permission_mode}."
            if launch.relay:
                yield f"The agent of delegator {delegator.name} may start further delegations, within your limits."
            for name, value in (delegator.env or {}).items():
                shown = f"your variable {value.from_env}" if isinstance(value, EnvReference) else _argv([value])
                yield f"Delegator {delegator.name} sets {name} to {shown}."
    for server in configuration.model_servers.values():
        if server.scope is Scope.WORKSPACE:
            yield f"Model server {server.model_server.name} sends text to {server.model_server.base_url}."
            key = server.model_server.api_key
            if key is not None and key.from_env is not None:
                yield f"Model server {server.model_server.name} gets your variable {key.from_env} as its key."
    for tool in configuration.tools.values():
        if tool.scope is Scope.WORKSPACE:
            variables = ", ".join(sorted(tool.definition.env or ()))
            sets = f" and sets {variables}" if variables else ""
            yield f"Tool {tool.definition.name} runs {_argv(tool.definition.command)}{sets}."
            for arguments in tool.definition.added_arguments():
                yield f"Tool {tool.definition.name} may add {_argv(arguments)}."
    personal = load(None, trusted=False)
    for check in configuration.checks.values():
        if personal.checks.get(check.name) != check:
            yield f"Check {check.name} runs {_argv(check.argv)}."
    trees = configuration.worktrees
    if trees.setup and trees.setup != personal.worktrees.setup:
        yield f"Each new copy is set up with {_argv(trees.setup)}."
    for path in trees.link:
        if path not in personal.worktrees.link:
            yield f"Agents can write to {path} of this folder through a link."
    for pattern in trees.copy:
        if pattern not in personal.worktrees.copy:
            yield f"Files that match {pattern} are copied to the agents, too."
    if configuration.python is not None and configuration.python != personal.python:
        yield f"Checks use the interpreter {configuration.python}."
    recipes = [recipe.name for recipe in configuration.recipes.values() if recipe.scope is Scope.WORKSPACE]
    if recipes:
        yield f"Recipes of this folder: {', '.join(recipes)}."


def _mcp_servers(root: Path, path: str) -> Iterator[str]:
    document = _json(root / path)
    servers = document.get("mcpServers") or document.get("servers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        yield f"An agent that reads {path} starts the MCP servers in it."
        return
    for name, server in list(servers.items())[:50]:
        what = "a server that cannot be read"
        if isinstance(server, dict) and isinstance(server.get("command"), str):
            arguments = server.get("args")
            what = _argv([server["command"], *(map(str, arguments) if isinstance(arguments, list) else ())])
        elif isinstance(server, dict) and isinstance(server.get("url"), str):
            what = server["url"]
        yield f"An agent that reads {path} starts the MCP server {name}: {what}."


def _hooks(root: Path, path: str, title: str) -> Iterator[str]:
    document = _json(root / path)
    hooks = document.get("hooks") if isinstance(document, dict) else None
    commands = list(_commands(hooks, depth=0))
    for command in commands[:50]:
        yield f"An agent that reads {path} runs the hook {command}."
    if not commands:
        yield f"An agent may take settings of {title} from {path}."


def _commands(value: Any, depth: int) -> Iterator[str]:
    """Yield the commands of a hooks table, at any depth."""
    if depth > 8:
        return
    if isinstance(value, dict):
        if isinstance(value.get("command"), str):
            yield value["command"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _commands(item, depth + 1)


def _json(path: Path) -> Any:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return json.loads(file.read(MAX_JSON_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def _leads_out(root: Path, path: str) -> bool:
    full = root / path
    return full.is_symlink() and not os.path.realpath(full).startswith(str(root).rstrip("/") + "/")


def _argv(argv: list[str]) -> str:
    """Return arguments so that each can be distinguished from the next, and none is shortened: its end may matter."""
    return " ".join(argument if _is_plain(argument) else repr(argument) for argument in argv)


def _is_plain(argument: str) -> bool:
    return bool(argument) and argument.isprintable() and not any(mark in argument for mark in " '\"")
