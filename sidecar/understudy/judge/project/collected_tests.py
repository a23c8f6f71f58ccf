"""Collect the tests of a project once, without running them, to see what its environment lacks."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

from understudy.judge.project.interpreter import ImportPlan, InterpreterFacts, check_environment
from understudy.judge.project.missing_modules import Why, why_no_tests
from understudy.process.program_spec import AccessProfile, Program, Role, limits_of
from understudy.process.programs import children

SECONDS = 20.0
"""Time limit; a suite that takes longer to collect is not reported, because nothing is known to be missing."""
_DONE = (0, 1, 5)
"""Exit codes of pytest when all files were collected: 5 if there are no tests."""
_ERROR = re.compile(r"^(?:E\s+|ERROR: )(.+)$", re.MULTILINE)
_OUTPUT_BYTES = 4 * 1024 * 1024


def why_not_collected(folder: Path, facts: InterpreterFacts, scratch: Path) -> Why | None:
    """Return why pytest cannot collect the tests in ``folder``, and what to do; None if it can, or takes too long.

    This executes the project's code, where the user would: only in a trusted workspace. Blocks for up to 20 seconds.
    """
    environment = check_environment(
        facts=facts, plan=ImportPlan(), shadows=None, temporary=scratch, tree=folder, extra={"NO_COLOR": "1"}
    )
    # The project's options can need the cache, and coverage would write its report into the project.
    argv = [facts.executable, "-m", "pytest", "-q", "--collect-only", "-o", f"cache_dir={scratch / 'cache'}"]
    argv += ["--no-cov"] if facts.has_pytest_cov else []
    program = Program(
        argv, folder, environment, AccessProfile(Role.CHECK), mark="collect", join_output=True, limits=limits_of()
    )
    completed = asyncio.run(children.run(program, timeout_seconds=SECONDS, output_limit=_OUTPUT_BYTES))
    if completed.timed_out or completed.limit_error is not None or completed.code in _DONE:
        return None
    printed = completed.stdout.decode("utf-8", "replace")
    if (missing := why_no_tests(folder, printed, facts.executable)) is not None:
        return missing
    errors = _ERROR.findall(printed)
    why = errors[0].strip() if errors else f"pytest ended with exit code {completed.code}"
    command = shlex.join([facts.executable, "-m", "pytest", "--collect-only", "-q"])
    return f"pytest cannot collect the tests: {why.rstrip('.')}", f"See the whole error in {folder}: {command}", None
