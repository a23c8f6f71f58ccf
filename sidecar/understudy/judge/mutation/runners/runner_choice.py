"""Choose the runner on mutants for a check."""

from __future__ import annotations

import dataclasses

import msgspec

from understudy.judge.deciding.command_lines import program_of
from understudy.judge.mutation.runners.cargo_mutants import CargoMutants, is_cargo_test
from understudy.judge.mutation.runners.check_mutants import CheckMutants
from understudy.judge.mutation.runners.go_mutants import GoMutants, is_go_test
from understudy.judge.mutation.runners.script_commands import NODE_PROGRAMS, script_runner
from understudy.judge.mutation.runners.script_mutants import ScriptMutants
from understudy.judge.mutation.runners.unittest_mutants import UnittestMutants
from understudy.judge.runs.check_run import PYTHON_SLOT, CheckContext, PreparedCheck


def runner_for(plan: PreparedCheck, context: CheckContext, *, keep: bool = True) -> CheckMutants:
    """Return a runner (``MutantRunner``) for a check of any kind but pytest, for which ``python_tests`` is faster.

    ``context.tree`` is a copy of the result in which files are replaced while tests run. ``keep`` allows one process
    to run the tests of many mutants, where that gives the same results.
    """
    if plan.kind == "unittest":
        return UnittestMutants(plan, context)
    if is_go_test(plan):
        return GoMutants(plan, context)
    if is_cargo_test(plan):
        return CargoMutants(plan, context)
    scripts = script_runner(plan, context.tree)
    if scripts is not None or program_of(plan.check.argv[0]) in NODE_PROGRAMS:
        return ScriptMutants(plan, context, scripts, keep=keep)
    return CheckMutants(_naming_tests(plan), context)


def _naming_tests(plan: PreparedCheck) -> PreparedCheck:
    """Return the check so that it names its tests, where that takes only an option."""
    argv = plan.check.argv
    if "unittest" not in argv[1:3] or program_of(argv[0]) not in {"python", PYTHON_SLOT}:
        return plan
    return dataclasses.replace(plan, check=msgspec.structs.replace(plan.check, argv=[*argv, "-v"]))
