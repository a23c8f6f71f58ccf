"""Codex CLI, over its own two-way protocol: JSON-RPC without the ``jsonrpc`` field, one message per line.

    codex app-server -c key=value …

The prompt is the first turn of a thread, questions arrive as requests, and closing its input ends it. It works in its
own sandbox: it may change files of the worktree, and asks before it leaves the sandbox. The sandbox and the questions
are set for the turn, not for the thread: a thread that may write makes Codex trust the folder permanently, and a
trusted folder's own configuration may start programs.

With a model server, Codex gets a provider of its own for this run, and nothing else of the user's login.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from understudy.model.config.delegators import Launch
from understudy.runners.agent_clis.launching import AgentRunner, invalid, permission_mode
from understudy.runners.agent_clis.streams.codex_stream import CAPABILITIES, CodexStream, Session
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Task

_PROVIDER = "understudy"
_KEY_VARIABLE = "UNDERSTUDY_CODEX_KEY"
_HEADER_VARIABLE = "UNDERSTUDY_CODEX_HEADER_{}"
"""Headers are passed in the environment: other users can read the arguments of a process."""
_SETTINGS = {
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    # Without this limit, it never stops connecting to a server that does not answer.
    "features.unbounded_connection_retries": False,
    "features.plugins": False,
    "features.apps": False,
}
_RETRIES = 2
_SERVER_SECONDS = 120
"""How long a tool server may take to start, or to answer a call; ours answers after 45 s at the latest."""
_OURS = frozenset({"--listen", "--stdio", "app-server", "exec", "--startup-sign-out"})
_OWN_SETTINGS = re.compile(
    r"\s*(model|model_provider|model_providers\b.*|projects\b.*|sandbox_mode|approval_policy)\s*="
)
"""Settings that have a field of their own, or that Understudy sets."""
_WRITES = {
    "type": "workspaceWrite",
    "writableRoots": [],
    "networkAccess": False,
    # In a folder that may be written, its sandbox makes folders such as .git, to protect them, and leaves them behind.
    "excludeSlashTmp": True,
    "excludeTmpdirEnvVar": False,
}
_SANDBOXES: dict[str, tuple[str, dict[str, Any]]] = {
    "on-request": ("on-request", _WRITES),
    "untrusted": ("untrusted", _WRITES),
    "never": ("never", _WRITES),
    "read-only": ("never", {"type": "readOnly"}),
    "danger-full-access": ("never", {"type": "dangerFullAccess"}),
}
"""Permission mode → its approval policy and its sandbox."""


class Runner(AgentRunner):
    """Drives Codex."""

    capabilities = CAPABILITIES

    def prepared(self, task: Task, program: Path, tree: Path, scratch: Path) -> JsonLinesSource:
        """Return the source for one run."""
        stream = CodexStream(tree, session_for(task, tree))
        return JsonLinesSource(task, command_for(task, program, scratch), stream)


def command_for(task: Task, program: Path, scratch: Path) -> Command:
    """Return the command that starts ``program`` for ``task``; raise ``config_invalid`` for what cannot apply.

    ``scratch`` is the folder for temporary files.
    """
    launch = task.delegator.launch or Launch()
    _refuse_flags(task, launch.flags or [])
    settings: dict[str, Any] = {**_SETTINGS, **(task.delegator.model_properties or {})}
    for server in task.mcp_servers:
        settings[f"mcp_servers.{server.name}"] = {
            "command": server.argv[0],
            "args": server.argv[1:],
            "startup_timeout_sec": _SERVER_SECONDS,
            "tool_timeout_sec": _SERVER_SECONDS,
            "default_tools_approval_mode": "approve",
            "required": True,
        }
    environment, secrets = {"TMPDIR": str(scratch)}, dict[str, str]()
    if task.model_server is not None:
        provider: dict[str, Any] = {
            "name": task.model_server.name,
            "base_url": task.model_server.base_url,
            "wire_api": "responses",
            "request_max_retries": _RETRIES,
            "stream_max_retries": _RETRIES,
        }
        headers = task.model_server.headers or {}
        variables = {name: _HEADER_VARIABLE.format(number) for number, name in enumerate(headers)}
        environment |= {variables[name]: text for name, text in headers.items()}
        if variables:
            provider["env_http_headers"] = variables
        key = task.key() if task.key is not None else None
        if key:
            provider["env_key"] = _KEY_VARIABLE
            secrets[_KEY_VARIABLE] = key
        settings |= {"model_provider": _PROVIDER, f"model_providers.{_PROVIDER}": provider}
    argv = [str(program), "app-server"]
    for name, value in settings.items():
        argv += ["-c", f"{name}={_toml(value)}"]
    argv += launch.flags or []
    return Command(argv=argv, cwd=task.worktree or Path("/"), environment=environment, secrets=secrets)


def session_for(task: Task, tree: Path) -> Session:
    """Return what the thread and its turn are started with; raise ``config_invalid`` for a contradiction."""
    mode = permission_mode(task, tree="on-request", text="read-only", everything="danger-full-access")
    approval, sandbox = _SANDBOXES[mode]
    return Session(
        tree=str(tree),
        model=task.delegator.model or None,
        resumes=task.session_id,
        approval=approval,
        sandbox=sandbox,
    )


def _refuse_flags(task: Task, flags: list[str]) -> None:
    for place, flag in enumerate(flags):
        name, _, value = flag.partition("=")
        if name in _OURS:
            raise invalid(task, f"has the flag {name} in `launch.flags`, which Understudy sets itself", "Remove it.")
        setting = flags[place + 1] if flag in {"-c", "--config"} and place + 1 < len(flags) else ""
        setting = setting or (value if name in {"-c", "--config"} else flag[2:] if flag.startswith("-c") else "")
        if setting and (match := _OWN_SETTINGS.match(setting)):
            raise invalid(
                task,
                f"sets {match[1]} in `launch.flags`",
                "Use the delegator's model, model server or permission mode instead.",
            )


def _toml(value: Any) -> str:
    """Return a value in TOML, on one line; JSON's strings, numbers and truth values are TOML's."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(name))} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
