"""Gemini CLI, which prints JSON lines.

    gemini --output-format stream-json … < prompt

It cannot ask, so whatever a permission mode does not allow fails.

It runs in a folder that it does not trust: then it reads no settings, ``.env`` files, context files (``GEMINI.md``),
hooks, commands, agents, skills or tool servers of the repository. Such a folder has no permission mode but ``default``,
and that offers no tool that changes something; what the delegator's mode allows besides, a policy file allows.

Each run gets a home folder for Gemini CLI with settings of its own: the user's, with what Understudy sets. Everything
else there leads to the user's own files. With a model server only its sessions do, because the user's settings and
login could name another server. The system's settings cannot be used: they must belong to root.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
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
from understudy.runners.agent_clis.streams.gemini_stream import CAPABILITIES, GeminiStream
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Task

_VARIABLES = frozenset(
    [
        *("GEMINI_CLI_HOME", "GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_RESTRICTED_MODE", "GEMINI_CLI_TRUSTED_FOLDERS_PATH"),
        *("GEMINI_CLI_NO_RELAUNCH", "GEMINI_SANDBOX", "GEMINI_CLI_INTEGRATION_TEST"),
    ]
)
"""Variables that would undo what keeps the repository's configuration out."""
_REDIRECTS = frozenset(
    [
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"),
        *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_API_VERSION"),
        *("GEMINI_CLI_CUSTOM_HEADERS", "GEMINI_API_KEY_AUTH_MECHANISM", "GEMINI_MODEL"),
    ]
)
"""Variables that would give it another server, or another login, than the model server."""
_NO_KEY = "no-key"
"""A placeholder: it does not start without a key."""
_NOTE_FILE = "understudy.md"
_AT_NOTE = "In messages of the user, each at sign is preceded by one backslash that is not part of the message.\n"
_RULES = {
    "default": "",
    "auto_edit": """
[[rule]]
toolName = ["write_file", "replace", "web_fetch"]
decision = "allow"
priority = 1
""",
    "yolo": """
[[rule]]
toolName = "*"
decision = "allow"
priority = 1

[[rule]]
toolName = "run_shell_command"
argsPattern = "."
allowRedirection = true
decision = "allow"
priority = 2
""",
}
"""Permission mode → what its policy file allows. Without a pattern, git would be refused in an untrusted folder."""
_SETTINGS: dict[str, Any] = {
    # With this check, it does not start in an untrusted folder; the variable that denies the trust still counts.
    "security": {"folderTrust": {"enabled": False}},
    "general": {
        # Ten attempts take four minutes.
        "maxAttempts": 3,
        "enableAutoUpdate": False,
        "enableAutoUpdateNotification": False,
        "plan": {"enabled": False},
        "sessionRetention": {"enabled": False},
    },
    "advanced": {"ignoreLocalEnv": True},
    "ide": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "tools": {"sandbox": False, "shell": {"enableInteractiveShell": False}},
}
"""They override the user's."""
_MOST_BYTES = 1 << 20
"""Longest file of settings or variables that is read."""
_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


class Runner(AgentRunner):
    """Drives Gemini CLI."""

    capabilities = CAPABILITIES

    def prepared(self, task: Task, program: Path, tree: Path, scratch: Path) -> JsonLinesSource:
        """Return the source for one run."""
        return JsonLinesSource(task, command_for(task, program, scratch), GeminiStream(tree))


def command_for(task: Task, program: Path, scratch: Path) -> Command:
    """Return the command that starts ``program`` for ``task``; raise ``config_invalid`` for what cannot apply.

    ``scratch`` becomes its home folder.
    """
    launch, server = task.delegator.launch or Launch(), task.model_server
    refuse_flags(task, CAPABILITIES.reserved_flags, CAPABILITIES.flag_fields)
    if task.mcp_servers:
        raise invalid(task, "is given tool servers, which Gemini CLI does not start here", "Use another tool.")
    for name in sorted(_VARIABLES & {*task.environment}):
        raise invalid(task, f"sets {name}", "Remove it: Understudy sets what it does itself.")
    environment = {
        "GEMINI_CLI_HOME": str(scratch),
        "GEMINI_CLI_TRUST_WORKSPACE": "false",
        "TMPDIR": str(scratch / "tmp"),  # it reports every failed request in a file there
    }
    secrets: dict[str, str] = {}
    if server is not None:
        if not task.delegator.model:
            raise invalid(task, "names a model server and no model", "Set `model` to the id that the server lists.")
        for name in sorted(_REDIRECTS & {*task.environment}):
            raise invalid(task, f"names a model server and sets {name}", "Remove one of them.")
        environment["GOOGLE_GEMINI_BASE_URL"] = re.sub(r"/v1(beta)?/?$", "", server.base_url)
        if server.headers:
            lines = [f"{name}: {text}" for name, text in server.headers.items()]
            environment["GEMINI_CLI_CUSTOM_HEADERS"] = ", ".join(lines)
        key = task.key() if task.key is not None else None
        (secrets if key else environment)["GEMINI_API_KEY"] = key or _NO_KEY
    _fill_home(task, scratch, mode_of(task))
    argv = [str(program), "--output-format", "stream-json"]
    argv += [f"--model={task.delegator.model}"] if task.delegator.model else []
    argv += [f"--resume={task.session_id}"] if task.session_id else []
    return Command(
        argv=[*argv, *(launch.flags or [])],
        cwd=task.worktree or Path("/"),
        stdin=prompt_for(task.prompt).encode("utf-8", "replace"),
        environment={**CAPABILITIES.environment, **environment},
        secrets=secrets,
    )


def mode_of(task: Task) -> str:
    """Return the permission mode; raise ``config_invalid`` for a contradiction."""
    return permission_mode(task, tree="auto_edit", text="default", everything="yolo")


def prompt_for(prompt: str) -> str:
    """Return the prompt so that nothing in it is a command or a file to read (``/quit``, ``@file``)."""
    escaped = prompt.replace("@", "\\@")
    return f"\n{escaped}" if escaped.startswith("/") else escaped


def _fill_home(task: Task, scratch: Path, mode: str) -> None:
    """Make ``scratch`` the home folder for this run."""
    home = Path({**base_environment(), **task.environment}.get("HOME") or Path.home())
    folder, user = scratch / ".gemini", home / ".gemini"
    (scratch / "tmp").mkdir()
    folder.mkdir()
    with suppress(OSError):  # then it says itself that it cannot be used
        (user / "tmp").mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {}
    if task.model_server is not None:
        (folder / "tmp").symlink_to(user / "tmp")  # its sessions
        settings["security"] = {"auth": {"selectedType": "gemini-api-key"}}
    else:
        settings = _read_settings(task, user / "settings.json")
        for entry in user.iterdir() if user.is_dir() else ():
            if entry.name not in {"settings.json", "projects.json", "trustedFolders.json", _NOTE_FILE}:
                (folder / entry.name).symlink_to(entry)
        if (home / ".agents").is_dir():
            (scratch / ".agents").symlink_to(home / ".agents")
        _keep_variables(task, [user / ".env", home / ".env"], scratch / ".env")
    rules = folder / "understudy.toml"
    rules.write_text(_RULES[mode], "utf-8")
    settings["policyPaths"] = [str(rules), *(settings.get("policyPaths") or [str(user / "policies")])]
    if "@" in task.prompt:
        (folder / _NOTE_FILE).write_text(_AT_NOTE, "utf-8")
        names = _at(settings, "context").get("fileName") or "GEMINI.md"
        settings["context"] = {
            **_at(settings, "context"),
            "fileName": [*([names] if isinstance(names, str) else names), _NOTE_FILE],
        }
    if generation := _generation(task):
        configs = _at(settings, "modelConfigs")
        match = {"model": task.delegator.model} if task.delegator.model else {"overrideScope": "core"}
        override = {"match": match, "modelConfig": {"generateContentConfig": generation}}
        settings["modelConfigs"] = {**configs, "customOverrides": [*(configs.get("customOverrides") or []), override]}
    (folder / "settings.json").write_text(json.dumps(_merged(settings, _SETTINGS)), "utf-8")


def _generation(task: Task) -> dict[str, Any]:
    """Return the fields of a request that the model properties set."""
    properties, fields = task.delegator.model_properties or {}, dict[str, Any]()
    for name, field, pattern in (
        ("temperature", "temperature", r"[01](\.\d{1,4})?|2(\.0{1,4})?"),
        ("maxTokens", "maxOutputTokens", "[1-9][0-9]{0,8}"),
    ):
        if name in properties:
            if not re.fullmatch(pattern, str(properties[name]), re.ASCII):  # a form sends a text
                hint = "Use a number from 0 to 2." if name == "temperature" else "Use a number of tokens."
                raise invalid(task, f"sets `modelProperties.{name}` to {properties[name]!r}", hint)
            fields[field] = float(properties[name]) if name == "temperature" else int(properties[name])
    return fields


def _read_settings(task: Task, path: Path) -> dict[str, Any]:
    """Return the user's settings; raise ``config_invalid`` if they cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            text = _COMMENTS.sub(lambda match: match[1] or "", file.read(_MOST_BYTES))
        settings = json.loads(text or "{}")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise invalid(task, f"cannot use the settings {path}: {error}", "Correct the file.") from error
    if not isinstance(settings, dict):
        raise invalid(task, f"cannot use the settings {path}: they are not an object", "Correct the file.")
    return settings


def _keep_variables(task: Task, files: list[Path], into: Path) -> None:
    """Let Gemini CLI read the user's own file of variables; in an untrusted folder, it takes the keys in it only."""
    env_file = next((file for file in files if file.is_file()), None)
    if env_file is None:
        return
    with env_file.open(encoding="utf-8", errors="replace") as file:
        text = file.read(_MOST_BYTES)
    for name in sorted(_REDIRECTS - {"GEMINI_API_KEY", "GOOGLE_API_KEY"}):
        if re.search(rf"^\s*(export\s+)?{name}\s*[=:]", text, re.MULTILINE) and name not in task.environment:
            raise invalid(task, f"would not get {name} from {env_file}", f"Set {name} in the delegator's `env`.")
    into.symlink_to(env_file)


def _at(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _merged(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which ``ours`` override ``theirs``."""
    changed = {
        name: _merged(_at(theirs, name), value) if isinstance(value, dict) else value for name, value in ours.items()
    }
    return {**theirs, **changed}
