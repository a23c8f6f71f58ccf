"""Choose the delegator for a request, say why, and those that take over from it, each as it will run.

A list in the request counts instead of the delegator's own one, and everything in it must be usable. A delegator in
the list of another one that cannot be used for a request is left out, with the reason.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.findings import cause_of, unknown_name, unusable
from understudy.config.loading import agent_use
from understudy.config.validation import delegator_rules, start_options, usable
from understudy.config.validation.start_options import limits_for
from understudy.engine.planning.route_order import route_candidates
from understudy.git import repository
from understudy.model.capabilities import Capabilities
from understudy.model.config.config_entries import AgentEntry, DelegatorEntry, Problem
from understudy.model.config.delegators import (
    MOST_FALLBACKS,
    Delegator,
    EnvReference,
    Limits,
    ModelServer,
    Recipe,
    Scope,
)
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.delegations import Candidate, Explanation, StartParams
from understudy.model.delegation.spec import SpecCandidate, runs_in_checkout
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.policy import candidates
from understudy.policy.candidates import Preference, successors_of
from understudy.policy.route_ranking import Work

GHOSTWRITER = "ghostwriter"
NAMED = "it was chosen for this run"
"""The reason for a delegator that a request names."""
_SHARED = ("total_seconds", "max_turns", "max_output_tokens", "max_tokens", "max_usd")
"""The limits of everything that is done for one request: the smaller one applies to the whole chain."""


def choose(
    configuration: Configuration,
    recipe: Recipe,
    explicit: str | None,
    *,
    named_by: str = NAMED,
    with_fallback: bool = False,
    work: Work | None = None,
    only_servers: bool = False,
) -> tuple[DelegatorEntry, Explanation]:
    """Return the delegator and why: explicit → recipe → recipe's default → default → the only one → ghostwriter.

    With ``with_fallback``, those in the ``fallback`` of one that cannot be used come next, unless the request names it.
    A route gives its candidates for ``work`` instead of itself, and each that may be taken is in the explanation; with
    ``only_servers`` none that runs an agent.
    """
    entries = configuration.delegators
    configured = [
        entry
        for entry in entries.values()
        if entry.scope is not Scope.BUILTIN and entry.delegator.remote_agent is None and entry.delegator.route is None
    ]
    defaults = candidates.Defaults(
        recipe=recipe.name,
        named_by_recipe=recipe.delegator,
        for_recipe=configuration.defaults.recipes.get(recipe.name),
        general=configuration.defaults.delegator,
        configured=[entry.delegator.name for entry in configured],
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

    preferences = candidates.preferred(explicit, named_by, defaults)
    first = next(iter(preferences), None)
    if first is not None and first.name in configuration.routes:

        def why_not_on_route(preference: Preference) -> str | None:
            if only_servers and entries[preference.name].delegator.tool is not None:
                return "it runs an agent, and this is one request to a model server"
            return why_not(preference)

        return _on_route(configuration, first, work or Work(recipe=recipe.name), why_not_on_route)
    preference, tried = candidates.first_able(
        [preference for preference in preferences if preference.name not in configuration.routes],
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
        if not configured and shipped is not None and usable.why_unsupported(configuration, shipped, recipe):
            message = f"No delegator is configured, and the ghostwriter cannot run the recipe {recipe.name!r}."
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATOR,
            message,
            hint=f"Add one with `understudy delegators add`{', or name another one' if configured else ''}.",
            names=[entry.delegator.name for entry in configured] or None,
        )
    ghostwriter = [GHOSTWRITER] if shipped and usable.why_unusable(configuration, shipped, recipe) is None else []
    raise UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATOR,
        f"Several delegators are configured and none is the default for {recipe.name!r}.",
        hint=f"Name one (-d NAME), or choose a default: understudy delegators default NAME --for {recipe.name}",
        names=list(dict.fromkeys([*(entry.delegator.name for entry in configured), *ghostwriter])),
    )


def _on_route(
    configuration: Configuration, route: Preference, work: Work, why_not: Callable[[Preference], str | None]
) -> tuple[DelegatorEntry, Explanation]:
    """Return the first candidate of a route that can do the work; the explanation has all of them."""
    places = route_candidates(configuration, route.name, work)
    listed: list[Candidate] = []
    for place in places:
        refused = place.refused or why_not(Preference(place.name, place.reason))
        listed.append(Candidate(name=place.name, reason=place.reason or None, skipped_because=refused))
    able = [candidate for candidate in listed if candidate.skipped_because is None]
    if not able:
        reasons = " ".join(
            f"{candidate.name}: {(candidate.skipped_because or '').rstrip('.')}." for candidate in listed
        )
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The route {route.name!r} has no candidate for this work. {reasons}".strip(),
            hint="Name a delegator (-d NAME), or add candidates to the route.",
        )
    chosen = configuration.delegators[able[0].name]
    skipped = itertools.takewhile(lambda pair: pair[1] is not able[0], zip(places, listed, strict=True))
    broken = [configuration.delegators[place.name].delegator for place, _ in skipped if place.refused is None]
    entry = configuration.delegators[route.name]
    usable.refuse_remote(
        configuration,
        [(delegator, configuration.server_of(delegator)) for delegator in broken],
        (chosen.delegator, configuration.server_of(chosen.delegator)),
        allowed=entry.delegator.route is not None
        and bool(entry.delegator.route.remote)
        and entry.scope is not Scope.WORKSPACE,
    )
    reason = f"{route.reason}; route {route.name}: {able[0].reason}"
    return chosen, Explanation(delegator=able[0].name, candidates=listed, reason=reason, route=route.name)


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
    work: Work | None = None,
    only_servers: bool = False,
) -> ChosenCandidate:
    """Choose the delegator of a request and apply the launch options of the user, of its agent and of the request.

    ``named_by`` is the reason for one that ``params`` name; for the others see ``choose``.
    """
    entry, explain = choose(
        configuration,
        recipe,
        params.delegator,
        named_by=named_by,
        with_fallback=with_fallback,
        work=work,
        only_servers=only_servers,
    )
    server = configuration.require_server(entry.delegator)
    definition = configuration.definition_of(entry.delegator)
    around = delegator_rules.Surroundings(
        {server.name: server} if server else {}, {definition.name: definition} if definition else {}
    )
    asked = start_options.choose_way(params.launch, entry.delegator)
    # A mode that the tool does not have is refused below, by name.
    supported = declarations.capabilities_of(asked, server, definition) or declarations.require_capabilities(
        entry.delegator, server, definition
    )
    delegator, defaults = start_options.with_launch_defaults(configuration.launch, asked, entry.scope, supported)
    explain.reason += start_options.described_defaults(defaults)
    tools = None
    if agent is not None and workspace is not None:
        used = agent_use.apply_agent(agent, delegator, around, params.launch, workspace)
        delegator, tools = used.delegator, used.tools
        explain.reason += used.described
    delegator = start_options.apply_launch(params.launch, delegator, around)
    explain.reason += start_options.described(params.launch)
    supported = declarations.require_capabilities(delegator, server, definition)
    start_options.require_relay(delegator)
    if server is not None and delegator.tool is None and server.protocols == [declarations.AUTO]:
        # Not where it is not needed: the command line starts fast.
        from understudy.runners.backends import protocol_choice

        expected = protocol_choice.expected(server, delegator.model)
        explain.reason += f"; protocol `{expected.protocol}` (auto: {expected.why})"
    return ChosenCandidate(delegator, entry.scope, server, definition, supported, explain, tools)


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
    from understudy.secrets.redaction import Redactor  # loads the keyring's module, which few requests need

    redactor = Redactor(keys)
    return msgspec.structs.replace(
        params,
        task=redactor.redact(params.task) if params.task else params.task,
        input=redactor.redact(params.input) if params.input else params.input,
    )


@dataclass(frozen=True, kw_only=True)
class ChainRequest:
    """A request, and the delegator that is tried first for it."""

    first: ChosenCandidate
    limits: Limits
    """Those of the first delegator."""
    configuration: Configuration
    recipe: Recipe
    params: StartParams
    """As ``start_options.for_successors`` returns them."""
    workspace: Path
    agent: AgentEntry | None = None
    only_look: bool = False
    """A preview, which does not require trust."""

    @property
    def explicit(self) -> bool:
        """Return whether the request names the delegators itself."""
        return self.params.fallback is not None


@dataclass
class Chain:
    """What follows the first delegator, and what was left out of it."""

    chosen: list[tuple[ChosenCandidate, Limits]] = field(default_factory=list)
    left_out: list[Candidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def following(self) -> list[SpecCandidate]:
        """Those that follow, as a delegation runs them."""
        return [
            SpecCandidate(
                delegator=chosen.delegator,
                model_server=chosen.model_server,
                tool_definition=chosen.tool_definition,
                tools=chosen.tools,
                limits=limits,
            )
            for chosen, limits in self.chosen
        ]


def chain_after(request: ChainRequest) -> Chain:
    """Return the delegators that follow the first one, in order.

    Raises, for a list in the request only: ``invalid_params`` (the first one, or another, works in the checkout),
    ``secret_withheld`` (texts would leave this machine), and the errors of choosing each delegator.
    """
    chain = Chain()
    owner = request.first.delegator
    asked = request.params.fallback
    names = list((_own_successors(request) if asked is None else asked) or ())
    if names and runs_in_checkout(owner, request.recipe):
        if request.explicit:
            raise _in_checkout(owner.name)
        chain.notes.append(_in_checkout(owner.name).message)
        return chain
    places = [(owner, request.first.model_server)]

    def why_not(preference: Preference) -> str | None:
        try:
            chosen, limits = _choose(preference.name, request)
            usable.refuse_remote(
                request.configuration, places, (chosen.delegator, chosen.model_server), allowed=_goes_remote(request)
            )
        except UnderstudyError as error:
            if request.explicit:
                error.parameter = "fallback"
                raise
            return cause_of(error, "delegator", preference.name)
        places.append((chosen.delegator, chosen.model_server))
        chain.chosen.append((chosen, limits))
        return None

    chain.left_out = candidates.left_out(successors_of(owner.name, names), why_not)
    for candidate in chain.left_out:
        chain.notes.append(f"{candidate.name} does not take over from {owner.name}: {candidate.skipped_because}")
    return chain


def _own_successors(request: ChainRequest) -> list[str] | None:
    """Return those that take over where the request names none: of a route, the candidates after the first one."""
    explain = request.first.explain
    if explain.route is None:
        return request.first.delegator.fallback
    able = [candidate.name for candidate in explain.candidates if candidate.skipped_because is None]
    return [name for name in able if name != explain.delegator][:MOST_FALLBACKS]


def _goes_remote(request: ChainRequest) -> bool:
    """Return whether the user's route lets texts for a model on this machine go to other machines."""
    entry = request.configuration.delegators.get(request.first.explain.route or "")
    route = entry.delegator.route if entry is not None and entry.scope is not Scope.WORKSPACE else None
    return route is not None and route.remote


def _choose(name: str, request: ChainRequest) -> tuple[ChosenCandidate, Limits]:
    """Choose one delegator of the list that may run here, with its limits: at most those of the first one."""
    asked = msgspec.structs.replace(request.params, delegator=name, fallback=None)
    chosen = choose_candidate(request.configuration, request.recipe, asked, request.agent, request.workspace)
    _refuse_place(chosen, request)
    limits, _ = limits_for(asked, chosen.delegator, chosen.supported, request.configuration.limits)
    for limit in _SHARED:
        most, value = getattr(request.limits, limit), getattr(limits, limit)
        if most is not None and (value is None or float(value) > float(most)):
            limits = msgspec.structs.replace(limits, **{limit: most})
    kept = {limit: getattr(limits, limit) for limit in _SHARED[1:] if getattr(request.limits, limit) is not None}
    shared = msgspec.structs.replace(Limits(), **kept)
    for finding in delegator_rules.check_supported_limits(shared, chosen.delegator, chosen.supported):
        raise unusable("delegator", name, finding)
    return chosen, limits


def _refuse_place(chosen: ChosenCandidate, request: ChainRequest) -> None:
    """Raise an error for a delegator that may not run here."""
    name = chosen.delegator.name
    if runs_in_checkout(chosen.delegator, request.recipe):
        raise _in_checkout(name)
    if not request.explicit and chosen.scope is Scope.WORKSPACE and request.first.scope is not Scope.WORKSPACE:
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The workspace defines {name}, and your own delegators fall back only to your own.",
            hint=f"Name it in the request: --fallback {name}",
        )
    if not request.configuration.trusted and not request.only_look and chosen.supported.process_in_worktree:
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{request.workspace} is not trusted, so {name} may not run in it.",
            hint=repository.trust_hint(request.workspace),
        )


def _in_checkout(name: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"{name} works in your checkout; another delegator can take over only in a worktree.",
        hint="Leave `fallback` out, or let it work in a worktree: `useWorktree`.",
        parameter="fallback",
    )
