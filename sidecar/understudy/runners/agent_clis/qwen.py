"""Qwen Code, over a two-way protocol like Claude Code's: JSON lines on standard input and output.

    qwen --input-format stream-json --output-format stream-json …

The prompt is the first message, questions arrive as ``can_use_tool`` requests, and closing its input ends the run.

It runs in a folder that it does not trust: then it reads no settings, ``.env`` files, context files (``QWEN.md``),
hooks or tool servers of the repository. In such a folder it knows no permission mode but ``default`` and ``plan``, and
asks about every edit and every command that does more than read; what the delegator's mode allows, Understudy answers
with yes at once (``qwen_stream``).

Its temporary settings outrank the user's own. With a model server, the user's settings are not read at all, because
they could name another server; sessions stay where they are, so that they can be continued.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from understudy.model.config.delegators import Launch
from understudy.process.call_checks import base_environment
from understudy.runners.agent_clis.launching import (
    AgentRunner,
    invalid,
    permission_mode,
    refuse_flags,
)
from understudy.runners.agent_clis.streams.qwen_stream import AT_NOTE, CAPABILITIES, QwenStream
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Task

_REDIRECTS = frozenset({"OPENAI_BASE_URL", "OPENAI_API_KEY", "QWEN_HOME"})
_NOT_OFFERED = ("ask_user_question", "enter_worktree", "exit_worktree", "cron_create", "loop_wakeup")
"""Tools that make no sense here: free-form questions, other worktrees, and scheduled wake-ups."""
_NO_KEY = "no-key"
"""A placeholder: it does not start without a key."""
_SETTINGS: dict[str, Any] = {
    "security": {"folderTrust": {"enabled": True}},
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    # A worktree exists for one delegation only: there is nothing to remember, and a model would be asked for it.
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False, "enableAutoSkill": False},
}


class Runner(AgentRunner):
    """Drives Qwen Code."""

    capabilities = CAPABILITIES

    def prepared(self, task: Task, program: Path, tree: Path, scratch: Path) -> JsonLinesSource:
        """Return the source for one run."""
        return JsonLinesSource(task, command_for(task, program, scratch), QwenStream(tree, mode_of(task)))


def command_for(task: Task, program: Path, scratch: Path) -> Command:
    """Return the command that starts ``program`` for ``task``; raise ``config_invalid`` for what cannot apply.

    ``scratch`` is the folder for its temporary settings.
    """
    launch, server, worktree = task.delegator.launch or Launch(), task.model_server, task.worktree or Path("/")
    refuse_flags(task, CAPABILITIES.reserved_flags, CAPABILITIES.flag_fields)
    # In an untrusted folder it starts no tool servers, not even those that it is told to.
    if task.mcp_servers:
        raise invalid(task, "is given tool servers, which Qwen Code does not start here", "Use another tool.")
    properties = task.delegator.model_properties or {}
    if properties and server is None:
        raise invalid(task, "has model properties and no model server", "Name a model server, or remove them.")
    # A request that fails is tried up to seven times within some 80 seconds; no setting changes that. Without this one,
    # ten longer pauses follow (``qwen_stream`` ends a run that takes them all the same).
    generation: dict[str, Any] = {"maxRetries": 0}
    settings, trust = scratch / "settings.json", scratch / "trust.json"
    environment = {
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": str(settings),
        "QWEN_CODE_TRUSTED_FOLDERS_PATH": str(trust),
    }
    secrets: dict[str, str] = {}
    if server is not None:
        for name in sorted(_REDIRECTS & {*(task.delegator.env or {}), *task.environment}):
            raise invalid(task, f"names a model server and sets {name}", "Remove one of them.")
        generation |= {"customHeaders": dict(server.headers or {}), "extra_body": dict(properties)}
        home = {**base_environment(), **task.environment}.get("HOME") or str(Path.home())
        environment |= {
            "OPENAI_BASE_URL": server.base_url,
            "QWEN_HOME": str(scratch),
            "QWEN_RUNTIME_DIR": str(Path(home, ".qwen")),
        }
        secrets["OPENAI_API_KEY"] = (task.key() if task.key is not None else None) or ""
        if not secrets["OPENAI_API_KEY"]:
            del secrets["OPENAI_API_KEY"]
            environment["OPENAI_API_KEY"] = _NO_KEY
    settings.write_text(json.dumps({**_SETTINGS, "model": {"generationConfig": generation}}))
    trust.write_text(json.dumps(dict.fromkeys({str(worktree), os.path.realpath(worktree)}, "DO_NOT_TRUST")))
    argv = [str(program), "--input-format", "stream-json", "--output-format", "stream-json"]
    argv += ["--include-partial-messages", f"--approval-mode={'plan' if mode_of(task) == 'plan' else 'default'}"]
    argv += [f"--exclude-tools={name}" for name in _NOT_OFFERED]
    argv += ["--auth-type=openai"] if server is not None else []
    argv += [f"--model={task.delegator.model}"] if task.delegator.model else []
    argv += [f"--append-system-prompt={AT_NOTE}"] if "@" in task.prompt else []
    argv += [f"--resume={task.session_id}"] if task.session_id else []
    return Command(
        argv=[*argv, *(launch.flags or [])],
        cwd=worktree,
        environment={**CAPABILITIES.environment, **environment},
        secrets=secrets,
    )


def mode_of(task: Task) -> str:
    """Return the permission mode; raise ``config_invalid`` for a contradiction."""
    return permission_mode(task, tree="auto-edit", text="default", everything="yolo")
