"""aider, run by its own Python: ``inside/host.py`` calls it and prints its answer, edits and failures as events.

It has no option that ignores a repository's ``.env``, ``.aider.conf.yml`` and ``.aider.model.*`` files, which could
name another server or commands to run; ``host.py`` removes them from the places where it looks. With a model server,
the user's own files of these names are not read either.
"""

from __future__ import annotations

import os
from pathlib import Path

from understudy.model.config.delegators import Launch
from understudy.model.tools.aider import CAPABILITIES
from understudy.runners.agent_clis.in_python import hosted_agent
from understudy.runners.agent_clis.launching.launch_flags import invalid, refuse_flags
from understudy.runners.agent_clis.streams.stream_values import WorktreePaths
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Emit, Outcome, Task

_FLAGS = frozenset(
    [
        *("--edit-format", "--architect", "--editor-edit-format", "--auto-accept-architect"),
        *("--no-auto-accept-architect", "--reasoning-effort", "--thinking-tokens", "--max-chat-history-tokens"),
        *("--map-tokens", "--map-refresh", "--map-multiplier-no-files", "--subtree-only", "--cache-prompts"),
        *("--no-cache-prompts", "--cache-keepalive-pings", "--timeout", "--stream", "--no-stream", "--chat-language"),
        *("--line-endings", "--use-temperature"),
    ]
)
"""The flags that a delegator may have. Others name files, servers or commands, or what it does instead of a task."""
_FIELDS = {
    "--model": "model",
    "--chat-mode": "launch.permission_mode",
    "--suggest-shell-commands": "launch.permission_mode",
    "--api-key": "model_server",
    "--openai-api-key": "model_server",
    "--anthropic-api-key": "model_server",
    "--openai-api-base": "model_server",
}
"""Flags that have their own configuration field."""
_EDITS = frozenset({"--edit-format", "--architect"})
"""Flags that would make it edit in the mode ``ask``."""


class Runner:
    """Drives aider."""

    capabilities = CAPABILITIES

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Run the task to its end; the errors are those of ``hosted_agent.run``."""
        return await hosted_agent.run(task, emit, CAPABILITIES, command_for)


def command_for(task: Task, program: Path, scratch: Path) -> Command:
    """Return the command that starts aider for ``task``; raise ``config_invalid`` for what cannot apply."""
    launch, tree = task.delegator.launch or Launch(), task.worktree or Path("/")
    mode = mode_of(task, launch)
    refuse_flags(task, frozenset(), _FIELDS)
    for flag in launch.flags or ():
        name = flag.partition("=")[0]
        if name not in _FLAGS:
            hint = f"Use one of {', '.join(sorted(_FLAGS))}, each as FLAG or FLAG=VALUE."
            raise invalid(task, f"has {name} in `launch.flags`, which Understudy does not pass on to aider", hint)
        if mode == "ask" and name in _EDITS:
            raise invalid(task, f"may only answer, and has the flag {name} in `launch.flags`", "Remove one of them.")
    for name in sorted(task.environment):
        if name.startswith("AIDER_"):
            raise invalid(task, f"sets {name}", "Remove it: aider would take it for one of its options.")
    inside = WorktreePaths(tree)
    files = [
        name
        for name in task.files
        if (tree / name).is_file() and inside.relative(os.path.realpath(tree / name)) is not None
    ]
    more = {"flags": list(launch.flags or []), "files": files}
    return hosted_agent.command_for(task, program, scratch, CAPABILITIES, mode=mode, more=more)


def mode_of(task: Task, launch: Launch) -> str:
    """Return the permission mode; raise ``config_invalid`` for a contradiction."""
    asked = launch.permission_mode
    if launch.yolo and asked not in {None, "all"}:
        raise invalid(task, f"sets `launch.yolo` and asks for the mode {asked!r}", "Remove one of them.")
    if launch.yolo:
        return "all"
    return asked or ("ask" if task.recipe.returns == "text" else "edit")
