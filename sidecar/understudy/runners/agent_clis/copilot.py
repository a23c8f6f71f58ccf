"""GitHub Copilot CLI, which prints JSON lines.

    copilot --output-format json --session-id=… --allow-tool=write … < prompt

The prompt is its standard input. It cannot ask, so whatever a permission mode does not allow fails. How many tokens it
used is in a file that it writes before it exits.

What the repository provides for it (hooks, MCP servers, extensions, settings) is loaded only in a folder that the user
trusts. Nothing here trusts one: not the permission modes, and the options and variables that would are refused. If the
user's own settings trust the folder, or one around it, Copilot is not started where the repository has such files.

With a model server, it works offline: without the user's login, web tools and GitHub's own servers.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.config.discovery import declarations
from understudy.model.config.delegators import Launch, ModelServer
from understudy.process.call_checks import base_environment
from understudy.runners.agent_clis.launching import (
    AgentRunner,
    invalid,
    permission_mode,
    refuse_flags,
    without_version,
)
from understudy.runners.agent_clis.streams.copilot_stream import CAPABILITIES, CopilotStream
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Task

_MODES = {
    "write": ("--allow-tool=write",),
    "allow-all-tools": ("--allow-all-tools",),
    "read-only": ("--deny-tool=write", "--deny-tool=shell"),
    "allow-all": ("--allow-all",),
}
"""Permission mode → its arguments."""
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_KEY_VARIABLE = "COPILOT_PROVIDER_API_KEY"
_LIMITS = {"contextWindow": "COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "maxTokens": "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"}
_MOST_SETTINGS_BYTES = 1 << 20


class Runner(AgentRunner):
    """Drives GitHub Copilot CLI."""

    capabilities = CAPABILITIES

    def prepared(self, task: Task, program: Path, tree: Path, scratch: Path) -> JsonLinesSource:
        """Return the source for one run."""
        usage, session = scratch / "usage.json", task.session_id or str(uuid.uuid4())
        return JsonLinesSource(task, command_for(task, program, session, usage), CopilotStream(tree, session, usage))


def command_for(task: Task, program: Path, session: str, usage: Path) -> Command:
    """Return the command that starts ``program`` for ``task``; raise ``config_invalid`` for what cannot apply.

    ``session`` is the id of a new session, or of the one to continue; ``usage`` the file for the tokens used.
    """
    launch, properties = task.delegator.launch or Launch(), task.delegator.model_properties or {}
    refuse_flags(task, CAPABILITIES.reserved_flags, CAPABILITIES.flag_fields)
    reserved = ("COPILOT_PROVIDER_", "COPILOT_MODEL", "COPILOT_OFFLINE") if task.model_server is not None else ()
    for name in sorted(task.environment):
        if name == "COPILOT_ALLOW_ALL" or name.startswith(reserved):
            raise invalid(task, f"sets {name}", "Remove it: Understudy sets what it does itself.")
    _refuse_trusted_folder(task)
    argv = [str(program), "--output-format", "json", "--stream", "on", "--no-auto-update", "--no-color"]
    argv += ["--no-ask-user", "--no-remote", "--no-remote-export", "--disable-client-telemetry"]
    argv += ["--usage-output-file", str(usage), f"--resume={session}" if task.session_id else f"--session-id={session}"]
    argv += _MODES[mode_of(task)]
    if task.mcp_servers:
        servers = {
            server.name: {"type": "local", "command": server.argv[0], "args": server.argv[1:], "tools": ["*"]}
            for server in task.mcp_servers
        }
        argv += [f"--additional-mcp-config={json.dumps({'mcpServers': servers})}"]
        argv += [f"--allow-tool={server.name}" for server in task.mcp_servers]
    if task.delegator.model:
        argv.append(f"--model={task.delegator.model}")
    if (effort := properties.get("model_reasoning_effort")) is not None:
        if effort not in _EFFORTS:
            raise invalid(task, f"sets `modelProperties.model_reasoning_effort` to {effort!r}", "Use low or high.")
        argv.append(f"--reasoning-effort={effort}")
    environment, secrets = dict[str, str](), dict[str, str]()
    if task.model_server is not None:
        environment, secrets = _provider(task, task.model_server)
        argv.append("--disable-builtin-mcps")
    for name in sorted({*_LIMITS} & {*properties}):
        value = str(properties[name])
        if task.model_server is None:
            raise invalid(task, f"sets `modelProperties.{name}` without a model server", "Remove it.")
        if not re.fullmatch("[1-9][0-9]{0,8}", value, re.ASCII):
            raise invalid(task, f"sets `modelProperties.{name}` to {value!r}", "Use a number of tokens.")
        environment[_LIMITS[name]] = value
    return Command(
        argv=[*argv, *(launch.flags or [])],
        cwd=task.worktree or Path("/"),
        stdin=task.prompt.encode("utf-8", "replace"),
        environment={**CAPABILITIES.environment, **environment},
        secrets=secrets,
    )


def mode_of(task: Task) -> str:
    """Return the permission mode; raise ``config_invalid`` for a contradiction."""
    return permission_mode(task, tree="write", text="read-only", everything="allow-all")


def _provider(task: Task, server: ModelServer) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that select a model server, and those of them that are secret."""
    if not task.delegator.model:
        raise invalid(task, "names a model server and no model", "Set `model` to the id that the model server lists.")
    protocol, address = declarations.protocol_for(server, CAPABILITIES) or "openai", server.base_url
    if protocol == "anthropic":
        address = without_version(address)
    environment = {
        "COPILOT_OFFLINE": "true",
        "COPILOT_MODEL": task.delegator.model,
        "COPILOT_PROVIDER_BASE_URL": address,
        "COPILOT_PROVIDER_TYPE": "anthropic" if protocol == "anthropic" else "openai",
        "COPILOT_PROVIDER_WIRE_API": "responses" if protocol == "responses" else "completions",
    }
    if server.headers:
        lines = [f"{name}: {text}" for name, text in server.headers.items()]
        environment["COPILOT_PROVIDER_HEADERS"] = "\n".join(lines)
    key = task.key() if task.key is not None else None
    return environment, {_KEY_VARIABLE: key} if key else {}


def _refuse_trusted_folder(task: Task) -> None:
    """Raise ``config_invalid`` if the user's settings trust the worktree, and it has files that Copilot then runs."""
    tree = os.path.realpath(task.worktree or "/")
    provided = [item.path for item in CAPABILITIES.repository_paths if os.path.lexists(Path(tree, item.path))]
    if not provided:
        return
    variables: Mapping[str, str] = {**base_environment(), **task.environment}
    home = Path(variables.get("COPILOT_HOME") or Path(variables.get("HOME") or Path.home(), ".copilot"))
    for folder in _trusted_folders(home):
        if Path(tree).is_relative_to(os.path.realpath(folder)):
            raise invalid(
                task,
                f"would run what the repository provides ({', '.join(provided)}), because Copilot trusts {folder}",
                f"Remove {folder} from the trusted folders in {home}.",
            )


def _trusted_folders(home: Path) -> list[str]:
    folders: list[Any] = []
    for name in ("config.json", "settings.json"):
        try:
            with (home / name).open(encoding="utf-8") as file:
                text = file.read(_MOST_SETTINGS_BYTES)
            # Comment lines come first, which JSON has not.
            told = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
            folders += [*(told.get("trustedFolders") or ()), *(told.get("trusted_folders") or ())]
        except (OSError, ValueError, AttributeError, TypeError):
            continue
    return [folder for folder in folders if isinstance(folder, str)]
