"""The delegator of a request as it will run: chosen, with its model server, launch options and limits."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.config.configuration import DEFAULT_LIMITS, Configuration
from understudy.config.discovery import declarations
from understudy.config.findings import unusable
from understudy.config.suggestions import unknown_name
from understudy.config.validation import delegator_rules
from understudy.engine.planning import launch_override
from understudy.engine.planning.delegator_choice import NAMED, choose
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import Delegator, EnvReference, Launch, Limits, ModelServer, Scope
from understudy.model.config.recipes import Recipe
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.delegations import Explanation, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import extras
from understudy.model.wire import camel
from understudy.secrets.redaction import Redactor

if TYPE_CHECKING:
    from understudy.model.config.agent_entries import AgentEntry


_PERMISSIONS = ("yolo", "permission_mode")
"""Options of which a delegator has one: its own one leaves no room for a default of the other."""


class ChosenCandidate(msgspec.Struct, frozen=True):
    """A delegator with the request's changes, and what belongs to it."""

    delegator: Delegator
    scope: Scope
    model_server: ModelServer | None
    tool_definition: ToolDefinition | None
    supported: Capabilities
    explain: Explanation
    tools: list[str] | None = None
    """The only tools of our own loop, as the agent restricts them; None: all."""


def choose_candidate(
    configuration: Configuration,
    recipe: Recipe,
    params: StartParams,
    agent: AgentEntry | None = None,
    workspace: Path | None = None,
    *,
    named_by: str = NAMED,
    with_fallback: bool = False,
) -> ChosenCandidate:
    """Choose the delegator of a request and apply the launch options of the user, of its agent and of the request.

    ``named_by`` is the reason for one that ``params`` name; ``with_fallback`` is that of ``delegator_choice.choose``.
    """
    entry, explain = choose(configuration, recipe, params.delegator, named_by=named_by, with_fallback=with_fallback)
    server = _server_of(configuration, entry.delegator)
    definition = configuration.definition_of(entry.delegator)
    around = delegator_rules.Surroundings(
        {server.name: server} if server else {}, {definition.name: definition} if definition else {}
    )
    supported = declarations.require_capabilities(entry.delegator, server, definition)
    asked = launch_override.choose_way(params.launch, entry.delegator)
    # A mode that the tool does not have is refused below, by name.
    supported = declarations.capabilities_of(asked, server, definition) or supported
    delegator, defaults = with_launch_defaults(configuration.launch, asked, entry.scope, supported)
    explain.reason += described_defaults(defaults)
    tools = None
    if agent is not None and workspace is not None:
        from understudy.engine.planning import agent_use

        used = agent_use.apply(agent, delegator, around, params.launch, workspace)
        delegator, tools = used.delegator, used.tools
        explain.reason += used.described
    delegator = launch_override.apply(params.launch, delegator, around)
    explain.reason += launch_override.described(params.launch)
    supported = declarations.require_capabilities(delegator, server, definition)
    _require_relay(delegator)
    if server is not None and delegator.tool is None and server.protocols == [declarations.AUTO]:
        # Not where it is not needed: the command line starts fast.
        from understudy.runners.backends import protocol_choice

        expected = protocol_choice.expected(server, delegator.model)
        explain.reason += f"; protocol `{expected.protocol}` (auto: {expected.why})"
    return ChosenCandidate(delegator, entry.scope, server, definition, supported, explain, tools)


def limits_for(
    params: StartParams,
    chosen: ChosenCandidate,
    configuration: Configuration,
    notes: list[str],
) -> Limits:
    """Return the limits that apply. A limit of this request that has no effect is refused, never ignored.

    A general limit of the user's configuration that has no effect on this delegator is reported in a note.
    """
    delegator, supported = chosen.delegator, chosen.supported
    requested = launch_override.limits_of(params)
    if requested is not None:
        for finding in delegator_rules.check_supported_limits(requested, delegator, supported):
            raise unusable("delegator", delegator.name, finding)
        for finding in delegator_rules.check_limits(requested):
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, finding.message, hint=finding.hint)
    general = Limits()
    for name in Limits.__struct_fields__:
        value = getattr(configuration.limits, name)
        if value is None:
            continue
        limit = msgspec.structs.replace(Limits(), **{name: value})
        if any(delegator_rules.check_supported_limits(limit, delegator, supported)):
            notes.append(f"the general limit {camel(name)} has no effect on {delegator.name}")
        else:
            general = msgspec.structs.replace(general, **{name: value})
    return merged_limits(requested, delegator.limits, general)


def without_keys(params: StartParams, delegator: Delegator, server: ModelServer | None) -> StartParams:
    """Return ``params`` without the keys that this delegation uses, in case the user pasted one into the task.

    The task is stored and sent. Keys that are not in the environment are known only to the worker, which
    removes them from the prompt.
    """
    names = [value.from_env for value in (delegator.env or {}).values() if isinstance(value, EnvReference)]
    if server is not None and server.api_key is not None and server.api_key.from_env is not None:
        names.append(server.api_key.from_env)
    keys = {name: os.environ[name] for name in names if os.environ.get(name)}
    if not keys:
        return params
    redactor = Redactor(keys)
    return msgspec.structs.replace(
        params,
        task=redactor.redact(params.task) if params.task else params.task,
        input=redactor.redact(params.input) if params.input else params.input,
    )


def _require_relay(delegator: Delegator) -> None:
    """Raise ``tool_missing`` if an agent CLI would get relay tools, and the SDK that serves them is not installed."""
    asks_for_relay = delegator.tool is not None and delegator.launch is not None and delegator.launch.relay is True
    if asks_for_relay and importlib.util.find_spec("mcp") is None:
        raise extras.MCP.missing(
            f"The relay tools of {delegator.name} need",
            otherwise="Or remove `launch.relay`. A delegator without a tool needs no package.",
        )


def _server_of(configuration: Configuration, delegator: Delegator) -> ModelServer | None:
    if delegator.model_server is None:
        return None
    entry = configuration.model_servers.get(delegator.model_server)
    if entry is None:
        raise unknown_name(ErrorKind.UNKNOWN_MODEL_SERVER, delegator.model_server, configuration.model_servers)
    wrong = next((problem for problem in entry.state.problems if problem.severity == "error"), None)
    if wrong is not None:
        raise unusable("model server", entry.model_server.name, wrong, entry.location)
    return entry.model_server


def merged_limits(*layers: Limits | None) -> Limits:
    """Return the limits of the first layer that names each one, ``DEFAULT_LIMITS`` last.

    Where only the idle limit is named, it applies before the first event, too.
    """
    values: dict[str, object] = {}
    named = [layer for layer in layers if layer is not None]
    idle = next((layer.idle_seconds for layer in named if layer.idle_seconds is not None), None)
    if idle is not None:
        named.append(Limits(first_event_seconds=min(idle, DEFAULT_LIMITS.first_event_seconds or idle)))
    for layer in (*named, DEFAULT_LIMITS):
        for name in Limits.__struct_fields__:
            value = getattr(layer, name)
            if value is not None and name not in values:
                values[name] = value
    return msgspec.structs.replace(Limits(), **values)


def with_launch_defaults(
    defaults: Launch, delegator: Delegator, scope: Scope, supported: Capabilities
) -> tuple[Delegator, list[str]]:
    """Return ``delegator`` with the defaults that it does not set itself, and their names.

    A default that the tool does not have is left out: it is meant for others. So is a permission, or to work in the
    checkout, for a delegator of the workspace, which the user has not written. Of ``branch`` and ``use_worktree =
    false``, which exclude each other, the delegator's own one applies, and of two defaults the second.
    """
    launch = delegator.launch or Launch()
    in_checkout = launch.use_worktree is False or (
        launch.use_worktree is None
        and defaults.use_worktree is False
        and scope is not Scope.WORKSPACE
        and launch.branch is None
        and _has(supported, "use_worktree", False)
    )
    decided = scope is Scope.WORKSPACE or any(getattr(launch, name) is not None for name in _PERMISSIONS)
    taken = {
        name: value
        for name, value in msgspec.structs.asdict(defaults).items()
        if value is not None
        and getattr(launch, name) is None
        and not (decided and name in _PERMISSIONS)
        and not (scope is Scope.WORKSPACE and name == "unanswered" and value == "allow")
        and not (name == "use_worktree" and value is False and not in_checkout)
        and not (name == "branch" and in_checkout)
        and not (name == "relay" and value and delegator_rules.lacks_relay_slot(launch, supported))
        and _has(supported, name, value)
    }
    if not taken:
        return delegator, []
    return msgspec.structs.replace(delegator, launch=msgspec.structs.replace(launch, **taken)), list(taken)


def described_defaults(taken: list[str]) -> str:
    """Return which options are defaults, for the reason of the choice; empty if none is."""
    return f"; from [launch]: {', '.join(taken)}" if taken else ""


def _has(supported: Capabilities, name: str, value: object) -> bool:
    values = supported.launch.get(name)
    if values is None or (name == "permission_mode" and not values):  # no one knows which modes it has
        return False
    return not values or any(option.value == value for option in values)
