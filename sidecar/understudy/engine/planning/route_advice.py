"""Suggest routes: read how recorded runs ended, and what each route would become. Nothing is written."""

from __future__ import annotations

import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from understudy.config import locality
from understudy.config.configuration import Configuration
from understudy.config.editing.edit import Editor
from understudy.config.findings import unknown_name
from understudy.config.validation import usable
from understudy.engine.planning.route_order import facts_of
from understudy.journal import delegation_folder, reader
from understudy.model.config.config_entries import DelegatorEntry
from understudy.model.config.delegators import Delegator, Recipe, Route, RouteCandidate, RouteConditions, Scope
from understudy.model.delegation.route_evidence import (
    SIZES,
    Interval,
    RouteEvidence,
    RouteGroup,
    RouteSuggestion,
    SizeClass,
)
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.patches import unified_file
from understudy.model.verdicts import Verdict
from understudy.policy import route_suggestions
from understudy.policy.route_ranking import selects
from understudy.policy.route_suggestions import Record, Suggested, by_evidence, new_route, reordered, suggested
from understudy.reports import attempt_cache
from understudy.reports.attempt_cache import NANO
from understudy.reports.ledger_view import printed

_RUNS = """
    SELECT recipe, language, size, delegator, id, max(attempt), verdict, failure, sum(seconds), sum(cost),
        count(*) = count(cost)
    FROM attempt WHERE at >= ? AND recipe = coalesce(?, recipe) AND workspace = coalesce(?, workspace)
    GROUP BY id, delegator
"""
"""SQLite takes the columns beside ``max`` from the row that has it."""
_WITH_RESULT = frozenset({Verdict.VERIFIED, Verdict.UNVERIFIED, Verdict.CHECKS_FAILED})
_Group = tuple[str, SizeClass | None]
_ALL: _Group = ("", None)
_LONGEST_NAME = 64
_SIZES = [*SIZES, None]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to suggest."""

    since: str
    """RFC 3339, UTC."""
    recipe: str | None = None
    route: str | None = None
    """The user's route that gets the order; None: the one that is named after the recipe."""
    workspace: str | None = None
    """Only runs in this workspace."""
    remote: bool = False
    """Let a delegator elsewhere follow one on this machine."""


@dataclass
class _Runs:
    """The runs of one delegator for some work."""

    seconds: list[float] = field(default_factory=list)
    succeeded: int = 0
    cost: int | None = None
    """In ``NANO``."""
    costs_unknown: int = 0
    accepted: int = 0
    decided: int = 0


@dataclass(frozen=True)
class Adviser:
    """Suggests routes of the user for the recipes of a workspace."""

    editor: Editor
    loaded: Configuration
    """That of the workspace, for its recipes."""
    own: Configuration
    """That of the user, whose delegators are the candidates."""
    wanted: Wanted

    def suggestions(self) -> list[RouteSuggestion]:
        """Return a suggestion for each recipe that has runs, or for the one that is wanted.

        Raises ``unknown_recipe``, and ``invalid_params`` for a route that is not for this recipe alone.
        """
        recipe = self.wanted.recipe
        if recipe is not None and recipe not in self.loaded.recipes:
            raise unknown_name(ErrorKind.UNKNOWN_RECIPE, recipe, self.loaded.recipes)
        runs = _runs(self.wanted, self._named_route())
        if recipe is not None:
            return [self._suggestion(recipe, runs.get(recipe, {}))]
        suggestions = [self._suggestion(name, runs[name]) for name in sorted(runs)]
        return [suggestion for suggestion in suggestions if suggestion.route is not None]

    def _named_route(self) -> Route | None:
        """Return the existing route that is wanted; raise ``invalid_params`` if it has other work."""
        name, recipe = self.wanted.route, self.wanted.recipe
        entry = self.own.delegators.get(name or "")
        if entry is None:
            return None
        if entry.delegator.route is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{name} is a delegator, not a route.",
                hint="Name a route; `understudy routes` lists them.",
            )
        if recipe is None or entry.delegator.route.recipes != [recipe]:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The route {name!r} is not for the recipe {recipe!r} only, and its order counts for all its work.",
                hint="Leave out `route` to get a route for this recipe, or limit that one to it (`recipes`).",
                location=entry.location,
            )
        return entry.delegator.route

    def _suggestion(self, recipe: str, runs: Mapping[_Group, Mapping[str, _Runs]]) -> RouteSuggestion:
        pool = self._pool(recipe)
        name = self.wanted.route or f"suggested-{recipe}"[:_LONGEST_NAME]
        before = self.own.delegators.get(name)
        route = before.delegator.route if before is not None else None
        remote = self.wanted.remote or self.own.fallback.remote or (route is not None and route.remote)

        def records(group: _Group, names: Iterable[str] = pool) -> list[Record]:
            of_group = runs.get(group, {})
            return [_record(pool[name], of_group.get(name, _Runs())) for name in names]

        changed: Route | None
        if route is not None and self.wanted.route is not None:
            members = [self._selected(candidate, pool) for candidate in route.candidates]
            names = list(dict.fromkeys(itertools.chain.from_iterable(members)))
            order = suggested(records(_ALL, names), remote=remote)
            changed = reordered(route, members, order) if runs.get(_ALL, {}).keys() & names else None
        else:
            present = {name: number for number, name in enumerate(_named(route))}
            candidates = sorted(by_evidence(records(_ALL)), key=lambda record: present.get(record.name, len(present)))
            order = suggested(candidates, remote=remote)
            detailed = {(language, size): records((language, size)) for language, size in runs if size is not None}
            changed = new_route(recipe, order, candidates, detailed, remote=remote)
            names = list(pool)
        if changed is not None:
            changed.remote = self.wanted.remote or (route is not None and route.remote)
            changed.wait = route is not None and route.wait
        groups = [_group(_ALL, order, runs.get(_ALL, {}))]
        for group in sorted(runs.keys() - {_ALL}, key=lambda group: (group[0], _SIZES.index(group[1]))):
            places = suggested(by_evidence(records(group, names)), remote=remote)
            if places:
                groups.append(_group(group, places, runs[group]))
        suggestion = RouteSuggestion(recipe=recipe, groups=groups)
        if changed is not None:
            self._add_route(suggestion, before, Delegator(name=name, route=changed))
        return suggestion

    def _add_route(self, suggestion: RouteSuggestion, before: DelegatorEntry | None, delegator: Delegator) -> None:
        """Add the route, and what saving it changes."""
        if before is not None:
            delegator.display_name = before.delegator.display_name
            suggestion.revision = before.revision
        suggestion.route = delegator
        if before is None or before.editable:
            path, old, new = self.editor.preview(delegator, Scope.USER)
            suggestion.diff = unified_file(str(path), old, new)

    def _pool(self, recipe: str) -> dict[str, Record]:
        """Return the delegators of the user that can run a recipe, without evidence."""
        loaded = self.loaded.recipes.get(recipe)
        return {
            name: Record(
                name=name,
                local=locality.is_local(entry.delegator, self.own.server_of(entry.delegator)),
                bound=locality.is_bound(entry.delegator, self.own.server_of(entry.delegator)),
            )
            for name, entry in self.own.delegators.items()
            if entry.delegator.route is None
            and entry.delegator.remote_agent is None
            and (loaded is None or not _is_unsupported(self.own, entry, loaded))
        }

    def _selected(self, candidate: str | RouteCandidate, pool: Iterable[str]) -> list[str]:
        """Return the delegators that a candidate of a route selects."""
        chosen = RouteCandidate(delegator=candidate) if isinstance(candidate, str) else candidate
        return [name for name in pool if selects(chosen, facts_of(self.own, self.own.delegators[name].delegator))]


def _named(route: Route | None) -> list[str]:
    """Return the delegators that a route has by their names, without conditions."""
    return [candidate for candidate in (route.candidates if route is not None else ()) if isinstance(candidate, str)]


def _is_unsupported(configuration: Configuration, entry: DelegatorEntry, recipe: Recipe) -> bool:
    try:
        return usable.why_unsupported(configuration, entry, recipe) is not None
    except UnderstudyError:
        return True  # its tool is no longer known


def _runs(selection: Wanted, conditions: RouteConditions | None) -> dict[str, dict[_Group, dict[str, _Runs]]]:
    """Return the runs of each recipe, of all its work and of each language and size, by delegator."""

    def rows(connection: sqlite3.Connection) -> list[Any]:
        return connection.execute(_RUNS, (selection.since, selection.recipe, selection.workspace)).fetchall()

    on_disk = set(delegation_folder.ids())
    by_recipe: dict[str, dict[_Group, dict[str, _Runs]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(_Runs)))
    for (
        recipe,
        language,
        size,
        delegator,
        identifier,
        _,
        verdict,
        failure,
        seconds,
        cost,
        is_known,
    ) in attempt_cache.query(rows):
        succeeded = route_suggestions.succeeded(verdict, failure)
        if succeeded is None or not _is_for(conditions, language, size):
            continue
        decisions = _decisions(identifier) if verdict in _WITH_RESULT and identifier in on_disk else (0, 0)
        for group in {_ALL, (language, _size_class(size))}:
            runs = by_recipe[recipe][group][delegator]
            runs.seconds.append(seconds)
            runs.succeeded += succeeded
            if cost is not None:
                runs.cost = (runs.cost or 0) + cost
            runs.costs_unknown += not is_known
            runs.accepted += decisions[0]
            runs.decided += sum(decisions)
    return by_recipe


def _is_for(conditions: RouteConditions | None, language: str, size: int | None) -> bool:
    """Return whether a route has such work, as far as its size is known."""
    if conditions is None:
        return True
    is_language = conditions.languages is None or language in conditions.languages
    return is_language and (conditions.max_bytes is None or size is None or size <= conditions.max_bytes)


def _size_class(size: int | None) -> SizeClass | None:
    if size is None:
        return None
    return next(name for name, most in SIZES.items() if most is None or size <= most)


def _decisions(identifier: str) -> tuple[int, int]:
    """Return how many hunks of a result were accepted, and how many rejected."""
    try:
        review = reader.peek(delegation_folder.open_folder(identifier)).review
    except (UnderstudyError, OSError):
        return 0, 0  # it was removed meanwhile
    return review.accepted, review.rejected


def _record(about: Record, runs: _Runs) -> Record:
    usd = None if runs.cost is None else runs.cost * NANO
    return msgspec.structs.replace(
        about, runs=len(runs.seconds), succeeded=runs.succeeded, usd=usd, seconds=tuple(sorted(runs.seconds))
    )


def _group(group: _Group, places: Sequence[Suggested], runs: Mapping[str, _Runs]) -> RouteGroup:
    return RouteGroup(
        language=group[0],
        size=group[1],
        candidates=[_evidence(place, runs.get(place.name, _Runs())) for place in places],
    )


def _evidence(place: Suggested, runs: _Runs) -> RouteEvidence:
    record = _record(Record(name=place.name), runs)
    return RouteEvidence(
        delegator=place.name,
        runs=record.runs,
        succeeded=record.succeeded,
        share=Interval(low=record.share[0], high=record.share[1]),
        accepted=runs.accepted,
        decided=runs.decided,
        cost_usd=None if record.usd is None else printed(record.usd),
        costs_unknown=runs.costs_unknown,
        success_usd=None if record.success_usd is None else printed(record.success_usd),
        median_seconds=record.median,
        seconds=Interval(low=record.median_interval[0], high=record.median_interval[1]),
        reason=place.reason,
        skipped_because=place.refused,
    )
