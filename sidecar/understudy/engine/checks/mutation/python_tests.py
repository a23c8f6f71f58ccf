"""Run pytest on mutants, in the project's own interpreter (``injected/understudy_mutants``)."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.engine.checks.mutation.mutant_result import MutantResult
from understudy.engine.checks.mutation.runs import MutantRuns, PlannedRun, RecordedTests, pending_result
from understudy.engine.checks.probes.probe_copies import write_copies
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.mutation import MutantStatus
from understudy.mutants.mutant import Mutant
from understudy.process.children import run as run_process

_PROGRAM = "understudy_mutants"
_MODULES = (_PROGRAM, "understudy_tree", "understudy_lines", "child_lines.sitecustomize")
_MOST_RESULT_BYTES = 256 * 1024 * 1024
_OUTPUT_BYTES = 64 * 1024
_SLOWER = 10.0
"""A mutant may make its tests this much slower before they count as stuck."""
_LEAST_SECONDS = {True: 1.0, False: 3.0}
"""Least time limit of a run: with a fork, and with a new interpreter."""
_START_SECONDS = {True: 0.3, False: 1.0}
"""What a run takes before its first test, at most."""
_MOST_IDS = 400
"""More tests than this are named by their files: pytest's time to find ids grows with their number."""
_END_SECONDS = 30.0
_WHOLE_RUNS = frozenset({0, 1, 5})
"""Exit codes of pytest for a run that was complete: all passed, some failed, no tests."""


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
    scratch: Path
    """A folder outside the tree whose path no test gets."""
    mark: str


async def record(
    where: TestEnvironment, files: Sequence[str], tests: Sequence[str], *, seconds: float
) -> RecordedTests:
    """Run ``tests`` (files or ids) once and record which test executes which lines of ``files``.

    Both are relative to the tree. Raise ``tool_crashed`` if the run does not complete, with the end of its output.
    """
    absolute = {str((where.tree / file).resolve()): file for file in files}
    job = {"files": list(absolute), "tests": _arguments(where, tests)}
    entries, output = await _run(where, "record", job, seconds)
    if not entries or entries[0]["code"] not in _WHOLE_RUNS:
        raise UnderstudyError(
            ErrorKind.TOOL_CRASHED,
            "The tests could not be run to record which lines they execute.",
            hint=f"The end of the output: {output[-400:].strip() or 'there is none'}",
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
        seconds=entry["seconds"],
    )


async def run_mutants(
    where: TestEnvironment, recorded: RecordedTests, planned: Sequence[PlannedRun], *, seconds: float
) -> MutantRuns:
    """Run the tests of each mutant in turn within ``seconds``; later ones are ``PENDING`` when the time is over.

    The first run is on the unchanged code. If its tests do not pass in a forked process, each mutant gets a new
    interpreter; if they do not pass there either, nothing was learned and all results are ``PENDING``.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    everything = tuple(sorted({test for run in planned for test in run.tests}))
    unchanged = Mutant(start=0, end=0, text=b"", operator="none", line=1, first_line=1, last_line=1, function="")
    pending = [pending_result(run) for run in planned]
    if not everything:
        return MutantRuns(results=pending)
    plan = [PlannedRun(path=planned[0].path, mutant=unchanged, tests=everything), *planned]
    for forks in (True, False):
        left = deadline - loop.time()
        if left <= 0:
            break
        job = {
            "forks": forks,
            "modules": list(recorded.modules),
            "code": sorted({str((where.tree / run.path).resolve()) for run in planned}),
            "seconds": left,
            "runs": [_as_job(where, run, recorded, forks=forks) for run in plan],
        }
        entries, _ = await _run(where, "judge", job, left + _END_SECONDS)
        by_index = {entry["index"]: entry for entry in entries if "index" in entry}
        clean = by_index.get(0)
        if clean is None or clean["failed"] or clean["errors"] or clean["code"] != 0 or not clean["ended"]:
            continue
        results = [
            _result(run, by_index[index], recorded) if index in by_index else pending_result(run)
            for index, run in enumerate(planned, start=1)
        ]
        forked = any(entry.get("forks") is True for entry in entries)
        return MutantRuns(results=results, forked=forked, complete=any(entry.get("end") for entry in entries))
    return MutantRuns(results=pending)


def _arguments(where: TestEnvironment, tests: Sequence[str]) -> list[str]:
    top = (where.tests_in or where.tree).resolve()
    return [str(top / test) for test in dict.fromkeys([*tests, *where.also_loaded])]


def _as_job(where: TestEnvironment, run: PlannedRun, recorded: RecordedTests, *, forks: bool) -> dict[str, Any]:
    clean = _START_SECONDS[forks] + sum(recorded.passed.get(test, 0.0) for test in run.tests)
    tests = list(run.tests)
    if len(tests) > _MOST_IDS:
        tests = sorted({test.partition("::")[0] for test in tests})
    return {
        "path": run.path,
        "start": run.mutant.start,
        "end": run.mutant.end,
        "text": base64.b64encode(run.mutant.text).decode("ascii"),
        "tests": _arguments(where, tests),
        "decoy": run.decoy,
        "stop": not (run.sham or run.to_the_end),  # all tests that fail on a sham mutant must be known
        "seconds": max(_LEAST_SECONDS[forks], _SLOWER * clean),
    }


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
    if entry["ended"] and entry["code"] == 0 and entry["passed"]:
        return MutantStatus.SURVIVED
    if entry["ended"] and not entry["passed"]:
        return MutantStatus.COMPILE_ERROR
    return MutantStatus.PENDING  # it ended early by itself: that proves nothing


async def _run(
    where: TestEnvironment, command: str, job: Mapping[str, Any], seconds: float
) -> tuple[list[dict[str, Any]], str]:
    """Run the injected program; return the entries that it wrote, and the end of its output."""
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
    }
    await asyncio.to_thread(job_file.write_text, json.dumps(content), encoding="utf-8")
    environment = dict(where.environment)
    if job.get("forks") is False:
        # Compiled files save a third of a second for each start, and must not be put into the tree.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(where.scratch / "compiled")
    else:
        # One start: those that the environment has are enough.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment.setdefault("PYTHONHASHSEED", "0")
    completed = await run_process(
        [where.python, str(folder / f"{copies[_PROGRAM]}.py"), command, str(job_file)],
        cwd=where.folder or where.tree,
        env=environment,
        mark=where.mark,
        timeout_seconds=seconds,
        stdin=None,
        output_limit=_OUTPUT_BYTES,
    )
    text = (completed.stdout + completed.stderr).decode("utf-8", "replace")
    return await asyncio.to_thread(_entries, out), text


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as stream:
            lines = stream.read(_MOST_RESULT_BYTES).splitlines()
    except OSError:
        return []
    entries = []
    for line in lines:
        try:
            entries.append(json.loads(line))
        except ValueError:
            break  # cut off when the process was killed
    return entries


@dataclass(frozen=True, kw_only=True)
class PytestRunner:
    """Runs test files of one check with pytest in the project's interpreter."""

    where: TestEnvironment
    tests: Sequence[str]
    """Files, relative to ``where.tests_in``."""

    async def record(self, files: Sequence[str], *, seconds: float) -> RecordedTests:
        """Run the tests once and record lines; see ``record``."""
        return await record(self.where, files, self.tests, seconds=seconds)

    async def run(self, recorded: RecordedTests, planned: Sequence[PlannedRun], *, seconds: float) -> MutantRuns:
        """Run the tests on mutants; see ``run_mutants``."""
        return await run_mutants(self.where, recorded, planned, seconds=seconds)
