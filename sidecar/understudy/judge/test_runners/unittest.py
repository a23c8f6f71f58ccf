"""unittest of the standard library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from understudy.judge.outcomes.probe import Probe
from understudy.judge.project.command_lines import program_of
from understudy.judge.test_runners.pytest import failed_in_summary, python_tests
from understudy.judge.test_runners.shared.test_runner import (
    PYTHON_SLOT,
    TESTS_SLOT,
    NewTests,
    NewTestsCheck,
    Project,
    ProposedCheck,
    TestRunner,
    program_named,
)

_LINE = re.compile(r"^(\w+) \(([\w.]+)\)(?:\n.*)? \.\.\. (ok|FAIL|ERROR|skipped|expected failure)", re.MULTILINE)
_TOTAL = re.compile(r"^Ran (\d+) tests? in [\d.]+s\n+(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?", re.MULTILINE)
_MODULE = "unittest"

_WITHOUT_PROBE = """\
import os, sys, unittest
suite = unittest.TestSuite()
for file in sys.argv[1:]:
    folder, name = os.path.split(os.path.abspath(file))
    top = folder
    while os.path.exists(os.path.join(top, "__init__.py")):
        top = os.path.dirname(top)
    suite.addTests(unittest.TestLoader().discover(folder, pattern=name, top_level_dir=top))
result = unittest.TextTestRunner(verbosity=2).run(suite)
sys.exit((0 if result.wasSuccessful() else 1) if result.testsRun or result.errors else 5)
"""
"""Runs test files like ``injected.understudy_unittest``, without a report."""


def _shown_by(*, in_package: bool) -> Callable[[Project], str | None]:
    """Find tests where unittest finds them by itself, or in a folder ``tests`` that is not a package."""

    def shown(project: Project) -> str | None:
        imports = re.compile(rf"^\s*(?:import|from) {_MODULE}\b", re.MULTILINE)
        tests = [name for name in project.named(r"test.*\.py", "tests", "") if imports.search(project.text(name))]
        package = any(project.named(r"__init__\.py", "tests"))
        fitting = [name for name in tests if (package or not name.startswith("tests/")) == in_package]
        return next(iter(fitting), None)

    return shown


def _check_new(new: NewTests) -> NewTestsCheck | None:
    tests = python_tests(new.changed, new.read)
    if not tests or not new.has_python or new.has_pytest:
        return None
    if not all(_MODULE.encode() in (new.read(test) or b"") for test in tests):
        return None
    return NewTestsCheck(argv=[PYTHON_SLOT, "-m", _MODULE, TESTS_SLOT], tests=tests)


def _started(argv: list[str], probe: Probe | None) -> list[str]:
    """Return what is started: the probe is a runner of its own."""
    if argv[1:3] != ["-m", _MODULE]:
        return argv
    return [argv[0], *(["-m", probe.unittest] if probe is not None else ["-c", _WITHOUT_PROBE]), *argv[3:]]


def _naming_tests(argv: list[str]) -> list[str]:
    is_own = _MODULE in argv[1:3] and program_of(argv[0]) in {"python", PYTHON_SLOT}
    return [*argv, "-v"] if is_own else argv


def _printed(text: str) -> Iterator[tuple[str, str]]:
    if _TOTAL.search(text):
        for name, place, word in _LINE.findall(text):
            yield (place if place.endswith(f".{name}") else f"{place}.{name}"), word


def _totals(text: str) -> Iterator[tuple[str, int]]:
    for ran, _, details in _TOTAL.findall(text):
        bad = {word: int(number) for word, number in re.findall(r"([a-z ]+?)=(\d+)", details)}
        failed = bad.get("failures", 0) + bad.get("errors", 0) + bad.get(" errors", 0)
        skipped = sum(number for word, number in bad.items() if "skipped" in word or "expected" in word)
        yield from (("failed", failed), ("skipped", skipped), ("passed", max(0, int(ran) - failed - skipped)))


def _proposed(*arguments: str, in_package: bool) -> ProposedCheck:
    argv = (PYTHON_SLOT, "-m", _MODULE, *arguments)
    return ProposedCheck("unittest", "unittest", argv, _shown_by(in_package=in_package), instead_of=("make",))


RUNNER = TestRunner(
    name="unittest",
    order=20,
    proposals=(_proposed(in_package=True), _proposed("discover", "-s", "tests", in_package=False)),
    command_lines=(program_named(_MODULE),),
    language="Python",
    test_files=python_tests,
    check_new=_check_new,
    started=_started,
    whole_suite=list,
    suite_files=(".py",),
    failed=failed_in_summary,
    printed=_printed,
    totals=_totals,
    unbuilt=("_FailedTest",),
    mutants="understudy.judge.mutant_runners.unittest_mutants:UnittestMutants",
    naming_tests=_naming_tests,
    configuration=("load_tests.py", "unittest.cfg"),
)
