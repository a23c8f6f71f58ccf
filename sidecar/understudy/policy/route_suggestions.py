"""The order of the candidates of a route that recorded runs speak for: a pure function of their figures.

A candidate is clearly better than another if the 95 % intervals of their shares of success do not overlap. Only that
changes an order; a candidate of which nothing is known comes after all others. Nothing here is applied by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec

from understudy.model.config.delegators import Route, RouteCandidate
from understudy.model.delegation.route_evidence import SIZES, SizeClass
from understudy.model.errors import ErrorKind, class_of
from understudy.model.verdicts import Verdict
from understudy.policy.route_ranking import share_interval

_SUCCESS = frozenset({Verdict.VERIFIED, Verdict.ANSWERED})
_NO_SUCCESS = frozenset(
    {
        *(Verdict.UNVERIFIED, Verdict.CHECKS_FAILED, Verdict.NO_CHANGES),
        *(Verdict.TIMED_OUT, Verdict.BUDGET_EXHAUSTED),
    }
)
_OF_THE_MODEL = frozenset(
    {ErrorKind.CONTENT_REFUSED, ErrorKind.OUTPUT_TRUNCATED, ErrorKind.BUDGET_EXHAUSTED, ErrorKind.BAD_REQUEST}
)
"""Failures that another delegator is not asked to repair, and that still say something about this one."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a delegator for some work."""

    name: str
    local: bool = False
    """Whether it sends nothing to other machines."""
    bound: bool = False
    """Whether it is declared so: then no other one may take over, whatever a route says."""
    runs: int = 0
    succeeded: int = 0
    usd: Decimal | None = None
    """What the runs cost as far as that is known; None: of none."""
    seconds: tuple[float, ...] = ()
    """How long each run took, the shortest first."""

    @property
    def share(self) -> tuple[float, float]:
        """The interval of the share of runs that succeed."""
        return share_interval(self.succeeded, self.runs)

    @property
    def success_usd(self) -> Decimal | None:
        """The cost of a run that succeeds, with those that did not."""
        return None if self.usd is None or not self.succeeded else self.usd / self.succeeded

    @property
    def median(self) -> float:
        """How long half of the runs took at most."""
        return self.seconds[(len(self.seconds) - 1) // 2] if self.seconds else 0.0

    @property
    def median_interval(self) -> tuple[float, float]:
        """The runs between which the median lies: at the ends of the interval of one half."""
        count = len(self.seconds)
        if not count:
            return 0.0, 0.0
        outside = int(share_interval(count / 2, count)[0] * count)
        return self.seconds[outside], self.seconds[count - 1 - outside]


class Suggested(msgspec.Struct, frozen=True):
    """A candidate in its place, or why it is left out."""

    name: str
    reason: str
    refused: str | None = None


def succeeded(verdict: str | None, failure: str | None) -> bool | None:
    """Return whether a run succeeded; None if it was cancelled, or failed for a reason that is not its delegator's."""
    if verdict in _SUCCESS:
        return True
    if failure is None:
        return False if verdict in _NO_SUCCESS else None
    kind = ErrorKind(failure) if failure in set(ErrorKind) else None
    if kind is None or (class_of(kind) is None and kind not in _OF_THE_MODEL):
        return None
    return False


def clearly_better(record: Record, other: Record) -> bool:
    """Return whether there is evidence for both, and the intervals of their shares do not overlap."""
    return bool(record.runs and other.runs) and record.share[0] > other.share[1]


def by_evidence(records: Iterable[Record]) -> list[Record]:
    """Return the candidates of a new route: first the one that at least succeeds most often, then the cheaper one."""

    def place(record: Record) -> tuple[float, bool, Decimal, float, str]:
        usd = record.success_usd
        return -record.share[0], usd is None, usd or Decimal(0), record.median, record.name

    return sorted((record for record in records if record.runs), key=place)


def suggested(records: Sequence[Record], *, remote: bool) -> list[Suggested]:
    """Return each candidate once: in the order that is proposed, then those that are left out.

    The order of ``records`` changes only where one is clearly better than another before it. A delegator elsewhere
    does not follow one whose texts must stay on this machine: with ``remote``, only one that is declared so.
    """
    waiting = [record for record in records if record.runs]
    ordered: list[Record] = []
    while waiting:
        first = next(record for record in waiting if not any(clearly_better(other, record) for other in waiting))
        waiting.remove(first)
        ordered.append(first)
    ordered += [record for record in records if not record.runs]
    here = next((number for number, record in enumerate(ordered) if _keeps(record, remote=remote)), len(ordered))
    kept = [record for number, record in enumerate(ordered) if record.local or number < here]
    following = [*kept[1:], None]
    return [
        *(Suggested(record.name, _reason(record, after)) for record, after in zip(kept, following, strict=False)),
        *(
            Suggested(
                record.name,
                _figures(record),
                f"it works on other machines, and {ordered[here].name}, which comes before it, on this one only",
            )
            for record in ordered
            if record not in kept
        ),
    ]


def new_route(
    recipe: str,
    order: Sequence[Suggested],
    pool: Sequence[Record],
    groups: Mapping[tuple[str, SizeClass], Sequence[Record]],
    *,
    remote: bool,
) -> Route | None:
    """Return the route for a recipe with its candidates in this order; None without candidates.

    ``pool`` has a record of each, ``groups`` their records for each language and size. Another delegator comes first
    for a language and size if it is clearly better there than the one that comes first otherwise.
    """
    names = [place.name for place in order if place.refused is None]
    if not names:
        return None
    keeping = {record.name for record in pool if _keeps(record, remote=remote)}
    all_local = {record.name for record in pool if record.local}.issuperset(names)
    candidates: list[str | RouteCandidate] = []
    for language in sorted({language for language, _ in groups if language}):
        leaders: list[tuple[SizeClass, str]] = []
        for size in SIZES:
            leader = _leader(by_evidence(groups.get((language, size), ())), names[0])
            is_allowed = leader in names and (all_local or leader not in keeping)
            leaders.append((size, leader if is_allowed else names[0]))
        while leaders and leaders[-1][1] == names[0]:
            leaders.pop()
        for number, (size, leader) in enumerate(leaders):
            # A limit is the most of a size: what a larger one allows is not repeated for a smaller one.
            if number + 1 == len(leaders) or leaders[number + 1][1] != leader:
                candidates.append(RouteCandidate(delegator=leader, languages=[language], max_bytes=SIZES[size]))
    return Route(candidates=[*candidates, *names], recipes=[recipe], remote=remote)


def reordered(route: Route, members: Sequence[Sequence[str]], order: Sequence[Suggested]) -> Route:
    """Return a route with its candidates in the proposed order; each keeps what it selects, and its conditions.

    ``members`` has the delegators that each candidate selects. A candidate comes where the first of them does. It is
    left out if all of them are.
    """
    places = {place.name: number for number, place in enumerate(order) if place.refused is None}
    kept = [
        (min((places[name] for name in names if name in places), default=len(places)), number)
        for number, names in enumerate(members)
        if not names or any(name in places for name in names)
    ]
    return msgspec.structs.replace(
        route, candidates=[route.candidates[number] for _, number in sorted(kept)], order="listed"
    )


def _keeps(record: Record, *, remote: bool) -> bool:
    """Return whether texts for a delegator must stay on this machine."""
    return record.bound or (record.local and not remote)


def _leader(records: Sequence[Record], otherwise: str) -> str:
    """Return who is first for some work: ``otherwise``, unless another one is clearly better at it."""
    usual = next((record for record in records if record.name == otherwise), None)
    better = (record for record in records if usual is not None and clearly_better(record, usual))
    return next((record.name for record in better), otherwise)


def _reason(record: Record, following: Record | None) -> str:
    figures = _figures(record)
    if following is None or not record.runs or not following.runs:
        return figures
    if clearly_better(record, following):
        return f"{figures}; clearly better than {following.name}"
    return f"{figures}; not enough runs to tell it from {following.name}"


def _figures(record: Record) -> str:
    if not record.runs:
        return "no run is known"
    low, high = record.share
    parts = [f"{record.succeeded} of {record.runs} succeeded ({100 * low:.0f} to {100 * high:.0f} %)"]
    if record.success_usd is not None:
        parts.append(f"{float(record.success_usd):.4g} US dollars for each")
    low, high = record.median_interval
    parts.append(f"half within {record.median:.0f} s ({low:.0f} to {high:.0f})")
    return ", ".join(parts)
