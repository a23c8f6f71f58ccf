"""Which delegators of a configuration can run a recipe or take over from another one, and why others cannot."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.config import locality
from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.findings import unusable
from understudy.config.validation import delegator_rules
from understudy.model.config.config_entries import DelegatorEntry
from understudy.model.config.delegators import Delegator, ModelServer, Recipe, Scope
from understudy.model.errors import ErrorKind, UnderstudyError

Place = tuple[Delegator, ModelServer | None]
"""Where a delegator's texts go."""


def why_unusable(configuration: Configuration, entry: DelegatorEntry, recipe: Recipe) -> UnderstudyError | None:
    """Return why a delegator cannot run a recipe, None when it can."""
    delegator = entry.delegator
    wrong = next((problem for problem in entry.state.problems if problem.severity == "error"), None)
    if wrong is not None:
        return unusable("delegator", delegator.name, wrong, entry.location)
    return why_unsupported(configuration, entry, recipe)


def why_unsupported(configuration: Configuration, entry: DelegatorEntry, recipe: Recipe) -> UnderstudyError | None:
    """Return why a delegator can never run a recipe, whatever its state is; None when it can."""
    delegator = entry.delegator
    if delegator.remote_agent is not None:
        return declarations.remote_only(delegator.name, delegator.remote_agent)
    if delegator.route is not None:
        return None  # its candidates are asked
    supported = declarations.require_capabilities(
        delegator, configuration.server_of(delegator), configuration.definition_of(delegator)
    )
    finding = next(delegator_rules.check_recipe_support(supported, delegator, recipe), None)
    return unusable("delegator", delegator.name, finding) if finding is not None else None


def successors(configuration: Configuration, entry: DelegatorEntry) -> list[str]:
    """Return the delegators that may take over from one that cannot be used."""
    where = (entry.delegator, configuration.server_of(entry.delegator))
    if _may_be_bound(*where):
        return []
    if locality.is_bound(*where) or (locality.is_local(*where) and not configuration.fallback.remote):
        return []
    entries = [
        configuration.delegators[name] for name in entry.delegator.fallback or () if name in configuration.delegators
    ]
    foreign = entry.scope is not Scope.WORKSPACE
    return [one.delegator.name for one in entries if not (foreign and one.scope is Scope.WORKSPACE)]


def refuse_remote(
    configuration: Configuration, earlier: Sequence[Place], place: Place, *, allowed: bool = False
) -> None:
    """Raise ``secret_withheld`` if texts for a local model would leave this machine against the user's word.

    ``allowed``: the user's route says that they may.
    """
    if locality.is_local(*place):
        return
    name = place[0].name
    bound = next((delegator for delegator, server in earlier if locality.is_bound(delegator, server)), None)
    if bound is not None:
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"{bound.name} is declared local; {name} may send texts to other machines.",
            hint="Name a local delegator.",
        )
    unknown = next((delegator for delegator, server in earlier if _may_be_bound(delegator, server)), None)
    if unknown is not None:
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"It is not known where {unknown.name} sends texts; {name} may send them to other machines.",
            hint=f"Correct the model server {unknown.model_server!r}, or name a local delegator.",
        )
    local = next((delegator for delegator, server in earlier if locality.is_local(delegator, server)), None)
    if local is not None and not (configuration.fallback.remote or allowed):
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"{local.name} runs on this machine; {name} may send texts to other machines.",
            hint="To allow it, set `remote = true` under `[fallback]` in your own config.toml.",
        )


def _may_be_bound(delegator: Delegator, server: ModelServer | None) -> bool:
    """Return whether the server of a delegator is missing or cannot be read, so that it may be declared local."""
    return server is None and delegator.model_server is not None
