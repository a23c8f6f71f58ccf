"""What trusting a workspace would allow: descriptions for the user, and the tracked programs that Understudy starts.

A pull or an accepted change can replace a program that git tracks. Those that it does not track are left out: the user
made them, and makes them again (an environment, a build).

A program without a folder (``pytest``, or ``python3`` after ``#!/usr/bin/env``) is searched on ``PATH``, which may name
folders of the workspace. The answer must not depend on the terminal or editor that asks, so the usual ones are looked
at (``ON_PATH``), whatever ``PATH`` is. In those of an environment, every program counts: which of them an agent, a
check or Understudy itself starts by its name depends on what is installed elsewhere.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.loading.loader import load
from understudy.files.version_files import version_files
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import EnvReference, Launch, Scope
from understudy.process.call_checks import expand_home

MAX_JSON_BYTES = 256 * 1024
_MCP_SERVERS = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".github/mcp.json")
"""Files whose servers are listed one by one."""
INTERPRETERS = tuple(f"{folder}/bin/{name}" for folder in (".venv", "venv") for name in ("python", "python3"))
"""The interpreters that are used without being configured."""
STARTUP_FILES = (
    "pyvenv.cfg",
    *(f"lib/python*/site-packages/{name}" for name in ("*.pth", "sitecustomize.py", "usercustomize.py")),
)
"""What such an interpreter obeys or executes whenever it starts, in its environment."""
ENVIRONMENTS = (".venv/bin", "venv/bin", "node_modules/.bin", "vendor/bin")
"""Folders of installed programs. Checks have them on ``PATH``, and so has an editor that was started in one."""
ON_PATH = (*ENVIRONMENTS, "bin", ".bin", "scripts", "tools")
"""Folders of a workspace that are commonly on ``PATH``."""
UNCONFIGURED = ("cargo", "git", "go", "hatch", "pdm", "poetry", "python", "python3", "tmux", "uv")
"""Programs that Understudy starts by their name without being told to, besides the agent CLIs."""
_RUNS_A_SCRIPT = re.compile(
    r"(python|pypy|ruby|perl|node|php|lua)[0-9.]*|bash|dash|deno|fish|ksh|bun|pwsh|Rscript|sh|zsh"
)
"""Programs whose first argument is a script."""
_MAX_INDEX_BYTES = 256 * 1024 * 1024
_MAX_POINTER_BYTES = 4096
_FIRST_LINE_BYTES = 4096
_DEEPEST = 4
"""The interpreter of a script may be a script; the kernel follows as many."""


def obeying(configuration: Configuration | None) -> list[Capabilities]:
    """Return the tools whose configuration in a repository trust covers, including those that the files define."""
    defined = configuration.tools.values() if configuration is not None else ()
    return [*declarations.tools().values(), *(tool.definition.capabilities() for tool in defined)]


def describe_effects(root: Path, files: list[str], configuration: Configuration) -> list[str]:
    """Return what trusting the workspace at ``root`` allows, one effect per line.

    ``files`` are the covered files, ``configuration`` what would apply.
    """
    lines = ["Agents work in copies of this folder, or in it if you choose that, and run its tests and checks."]
    if any(path.startswith(".understudy/") for path in files):
        lines += _own(configuration)
    agents = sum(path.startswith((".understudy/agents/", ".understudy/local/agents/")) for path in files)
    if agents:
        lines.append(f"Agents of this folder can be named (.understudy/agents/, {agents} {_files(agents)}).")
    if ".worktreeinclude" in files:
        lines.append("Files listed in .worktreeinclude, even ignored ones, are copied to the agents, too.")
    lines += [f"{path}, which the build writes, is copied to the agents, too." for path in version_files(root, root)]
    for path in _MCP_SERVERS:
        if path in files:
            lines += _mcp_servers(root, path)
    obeyed = [(tool, obeyed_path) for tool in obeying(configuration) for obeyed_path in tool.repository_paths]
    for tool, obeyed_path in obeyed:
        if obeyed_path.has_hooks and obeyed_path.path in files:
            lines += _hooks(root, obeyed_path.path, tool.title)
    for _, obeyed_path in obeyed:
        if not obeyed_path.has_hooks and obeyed_path.path not in _MCP_SERVERS:
            count = sum(
                path == obeyed_path.path or (obeyed_path.path.endswith("/") and path.startswith(obeyed_path.path))
                for path in files
            )
            if count:
                lines.append(f"Agents read {obeyed_path.what} ({obeyed_path.path}, {count} {_files(count)}).")
    outside = [path for path in files if _leads_out(root, path)]
    lines += [f"{path} is a link that leads out of this folder." for path in outside[:20]]
    return lines


def _files(count: int) -> str:
    return "file" if count == 1 else "files"


def _own(configuration: Configuration) -> Iterator[str]:
    for entry in configuration.delegators.values():
        if entry.scope is Scope.WORKSPACE:
            delegator = entry.delegator
            what = f"the tool {delegator.tool}" if delegator.tool else f"the model server {delegator.model_server}"
            launch = delegator.launch or Launch()
            runs = f", which runs {_argv(launch.command)}" if launch.command else ""
            yield f"Delegator {delegator.name} uses {what}{runs}."
            if launch.flags:
                yield f"Delegator {delegator.name} adds {_argv(launch.flags)}."
            if launch.yolo or launch.unanswered == "allow":
                yield f"Delegator {delegator.name} may do everything without asking."
            elif launch.permission_mode is not None:
                yield f"Delegator {delegator.name} works in the permission mode {launch.permission_mode}."
            if launch.relay:
                yield f"The agent of delegator {delegator.name} may start further delegations, within your limits."
            for name, value in (delegator.env or {}).items():
                shown = f"your variable {value.from_env}" if isinstance(value, EnvReference) else _argv([value])
                yield f"Delegator {delegator.name} sets {name} to {shown}."
    for server in configuration.model_servers.values():
        if server.scope is Scope.WORKSPACE:
            yield f"Model server {server.model_server.name} sends text to {server.model_server.base_url}."
            key = server.model_server.api_key
            if key is not None and key.from_env is not None:
                yield f"Model server {server.model_server.name} gets your variable {key.from_env} as its key."
    for tool in configuration.tools.values():
        if tool.scope is Scope.WORKSPACE:
            variables = ", ".join(sorted(tool.definition.env or ()))
            sets = f" and sets {variables}" if variables else ""
            yield f"Tool {tool.definition.name} runs {_argv(tool.definition.command)}{sets}."
            for arguments in tool.definition.added_arguments():
                yield f"Tool {tool.definition.name} may add {_argv(arguments)}."
    personal = load(None, trusted=False)
    for check in configuration.checks.values():
        if personal.checks.get(check.name) != check:
            yield f"Check {check.name} runs {_argv(check.argv)}."
    trees = configuration.worktrees
    if trees.setup and trees.setup != personal.worktrees.setup:
        yield f"Each new copy is set up with {_argv(trees.setup)}."
    for path in trees.link:
        if path not in personal.worktrees.link:
            yield f"Agents can write to {path} of this folder through a link."
    for pattern in trees.copy:
        if pattern not in personal.worktrees.copy:
            yield f"Files that match {pattern} are copied to the agents, too."
    if configuration.python is not None and configuration.python != personal.python:
        yield f"Checks use the interpreter {configuration.python}."
    recipes = [recipe.name for recipe in configuration.recipes.values() if recipe.scope is Scope.WORKSPACE]
    if recipes:
        yield f"Recipes of this folder: {', '.join(recipes)}."


def _mcp_servers(root: Path, path: str) -> Iterator[str]:
    document = _json(root / path)
    servers = document.get("mcpServers") or document.get("servers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        yield f"An agent that reads {path} starts the MCP servers in it."
        return
    for name, server in list(servers.items())[:50]:
        what = "a server that cannot be read"
        if isinstance(server, dict) and isinstance(server.get("command"), str):
            arguments = server.get("args")
            what = _argv([server["command"], *(map(str, arguments) if isinstance(arguments, list) else ())])
        elif isinstance(server, dict) and isinstance(server.get("url"), str):
            what = server["url"]
        yield f"An agent that reads {path} starts the MCP server {name}: {what}."


def _hooks(root: Path, path: str, title: str) -> Iterator[str]:
    document = _json(root / path)
    hooks = document.get("hooks") if isinstance(document, dict) else None
    commands = list(_commands(hooks, depth=0))
    for command in commands[:50]:
        yield f"An agent that reads {path} runs the hook {command}."
    if not commands:
        yield f"An agent may take settings of {title} from {path}."


def _commands(value: Any, depth: int) -> Iterator[str]:
    """Yield the commands of a hooks table, at any depth."""
    if depth > 8:
        return
    if isinstance(value, dict):
        if isinstance(value.get("command"), str):
            yield value["command"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _commands(item, depth + 1)


def _json(path: Path) -> Any:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return json.loads(file.read(MAX_JSON_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def _leads_out(root: Path, path: str) -> bool:
    full = root / path
    return full.is_symlink() and not os.path.realpath(full).startswith(str(root).rstrip("/") + "/")


def _argv(argv: list[str]) -> str:
    """Return arguments so that each can be distinguished from the next, and none is shortened: its end may matter."""
    return " ".join(argument if _is_plain(argument) else repr(argument) for argument in argv)


def _is_plain(argument: str) -> bool:
    return bool(argument) and argument.isprintable() and not any(mark in argument for mark in " '\"")


def tracked_programs(root: Path, configuration: Configuration) -> list[str]:
    """Return the tracked programs that the configuration starts, relative to the workspace ``root``."""
    index = _index(root)
    if index == b"":
        return []
    started = dict.fromkeys(
        [
            *INTERPRETERS,
            *_startup_files(root),
            *_configured(root, configuration),
            *(f"{place}/{name}" for name in _unconfigured() for place in ON_PATH if place not in ENVIRONMENTS),
            *_in_environments(root, index),
        ]
    )
    names = [name for name in started if os.path.lexists(root / name)]
    names += [path for path in _interpreters(root, names) if path not in started]
    # git knows a file behind a link to a folder by its real path only.
    names = list(dict.fromkeys([*names, *(real for name in names if (real := _real(root, name)) is not None)]))
    return [name for name in names if _is_tracked(name, index)]


def _startup_files(root: Path) -> Iterator[str]:
    for environment in (".venv", "venv"):
        for pattern in STARTUP_FILES:
            yield from sorted(str(path.relative_to(root)) for path in (root / environment).glob(pattern))


def _unconfigured() -> Iterator[str]:
    yield from UNCONFIGURED
    for tool in declarations.tools().values():
        yield from tool.binaries


def _in_environments(root: Path, index: bytes | None) -> Iterator[str]:
    for folder in ENVIRONMENTS:
        # One search instead of one for each program: few repositories track an environment.
        if _is_tracked(f"{folder}/", index, whole=False):
            yield from sorted(str(path.relative_to(root)) for path in (root / folder).glob("*") if not path.is_dir())


def _configured(root: Path, configuration: Configuration) -> Iterator[str]:
    commands = [(check.argv, check.cwd) for check in configuration.checks.values()]
    commands.append((configuration.worktrees.setup, None))
    launches = [entry.delegator.launch for entry in configuration.delegators.values()]
    agents = [launch.command for launch in launches if launch is not None and launch.command]
    for tool in (defined.definition for defined in configuration.tools.values()):
        agents += [tool.command, *([tool.program, *more] for more in tool.added_arguments())]
    commands += [(argv, None) for argv in agents]
    # An agent's script may come after options or another program (`env`, `uv run`), or be the value of an option.
    words = [word for argv in agents for word in argv[1:]]
    for part in map(expand_home, dict.fromkeys([*words, *(word.rpartition("=")[2] for word in words)])):
        commands.append(([f"./{part}"], None) if not part.startswith("/") else ([part], None))
    if configuration.python is not None:
        commands.append(([configuration.python], None))
    for argv, folder in commands:
        if not argv:
            continue
        yield from _program(root, argv[0], folder or "")
        names = []
        if len(argv) > 1 and _RUNS_A_SCRIPT.fullmatch(posixpath.basename(argv[0])):
            names.append(argv[1])
        for name in names:
            yield from _inside(root, name, folder or "")


def _program(root: Path, name: str, folder: str) -> Iterator[str]:
    """Yield the files of the workspace that a command may start as ``name`` in ``folder``."""
    if "/" in name:
        yield from _inside(root, name, folder)
    elif name:
        for place in ON_PATH:
            yield from _inside(root, name, place)


def _inside(root: Path, name: str, folder: str) -> Iterator[str]:
    whole = os.path.normpath(root / folder / expand_home(name))
    parent, last = os.path.split(whole)
    # The second one differs where a link leads to the workspace, as in the path of some home folders.
    for place in dict.fromkeys([whole, f"{os.path.realpath(parent)}/{last}"] if "\0" not in whole else []):
        path = os.path.relpath(place, root)
        try:
            outside = path == ".." or path.startswith("../") or (root / path).is_dir()
        except OSError:  # too long a name for a file
            return
        if not outside:
            yield path


def _real(root: Path, name: str) -> str | None:
    """Return the path of a file after all links, relative to the workspace; None if it is not in it."""
    path = os.path.relpath(os.path.realpath(root / name), os.path.realpath(root))
    return None if path == ".." or path.startswith("../") else path


def _interpreters(root: Path, scripts: list[str]) -> list[str]:
    """Return the existing files of the workspace that the first lines of ``scripts`` name (``#!…``)."""
    paths: dict[str, None] = {}
    for _ in range(_DEEPEST):
        named = [
            path for script in scripts for word in interpreter_of(root / script) for path in _program(root, word, "")
        ]
        scripts = [path for path in dict.fromkeys(named) if path not in paths and os.path.lexists(root / path)]
        paths |= dict.fromkeys(scripts)
    return list(paths)


def interpreter_of(script: Path) -> list[str]:
    """Return the programs that the kernel, and then ``env``, start for a script; empty for other files."""
    try:
        descriptor = os.open(script, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []
    with os.fdopen(descriptor, "rb") as file:
        try:
            first = file.read(_FIRST_LINE_BYTES).partition(b"\n")[0].decode("utf-8", "surrogateescape")
        except OSError:
            return []
    words = first[2:].split() if first.startswith("#!") else []
    named = words[:1]
    if named and posixpath.basename(named[0]) == "env":
        # ``env -S 'NAME=value program'``; the value of another option is taken for a program, which does no harm.
        arguments = [word.strip("'\"") for word in words[1:]]
        named += [word for word in arguments if not word.startswith("-") and "=" not in word]
    return named


def _index(root: Path) -> bytes | None:
    """Return the index of the repository at ``root``; empty when there is none, None when it cannot be searched."""
    folder = root / ".git"
    try:
        if folder.is_file():
            with folder.open("rb") as file:
                pointer = file.read(_MAX_POINTER_BYTES).decode("utf-8", "surrogateescape")
            folder = root / pointer.removeprefix("gitdir:").strip()
        bases = [bytes.fromhex(path.suffix[1:]) for path in folder.glob("sharedindex.*")]
        with (folder / "index").open("rb") as file:
            data = file.read(_MAX_INDEX_BYTES + 1)
    except (OSError, ValueError):
        return b""
    signature, version = struct.unpack(">4sI", data[:8]) if len(data) >= 8 else (b"", 0)
    # Version 4 shortens the names, and a split index keeps most of them in another file, whose hash it contains.
    readable = signature == b"DIRC" and version in {2, 3} and not any(base in data for base in bases)
    return data if readable and len(data) <= _MAX_INDEX_BYTES else None


def _is_tracked(name: str, index: bytes | None, *, whole: bool = True) -> bool:
    """Return whether the index may list ``name``: also when it lists a longer path that ends so, or is unreadable.

    Unless ``whole``, also when it lists a path that begins so.
    """
    return index is None or os.fsencode(name) + (b"\0" if whole else b"") in index
