"""What one request makes of its delegator and recipe: launch options, limits, checks, rounds."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

import msgspec

from understudy.config.configuration import DEFAULT_LIMITS
from understudy.config.discovery import declarations
from understudy.config.findings import Finding, KeyPath, close, near, unknown_name, unusable
from understudy.config.validation import delegator_rules
from understudy.config.validation.delegator_rules import Surroundings, check_delegator
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import MOST_ROUNDS, Delegator, Launch, Limits, Recipe, Scope
from understudy.model.delegation.delegations import LaunchOverride, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check
from understudy.model.text import lazy_packages
from understudy.model.wire import camel, ready

_WHOLE = frozenset({"max_turns", "max_output_tokens", "max_tokens"})
"""Limits that are counts."""
_PERMISSIONS = ("yolo", "permission_mode")
"""Options of which a delegator has one: its own one leaves no room for a default of the other."""


def choose_way(override: LaunchOverride | None, delegator: Delegator) -> Delegator:
    """Return ``delegator`` with the request's ``mode`` and ``use_worktree``, which decide which defaults it gets."""
    if override is None:
        return delegator
    if override.mode is not None:
        delegator = msgspec.structs.replace(delegator, mode=override.mode)
    if override.use_worktree is not None:
        launch = msgspec.structs.replace(delegator.launch or Launch(), use_worktree=override.use_worktree)
        delegator = msgspec.structs.replace(delegator, launch=launch)
    return delegator


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


def apply_launch(override: LaunchOverride | None, delegator: Delegator, around: Surroundings) -> Delegator:
    """Return ``delegator`` with what the request changes; raise ``invalid_params`` for a value without effect."""
    if override is None:
        return delegator
    delegator = choose_way(override, delegator)
    launch = delegator.launch or Launch()
    changed: dict[str, object] = {}
    if override.permission_mode is not None:
        # Asking for a mode replaces whatever the delegator says about permissions.
        launch = msgspec.structs.replace(launch, permission_mode=override.permission_mode, yolo=None)
        changed["launch"] = launch
    if override.model is not None:
        if not takes_model(delegator, around):
            raise _refused(delegator, "`model` has no effect on what it runs.", parameter="launch.model")
        changed["model"] = override.model
    if override.model_properties is not None:
        changed["model_properties"] = {**(delegator.model_properties or {}), **override.model_properties}
    made = msgspec.structs.replace(delegator, **changed)
    for finding in check_delegator(made, around):
        if finding.severity == "error":
            names = list(finding.names) or None
            raise _refused(delegator, finding.message, finding.hint, names, _parameter(finding.path, override))
    return made


def takes_model(delegator: Delegator, around: Surroundings) -> bool:
    """Return whether a model has an effect on what a delegator runs."""
    tool = declarations.tools().get(delegator.tool or "")
    if (defined := around.tools.get(delegator.tool or "")) is not None:
        return defined.capabilities().takes_model
    if tool is None:
        return True
    if "command" not in tool.launch or delegator.mode == "acp":
        return tool.takes_model
    command = (delegator.launch.command if delegator.launch is not None else None) or []
    return any("{model}" in word for word in command)


def require_relay(delegator: Delegator) -> None:
    """Raise ``tool_missing`` if an agent CLI would get relay tools, and the SDK that serves them is not installed."""
    asks_for_relay = delegator.tool is not None and delegator.launch is not None and delegator.launch.relay is True
    if asks_for_relay and importlib.util.find_spec("mcp") is None:
        raise lazy_packages.MCP.missing(
            f"The relay tools of {delegator.name} need",
            otherwise="Or remove `launch.relay`. A delegator without a tool needs no package.",
        )


def _refused(
    delegator: Delegator,
    message: str,
    hint: str | None = None,
    names: list[str] | None = None,
    parameter: str | None = None,
) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"The delegator {delegator.name!r} cannot be started like that: {message}",
        hint=hint or "Leave it out, or choose another delegator.",
        names=names,
        parameter=parameter,
    )


def _parameter(path: KeyPath, override: LaunchOverride) -> str | None:
    """Return the parameter that a finding about the changed delegator is about."""
    words = [str(word) for word in path if word != "launch"]
    if words and getattr(override, words[0], None) is not None:
        return ".".join(["launch", camel(words[0]), *words[1:]])
    # The mode decides what is supported, and so what else is wrong.
    return "launch.mode" if override.mode is not None else None


def described(override: LaunchOverride | None) -> str:
    """Return what a request changes, for the reason of the choice; empty if nothing."""
    if override is None:
        return ""
    named = {
        camel(name): getattr(override, name)
        for name in ("model", "mode", "permission_mode")
        if getattr(override, name) is not None
    }
    if override.use_worktree is not None:
        named["useWorktree"] = str(override.use_worktree).lower()
    named |= override.model_properties or {}
    named |= override.limits or {}
    return f"; for this delegation: {', '.join(f'{name} {value}' for name, value in named.items())}" if named else ""


def limits_for(
    params: StartParams, delegator: Delegator, supported: Capabilities, general: Limits
) -> tuple[Limits, list[str]]:
    """Return the limits that apply, and a note for each ``general`` limit without an effect on this delegator.

    A limit of this request that has no effect is refused, never ignored.
    """
    requested = limits_of(params)
    if requested is not None:
        for finding in delegator_rules.check_supported_limits(requested, delegator, supported):
            raise unusable("delegator", delegator.name, finding)
        for finding in delegator_rules.check_limits(requested):
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, finding.message, hint=finding.hint)
    effective, notes = Limits(), []
    for name in Limits.__struct_fields__:
        value = getattr(general, name)
        if value is None:
            continue
        limit = msgspec.structs.replace(Limits(), **{name: value})
        if any(delegator_rules.check_supported_limits(limit, delegator, supported)):
            notes.append(f"the general limit {camel(name)} has no effect on {delegator.name}")
        else:
            effective = msgspec.structs.replace(effective, **{name: value})
    return merged_limits(requested, delegator.limits, effective), notes


def limits_of(params: StartParams) -> Limits | None:
    """Return the limits that a request names, beside ``launch`` or in it.

    Raises ``invalid_params`` for a name that no limit has, a value that is none, and a limit that is named twice.
    """
    named = params.launch.limits if params.launch is not None else None
    if not named:
        return params.limits
    limits = params.limits or Limits()
    name_of = {spelling: name for name in Limits.__struct_fields__ for spelling in (name, camel(name))}
    for spelling, value in named.items():
        name = name_of.get(spelling)
        if name is None:
            names = Limits.__struct_fields__
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"A delegation has no limit `{spelling}`.",
                hint=near(spelling, names),
                names=close(spelling, names) or list(names),
            )
        if getattr(limits, name) is not None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"The limit `{name}` is named twice.", hint="Leave one of the two out."
            )
        try:
            limit = msgspec.convert({camel(name): str(value)}, ready(Limits), strict=False)
        except msgspec.ValidationError:
            kind = "a whole number" if name in _WHOLE else "a number"
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The limit `{name}` must be {kind}, not {str(value)[:40]!r}.",
                hint=f"For example {name}={20 if name in _WHOLE else 600}.",
            ) from None
        limits = msgspec.structs.replace(limits, **{name: getattr(limit, name)})
    return limits


def merged_limits(*layers: Limits | None) -> Limits:
    """Return the limits of the first layer that names each one, ``DEFAULT_LIMITS`` last.

    Where only the idle limit is named, it applies before the first event, too. Where neither is named, both stay open:
    they depend on who can take over (``policy.patience``).
    """
    values: dict[str, object] = {}
    named = [layer for layer in layers if layer is not None]
    idle = next((layer.idle_seconds for layer in named if layer.idle_seconds is not None), None)
    if idle is not None:
        named.append(Limits(first_event_seconds=min(idle, DEFAULT_LIMITS.first_event_seconds or idle)))
    for layer in (*named, msgspec.structs.replace(DEFAULT_LIMITS, idle_seconds=None, first_event_seconds=None)):
        for name in Limits.__struct_fields__:
            value = getattr(layer, name)
            if value is not None and name not in values:
                values[name] = value
    return msgspec.structs.replace(Limits(), **values)


def for_successors(params: StartParams) -> StartParams:
    """Return what a request asks of those that take over: its limits, and not how the first one is launched."""
    return msgspec.structs.replace(params, limits=limits_of(params), launch=None)


def check_named_fallback(params: StartParams, owner: str) -> None:
    """Raise ``invalid_params`` for a list in the request with one twice, too many, or the first one, ``owner``."""
    for finding in delegator_rules.check_fallback(params.fallback or [], owner):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            finding.message,
            hint=finding.hint,
            parameter="fallback" + "".join(f"[{step}]" for step in finding.path[1:]),
        )


def checks_to_run(configured: Mapping[str, Check], recipe: Recipe, params: StartParams) -> list[Check]:
    """Return the checks to run: those named by the request, else by the recipe, else all that are configured.

    A recipe that is judged by new tests has a check of its own, the test files it wrote. It uses configured ones only
    by name, or as ``fallback_checks``.
    """
    names = params.checks if params.checks is not None else recipe.checks
    if names is None:
        return [] if recipe.judged_by == "new_tests" else list(configured.values())
    for name in names:
        if name not in configured:
            raise unknown_name(ErrorKind.UNKNOWN_CHECK, name, configured)
    return [configured[name] for name in names]


def fallback_checks(configured: Mapping[str, Check], recipe: Recipe, params: StartParams) -> list[Check]:
    """Return the checks that run where a recipe that is judged by new tests has no check for the files it wrote."""
    named = params.checks if params.checks is not None else recipe.checks
    return list(configured.values()) if named is None and recipe.judged_by == "new_tests" else []


def check_rounds(rounds: int | None, returns: str) -> Finding | None:
    """Find a number of rounds that makes no sense for a recipe that returns ``returns``."""
    if rounds is None:
        return None
    if not 0 <= rounds <= MOST_ROUNDS:
        return Finding(("rounds",), f"`rounds` must be from 0 to {MOST_ROUNDS}.")
    if rounds and returns != "tree":
        return Finding(
            ("rounds",),
            f"`rounds` has no effect on a recipe that returns a {returns}.",
            "Remove it: only a recipe that returns a tree can write tests.",
            code="no_effect",
        )
    return None


def rounds_of(params: StartParams, recipe: Recipe) -> int:
    """Return the most rounds: those of the request, else of the recipe."""
    wrong = check_rounds(params.rounds, recipe.returns)
    if wrong is not None:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, wrong.message, hint=wrong.hint)
    return (recipe.rounds if params.rounds is None else params.rounds) or 0


def repairs_of(params: StartParams, recipe: Recipe, delegator: Delegator) -> int:
    """Return how often the agent is asked for a repair: as often as there are rounds, by default once of our own loop.

    An agent CLI runs checks by itself as often as it wants; a model has few turns.
    """
    asked = recipe.rounds if params.rounds is None else params.rounds
    if asked is None:
        return 1 if delegator.tool is None and recipe.returns == "tree" else 0
    return asked


def refuse_checkout(params: StartParams, delegator: Delegator, recipe: Recipe, rounds: int) -> None:
    """Raise ``invalid_params`` for a request whose agent would work in the checkout and cannot.

    A recipe that returns a text changes no files, so its agent has a worktree whatever the configuration says; only a
    request that asks for the checkout is refused.
    """
    if delegator.launch is None or delegator.launch.use_worktree is not False:
        return
    if recipe.returns == "text":
        if params.launch is not None and params.launch.use_worktree is False:
            raise _checkout_refused(
                f"`useWorktree` has no effect on the recipe {recipe.name!r}, which returns a text.",
                "Leave it out.",
            )
        return
    if params.base not in {None, "current"}:
        raise _checkout_refused(
            f"`base` {params.base!r} is not what the checkout contains, and the agent works in the checkout.",
            "Leave the base out, or let it work in a worktree: `useWorktree`.",
        )
    if rounds:
        raise _checkout_refused(
            "`rounds` needs a worktree: the tests of a round that are no better are removed again.",
            "Set `rounds` to 0, or let it work in a worktree: `useWorktree`.",
        )


def _checkout_refused(message: str, hint: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.INVALID_PARAMS, message, hint=hint)
