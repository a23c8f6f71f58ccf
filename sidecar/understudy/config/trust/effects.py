"""What a workspace's own files would make happen, in words that a person can decide upon."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from understudy.model.delegators import Scope

MAX_JSON_BYTES = 256 * 1024

_AGENT_FOLDERS = {
    ".claude/agents/": "agent definitions of Claude Code",
    ".claude/commands/": "commands of Claude Code",
    ".claude/hooks/": "hook scripts of Claude Code",
    ".claude/plugins/": "plugins of Claude Code",
    ".claude/skills/": "skills of Claude Code",
    ".opencode/": "configuration of opencode",
    "opencode.json": "configuration of opencode",
    ".codex/": "configuration of Codex",
    ".gemini/": "configuration of Gemini CLI",
    ".qwen/": "configuration of Qwen Code",
    ".cursor/": "configuration of Cursor",
    ".pi/": "configuration of pi",
    ".goose/": "configuration of goose",
    ".crush.json": "configuration of Crush",
    "crush.json": "configuration of Crush",
    ".aider.conf.yml": "configuration of aider",
    ".github/agents/": "agent definitions of GitHub Copilot",
    ".github/hooks/": "hooks of GitHub Copilot",
}


def words(root: Path, files: list[str]) -> list[str]:
    """Return what trusting the workspace at ``root`` allows, one thing a line; ``files`` are those that are watched."""
    lines = ["Agents work in copies of this folder, and its tests and checks are run there."]
    if any(path.startswith(".understudy/") for path in files):
        lines += _own(root)
    if ".worktreeinclude" in files:
        lines.append("What .worktreeinclude lists is copied to where agents work, ignored files included.")
    for path in (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"):
        if path in files:
            lines += _mcp_servers(root, path)
    for path in (".claude/settings.json", ".claude/settings.local.json"):
        if path in files:
            lines += _claude_settings(root, path)
    for prefix, what in _AGENT_FOLDERS.items():
        count = sum(path.startswith(prefix) for path in files)
        if count:
            lines.append(f"Agents read {what} ({prefix}, {count} {'file' if count == 1 else 'files'}).")
    outside = [path for path in files if _leads_out(root, path)]
    lines += [f"{path} is a link to something outside this folder." for path in outside[:20]]
    return lines


def _own(root: Path) -> Iterator[str]:
    from understudy.config.load import load  # noqa: PLC0415 - this room's largest part

    configuration = load(root, trusted=True)
    for entry in configuration.delegators.values():
        if entry.scope is Scope.WORKSPACE:
            delegator = entry.delegator
            what = f"the tool {delegator.tool}" if delegator.tool else f"the model server {delegator.model_server}"
            command = delegator.launch.command if delegator.launch else None
            runs = f", which runs {_argv(command)}" if command else ""
            yield f"Delegator {delegator.name} uses {what}{runs}."
    for server in configuration.model_servers.values():
        if server.scope is Scope.WORKSPACE:
            yield f"Model server {server.model_server.name} sends text to {server.model_server.base_url}."
    personal = load(None, trusted=False)
    for check in configuration.checks.values():
        if personal.checks.get(check.name) != check:
            yield f"Check {check.name} runs {_argv(check.argv)}."
    trees = configuration.worktrees
    if trees.setup and trees.setup != personal.worktrees.setup:
        yield f"Each new copy is set up by {_argv(trees.setup)}."
    for path in trees.link:
        if path not in personal.worktrees.link:
            yield f"Agents can write to {path} of this folder through a link."
    for pattern in trees.copy:
        if pattern not in personal.worktrees.copy:
            yield f"{pattern} is copied to where agents work."
    if configuration.python is not None and configuration.python != personal.python:
        yield f"Checks use the interpreter {configuration.python}."
    own = [recipe.name for recipe in configuration.recipes.values() if recipe.scope is Scope.WORKSPACE]
    if own:
        yield f"Recipes of this folder: {', '.join(own)}."


def _mcp_servers(root: Path, path: str) -> Iterator[str]:
    document = _json(root / path)
    servers = document.get("mcpServers") or document.get("servers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        yield f"Agents may start the MCP servers of {path}."
        return
    for name, server in list(servers.items())[:50]:
        what = "a server that cannot be read"
        if isinstance(server, dict) and isinstance(server.get("command"), str):
            arguments = server.get("args")
            what = _argv([server["command"], *(map(str, arguments) if isinstance(arguments, list) else ())])
        elif isinstance(server, dict) and isinstance(server.get("url"), str):
            what = server["url"]
        yield f"Agents may start the MCP server {name}: {what} ({path})."


def _claude_settings(root: Path, path: str) -> Iterator[str]:
    document = _json(root / path)
    hooks = document.get("hooks") if isinstance(document, dict) else None
    commands = list(_commands(hooks, depth=0))
    for command in commands[:50]:
        yield f"Claude Code runs the hook {command} ({path})."
    if not commands:
        yield f"Claude Code takes its settings from {path}."


def _commands(value: Any, depth: int) -> Iterator[str]:
    """Yield the commands of a hooks table, wherever in it they stand."""
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
    text = " ".join(argument if argument and " " not in argument else repr(argument) for argument in argv)
    return text if len(text) <= 200 else text[:200] + "…"
