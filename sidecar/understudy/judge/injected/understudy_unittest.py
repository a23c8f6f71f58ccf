"""Run test files with unittest and report like the pytest plugin: ``python -m NAME FILE…``, NAME being random.

Each file is loaded as by ``python -m unittest discover``: its folder, or the first parent folder that is not a package,
comes first on the import path.
"""

from __future__ import annotations

import json
import os
import sys
import unittest
from typing import Any, List, Set  # noqa: UP035 - Python 3.8

import understudy_report  # type: ignore[import-not-found] # in the same folder, on the project's PYTHONPATH


class _Result(unittest.TextTestResult):
    recorder: Any = None
    lines: Any = None
    _sent: Any = None
    """What was reported last: thousands of subtests may fail with their test."""

    def startTest(self, test: Any) -> None:  # noqa: N802
        super().startTest(test)
        if self.lines is not None:
            self.lines.starts(test.id())

    def stopTest(self, test: Any) -> None:  # noqa: N802
        if self.lines is not None:
            self.lines.starts(None)
        super().stopTest(test)

    def _report(self, test: Any, outcome: str) -> None:
        if self.recorder is not None and self._sent != (test.id(), outcome):
            self._sent = (test.id(), outcome)
            self.recorder.outcome(test.id(), "call", outcome)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        super().addSuccess(test)
        self._report(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._report(test, "failed")

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._report(test, "failed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._report(test, "skipped")

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self._report(test, "skipped")

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        super().addUnexpectedSuccess(test)
        self._report(test, "failed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._report(test, "failed")


def main(files: List[str]) -> int:  # noqa: UP006
    """Run the tests in ``files``; return 0 if all passed, 1 if one failed, 5 if there are none."""
    settings = understudy_report.take_settings()
    recorder = settings.recorder if settings is not None else None
    loaded = understudy_report.Loaded(settings.root) if settings is not None else None
    job = _read_job(settings.lines) if settings is not None else None
    selection = _read_job(settings.only) if settings is not None else None
    if job is not None:
        import understudy_lines  # type: ignore[import-not-found]

        _Result.lines = understudy_lines.Lines(job["files"])
        _Result.lines.begin()
    if recorder is not None:
        settings.recorder = None
        recorder.start("unittest")
    if settings is not None:
        understudy_report.hide(settings)
    suite = unittest.TestSuite()
    for file in files:
        folder, name = os.path.split(os.path.abspath(file))  # noqa: PTH100
        suite.addTests(unittest.TestLoader().discover(folder, pattern=name, top_level_dir=_top_of(folder)))
    tests = _flatten(suite)
    if selection is not None:
        chosen = set(selection["tests"])
        tests = [test for test in tests if test.id() in chosen or type(test).__module__ == "unittest.loader"]
        suite = unittest.TestSuite(tests)
    broken = [test for test in tests if type(test).__module__ == "unittest.loader"]
    if recorder is not None:
        recorder.line(k="collected", ids=[test.id() for test in tests if test not in broken])
        for test in broken:
            recorder.line(k="collect_error", id=test.id())
        recorder.line(k="dropped", ids=_left_out(files, tests) if selection is None else [])
    code = 0
    if settings is None or not settings.collect_only:
        if settings is not None and settings.order:
            suite = unittest.TestSuite(understudy_report.reordered(tests, settings.order, _groups))
        _Result.recorder = recorder
        runner: Any = unittest.TextTestRunner
        stop = selection is not None and selection["stop"]
        result = runner(resultclass=_Result, verbosity=2, failfast=stop).run(suite)
        code = (0 if result.wasSuccessful() else 1) if result.testsRun or result.errors else 5
    if job is not None:
        _write_lines(_Result.lines, job["out"])
    if recorder is not None and loaded is not None:
        recorder.line(k="files", files=loaded.files())
        recorder.line(k="end", exit=code)
    return code


def _read_job(path: str) -> Any:
    if not path:
        return None
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123
        return json.load(stream)


def _write_lines(lines: Any, path: str) -> None:
    lines.end()
    executed = {file: {test: sorted(of) for test, of in tests.items()} for file, tests in lines.found.items()}
    with open(path, "w", encoding="utf-8") as stream:  # noqa: PTH123
        json.dump(executed, stream)


def _left_out(files: List[str], tests: List[Any]) -> List[str]:  # noqa: UP006
    """Return the ids of tests that ``load_tests`` of the same file left out, except those that a subclass inherits."""
    paths = {os.path.realpath(file) for file in files}
    kinds = {type(test) for test in tests}
    inherited: Set[str] = set()  # noqa: UP006
    for module in list(sys.modules.values()):
        if os.path.realpath(getattr(module, "__file__", None) or "") not in paths or not hasattr(module, "load_tests"):
            continue
        for case in vars(module).values():
            if not isinstance(case, type) or not issubclass(case, unittest.TestCase):
                continue
            if case.__module__ == module.__name__ and not any(issubclass(kind, case) for kind in kinds - {case}):
                inherited.update(test.id() for test in _flatten(unittest.TestLoader().loadTestsFromTestCase(case)))
    return sorted(inherited - {test.id() for test in tests})


def _groups(test: Any) -> List[str]:  # noqa: UP006
    return [type(test).__module__, type(test).__qualname__]


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
