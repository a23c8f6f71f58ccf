"""Runs test files with unittest and reports like the pytest plugin: ``python -m understudy_unittest FILE…``.

Each file is loaded as ``python -m unittest discover`` would load it: its folder, or the first folder above that is no
package, comes first on the import path.
"""

from __future__ import annotations

import os
import sys
import unittest
from typing import Any, List  # noqa: UP035 - Python 3.8

import understudy_control  # type: ignore[import-not-found] # a neighbour on the project's PYTHONPATH
import understudy_report  # type: ignore[import-not-found]


class _Result(unittest.TextTestResult):
    recorder: Any = None

    def _say(self, test: Any, outcome: str) -> None:
        if self.recorder is not None:
            bitten = outcome == "failed" and understudy_control.has_bitten()
            self.recorder.outcome(test.id(), "call", outcome, bitten=bitten)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        super().addSuccess(test)
        self._say(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._say(test, "failed")

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._say(test, "failed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._say(test, "skipped")

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self._say(test, "skipped")

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        super().addUnexpectedSuccess(test)
        self._say(test, "failed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._say(test, "failed")


def main(files: List[str]) -> int:  # noqa: UP006
    """Run the tests in ``files``; return 0 when all passed, 1 when one failed, 5 when there was none."""
    settings = understudy_report.take_settings()
    recorder = understudy_report.Recorder(settings, "unittest") if settings is not None else None
    loaded = understudy_report.Loaded(settings.root) if settings is not None else None
    suite = unittest.TestSuite()
    for file in files:
        folder, name = os.path.split(os.path.abspath(file))  # noqa: PTH100
        suite.addTests(unittest.TestLoader().discover(folder, pattern=name, top_level_dir=_top_of(folder)))
    tests = _flatten(suite)
    broken = [test for test in tests if type(test).__module__ == "unittest.loader"]
    if recorder is not None:
        recorder.line(k="collected", ids=[test.id() for test in tests if test not in broken])
        for test in broken:
            recorder.line(k="collect_error", id=test.id())
    code = 0
    if settings is None or not settings.collect_only:
        if settings is not None and settings.control:
            understudy_control.arm(settings.control)
        _Result.recorder = recorder
        runner: Any = unittest.TextTestRunner
        result = runner(resultclass=_Result, verbosity=2).run(suite)
        code = (0 if result.wasSuccessful() else 1) if result.testsRun or result.errors else 5
    if recorder is not None and loaded is not None:
        recorder.line(k="files", files=loaded.files())
        recorder.line(k="end", exit=code)
    return code


def _top_of(folder: str) -> str:
    while os.path.exists(os.path.join(folder, "__init__.py")):  # noqa: PTH110, PTH118
        folder = os.path.dirname(folder)  # noqa: PTH120
    return folder


def _flatten(suite: Any) -> List[Any]:  # noqa: UP006
    tests: List[Any] = []  # noqa: UP006
    for part in suite:
        tests.extend(_flatten(part) if isinstance(part, unittest.TestSuite) else [part])
    return tests


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
