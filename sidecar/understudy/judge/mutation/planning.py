"""Choose the mutants to judge, and add up their results."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import TypeVar

from understudy.judge.mutation.copies.runs import MutantResult, PlannedRun
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.generate import mutants_of, still_parses
from understudy.mutants.mutant import Mutant
from understudy.mutants.sham import decoy, sham_mutants

_MOST_DECOYS = 3
"""Most files that get a decoy."""

_REPLACED = "return"
"""The operator that replaces what a function returns."""
_LEAST_MISSED = 3

_MOST_FURTHER_RUNS = 100
"""Most runs at once of tests that noticed nothing in the sample."""

TestsOf = Callable[[str, Mutant], Sequence[str]]
"""Returns the ids of the tests that execute a mutant of a file."""


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class MutantSample:
    """Mutants to judge before others, so that two results can be compared."""

    seed: str
    """Chooses the other mutants."""
    identities: frozenset[str]
    """See ``mutant_identity``; those that the result's code does not have are skipped."""


@dataclass(frozen=True, kw_only=True)
class MutationPlan:
    """The runs to make, and how many mutants there are."""

    runs: tuple[PlannedRun, ...]
    """In the order in which they should be made, sham mutants among them."""
    executed: int
    """Mutants on lines that the tests execute."""
    total: int
    """All mutants of the files."""
    reached: Mapping[tuple[str, Mutant], tuple[str, ...]]
    """Every mutant on these lines, with the tests that execute it."""
    unreached: tuple[tuple[str, Mutant], ...] = ()
    """Every mutant on lines that no test executes."""


@dataclass(frozen=True, kw_only=True)
class FurtherRuns:
    """More runs of tests that noticed nothing in a sample."""

    runs: tuple[PlannedRun, ...]
    skipped: frozenset[str]
    """Tests that are in no run, although there are mutants that they did not run on."""


@dataclass(frozen=True, kw_only=True)
class MutationScore:
    """What the tests noticed."""

    killed: int
    """Mutants that count and were noticed."""
    viable: int
    """Mutants that count."""
    executed: int
    total: int
    survivors: tuple[MutantResult, ...]
    noticed: tuple[MutantResult, ...]
    blind: int
    """How many of ``killed`` any test notices that executes them: the code raised an error, or got stuck."""
    unreliable: frozenset[str]
    """Tests that failed on a sham mutant: they look at the source, count their runs, or fail at random."""
    idle: tuple[str, ...]
    """Tests that ran on mutants and killed none."""

    @property
    def share(self) -> float:
        """Return the share of killed mutants on executed lines; 0 if none counts."""
        return self.killed / self.viable if self.viable else 0.0

    @property
    def share_by_value(self) -> float:
        """Return the share of killed mutants among those that only a test which looks at a value can notice."""
        seen = self.viable - self.blind
        return (self.killed - self.blind) / seen if seen else 0.0

    @property
    def sees_only_replaced(self) -> bool:
        """Return whether the tests notice results that were replaced as a whole, and none of several other changes.

        For most of these, a look at the type is enough. One or two other changes prove nothing: they may be equivalent.
        """
        by_value = [result.mutant.operator for result in self.noticed if not result.crashed]
        missed = sum(result.mutant.operator != _REPLACED for result in self.survivors)
        return bool(by_value) and set(by_value) == {_REPLACED} and missed >= _LEAST_MISSED

    @property
    def share_of_file(self) -> float:
        """Return the estimated share of all mutants of the files: what is not executed is not noticed."""
        return self.share * self.executed / self.total if self.total else 0.0


def plan(
    sources: Mapping[str, bytes],
    tests_of: TestsOf,
    *,
    count: int,
    seed: str,
    lines: Mapping[str, frozenset[int]] | None = None,
    left_out: Callable[[str, Mutant], bool] = lambda _path, _mutant: False,
    first: Callable[[str, Mutant], bool] = lambda _path, _mutant: False,
    compiled: Collection[str] = (),
) -> MutationPlan:
    """Choose at most ``count`` mutants of the files on executed lines, with three sham mutants among them.

    ``lines`` restricts mutants to some lines of the files, such as the changed ones; mutants that are ``first`` are
    chosen before others. Each of the files in ``compiled`` (see ``RecordedTests``) that is mutated gets a decoy, too.
    The same sources, tests and ``seed`` give the same plan.
    """
    places = [
        (path, mutant)
        for path, source in sources.items()
        for mutant in mutants_of(path, source)
        if (lines is None or mutant.line in lines.get(path, frozenset())) and not left_out(path, mutant)
    ]
    tests_by_mutant = {(path, mutant): tuple(tests) for path, mutant in places if (tests := tests_of(path, mutant))}
    # A few more than needed, because some of them may break the syntax.
    prioritised = {(path, mutant) for path, mutant in tests_by_mutant if first(path, mutant)}
    ordered = [*sample(prioritised, count, seed), *sample(tests_by_mutant.keys() - prioritised, 2 * count + 10, seed)]
    chosen = [(path, mutant) for path, mutant in ordered if still_parses(path, sources[path], mutant)][:count]
    runs = [PlannedRun(path=path, mutant=mutant, tests=tests_by_mutant[path, mutant]) for path, mutant in chosen]
    planned = tuple(_with_shams(runs, sources, seed, compiled))
    return MutationPlan(
        runs=planned,
        executed=len(tests_by_mutant),
        total=len(places),
        reached=tests_by_mutant,
        unreached=tuple(place for place in places if place not in tests_by_mutant),
    )


def further_runs(
    planned: MutationPlan, results: Iterable[MutantResult], tests: Iterable[str], *, per_test: int, seed: str
) -> FurtherRuns:
    """Plan runs of ``tests`` on mutants that they execute and did not run on, up to ``per_test`` chosen for every test.

    A test that noticed nothing in a sample may notice a change that is not in it, or that a faster test noticed first.
    Mutants that few tests execute come first: they show best what a test is for.
    """
    ran = {(result.path, result.mutant, test) for result in results for test in result.ran}
    order = sorted(planned.reached)
    random.Random(f"{seed} again").shuffle(order)  # noqa: S311 - reproducible by design
    order.sort(key=lambda key: len(planned.reached[key]))
    left: dict[str, dict[tuple[str, Mutant], None]] = {test: {} for test in tests}
    for path, mutant in order:
        for test in planned.reached[path, mutant]:
            if test in left and (path, mutant, test) not in ran:
                left[test][path, mutant] = None
    rounds = chain.from_iterable(zip_longest(*(islice(mutants, per_test) for mutants in left.values())))
    chosen = list(dict.fromkeys(place for place in rounds if place is not None))[:_MOST_FURTHER_RUNS]
    tests_of = {key: tuple(test for test, mutants in left.items() if key in mutants) for key in chosen}
    runs = [
        PlannedRun(path=path, mutant=mutant, tests=tests_of[path, mutant], to_the_end=True) for path, mutant in chosen
    ]
    in_runs = {test for run in runs for test in run.tests}
    return FurtherRuns(runs=tuple(runs), skipped=frozenset(test for test, mutants in left.items() if mutants) - in_runs)


def _with_shams(
    runs: Sequence[PlannedRun], sources: Mapping[str, bytes], seed: str, compiled: Collection[str]
) -> list[PlannedRun]:
    """Put sham mutants at random places between the others; each runs all tests that any mutant runs."""
    if not runs:
        return []
    generator = random.Random(f"{seed} sham")  # noqa: S311 - reproducible by design
    tests = tuple(sorted({test for run in runs for test in run.tests}))
    mixed = list(runs)
    paths = sorted({run.path for run in runs})
    kinds = zip(*(sham_mutants(path, sources[path], seed) for path in paths), strict=True)
    for of_kind in kinds:
        path, mutant = generator.choice(list(zip(paths, of_kind, strict=True)))
        place = generator.randint(0, len(mixed))
        mixed.insert(place, PlannedRun(path=path, mutant=mutant, tests=tests, sham=True))
    for path in [path for path in paths if path in compiled][:_MOST_DECOYS]:
        mutant = decoy(sources[path], [run.mutant for run in runs if run.path == path])
        place = generator.randint(0, len(mixed))
        mixed.insert(place, PlannedRun(path=path, mutant=mutant, tests=tests, sham=True, decoy=True))
    return mixed


def score(planned: MutationPlan, results: Iterable[MutantResult]) -> MutationScore:
    """Add up the results. Kills by tests that fail on sham mutants do not count."""
    results = list(results)
    shams = [result for result in results if result.sham]
    unreliable = frozenset(test for result in shams for test in result.killers)
    real = [_without(result, unreliable) for result in results if not result.sham]
    if any(result.status is MutantStatus.TIMEOUT for result in shams):
        # The tests get stuck without a cause, so being stuck does not show a mutant.
        real = [
            replace(result, status=MutantStatus.PENDING) if result.status is MutantStatus.TIMEOUT else result
            for result in real
        ]
    viable = [result for result in real if result.viable]
    killers = {test for result in viable for test in result.killers}
    ran = {test for result in viable for test in result.ran}
    return MutationScore(
        killed=sum(result.noticed for result in viable),
        viable=len(viable),
        executed=_executed(planned.executed, real),
        total=planned.total,
        survivors=tuple(result for result in viable if not result.noticed),
        noticed=tuple(result for result in viable if result.noticed),
        blind=sum(result.crashed or result.status is MutantStatus.TIMEOUT for result in viable),
        unreliable=unreliable,
        idle=tuple(sorted(ran - killers)),
    )


def without_busy(score: MutationScore, further: FurtherRuns, results: Sequence[MutantResult]) -> MutationScore:
    """Return the score without idle tests that noticed something in further runs, or of which that is not known."""
    busy = {*further.skipped, *(test for result in results for test in result.killers)}
    for run, result in zip(further.runs, results, strict=True):
        settled = result.killers or result.status in {MutantStatus.SURVIVED, MutantStatus.COMPILE_ERROR}
        busy.update(() if settled else run.tests)
    return replace(score, idle=tuple(test for test in score.idle if test not in busy))


def _executed(planned: int, judged: Sequence[MutantResult]) -> int:
    """Return how many mutants are executed, without the share that a runner which knows no lines found not to be."""
    judged_fully = [result for result in judged if result.status is not MutantStatus.PENDING]
    reached = sum(result.status is not MutantStatus.NO_COVERAGE for result in judged_fully)
    return round(planned * reached / len(judged_fully)) if judged_fully else planned


def _without(result: MutantResult, unreliable: frozenset[str]) -> MutantResult:
    """Return a result as if ``unreliable`` tests had not run."""
    if result.status is not MutantStatus.KILLED or not unreliable or not result.killers:
        return result
    killers = tuple(test for test in result.killers if test not in unreliable)
    # A run ends at its first failure: what the other tests would have done is not known.
    return result if killers == result.killers else replace(result, killers=killers, status=_status(killers))


def _status(killers: Sequence[str]) -> MutantStatus:
    return MutantStatus.KILLED if killers else MutantStatus.PENDING


def sample(mutants: Iterable[tuple[str, Mutant]], count: int, seed: str) -> list[tuple[str, Mutant]]:
    """Return at most ``count`` of the mutants with their files, in the order in which they should be judged.

    Each function gets its first mutant before another one gets its second, so that a limit of time that ends the
    judging early leaves an even sample, too. The same mutants and ``seed`` give the same sample.
    """
    groups: dict[tuple[str, str], list[tuple[str, Mutant]]] = {}
    for path, mutant in sorted(mutants):
        groups.setdefault((path, mutant.function), []).append((path, mutant))
    order = list(groups.values())
    generator = random.Random(seed)  # noqa: S311 - reproducible by design
    generator.shuffle(order)
    for group in order:
        generator.shuffle(group)
    rounds = chain.from_iterable(zip_longest(*order))
    return [chosen for chosen in rounds if chosen is not None][:count]
