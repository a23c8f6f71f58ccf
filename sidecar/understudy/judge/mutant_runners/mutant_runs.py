"""Run mutants in several copies of the result at the same time, and report the results.

Tests in two copies may disturb each other, by a fixed port or a file in ``/tmp``, and a failure for that reason
must not count as a kill. So the unchanged code runs in all copies at the same time first, and mutants run
one after another if a test does not pass there, if one fails on a sham mutant later, or if a mutant that was killed
survives when it is judged alone.

Stryker's viewers, such as ``mutation-testing-elements``, show such a report. The schema is documented at
https://github.com/stryker-mutator/mutation-testing-elements/tree/master/packages/report-schema.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from understudy.judge.runs.check_run import SpareSlot
from understudy.model.delegation.delegations import Count, CountOf
from understudy.model.errors import UnderstudyError
from understudy.model.evidence.checks import NOTICED, Check, MutantStatus
from understudy.mutants.generate import Mutant
from understudy.mutants.languages.by_suffix import language_of

_LEAST_RUNS = 4
"""Runs that a copy must have to do, at least."""
_REPEATED = 3
"""Kills that are repeated alone."""
_LEAST_RUN_SECONDS = 0.1
"""What one run takes, at least."""
_FOLLOW_UP_SECONDS = 30.0
"""What further runs have at least, all together."""
_SLOWER_AGAIN = 5.0
"""How much slower than before tests may be when they run again on unchanged code after all others."""
_TIMES_LONGER = 3.0
"""How many times longer the fewest mutants may take than the time for all."""
_LONGEST_SECONDS = 180.0
"""The most that this may add up to: a check that takes minutes has more time for all."""

_SOON_SECONDS = 1.5
_MINUTE_SECONDS = 90.0
PROGRESS_SECONDS = 3.0
"""The least time between two messages."""
_PROGRESS_PARTS = 20
"""The most messages: one for each twentieth of the mutants."""
_COUNTED: dict[CountOf, str] = {
    "small_changes": "tried {} of {} small changes",
    "tests": "ran {} of {} tests",
    "places": "undoing {} of {} places",
}


class TellOfCheck(Protocol):
    """Tells the user what is done about a check, with numbers if it is counted."""

    def __call__(self, check: Check, what: str, count: Count | None = None, /) -> None:
        """Pass it on."""
        ...


_THRESHOLDS = {"high": 80, "low": 30}
"""Percentages between which a viewer shows a score as neither good nor bad."""


@dataclass(frozen=True, kw_only=True)
class RecordedTests:
    """One run on the unchanged code."""

    passed: Mapping[str, float]
    """Test id → seconds."""
    failed: frozenset[str]
    lines: Mapping[str, Mapping[str, frozenset[int]]]
    """File (relative to the tree) → test id → executed lines; the empty id has those that run when it is loaded."""
    compiled: frozenset[str] = frozenset()
    """Files that the tests only run by importing them, and whose compiled form the runner can put in place."""
    modules: tuple[str, ...]
    """Modules outside the tree that the tests need."""
    early: bool = False
    """The test runner loads modules of the tree before it looks for tests."""
    seconds: float

    def tests_of(self, path: str, mutant: Mutant) -> list[str]:
        """Return the tests that execute the mutated line, the fastest first. Code that runs at import: all tests."""
        lines = range(mutant.first_line, mutant.last_line + 1)
        by_test = self.lines.get(path, {})
        reached = [test for test, executed in by_test.items() if test and executed.intersection(lines)]
        if not reached and by_test.get("", frozenset()).intersection(lines):
            reached = list(by_test) if mutant.function else list(self.passed)
        return sorted((test for test in reached if test in self.passed), key=lambda test: (self.passed[test], test))


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A mutant with the tests to run on it."""

    path: str
    mutant: Mutant
    tests: tuple[str, ...]
    sham: bool = False
    decoy: bool = False
    """Only the text of the file changes: what runs is the compiled form of the original. Always a sham mutant."""
    to_the_end: bool = False
    """Run all tests, also after one failed. Runs of sham mutants do so anyway."""
    of_tests: bool = False
    """It changes the tests, see ``wrong_expectations``."""
    of_place: bool = False
    """It removes a changed place, or what the place does: no mutant of the sample."""
    group: int | None = None
    """What it belongs to, such as a changed place."""
    only_if_missed: bool = False
    """It is needless once a test has noticed a mutant of its group by a value."""
    only_if_noticed: bool = False
    """It is needless if the run ``of_place`` of its group before it was not noticed."""
    beside: tuple[Mutant, ...] = ()
    """Further changes of the same file, which do not overlap."""


FollowUp = Generator[Sequence[PlannedRun], Sequence["MutantResult"], None]
"""Yields further runs and gets their results."""


@dataclass(frozen=True, kw_only=True)
class MutantRuns:
    """The results of one batch."""

    planned: list[PlannedRun] = field(default_factory=list)
    """The runs without those that were needless."""
    results: list[MutantResult] = field(default_factory=list)
    """Of each of them."""
    kept: bool = False
    """One process served many mutants."""
    copies: int = 0
    """In how many copies of the result they ran at the same time; 0 if none was run."""
    complete: bool = False
    """All planned runs were made."""


class MutantRunner(Protocol):
    """Runs the tests of one check on mutants, in one copy of the result."""

    @property
    def can_keep(self) -> bool:
        """Whether one process can serve many mutants."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether one process serves many mutants now."""
        ...

    async def record(self, files: Sequence[str], *, seconds: float) -> RecordedTests:
        """Run the tests once on the unchanged code and record which lines of ``files`` they execute.

        A runner that cannot tell the lines of single tests gives all tests the lines of the whole run. Raise
        ``tool_crashed`` if the run does not complete within ``seconds``.
        """
        ...

    async def begin(
        self, recorded: RecordedTests, planned: Sequence[PlannedRun], *, seconds: float, keep: bool, warm: bool
    ) -> bool:
        """Run the tests of all ``planned`` on the unchanged code, in the circumstances of a mutant.

        Return whether all of them pass that passed before; if not, nothing can be learned from mutants. ``keep`` lets
        one process serve many mutants. ``warm`` only starts and loads what is kept, so that the next call runs the
        tests at once. ``seconds`` is for this run and all that follow.
        """
        ...

    async def judge(self, run: PlannedRun, *, seconds: float) -> MutantResult:
        """Run the tests of a mutant within ``seconds``, after ``begin``."""
        ...

    async def close(self) -> None:
        """End what is kept between mutants."""
        ...


def pending_result(run: PlannedRun) -> MutantResult:
    """Return the result of a run that was not made."""
    status = MutantStatus.PENDING if run.tests else MutantStatus.NO_COVERAGE
    return MutantResult(path=run.path, mutant=run.mutant, status=status, sham=run.sham, of_place=run.of_place)


@dataclass(frozen=True, kw_only=True)
class MutantResult:
    """One mutant and its result."""

    path: str
    """Its file, relative to the tree."""
    mutant: Mutant
    status: MutantStatus
    killers: tuple[str, ...] = ()
    """The ids of the tests that failed; the run ends at the first."""
    ran: tuple[str, ...] = ()
    """The ids of the tests that ran."""
    crashed: bool = False
    """The tests that failed ran into an error instead of comparing something, as far as the runner can tell: any test
    that executes the line notices that."""
    seconds: float = 0.0
    sham: bool = False
    """It changes nothing that a program does."""
    of_place: bool = False
    """See ``PlannedRun``."""

    @property
    def noticed(self) -> bool:
        """Return whether the tests noticed it."""
        return self.status in NOTICED

    @property
    def viable(self) -> bool:
        """Return whether it counts: it was judged, and could be built."""
        return self.noticed or self.status is MutantStatus.SURVIVED


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One copy of the result with its runner."""

    runner: MutantRunner
    slot: SpareSlot | None = None
    """What it occupies; None: the slot that the delegation has anyway."""

    async def close(self) -> None:
        """End its processes and give its slot back."""
        try:
            await self.runner.close()
        finally:
            if self.slot is not None:
                await asyncio.to_thread(self.slot.close)


def copies_worth_having(runs: int, run_seconds: float, *, copy_seconds: float) -> int:
    """Return how many copies save more time than it takes to make the last of them, if processors are free.

    ``run_seconds`` is what a run takes on average.
    """
    seconds = runs * max(_LEAST_RUN_SECONDS, run_seconds)
    copies = 1
    while runs >= _LEAST_RUNS * (copies + 1) and seconds / copies - seconds / (copies + 1) > copy_seconds:
        copies += 1
    return copies


async def run_mutants(
    lanes: Sequence[Lane],
    recorded: RecordedTests,
    planned: Sequence[PlannedRun],
    *,
    seconds: float,
    fewest: int = 0,
    progress: Progress | None = None,
    follow_up: Callable[[MutantRuns], FollowUp] | None = None,
) -> MutantRuns:
    """Run the tests of all mutants within ``seconds``; what was not reached is ``PENDING``.

    Places that are undone in the same file are undone together first, and in halves while a test notices that. Where
    nothing does, one of which no test noticed a mutant is undone alone, too. ``follow_up`` gets all results and says
    what is run after them, in the process that has loaded everything; it has a little time even if all others needed
    more than they had.

    Until ``fewest`` mutants are judged, that may take three times as long: where the code takes long to load, or
    the machine is busy, the runs on the unchanged code alone can take all of the time.

    The results are in the order of ``planned`` and do not depend on the number of copies. If the tests do not pass on
    the unchanged code in any way, nothing was learned and all results are ``PENDING``. All lanes are closed.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    longer = max(seconds, min(_TIMES_LONGER * seconds, _LONGEST_SECONDS))
    last = loop.time() + (longer if fewest else seconds)
    try:
        for some, keep in _ways(lanes) if any(run.tests for run in planned) else ():
            if loop.time() >= last:
                break
            batch = _Batch(some, recorded, planned, _Deadline(deadline, last, fewest), progress)
            if await batch.begin(keep=keep):
                runs = await batch.run()
                if not batch.disturbed:
                    if follow_up is not None:
                        await batch.go_on(follow_up(runs))
                    return runs
            await together(lane.close() for lane in lanes[1:])
            await lanes[0].runner.close()
    finally:
        await together(lane.close() for lane in lanes)
    runs = MutantRuns(planned=list(planned), results=[pending_result(run) for run in planned])
    if follow_up is not None:
        await _answer(follow_up(runs), _not_made)
    return runs


def _ways(lanes: Sequence[Lane]) -> list[tuple[Sequence[Lane], bool]]:
    """Return in which lanes to run, and whether a process is kept there: the fastest way first."""
    first = lanes[:1]
    keep = first[0].runner.can_keep
    ways = [(lanes, keep), (first, keep), (first, False)]
    return [way for index, way in enumerate(ways) if way not in ways[:index]]


@dataclass(frozen=True)
class _Deadline:
    """When to stop, as times of the event loop."""

    usual: float
    last: float
    """As long as fewer than ``fewest`` mutants are judged."""
    fewest: int


class _Batch:
    """Some lanes that take one run after another from the same queue."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        recorded: RecordedTests,
        planned: Sequence[PlannedRun],
        deadline: _Deadline,
        progress: Progress | None,
    ) -> None:
        self._lanes = lanes
        self._recorded = recorded
        self._planned = planned
        self._deadline = deadline
        self._progress = progress
        self._queue = deque(_items(planned))
        self._results: dict[int, MutantResult] = {}
        self._shown: set[int] = set()
        """Groups of which a test noticed a mutant by a value."""
        self._unnoticed: set[int] = set()
        """Groups that no test noticed when they were undone."""
        self._undoing = 0
        """Lanes in which places are undone."""
        self._decided = asyncio.Event()
        """Such a run is over."""
        self._needless: set[int] = set()
        """Runs that were not made for one of these reasons."""
        self.disturbed = False
        """Something was noticed while several lanes ran, perhaps only because of the others."""

    async def begin(self, *, keep: bool) -> bool:
        """Run the unchanged code in all lanes at the same time; return whether all tests pass in each of them."""
        for warm in (True, False) if len(self._lanes) > 1 else (False,):
            if not all(await together(self._begins(lane, keep=keep, warm=warm) for lane in self._lanes)):
                return False
        return True

    async def run(self) -> MutantRuns:
        """Run all mutants; end early when the lanes disturb each other."""
        await together(self._serve(lane) for lane in self._lanes)
        if not self.disturbed:
            await self._catch_up()
        if len(self._lanes) > 1 and not self.disturbed:
            await self._repeat()
        pending = sum(bool(run.tests) for run in self._planned) - len(self._results) - len(self._needless)
        cut_off = self._left() <= 0 and any(result.status is MutantStatus.PENDING for result in self._results.values())
        needed = [(index, run) for index, run in enumerate(self._planned) if index not in self._needless]
        return MutantRuns(
            planned=[run for _, run in needed],
            results=[self._results.get(index) or pending_result(run) for index, run in needed],
            kept=self._lanes[0].runner.keeps,
            copies=len(self._lanes),
            complete=not pending and not cut_off,
        )

    async def _begins(self, lane: Lane, *, keep: bool, warm: bool) -> bool:
        try:
            return await lane.runner.begin(self._recorded, self._planned, seconds=self._left(), keep=keep, warm=warm)
        except UnderstudyError:
            if len(self._lanes) == 1:
                raise
            return False

    async def _serve(self, lane: Lane) -> None:
        while item := await self._next():
            left = self._left()
            if left <= 0:
                break
            run = self._together(item)
            self._undoing += _is_undone(run)
            try:
                result = await lane.runner.judge(run, seconds=left)
                self._take(item, result)
            finally:
                self._undoing -= _is_undone(run)
                self._decided.set()
            alone = len(self._lanes) == 1
            self.disturbed = self.disturbed or (run.sham and result.noticed and not alone)
            if self.disturbed or (lane.slot is not None and lane.slot.wanted):
                break
        if lane is not self._lanes[0]:
            await lane.close()

    async def _next(self) -> list[int]:
        """Return what to run next, nothing if that is all; wait while another lane finds out what else is needed."""
        while True:
            for _ in range(len(self._queue)):
                item = self._queue.popleft()
                run = self._planned[item[0]]
                if run.only_if_noticed and self._undoing and run.group not in self._unnoticed:
                    self._queue.append(item)
                elif needed := self._needed(item):
                    return needed
            if not self._undoing:
                return []
            self._decided.clear()
            await self._decided.wait()

    def _needed(self, item: Sequence[int]) -> list[int]:
        """Return which runs of an item are needed, and remember those that are not."""
        needed = []
        for index in item:
            run = self._planned[index]
            shown = run.only_if_missed and run.group in self._shown
            if shown or (run.only_if_noticed and run.group in self._unnoticed):
                self._needless.add(index)
            else:
                needed.append(index)
        return needed

    def _together(self, item: Sequence[int]) -> PlannedRun:
        """Return one run in which everything is changed that the runs of an item change."""
        first, *others = (self._planned[index] for index in item)
        if not others:
            return first
        passed = self._recorded.passed
        tests = {test for run in (first, *others) for test in run.tests}
        return replace(
            first,
            tests=tuple(sorted(tests, key=lambda test: (passed.get(test, 0.0), test))),
            beside=tuple(run.mutant for run in others),
        )

    def _take(self, item: list[int], result: MutantResult) -> None:
        if len(item) > 1 and result.status is not MutantStatus.SURVIVED:
            half = len(item) // 2
            self._queue.extendleft([item[half:], item[:half]])
            return
        if len(item) > 1:
            # Two places can hide each other. Of one with a mutant that is noticed, what it replaces says more.
            alone = [index for index in item if self._planned[index].group not in self._shown]
            self._queue.extendleft([index] for index in reversed(alone))
            item = [index for index in item if index not in alone]
        for index in item:
            run = self._planned[index]
            self._results[index] = replace(result, path=run.path, mutant=run.mutant)
            by_value = result.status is MutantStatus.KILLED and not result.crashed
            if run.group is not None and by_value and not run.sham and not run.of_place:
                self._shown.add(run.group)
            if run.group is not None and run.of_place and result.status is MutantStatus.SURVIVED:
                self._unnoticed.add(run.group)
            if self._progress is not None:
                self._progress.ran(run, self._results[index])
                self._progress.judged(*self._count())

    async def _catch_up(self) -> None:
        """Judge the sham mutants that were not reached: without them, kills may be those of tests that always fail."""
        for index, run in enumerate(self._planned):
            result = self._results.get(index)
            if not run.sham or not run.tests or (result is not None and result.status is not MutantStatus.PENDING):
                continue
            left = self._deadline.last - asyncio.get_running_loop().time()
            if left <= 0:
                return
            self._results[index] = await self._lanes[0].runner.judge(run, seconds=left)

    async def go_on(self, further: FollowUp) -> None:
        """Make further runs, in the first lane."""
        last = max(self._deadline.last, asyncio.get_running_loop().time() + _FOLLOW_UP_SECONDS)

        async def judge(run: PlannedRun) -> MutantResult:
            left = last - asyncio.get_running_loop().time()
            if run.sham:
                expected = sum(self._recorded.passed.get(test, 0.0) for test in run.tests)
                left = max(left, _SLOWER_AGAIN * expected)
            if left <= 0 or not run.tests:
                return pending_result(run)
            return await self._lanes[0].runner.judge(run, seconds=left)

        await _answer(further, judge)

    async def _repeat(self) -> None:
        """Repeat some kills alone: if many were due to the other lanes, one of these mutants survives now."""
        judged = self._results.items()
        kills = [index for index, result in judged if result.status is MutantStatus.KILLED and not result.crashed]
        for index in random.SystemRandom().sample(kills, min(len(kills), _REPEATED)):
            left = self._left()
            if left <= 0:
                return
            again = await self._lanes[0].runner.judge(self._planned[index], seconds=left)
            self.disturbed = self.disturbed or again.status is MutantStatus.SURVIVED

    def _count(self) -> tuple[int, int]:
        """Return how many runs were judged that count, and how many there are; without sham mutants."""
        judged = sum(
            not self._planned[index].sham and result.status is not MutantStatus.PENDING
            for index, result in self._results.items()
        )
        return judged, sum(
            bool(run.tests) and not run.sham and index not in self._needless for index, run in enumerate(self._planned)
        )

    def _left(self) -> float:
        judged, planned = self._count()
        enough = judged >= min(self._deadline.fewest, planned)
        return (self._deadline.usual if enough else self._deadline.last) - asyncio.get_running_loop().time()


async def _answer(further: FollowUp, judge: Callable[[PlannedRun], Awaitable[MutantResult]]) -> None:
    """Make the runs that are asked for, one after another, until no more are."""
    with contextlib.suppress(StopIteration):
        runs = next(further)
        while True:
            runs = further.send([await judge(run) for run in runs])


async def _not_made(run: PlannedRun) -> MutantResult:
    return pending_result(run)


def _items(planned: Sequence[PlannedRun]) -> list[list[int]]:
    """Return the indices of what is run, in its order: places of one file that can be undone together are one item."""
    items: list[list[int]] = []
    of_file: dict[str, list[int]] = {}
    for index, run in enumerate(planned):
        if not run.tests:
            continue
        item = of_file.get(run.path)
        if not run.of_place or run.only_if_noticed:
            items.append([index])
        elif item is None or any(_overlap(run.mutant, planned[other].mutant) for other in item):
            of_file[run.path] = [index]
            items.append(of_file[run.path])
        else:
            item.append(index)
    return items


def _is_undone(run: PlannedRun) -> bool:
    return run.of_place and not run.only_if_noticed


def _overlap(first: Mutant, second: Mutant) -> bool:
    return first.start == second.start or (first.start < second.end and second.start < first.end)


async def together(coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run coroutines at the same time and return their results; if one raises or is cancelled, end the others."""
    tasks: list[asyncio.Task[Any]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


class Progress:
    """Passes counts to ``tell`` now and then, each with a text that says the same."""

    def __init__(
        self,
        tell: Callable[[str, Count], None],
        ran: Callable[[PlannedRun, MutantResult], None] = lambda _run, _result: None,
        *,
        of: CountOf = "small_changes",
        run: str = "",
    ) -> None:
        """Start the time; ``ran`` gets each run, which a later one may show to prove nothing.

        ``run`` says which of several runs of the same tests or mutants is counted.
        """
        self._tell = tell
        self._of = of
        self._run = run
        self.ran = ran
        self._began: float | None = None
        self._told_at = time.monotonic()
        self._told = 0

    def judged(self, done: int, total: int) -> None:
        """Take note of the number of judged mutants, or tests, of ``total``; the last one needs no message."""
        now = time.monotonic()
        if self._began is None:
            self._began = now  # with the first of them, because what is before it is loaded only once
        if done < total and now - self._told_at >= PROGRESS_SECONDS and (done - self._told) * _PROGRESS_PARTS >= total:
            self._told_at, self._told = now, done
            left = (now - self._began) / max(1, done - 1) * (total - done)
            self._tell(*counted(self._of, done, total, left, self._run))


def counted(of: CountOf, number: int, total: int, left: float, run: str = "") -> tuple[str, Count]:
    """Return how far a step is as a text and as numbers; ``left`` is how long the rest takes, in seconds."""
    text = f"{_COUNTED[of].format(f'{number:,}', f'{total:,}')}{run and f' ({run})'}{about(left)}"
    seconds = round(left, 1) if left >= _SOON_SECONDS else None
    return text, Count(of=of, done=number, total=total, run=run, seconds_left=seconds)


def about(seconds: float) -> str:
    """Return how long something takes, for the end of a message; nothing if it is over at once."""
    if seconds < _SOON_SECONDS:
        return ""
    if seconds < _MINUTE_SECONDS:
        return f", about {round(seconds)} s"
    return f", about {round(seconds / 60)} min"


def report(
    results: Iterable[MutantResult],
    sources: Mapping[str, bytes],
    covered_by: Mapping[tuple[str, Mutant], Iterable[str]],
) -> dict[str, Any]:
    """Return the report of all mutants except the sham ones, with the sources of their files.

    ``covered_by`` has the ids of the tests that execute each mutant.
    """
    files: dict[str, dict[str, Any]] = {}
    tests: dict[str, set[str]] = {}
    mutants = (result for result in results if not result.sham and not result.of_place)
    for number, result in enumerate(mutants):
        covering = sorted(covered_by.get((result.path, result.mutant), ()))
        for test in {*covering, *result.killers}:
            tests.setdefault(test.partition("::")[0], set()).add(test)
        file = files.setdefault(result.path, _file(result.path, sources[result.path]))
        file["mutants"].append(_mutant(str(number), result, sources[result.path], covering))
    return {
        "schemaVersion": "2.0",
        "thresholds": _THRESHOLDS,
        "files": files,
        "testFiles": {
            path: {"tests": [{"id": test, "name": test.partition("::")[2] or test} for test in sorted(of_file)]}
            for path, of_file in sorted(tests.items())
        },
        "framework": {"name": "Understudy"},
    }


def _file(path: str, source: bytes) -> dict[str, Any]:
    language = language_of(path)
    return {
        "language": language.name if language is not None else "",
        "source": source.decode("utf-8", "replace"),
        "mutants": [],
    }


def _mutant(number: str, result: MutantResult, source: bytes, covering: list[str]) -> dict[str, Any]:
    mutant = result.mutant
    return {
        "id": number,
        "mutatorName": mutant.operator,
        "location": {"start": _position(source, mutant.start), "end": _position(source, mutant.end)},
        "replacement": mutant.text.decode("utf-8", "replace"),
        "status": result.status.value,
        "coveredBy": covering,
        "killedBy": list(result.killers),
        "testsCompleted": len(result.ran),
        "duration": round(result.seconds * 1000),
    }


def _position(source: bytes, at: int) -> dict[str, int]:
    """Return the line and column of a byte, both from 1, the column in characters."""
    line_start = source.rfind(b"\n", 0, at) + 1
    column = len(source[line_start:at].decode("utf-8", "replace")) + 1
    return {"line": source.count(b"\n", 0, at) + 1, "column": column}
