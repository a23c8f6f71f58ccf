"""Choose the mutants to judge, name them, and add up their results."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TypeVar

from understudy.files import durable
from understudy.judge.mutant_runners.mutant_runs import MutantResult, PlannedRun
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.controls import decoy, other_text, same_bytes
from understudy.mutants.generate import Mutant, mutants_of, still_parses
from understudy.mutants.test_code.expectations import other_value

_MOST_DECOYS = 3
"""Most files that get a decoy."""

_REPLACED = "return"
"""The operator that replaces what a function returns."""
_LEAST_MISSED = 3
_MOST_OF_SAME_TYPE = 3

_MOST_FURTHER_RUNS = 100
"""Most runs at once of tests that noticed nothing in the sample."""

TestsOf = Callable[[str, Mutant], Sequence[str]]
"""Returns the ids of the tests that execute a mutant of a file."""

Groups = Mapping[str, Mapping[int, int]]
"""Path → line, from 1 → the number of the group that the line belongs to."""

T = TypeVar("T")
_LEAST_SAMPLE = 8
"""Mutants that are judged even if none of them is needed to show a group."""
_MOST_GROUPS = 100
"""Most mutants that are judged so that each group has one."""
_MOST_LINES = 6
_MOST_CHARACTERS = 300
_AROUND = 100
"""Bytes shown on both sides of a change in a longer line."""
_NAME = "dismissed-mutants.jsonl"
_LIMIT = 4 << 20
"""Bytes read; a line takes about a hundred."""


@dataclass(frozen=True, kw_only=True)
class MutantSample:
    """Mutants to judge before others, so that two results can be compared."""

    seed: str
    """Chooses the other mutants."""
    identities: frozenset[str]
    """See ``identities``; those that the result's code does not have are skipped."""


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
class PlaceChange:
    """A file without a changed place, or in which what the place adds does nothing."""

    path: str
    mutant: Mutant
    """The change; tests that run one of its lines must notice it. Outside of functions, these are all tests."""
    group: int
    """The number of the place, as in ``Groups``."""
    only_if_missed: bool
    """It is needless once a test has noticed a mutant of the place."""
    only_if_noticed: bool
    """It is needless if no test notices when the place is undone, which comes before."""


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
    sees_only_types: bool = False
    """Results that were replaced by others of their type are not noticed."""

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
        missed = sum(result.mutant.operator != _REPLACED for result in self.survivors)
        return self.sees_only_types or (bool(self.only_replaced) and missed >= _LEAST_MISSED)

    @property
    def only_replaced(self) -> list[MutantResult]:
        """Return the results that were replaced as a whole and noticed; none if another change was noticed by value."""
        by_value = [result for result in self.noticed if not result.crashed]
        return by_value if all(result.mutant.operator == _REPLACED for result in by_value) else []


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
    groups: Groups | None = None,
    changes: Sequence[PlaceChange] = (),
    shams: bool = True,
) -> MutationPlan:
    """Choose at most ``count`` mutants of the files on executed lines, with a sham mutant among them.

    ``lines`` restricts mutants to some lines of the files, such as the changed ones; mutants that are ``first`` are
    chosen before others, and ``groups`` says which lines belong together instead of their function: each gets a mutant
    before one gets its second, and the count grows with them. Once a test has noticed one by a value, the others of its
    group are needless. Each of the files in ``compiled`` (see ``RecordedTests``) that is mutated gets a decoy, too. The
    ``changes`` that a test can notice come last; without ``shams``, no sham mutants are there. The same sources, tests
    and ``seed`` give the same plan.
    """
    places = [
        (path, mutant)
        for path, source in sources.items()
        for mutant in mutants_of(path, source)
        if (lines is None or mutant.line in lines.get(path, frozenset())) and not left_out(path, mutant)
    ]
    tests_by_mutant = {(path, mutant): tuple(tests) for path, mutant in places if (tests := tests_of(path, mutant))}
    if groups is not None:
        count = max(count, min(_MOST_GROUPS, len({groups[path].get(mutant.line) for path, mutant in tests_by_mutant})))
    # A few more than needed, because some of them may break the syntax.
    prioritised = {(path, mutant) for path, mutant in tests_by_mutant if first(path, mutant)}
    others = tests_by_mutant.keys() - prioritised
    ordered = [*sample(prioritised, count, seed, groups), *sample(others, 2 * count + 10, seed, groups)]
    chosen = [(path, mutant) for path, mutant in ordered if still_parses(path, sources[path], mutant)][:count]
    unreached = tuple(place for place in places if place not in tests_by_mutant)
    beside_unreached = {(path, mutant.line) for path, mutant in unreached}
    runs: list[PlannedRun] = []
    for path, mutant in chosen:
        group = groups[path].get(mutant.line) if groups is not None else None
        more = len(runs) >= _LEAST_SAMPLE and any(run.group == group for run in runs)
        runs.append(
            PlannedRun(
                path=path,
                mutant=mutant,
                tests=tests_by_mutant[path, mutant],
                group=group,
                only_if_missed=group is not None and more and (path, mutant.line) not in beside_unreached,
            )
        )
    of_places = [
        PlannedRun(
            path=change.path,
            mutant=change.mutant,
            tests=tuple(tests_of(change.path, change.mutant)),
            of_place=True,
            group=change.group,
            only_if_missed=change.only_if_missed,
            only_if_noticed=change.only_if_noticed,
        )
        for change in changes
    ]
    mixed = _with_shams(runs, of_places, sources, seed, compiled) if shams else runs
    return MutationPlan(
        runs=(*mixed, *of_places),
        executed=len(tests_by_mutant),
        total=len(places),
        reached=tests_by_mutant,
        unreached=unreached,
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
    runs: Sequence[PlannedRun],
    of_places: Sequence[PlannedRun],
    sources: Mapping[str, bytes],
    seed: str,
    compiled: Collection[str],
) -> list[PlannedRun]:
    """Put a sham mutant and decoys at random places between the others; each runs all tests that any other run has."""
    paths = sorted({run.path for run in (*runs, *of_places) if run.tests})
    if not paths:
        return []
    generator = random.Random(f"{seed} sham")  # noqa: S311 - reproducible by design
    tests = tuple(sorted({test for run in (*runs, *of_places) for test in run.tests}))
    mixed = list(runs)
    path = generator.choice(paths)
    place = generator.randint(0, len(mixed))
    mixed.insert(place, PlannedRun(path=path, mutant=other_text(path, sources[path], seed), tests=tests, sham=True))
    for path in [path for path in paths if path in compiled][:_MOST_DECOYS]:
        mutant = decoy(sources[path], [run.mutant for run in runs if run.path == path])
        place = generator.randint(0, len(mixed))
        mixed.insert(place, PlannedRun(path=path, mutant=mutant, tests=tests, sham=True, decoy=True))
    return mixed


def unchanged_again(
    runs: Sequence[PlannedRun], results: Iterable[MutantResult], sources: Mapping[str, bytes]
) -> list[PlannedRun]:
    """Return a run, after all others, of the tests that noticed something on code that has not changed.

    A test that counts its runs, or that fails at random, fails there, too. Empty without sham mutants, or if nothing
    was noticed.
    """
    if not any(run.sham for run in runs):
        return []
    tests: set[str] = set()
    for run, result in zip(runs, results, strict=True):
        if result.noticed:
            tests.update(result.killers or run.tests)
    path = runs[0].path
    mutant = same_bytes(sources[path])
    return [PlannedRun(path=path, mutant=mutant, tests=tuple(sorted(tests)), sham=True)] if tests else []


def score(planned: MutationPlan, results: Iterable[MutantResult]) -> MutationScore:
    """Add up the results. Kills by tests that fail on sham mutants do not count."""
    results = list(results)
    shams = [result for result in results if result.sham]
    unreliable = frozenset(test for result in shams for test in result.killers)
    real = [without_kills(result, unreliable) for result in results if not result.sham and not result.of_place]
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


def of_same_type(
    results: Iterable[MutantResult], planned: MutationPlan, sources: Mapping[str, bytes]
) -> list[PlannedRun]:
    """Return runs in which the same results are replaced by others of their type, in languages that can say so."""
    runs = []
    for result in list(results)[:_MOST_OF_SAME_TYPE]:
        mutant = result.mutant
        text = other_value(result.path, sources[result.path][mutant.start : mutant.end])
        if text is not None:
            tests = planned.reached[result.path, mutant]
            runs.append(PlannedRun(path=result.path, mutant=replace(mutant, text=text), tests=tests))
    return runs


def _executed(planned: int, judged: Sequence[MutantResult]) -> int:
    """Return how many mutants are executed, without the share that a runner which knows no lines found not to be."""
    judged_fully = [result for result in judged if result.status is not MutantStatus.PENDING]
    reached = sum(result.status is not MutantStatus.NO_COVERAGE for result in judged_fully)
    return round(planned * reached / len(judged_fully)) if judged_fully else planned


def without_kills(result: MutantResult, unreliable: frozenset[str]) -> MutantResult:
    """Return a result as if ``unreliable`` tests had not run."""
    if result.status is not MutantStatus.KILLED or not unreliable or not result.killers:
        return result
    killers = tuple(test for test in result.killers if test not in unreliable)
    # A run ends at its first failure: what the other tests would have done is not known.
    return result if killers == result.killers else replace(result, killers=killers, status=_status(killers))


def _status(killers: Sequence[str]) -> MutantStatus:
    return MutantStatus.KILLED if killers else MutantStatus.PENDING


def sample(
    mutants: Iterable[tuple[str, Mutant]], count: int, seed: str, lines: Groups | None = None
) -> list[tuple[str, Mutant]]:
    """Return at most ``count`` of the mutants with their files, in the order in which they should be judged.

    Each function, or each group of ``lines``, gets its first mutant before another one gets its second, so that a limit
    of time that ends the judging early leaves an even sample, too. The same mutants and ``seed`` give the same sample.
    """
    groups: dict[tuple[str, str | int | None], list[tuple[str, Mutant]]] = {}
    for path, mutant in sorted(mutants):
        key = mutant.function if lines is None else lines[path].get(mutant.line)
        groups.setdefault((path, key), []).append((path, mutant))
    order = list(groups.values())
    generator = random.Random(seed)  # noqa: S311 - reproducible by design
    generator.shuffle(order)
    for group in order:
        generator.shuffle(group)
    rounds = chain.from_iterable(zip_longest(*order))
    return [chosen for chosen in rounds if chosen is not None][:count]


def identities(path: str, source: bytes, mutants: Iterable[Mutant]) -> dict[Mutant, str]:
    """Return for each of all mutants of a file 12 hexadecimal digits that no other one has.

    They stay the same while the line, its function and the change do. Lines may move: a change elsewhere in the file
    keeps them. The same changes of equal lines in one function are numbered from the top.
    """
    names: dict[Mutant, str] = {}
    numbers: Counter[bytes] = Counter()
    for mutant in sorted(mutants):
        key = _key(path, source, mutant)
        number = numbers[key]
        numbers[key] += 1
        names[mutant] = hashlib.sha256(key + (b"\0%d" % number if number else b"")).hexdigest()[:12]
    return names


def _key(path: str, source: bytes, mutant: Mutant) -> bytes:
    start, end = _lines_around(source, mutant.start, mutant.end)
    return b"\0".join(
        (
            path.encode("utf-8", "surrogateescape"),
            mutant.function.encode("utf-8", "surrogateescape"),
            mutant.operator.encode(),
            source[start : mutant.start].lstrip(),
            source[mutant.start : mutant.end],
            mutant.text,
            source[mutant.end : end].rstrip(),
        )
    )


def as_change(source: bytes, mutant: Mutant) -> tuple[str, str]:
    """Return the changed lines before and after, without their common indentation, at most 300 characters each."""
    start, end = _lines_around(source, mutant.start, mutant.end)
    if end - start > _MOST_CHARACTERS:
        start, end = max(start, mutant.start - _AROUND), min(end, mutant.end + _AROUND)
    before = source[start:end]
    after = source[start : mutant.start] + mutant.text + source[mutant.end : end]
    return _shown(before), _shown(after)


def _lines_around(source: bytes, start: int, end: int) -> tuple[int, int]:
    first = source.rfind(b"\n", 0, start) + 1
    last = source.find(b"\n", end)
    return first, len(source) if last < 0 else last


def _shown(data: bytes) -> str:
    text = data.decode("utf-8", "replace").replace("\r", "")
    lines = text.split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    lines = [line[indent:] for line in lines]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], "…"]
    text = "\n".join(lines)
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"


def dismiss(root: Path, workspace: str, mutants: list[str]) -> None:
    """Add identities of mutants (see ``identities``) of a workspace; errors are those of the disk."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = "".join(f"{json.dumps([workspace, mutant])}\n" for mutant in mutants)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(root / _NAME, flags, 0o600)
    try:
        os.write(descriptor, lines.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def dismissed(root: Path, workspace: str, since: float) -> frozenset[str]:
    """Return the identities of all dismissed mutants of a workspace; what cannot be read is not dismissed.

    None if the file changed after ``since`` (as of ``time.time``): the agent of the result may have written it.
    """
    mutants = set()
    with suppress(OSError):
        if (root / _NAME).lstat().st_ctime >= since:  # unlike mtime, it cannot be set to an earlier time
            return frozenset()
        for line in durable.read_whole(root / _NAME, _LIMIT).splitlines():
            with suppress(ValueError):
                of, mutant = json.loads(line)
                if of == workspace:
                    mutants.add(str(mutant))
    return frozenset(mutants)
