"""The order of the candidates of a route, each with its reason: a pure function of what is known about them.

``why_not`` says which condition does not hold for the work; ``ordered`` sorts those for which all hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from understudy.model.config.delegators import Route, RouteCandidate, RouteConditions

_Z = 1.96
"""The normal quantile of a 95 % interval."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What conditions are about."""

    recipe: str
    languages: frozenset[str] | None = None
    """None: the files are not known yet, so nothing is refused for their language."""
    size: int = 0
    """Bytes of all files together."""
    labels: frozenset[str] = frozenset()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a delegator."""

    name: str
    tool: str | None = None
    model_server: str | None = None
    model: str = ""
    tags: frozenset[str] = frozenset()
    local: bool = False
    usd: Decimal | None = None
    """What a million tokens cost, of which three quarters are read; None: unknown."""
    seconds: float | None = None
    """The median of its attempts; None: there are none."""
    runs: int = 0
    """How many of its attempts were judged."""
    verified: int = 0


class Ranked(msgspec.Struct, frozen=True):
    """A candidate in its place, or why it is left out."""

    name: str
    reason: str
    """Why it has this place."""
    refused: str | None = None
    """The condition that does not hold."""


def why_not(conditions: RouteConditions, work: Work) -> str | None:
    """Return the condition that does not hold for the work; None if all do."""
    if conditions.recipes is not None and work.recipe not in conditions.recipes:
        return f"it is for {_any_of(conditions.recipes)} only"
    if (
        conditions.languages is not None
        and work.languages is not None
        and not (work.languages and work.languages.issubset(conditions.languages))
    ):
        return f"it is for files in {_any_of(conditions.languages)} only"
    if conditions.max_bytes is not None and work.size > conditions.max_bytes:
        return f"it is for files of at most {conditions.max_bytes:,} bytes, and these have {work.size:,}"
    if conditions.labels is not None and work.labels.isdisjoint(conditions.labels):
        return f"it is for work with the label {_any_of(conditions.labels)} only"
    return None


def ranked(route: Route, work: Work, facts_of_all: Sequence[Facts]) -> list[Ranked]:
    """Return each candidate once: first those that may be taken, in their order, then the others."""
    against = why_not(route, work)
    places: dict[str, str | None] = {}
    for candidate in route.candidates:
        entry = RouteCandidate(delegator=candidate) if isinstance(candidate, str) else candidate
        refused = against or why_not(entry, work)
        for facts in facts_of_all:
            if selects(entry, facts) and (facts.name not in places or (refused is None and places[facts.name])):
                # A later mention may allow what an earlier one does not, and then counts in its stead.
                places.pop(facts.name, None)
                places[facts.name] = refused
    listed = {name: number for number, name in enumerate(places)}
    allowed = [facts for facts in facts_of_all if facts.name in places and places[facts.name] is None]
    allowed.sort(key=lambda facts: listed[facts.name])
    in_order = [Ranked(facts.name, reason) for facts, reason in _ordered(route, allowed)]
    return [*in_order, *(Ranked(name, "", refused) for name, refused in places.items() if refused is not None)]


def share_interval(successes: float, runs: int) -> tuple[float, float]:
    """Return the Wilson interval of a share, with a confidence of 95 %: wide where there were few runs."""
    if runs == 0:
        return 0.0, 1.0
    share = successes / runs
    middle = share + _Z**2 / (2 * runs)
    margin: float = _Z * (share * (1 - share) / runs + _Z**2 / (4 * runs**2)) ** 0.5
    whole = 1 + _Z**2 / runs
    return max(0.0, (middle - margin) / whole), min(1.0, (middle + margin) / whole)


def least_share(successes: int, runs: int) -> float:
    """Return the lower end of the interval of a share."""
    return share_interval(successes, runs)[0]


def _ordered(route: Route, allowed: list[Facts]) -> Iterable[tuple[Facts, str]]:
    """Return the candidates in the order of the route; equal ones stay as they are listed."""
    match route.order:
        case "listed":
            return [(facts, f"candidate {number}") for number, facts in enumerate(allowed, 1)]
        case "cheapest":
            by_price = sorted(allowed, key=lambda facts: (facts.usd is None, facts.usd or Decimal(0)))
            return [(facts, _price_of(facts)) for facts in by_price]
        case "fastest":
            by_time = sorted(allowed, key=lambda facts: (facts.seconds is None, facts.seconds or 0.0))
            return [
                (facts, "no attempt yet" if facts.seconds is None else f"its attempts took {facts.seconds:.0f} s")
                for facts in by_time
            ]
        case "best":
            by_share = sorted(allowed, key=lambda facts: (facts.runs == 0, -least_share(facts.verified, facts.runs)))
            return [(facts, f"{facts.verified} of {facts.runs} results verified") for facts in by_share]


def _price_of(facts: Facts) -> str:
    if facts.usd is None:
        return "its price is not known"
    return "it costs nothing" if facts.usd == 0 else f"about {facts.usd:.2f} US dollars for a million tokens"


def selects(candidate: RouteCandidate, facts: Facts) -> bool:
    """Return whether a candidate of a route means this delegator."""
    if candidate.delegator is not None:
        return candidate.delegator == facts.name
    conditions = (
        candidate.tool is None or candidate.tool == facts.tool,
        candidate.model_server is None or candidate.model_server == facts.model_server,
        candidate.model is None or candidate.model == facts.model,
        candidate.tags is None or facts.tags.issuperset(candidate.tags),
        candidate.local is None or candidate.local == facts.local,
    )
    return all(conditions)


def _any_of(words: Sequence[str]) -> str:
    return " or ".join(words)
