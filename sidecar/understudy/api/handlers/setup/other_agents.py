"""Requests about other agents and editors: when they delegate, and that they start the MCP server."""

from __future__ import annotations

from pathlib import Path

from understudy.api.caller import Caller
from understudy.api.setup_messages import (
    ChangeInstructionsParams,
    ChangeInstructionsResult,
    ChangeMcpClientsParams,
    ChangeMcpClientsResult,
    InstructionsParams,
    InstructionsResult,
    McpClientsParams,
    McpClientsResult,
)
from understudy.git import repository
from understudy.integrations.agent_instructions import instruction_files
from understudy.integrations.mcp_clients import registration


def instructions(caller: Caller, params: InstructionsParams) -> InstructionsResult:
    """List where other agents can be told when and how to delegate, and the text."""
    targets = instruction_files.listed(_workspace(params.workspace))
    return InstructionsResult(targets=targets, text=instruction_files.BLOCK, snippet=instruction_files.SNIPPET)


def change_instructions(caller: Caller, params: ChangeInstructionsParams) -> ChangeInstructionsResult:
    """Install or remove these instructions, in files of other agents or of a workspace."""
    changes = instruction_files.change(
        params.names,
        _workspace(params.workspace),
        install=params.action == "install",
        dry_run=params.dry_run,
        force=params.force,
    )
    return ChangeInstructionsResult(changes=changes)


def _workspace(uri: str | None) -> Path | None:
    return None if uri is None else repository.workspace_of([], uri, None)


def clients(caller: Caller, params: McpClientsParams) -> McpClientsResult:
    """List the agents and editors that the MCP server can be registered in, and whether it is."""
    return McpClientsResult(
        clients=registration.listed(_workspace(params.workspace), registration.Wanted(params.entry))
    )


def change_clients(caller: Caller, params: ChangeMcpClientsParams) -> ChangeMcpClientsResult:
    """Register the MCP server in agents and editors with their own commands, or remove it."""
    changes = registration.change(
        params.names,
        _workspace(params.workspace),
        registration.Wanted(params.entry, tuple(params.tools or ())),
        install=params.action == "install",
        dry_run=params.dry_run,
    )
    return ChangeMcpClientsResult(changes=changes)
