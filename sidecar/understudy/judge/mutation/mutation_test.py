"""Mutation-test one check of a result: find out which small changes of the code its tests notice."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import itertools
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from understudy.judge.injected.understudy_tree import CopiedTree
from understudy.judge.mutant_runners import mutant_runs
from understudy.judge.mutant_runners.check_mutants import CheckMutants, limited
from understudy.judge.mutant_runners.mutant_runs import (
    FollowUp,
    Lane,
    MutantResult,
    MutantRunner,
    MutantRuns,
    PlannedRun,
    Progress,
    RecordedTests,
    copies_worth_having,
    run_mutants,
    together,
)
from understudy.judge.mutant_runners.python_tests import PytestRunner, TestEnvironment
from understudy.judge.mutation import planning, wrong_expectations
from understudy.judge.mutation.confirmation import OWN_FOLDERS, Confirmation, confirm
from understudy.judge.mutation.planning import MutantSample, MutationPlan, MutationScore, as_change, identities
from understudy.judge.mutation.repaired_tests import RepairedTests
from understudy.judge.mutation.repeated_calls import differing_calls, record_calls
from understudy.judge.mutation.varied_runs import VariedTests
from understudy.judge.mutation.wrong_expectations import WrongExpectations, executing
from understudy.judge.outcomes.observations import printable
from understudy.judge.project import interpreter
from understudy.judge.runs.check_run import CheckContext, CheckOutcome, environment_of, working_folder
from understudy.judge.runs.judged_tree import copies_that_fit, copy_tree
from understudy.judge.runs.runner_registry import RUNNERS, PreparedCheck
from understudy.model.errors import UnderstudyError
from understudy.model.evidence.checks import (
    LEAST_SECONDS,
    CodePlace,
    Evidence,
    JudgedMutant,
    MutantStatus,
    MutationResult,
)
from understudy.model.text.path_quoting import quote
from understudy.mutants.generate import Mutant, mutants_of
from understudy.process.program_spec import processors

_MOST_SHOWN = 60
MOST_TESTS = 100
"""Most tests that a result names as idle."""
_MOST_KILLERS = 3
_FURTHER_RUNS = (4, 12)
"""How many more mutants a test that noticed nothing runs on before it is called idle: first these, then those."""
_RUNS_OF_A_COPY = 3.0
"""What a further copy costs, in runs of the tests: loading, the unchanged code, and kills that are repeated alone."""
_LEAST_SAVED_SECONDS = 5.0
"""What a further copy must save, because it takes processor time from everything else."""
_SLOWER_RECORD = 10.0
"""Recording lines may make a run this much slower."""
_LEAST_RECORD_SECONDS = 60.0
_SLOWER = 10.0
_LEAST_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class MutationRequest:
    """What to mutate, and whose tests must notice it."""

    plan: PreparedCheck
    passed: frozenset[str]
    """The ids of the tests that passed in a run of the check."""
    seconds: float
    """How long that run took."""
    context: CheckContext
    """Its tree is exactly the result; it is copied, and stays as it is."""
    sources: Mapping[str, bytes]
    """The files to mutate, as they are in the result."""
    lines: Mapping[str, frozenset[int]] | None = None
    """The lines to mutate; None: those that the tests execute."""
    counted: frozenset[str] | None = None
    """The ids of the tests that count; None: all."""
    groups: planning.Groups | None = None
    """Which lines belong together: each group is judged with at least one mutant; None: the functions."""
    only_executed: bool = False
    """Leave out files that no test executes, as if they were not among ``sources``."""
    seed: str
    """The same seed chooses the same mutants: the id of the result's tree."""
    evidence: Evidence
    dismissed: frozenset[str] = frozenset()
    """Identities of mutants that do not count."""
    sample: MutantSample | None = None
    """Mutants to judge before others, and the seed to use instead."""
    only: frozenset[str] | None = None
    """Identities of the mutants to judge; None: a sample of all."""
    killers: Mapping[str, str] = field(default_factory=dict)
    """Identities of mutants, each with a test that noticed it before: only this one runs."""
    finds_idle: bool = True
    """Look for further mutants that tests notice which noticed none of the sample."""
    deadline: float | None = None
    """When all must be over, as a time of the event loop; None: as ``evidence`` says, from when lines are recorded."""
    changes: tuple[planning.PlaceChange, ...] = ()
    """What is tried beside mutants, if the runner knows which tests run a line."""
    recorded: RecordedTests | None = None
    """Which lines the tests execute, if that is known; None: it is found out."""
    trusted: bool = False
    """No agent wrote these tests: neither sham mutants nor a fresh clone are needed."""
    also_loaded: tuple[str, ...] = ()
    """Test files that are loaded beside those of the tests that count: loading them can change what others do."""
    fewest: int = 0
    """Mutants to judge even if that takes up to three times as long as all of them may take."""
    progress: Progress | None = None
    """Gets each run that was judged, and how many there are."""
    test_files: tuple[str, ...] = ()
    """Files whose tests must notice wrong expectations, too, if they execute ``lines``."""
    base: Mapping[str, bytes | None] | None = None
    """The base's content of the changed files: calls that tests make are repeated elsewhere. None: they are not."""
    new_among: Callable[[Iterable[str]], Iterable[str]] = frozenset
    """Return those of some tests that the base does not have; all by default."""


@dataclass(frozen=True, kw_only=True)
class MutationOutcome:
    """What the tests noticed."""

    result: MutationResult | None = None
    """None if nothing could be judged, for the reason in ``why``."""
    why: str = ""
    score: MutationScore | None = None
    flaky: frozenset[str] = frozenset()
    """Tests that failed on the very same bytes."""
    judged: tuple[JudgedMutant, ...] = ()
    """All mutants of the sample, whatever became of them; with ``only``, also those that no test executes."""
    unreached: tuple[tuple[str, Mutant], ...] = ()
    """The files and mutants that no test executes, as far as the runner can tell."""
    recorded: RecordedTests | None = None
    """Which lines the tests execute, if the runner knows the lines of each test."""
    of_places: tuple[tuple[PlannedRun, MutantResult], ...] = ()
    """What the ``changes`` showed that were tried."""
    unconfirmed: tuple[JudgedMutant, ...] = ()
    """Killed mutants on which the check passes when it runs by its plain command in a fresh clone."""
    in_fresh_clone: CheckOutcome | None = None
    """How the plain command of the check ended in a fresh clone of the result; if it failed, no kill is confirmed."""
    looks_at_source: bool = False
    """There, it fails when only the text of the code changes."""
    indifferent: tuple[str, ...] = ()
    """Places in tests, as ``path:line``, that decide nothing: see ``wrong_expectations``."""
    differing: tuple[str, ...] = ()
    """Calls that give another result in a test than elsewhere: see ``repeated_calls``."""
    only_answered: tuple[str, ...] = ()
    """What makes earlier tests pass that is not what the code does, as sentences: see ``repaired_tests``."""
    untried: tuple[str, ...] = ()
    """What could not be found out about earlier tests that the result repairs."""
    besides: float = 0.0
    """The seconds that this took, which are not part of the time for evidence of places."""
    report: dict[str, Any] = field(default_factory=dict)
    """The report that Stryker's viewers show."""
    seconds: float = 0.0


async def mutation_test(request: MutationRequest) -> MutationOutcome:
    """Run the tests of a check that passed on mutants of the result's code, in a copy of the result.

    The outcome says why if nothing could be judged. Cancellation ends all processes; the copy is removed.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=request.context.scratch))
    try:
        outcome = await _judge(request, await asyncio.to_thread(_copied, request.context, folder))
    except UnderstudyError as error:
        outcome = MutationOutcome(why=f"{error.message} {error.hint or ''}".strip().rstrip("."))
    except OSError as error:
        outcome = MutationOutcome(why=f"no copy of the result could be made ({error.strerror or error})")
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    seconds = round(loop.time() - began, 3)
    if outcome.result is not None:
        outcome.result.seconds = seconds
    return dataclasses.replace(outcome, seconds=seconds)


@dataclass(frozen=True, kw_only=True)
class _Copy:
    """A copy of the result, in a folder of its own."""

    context: CheckContext
    """The copy as a tree, with its own scratch folder."""
    state: CopiedTree
    size: int
    """Bytes."""
    seconds: float
    """How long it took to make."""


def _copied(context: CheckContext, parent: Path) -> _Copy:
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(dir=parent))
    tree = folder / context.tree.name
    size = copy_tree(context.tree, tree)
    plan, shadows = context.plan, context.shadows
    if context.facts is not None:
        plan = interpreter.import_locations(context.facts, context.workspace, tree)
        shadows = interpreter.write_shadows(plan, folder / "shadows")
    scratch = folder / "scratch"
    scratch.mkdir()
    return _Copy(
        context=dataclasses.replace(context, tree=tree, scratch=scratch, plan=plan, shadows=shadows),
        state=CopiedTree(str(tree), str(context.tree)),
        size=size,
        seconds=time.monotonic() - began,
    )


async def _judge(request: MutationRequest, first: _Copy) -> MutationOutcome:
    runner = _runner(request, first)
    lanes = [Lane(runner=runner)]
    try:
        return await _judge_in(request, first, lanes)
    finally:
        await together(lane.close() for lane in lanes)


async def _judge_in(request: MutationRequest, first: _Copy, lanes: list[Lane]) -> MutationOutcome:
    loop = asyncio.get_running_loop()
    check_seconds = request.seconds
    knows_lines = isinstance(lanes[0].runner, PytestRunner)
    recorded = request.recorded if knows_lines else None
    if recorded is None:
        recorded = await _recorded(request, lanes)
    deadline = request.deadline
    if deadline is None:
        deadline = loop.time() + request.evidence.seconds_for(check_seconds)
    elif request.evidence.seconds is None:
        deadline = max(deadline, loop.time() + LEAST_SECONDS)  # it was slow to record lines
    recorded = _counted(recorded, request.counted)
    if not recorded.passed and request.only is None:
        return MutationOutcome(why="its tests do not pass in a copy of the result")
    sources = dict(request.sources)
    if request.only_executed:
        sources = {path: source for path, source in sources.items() if recorded.lines.get(path)}
    names = _Names(sources, request)
    planned = planning.plan(
        sources,
        recorded.tests_of,
        count=request.evidence.mutants_for(check_seconds),
        seed=request.seed if request.sample is None else request.sample.seed,
        lines=request.lines,
        left_out=names.is_left_out,
        compiled=recorded.compiled,
        groups=request.groups,
        changes=request.changes if knows_lines else (),
        shams=not request.trusted,
        first=names.among(request.sample.identities if request.sample is not None else frozenset()),
    )
    if request.killers:
        planned = dataclasses.replace(planned, runs=tuple(names.with_killer(run) for run in planned.runs))
    lengths = [sum(recorded.passed.get(test, 0.0) for test in run.tests) for run in planned.runs if run.tests]
    costs = first.seconds + _RUNS_OF_A_COPY * recorded.seconds + _LEAST_SAVED_SECONDS
    count = copies_worth_having(len(lengths), sum(lengths) / max(1, len(lengths)), copy_seconds=costs)
    await _resize(request, first, lanes, count)
    evaluation = _Evaluation(
        request,
        planned,
        sources,
        await asyncio.to_thread(_expectations, request, first, recorded),
        score=planning.score(planned, ()),
    )
    left = max(0.0, deadline - loop.time())
    runs = await run_mutants(
        lanes,
        recorded,
        # Early: a lie must not stay hidden because the time for all mutants was over.
        [*planned.runs[:1], *(some.run for some in evaluation.wrong), *planned.runs[1:]],
        seconds=left,
        fewest=request.fewest,
        progress=request.progress,
        follow_up=evaluation.follow_up,
    )
    score, results = evaluation.score, evaluation.results
    result = _as_result(request, planned, score, names)
    unreached = _unreached(planned, results)
    lines = sorted({(path, mutant.line) for path, mutant in unreached})[:_MOST_SHOWN]
    result.unexecuted = [CodePlace(path=quote(os.fsencode(path)), line=line) for path, line in lines]
    if not runs.complete and planned.runs:
        result.unfinished = _why_unfinished(evaluation.runs, results)
    of_places = tuple((run, tried) for run, tried in zip(evaluation.runs, results, strict=True) if run.of_place)
    differing = await _differing_calls(request, first, lanes[0].runner, recorded.seconds)
    began = loop.time()
    lines_with_effect = evaluation.lines_with_effect(of_places)
    only_answered, untried = await _only_answered(request, first, lanes[0].runner, recorded, lines_with_effect)
    besides = loop.time() - began
    confirmation = await _confirmation(request, first, evaluation.tests_of_kills(of_places))
    covered = {(run.path, run.mutant): run.tests for run in planned.runs}
    return MutationOutcome(
        result=result,
        score=score,
        flaky=_failed_on_same_bytes((*results, *evaluation.shams)),
        judged=tuple(_judged(results, names)),
        unreached=unreached,
        recorded=recorded if knows_lines else None,
        of_places=of_places,
        unconfirmed=tuple(_as_mutant(mutant, names) for mutant in confirmation.unconfirmed),
        in_fresh_clone=confirmation.unchanged,
        looks_at_source=confirmation.looks_at_source,
        indifferent=tuple(sorted(evaluation.indifferent)),
        differing=tuple(differing),
        only_answered=tuple(only_answered),
        untried=tuple(untried),
        besides=besides,
        report=mutant_runs.report(results, sources, covered),
    )


class _Evaluation:
    """What the runs show, and what must run after the mutants because of it."""

    def __init__(
        self,
        request: MutationRequest,
        planned: MutationPlan,
        sources: Mapping[str, bytes],
        expectations: WrongExpectations | None,
        *,
        score: MutationScore,
    ) -> None:
        self._request = request
        self._planned = planned
        self._sources = sources
        self._expectations = expectations
        self.wrong = expectations.runs(request.seed) if expectations is not None else []
        """Runs of tests that expect something else."""
        self.indifferent = set(expectations.replaced() if expectations is not None else ())
        self.runs: list[PlannedRun] = []
        """All runs on the sample, without those that were needless."""
        self.results: list[MutantResult] = []
        """Of each of them."""
        self.shams: list[MutantResult] = []
        """Of the unchanged code after all of them."""
        self.score = score

    def follow_up(self, runs: MutantRuns) -> FollowUp:
        """Take what was found out; yield what is to be run then."""
        request, planned = self._request, self._planned
        tried = list(zip(runs.planned, runs.results, strict=True))
        of_wrong = [result for run, result in tried if run.of_tests]
        self.runs = [run for run, _ in tried if not run.of_tests]
        self.results = [result for run, result in tried if not run.of_tests]
        again = planning.unchanged_again(self.runs, self.results, self._sources)
        self.shams += yield again
        if any(sham.status is MutantStatus.PENDING for sham in self.shams):
            # These tests took so much longer than before that it is not known whether they still pass.
            unknown = frozenset(again[0].tests)
            self.results = [planning.without_kills(result, unknown) for result in self.results]
        self.score = planning.score(planned, (*self.results, *self.shams))
        if typed := planning.of_same_type(self.score.only_replaced, planned, self._sources):
            results = yield typed
            missed = all(result.status is MutantStatus.SURVIVED for result in results)
            self.score = dataclasses.replace(self.score, sees_only_types=missed)
        if self._expectations is not None and (controls := self._expectations.controls(self.wrong, of_wrong)):
            results = yield [some.run for some in controls]
            self.indifferent.update(wrong_expectations.indifferent(controls, results))
        of_all = request.lines is None and request.only is None and request.sample is None
        if not (request.finds_idle and of_all):
            return
        results = list(self.results)
        for per_test in _FURTHER_RUNS if self.score.killed else ():
            further = planning.further_runs(planned, results, self.score.idle, per_test=per_test, seed=request.seed)
            if not further.runs:
                break
            more = yield further.runs
            self.score = planning.without_busy(self.score, further, more)
            results += more

    def lines_with_effect(
        self, of_places: Sequence[tuple[PlannedRun, MutantResult]]
    ) -> Mapping[str, frozenset[int]] | None:
        """Return the changed lines without those of places that no test notices when they are as in the base."""
        request = self._request
        lines, groups = request.lines, request.groups
        judged = {change.path for change in request.changes}
        if lines is None or groups is None or not judged.union(request.test_files).issuperset(request.base or ()):
            return lines
        undone = ((run.group, result.status) for run, result in of_places if not run.only_if_noticed)
        survived = {group for group, status in undone if status is MutantStatus.SURVIVED}
        return {
            path: frozenset(line for line in numbers if groups.get(path, {}).get(line) not in survived)
            for path, numbers in lines.items()
        }

    def tests_of_kills(self, of_places: Iterable[tuple[PlannedRun, MutantResult]]) -> dict[MutantResult, int]:
        """Return the kills, each with the number of tests that run the changed line."""
        tests = {(run.path, run.mutant): len(run.tests) for run in self.runs}
        kills = (*self.score.noticed, *(result for _, result in of_places))
        return {kill: tests[kill.path, kill.mutant] for kill in kills if kill.status is MutantStatus.KILLED}


def _expectations(request: MutationRequest, first: _Copy, recorded: RecordedTests) -> WrongExpectations | None:
    if request.lines is None or not request.test_files:
        return None
    return WrongExpectations(first.context.tree, request.test_files, recorded, request.lines)


async def _differing_calls(request: MutationRequest, first: _Copy, runner: MutantRunner, seconds: float) -> list[str]:
    """Return the calls of tests that give another result elsewhere; none if nothing in Python is changed."""
    is_python = any(path.endswith(".py") for path in request.sources)
    if request.base is None or not is_python or first.context.facts is None or request.plan.check.hidden:
        return []
    seconds = max(_LEAST_SECONDS, _SLOWER * seconds)
    if isinstance(runner, PytestRunner):
        calls = runner.calls
    else:
        calls = await record_calls(request.plan, first.context, request.test_files, seconds=seconds)
        await asyncio.to_thread(first.state.reset)
    if calls is None:
        return []
    return await differing_calls(request.plan, first.context, calls, request.base, seconds=seconds)


async def _only_answered(
    request: MutationRequest,
    first: _Copy,
    runner: MutantRunner,
    recorded: RecordedTests,
    lines: Mapping[str, frozenset[int]] | None,
) -> tuple[list[str], list[str]]:
    """Return what makes repaired tests pass that is not what the code does, and what could not be found out.

    Only tests that run one of ``lines`` can be repaired.
    """
    if request.base is None or lines is None or request.plan.check.hidden:
        return [], []
    executed = executing(recorded, lines)
    tests = frozenset(executed).difference(await asyncio.to_thread(request.new_among, executed))
    seconds = max(_LEAST_SECONDS, _SLOWER * recorded.seconds)
    base, test_files = request.base, request.test_files
    if isinstance(runner, PytestRunner):
        repaired = RepairedTests(
            tests, runner, request.plan, first.context, base=base, test_files=test_files, seconds=seconds
        )
        return await repaired.conclude(), []
    if not isinstance(runner, CheckMutants):
        return [], []
    others = runner.in_copy(first.context, first.state)
    varied = VariedTests(tests, others, base=base, test_files=test_files, seconds=seconds)
    return await varied.conclude(request.evidence.seconds_for(request.seconds)), varied.untried


async def _confirmation(request: MutationRequest, first: _Copy, kills: Mapping[MutantResult, int]) -> Confirmation:
    """Try some of the kills in a fresh clone, by the plain command of the check.

    ``kills`` have the number of tests that run them.
    """
    if request.only is not None or request.trusted or not kills:
        return Confirmation()
    # Those that tests noticed by a value say most: the code itself fails on others.
    by_value = [kill for kill in kills if not kill.crashed] or list(kills)
    chosen = random.SystemRandom().sample(by_value, len(by_value))
    # Each test that fails takes time: of two, the one that fewer tests run comes first.
    chosen = [min(chosen[at : at + 2], key=lambda kill: kills[kill]) for at in range(0, len(chosen), 2)]
    chosen += [kill for kill in by_value if kill not in chosen]
    check = limited(request.plan, max(_LEAST_SECONDS, _SLOWER * request.seconds))
    copied = await asyncio.to_thread(_copied, request.context, first.context.scratch.parent.parent)
    return await confirm(check, copied.context, request.context.tree, chosen)


async def _recorded(request: MutationRequest, lanes: list[Lane]) -> RecordedTests:
    """Record which lines the tests execute; meanwhile, start the process that mutants need."""
    runner = lanes[0].runner
    seconds = max(_LEAST_RECORD_SECONDS, _SLOWER_RECORD * request.seconds)
    test_files = [path for path in request.test_files if path.endswith(".py")][: wrong_expectations.MOST_PARSED]
    files = list(dict.fromkeys([*request.sources, *test_files]))
    if request.deadline is not None:
        seconds = max(_LEAST_RECORD_SECONDS, min(seconds, request.deadline - asyncio.get_running_loop().time()))
    if not isinstance(runner, PytestRunner):
        return await runner.record(files, seconds=seconds)
    recorded: RecordedTests
    recorded, _ = await together([runner.record(files, seconds=seconds), runner.start()])
    return recorded


async def _resize(request: MutationRequest, first: _Copy, lanes: list[Lane], count: int) -> None:
    """Make it ``count`` copies with their runners, as many as processors, slots and the disk allow."""
    while len(lanes) > max(1, count):
        await lanes.pop().close()
    runner = lanes[0].runner
    parent = first.context.scratch.parent.parent
    most = request.evidence.max_copies or processors()
    count = min(count, most, copies_that_fit(first.size, parent) + 1)
    spare_slot = request.context.spare_slot
    while len(lanes) < count and spare_slot is not None:
        slot = await asyncio.to_thread(spare_slot)
        if slot is None:
            break
        with contextlib.ExitStack() as until_used:
            until_used.callback(slot.close)
            try:
                copied = await asyncio.to_thread(_copied, request.context, parent)
            except OSError:
                break  # the disk is full
            if isinstance(runner, CheckMutants):
                lanes.append(Lane(runner=runner.in_copy(copied.context, copied.state), slot=slot))
            else:
                lanes.append(Lane(runner=_runner(request, copied), slot=slot))
            until_used.pop_all()


def _runner(request: MutationRequest, copied: _Copy) -> CheckMutants | PytestRunner:
    plan, passed, context = request.plan, request.passed, copied.context
    folder = working_folder(plan.check, context.tree)
    # The files of a hidden check are in the tree only while the check itself runs.
    if context.facts is not None and passed and not plan.check.hidden and all("::" in test for test in passed):
        files = {test.partition("::")[0] for test in passed}
        counts = {base: sum((base / file).is_file() for file in files) for base in (folder, context.tree)}
        base = max(counts, key=lambda candidate: counts[candidate])
        files = {file for file in files if (base / file).is_file()}
        if files:
            where = TestEnvironment(
                python=context.facts.executable,
                environment=environment_of(plan.check, context),
                tree=context.tree,
                original=request.context.tree,
                folder=folder,
                tests_in=base,
                scratch=context.scratch,
                temporary=context.temporary,
                own_folders=tuple(name for name in OWN_FOLDERS if name not in (plan.check.env or {})),
                mark=context.mark,
                limits=context.limits,
                options=tuple(_options_for_examples(plan.check.argv)),
                also_loaded=tuple(os.path.relpath(context.tree / file, base) for file in request.also_loaded),
            )
            calls = context.scratch / "calls" if request.base is not None else None
            return PytestRunner(where, sorted(files), calls=calls, test_files=request.test_files)
    runner = runner_for(plan, context)
    runner.copied = copied.state
    return runner


def _options_for_examples(argv: Sequence[str]) -> Iterator[str]:
    """Yield the options with which a check makes pytest run examples in docstrings and texts."""
    for option, value in itertools.zip_longest(argv, argv[1:], fillvalue=""):
        if option.startswith("--doctest-"):
            # The only ones with a value, which may be a word of its own.
            has_value = option in {"--doctest-glob", "--doctest-report"}
            yield f"{option}={value}" if has_value else option


def _counted(recorded: RecordedTests, counted: frozenset[str] | None) -> RecordedTests:
    """Return the record without tests that do not count."""
    if counted is None:
        return recorded
    return dataclasses.replace(
        recorded, passed={test: spent for test, spent in recorded.passed.items() if test in counted}
    )


class _Names:
    """Identities of mutants, and which of them were dismissed."""

    def __init__(self, sources: Mapping[str, bytes], request: MutationRequest) -> None:
        self._sources = sources
        self._identities: dict[str, dict[Mutant, str]] = {}
        self._dismissed = request.dismissed
        self._only = request.only
        self._killers = request.killers
        self.wanted: list[tuple[str, Mutant]] = []
        """With ``only``: the mutants to judge."""
        self.left_out = 0

    def of(self, path: str, mutant: Mutant) -> str:
        if path not in self._identities:
            source = self._sources[path]
            self._identities[path] = identities(path, source, mutants_of(path, source))
        return self._identities[path][mutant]

    def with_killer(self, run: PlannedRun) -> PlannedRun:
        """Return a run that ends with the test that noticed its mutant before, if that is known.

        The tests before it run, too: one that fails whenever it runs alone would seem to notice everything.
        """
        killer = "" if run.sham else self._killers.get(self.of(run.path, run.mutant), "")
        if killer not in run.tests:
            return run
        return dataclasses.replace(run, tests=run.tests[: run.tests.index(killer) + 1])

    def change(self, path: str, mutant: Mutant) -> tuple[str, str]:
        return as_change(self._sources[path], mutant)

    def among(self, identities: frozenset[str]) -> Callable[[str, Mutant], bool]:
        return lambda path, mutant: bool(identities) and self.of(path, mutant) in identities

    def is_left_out(self, path: str, mutant: Mutant) -> bool:
        if self._only is not None:
            selected = self.of(path, mutant) in self._only
            if selected:
                self.wanted.append((path, mutant))
            return not selected
        dismissed = bool(self._dismissed) and self.of(path, mutant) in self._dismissed
        self.left_out += dismissed
        return dismissed


def _as_result(
    request: MutationRequest,
    planned: MutationPlan,
    score: MutationScore,
    names: _Names,
) -> MutationResult:
    return MutationResult(
        scope="files" if request.lines is None else "changes",
        killed=score.killed,
        viable=score.viable,
        stuck=sum(mutant.status is MutantStatus.TIMEOUT for mutant in score.noticed),
        blind=score.blind,
        executed=score.executed,
        total=planned.total,
        dismissed=names.left_out,
        mutants=[_as_mutant(mutant, names) for mutant in (*score.survivors, *score.noticed)[:_MOST_SHOWN]],
        idle=[printable(test) for test in score.idle[:MOST_TESTS]],
        unreliable=[printable(test) for test in sorted(score.unreliable)[:MOST_TESTS]],
    )


def _unreached(planned: MutationPlan, results: Iterable[MutantResult]) -> tuple[tuple[str, Mutant], ...]:
    """Return the files and mutants that no test executes, as far as the runner can tell."""
    real = [result for result in results if not result.sham and not result.of_place]
    missed = {(result.path, result.mutant) for result in real if result.status is MutantStatus.NO_COVERAGE}
    return (*planned.unreached, *sorted(missed))


def _judged(results: Iterable[MutantResult], names: _Names) -> Iterator[JudgedMutant]:
    seen = set()
    for result in results:
        if not result.sham and not result.of_place:
            seen.add((result.path, result.mutant))
            yield _as_mutant(result, names)
    for path, mutant in names.wanted:
        if (path, mutant) not in seen:
            yield _as_mutant(MutantResult(path=path, mutant=mutant, status=MutantStatus.NO_COVERAGE), names)


def _as_mutant(result: MutantResult, names: _Names) -> JudgedMutant:
    before, after = names.change(result.path, result.mutant)
    return JudgedMutant(
        id=names.of(result.path, result.mutant),
        path=quote(os.fsencode(result.path)),
        line=result.mutant.line,
        function=printable(result.mutant.function),
        operator=result.mutant.operator,
        before=before,
        after=after,
        status=result.status,
        killed_by=[printable(test) for test in result.killers[:_MOST_KILLERS]],
    )


def _failed_on_same_bytes(results: Iterable[MutantResult]) -> frozenset[str]:
    return frozenset(test for result in results if result.sham and not result.mutant.text for test in result.killers)


def _why_unfinished(planned: Iterable[PlannedRun], results: Iterable[MutantResult]) -> str | None:
    left = sum(result.status is MutantStatus.PENDING and not result.sham and not result.of_place for result in results)
    if not left and any(run.of_place for run in planned):
        return None
    return f"the time was over before {left} mutants were judged"


def save_report(report: Mapping[str, Any], path: Path) -> None:
    """Write a report for Stryker's viewers beside the journal."""
    path.write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8", errors="backslashreplace")


def runner_for(plan: PreparedCheck, context: CheckContext, *, keep: bool = True) -> CheckMutants:
    """Return a runner (``MutantRunner``) for a check of any kind but pytest, for which ``python_tests`` is faster.

    ``context.tree`` is a copy of the result in which files are replaced while tests run. ``keep`` allows one process
    to run the tests of many mutants, where that gives the same results.
    """
    folder = working_folder(plan.check, context.tree)
    runner = next((candidate for candidate in RUNNERS if candidate.starts(plan.check.argv, folder)), plan.runner)
    if not runner.mutants:
        return CheckMutants(_naming_tests(plan), context)
    module, _, name = runner.mutants.partition(":")
    strategy: type[CheckMutants] = getattr(importlib.import_module(module), name)
    return strategy(plan, context, keep=keep)


def _naming_tests(plan: PreparedCheck) -> PreparedCheck:
    """Return the check so that it names its tests, where that takes only an option."""
    argv = plan.check.argv
    for runner in RUNNERS:
        argv = runner.naming_tests(argv)
    return dataclasses.replace(plan, check=msgspec.structs.replace(plan.check, argv=argv))
