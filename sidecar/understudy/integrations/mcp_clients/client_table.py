"""The clients: where each has its configuration, and what an entry for our server looks like there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Format = Literal["json", "jsonc", "toml"]
"""``jsonc``: the client reads comments, and commas before a closing bracket."""

SLOW_MILLISECONDS = 60_000
"""OpenCode gives up after 5 s by default; a call may take 45."""


@dataclass(frozen=True, slots=True)
class Server:
    """How a client starts our server."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Variables that decide which configuration and state Understudy uses."""
    keys: tuple[str, ...] = ()
    """Names of variables with keys, for clients that pass only variables on that they were told to."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client."""

    title: str
    format: Format
    container: str
    entry: Callable[[Server], dict[str, Any]]
    file: Callable[[Places], Path]
    folder: Callable[[Places], Path]
    """If it exists, the client is or was used here."""
    workspace_file: str | None
    next: str | None = None
    private: bool = False
    """Whether only the user may read a new file."""


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
        given = self.environment.get(variable, "")
        return Path(given) if given.startswith("/") else self.home / default

    @property
    def config(self) -> Path:
        """Return the folder for settings."""
        return self.below("XDG_CONFIG_HOME", ".config")

    def editor(self, product: str) -> Path:
        """Return the folder of the default profile of a VS Code."""
        if sys.platform == "darwin":
            return self.home / "Library/Application Support" / product / "User"
        return self.config / product / "User"


def _typed(server: Server) -> dict[str, Any]:
    return {"type": "stdio", **_plain(server)}


def _plain(server: Server) -> dict[str, Any]:
    entry: dict[str, Any] = {"command": server.command, "args": list(server.arguments)}
    return {**entry, "env": dict(server.environment)} if server.environment else entry


def _codex(server: Server) -> dict[str, Any]:
    # Codex passes few variables on.
    entry = _plain(server)
    return {**entry, "env_vars": list(server.keys)} if server.keys else entry


def _opencode(server: Server) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "local", "command": [server.command, *server.arguments]}
    if server.environment:
        entry["environment"] = dict(server.environment)
    return {**entry, "enabled": True, "timeout": SLOW_MILLISECONDS}


def _copilot(server: Server) -> dict[str, Any]:
    return {"type": "local", **_plain(server), "tools": ["*"]}


def _claude_file(places: Places) -> Path:
    # Versions that kept everything in one folder; Claude Code still prefers such a file.
    legacy = places.below("CLAUDE_CONFIG_DIR", ".claude") / ".config.json"
    if legacy.is_file() and legacy.stat().st_size:
        return legacy
    given = places.environment.get("CLAUDE_CONFIG_DIR", "")
    return (Path(given) if given.startswith("/") else places.home) / ".claude.json"


def _desktop_folder(places: Places) -> Path:
    mac = sys.platform == "darwin"
    return places.home / "Library/Application Support/Claude" if mac else places.config / "Claude"


def _opencode_file(places: Places) -> Path:
    folder = places.config / "opencode"
    found = (folder / name for name in ("opencode.jsonc", "opencode.json"))
    return next((path for path in found if path.exists()), folder / "opencode.json")


def _editor(title: str, product: str) -> Client:
    return Client(
        title,
        "jsonc",
        "servers",
        _typed,
        file=lambda places: places.editor(product) / "mcp.json",
        folder=lambda places: places.editor(product),
        workspace_file=".vscode/mcp.json" if product == "Code" else None,
        next="Start it: MCP: List Servers. The editor asks once whether you trust it.",
    )


CLIENTS: dict[str, Client] = {
    "claude": Client(
        "Claude Code",
        "json",
        "mcpServers",
        _typed,
        file=_claude_file,
        folder=lambda places: places.below("CLAUDE_CONFIG_DIR", ".claude"),
        workspace_file=".mcp.json",
        private=True,
    ),
    "claude-desktop": Client(
        "Claude Desktop",
        "json",
        "mcpServers",
        _plain,
        file=lambda places: _desktop_folder(places) / "claude_desktop_config.json",
        folder=_desktop_folder,
        workspace_file=None,
        next="Restart it, and add `understudy instructions --print desktop` to its instructions.",
    ),
    "codex": Client(
        "Codex",
        "toml",
        "mcp_servers",
        _codex,
        file=lambda places: places.below("CODEX_HOME", ".codex") / "config.toml",
        folder=lambda places: places.below("CODEX_HOME", ".codex"),
        workspace_file=".codex/config.toml",
        private=True,
    ),
    "cursor": Client(
        "Cursor",
        "jsonc",
        "mcpServers",
        _typed,
        file=lambda places: places.home / ".cursor/mcp.json",
        folder=lambda places: places.home / ".cursor",
        workspace_file=".cursor/mcp.json",
        next="Switch it on in Cursor's settings, under MCP.",
    ),
    "vscode": _editor("VS Code", "Code"),
    "vscode-insiders": _editor("VS Code Insiders", "Code - Insiders"),
    "vscodium": _editor("VSCodium", "VSCodium"),
    "gemini": Client(
        "Gemini CLI",
        "jsonc",
        "mcpServers",
        _plain,
        file=lambda places: places.below("GEMINI_CLI_HOME", "") / ".gemini/settings.json",
        folder=lambda places: places.below("GEMINI_CLI_HOME", "") / ".gemini",
        workspace_file=".gemini/settings.json",
    ),
    "zed": Client(
        "Zed",
        "jsonc",
        "context_servers",
        _plain,
        file=lambda places: places.config / "zed/settings.json",
        folder=lambda places: places.config / "zed",
        workspace_file=".zed/settings.json",
    ),
    "opencode": Client(
        "OpenCode",
        "jsonc",
        "mcp",
        _opencode,
        file=_opencode_file,
        folder=lambda places: places.config / "opencode",
        workspace_file="opencode.json",
    ),
    "qwen": Client(
        "Qwen Code",
        "jsonc",
        "mcpServers",
        _plain,
        file=lambda places: places.home / ".qwen/settings.json",
        folder=lambda places: places.home / ".qwen",
        workspace_file=".qwen/settings.json",
    ),
    "copilot": Client(
        "Copilot CLI",
        "json",
        "mcpServers",
        _copilot,
        file=lambda places: places.below("COPILOT_HOME", ".copilot") / "mcp-config.json",
        folder=lambda places: places.below("COPILOT_HOME", ".copilot"),
        workspace_file=None,  # it reads .mcp.json, too
    ),
}
