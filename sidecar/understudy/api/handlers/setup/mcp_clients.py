"""Requests about other agents and editors that start the MCP server."""

from __future__ import annotations

from pathlib import Path

from understudy.api.caller import Caller
from understudy.api.other_agent_messages import (
    ChangeMcpClientsParams,
    ChangeMcpClientsResult,
    McpClientsParams,
    McpClientsResult,
)
from understudy.git import repository
from understudy.integrations.mcp_clients import registration


def read(caller: Caller, params: McpClientsParams) -> McpClientsResult:
    """List the agents and editors that the MCP server can be registered in, and whether it is."""
    _ = caller
    return McpClientsResult(
        clients=registration.listed(_workspace(params.workspace), registration.Wanted(params.entry))
    )


def change(caller: Caller, params: ChangeMcpClientsParams) -> ChangeMcpClientsResult:
    """Register the MCP server in agents and editors with their own commands, or remove it."""
    _ = caller
    changes = registration.change(
        params.names,
        _workspace(params.workspace),
        registration.Wanted(params.entry, tuple(params.tools or ())),
        install=params.action == "install",
        dry_run=params.dry_run,
    )
    return ChangeMcpClientsResult(changes=changes)


def _workspace(uri: str | None) -> Path | None:
    return None if uri is None else repository.workspace_of([], uri, None)
