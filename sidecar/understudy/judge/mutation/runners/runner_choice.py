"""Choose the runner on mutants for a check."""

from __future__ import annotations

import dataclasses
import importlib

import msgspec

from understudy.judge.mutation.runners.check_mutants import CheckMutants
from understudy.judge.runs.check_run import CheckContext, PreparedCheck, working_folder
from understudy.judge.runs.runner_registry import RUNNERS


def runner_for(plan: PreparedCheck, context: CheckContext, *, keep: bool = True) -> CheckMutants:
    """Return a runner (``MutantRunner``) for a check of any kind but pytest, for which ``python_tests`` is faster.

    ``context.tree`` is a copy of the result in which files are replaced while tests run. ``keep`` allows one process
    to run the tests of many mutants, where that gives the same results.
    """
    folder = working_folder(plan.check, context.tree)
    runner = next((each for each in RUNNERS if each.starts(plan.check.argv, folder)), plan.runner)
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
