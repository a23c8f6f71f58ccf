"""Run any check on mutants: its command once for each of them."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Self

import msgspec

from understudy.judge.deciding import inline_tests
from understudy.judge.injected.understudy_tree import CopiedTree
from understudy.judge.mutation.copies.runs import MutantResult, PlannedRun, RecordedTests, pending_result
from understudy.judge.mutation.runners import mutated_file
from understudy.judge.mutation.runners.run_status import SeenRun, seen_run, status_of
from understudy.judge.outcomes.outcome_comparison import SKIPPED
from understudy.judge.runs.check_run import CheckContext, PreparedCheck, run_once
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.reach_probe import reach_probe

_SLOWER = 10.0
"""A mutant may make its tests this much slower before they count as stuck."""
_LEAST_SECONDS = 3.0

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
        source = await asyncio.to_thread(mutated_file.read, self.context.tree, path)
        return await self.mutated_run(ChangedFile(path=path, content=source), seconds)

    async def mutated_run(self, changed: ChangedFile, seconds: float) -> SeenRun:
        """Run the check with another content of one file."""
        with mutated_file.in_place(self.context.tree, changed.path, changed.content):
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
            source = mutated_file.read(self.context.tree, file)
            lines = frozenset(range(1, source.count(b"\n") + 2))
        return dict.fromkeys(tests, lines)

    async def _result(self, clean: SeenRun, run: PlannedRun, left: float) -> MutantResult:
        source = await asyncio.to_thread(mutated_file.read, self.context.tree, run.path)
        limit = max(_LEAST_SECONDS, _SLOWER * clean.seconds)
        # All tests that fail on a sham mutant must be known.
        changed = ChangedFile(path=run.path, content=run.mutant.apply(source), tests=run.tests, stop=not run.sham)
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
            limit = max(_LEAST_SECONDS, _SLOWER * clean.seconds)
            changed = ChangedFile(path=run.path, content=probe.source, tests=run.tests, stop=True)
            seen = await self.mutated_run(changed, min(limit, left))
            ended = not seen.started or (clean.green and not seen.green)
            self._reached[key] = ended or not clean.only(run.tests).passing <= seen.passing
        return self._reached[key]


def limited(plan: PreparedCheck, seconds: float, argv: Sequence[str] | None = None, **env: str) -> PreparedCheck:
    """Return a check with a shorter time limit, other arguments or more environment variables."""
    timeout = plan.check.timeout_seconds
    check = msgspec.structs.replace(
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
    if suffix == ".rs" and (place := _RUST.search(output)) and inline_tests.has_in_line(path, content, int(place[2])):
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
