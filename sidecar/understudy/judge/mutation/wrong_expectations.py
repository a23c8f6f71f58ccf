"""Let tests expect wrong values: one that still passes would pass whatever the changed code returns.

Such code returns objects that equal everything, reads what a test expects, or replaces what tests assert with. However
it is written, it shows here.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from understudy.judge.mutant_runners.mutant_runs import MutantResult, PlannedRun, RecordedTests
from understudy.judge.runs.judged_tree import read_file
from understudy.model.evidence.checks import MutantStatus
from understudy.mutants.generate import Mutant
from understudy.mutants.test_code.expectations import Edit, Expectation, edited, expectations_of
from understudy.mutants.test_code.test_ids import KnownTests

_MOST_FILES = 12
_MOST_TESTS = 100
"""Most tests of a file that expect something else in one run."""
_MOST_CASES = 20
"""Most cases of one of them that run."""
MOST_PARSED = 60
"""Most files of tests that are looked at."""
_KNOWN = frozenset({MutantStatus.KILLED, MutantStatus.SURVIVED})
"""A run that showed which of its tests pass."""


@dataclass(frozen=True, kw_only=True)
class WrongRun:
    """A run of tests that all expect a wrong value."""

    run: PlannedRun
    comparisons: Mapping[str, Expectation]
    """Test id → its comparison that was changed."""


class WrongExpectations:
    """The comparisons of the tests that execute changed lines."""

    def __init__(
        self, tree: Path, files: Iterable[str], recorded: RecordedTests, lines: Mapping[str, frozenset[int]]
    ) -> None:
        """Read those of ``files`` (relative to the tree) that have such tests; ``lines`` are the changed ones."""
        self._tree = tree
        self._sources: dict[str, bytes] = {}
        self._of_files: dict[str, list[Expectation]] = {}
        self._comparisons: dict[str, dict[int, list[Expectation]]] = {}
        """File → start of the test in it → its comparisons."""
        self._tests: dict[tuple[str, int], list[str]] = {}
        """File and start of a test in it → its ids."""
        self._replaced: set[str] = set()
        tests = executing(recorded, lines)
        near = [path for path in files if may_have(path, tests)][:MOST_PARSED]
        definitions = KnownTests([(path, None) for path in near], self._read, lambda _: None)
        for test in tests:
            located = definitions.find(test)
            if located is None or located.definition.group:
                continue
            of_file = self._of_file(located.path)
            start, end = located.definition.start, located.definition.end
            first = self._sources[located.path].count(b"\n", 0, start) + 1
            lines_of_test = range(first, self._sources[located.path].count(b"\n", 0, end) + 2)
            ran = recorded.lines.get(located.path)
            if ran and not ran.get(test, frozenset()).intersection(lines_of_test):
                self._replaced.add(f"{located.path}:{first}")
            comparisons = self._comparisons.setdefault(located.path, {})
            if start not in comparisons:
                comparisons[start] = [comparison for comparison in of_file if start <= comparison.start < end]
            if comparisons[start]:
                cases = self._tests.setdefault((located.path, start), [])
                if len(cases) < _MOST_CASES:
                    cases.append(test)

    def replaced(self) -> list[str]:
        """Return the tests, as ``path:line``, of which no line ran although they passed: another function did."""
        return sorted(self._replaced)

    def runs(self, seed: str) -> list[WrongRun]:
        """Return the runs to make: in each, every test of a file expects another value in one comparison.

        That is the last one, and in a second run another that ``seed`` chooses.
        """
        generator = random.Random(f"{seed} expected")  # noqa: S311 - reproducible by design
        paths = sorted(self._comparisons)
        generator.shuffle(paths)
        planned = []
        for path in paths[:_MOST_FILES]:
            starts = sorted(start for start, some in self._comparisons[path].items() if some)
            starts = generator.sample(starts, min(_MOST_TESTS, len(starts)))
            by_start = {start: self._comparisons[path][start] for start in starts}
            last = {start: comparisons[-1] for start, comparisons in by_start.items()}
            others = {start: generator.choice(some[:-1]) for start, some in by_start.items() if len(some) > 1}
            planned += [self._run(path, some, failing=False) for some in (last, others) if some]
        return planned

    def controls(self, made: Iterable[WrongRun], results: Sequence[MutantResult]) -> list[WrongRun]:
        """Return the runs in which the comparisons fail that did not make their tests fail."""
        controls = []
        for wrong, result in zip(made, results, strict=True):
            passed = _passed(wrong, result)
            path = wrong.run.path
            left = {
                start: wrong.comparisons[tests[0]]
                for (of_file, start), tests in self._tests.items()
                if of_file == path and passed.issuperset(tests) and tests[0] in wrong.comparisons
            }
            if left:
                controls.append(self._run(path, left, failing=True))
        return controls

    def _run(self, path: str, chosen: Mapping[int, Expectation], *, failing: bool) -> WrongRun:
        edits: list[Edit] = [some.failing if failing else some.wrong for some in chosen.values()]
        source = self._sources[path]
        mutant = Mutant(
            start=0,
            end=len(source),
            text=edited(source, edits),
            operator="expectation",
            line=1,
            first_line=1,
            last_line=1,
            function="",
        )
        comparisons = {test: some for start, some in chosen.items() for test in self._tests[path, start]}
        tests = tuple(sorted(comparisons))
        return WrongRun(
            run=PlannedRun(path=path, mutant=mutant, tests=tests, to_the_end=True, of_tests=True),
            comparisons=comparisons,
        )

    def _read(self, path: str) -> bytes | None:
        if path not in self._sources:
            try:
                self._sources[path] = read_file(self._tree, path)
            except OSError:
                return None
        return self._sources[path]

    def _of_file(self, path: str) -> list[Expectation]:
        if path not in self._of_files:
            source = self._read(path)
            self._of_files[path] = expectations_of(path, source) if source is not None else []
        return self._of_files[path]


def indifferent(controls: Iterable[WrongRun], results: Sequence[MutantResult]) -> list[str]:
    """Return the comparisons, as ``path:line``, that decide about their tests, which pass with a wrong value."""
    places: set[tuple[str, int]] = set()
    for control, result in zip(controls, results, strict=True):
        if result.status in _KNOWN:
            lines = {control.comparisons[test].line for test in result.killers if test in control.comparisons}
            places.update((control.run.path, line) for line in lines)
    return [f"{path}:{line}" for path, line in sorted(places)]


def _passed(wrong: WrongRun, result: MutantResult) -> frozenset[str]:
    """Return the tests that ran and passed."""
    if result.status not in _KNOWN:
        return frozenset()
    return frozenset(wrong.run.tests).intersection(result.ran).difference(result.killers)


def executing(recorded: RecordedTests, lines: Mapping[str, frozenset[int]]) -> list[str]:
    """Return the tests that execute changed lines; all, if the only ones that run do so when the code is loaded."""
    by_file = {path: recorded.lines.get(path, {}) for path in lines}
    direct = {test for path, by_test in by_file.items() for test, ran in by_test.items() if test and ran & lines[path]}
    loaded = any(by_test.get("", frozenset()) & lines[path] for path, by_test in by_file.items())
    return sorted(recorded.passed.keys() & direct or (recorded.passed if loaded else ()))


def may_have(path: str, tests: Iterable[str]) -> bool:
    """Return whether a file may have one of some tests, as far as their ids name files."""
    name = PurePosixPath(path).name
    return any(name in test or ".py::" not in test for test in tests)
