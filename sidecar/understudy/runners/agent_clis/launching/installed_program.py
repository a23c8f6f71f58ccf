"""Find the program and the worktree of an agent CLI for one run."""

from __future__ import annotations

from pathlib import Path

from understudy.config.discovery import installed_tools
from understudy.model.capabilities import Capabilities
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.environment import base_environment
from understudy.runners.runner import Task


def find_program(task: Task, tool: Capabilities) -> Path:
    """Return the installed program of ``tool``, never one inside the worktree; raise ``tool_missing`` without one."""
    path = {**base_environment(), **task.environment}.get("PATH", "")
    avoid = [task.worktree] if task.worktree is not None else []
    folders = installed_tools.search_path(path, avoid=avoid)
    searches = (installed_tools.find(binary, folders, avoid=avoid) for binary in tool.binaries)
    program = next((program for program in searches if program is not None), None)
    if program is None:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING,
            f"{tool.title} (`{tool.binaries[0]}`) was not found on PATH.",
            hint=f"{tool.install_hint}, then run `understudy tools`.",
        )
    return program


def worktree_of(task: Task, tool: Capabilities) -> Path:
    """Return the worktree for ``tool``; raise ``isolation_unavailable`` for a delegation without one."""
    if task.worktree is None:
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{tool.title} needs an isolated worktree, and this delegation has none.",
            hint="Start it in a git repository or in a folder that can be copied.",
        )
    return task.worktree
