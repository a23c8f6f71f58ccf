"""Mutation-test new tests: check that they fail when the code under test is broken.

Every function body of the files under test is broken (``injected/understudy_mutate``), and the same check runs again;
the broken functions raise once collection is over. A test that passed before and now fails in setup or call has
*killed* the mutant; a test that still passes *survived*. Failures of import, of collection and of teardown do not
count, nor does a failure before any broken function has raised: such a test may fail because of files from its first
run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from understudy.engine.checks.check_run import CheckContext, CheckOutcome, PreparedCheck, run_once
from understudy.engine.checks.interpreter import PROBE_FOLDER
from understudy.model.checks import MutationResult
from understudy.model.errors import UnderstudyError
from understudy.process.children import run as run_process
from understudy.process.environment import base_environment

_REWRITE_SECONDS = 60.0
"""Time limit for one file; a megabyte of Python takes 3 s."""
_MOST_SURVIVORS = 500
"""Most survivors that a result lists."""


@dataclass(frozen=True, kw_only=True)
class MutationRun:
    """The outcome of mutation testing: ``result`` is None if it was not possible, for the reason in ``why``."""

    result: MutationResult | None = None
    why: str = ""
    killed: frozenset[str] = frozenset()
    outcome: CheckOutcome | None = None


def can_mutate(path: str, tests: Sequence[str]) -> bool:
    """Return whether this file can be mutated: it is Python, and not one of the tests."""
    return PurePosixPath(path).suffix == ".py" and path not in tests


async def run_mutated(
    plan: PreparedCheck, setting: CheckContext, files: Sequence[str], green: CheckOutcome
) -> MutationRun:
    """Break ``files`` in the worktree, which must be exactly the result, and run the check again.

    ``green`` is the run in which the tests passed. The worktree stays broken: reset it afterwards.
    """
    if not green.report.passed:
        return MutationRun(why="tests of this kind cannot be mutation-tested")
    if setting.facts is None:
        return MutationRun(why="there is no Python interpreter")
    functions = 0
    reasons: list[str] = []
    for file in files:
        path = setting.tree / file
        reason = await asyncio.to_thread(_make_writable, path, setting.tree)
        if not reason:
            count, reason = await _break(path, setting)
            functions += count
        if reason:
            reasons.append(f"{file}: {reason}")
    if functions == 0:
        return MutationRun(why="; ".join(reasons) or "the code under test has no function that can be broken")
    outcome = await run_once(plan, setting, mutated=True)
    before = green.report.passed
    killed = before & outcome.report.killed
    if not killed and outcome.timed_out:
        return MutationRun(why="the tests did not finish while the code under test was broken", outcome=outcome)
    if not before & (outcome.report.collected | outcome.report.outcomes.keys()):
        return MutationRun(why="the tests cannot be collected while the code under test is broken", outcome=outcome)
    failed = {test for test, result in outcome.report.outcomes.items() if result == "failed"}
    survived = sorted(before & outcome.report.outcomes.keys() - failed)
    return MutationRun(
        result=MutationResult(killed=len(killed), survived=survived[:_MOST_SURVIVORS]),
        killed=killed,
        outcome=outcome,
    )


def _make_writable(path: Path, tree: Path) -> str:
    """Make the file writable; return a reason if it must not be written, or an empty string."""
    if not path.resolve().is_relative_to(tree.resolve()):
        return "it is outside the worktree"
    if not path.is_file():
        return "it is not in the result"
    path.chmod(path.stat().st_mode | 0o200)
    return ""


async def _break(path: Path, setting: CheckContext) -> tuple[int, str]:
    """Break the functions of a file; return how many, and the reason if it failed."""
    assert setting.facts is not None  # noqa: S101 - checked by the caller
    # -I and -S: neither the worktree nor start-up files of the environment can influence the mutation.
    argv = [setting.facts.executable, "-I", "-S", str(PROBE_FOLDER / "understudy_mutate.py"), str(path)]
    try:
        completed = await run_process(
            argv,
            cwd=setting.scratch,
            env=base_environment({"PYTHONDONTWRITEBYTECODE": "1"}),
            mark=setting.mark,
            timeout_seconds=_REWRITE_SECONDS,
            stdin=None,
            output_limit=64 * 1024,
        )
    except UnderstudyError as error:
        return 0, error.message
    if completed.code != 0:
        return 0, completed.stderr.decode("utf-8", "replace").strip()[-300:] or "it took too long"
    return int(completed.stdout.decode("ascii", "replace").strip() or 0), ""
