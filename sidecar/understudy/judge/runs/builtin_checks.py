"""Detect the built-in test checks: which runner runs the test files that a result added or changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.judge.runs.check_run import PreparedCheck
from understudy.judge.runs.judged_tree import Change
from understudy.judge.runs.runner_registry import RUNNERS
from understudy.judge.test_runners.shared.project_files import Read
from understudy.judge.test_runners.shared.test_runner import NewTests, NewTestsCheck
from understudy.model.evidence.checks import Check


@dataclass(frozen=True, kw_only=True)
class Detected:
    """The built-in checks for a result, and messages about tests that cannot be run."""

    plans: tuple[PreparedCheck, ...]
    notes: tuple[str, ...] = ()


def detect(
    changes: Sequence[Change],
    tree: Path,
    read: Read,
    read_base: Read,
    *,
    has_python: bool,
    has_pytest: bool,
    has_pytest_cov: bool,
) -> Detected:
    """Return a check for each language in which the result added or changed test files.

    ``read`` and ``read_base`` read files of the result and of its base. ``has_pytest`` and ``has_pytest_cov``: the
    project's interpreter can import it.
    """
    new = NewTests(
        changed=_present(changes),
        tree=tree,
        read=read,
        read_base=read_base,
        has_python=has_python,
        has_pytest=has_pytest,
        has_pytest_cov=has_pytest_cov,
    )
    plans: dict[str, PreparedCheck] = {}
    notes: dict[str, str] = {}
    for runner in RUNNERS:
        if runner.language in plans:
            continue
        answer = runner.check_new(new)
        if isinstance(answer, NewTestsCheck):
            check = Check(name=f"tests-{runner.name}", argv=answer.argv)
            plans[runner.language] = PreparedCheck(
                check=check, kind=runner.name, tests=tuple(answer.tests), builtin=True, uses_tests=True
            )
        elif answer is not None:
            notes.setdefault(runner.language, answer)
    return Detected(
        plans=tuple(plans.values()),
        notes=tuple(note for language, note in notes.items() if language not in plans),
    )


def test_files(changes: Sequence[Change], read: Read) -> list[str]:
    """Return the added or changed test files of every built-in check: the value of ``{tests}``."""
    changed = _present(changes)
    tests = {path for runner in RUNNERS for path in runner.test_files(changed, read)}
    return [path for path in changed if path in tests]


def test_globs(read: Read) -> list[str]:
    """Return the names of test files that the project configures."""
    return [glob for runner in RUNNERS for glob in runner.test_globs(read)]


def _present(changes: Sequence[Change]) -> list[str]:
    return [path for status, path in changes if status[:1] != "D"]
