"""What a repository's files may not configure: keys, variables and addresses of the user."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from understudy.config.findings import Finding
from understudy.config.locality import is_local, origin
from understudy.model.config.delegators import Delegator, EnvReference, ModelServer
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.evidence.checks import Check

_LOADER_NAME = re.compile(
    r"LD_.*|DYLD_.*|NODE_(OPTIONS|PATH)|PYTHON.*|BASH_ENV|ENV|SHELLOPTS|GIT_.*|PERL5.*|RUBY(OPT|LIB)|JAVA_TOOL_OPTIONS|"
    r"_JAVA_OPTIONS|PATH|ZDOTDIR|AIDER_.*|MSWEA_.*|GEMINI_CLI_.*"
)
"""Variables with which programs load code, or other settings, before they do anything."""
_ADDRESS_NAME = re.compile(r"(URL|URI|BASE|HOST|ENDPOINT|PROXY|ADDRESS|SERVER)$", re.IGNORECASE)


def check_workspace_server(server: ModelServer, user: Mapping[str, ModelServer]) -> Iterator[Finding]:
    """Find a key of the user that would be sent to a host for which the user has not configured it."""
    if server.api_key is not None and not any(
        own.api_key == server.api_key and origin(own.base_url) == origin(server.base_url) for own in user.values()
    ):
        yield Finding(
            ("api_key",),
            "A workspace file may not send your key to a host for which you have not configured it.",
            "Add a model server with this key and address to your own configuration; the workspace may then name it.",
        )
    hidden = user.get(server.name)
    if hidden is not None and origin(hidden.base_url) != origin(server.base_url):
        message = "A workspace file may not replace your model server of this name with one on another host."
        yield Finding(("base_url",), message, "Give it another name.")


def check_workspace_tool(tool: ToolDefinition, user: Mapping[str, ToolDefinition]) -> Iterator[Finding]:
    """Find a tool that would replace one of the user, and a program that would be pointed at another address."""
    if tool.name in user:
        message = "A workspace file may not replace your tool of this name."
        yield Finding(("name",), message, "Give it another name.")
    for name in tool.env or ():
        if _ADDRESS_NAME.search(name):
            message = f"A workspace file may not set {name}: it could send your credentials to another host."
            yield Finding(("env", name), message, "Define the tool in your own configuration.")
        elif _LOADER_NAME.fullmatch(name):
            message = f"A workspace file may not set {name}: programs run code that it names."
            yield Finding(("env", name), message, "Define the tool in your own configuration.")


def check_workspace_delegator(
    delegator: Delegator,
    user: Mapping[str, Delegator],
    servers: Mapping[str, ModelServer],
    foreign: Collection[str] = (),
) -> Iterator[Finding]:
    """Find variables of the user that would be passed on, and tools that would be pointed at another address.

    A delegator of the user allows the variables that it passes on itself, to the program that it starts. This holds
    for tools that the user defined, too; further flags are shown in the question whether to trust the workspace.
    ``foreign`` are the tools that the workspace defines: a delegator of the user allows nothing for them.
    """
    if delegator.route is not None:
        if delegator.route.remote:
            message = "A workspace file may not let texts for a model on this machine go to other machines."
            yield Finding(("remote",), message, "Set it in a route of your configuration.")
        if delegator.name in user:
            message = "A workspace file may not replace your delegator or route of this name with a route."
            yield Finding(("name",), message, "Give the route another name.")
        return
    hint = "Add a delegator with the same `tool`, `env` and `launch.command` to your own configuration to allow it."
    if delegator.tool in foreign:
        hint = "Define the tool in your own configuration, and add a delegator with the same `tool` and `env` there."
    if delegator.tool in foreign or not any(_runs_with(own, delegator) for own in user.values()):
        for name, value in (delegator.env or {}).items():
            if isinstance(value, EnvReference):
                message = f"A workspace file may not pass on your variable {value.from_env}."
                yield Finding(("env", name), message, hint)
            elif _ADDRESS_NAME.search(name):
                message = f"A workspace file may not set {name}: it could send your credentials to another host."
                yield Finding(("env", name), message, hint)
    for name in delegator.env or {}:
        if _LOADER_NAME.fullmatch(name):
            message = f"A workspace file may not set {name}: programs run code that it names."
            yield Finding(("env", name), message, "Set it in your own configuration.")
    if delegator.launch is not None and delegator.launch.branch is not None:
        message = "A workspace file may not write branches into your repository."
        yield Finding(("launch", "branch"), message, "Set it in your own configuration, for example in `[launch]`.")
    if delegator.launch is not None and delegator.launch.use_worktree is False:
        message = "A workspace file may not let an agent work in your checkout."
        yield Finding(("launch", "use_worktree"), message, "Set it in your own configuration, or for one delegation.")
    hidden = user.get(delegator.name)
    if hidden is not None and _stays(hidden, servers) and not _stays(delegator, servers):
        message = "A workspace file may not replace your local delegator of this name with a remote one."
        yield Finding(("name",), message, "Give it another name.")


def check_workspace_check(check: Check, user: Mapping[str, Check]) -> Iterator[Finding]:
    """Find hidden checks that a repository declares, and those of the user that it would replace."""
    for name in ("hidden", "files"):
        if getattr(check, name):
            message = f"`{name}` is allowed only in your own configuration: agents can read the files of a workspace."
            yield Finding((name,), message, "Move the check and its files to your own configuration folder.")
    own_check = user.get(check.name)
    if own_check is not None and own_check.hidden:
        message = "A workspace file may not replace your hidden check of this name."
        yield Finding(("name",), message, "Give it another name.")


def _runs_with(own: Delegator, delegator: Delegator) -> bool:
    """Return whether ``own`` passes the same variables to the same program."""
    command, other = (
        candidate.launch.command if candidate.launch is not None else None for candidate in (own, delegator)
    )
    return own.tool == delegator.tool and own.env == delegator.env and command == other


def _stays(delegator: Delegator, servers: Mapping[str, ModelServer]) -> bool:
    return is_local(delegator, servers.get(delegator.model_server or ""))
