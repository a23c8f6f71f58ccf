"""Run one check once on the current worktree."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from understudy.git.worktree.cleanup import delete_folder
from understudy.journal.worker_files import hidden_files_record
from understudy.judge.outcomes.observations import Counts, Observed, ProbeReport, read_probe, tail, wrong_files
from understudy.judge.outcomes.probe import ProbeOptions, ReportChannel, add_probe, write_probe
from understudy.judge.project import interpreter
from understudy.judge.project.interpreter import Checkout, ImportPlan, InterpreterFacts, check_environment
from understudy.judge.project.missing_modules import NAME_PYTHON
from understudy.judge.runs.judged_tree import Change, JudgedTree, hidden_files_placed
from understudy.judge.runs.runner_registry import (
    RUNNERS,
    PreparedCheck,
    build_failed,
    printed_counts,
    printed_outcomes,
)
from understudy.judge.test_runners.shared.test_runner import PYTHON_SLOT, REPORT_SLOT, TESTS_SLOT, Output, TestRunner
from understudy.model.confinement import Sandbox
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check
from understudy.model.text.sanitize import name_list
from understudy.process.program_spec import AccessProfile, Program, Role, TreeLimits, limits_of
from understudy.process.programs.children import run as run_process
from understudy.process.unguarded import Completed

DEFAULT_TIMEOUT_SECONDS = 600.0
"""Time limit of a check without its own."""
_OUTPUT_BYTES = 16 * 1024 * 1024
"""Output kept of a check; counts are read from it."""
_MOST_WRONG_FILES = 20
_MOST_NAMED = 5
_MOST_FAILED = 100
_REPORT = "runner.json"
_SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 - nothing is written there
"""What all programs of the machine may write to."""
_PROGRAM_FOLDERS = frozenset({"bin", "sbin", ".bin"})
_FAKETIME = ("usr/lib/*/faketime/libfaketimeMT.so.1", "usr/lib*/faketime/libfaketimeMT.so.1")
"""Where distributions install libfaketime, the variant for programs with several threads."""


@dataclass(frozen=True, kw_only=True)
class Variation:
    """The circumstances in which new tests run once more (``repeated_runs``)."""

    order: str
    """``reversed`` or ``shuffled:<seed>``."""
    order_seed: int
    hash_seed: int
    time_zone: str
    order_option: bool = True
    """Give runners that are not Python's their own option for the order."""
    days: int = 0
    """How many days later it seems to be, where the machine has libfaketime."""

    def arguments(self, runner: TestRunner) -> list[str]:
        """Return the options that change the order of the tests of a runner."""
        options = runner.order_options if self.order_option else ()
        return [option.format(seed=self.order_seed) for option in options]

    def variables(self) -> dict[str, str]:
        """Return the variables that make these circumstances."""
        later = {"LD_PRELOAD": faketime(), "FAKETIME": f"+{self.days}d", "DONT_FAKE_MONOTONIC": "1"}
        return {"PYTHONHASHSEED": str(self.hash_seed), "TZ": self.time_zone, **(later if self.days else {})}


@functools.cache
def faketime() -> str:
    """Return the path of libfaketime, which shows programs another date; empty if the machine does not have it."""
    libraries = sorted(path for pattern in _FAKETIME for path in Path("/").glob(pattern))
    return str(libraries[0]) if libraries else ""


class SpareSlot(Protocol):
    """A slot for one more delegation, held until another delegation needs it."""

    @property
    def wanted(self) -> bool:
        """Whether a delegation waits for a slot."""
        ...

    def close(self) -> None:
        """Give it back. Closing it again has no effect."""
        ...


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """Where and how checks run."""

    tree: Path
    workspace: Path
    """The user's checkout, from which no check may load files."""
    scratch: Path
    """An empty folder outside both."""
    temporary: Path
    """Where all programs of checks put temporary files, those of parallel runs and copies, too."""
    mark: str
    facts: InterpreterFacts | None = None
    plan: ImportPlan = field(default_factory=ImportPlan)
    shadows: Path | None = None
    spare_slot: Callable[[], SpareSlot | None] | None = None
    """Takes a slot for runs beside the first one, and may block; None: there are never more runs at the same time."""
    limits: TreeLimits = field(default_factory=limits_of)
    """The limits of each program."""
    counted: Callable[[int, int], None] | None = None
    """Gets how many tests of a run have ended, and of how many."""
    linked: tuple[Path, ...] = ()
    """The items of the checkout that the tree links to."""
    hidden: tuple[Path, ...] = ()
    """Folders that programs find empty, except for the tree and what they need to run. If there are any, each program
    has its own folders for temporary files and shared memory, too."""

    def program(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], role: Role = Role.CHECK
    ) -> Program:
        """Return a program that runs tests."""
        access = AccessProfile(role)
        if self.hidden:
            shared = (*map(Path, _SHARED_FOLDERS), Path(tempfile.gettempdir()))
            access = AccessProfile(role, hidden=self.hidden, own=shared, shown=self._needed(argv, environment))
        return Program(argv, cwd, environment, access, mark=self.mark, limits=self.limits)

    def _needed(self, argv: Sequence[str], environment: Mapping[str, str]) -> tuple[Path, ...]:
        """Return the tree and what a program needs: what its command and environment name, and what is installed."""
        named = [*argv, *(path for value in environment.values() for path in value.split(os.pathsep))]
        installed = [*(self.facts.prefixes if self.facts is not None else ())]
        # Programs find what they are installed with beside their folder.
        folders = map(Path, environment.get("PATH", "").split(os.pathsep))
        around = [folder.parent for folder in folders if folder.name in _PROGRAM_FOLDERS]
        installed += [str(folder) for folder in around if not folder.is_relative_to(self.workspace)]
        return (
            self.tree,
            self.scratch,
            *self.linked,
            *(Path(path) for path in (*installed, *named) if path[:1] == "/"),
        )

    @property
    def checkout(self) -> Checkout:
        """Return the user's checkout without the environment inside it."""
        return Checkout(self.workspace, self.facts.prefixes if self.facts is not None else ())


@dataclass(frozen=True, kw_only=True)
class ResultToJudge:
    """A result and its base, and how checks run on them."""

    tree: JudgedTree
    base: str
    head: str
    changes: Sequence[Change]
    """From ``base`` to ``head``."""
    files: Sequence[str]
    """The files named as the code under test or under change."""
    context: CheckContext
    test_patterns: Sequence[str]
    """Patterns of test files that the project's configuration adds."""


def with_interpreter(
    setting: CheckContext, configured: str | None, folder: str = ""
) -> tuple[CheckContext, str | None]:
    """Add the Python environment of the project in ``folder``, if there is one; also return why it cannot be used.

    Blocks for seconds.
    """
    try:
        python = interpreter.project_python(
            setting.workspace, configured, tree=setting.tree, scratch=setting.scratch, folder=folder
        )
    except UnderstudyError as error:
        return setting, f"{error.message} {error.hint or ''}".strip()
    if python is None:
        return setting, None
    return dataclasses.replace(setting, facts=python.facts, plan=python.plan, shadows=python.shadows), None


@dataclass(frozen=True, kw_only=True)
class CheckOutcome:
    """The outcome of one run."""

    argv: list[str]
    started: bool
    """False if the program could not be started."""
    green: bool
    code: int | None
    seconds: float
    timed_out: bool
    counts: Counts | None
    report: ProbeReport
    wrong: list[str]
    sandbox: Sandbox | None
    """The isolation of its process; None if it could not be started."""
    failed_tests: tuple[str, ...] = ()
    """Names of the tests that failed, as the runner reports them."""
    output: str
    """The end of its output, plus the reason for a failure that the exit code does not show."""
    observed: Observed
    """What it shows about single tests, from the probe, the runner's report or its output."""
    printed: Counts | None = None
    """The counts in its output, or in the report that its runner writes; None if there are none."""
    hidden: bool = False
    """Whether folders were hidden from it."""

    @property
    def listed(self) -> bool:
        """Return whether a run that only lists tests was complete, so that its list can be trusted.

        pytest exits with 2 if it is interrupted or if files cannot be collected; only the latter reports such files.
        """
        whole = self.started and not self.timed_out and 0 < self.report.started <= self.report.ended
        return whole and (self.code in {0, 1, 5} or bool(self.report.collect_errors))


async def run_once(
    plan: PreparedCheck,
    setting: CheckContext,
    *,
    collect_only: bool = False,
    keep_going: bool = False,
    without_coverage: bool = False,
    variation: Variation | None = None,
    bare: bool = False,
    lines: Path | None = None,
    only: Path | None = None,
) -> CheckOutcome:
    """Run the check; ``collect_only`` makes a Python runner only list its tests.

    ``keep_going`` makes pytest run the other files if one cannot be collected, ``without_coverage`` switches pytest-cov
    off. ``variation`` sets order, hash seed and time zone, except where the check's own ``env`` does. ``bare`` leaves
    the probe out: the run is green if its exit code is 0, and Python tests keep their order. ``lines`` and ``only`` are
    those of ``ProbeOptions``.
    """
    folder = Path(tempfile.mkdtemp(prefix="report-", dir=setting.scratch))
    argv = list(plan.check.argv)
    environment = environment_of(plan.check, setting)
    if variation is not None:
        pinned = plan.check.env or {}
        environment |= {name: value for name, value in variation.variables().items() if name not in pinned}
    timeout = plan.check.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
    probe = None if bare else await asyncio.to_thread(write_probe, folder)
    try:
        argv = expanded(plan, setting, folder)
        if variation is not None:
            place = len(argv) if plan.runner.options_at is None else plan.runner.options_at
            argv[place:place] = variation.arguments(plan.runner)
        with (
            hidden_files_placed(plan.check, setting.tree, hidden_files_record(setting.scratch.parent)),
            ReportChannel(folder, setting.counted) as channel,
        ):
            if probe is not None:
                options = ProbeOptions(
                    root=setting.workspace,
                    collect_only=collect_only,
                    keep_going=keep_going,
                    without_coverage=without_coverage,
                    order=variation.order if variation is not None else "",
                    lines=lines,
                    only=only,
                )
                add_probe(environment, probe, channel, options)
            completed = await run_process(
                setting.program(
                    plan.runner.started(argv, probe), working_folder(plan.check, setting.tree), environment
                ),
                timeout_seconds=timeout,
                output_limit=_OUTPUT_BYTES,
                started=channel.answer,
            )
    except UnderstudyError as error:
        if error.kind is ErrorKind.CANCELLED:
            raise
        return _not_started(argv, error)
    report = ProbeReport() if bare else read_probe(channel.received(), folder)
    output = Output(stdout=completed.stdout, report=folder / _REPORT)
    own_counts = plan.runner.counts(output)
    counts = report.counts if report.started else own_counts
    reason = None
    if completed.timed_out:
        reason = f"The check did not finish within {timeout:g} seconds and was killed."
    elif (exceeded := completed.limit_error) is not None:
        reason = f"{exceeded.message} {exceeded.hint}"
    elif completed.code == 0 and not bare:
        reason = _why_red(plan, report, counts, collect_only=collect_only)
    text = tail(completed.stdout, completed.stderr)
    if reason is None and completed.code != 0:
        reason = _other_python(plan, setting.facts, text)
    green = completed.code == 0 and reason is None
    if not green:
        # The end of the output is what is shown first.
        reason = "\n".join(part for part in (plan.runner.why_failed(output), reason) if part) or None
    return CheckOutcome(
        argv=argv,
        started=True,
        green=green,
        code=completed.code,
        seconds=completed.seconds,
        timed_out=completed.timed_out,
        counts=counts,
        report=report,
        sandbox=completed.sandbox,
        failed_tests=_failed_names(plan, report, output),
        wrong=wrong_files(report, setting.checkout, setting.tree)[:_MOST_WRONG_FILES],
        output=text if reason is None else f"{text}\n{reason}".strip(),
        observed=_observed(plan, report, counts, completed, (output, setting.tree), green=green),
        printed=own_counts or printed_counts(completed.stdout, completed.stderr),
        hidden=bool(setting.hidden),
    )


def _failed_names(plan: PreparedCheck, report: ProbeReport, output: Output) -> tuple[str, ...]:
    """Return the names of failed tests and of test files that cannot be loaded, at most 100, sorted."""
    failed = {test for test, outcome in report.outcomes.items() if outcome == "failed"} | report.collect_errors
    return tuple(sorted(failed if report.started else set(plan.runner.failed(output)))[:_MOST_FAILED])


def _observed(
    plan: PreparedCheck,
    report: ProbeReport,
    counts: Counts | None,
    completed: Completed,
    written: tuple[Output, Path],
    *,
    green: bool,
) -> Observed:
    outcomes = report.outcomes
    unbuilt = bool(report.collect_errors)
    if not report.started:
        outcomes = plan.runner.outcomes(*written) or printed_outcomes(completed.stdout, completed.stderr)
        counts = counts or printed_counts(completed.stdout, completed.stderr)
        unbuilt = not green and build_failed(completed.stdout, completed.stderr)
    return Observed(
        green=green,
        outcomes=outcomes,
        passed=counts.passed if counts is not None else None,
        failed=counts.failed if counts is not None else None,
        skipped=counts.skipped if counts is not None else None,
        unbuilt=unbuilt,
        timed_out=completed.timed_out,
    )


@contextlib.asynccontextmanager
async def temporary_folder(scratch: Path) -> AsyncIterator[Path]:
    """Yield a new folder in the system's place for temporary files, or in ``scratch`` if there is none; delete it.

    Dozens of runs on mutants would leave folders in the user's place, and pytest, which keeps only the last three,
    would remove those of the user. The folder is not always in ``scratch``, because the path of a socket may have at
    most 104 bytes. After a killed worker it stays, like the temporary files of other programs.
    """
    folder = await asyncio.to_thread(_made, scratch)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(delete_folder, folder)


def _made(scratch: Path) -> Path:
    try:
        # The usual name: a result must not see by it that it is judged.
        return Path(tempfile.mkdtemp())
    except OSError:
        return Path(tempfile.mkdtemp(dir=scratch))


def environment_of(check: Check, setting: CheckContext) -> dict[str, str]:
    """Return the environment of a check (see ``interpreter.check_environment``)."""
    environment = check_environment(
        facts=setting.facts,
        plan=setting.plan,
        shadows=setting.shadows,
        temporary=setting.temporary,
        tree=setting.tree,
        extra=check.env or {},
    )
    return {name: str(setting.scratch / folder) for runner in RUNNERS for name, folder in runner.caches.items()} | (
        environment
    )


def expanded(plan: PreparedCheck, setting: CheckContext, report_folder: Path) -> list[str]:
    """Return the argument vector with its slots filled; an argument with ``{tests}`` is repeated for each file.

    Raise ``tool_missing`` if it needs an interpreter and the project has none.
    """
    if setting.facts is None and any(PYTHON_SLOT in argument for argument in plan.check.argv):
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING,
            "The project has no Python interpreter.",
            hint=f"Create the project's environment (.venv), or {NAME_PYTHON}.",
        )
    python = setting.facts.executable if setting.facts is not None else ""
    folder = working_folder(plan.check, setting.tree)
    tests = [_as_argument(os.path.relpath(setting.tree / test, folder)) for test in plan.tests]
    argv: list[str] = []
    for argument in plan.check.argv:
        filled = argument.replace(PYTHON_SLOT, python).replace(REPORT_SLOT, str(report_folder / _REPORT))
        argv += [filled.replace(TESTS_SLOT, test) for test in tests] if TESTS_SLOT in filled else [filled]
    return argv


def working_folder(check: Check, tree: Path) -> Path:
    """Return the folder a check runs in; raise ``path_escape`` if it is outside the worktree."""
    folder = Path(os.path.normpath(tree / (check.cwd or ".")))
    if not folder.is_relative_to(tree) or not folder.resolve().is_relative_to(tree.resolve()):
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"The folder {check.cwd} of the check {check.name} is outside the workspace.",
            hint="Set `cwd` to a path relative to the workspace, without '..'.",
        )
    return folder


def _as_argument(path: str) -> str:
    # A runner would parse a file name such as `-x_test.py` as an option.
    return f"./{path}" if path.startswith("-") else path


def _why_red(plan: PreparedCheck, report: ProbeReport, counts: Counts | None, *, collect_only: bool) -> str | None:
    """Return why a run with exit code 0 failed; None if it succeeded."""
    if report.started > report.ended:
        return "The test process exited before the test run was complete."
    if collect_only:
        return None
    if counts is None:
        return "The check did not report which tests ran." if plan.runner.reports else None
    if counts.failed:
        return f"{counts.failed} tests failed, although the exit code is 0."
    if report.dropped and plan.uses_tests:
        dropped = name_list(sorted(report.dropped), _MOST_NAMED)
        return f"{len(report.dropped)} tests were found and taken out before the run: {dropped}."
    silent = report.silent
    if silent:
        return f"{len(silent)} collected tests have no outcome: {name_list(sorted(silent), _MOST_NAMED)}."
    if counts.passed == 0:
        return "No test passed." if not counts.skipped else f"No test passed: all {counts.skipped} were skipped."
    return None


def _other_python(plan: PreparedCheck, facts: InterpreterFacts | None, text: str) -> str | None:
    """Return which Python lacked a module, if it is not the project's own for certain."""
    uses_it = any(PYTHON_SLOT in argument for argument in plan.check.argv)
    if facts is None or facts.origin != "PATH" or not uses_it or "No module named" not in text:
        return None
    return f"The tests ran with {facts.executable}, found on PATH. If the project has another one, {NAME_PYTHON}."


def _not_started(argv: Sequence[str], error: UnderstudyError) -> CheckOutcome:
    hint = f" {error.hint}" if error.hint else ""
    return CheckOutcome(
        argv=list(argv),
        started=False,
        green=False,
        code=None,
        seconds=0.0,
        timed_out=False,
        counts=None,
        report=ProbeReport(),
        sandbox=None,
        wrong=[],
        output=f"{' '.join(argv[:1])} could not be run: {error.message}{hint}",
        observed=Observed(green=False, started=False),
    )
