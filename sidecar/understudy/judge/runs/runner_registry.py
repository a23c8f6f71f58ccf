"""Find the declarations of test runners: the modules of ``understudy.judge.test_runners``."""

from __future__ import annotations

import importlib
import pkgutil

from understudy.judge import test_runners
from understudy.judge.test_runners.shared.test_runner import TestRunner


def _declared() -> tuple[TestRunner, ...]:
    modules = [module.name for module in pkgutil.iter_modules(test_runners.__path__) if not module.ispkg]
    declared = [importlib.import_module(f"{test_runners.__name__}.{name}").RUNNER for name in modules]
    return tuple(sorted(declared, key=lambda runner: runner.order))


RUNNERS = _declared()
"""Every runner, the more specific ones first."""
BY_NAME = {runner.name: runner for runner in RUNNERS}
ANY_COMMAND = RUNNERS[-1].name
"""The least specific one accepts every command."""
