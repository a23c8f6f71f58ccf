"""Find out whether a result that writes tests has made the earlier tests notice less.

Mutants that the base's tests kill are put into the result's code again; one that its earlier tests no longer kill is a
lost kill, whatever was done to assertions, helpers, data, imports or the runner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from understudy.engine.checks.check_run import CheckContext, PreparedCheck
from understudy.engine.checks.mutation.mutation_test import MutationOutcome, MutationRequest, mutation_test
from understudy.engine.checks.outcomes.outcome_cache import OutcomeCache
from understudy.engine.checks.outcomes.outcome_comparison import FAILED, PASSED, Observed
from understudy.model.config.evidence_bounds import Evidence
from understudy.model.evidence.mutation import NOTICED, JudgedMutant, MutantStatus
from understudy.model.text.name_list import name_list

_MOST_NAMES = 5
_MISSED = frozenset({MutantStatus.SURVIVED, MutantStatus.NO_COVERAGE})


@dataclass(frozen=True, kw_only=True)
class BaseRun:
    """What the check of all tests shows on the base."""

    observed: Observed
    key: str
    """What decides it: the base's tree, the check and the environment."""
    seconds: float
    """How long a run takes, about."""
    cache: OutcomeCache
    materialise: Callable[[str], Awaitable[None]]
    """Puts the worktree at exactly one commit."""


@dataclass(frozen=True, kw_only=True)
class EarlierTests:
    """The tests of the base and the code that they test."""

    suite: PreparedCheck
    """The check that runs all tests."""
    base: str
    head: str
    context: CheckContext
    sources: Mapping[str, bytes]
    """The code under test, which a result that writes tests does not change."""
    new_tests: Sequence[str]
    """Test files of the result: loading them can change what earlier tests do."""
    seed: str
    """The id of the base's tree."""
    evidence: Evidence
    on_base: BaseRun


@dataclass(frozen=True, kw_only=True)
class LostKills:
    """Mutants that the earlier tests killed on the base and no longer kill."""

    mutants: tuple[JudgedMutant, ...] = ()
    killed_before: int = 0
    why: str = ""
    """Why nothing could be compared; empty if it was, or if the base has no tests of this code."""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """Return the finding as a sentence."""
        places = (f"{one.path}:{one.line} ({_line(one.before)} → {_line(one.after)})" for one in self.mutants)
        return (
            f"Of {self.killed_before} small changes of the code that earlier tests noticed, they no longer notice "
            f"{len(self.mutants)}: {name_list(places, _MOST_NAMES)}."
        )


async def lost_kills(earlier: EarlierTests) -> LostKills:
    """Compare what the earlier tests notice on the base and on the result."""
    base = earlier.on_base
    if base.observed.timed_out or not base.observed.passing:
        return LostKills()
    # The names of the files are part of the key, because they decide what is mutated.
    key = f"{base.key} {sorted(earlier.sources)} kills"
    known = base.cache.get(key)
    seconds = 0.0
    if known is None:
        outcome = await _test(earlier, earlier.base)
        seconds += outcome.seconds
        if outcome.result is None:
            return LostKills(why=outcome.why, seconds=seconds)
        outcomes = {one.id: FAILED if one.status in NOTICED else PASSED for one in outcome.judged}
        known = Observed(green=True, outcomes=outcomes)
        if outcome.result.unfinished is None:
            await asyncio.to_thread(base.cache.put, key, known)
    lost = killed = frozenset(mutant for mutant, outcome in known.outcomes.items() if outcome == FAILED)
    mutants: tuple[JudgedMutant, ...] = ()
    for _ in range(2):  # again, because a flaky test may have killed one by chance
        if not lost:
            break
        outcome = await _test(earlier, earlier.head, only=lost)
        seconds += outcome.seconds
        if outcome.result is None:
            return LostKills(why=outcome.why, seconds=seconds)
        mutants = tuple(one for one in outcome.judged if one.status in _MISSED)
        lost = frozenset(one.id for one in mutants)
    if lost:
        # On the base, too, one may have been noticed by chance only, such as by a time limit on a busy machine.
        outcome = await _test(earlier, earlier.base, only=lost)
        seconds += outcome.seconds
        if outcome.result is None:
            return LostKills(why=outcome.why, seconds=seconds)
        noticed = {one.id for one in outcome.judged if one.status in NOTICED}
        mutants = tuple(one for one in mutants if one.id in noticed)
    return LostKills(mutants=mutants, killed_before=len(killed), seconds=seconds)


async def _test(earlier: EarlierTests, commit: str, *, only: frozenset[str] | None = None) -> MutationOutcome:
    base = earlier.on_base
    await base.materialise(commit)
    return await mutation_test(
        MutationRequest(
            plan=earlier.suite,
            passed=base.observed.passing,
            seconds=base.seconds,
            context=earlier.context,
            sources=earlier.sources,
            counted=base.observed.passing,
            only=only,
            also_loaded=() if commit == earlier.base else tuple(earlier.new_tests),
            seed=earlier.seed,
            evidence=earlier.evidence,
        )
    )


def _line(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first.strip()} …" if rest else first.strip()
