"""Choose the delegator for a request, say why, and change how it works for this one delegation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.findings import KeyPath, cause_of, close, near, unknown_name
from understudy.config.validation import usable
from understudy.config.validation.delegator_rules import Surroundings, check_delegator
from understudy.model.config.config_entries import AgentEntry, DelegatorEntry, Problem, loop_tools
from understudy.model.config.delegators import Delegator, Launch, Limits, Recipe, Scope
from understudy.model.delegation.delegations import Explanation, LaunchOverride, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.wire import camel, ready
from understudy.policy import candidates
from understudy.policy.candidates import Preference

GHOSTWRITER = "ghostwriter"
NAMED = "it was chosen for this run"
"""The reason for a delegator that a request names."""
_WHOLE = frozenset({"max_turns", "max_output_tokens", "max_tokens"})
"""Limits that are counts."""
_CLAUDE = "claude"
_CLAUDE_ALIASES = frozenset({"best", "default", "haiku", "opus", "opus[1m]", "opusplan", "sonnet", "sonnet[1m]"})


def choose(
    configuration: Configuration,
    recipe: Recipe,
    explicit: str | None,
    *,
    named_by: str = NAMED,
    with_fallback: bool = False,
) -> tuple[DelegatorEntry, Explanation]:
    """Return the delegator and why: explicit → recipe → recipe's default → default → the only one → ghostwriter.

    With ``with_fallback``, those in the ``fallback`` of one that cannot be used come next, unless the request names it.
    """
    entries = configuration.delegators
    own = [
        entry for entry in entries.values() if entry.scope is not Scope.BUILTIN and entry.delegator.remote_agent is None
    ]
    defaults = candidates.Defaults(
        recipe=recipe.name,
        named_by_recipe=recipe.delegator,
        for_recipe=configuration.defaults.recipes.get(recipe.name),
        general=configuration.defaults.delegator,
        configured=[entry.delegator.name for entry in own],
        shipped=GHOSTWRITER,
    )

    def why_not(preference: Preference) -> str | None:
        entry = entries.get(preference.name)
        if entry is None:
            raise _missing(configuration, preference, defaults)
        error = usable.why_unusable(configuration, entry, recipe)
        if error is not None and (preference.name == explicit or error.kind is ErrorKind.REMOTE_ONLY_DELEGATOR):
            # A request that names a delegator gets that one or an error, never silently another one. One that stands
            # for an agent on another service never gets ready by itself.
            raise error
        return None if error is None else cause_of(error, "delegator", preference.name)

    preference, tried = candidates.first_able(
        candidates.preferred(explicit, named_by, defaults),
        why_not,
        lambda name: usable.successors(configuration, entries[name]) if with_fallback else [],
    )
    if preference is not None:
        return entries[preference.name], Explanation(
            delegator=preference.name, candidates=tried, reason=preference.reason
        )
    shipped = entries.get(GHOSTWRITER)
    if tried:
        skipped = " ".join(f"{item.name}: {item.skipped_because}" for item in tried)
        message = f"No delegator can run the recipe {recipe.name!r}. {skipped}"
        if not own and shipped is not None and usable.why_unsupported(configuration, shipped, recipe):
            message = f"No delegator is configured, and the ghostwriter cannot run the recipe {recipe.name!r}."
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATOR,
            message,
            hint=f"Add one with `understudy delegators add`{', or name another one' if own else ''}.",
            names=[entry.delegator.name for entry in own] or None,
        )
    ghostwriter = [GHOSTWRITER] if shipped and usable.why_unusable(configuration, shipped, recipe) is None else []
    raise UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATOR,
        f"Several delegators are configured and none is the default for {recipe.name!r}.",
        hint=f"Name one (-d NAME), or choose a default: understudy delegators default NAME --for {recipe.name}",
        names=list(dict.fromkeys([*(entry.delegator.name for entry in own), *ghostwriter])),
    )


def _missing(configuration: Configuration, preference: Preference, defaults: candidates.Defaults) -> UnderstudyError:
    """Return the error for a delegator that does not exist, or whose file cannot be read."""
    name = preference.name
    broken = next((problem for problem in configuration.problems if _is_of(problem, name)), None)
    if broken is not None:
        return UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The file of the delegator {name!r} cannot be used: {broken.message}",
            hint=broken.hint or "Correct the file, or remove it.",
            location=broken.location,
        )
    of_recipe = preference.reason == defaults.reason_for_recipe
    if of_recipe or preference.reason == candidates.GENERAL_DEFAULT:
        whose = f"for {defaults.recipe!r} " if of_recipe else ""
        choice = f" --for {defaults.recipe}" if of_recipe else ""
        return UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATOR,
            f"The default delegator {whose}is {name!r}, which does not exist.",
            hint=f"Choose another: understudy delegators default NAME{choice}",
            names=list(defaults.configured) or None,
        )
    return unknown_name(ErrorKind.UNKNOWN_DELEGATOR, name, configuration.delegators)


def _is_of(problem: Problem, name: str) -> bool:
    return problem.location is not None and problem.location.uri.endswith(f"/delegators/{name}.toml")


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


def limits_of(params: StartParams) -> Limits | None:
    """Return the limits that a request names, beside ``launch`` or in it.

    Raises ``invalid_params`` for a name that no limit has, a value that is none, and a limit that is named twice.
    """
    named = params.launch.limits if params.launch is not None else None
    if not named:
        return params.limits
    limits = params.limits or Limits()
    known = {spelling: name for name in Limits.__struct_fields__ for spelling in (name, camel(name))}
    for spelling, value in named.items():
        name = known.get(spelling)
        if name is None:
            names = Limits.__struct_fields__
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"There is no limit `{spelling}` for a delegation.",
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


@dataclass(frozen=True)
class AgentUse:
    """A delegator as an agent changes it."""

    delegator: Delegator
    described: str
    """What applies and what does not, for the reason of the choice."""
    tools: list[str] | None = None
    """The only tools of our own loop; None: all."""


def instructed(recipe: Recipe, agent: AgentEntry, workspace: Path) -> Recipe:
    """Return ``recipe`` with the agent's instructions after its own."""
    text = f"# Instructions of the {agent.kind} `{agent.name}`\n\n{agent.prompt}"
    folder = _file(agent).parent
    if agent.kind == "skill" and agent.scope is Scope.WORKSPACE and folder.is_relative_to(workspace):
        text += f"\n\nFiles that these instructions name are in `{folder.relative_to(workspace).as_posix()}/`."
    return msgspec.structs.replace(recipe, prompt=f"{recipe.prompt.strip()}\n\n{text}")


def apply_agent(
    agent: AgentEntry, delegator: Delegator, around: Surroundings, override: LaunchOverride | None, workspace: Path
) -> AgentUse:
    """Return ``delegator`` with the model and the tools of ``agent`` where it can have them, and say where not.

    A model that the request names wins; the agent's own one replaces that of the delegator.
    """
    remarks: list[str] = []
    tools: list[str] | None = None
    if agent.model is not None:
        explicit = override is not None and override.model is not None
        refused = None if explicit else _why_not_model(agent.model, delegator, around)
        if explicit:
            remarks.append(f"not its model {agent.model}, because the request names one")
        elif refused is not None:
            remarks.append(f"not its model {agent.model}, because {refused}")
        else:
            delegator = msgspec.structs.replace(delegator, model=agent.model)
            remarks.append(f"model {agent.model}")
    if agent.tools is not None or agent.disallowed_tools is not None:
        if delegator.tool is None and delegator.model_server is not None:
            tools, remark = _of_our_loop(agent)
        else:
            delegator, remark = _restricted(agent, delegator)
        remarks.append(remark)
    file = _file(agent)
    place = file.relative_to(workspace) if file.is_relative_to(workspace) else file
    where = "built in" if agent.scope is Scope.BUILTIN else str(place)
    return AgentUse(delegator, f"; {agent.kind} {agent.name} ({', '.join([where, *remarks])})", tools)


def _file(agent: AgentEntry) -> Path:
    return path_quoting.path_of(agent.location.uri) or Path()


def _why_not_model(model: str, delegator: Delegator, around: Surroundings) -> str | None:
    if not takes_model(delegator, around):
        return f"{delegator.name} takes none"
    is_claude = delegator.tool == _CLAUDE and delegator.model_server is None
    if not is_claude and (model in _CLAUDE_ALIASES or (delegator.tool == _CLAUDE and model.startswith("claude-"))):
        return f"it is one of Claude Code's, and {delegator.name} does not use those"
    return None


def _of_our_loop(agent: AgentEntry) -> tuple[list[str], str]:
    """Return the tools of our own loop that the agent leaves, and what is said about them."""
    left = loop_tools(agent.tools, agent.disallowed_tools)
    remarks = [f"only the tools {', '.join(left.names) or '(none)'}"]
    if left.unknown:
        remarks.append(
            f"{', '.join(left.unknown)} is not a tool here"
            if len(left.unknown) == 1
            else f"{', '.join(left.unknown)} are not tools here"
        )
    if left.with_arguments:
        remarks.append(f"{', '.join(left.with_arguments)} permits nothing, because arguments cannot be checked")
    return left.names, ", ".join(remarks)


def _restricted(agent: AgentEntry, delegator: Delegator) -> tuple[Delegator, str]:
    """Return the delegator with the restriction to the agent's tools, and what is said about it."""
    if delegator.tool != _CLAUDE or delegator.mode not in {None, "headless"}:
        whom = "only Claude Code without a terminal and models without an agent"
        return delegator, f"its `tools` do not restrict {delegator.name}, {whom}"
    flags, remarks = [], []
    for flag, what, names in (
        ("--tools", "only the tools", agent.tools),
        ("--disallowedTools", "without the tools", agent.disallowed_tools),
    ):
        if names is None:
            continue
        plain = list(dict.fromkeys(name.partition("(")[0] for name in names)) if flag == "--tools" else names
        flags.append(f"{flag}={','.join(plain)}")
        remarks.append(f"{what} {', '.join(plain) or '(none)'}")
        widened = [name for name in names if flag == "--tools" and "(" in name]
        if widened:
            remarks.append(f"the arguments in {', '.join(widened)} restrict nothing")
    launch = delegator.launch or Launch()
    launch = msgspec.structs.replace(launch, flags=[*(launch.flags or []), *flags])
    return msgspec.structs.replace(delegator, launch=launch), ", ".join(remarks)
