"""Find out whether a result has made the earlier tests notice less.

Mutants that the base's tests kill are put into the result's code again; one that its earlier tests no longer kill is a
lost kill, whatever was done to assertions, helpers, data, imports or the runner. If the result changes code, the base's
tests run on it first; then, any test of the result may kill what they killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from understudy.judge.mutant_runners.mutant_runs import Progress, RecordedTests
from understudy.judge.mutation.mutation_test import MutationOutcome, MutationRequest, mutation_test
from understudy.judge.mutation.planning import identities
from understudy.judge.outcomes.observations import FAILED, PASSED, Observed, OutcomeCache
from understudy.judge.runs.check_run import CheckContext
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.model.delegation.delegations import Count
from understudy.model.evidence.checks import NOTICED, Evidence, JudgedMutant, MutantStatus
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation
from understudy.mutants.generate import mutants_of

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
    """The commit that has the earlier tests; its code is that of ``head``."""
    head: str
    context: CheckContext
    sources: Mapping[str, bytes]
    """The code under test, as it is in the result."""
    sources_before: Mapping[str, bytes] | None = None
    """The same files in ``base``, where they differ; only changes of code that both have are compared. None: they are
    equal."""
    counted: frozenset[str] | None = None
    """The earlier tests that may notice less; None: all."""
    after: Observed | None = None
    """What the check shows on the result, if all its tests count; None: only earlier ones do."""
    only_executed: bool = False
    """Leave out files that no earlier test executes."""
    new_tests: Sequence[str]
    """Test files of the result: loading them can change what earlier tests do."""
    seed: str
    """The id of the base's tree."""
    evidence: Evidence
    deadline: float
    """When the comparison must be over, as a time of the event loop."""
    on_base: BaseRun
    tell: Callable[[str, Count], None] = lambda _text, _count: None
    """Tells the user how many small changes were tried."""


@dataclass(frozen=True, kw_only=True)
class LostKills:
    """Mutants that the earlier tests killed on the base, and do not kill on the result."""

    mutants: tuple[JudgedMutant, ...] = ()
    """Those that the earlier tests no longer notice."""
    unknown: int = 0
    """How many could not be judged on the result, so that the earlier tests may no longer notice them."""
    killed_before: int = 0
    why: str = ""
    """Why some are unknown; empty if all were compared, or the base has no tests of this code."""
    not_compared: str = ""
    """Why nothing could be compared."""
    seconds: float = 0.0

    def reservations(self, lost: Reservation = Reservation.OUTSIDE_SCOPE) -> list[tuple[Reservation, str]]:
        """Return what the comparison says against the result; ``lost`` is the word for tests that notice less."""
        every = f"Of {self.killed_before} small changes of the code that earlier tests noticed"
        reservations = []
        if self.mutants:
            places = (
                f"{mutant.path}:{mutant.line} ({_line(mutant.before)} → {_line(mutant.after)})"
                for mutant in self.mutants
            )
            text = f"{every}, they no longer notice {len(self.mutants)}: {name_list(places, _MOST_NAMES)}."
            reservations.append((lost, text))
        if self.not_compared:
            text = f"Whether earlier tests notice less than before is not known: {self.not_compared}."
            reservations.append((Reservation.NOT_MUTATION_TESTED, text))
        if self.unknown:
            text = f"{every}, it is not known whether they still notice {self.unknown}: {self.why}."
            reservations.append((Reservation.NOT_MUTATION_TESTED, text))
        return reservations


async def lost_kills(earlier: EarlierTests) -> LostKills:
    """Compare what the earlier tests notice on the base and on the result."""
    base = earlier.on_base
    if base.observed.timed_out or not (base.observed.passing or (earlier.after is not None and base.observed.green)):
        return LostKills()
    # The names of the files are part of the key, because they decide what is mutated.
    key = f"{base.key} {sorted(earlier.sources)} killers by identity"
    observed = base.cache.get(key)
    seconds, recorded = 0.0, None
    if observed is None:
        outcome = await _test(earlier, earlier.base)
        seconds += outcome.seconds
        if outcome.result is None:
            return LostKills(not_compared=outcome.why, seconds=seconds)
        outcomes = {mutant.id: _killer_of(mutant) if mutant.status in NOTICED else PASSED for mutant in outcome.judged}
        observed, recorded = Observed(green=True, outcomes=outcomes), outcome.recorded
        if outcome.result.unfinished is None:
            await asyncio.to_thread(base.cache.put, key, observed)
    killers = {mutant: killer for mutant, killer in observed.outcomes.items() if killer != PASSED}
    killed = frozenset(killers)
    if earlier.sources_before is not None:
        killed &= await asyncio.to_thread(_identities, earlier.sources)
    left = killed
    missed: tuple[JudgedMutant, ...] = ()
    why = ""
    # First by the test that noticed it before; then by all, because a flaky one may have noticed it by chance, another
    # one may notice it now, or the time was over.
    for first_killers in (killers, {}):
        if not left:
            break
        outcome = await _test(earlier, earlier.head, only=left, killers=first_killers, recorded=recorded)
        seconds += outcome.seconds
        if outcome.result is None:
            why = outcome.why
            continue
        missed = tuple(mutant for mutant in outcome.judged if mutant.status in _MISSED)
        why = outcome.result.unfinished or "the tests ended before they were over"
        left -= {mutant.id for mutant in outcome.judged if mutant.status in NOTICED}
    unknown = left - {mutant.id for mutant in missed}
    if left:
        # On the base, too, one may have been noticed by chance only, such as by a time limit on a busy machine.
        outcome = await _test(earlier, earlier.base, only=left)
        seconds += outcome.seconds
        if outcome.result is None:
            return LostKills(unknown=len(left), killed_before=len(killed), why=outcome.why, seconds=seconds)
        noticed = {mutant.id for mutant in outcome.judged if mutant.status in NOTICED}
        missed = tuple(mutant for mutant in missed if mutant.id in noticed)
        unknown &= noticed
    return LostKills(
        mutants=missed, unknown=len(unknown), killed_before=len(killed), why=why if unknown else "", seconds=seconds
    )


def _identities(sources: Mapping[str, bytes]) -> frozenset[str]:
    """Return all mutants of some files."""
    return frozenset(
        identity
        for path, source in sources.items()
        for identity in identities(path, source, mutants_of(path, source)).values()
    )


def _killer_of(mutant: JudgedMutant) -> str:
    """Return a test that noticed a mutant, or ``FAILED`` where none is known."""
    return next(iter(mutant.killed_by), FAILED)


async def _test(
    earlier: EarlierTests,
    commit: str,
    *,
    only: frozenset[str] | None = None,
    killers: Mapping[str, str] | None = None,
    recorded: RecordedTests | None = None,
) -> MutationOutcome:
    base = earlier.on_base
    await base.materialise(commit)
    on_base = commit == earlier.base
    observed = base.observed if on_base or earlier.after is None else earlier.after
    counted = earlier.counted if on_base else None
    if earlier.after is None:
        counted = observed.passing
    return await mutation_test(
        MutationRequest(
            plan=earlier.suite,
            passed=observed.passing,
            seconds=base.seconds,
            context=earlier.context,
            sources=earlier.sources if not on_base or earlier.sources_before is None else earlier.sources_before,
            counted=counted,
            only_executed=earlier.only_executed and on_base,
            only=only,
            killers=killers or {},
            finds_idle=False,
            # The same code runs in the same tests, unless the result changes it.
            recorded=recorded if earlier.sources_before is None and earlier.after is None else None,
            trusted=on_base,
            also_loaded=() if on_base else tuple(earlier.new_tests),
            seed=earlier.seed,
            evidence=earlier.evidence,
            deadline=earlier.deadline,
            progress=Progress(earlier.tell, run="without the result" if on_base else "earlier tests, with the result"),
        )
    )


def _line(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first.strip()} …" if rest else first.strip()
