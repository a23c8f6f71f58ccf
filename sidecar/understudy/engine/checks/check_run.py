"""One run of one check on the tree as it is now."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from understudy.engine.checks.editable import Checkout
from understudy.engine.checks.environment import (
    PROBE_FOLDER,
    ImportPlan,
    InterpreterFacts,
    check_environment,
)
from understudy.engine.checks.reports import (
    Counts,
    ProbeReport,
    cargo_counts,
    go_counts,
    jest_counts,
    read_json,
    read_probe,
    tail,
    wrong_files,
)
from understudy.model.delegators import Check
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.children import run as run_process

Kind = Literal["pytest", "unittest", "jest", "vitest", "go", "cargo", "command"]

DEFAULT_TIMEOUT_SECONDS = 600.0
"""Of a check that sets no limit of its own."""
_OUTPUT_BYTES = 16 * 1024 * 1024
"""Kept of what a check prints; the counts of go and cargo are read from it."""
_MOST_WRONG_FILES = 20
_ADDOPTS = "-p understudy_probe"

PYTHON_SLOT, TESTS_SLOT, REPORT_SLOT = "{python}", "{tests}", "{report}"
"""Slots of ``argv``; the report (a JSON file the runner writes) is for the built-in checks."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A check made ready for one result."""

    check: Check
    kind: Kind = "command"
    tests: tuple[str, ...] = ()
    """The test files that the result added or changed, relative to the tree."""
    builtin: bool = False
    uses_tests: bool = False
    """It runs only those files, so it means nothing on the base."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where checks run."""

    tree: Path
    workspace: Path
    """The user's checkout, from which nothing may be loaded."""
    scratch: Path
    """An empty folder outside both."""
    mark: str
    facts: InterpreterFacts | None = None
    plan: ImportPlan = field(default_factory=ImportPlan)
    shadows: Path | None = None

    @property
    def checkout(self) -> Checkout:
        """Return the user's checkout without the environment inside it."""
        return Checkout(self.workspace, self.facts.prefixes if self.facts is not None else ())


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run came to."""

    argv: list[str]
    started: bool
    """False: the program could not be run at all."""
    green: bool
    code: int | None
    seconds: float
    timed_out: bool
    counts: Counts | None
    report: ProbeReport
    wrong: list[str]
    output: str
    """The end of its output, after the reason why it is red where the exit code does not say it."""

    @property
    def listed(self) -> bool:
        """Say whether a run that only lists tests came to its end: an empty list of one that was cut off says nothing.

        pytest ends with 2 when it is interrupted, and when files cannot be collected; only then it names these.
        """
        whole = self.started and not self.timed_out and 0 < self.report.started <= self.report.ended
        return whole and (self.code in {0, 1, 5} or bool(self.report.collect_errors))


async def run_once(plan: Plan, setting: Setting, *, control: bool = False, collect_only: bool = False) -> Outcome:
    """Run the check; ``control`` arms the broken code, ``collect_only`` asks a Python runner to list its tests only."""
    folder = Path(tempfile.mkdtemp(prefix="report-", dir=setting.scratch))
    argv = list(plan.check.argv)
    environment = check_environment(
        facts=setting.facts,
        plan=setting.plan,
        shadows=setting.shadows,
        scratch=setting.scratch,
        tree=setting.tree,
        extra=plan.check.env or {},
    )
    _add_probe(environment, folder, setting, control=control, collect_only=collect_only)
    timeout = plan.check.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
    try:
        argv = expanded(plan, setting, folder)
        completed = await run_process(
            argv,
            cwd=working_folder(plan.check, setting.tree),
            env=environment,
            mark=setting.mark,
            timeout_seconds=timeout,
            stdin=None,
            output_limit=_OUTPUT_BYTES,
        )
    except UnderstudyError as error:
        if error.kind is ErrorKind.CANCELLED:
            raise
        return _not_started(argv, error)
    report = read_probe(folder)
    counts = _counts(plan, report, completed.stdout, folder)
    reason = None
    if completed.timed_out:
        reason = f"It did not end within {timeout:g} seconds and was ended."
    elif completed.code == 0:
        reason = _why_red(plan, report, counts, collect_only=collect_only)
    text = tail(completed.stdout, completed.stderr)
    return Outcome(
        argv=argv,
        started=True,
        green=completed.code == 0 and reason is None,
        code=completed.code,
        seconds=completed.seconds,
        timed_out=completed.timed_out,
        counts=counts,
        report=report,
        wrong=wrong_files(report, setting.checkout, setting.tree)[:_MOST_WRONG_FILES],
        output=text if reason is None else f"{text}\n{reason}".strip(),
    )


def expanded(plan: Plan, setting: Setting, report_folder: Path) -> list[str]:
    """Return the argument vector with its slots filled; one that holds ``{tests}`` is repeated for each file.

    Raises ``tool_missing`` where the project has no interpreter to fill in.
    """
    if setting.facts is None and any(PYTHON_SLOT in argument for argument in plan.check.argv):
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING,
            "No Python interpreter of the project was found.",
            hint="Make the project's environment (.venv), or configure its interpreter.",
        )
    python = setting.facts.executable if setting.facts is not None else ""
    folder = working_folder(plan.check, setting.tree)
    tests = [_as_argument(os.path.relpath(setting.tree / test, folder)) for test in plan.tests]
    argv: list[str] = []
    for argument in plan.check.argv:
        filled = argument.replace(PYTHON_SLOT, python).replace(REPORT_SLOT, str(report_folder / "runner.json"))
        argv += [filled.replace(TESTS_SLOT, test) for test in tests] if TESTS_SLOT in filled else [filled]
    return argv


def working_folder(check: Check, tree: Path) -> Path:
    """Return the folder a check runs in; raises ``path_escape`` when it leads out of the tree."""
    folder = Path(os.path.normpath(tree / (check.cwd or ".")))
    if not folder.is_relative_to(tree) or not folder.resolve().is_relative_to(tree.resolve()):
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"The folder {check.cwd} of the check {check.name} lies outside the workspace.",
            hint="Give `cwd` relative to the workspace, without '..'.",
        )
    return folder


def _as_argument(path: str) -> str:
    # A file may be called `-x_test.py`; a runner would take it for an option.
    return f"./{path}" if path.startswith("-") else path


def _add_probe(
    environment: dict[str, str], folder: Path, setting: Setting, *, control: bool, collect_only: bool
) -> None:
    environment["UNDERSTUDY_PROBE_FOLDER"] = str(folder)
    environment["UNDERSTUDY_PROBE_ROOT"] = str(setting.workspace)
    if control:
        environment["UNDERSTUDY_PROBE_CONTROL"] = str(folder / "bitten")
    own = _ADDOPTS
    if collect_only:
        environment["UNDERSTUDY_PROBE_COLLECT"] = "1"
        own += " --collect-only"
    environment["UNDERSTUDY_PROBE_ADDOPTS"] = own
    environment["PYTEST_ADDOPTS"] = f"{environment.get('PYTEST_ADDOPTS', '')} {own}".strip()
    # Node reads its options like a shell does: quoted, with backslashes escaped (see `node --help`, NODE_OPTIONS).
    script = str(PROBE_FOLDER / "probe.cjs").replace("\\", "\\\\").replace('"', '\\"')
    environment["NODE_OPTIONS"] = f'{environment.get("NODE_OPTIONS", "")} --require "{script}"'.strip()


def _counts(plan: Plan, report: ProbeReport, stdout: bytes, folder: Path) -> Counts | None:
    if report.started:
        return report.counts
    if plan.kind in {"jest", "vitest"}:
        return jest_counts(read_json(folder / "runner.json"))
    if plan.kind == "go":
        return go_counts(stdout.decode("utf-8", "replace"))
    if plan.kind == "cargo":
        return cargo_counts(stdout.decode("utf-8", "replace"))
    return None


def _why_red(plan: Plan, report: ProbeReport, counts: Counts | None, *, collect_only: bool) -> str | None:
    """Say why a run with exit code 0 is no success; ``None``: it is one."""
    if report.started > report.ended:
        return "The test run ended itself before it was over."
    if collect_only:
        return None
    if counts is None:
        return "It did not report which tests ran." if plan.kind != "command" else None
    if counts.failed:
        return f"{counts.failed} tests failed, although the exit code is 0."
    if counts.passed == 0:
        return "No test passed." if not counts.skipped else f"No test passed: all {counts.skipped} were skipped."
    return None


def _not_started(argv: Sequence[str], error: UnderstudyError) -> Outcome:
    hint = f" {error.hint}" if error.hint else ""
    return Outcome(
        argv=list(argv),
        started=False,
        green=False,
        code=None,
        seconds=0.0,
        timed_out=False,
        counts=None,
        report=ProbeReport(),
        wrong=[],
        output=f"{' '.join(argv[:1])} was not run: {error.message}{hint}",
    )
