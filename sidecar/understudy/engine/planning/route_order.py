"""What is known about the candidates of a route: their prices, and how their attempts of a recipe ended."""

from __future__ import annotations

import functools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import msgspec

from understudy.config import locality
from understudy.config.configuration import Configuration
from understudy.journal import ledger
from understudy.model.config.delegators import Delegator, ModelServer, Scope, language_of
from understudy.model.delegation.events import UsageReport
from understudy.model.verdicts import Verdict
from understudy.model.wire import timestamp
from understudy.policy.budget import amount, priced
from understudy.policy.route_ranking import Facts, Ranked, Work, ranked

REMEMBERED = timedelta(days=90)
"""How old the attempts are at most by which candidates are compared."""
_JUDGED = frozenset({Verdict.VERIFIED, Verdict.UNVERIFIED, Verdict.CHECKS_FAILED, Verdict.NO_CHANGES, Verdict.FAILED})
_MILLION = UsageReport(
    input_tokens=750_000,
    output_tokens=250_000,
    cache_read_tokens=0,
    cache_write_tokens=0,
    reasoning_tokens=0,
    turns=1,
    tool_calls=0,
)
"""What prices are compared by: of the tokens of a delegation, most are read."""


def work_of(recipe: str, sizes: Mapping[str, int], labels: Iterable[str] | None = None) -> Work:
    """Return what the conditions of routes are about; ``sizes`` are the bytes of each file, by its name."""
    languages = frozenset(filter(None, map(language_of, sizes)))
    return Work(recipe=recipe, languages=languages, size=sum(sizes.values()), labels=frozenset(labels or ()))


def sizes_of(workspace: Path, files: Sequence[str]) -> dict[str, int]:
    """Return the bytes of each file, of 0 if it is missing; names are relative to the workspace."""
    return {file: path.stat().st_size if (path := workspace / file).is_file() else 0 for file in files}


def route_candidates(configuration: Configuration, name: str, work: Work) -> list[Ranked]:
    """Return the candidates of a route for some work: those that may be taken in their order, then the others."""
    entry = configuration.delegators[name]
    route = entry.delegator.route
    if route is None:
        return []
    foreign = entry.scope is not Scope.WORKSPACE
    facts = [
        facts_of(configuration, candidate.delegator)
        for candidate in configuration.delegators.values()
        if candidate.delegator.route is None
        and candidate.delegator.remote_agent is None
        and not (foreign and candidate.scope is Scope.WORKSPACE)
    ]
    if route.order in {"fastest", "best"}:
        facts = _with_attempts(facts, work.recipe)
    return ranked(route, work, facts)


def facts_of(configuration: Configuration, delegator: Delegator) -> Facts:
    """Return what the configuration says about a delegator."""
    server = configuration.server_of(delegator)
    return Facts(
        name=delegator.name,
        tool=delegator.tool,
        model_server=delegator.model_server,
        model=delegator.model,
        tags=frozenset(delegator.tags or ()),
        local=locality.is_local(delegator, server),
        usd=_price(delegator, server),
    )


def _price(delegator: Delegator, server: ModelServer | None) -> Decimal | None:
    """Return what a million tokens cost; a model on this machine costs nothing unless a price is configured."""
    report = priced(_MILLION, server, delegator.model)
    usd = amount(report.cost_usd)
    return Decimal(0) if usd is None and locality.is_local(delegator, server) else usd


class _PastAttempt(NamedTuple):
    """What is kept of a line of the ledger, which the candidates for every recipe are compared by."""

    recipe: str
    delegator: str
    at: str
    seconds: float
    verdict: str | None


@functools.lru_cache(maxsize=8)
def _attempts(month: Path, size: int) -> list[_PastAttempt]:
    """Return the attempts in a file of the ledger, which only grows."""
    _ = size
    return [
        _PastAttempt(entry.recipe, entry.delegator, entry.at, entry.seconds, entry.verdict)
        for entry in ledger.read_month(month)
    ]


def _with_attempts(candidates: Sequence[Facts], recipe: str) -> list[Facts]:
    seconds: dict[str, list[float]] = defaultdict(list)
    runs: dict[str, int] = defaultdict(int)
    verified: dict[str, int] = defaultdict(int)
    since = timestamp(datetime.now(UTC) - REMEMBERED)
    for month in ledger.months():
        for attempt in _attempts(month, month.stat().st_size) if month.stem >= since[:7] else ():
            if attempt.recipe == recipe and attempt.at >= since:
                seconds[attempt.delegator].append(attempt.seconds)
                runs[attempt.delegator] += attempt.verdict in _JUDGED
                verified[attempt.delegator] += attempt.verdict == Verdict.VERIFIED
    return [
        msgspec.structs.replace(
            facts,
            seconds=statistics.median(seconds[facts.name]) if seconds[facts.name] else None,
            runs=runs[facts.name],
            verified=verified[facts.name],
        )
        for facts in candidates
    ]
