"""The clients: how our MCP server is added to each, removed and listed, and where its configuration is.

A client with commands of its own is changed only by them. For every other one, and for the files of a workspace, the
entry is a snippet for a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SLOW_MILLISECONDS = 60_000
"""OpenCode gives up after 5 s by default; a call may take 45."""


@dataclass(frozen=True, slots=True)
class Server:
    """How a client starts our server."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that decide which configuration and state Understudy uses."""
    keys: tuple[str, ...] = ()
    """Names of variables with keys, for clients that pass only variables on that they were told to."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders that configurations are in."""

    environment: Mapping[str, str]

    @property
    def home(self) -> Path:
        """Return the user's home."""
        return Path(self.environment.get("HOME") or Path.home())

    def below(self, variable: str, default: str) -> Path:
        """Return the folder that a variable names, if it is absolute."""
        path = self.environment.get(variable, "")
        return Path(path) if path.startswith("/") else self.home / default

    def settings(self, product: str) -> Path:
        """Return the folder in which an application keeps its settings."""
        mac = sys.platform == "darwin"
        base = self.home / "Library/Application Support" if mac else self.below("XDG_CONFIG_HOME", ".config")
        return base / product


@dataclass(frozen=True, slots=True)
class Commands:
    """A client's own command line. ``NAME`` stands for the name of the entry."""

    program: str
    add: Callable[[str, Server], list[str]]
    """The arguments that add an entry of a name."""
    remove: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    """Prints the entry, alone or among others; empty: the client's file is read instead."""
    variables: tuple[str, ...] = ()
    """Variables that move the client's configuration."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client."""

    title: str
    file: Callable[[Places], Path]
    container: str
    """The table of servers in its files."""
    entry: Callable[[Server], dict[str, Any]]
    commands: Commands | None = None
    workspace_file: str | None = None
    new_file: Mapping[str, str] = field(default_factory=dict)
    """What else a new file has, because the client itself would add it."""
    next: Callable[[Server], str | None] = lambda _: None
    """What the user has to do after an install."""


def _plain(server: Server) -> dict[str, Any]:
    command, *arguments = server.command
    entry: dict[str, Any] = {"command": command, "args": arguments}
    return {**entry, "env": dict(server.environment)} if server.environment else entry


def _typed(server: Server) -> dict[str, Any]:
    return {"type": "stdio", **_plain(server)}


def _opencode(server: Server) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "local", "command": list(server.command)}
    if server.environment:
        entry["environment"] = dict(server.environment)
    return {**entry, "enabled": True, "timeout": SLOW_MILLISECONDS}


def _opencode_file(places: Places) -> Path:
    folder = places.below("XDG_CONFIG_HOME", ".config") / "opencode"
    commented = folder / "opencode.jsonc"
    return commented if commented.exists() else folder / "opencode.json"


def _variables(option: str, server: Server) -> list[str]:
    return [part for name, value in server.environment.items() for part in (option, f"{name}={value}")]


def _gemini_commands(program: str, variable: str) -> Commands:
    """Return the commands of Gemini CLI, and of Qwen Code, which was made from it: no ``--``, options come first."""
    scope = ("--scope", "user")
    return Commands(
        program,
        lambda name, server: ["mcp", "add", *scope, name, *_variables("-e", server), *server.command],
        remove=("mcp", "remove", *scope, "NAME"),
        show=("mcp", "list"),
        variables=(variable,),
    )


def _codex_commands(program: str, variable: str) -> Commands:
    """Return the commands of Codex, and of Copilot CLI, which has the same."""
    return Commands(
        program,
        lambda name, server: ["mcp", "add", name, *_variables("--env", server), "--", *server.command],
        remove=("mcp", "remove", "NAME"),
        show=("mcp", "get", "NAME"),
        variables=(variable,),
    )


def _codex_next(server: Server) -> str | None:
    if not server.keys:
        return None
    names = ", ".join(f'"{name}"' for name in server.keys)
    return f"Codex passes few variables on: add `env_vars = [{names}]` to the entry in its config.toml."


def _editor(title: str, product: str, program: str, workspace_file: str | None = None) -> Client:
    def add(name: str, server: Server) -> list[str]:
        import json

        return ["--add-mcp", json.dumps({"name": name, **_typed(server)})]

    return Client(
        title,
        lambda places: places.settings(product) / "User/mcp.json",
        "servers",
        _typed,
        Commands(program, add),
        workspace_file,
        next=lambda _: "Start it: MCP: List Servers. The editor asks once whether you trust it.",
    )


CLIENTS: dict[str, Client] = {
    "claude": Client(
        "Claude Code",
        lambda places: places.below("CLAUDE_CONFIG_DIR", "") / ".claude.json",
        "mcpServers",
        _typed,
        Commands(
            "claude",
            # A variable before the name would swallow the name.
            lambda name, server: [
                "mcp",
                "add",
                "--scope",
                "user",
                name,
                *_variables("-e", server),
                "--",
                *server.command,
            ],
            remove=("mcp", "remove", "--scope", "user", "NAME"),
            show=("mcp", "get", "NAME"),
            variables=("CLAUDE_CONFIG_DIR",),
        ),
        ".mcp.json",
    ),
    "claude-desktop": Client(
        "Claude Desktop",
        lambda places: places.settings("Claude") / "claude_desktop_config.json",
        "mcpServers",
        _plain,
        next=lambda _: "Restart it, and add `understudy instructions --print desktop` to its instructions.",
    ),
    "codex": Client(
        "Codex",
        lambda places: places.below("CODEX_HOME", ".codex") / "config.toml",
        "mcp_servers",
        _plain,
        _codex_commands("codex", "CODEX_HOME"),
        ".codex/config.toml",
        next=_codex_next,
    ),
    "cursor": Client(
        "Cursor",
        lambda places: places.home / ".cursor/mcp.json",
        "mcpServers",
        _typed,
        workspace_file=".cursor/mcp.json",
        next=lambda _: "Switch it on in Cursor's settings, under MCP.",
    ),
    "vscode": _editor("VS Code", "Code", "code", ".vscode/mcp.json"),
    "vscode-insiders": _editor("VS Code Insiders", "Code - Insiders", "code-insiders"),
    "vscodium": _editor("VSCodium", "VSCodium", "codium"),
    "gemini": Client(
        "Gemini CLI",
        lambda places: places.below("GEMINI_CLI_HOME", "") / ".gemini/settings.json",
        "mcpServers",
        _plain,
        _gemini_commands("gemini", "GEMINI_CLI_HOME"),
        ".gemini/settings.json",
    ),
    "zed": Client(
        "Zed",
        lambda places: places.below("XDG_CONFIG_HOME", ".config") / "zed/settings.json",
        "context_servers",
        _plain,
        workspace_file=".zed/settings.json",
    ),
    # `opencode mcp add` cannot set the time limit, and there is no command that removes an entry.
    "opencode": Client(
        "OpenCode",
        _opencode_file,
        "mcp",
        _opencode,
        workspace_file="opencode.json",
        new_file={"$schema": "https://opencode.ai/config.json"},
    ),
    "qwen": Client(
        "Qwen Code",
        lambda places: places.below("QWEN_HOME", ".qwen") / "settings.json",
        "mcpServers",
        _plain,
        _gemini_commands("qwen", "QWEN_HOME"),
        ".qwen/settings.json",
    ),
    "copilot": Client(
        "Copilot CLI",
        lambda places: places.below("COPILOT_HOME", ".copilot") / "mcp-config.json",
        "mcpServers",
        _plain,
        _codex_commands("copilot", "COPILOT_HOME"),
    ),  # in a workspace, it reads .mcp.json
}
