"""Run any check on mutants, its command once for each of them, and what all runners share."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from understudy.judge.deciding import restored_parts
from understudy.judge.injected.understudy_tree import CopiedTree
from understudy.judge.mutant_runners.mutant_runs import MutantResult, PlannedRun, RecordedTests, pending_result
from understudy.judge.outcomes.observations import FAILED, SKIPPED, Observed
from understudy.judge.runs import judged_tree
from understudy.judge.runs.check_run import CheckContext, CheckOutcome, run_once
from understudy.judge.runs.runner_registry import RUNNERS, PreparedCheck
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.controls import reach_probe
from understudy.process.program_spec import Program
from understudy.process.programs.children import Child, start

_CRASHED = tuple(text for runner in RUNNERS for text in runner.died)
SLOWER = 10.0
"""A mutant may make its tests this much slower before they count as stuck."""
LEAST_SECONDS = 3.0

Lines = Mapping[str, frozenset[int]]
"""File (relative to the tree) → executed lines."""

_PYTHON_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t]+.*\n)+)")
_PYTHON_FRAME = re.compile(r'^\s*File "([^"\n]+)", line \d+', re.MULTILINE)
_RUST = re.compile(r"panicked at (?:.*, )?([^\s:]+\.rs):(\d+)")
_GO_PANIC = re.compile(r"\bpanic: |\bfatal error: ")
_GO_FRAME = re.compile(r"([^\s\"\\]+\.go):\d+")
_GO_OWN = ("/src/runtime/", "/src/testing/")
_SCRIPT_FRAME = re.compile(r"([^\s()\"']+\.[cm]?[jt]sx?):\d+:\d+")
_SCRIPT_TEST = re.compile(r"^\s*(?:location: |test at ).*$", re.MULTILINE)
"""Where ``node --test`` says that a test is, which is not where it failed."""
_SCRIPT_OWN = ("/node_modules/", "node:")
_MOST_LINE_BYTES = 16 * 1024 * 1024


class SeenRun(Observed, frozen=True, kw_only=True):
    """What one run of a check on a mutant showed."""

    seconds: float
    crashed: bool = False
    """A signal ended it, such as that of a stack overflow."""
    output: str = ""
    """The end of its output."""

    @property
    def failing(self) -> frozenset[str]:
        """Return the tests that failed."""
        return frozenset(test for test, outcome in self.outcomes.items() if outcome == FAILED)

    def only(self, tests: Iterable[str]) -> SeenRun:
        """Return the run as if no other tests had run."""
        return replace(self, outcomes={test: self.outcomes[test] for test in tests if test in self.outcomes})


def seen_run(outcome: CheckOutcome) -> SeenRun:
    """Return what a run of ``run_once`` showed."""
    died = outcome.code is None or any(text in outcome.output for text in _CRASHED)
    return SeenRun(
        **msgspec.structs.asdict(outcome.observed),
        seconds=outcome.seconds,
        crashed=outcome.started and not outcome.timed_out and died,
        output=outcome.output,
    )


def status_of(clean: SeenRun, seen: SeenRun) -> tuple[MutantStatus, tuple[str, ...]]:
    """Return the status of a mutant and the tests that killed it.

    ``clean`` is a run in the same circumstances on the unchanged code. Only a test that passed there can kill. The
    check as a whole counts as one test without a name if it names none.
    """
    if not seen.started:
        return MutantStatus.PENDING, ()
    if not clean.outcomes:
        return _status_without_names(clean, seen), ()
    killers = tuple(sorted(clean.passing & seen.failing))
    if killers:
        return MutantStatus.KILLED, killers
    if seen.timed_out:
        return MutantStatus.TIMEOUT, ()
    missing = clean.passing - seen.outcomes.keys()
    if missing and seen.crashed:
        # A test was running when the process died, but which one is unknown.
        return MutantStatus.KILLED, tuple(sorted(missing))
    if missing and (seen.unbuilt or not seen.outcomes):
        return MutantStatus.COMPILE_ERROR, ()
    # A test that does not count may have failed beside them.
    beside = bool(seen.failing) and clean.passing <= seen.passing
    if seen.green or beside or (not clean.green and not missing):
        return MutantStatus.SURVIVED, ()
    return MutantStatus.PENDING, ()  # it is red, but no test failed: that proves nothing


def _status_without_names(clean: SeenRun, seen: SeenRun) -> MutantStatus:
    if not clean.green:
        return MutantStatus.PENDING
    if seen.timed_out:
        return MutantStatus.TIMEOUT
    if seen.green:
        return MutantStatus.SURVIVED
    return MutantStatus.COMPILE_ERROR if seen.unbuilt else MutantStatus.KILLED


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """A file with another content, and the tests to run on it."""

    path: str
    """Relative to the tree."""
    content: bytes
    tests: Sequence[str] = ()
    """The least to run; none: all."""
    stop: bool = False
    """End at the first failure, where the runner can do that."""


class CheckMutants:
    """Runs a check on mutants, for all tests at once.

    It does not know executed lines, so all tests run on every mutant. If a mutant survives, another run with a reach
    probe checks whether the tests execute its function at all.
    """

    def __init__(self, plan: PreparedCheck, context: CheckContext, *, keep: bool = False) -> None:  # noqa: ARG002
        """Run ``plan`` in ``context``, whose tree is a copy in which mutants may be put in place.

        ``keep`` allows one process for many mutants, to a subclass that can have one.
        """
        self.plan = plan
        self.context = context
        self.copied: CopiedTree | None = None
        """Puts back what tests write to the tree; None: it stays."""
        self.deadline = 0.0
        """When all runs must have ended, as a time of the event loop."""
        self._clean: SeenRun | None = None
        self._known: frozenset[str] = frozenset()
        self._reached: dict[tuple[str, int], bool] = {}

    async def record(self, files: Sequence[str], *, seconds: float) -> RecordedTests:
        """Run the check once; raise ``tool_crashed`` if it does not complete. See ``MutantRunner``."""
        seen, lines = await self.recorded_run(files, seconds)
        await self._reset()
        if not seen.started or seen.timed_out or (not seen.green and not seen.outcomes):
            why = f"it did not end within {seconds:g} seconds" if seen.timed_out else "it failed"
            raise UnderstudyError(
                ErrorKind.TOOL_CRASHED,
                f"The check {self.plan.check.name} could not be run for mutation testing: {why}.",
                hint=f"The end of its output: {seen.output[-400:].strip() or 'there is none'}",
            )
        self._known = frozenset(lines)
        passing = self._tests_of(seen)
        average = seen.seconds / max(1, len(passing))
        return RecordedTests(
            passed=dict.fromkeys(passing, average),
            failed=seen.failing,
            lines={file: self.by_test(file, lines.get(file), passing) for file in files},
            modules=(),
            seconds=seen.seconds,
        )

    can_keep = False
    """Whether one process can serve many mutants."""

    @property
    def keeps(self) -> bool:
        """Return whether one process serves many mutants now."""
        return False

    async def begin(
        self, recorded: RecordedTests, planned: Sequence[PlannedRun], *, seconds: float, keep: bool, warm: bool
    ) -> bool:
        """Run the check on the unchanged code, in the circumstances of a mutant. See ``MutantRunner``."""
        if warm:
            return await self.warm_up(planned[0].path, seconds, keep=keep)
        self.deadline = asyncio.get_running_loop().time() + seconds
        clean = await self.clean_run(planned, seconds, keep=keep)
        await self._reset()
        tests = {test for run in planned for test in run.tests}
        if clean is None or not tests & recorded.passed.keys() <= set(self._tests_of(clean)):
            return False
        self._clean = clean
        return True

    async def warm_up(self, path: str, seconds: float, *, keep: bool) -> bool:  # noqa: ARG002
        """Start and load what is kept; return whether that was possible. ``path`` is a file that will change."""
        return True

    async def judge(self, run: PlannedRun, *, seconds: float) -> MutantResult:
        """Run the check on a mutant. See ``MutantRunner``."""
        if self._clean is None:
            return pending_result(run)
        result = await self._result(self._clean, run, seconds)
        await self._reset()
        return result

    def in_copy(self, context: CheckContext, copied: CopiedTree | None) -> Self:
        """Return a runner for another copy of the result, which knows what this one has recorded."""
        other = copy.copy(self)
        other.context, other.copied = context, copied
        other.forget_copy()
        return other

    def forget_copy(self) -> None:
        """Forget what belongs to one copy of the result."""

    async def _reset(self) -> None:
        if self.copied is not None:
            await asyncio.to_thread(self.copied.reset)

    async def close(self) -> None:
        """End what is kept between mutants."""

    async def recorded_run(self, files: Sequence[str], seconds: float) -> tuple[SeenRun, Lines]:  # noqa: ARG002
        """Run the check once; return what it showed and the executed lines of those files for which they are known."""
        return await self.once(seconds), {}

    async def clean_run(self, planned: Sequence[PlannedRun], seconds: float, *, keep: bool) -> SeenRun | None:  # noqa: ARG002
        """Run the check on the unchanged code as on a mutant; None if that was not possible."""
        path = next(run.path for run in planned if run.tests)
        source = await asyncio.to_thread(judged_tree.read_file, self.context.tree, path)
        return await self.mutated_run(ChangedFile(path=path, content=source), seconds)

    async def mutated_run(self, changed: ChangedFile, seconds: float) -> SeenRun:
        """Run the check with another content of one file."""
        with judged_tree.file_replaced(self.context.tree, changed.path, changed.content):
            return await self.once(seconds)

    async def once(self, seconds: float) -> SeenRun:
        """Run the check within ``seconds`` on what is in the tree."""
        return seen_run(await run_once(limited(self.plan, seconds), self.context))

    def _tests_of(self, seen: SeenRun) -> list[str]:
        """Return the tests that passed; the name of the check if it names none."""
        if seen.outcomes:
            return sorted(seen.passing)
        return [self.plan.check.name] if seen.green else []

    def by_test(self, file: str, lines: frozenset[int] | None, tests: Sequence[str]) -> dict[str, frozenset[int]]:
        """Return the lines of ``file`` that each test executed; None for ``lines`` means that they are unknown."""
        if lines is None:
            source = judged_tree.read_file(self.context.tree, file)
            lines = frozenset(range(1, source.count(b"\n") + 2))
        return dict.fromkeys(tests, lines)

    async def _result(self, clean: SeenRun, run: PlannedRun, left: float) -> MutantResult:
        source = await asyncio.to_thread(judged_tree.read_file, self.context.tree, run.path)
        limit = max(LEAST_SECONDS, SLOWER * clean.seconds)
        # All tests that fail on a sham mutant must be known.
        stop = not (run.sham or run.to_the_end)
        changed = ChangedFile(path=run.path, content=run.mutant.apply(source), tests=run.tests, stop=stop)
        seen = await self.mutated_run(changed, min(limit, left))
        status, killers = status_of(clean.only(run.tests), seen)
        ran = tuple(test for test, outcome in seen.outcomes.items() if test in clean.outcomes and outcome != SKIPPED)
        if not clean.outcomes:
            ran = run.tests
            killers = run.tests if status is MutantStatus.KILLED else ()
        if status is MutantStatus.TIMEOUT and left < limit:
            status = MutantStatus.PENDING  # the time of the batch was over, not that of the mutant
        if status is MutantStatus.SURVIVED and not run.sham:
            reached = await self._is_reached(clean, run, source, left - seen.seconds)
            status, ran = (status, ran) if reached else (MutantStatus.NO_COVERAGE, ())
        return MutantResult(
            path=run.path,
            mutant=run.mutant,
            status=status,
            killers=killers,
            ran=ran,
            crashed=status is MutantStatus.KILLED
            and (seen.crashed or raised_in(run.path, changed.content, seen.output)),
            seconds=seen.seconds,
            sham=run.sham,
        )

    async def _is_reached(self, clean: SeenRun, run: PlannedRun, source: bytes, left: float) -> bool:
        """Return whether the tests execute the function around a mutant; True if that cannot be found out."""
        probe = reach_probe(run.path, source, run.mutant)
        # On its own line, the head of a function runs although the function may not.
        if probe is None or left <= 0 or (run.path in self._known and not probe.one_line):
            return True
        key = (run.path, probe.function)
        if key not in self._reached:
            limit = max(LEAST_SECONDS, SLOWER * clean.seconds)
            changed = ChangedFile(path=run.path, content=probe.source, tests=run.tests, stop=True)
            seen = await self.mutated_run(changed, min(limit, left))
            ended = not seen.started or (clean.green and not seen.green)
            self._reached[key] = ended or not clean.only(run.tests).passing <= seen.passing
        return self._reached[key]


def limited(plan: PreparedCheck, seconds: float, argv: Sequence[str] | None = None, **env: str) -> PreparedCheck:
    """Return a check with a shorter time limit, other arguments or more environment variables."""
    timeout = plan.check.timeout_seconds
    check = replace(
        plan.check,
        timeout_seconds=seconds if timeout is None else min(timeout, seconds),
        argv=list(argv) if argv is not None else plan.check.argv,
        env={**(plan.check.env or {}), **env},
    )
    return dataclasses.replace(plan, check=check)


def raised_in(path: str, content: bytes, output: str) -> bool:
    """Return whether the first error in ``output`` was raised by the code of a file; False if that cannot be read.

    ``content`` is that of the file when the tests ran. What its own tests raise is not raised by its code.
    """
    suffix = PurePosixPath(path).suffix
    origin = _first_place(suffix, output)
    if origin is None:
        return False
    if (
        suffix == ".rs"
        and (place := _RUST.search(output))
        and restored_parts.is_line_of_test(path, content, int(place[2]))
    ):
        return False
    return origin == path or origin.endswith(f"/{path}") or path.endswith(f"/{origin.removeprefix('./')}")


def _first_place(suffix: str, output: str) -> str | None:
    match suffix:
        case ".py":
            trace = _PYTHON_TRACEBACK.search(output)
            frames = _PYTHON_FRAME.findall(trace[1]) if trace is not None else []
            return frames[-1] if frames else None
        case ".rs":
            place = _RUST.search(output)
            return place[1] if place is not None else None
        case ".go":
            panic = _GO_PANIC.search(output)
            frames = _GO_FRAME.findall(output, panic.end()) if panic is not None else []
            return next((frame for frame in frames if not any(part in frame for part in _GO_OWN)), None)
        case _:
            frames = _SCRIPT_FRAME.findall(_SCRIPT_TEST.sub("", output))
            return next((frame for frame in frames if not any(part in frame for part in _SCRIPT_OWN)), None)


class KeptProcess:
    """One process of a program that reads requests, each a JSON object on a line, and prints the word of each.

    It is started by ``start``, or when it is first needed.
    """

    def __init__(self, program: Program, first: Mapping[str, Any] | None = None) -> None:
        """Start nothing yet; ``first`` is a message before the first request."""
        self._program = replace(program, keep_stdin=True)
        self._first = first
        self._child: Child | None = None
        self.exceeded = False
        """Whether it was ended because it exceeded a limit."""

    async def start(self) -> None:
        """Start the process before the first request; if that is not possible, the first request fails."""
        with contextlib.suppress(UnderstudyError):
            await self._start()

    async def ask(self, request: Mapping[str, Any], seconds: float) -> bool:
        """Send a request; return whether it was done within ``seconds``. If not, the process is ended.

        The next request starts another one.
        """
        word = secrets.token_hex(12)
        try:
            async with asyncio.timeout(seconds):
                child = self._child or await self._start()
                await self._send(child, {**request, "word": word})
                async for line in child.stdout_lines(_MOST_LINE_BYTES):
                    if line.strip() == word.encode():
                        return True
        except (TimeoutError, UnderstudyError):
            pass
        except BaseException:
            await self.close()
            raise
        await self.close()
        return False

    @property
    def running(self) -> bool:
        """Return whether the process is there for the next request."""
        return self._child is not None

    async def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            try:
                await child.end(0)
                self.exceeded = child.limit_error() is not None
            finally:
                child.close()

    async def _start(self) -> Child:
        self._child = await start(self._program)
        if self._first is not None:
            await self._send(self._child, self._first)
        return self._child

    @staticmethod
    async def _send(child: Child, message: Mapping[str, Any]) -> None:
        assert child.stdin is not None  # noqa: S101 - started with keep_stdin
        await child.stdin.write(json.dumps(message).encode() + b"\n")
