"""The control: a test that cannot fail is no test.

Every function body of the files under test is broken on purpose (``probe/understudy_rewrite``), the same check runs
again, and the code raises as soon as collection is over. A test that passed before and fails now, in setup or call,
is *bitten*; one that passes all the same has *survived*. Failures of import, of collection and of teardown never
count, and neither does a failure before any broken function has raised: a test that fails the second time because of
what it left behind the first time was not bitten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from understudy.engine.checks.environment import PROBE_FOLDER
from understudy.engine.checks.execute import Outcome, Plan, Setting, run_once
from understudy.model.delegations import Control
from understudy.model.errors import UnderstudyError
from understudy.process.children import run as run_process
from understudy.process.environment import base_environment

_REWRITE_SECONDS = 60.0
"""For one file; a megabyte of Python takes 3 s."""
_MOST_SURVIVORS = 500
"""Named beside the verdict; a list that nobody reads to its end."""


@dataclass(frozen=True, kw_only=True)
class Controlled:
    """What the control showed: ``control`` is ``None`` when it could not be carried out, and ``why`` says why."""

    control: Control | None = None
    why: str = ""
    bitten: frozenset[str] = frozenset()
    outcome: Outcome | None = None


def can_be_broken(path: str, tests: Sequence[str]) -> bool:
    """Say whether the control knows how to break this file: Python, and not itself one of the tests."""
    return PurePosixPath(path).suffix == ".py" and path not in tests


async def run_control(plan: Plan, setting: Setting, files: Sequence[str], green: Outcome) -> Controlled:
    """Break ``files`` in the tree, which holds exactly the result, and run the check again.

    ``green`` is the run in which the tests passed. The tree is left broken: make it anew afterwards.
    """
    if not green.report.passed:
        return Controlled(why="there is no control for this kind of test")
    if setting.facts is None:
        return Controlled(why="there is no Python interpreter")
    functions = 0
    reasons: list[str] = []
    for file in files:
        path = setting.tree / file
        reason = await asyncio.to_thread(_why_untouchable, path, setting.tree)
        if not reason:
            count, reason = await _break(path, setting)
            functions += count
        if reason:
            reasons.append(f"{file}: {reason}")
    if functions == 0:
        return Controlled(why="; ".join(reasons) or "the code under test has no function that could be broken")
    outcome = await run_once(plan, setting, control=True)
    before = green.report.passed
    bitten = before & outcome.report.bitten
    if not bitten and outcome.timed_out:
        return Controlled(why="the tests did not end while the code under test was broken", outcome=outcome)
    if not before & (outcome.report.collected | outcome.report.outcomes.keys()):
        return Controlled(why="the tests cannot be collected while the code under test is broken", outcome=outcome)
    failed = {test for test, result in outcome.report.outcomes.items() if result == "failed"}
    survived = sorted(before & outcome.report.outcomes.keys() - failed)
    return Controlled(
        control=Control(bitten=len(bitten), survived=survived[:_MOST_SURVIVORS]),
        bitten=bitten,
        outcome=outcome,
    )


def _why_untouchable(path: Path, tree: Path) -> str:
    """Say why the file is not to be written; make it writable otherwise."""
    if not path.resolve().is_relative_to(tree.resolve()):
        return "it leads out of the tree"
    if not path.is_file():
        return "it is not in the result"
    path.chmod(path.stat().st_mode | 0o200)
    return ""


async def _break(path: Path, setting: Setting) -> tuple[int, str]:
    """Return how many functions of the file were broken, and why none was."""
    assert setting.facts is not None  # noqa: S101 - the caller has looked
    # -I and -S: neither the tree nor the environment's start-up files have a say in how the code is broken.
    argv = [setting.facts.executable, "-I", "-S", str(PROBE_FOLDER / "understudy_rewrite.py"), str(path)]
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
