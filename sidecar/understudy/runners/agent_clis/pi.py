"""pi, over its own two-way protocol: JSON lines on standard input and output.

    pi --mode rpc --no-prompt-templates …

The prompt is a command on its standard input, and closing the input ends it. pi has no permissions: it does everything
without asking, or gets only the tools that read.

pi has no option that ignores a repository's ``.pi`` folder, whose settings and extensions run programs. But the name of
that folder is a field of pi's ``package.json``, and a variable names the folder with that file. So each run gets a copy
of the file, in a private folder with links to everything else; the field leads to another private folder, with
Understudy's own settings. Without the package, pi is not started.

With a model server, pi also gets an agent folder of its own for this run, and so nothing else of the user's login,
settings and extensions. Its sessions stay where the user's own are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.config.discovery import declarations
from understudy.model.config.delegators import Launch, ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import base_environment
from understudy.runners.agent_clis.launching import (
    AgentRunner,
    invalid,
    permission_mode,
    refuse_flags,
    without_version,
)
from understudy.runners.agent_clis.streams.pi_stream import CAPABILITIES, MAX_LINE_BYTES, PiStream
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Task

_PROVIDER = "understudy"
_KEY_VARIABLE = "UNDERSTUDY_PI_KEY"
_HEADER_VARIABLE = "UNDERSTUDY_PI_HEADER_{}"
"""pi looks up headers and keys in the environment; a value in its file could be a command (``!…``)."""
_NO_KEY = "no-key"
"""A placeholder: pi does not use a provider without a key."""
_AGENT_FOLDER = "PI_CODING_AGENT_DIR"
_PACKAGE_FOLDER = "PI_PACKAGE_DIR"
_SETTINGS = {"retry": {"enabled": True, "maxRetries": 2, "baseDelayMs": 2000, "provider": {"maxRetries": 0}}}
"""They override the user's; the defaults try again three times, and each of these up to three times."""
_APIS = {"openai": "openai-completions", "anthropic": "anthropic-messages", "responses": "openai-responses"}
_THINKING = frozenset({"off", "minimal", "low", "medium", "high", "xhigh"})
_READING_TOOLS = "read,grep,find,ls"


class Runner(AgentRunner):
    """Drives pi."""

    capabilities = CAPABILITIES

    def prepared(self, task: Task, program: Path, tree: Path, scratch: Path) -> JsonLinesSource:
        """Return the source for one run."""
        return JsonLinesSource(task, command_for(task, program, scratch), PiStream(tree), MAX_LINE_BYTES)


def command_for(task: Task, program: Path, scratch: Path) -> Command:
    """Return the command that starts ``program`` for ``task``; raise ``config_invalid`` for what cannot apply.

    ``scratch`` is the folder for temporary files.
    """
    launch, properties = task.delegator.launch or Launch(), task.delegator.model_properties or {}
    for name in {_PACKAGE_FOLDER, *([_AGENT_FOLDER] if task.model_server is not None else [])} & {*task.environment}:
        raise invalid(task, f"sets {name}", "Remove it: Understudy sets it itself.")
    mode = mode_of(task)
    refuse_flags(task, CAPABILITIES.reserved_flags, CAPABILITIES.flag_fields)
    for flag in launch.flags or ():
        if flag.startswith("@"):
            raise invalid(task, f"has the file {flag} in `launch.flags`", "Remove it: pi takes none here.")
        if mode == "read-only" and flag in {"--tools", "-t"}:
            raise invalid(task, f"may only read, and has the flag {flag} in `launch.flags`", "Remove one of them.")
    argv = [str(program), "--mode", "rpc", "--no-prompt-templates"]
    if task.prompt.startswith("/"):
        argv += ["--no-extensions", "--no-skills"]  # nothing is left that could take the prompt for a command
    if mode == "read-only":
        argv += ["--tools", _READING_TOOLS]
    if task.delegator.model:
        argv += ["--model", task.delegator.model]
    if (level := properties.get("thinking")) is not None:
        if level not in _THINKING:
            raise invalid(
                task, f"sets `modelProperties.thinking` to {level!r}", "Use off, minimal, low, medium, high or xhigh."
            )
        argv += ["--thinking", str(level)]
    if task.session_id:
        argv += ["--session", task.session_id]
    environment = {_PACKAGE_FOLDER: str(_masked_package(task, program, scratch))}
    agent = _agent_folder(task)
    secrets: dict[str, str] = {}
    if task.model_server is None:
        for name in sorted({"contextWindow", "maxTokens"} & {*properties}):
            raise invalid(task, f"sets `modelProperties.{name}` without a model server", "Remove it.")
    else:
        argv += ["--provider", _PROVIDER, "--session-dir", str(_session_folder(task, agent))]
        provider, variables, secrets = _provider(task, task.model_server, properties)
        environment |= variables
        agent_folder = scratch / "agent"
        agent_folder.mkdir()
        (agent_folder / "models.json").write_text(json.dumps({"providers": {_PROVIDER: provider}}), "utf-8")
        (agent_folder / "bin").symlink_to(agent / "bin")  # the search programs that it has downloaded
        agent = agent_folder
    return Command(
        argv=[*argv, *(launch.flags or [])],
        cwd=task.worktree or Path("/"),
        environment={**CAPABILITIES.environment, **environment, _AGENT_FOLDER: str(agent)},
        secrets=secrets,
    )


def mode_of(task: Task) -> str:
    """Return the permission mode; raise ``config_invalid`` for a contradiction."""
    return permission_mode(task, tree="all-tools", text="read-only", everything="all-tools")


def _masked_package(task: Task, program: Path, scratch: Path) -> Path:
    """Return a copy of pi's package in which the folder with a project's configuration is ours."""
    installed = next((folder for folder in program.resolve().parents if _is_package(folder)), None)
    if installed is None:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING,
            f"The package of pi was not found next to {program}, so a repository's `.pi` could not be masked.",
            hint="Install it with npm, and put its own program on PATH, not a script that starts it.",
        )
    package, project = scratch / "package", scratch / "project"
    package.mkdir()
    project.mkdir()
    (project / "settings.json").write_text(json.dumps(_SETTINGS), "utf-8")
    for entry in installed.iterdir():
        if entry.name != "package.json":
            (package / entry.name).symlink_to(entry)
    described = json.loads((installed / "package.json").read_text("utf-8"))
    # pi joins this with the folder in which it works.
    leads = os.path.relpath(os.path.realpath(project), os.path.realpath(task.worktree or "/"))
    described["piConfig"] = {**(described.get("piConfig") or {}), "configDir": leads}
    (package / "package.json").write_text(json.dumps(described), "utf-8")
    return package


def _is_package(folder: Path) -> bool:
    try:
        return str(json.loads((folder / "package.json").read_text("utf-8"))["name"]).endswith("/pi-coding-agent")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _agent_folder(task: Task) -> Path:
    """Return the folder with the user's own login, settings and sessions."""
    variables = {**base_environment(), **task.environment}
    home = variables.get("HOME") or str(Path.home())
    chosen = variables.get(_AGENT_FOLDER)
    if chosen and chosen.startswith("~"):
        return Path(home + chosen[1:])
    return Path(chosen) if chosen else Path(home, ".pi/agent")


def _session_folder(task: Task, agent: Path) -> Path:
    """Return the folder in which pi keeps the sessions of the worktree; it names it like this."""
    tree = os.path.realpath(task.worktree or "/")
    return agent / "sessions" / f"--{re.sub('[/:]', '-', tree.removeprefix('/'))}--"


def _provider(
    task: Task, server: ModelServer, properties: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Return the provider for a model server, its variables, and those of them that are secret."""
    if not task.delegator.model:
        raise invalid(task, "names a model server and no model", "Set `model` to the id that the model server lists.")
    protocol, address = declarations.protocol_for(server, CAPABILITIES) or "openai", server.base_url
    if protocol == "anthropic":
        address = without_version(address)
    model: dict[str, Any] = {"id": task.delegator.model, "reasoning": properties.get("thinking", "off") != "off"}
    for name in sorted({"contextWindow", "maxTokens"} & {*properties}):
        if not re.fullmatch("[1-9][0-9]{0,8}", str(properties[name]), re.ASCII):  # a form sends a text
            raise invalid(task, f"sets `modelProperties.{name}` to {properties[name]!r}", "Use a number of tokens.")
        model[name] = int(properties[name])
    headers = {name: text for name, text in (server.headers or {}).items() if text}
    variables = {name: _HEADER_VARIABLE.format(number) for number, name in enumerate(headers)}
    key = task.key() if task.key is not None else None
    provider: dict[str, Any] = {
        "baseUrl": address,
        "api": _APIS[protocol],
        "apiKey": _KEY_VARIABLE,
        "models": [model],
        # Many servers know no other roles than the usual ones, and refuse unknown fields.
        "compat": {"supportsDeveloperRole": False, "supportsStore": False},
        **({"headers": variables} if variables else {}),
    }
    header_values = {variables[name]: text for name, text in headers.items()}
    return provider, header_values | ({} if key else {_KEY_VARIABLE: _NO_KEY}), {_KEY_VARIABLE: key} if key else {}
