"""Parameters and results of requests about files of other agents: instructions, and our MCP server."""

from __future__ import annotations

from typing import Literal

from understudy.model.config.other_agents import InstructionChange, InstructionTarget, McpClient, McpClientChange
from understudy.model.wire import Strict, Wire


class InstructionsParams(Strict, kw_only=True):
    """List the places for instructions."""

    workspace: str | None = None
    """Also list the places in this workspace."""


class InstructionsResult(Wire, kw_only=True):
    """The places, and the texts for other applications, which have no file for it."""

    targets: list[InstructionTarget]
    text: str
    """For an agent with a command line."""
    snippet: str
    """For an application that has only the tools of the MCP server."""


class ChangeInstructionsParams(Strict, kw_only=True):
    """Install or remove instructions.

    ``names``: default is to install where an agent's folder exists, and to remove wherever they are.
    """

    action: Literal["install", "uninstall"]
    names: list[str] | None = None
    workspace: str | None = None
    dry_run: bool = False
    force: bool = False
    """Also replace or remove instructions that someone has edited."""


class ChangeInstructionsResult(Wire, kw_only=True):
    """One entry for each place that was named or found."""

    changes: list[InstructionChange]


class McpClientsParams(Strict, kw_only=True):
    """List the clients that the MCP server can be registered in."""

    workspace: str | None = None
    """Also list the files that clients have in this workspace."""
    entry: str | None = None
    """The name of the entry; default: ``understudy``."""


class McpClientsResult(Wire, kw_only=True):
    """The clients, those of the user first."""

    clients: list[McpClient]


class ChangeMcpClientsParams(Strict, kw_only=True):
    """Register the MCP server in clients, or remove it.

    ``names``: default is to register in all clients that are here, and to remove wherever it is registered.
    """

    action: Literal["install", "uninstall"]
    names: list[str] | None = None
    workspace: str | None = None
    """Use the files that clients have in this workspace, not the user's own."""
    entry: str | None = None
    """The name of the entry; default: ``understudy``."""
    tools: list[Literal["delegate-local"]] | None = None
    """Further sets of tools that the server lists."""
    dry_run: bool = False


class ChangeMcpClientsResult(Wire, kw_only=True):
    """One entry for each client that was named or found."""

    changes: list[McpClientChange]
