"""Requests about instructions for other agents: when to delegate, and how."""

from __future__ import annotations

from pathlib import Path

from understudy.api.caller import Caller
from understudy.api.other_agent_messages import (
    ChangeInstructionsParams,
    ChangeInstructionsResult,
    InstructionsParams,
    InstructionsResult,
)
from understudy.git import repository
from understudy.integrations.agent_instructions import instruction_files


def read(caller: Caller, params: InstructionsParams) -> InstructionsResult:
    """List where other agents can be told when and how to delegate, and the text."""
    _ = caller
    targets = instruction_files.listed(_workspace(params.workspace))
    return InstructionsResult(targets=targets, text=instruction_files.BLOCK, snippet=instruction_files.SNIPPET)


def change(caller: Caller, params: ChangeInstructionsParams) -> ChangeInstructionsResult:
    """Install or remove these instructions, in files of other agents or of a workspace."""
    _ = caller
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
