"""Run pytest on mutants, in the project's own interpreter (``injected/understudy_mutants``)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from understudy.judge.injected import understudy_calls
from understudy.judge.mutant_runners.check_mutants import KeptProcess
from understudy.judge.mutant_runners.mutant_runs import MutantResult, PlannedRun, RecordedTests, pending_result
from understudy.judge.outcomes.probe import write_copies
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.generate import Mutant
from understudy.process.program_spec import AccessProfile, Program, Role, TreeLimits, limits_of
from understudy.process.programs.children import run as run_process

_PROGRAM = "understudy_mutants"
_MODULES = (_PROGRAM, "understudy_tree", "understudy_lines", "understudy_calls", "child_lines.sitecustomize")
_MOST_RESULT_BYTES = 256 * 1024 * 1024
_OUTPUT_BYTES = 64 * 1024
_SLOWER = 10.0
"""A mutant may make its tests this much slower before they count as stuck."""
_SLOWER_LOADING = 3.0
"""How much slower the code may load: its time is measured while lines are recorded, which is slower anyway."""
_LEAST_SECONDS = {True: 1.0, False: 3.0}
"""Least time limit of a run: with a fork, and with a new interpreter."""
_START_SECONDS = {True: 0.3, False: 1.0}
"""What a run takes before its first test, at most."""
_MOST_IDS = 400
"""More tests than this are named by their files: pytest's time to find ids grows with their number."""
_END_SECONDS = 30.0
"""For the start of the program, and the end of a run."""
_UNCHANGED = Mutant(start=0, end=0, text=b"", operator="none", line=1, first_line=1, last_line=1, function="")
_WHOLE_RUNS = frozenset({0, 1, 5})
"""Exit codes of pytest for a run that was complete: all passed, some failed, no tests."""
_PROGRESS = re.compile(r"[.FEsxX]+(?: *\[ *\d+%\])?")
"""Matches a line in which pytest shows only how far it came."""


@dataclass(frozen=True, kw_only=True)
class TestEnvironment:
    """How the tests of a project are run."""

    __test__ = False  # not a test class

    python: str
    """The project's interpreter."""
    environment: Mapping[str, str]
    """The variables of a check."""
    tree: Path
    """A copy of the result, in which mutants are put in place."""
    original: Path | None = None
    """What the tree is a copy of: what tests write is put back after each run; None: it stays."""
    folder: Path | None = None
    """Where the tests run; the tree by default."""
    tests_in: Path | None = None
    """The folder that the ids of tests begin at; the tree by default."""
    also_loaded: tuple[str, ...] = ()
    """Test files, relative to ``tests_in``, that every run loads after its own tests."""
    options: tuple[str, ...] = ()
    """Options of pytest without which it does not find the tests."""
    scratch: Path
    """A folder outside the tree whose path no test gets."""
    temporary: Path | None = None
    """Where runs without a changed place get folders of their own; None: they get none."""
    own_folders: tuple[str, ...] = ()
    """The variables that name these folders: of the home and its parts, and of temporary files."""
    mark: str
    limits: TreeLimits = field(default_factory=limits_of)
    """The limits of each program."""


def _end_of(output: str) -> str:
    """Return the end of the output of a run without the lines that show only how far it came."""
    text = "\n".join(line for line in output.splitlines() if not _PROGRESS.fullmatch(line.strip()))[-400:].strip()
    if text:
        return f"The end of the output: {text}"
    reached = re.findall(r"\[ *(\d+%)\]", output)
    return f"It ended without a word, at {reached[-1]} of the tests." if reached else "It printed nothing."


async def record(
    where: TestEnvironment,
    files: Sequence[str],
    tests: Sequence[str],
    *,
    seconds: float,
    calls: Path | None = None,
    per_function: int = understudy_calls.MOST_OF_MANY_TESTS,
    test_files: Sequence[str] = (),
) -> RecordedTests:
    """Run ``tests`` (files or ids) once and record which test executes which lines of ``files``.

    Both are relative to the tree. ``calls`` is a file for the calls of functions that are not in ``test_files`` (see
    ``repeated_calls``), at most ``per_function`` of each. Raise ``tool_crashed`` if the run does not complete, with the
    end of its output, or ``resource_limit``.
    """
    absolute = {str((where.tree / file).resolve()): file for file in files}
    job = {
        "files": list(absolute),
        "tests": _arguments(where, tests),
        "calls": str(calls) if calls is not None else "",
        "per_function": per_function,
        "test_files": [str((where.tree / file).resolve()) for file in test_files],
    }
    entries, output = await _run(where, "record", job, seconds)
    if not entries or entries[0]["code"] not in _WHOLE_RUNS:
        raise UnderstudyError(
            ErrorKind.TOOL_CRASHED,
            "The tests could not be run to record which lines they execute.",
            hint=_end_of(output),
        )
    entry = entries[0]
    return RecordedTests(
        passed=entry["passed"],
        failed=frozenset(entry["failed"]),
        lines={
            absolute[file]: {test: frozenset(lines) for test, lines in by_test.items()}
            for file, by_test in entry["lines"].items()
            if file in absolute
        },
        compiled=frozenset(
            file
            for path, file in absolute.items()
            if file.endswith(".py") and entry["lines"].get(path) and path not in entry["from_text"]
        ),
        modules=tuple(entry["modules"]),
        early=entry["early"],
        seconds=entry["seconds"],
    )


def _arguments(where: TestEnvironment, tests: Sequence[str]) -> list[str]:
    top = (where.tests_in or where.tree).resolve()
    return [str(top / test) for test in dict.fromkeys([*tests, *where.also_loaded])]


def _passes(entry: Mapping[str, Any] | None) -> bool:
    if entry is None or entry["failed"] or entry["errors"]:
        return False
    return entry["code"] == 0 and bool(entry["ended"])


def _as_job(where: TestEnvironment, run: PlannedRun, recorded: RecordedTests, *, forks: bool) -> dict[str, Any]:
    clean = _START_SECONDS[forks] + sum(recorded.passed.get(test, 0.0) for test in run.tests)
    loading = max(0.0, recorded.seconds - sum(recorded.passed.values()))
    tests = list(run.tests)
    if len(tests) > _MOST_IDS:
        tests = sorted({test.partition("::")[0] for test in tests})
    return {
        "path": run.path,
        "edits": [
            [mutant.start, mutant.end, base64.b64encode(mutant.text).decode("ascii")]
            for mutant in sorted((run.mutant, *run.beside))
        ],
        "tests": _arguments(where, tests),
        "decoy": run.decoy,
        # A test that compares the code with a snapshot which it wrote there itself must not notice a place.
        "own": _own_folders(where) if run.of_place else {},
        # All tests that fail on a sham mutant must be known, and one of ``also_loaded`` must not end a run.
        "stop": not (run.sham or run.to_the_end or where.also_loaded),
        "seconds": max(_LEAST_SECONDS[forks], _SLOWER * clean + _SLOWER_LOADING * loading),
    }


def _own_folders(where: TestEnvironment) -> dict[str, str]:
    if where.temporary is None:
        return {}
    folder = where.temporary / secrets.token_hex(4)
    return {name: str(folder / name.lower()) for name in where.own_folders}


def _result(run: PlannedRun, entry: Mapping[str, Any], recorded: RecordedTests) -> MutantResult:
    killers = tuple(test for test in entry["failed"] if test in recorded.passed)
    ran = tuple(dict.fromkeys([*entry["passed"], *entry["failed"]]))
    return MutantResult(
        path=run.path,
        mutant=run.mutant,
        status=_status(run, entry, killers),
        killers=killers,
        ran=ran,
        crashed=bool(killers) and set(killers) <= set(entry["crashed"]),
        seconds=entry["seconds"],
        sham=run.sham,
        of_place=run.of_place,
    )


def _status(run: PlannedRun, entry: Mapping[str, Any], killers: Sequence[str]) -> MutantStatus:
    if not run.tests:
        return MutantStatus.NO_COVERAGE
    if killers:
        return MutantStatus.KILLED
    if entry["timed_out"]:
        return MutantStatus.TIMEOUT
    if entry["code"] is not None and entry["code"] < 0 and not entry["ended"]:
        return MutantStatus.KILLED  # a signal, such as a stack that overflowed: the test that ran did not pass
    # Tests that do not count may have failed beside them: those of ``also_loaded``.
    if entry["ended"] and entry["passed"] and (entry["code"] == 0 or set(run.tests) <= set(entry["passed"])):
        return MutantStatus.SURVIVED
    if entry["ended"] and not entry["passed"]:
        return MutantStatus.COMPILE_ERROR
    return MutantStatus.PENDING  # it ended early by itself: that proves nothing


async def _run(
    where: TestEnvironment, command: str, job: Mapping[str, Any], seconds: float
) -> tuple[list[dict[str, Any]], str]:
    """Run the injected program; return the entries that it wrote, and the end of its output."""
    program, out = await _program(where, command, job)
    completed = await run_process(program, timeout_seconds=seconds, output_limit=_OUTPUT_BYTES)
    if completed.limit_error is not None:
        raise completed.limit_error
    text = (completed.stdout + completed.stderr).decode("utf-8", "replace")
    return (await asyncio.to_thread(_entries, out, 0))[0], text


async def _program(where: TestEnvironment, command: str, job: Mapping[str, Any]) -> tuple[Program, Path]:
    """Return how to start the injected program, and the file that it writes entries to."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=where.scratch))
    copies = await asyncio.to_thread(write_copies, folder, _MODULES)
    job_file, out = folder / "job.json", folder / "out.jsonl"
    content = {
        **job,
        "root": str(where.tree.resolve()),
        "folder": str((where.folder or where.tree).resolve()),
        "tests_in": str((where.tests_in or where.tree).resolve()),
        "original": str(where.original.resolve()) if where.original is not None else None,
        "out": str(out),
        "options": list(where.options),
        "compiled": str(where.scratch / "compiled"),
        "paths": where.environment.get("PYTHONPATH", ""),
    }
    await asyncio.to_thread(job_file.write_text, json.dumps(content), encoding="utf-8")
    environment = dict(where.environment)
    # Tests may write to the tree while the program starts, which must not load what they write.
    outside = [entry for entry in content["paths"].split(os.pathsep) if not _is_in(where.tree, entry)]
    environment.pop("PYTHONPATH", None)
    if any(outside):
        environment["PYTHONPATH"] = os.pathsep.join(outside)
    if job.get("forks") is False:
        # Compiled files save a third of a second for each start, and must not be put into the tree.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(where.scratch / "compiled")
    else:
        # One start: those that the environment has are enough.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment.setdefault("PYTHONHASHSEED", "0")
    argv = [where.python, str(folder / f"{copies[_PROGRAM]}.py"), command, str(job_file)]
    access = AccessProfile(Role.MUTANT)
    program = Program(argv, where.folder or where.tree, environment, access, mark=where.mark, limits=where.limits)
    return program, out


def _is_in(tree: Path, entry: str) -> bool:
    return any(Path(os.path.normpath(entry)).is_relative_to(top) for top in (tree, tree.resolve()))


def _entries(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Return the entries after ``offset``, and where the next one begins."""
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(_MOST_RESULT_BYTES)
    except OSError:
        return [], offset
    entries = []
    for line in data.splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            break  # cut off when the process was killed
    return entries, offset + len(data)


class PytestRunner:
    """Runs test files of one check with pytest in the project's interpreter."""

    can_keep = True
    keeps = False
    """Whether a process is forked for each mutant, which the program decides."""

    def __init__(
        self,
        where: TestEnvironment,
        tests: Sequence[str],
        *,
        calls: Path | None = None,
        test_files: Sequence[str] = (),
    ) -> None:
        """Start nothing yet. ``tests`` are files, relative to ``where.tests_in``; for the others see ``record``."""
        self._where = where
        self.calls = calls
        self._test_files = test_files
        self._tests = tests
        self._recorded: RecordedTests | None = None
        self._kept: KeptProcess | None = None
        self._out = Path()
        self._read = 0
        self._job: dict[str, Any] = {}
        self._loaded = False
        """The process has the job."""
        self._undoes = False
        """The tests pass with an empty home, as they need to where a changed place is undone."""
        self._exceeded = False
        """The last run was ended because it exceeded a limit."""

    async def start(self) -> None:
        """Start the process that is kept, which waits for ``begin``."""
        program, self._out = await _program(self._where, "judge", {"forks": True})
        self._kept, self._read, self._loaded = KeptProcess(program), 0, False
        await self._kept.start()

    async def record(self, files: Sequence[str], *, seconds: float) -> RecordedTests:
        """Run the tests once and record lines; see ``record``."""
        return await record(
            self._where, files, self._tests, seconds=seconds, calls=self.calls, test_files=self._test_files
        )

    async def record_alone(
        self, files: Sequence[str], tests: Sequence[str], calls: Path, test_files: Sequence[str], *, seconds: float
    ) -> RecordedTests:
        """Run only some tests, given by their ids, and record lines and calls; see ``record``."""
        return await record(
            self._where,
            files,
            tests,
            seconds=seconds,
            calls=calls,
            per_function=understudy_calls.MOST_OF_FEW_TESTS,
            test_files=test_files,
        )

    async def begin(
        self, recorded: RecordedTests, planned: Sequence[PlannedRun], *, seconds: float, keep: bool, warm: bool
    ) -> bool:
        """Run the tests of all mutants on the unchanged code; ``keep`` forks a process for each mutant."""
        self._recorded = recorded
        self._job = {
            "forks": keep,
            "modules": list(recorded.modules),
            "early": recorded.early,
            "files": _arguments(self._where, self._tests),
            "code": sorted({str((self._where.tree / run.path).resolve()) for run in planned if not run.of_tests}),
        }
        if warm:
            return await self._load(seconds)
        everything = tuple(sorted({test for run in planned for test in run.tests}))
        unchanged = PlannedRun(path=planned[0].path, mutant=_UNCHANGED, tests=everything)
        # What passes with an empty home can notice something there.
        self._undoes = any(run.of_place for run in planned)
        if self._undoes and _passes(await self._outcome(replace(unchanged, of_place=True), seconds)):
            return True
        self._undoes = False
        return _passes(await self._outcome(unchanged, seconds))

    async def judge(self, run: PlannedRun, *, seconds: float) -> MutantResult:
        """Run the tests of a mutant, up to the first that fails; all of them on a sham one."""
        if run.of_place and not self._undoes:
            return pending_result(run)
        file = self._where.tree / run.path
        content = await asyncio.to_thread(file.read_bytes)
        entry = await self._outcome(run, seconds)
        if entry is None or self._recorded is None:
            # The process was ended before it could put the file back, which the next mutants need.
            await asyncio.to_thread(file.write_bytes, content)
            result = pending_result(run)
            # As for a mutant that runs without end, its tests did not pass.
            return replace(result, status=MutantStatus.TIMEOUT) if self._exceeded and run.tests else result
        result = _result(run, entry, self._recorded)
        if result.status is MutantStatus.TIMEOUT and seconds <= entry["limit"]:
            return pending_result(run)  # the time of all mutants was over, not that of this one
        return result

    async def close(self) -> None:
        """End the process."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.close()

    async def _outcome(self, run: PlannedRun, seconds: float) -> dict[str, Any] | None:
        """Return what a run showed; None if the program ended, or was ended."""
        if self._recorded is None:
            return None
        job = _as_job(self._where, run, self._recorded, forks=bool(self._job["forks"]))
        limit = job["seconds"]
        job["seconds"] = min(limit, seconds)
        if not await self._ask(job, job["seconds"] + _END_SECONDS):
            return None
        entries, self._read = await asyncio.to_thread(_entries, self._out, self._read)
        if not entries:
            return None
        self.keeps = entries[-1]["forks"]
        return {**entries[-1], "limit": limit}

    async def _ask(self, request: Mapping[str, Any], seconds: float) -> bool:
        if not await self._load(seconds) or self._kept is None:
            return False
        answered = await self._kept.ask(request, seconds)
        self._exceeded = self._kept.exceeded
        if not answered:
            self._kept = None  # another one writes to another file
        return answered

    async def _load(self, seconds: float) -> bool:
        """Start the process, unless it runs, and let it load what all runs need."""
        if self._kept is None:
            program, self._out = await _program(self._where, "judge", {"forks": self._job["forks"]})
            self._kept, self._read, self._loaded = KeptProcess(program), 0, False
        self._loaded = self._loaded or await self._kept.ask({"job": self._job}, seconds)
        if not self._loaded:
            self._kept = None
        return self._loaded
