"""Find the declarations of tools and backends, and choose the one that applies to a delegator.

A declaration is a file of ``understudy.model.tools``, or a module of it or of ``understudy.model.backends``. Every
folder of that name below an entry of ``sys.path`` is searched for modules, so that another distribution adds a tool
with one. Declarations are read when they are first asked for.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from understudy.config.findings import close
from understudy.files.user_file import current_folder
from understudy.model import backends as backend_package
from understudy.model import tools as tool_package
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import Delegator, Launch, Limits, ModelServer, RemoteAgent
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.errors import ErrorKind, UnderstudyError

DEFAULT_PROTOCOL = "openai"
"""The protocol of a model server that declares none."""

AUTO = "auto"
"""Instead of protocols: the name of the model and the answers of the server decide."""

_ANY = ["openai", "anthropic", "responses"]
"""What a server with ``auto`` may support."""


@functools.cache
def tools() -> Mapping[str, Capabilities]:
    """Return every known agent CLI by name; those with a ``runner`` can be driven."""
    shipped = {name: tool_package.declared(name) for name in tool_package.NAMES}
    for declaration in shipped.values():
        _require_known_options(declaration, declaration.name)
    return dict(sorted({**_declared(tool_package.__name__, tool_package.__path__), **shipped}.items()))


@functools.cache
def backends() -> Mapping[str, Capabilities]:
    """Return every backend of our own loop, by name."""
    return _declared(backend_package.__name__, backend_package.__path__)


def of_program(program: str) -> Capabilities | None:
    """Return the tool whose program has this name."""
    return next((tool for tool in tools().values() if program in tool.binaries), None)


def started_by(delegator: Delegator) -> Capabilities | None:
    """Return the tool that a delegator starts: the one whose ACP program its own command names, else its ``tool``.

    The program may be started by another one: ``npx -y @agentclientprotocol/claude-agent-acp@0.101.0``.
    """
    words = (delegator.launch.command if delegator.launch is not None else None) or ()
    programs = {word.rpartition("/")[2].partition("@")[0] for word in words}
    named = (tool for tool in tools().values() if programs.intersection(tool.acp_command[:1]))
    return next(named, tools().get(delegator.tool or ""))


def runnable_tools() -> list[str]:
    """Return the names of the tools that can be driven."""
    return [name for name, tool in tools().items() if tool.runner is not None]


def protocols() -> list[str]:
    """Return the protocols of model servers that a tool or a backend can use, the default first, and ``auto``."""
    spoken = {
        word
        for declaration in (*backends().values(), *tools().values())
        if declaration.runner
        for word in declaration.protocols
    }
    return [*sorted(spoken, key=lambda word: (word != DEFAULT_PROTOCOL, word)), AUTO]


def capabilities_of(
    delegator: Delegator, server: ModelServer | None, defined: ToolDefinition | None = None
) -> Capabilities | None:
    """Return the capabilities of ``delegator`` on ``server``; ``None`` if no runner can drive them.

    ``defined`` is the definition of its tool, for a tool that a file defines.
    """
    if delegator.tool is not None:
        tool = defined.capabilities() if defined is not None else tools().get(delegator.tool)
        return tool.in_mode(delegator.mode) if tool is not None else None
    spoken = protocols_of(server) if server is not None else [DEFAULT_PROTOCOL]
    return next((backend for word in spoken for backend in backends().values() if word in backend.protocols), None)


def require_capabilities(
    delegator: Delegator, server: ModelServer | None, defined: ToolDefinition | None = None
) -> Capabilities:
    """Return what ``capabilities_of`` returns.

    Raises ``remote_only_delegator`` for an agent on another service, ``unknown_tool`` if no runner can drive them.
    """
    if delegator.remote_agent is not None:
        raise remote_only(delegator.name, delegator.remote_agent)
    if delegator.route is not None:
        raise is_route(delegator.name)
    capabilities = capabilities_of(delegator, server, defined)
    if capabilities is None:
        raise unknown_tool(delegator.tool or f"model server {delegator.model_server}")
    return capabilities


def remote_only(name: str, agent: RemoteAgent) -> UnderstudyError:
    """Return the error for the start of a delegator that stands for an agent on another service."""
    return UnderstudyError(
        ErrorKind.REMOTE_ONLY_DELEGATOR,
        f"The delegator {name!r} stands for the agent {agent.id!r} on {agent.platform}, which cannot be started here.",
        hint="Name another delegator, or export this one: understudy delegators export " + name,
    )


def is_route(name: str) -> UnderstudyError:
    """Return the error for a request that needs one delegator, and names a route."""
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"{name!r} is a route: which delegator it takes depends on the work.",
        hint=f"Name a delegator; `understudy routes explain -d {name} RECIPE FILE` says which it takes.",
    )


def unknown_tool(name: str, defined: Iterable[str] = ()) -> UnderstudyError:
    """Return the error for a tool that Understudy cannot drive; ``defined`` are those that files define."""
    names = [*runnable_tools(), *defined]
    suggested = close(name, names)
    every = f"Use one of: {', '.join(names)}; or define it: `understudy tools new {name}`."
    return UnderstudyError(
        ErrorKind.UNKNOWN_TOOL,
        f"Understudy cannot drive the tool {name!r}.",
        hint=f"Did you mean {suggested[0]!r}?" if suggested else every,
        names=suggested or names,
    )


def protocols_of(server: ModelServer) -> list[str]:
    """Return the protocols of ``server``, the preferred one first; with ``auto``, all that it may support."""
    if server.protocols == [AUTO]:
        return list(_ANY)
    return server.protocols or [DEFAULT_PROTOCOL]


def protocol_for(server: ModelServer, supported: Capabilities) -> str | None:
    """Return the preferred protocol of ``server`` that a tool or backend supports; None if it supports none."""
    return next((word for word in protocols_of(server) if word in supported.protocols), None)


def _declared(package: str, path: list[str]) -> Mapping[str, Capabilities]:
    folder = Path(*package.split("."))
    # `python -m understudy` puts the current folder first, and a relative entry means it too. It may be an untrusted
    # workspace, and importing a declaration runs it.
    current = current_folder()
    avoided = set() if current is None else {current, current.resolve()}
    for entry in map(Path, sys.path):
        if not entry.is_absolute() or not avoided.isdisjoint({entry, entry.resolve()}):
            continue
        if str(entry / folder) not in path and (entry / folder).is_dir():
            path.append(str(entry / folder))
    declared: dict[str, Capabilities] = {}
    for module in sorted(pkgutil.iter_modules(path), key=lambda module: module.name):
        declaration: Capabilities = importlib.import_module(f"{package}.{module.name}").CAPABILITIES
        _require_known_options(declaration, module.name)
        declared[declaration.name] = declaration
    return declared


def _require_known_options(declaration: Capabilities, module: str) -> None:
    """Raise ``config_invalid`` for options that delegators do not have: nothing could set them."""
    for structure, names in ((Launch, declaration.launch), (Limits, declaration.limits)):
        unknown = set(names) - set(structure.__struct_fields__)
        if unknown:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"The declaration {module} of {declaration.title} lists {', '.join(sorted(unknown))}, which "
                f"{structure.__name__} does not have.",
                hint=f"Add the field to {structure.__name__}, or set `properties` and document it as a model property.",
            )
