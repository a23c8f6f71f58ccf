"""Choose the delegator for a request, say why, and change how it works for this one delegation."""

from __future__ import annotations

from understudy.config.configuration import Configuration
from understudy.config.findings import cause_of, unknown_name
from understudy.config.validation import usable
from understudy.model.config.config_entries import DelegatorEntry, Problem
from understudy.model.config.delegators import Recipe, Scope
from understudy.model.delegation.delegations import Explanation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.policy import candidates
from understudy.policy.candidates import Preference

GHOSTWRITER = "ghostwriter"
NAMED = "it was chosen for this run"
"""The reason for a delegator that a request names."""


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
