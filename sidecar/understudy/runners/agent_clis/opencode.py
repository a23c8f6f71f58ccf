"""opencode, headless: the prompt on standard input, JSON lines on standard output.

    opencode run --format json --model provider/model --dir worktree …

It cannot ask: where its rules say ``ask``, ``run`` rejects the call and tells the model. ``launch.yolo`` allows these
calls instead.

Without a provider it would silently send the code to its own hosted models, so a delegator must name a model server, or
a model as ``provider/model`` of the user's own login. With a model server, opencode gets its own provider and its own
folder for settings for this run, but neither the login nor the settings of the user. Every model property then becomes
a field of each request; ``max_tokens`` replaces its default, 32,000.

It retries a refused connection, a rate limit and an overload five times in a good minute, without a setting for that.

``OPENCODE_DISABLE_PROJECT_CONFIG`` turns off most of what a repository provides for it (servers, hooks, agents,
commands, a base URL). But opencode 1.18 has a second reader of the same files, which cannot be turned off: it loads
plugins, clones references and downloads skills. So a worktree with one of these is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from understudy.files import durable
from understudy.model.config.delegators import Launch
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import base_environment
from understudy.runners.agent_clis.launching import AgentRunner, invalid, permission_mode, worktree_of
from understudy.runners.agent_clis.streams.opencode_stream import CAPABILITIES, OpencodeStream
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Task

_PROVIDER = "understudy"
_AGENT = "understudy"
_KEY_VARIABLE = "UNDERSTUDY_OPENCODE_KEY"
_FLAGS = frozenset({"--variant", "--file", "-f", "--pure"})
"""The only flags that ``launch.flags`` may have: all others break the protocol or have a field of their own."""
_FIELDS = {
    **dict.fromkeys(("--model", "-m"), "model"),
    "--agent": "launch.permission_mode",
    **dict.fromkeys(("--auto", "--yolo", "--dangerously-skip-permissions"), "launch.yolo"),
}
_OURS = ("OPENCODE_CONFIG_CONTENT", "OPENCODE_PERMISSION", "OPENCODE_DISABLE_PROJECT_CONFIG")
_REDIRECTS = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_AUTH_CONTENT", "OPENCODE_DB", "XDG_CONFIG_HOME")
"""Variables that would give it other settings, or another login, than those for the model server."""
_NO_PROPERTIES = frozenset({"model", "messages", "tools", "tool_choice", "stream", "stream_options"})
"""Fields of a request that opencode itself sets."""
_READS = {
    "*": "deny",
    "read": {"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"},
    **dict.fromkeys(("glob", "grep", "list", "lsp", "todowrite"), "allow"),
}
_RULES: Mapping[str, Mapping[str, Any] | None] = {
    "build": None,
    "auto": None,
    "edit": {**_READS, "edit": "allow"},
    "read-only": _READS,
}
"""Permission mode → the rules of its agent; None: the rules of opencode and of the user."""
_LOADED = re.compile(rb'"(?:plugins?|references?|urls)"|\\u')
"""What a configuration file contains if the second reader may load what it names. An escape could hide a word."""
_SERVER_MILLISECONDS = 120_000
"""How long a tool server may take to start, or to answer a call; ours answers after 45 s at the latest."""
_MOST_BYTES = 1 << 20
"""Longest configuration file that is checked."""


class Runner(AgentRunner):
    """Drives opencode."""

    capabilities = CAPABILITIES

    def prepared(self, task: Task, program: Path, tree: Path, scratch: Path) -> JsonLinesSource:
        """Return the source for one run."""
        refuse_loaded(tree)
        command = command_for(task, program, scratch)
        if task.model_server is not None:
            own_settings(Path(command.environment["XDG_CONFIG_HOME"]), {**base_environment(), **task.environment})
        return JsonLinesSource(task, command, OpencodeStream(tree))


def command_for(task: Task, program: Path, scratch: Path) -> Command:
    """Return the command that starts ``program`` for ``task``; raise ``config_invalid`` for what cannot apply.

    ``scratch`` is the folder for temporary files.
    """
    launch = task.delegator.launch or Launch()
    _refuse_flags(task, launch.flags or [])
    _refuse_variables(task)
    mode = mode_of(task)
    tree = str(task.worktree or Path("/"))
    settings: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        # Its snapshots would copy the worktree into the user's home after every step.
        "snapshot": False,
        # A rejected call is an answer to the model, not the end.
        "experimental": {"continue_loop_on_deny": True},
    }
    # Project configuration is off, which includes the instructions for agents; but these are only text.
    instructions = next((name for name in ("AGENTS.md", "CLAUDE.md") if Path(tree, name).is_file()), None)
    if instructions is not None:
        settings["instructions"] = [f"{tree}/{instructions}"]
    if (rules := _RULES[mode]) is not None:
        allowed = {f"{server.name}_*": "allow" for server in task.mcp_servers}
        settings["agent"] = {_AGENT: {"mode": "primary", "permission": {**rules, **allowed}}}
    if task.mcp_servers:
        settings["mcp"] = {
            server.name: {"type": "local", "command": server.argv, "timeout": _SERVER_MILLISECONDS}
            for server in task.mcp_servers
        }
    environment = {"TMPDIR": str(scratch), "OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
    secrets = dict[str, str]()
    model = task.delegator.model or ""
    if task.model_server is not None:
        settings |= _provider(task, model)
        environment |= {
            "XDG_CONFIG_HOME": str(scratch / "config"),
            "OPENCODE_AUTH_CONTENT": "{}",
            "OPENCODE_DB": "understudy.db",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }
        model = f"{_PROVIDER}/{model}"
        if key := task.key() if task.key is not None else None:
            secrets[_KEY_VARIABLE] = key
    elif not re.fullmatch(r"[^/]+/.+", model):
        raise _unnamed_provider(task)
    elif task.delegator.model_properties:
        raise invalid(task, "sets `model_properties` without a model server", "Set `model_server`, or remove them.")
    environment["OPENCODE_CONFIG_CONTENT"] = _literal(settings)
    argv = [str(program), "run", "--format", "json", "--thinking", f"--model={model}", f"--dir={tree}"]
    argv += ["--print-logs", "--log-level", "ERROR"]  # some errors are explained only there
    argv += ["--agent", "build" if rules is None else _AGENT]
    if task.session_id:
        argv.append(f"--session={task.session_id}")
    else:
        argv.append("--title=")  # from the prompt, without a request
    if mode == "auto":
        argv.append("--auto")
    return Command(
        argv=[*argv, *(launch.flags or [])],
        cwd=Path(tree),
        stdin=task.prompt.encode("utf-8", "replace"),
        environment={**CAPABILITIES.environment, **environment},
        secrets=secrets,
    )


def mode_of(task: Task) -> str:
    """Return the permission mode; raise ``config_invalid`` for a contradiction."""
    return permission_mode(task, tree="build", text="read-only", everything="auto")


def prepare_terminal(task: Task) -> dict[str, str]:
    """Return the variables for a run in a terminal; raise ``config_invalid`` for what ``Runner.run`` refuses, too."""
    refuse_loaded(worktree_of(task, CAPABILITIES))
    _refuse_variables(task)
    provider, _, model = task.delegator.model.partition("/")
    if not (provider and model):
        raise _unnamed_provider(task)
    settings: dict[str, Any] = {"autoupdate": False, "share": "disabled", "snapshot": False}
    # For a model that it does not find, its terminal interface takes another one, by default a hosted one.
    settings["enabled_providers"] = [provider]
    return {"OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_CONFIG_CONTENT": _literal(settings)}


def _unnamed_provider(task: Task) -> UnderstudyError:
    return invalid(
        task,
        "names neither a model server nor a model with its provider, and opencode would use its own hosted models",
        "Set `model_server`, or `model` to provider/model; `opencode models` lists those of your login.",
    )


def refuse_loaded(tree: Path) -> None:
    """Raise ``config_invalid`` if the worktree contains something that opencode would load although told not to."""
    for path in _loaded(tree):
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"opencode would load code or remote files that the repository provides: {path.relative_to(tree)}.",
            hint="Choose another delegator, or start from a state without them.",
        )


def _loaded(tree: Path) -> Iterator[Path]:
    for folder in (tree, tree / ".opencode"):
        for name in ("opencode.json", "opencode.jsonc"):
            path = folder / name
            try:
                data = durable.read_whole(path, _MOST_BYTES + 1)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                yield path  # a link, a folder: what cannot be checked is refused
                continue
            if len(data) > _MOST_BYTES or _LOADED.search(data):
                yield path
    for name in ("plugin", "plugins"):
        path = tree / ".opencode" / name
        if path.is_symlink() or path.is_dir():
            yield path


def own_settings(folder: Path, environment: Mapping[str, str]) -> None:
    """Make ``folder`` the folder for settings: empty for opencode, and the user's own for the programs that it runs."""
    config_folder = folder / "opencode"
    (config_folder / "node_modules").mkdir(parents=True)
    # opencode installs the types of its plugins in every folder with settings, from the network, unless they are there.
    there = {"dependencies": {"@opencode-ai/plugin": "*"}}
    (config_folder / "package.json").write_text(json.dumps(there))
    (config_folder / "package-lock.json").write_text(json.dumps({"packages": {"": there}}))
    home = Path(environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "/"), ".config"))
    for entry in home.iterdir() if home.is_dir() else ():
        if entry.name != config_folder.name:
            (folder / entry.name).symlink_to(entry)


def _provider(task: Task, model: str) -> dict[str, Any]:
    """Return the settings that make the task's model server the only provider."""
    server, properties = task.model_server, dict(task.delegator.model_properties or {})
    if server is None or not model:
        raise invalid(task, "names a model server and no model", "Set `model` to the id that the server lists.")
    if reserved := sorted(_NO_PROPERTIES & set(properties)):
        raise invalid(task, f"sets `modelProperties.{reserved[0]}`, which opencode sets itself", "Remove it.")
    if "reasoning_effort" in properties:
        properties["reasoningEffort"] = properties.pop("reasoning_effort")
    options: dict[str, Any] = {"baseURL": server.base_url}
    if server.headers:
        options["headers"] = server.headers
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": server.name,
        "env": [_KEY_VARIABLE],
        "options": options,
        "models": {model: {"name": model, "tool_call": True, "options": properties}},
    }
    chosen = f"{_PROVIDER}/{model}"
    return {
        "model": chosen,
        "small_model": chosen,
        "provider": {_PROVIDER: provider},
        "enabled_providers": [_PROVIDER],
    }


def _literal(settings: dict[str, Any]) -> str:
    """Return settings as JSON in which opencode replaces nothing: it fills ``{env:…}`` and ``{file:…}``."""
    return re.sub(r"\{(?=env:|file:)", r"\\u007b", json.dumps(settings))


def _refuse_flags(task: Task, flags: list[str]) -> None:
    before = ""
    for flag in flags:
        name = flag.partition("=")[0]
        is_value = not flag.startswith("-") and before in _FLAGS - {"--pure"}
        before = flag
        if is_value or name in _FLAGS:
            continue
        if name in _FIELDS:
            raise invalid(task, f"has the flag {name} in `launch.flags`", f"Set `{_FIELDS[name]}` instead.")
        raise invalid(task, f"has {name} in `launch.flags`", f"Remove it; possible are {', '.join(sorted(_FLAGS))}.")


def _refuse_variables(task: Task) -> None:
    variables = {*(task.delegator.env or {}), *task.environment}
    for name in _OURS if task.model_server is None else _OURS + _REDIRECTS:
        if name in variables:
            raise invalid(task, f"sets {name}, which Understudy sets itself", "Remove it from `env`.")
