"""Run checks on a result with the files of its base, and say what depends on the difference."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec

from understudy.judge.base_runs import earlier_tests
from understudy.judge.base_runs.earlier_tests import without_unchanged_tests
from understudy.judge.base_runs.renames import Renames, renamed, renames_of
from understudy.judge.deciding import deciding_files, restored_parts
from understudy.judge.deciding.deciding_files import CODE_SUFFIXES, CheckFacts, Reason, Restored, Trees
from understudy.judge.deciding.restored_parts import only_adds_fixtures
from understudy.judge.outcomes import observations
from understudy.judge.outcomes.observations import Losses, Observed, OutcomeCache
from understudy.judge.project.command_lines import only_examines, started_files
from understudy.judge.runs.check_run import CheckOutcome, ResultToJudge
from understudy.judge.runs.judged_tree import read_unless_large
from understudy.judge.runs.runner_registry import LOCKS, RUNNER_MODULES, PreparedCheck
from understudy.judge.test_runners.pytest import is_only_pytest
from understudy.judge.test_runners.shared.test_runner import PYTHON_SLOT, TESTS_SLOT
from understudy.model.evidence.checks import BaseComparison, ChangedTest, Check
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation

_MOST_LISTED = 100
"""Most tests and files that a result lists."""
_TESTS = frozenset({Reason.TEST, Reason.SUPPORT})
_SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts")
_TEST_NAME = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)[ \t]*\(", re.MULTILINE)


class Run(Protocol):
    """Runs a check on exactly one commit."""

    def __call__(
        self, plan: PreparedCheck, commit: str, *, keep_going: bool, without_coverage: bool
    ) -> Awaitable[CheckOutcome]:
        """Return the outcome.

        ``keep_going`` makes pytest run the other files if one cannot be collected, ``without_coverage`` switches
        pytest-cov off: without the new tests, the new code may be below its threshold.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class EarlierVersion:
    """A result with the base's version of its tests, and of what decides the check."""

    commit: str
    observed: Observed
    """What the check shows on it."""
    weakening: Sequence[str]
    """The files that differ such that earlier tests may notice less."""
    tests: frozenset[str] | None
    """The ids of the tests that these files have, if they have nothing else; None: any test may notice less."""


@dataclass(kw_only=True)
class Finding:
    """What the base showed about one check of a result."""

    reservations: list[tuple[Reservation, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    red: str = ""
    """Why the check counts as failed although it passed; empty if it does not."""
    seconds: float = 0.0
    comparison: BaseComparison | None = None
    earlier: EarlierVersion | None = None
    """The result with the base's version of what decides the check; None if nothing differs, or it did not pass."""


class BaseRuns:
    """Judges the checks of one result."""

    def __init__(
        self,
        trial: ResultToJudge,
        *,
        cache: OutcomeCache,
        run: Run,
        composed: Callable[[str, Iterable[str]], None],
        checks: Sequence[Check] = (),
    ) -> None:
        """Read nothing yet; ``checks`` are those that are configured.

        ``composed`` is called with every commit that is the result with some of the base's files, ``cache`` keeps what
        checks show on bases, and ``run`` runs a check on a commit.
        """
        self._trial = trial
        self._cache = cache
        self._run = run
        self._composed = composed
        self._trees: Trees | None = None
        self._support: frozenset[str] | None = None
        self._checks = checks
        self._scripts: frozenset[str] | None = None
        self._renames: Renames | None = None
        self._cut_off: dict[str, tuple[float, Observed]] = {}
        """Runs on the base that reached their time limit: key → limit and what they showed."""

    async def judge_code(self, plan: PreparedCheck, green: CheckOutcome) -> Finding:
        """Judge a check that passed, of a recipe that changes code: with the base's tests and deciding files."""
        finding = Finding()
        restored = await self._decides(plan, green)
        support = await asyncio.to_thread(lambda: deciding_files.supports(self._known(), self._facts(plan, green)))
        if await self._compose(restored) == self._trial.head:
            await self._same_tree(plan, green, finding)
        else:
            await self._restored(plan, green, restored, finding)
        if support and not finding.reservations and not finding.red:
            await self._restored(plan, green, [*restored, *support], finding, sure=self._is_sure(restored, support))
        possible = await asyncio.to_thread(lambda: deciding_files.may_support(self._known(), self._facts(plan, green)))
        if possible and not finding.reservations and not finding.red:
            every = [*restored, *support, *possible]
            await self._restored(plan, green, every, finding, sure=False, loads=False)
        return finding

    async def _restored(
        self,
        plan: PreparedCheck,
        green: CheckOutcome,
        restored: Sequence[Restored],
        finding: Finding,
        *,
        sure: bool = True,
        loads: bool = True,
    ) -> None:
        """Run the check on the result with the base's version of some files.

        If it is not sure that the code ``loads`` with them, a test that cannot be loaded says nothing.

        If it is not ``sure`` that none of them is the code under change, a test that failed on the base and fails
        without them says nothing.
        """
        result = green.observed if sure and not self._adds_first_tests(restored) else None
        restored = await asyncio.to_thread(self._with_new_names, restored, finding)
        commit = await self._compose(restored)
        limited = earlier_tests.with_time_limit(plan, green.seconds)
        # If the result changes what pytest-cov asks for, the base's threshold has to be met.
        only_tests = all(file.reason in _TESTS for file in restored)
        run = await self._observe(limited, commit, finding, without_coverage=only_tests)
        if not run.all_passed or await asyncio.to_thread(self._is_incomplete, run):
            base = await self._base(plan, finding)
            lost = observations.lost_or_hidden(base, run, result)
            if run.unbuilt and not loads:
                return
            if lost:
                run = await self._observe(limited, commit, finding, without_coverage=only_tests)
                lost = lost.still(observations.lost_or_hidden(base, run, result))
            if lost:
                await self._blame(plan, green, finding, restored=restored, lost=lost, run=run, base=base)
                return
            if self._given_up(base, run, restored, finding):
                return
        self._gone(run, green.observed, restored, finding)
        weakening = await asyncio.to_thread(self._weakening, restored)
        if weakening and run.green and not only_examines(plan.check.argv):
            finding.earlier = EarlierVersion(
                commit=commit, observed=run, weakening=weakening, tests=self._tests_in(weakening, run)
            )

    def _weakening(self, restored: Sequence[Restored]) -> list[str]:
        """Return the files that differ such that earlier tests may notice less."""
        trees = self._known()

        def weakens(file: Restored) -> bool:
            is_new = file.path not in trees.base_paths
            if file.reason is not Reason.TEST or file.content is not None:
                return PurePosixPath(file.path).name not in LOCKS
            if not is_new and not deciding_files.is_test_file(file.path, self._trial.test_patterns):
                return True
            before, after = trees.read_base(file.path), trees.read_result(file.path)
            return (before is None and not is_new) or earlier_tests.may_notice_less(file.path, before, after)

        return [file.path for file in restored if weakens(file)]

    def _tests_in(self, paths: Sequence[str], run: Observed) -> frozenset[str] | None:
        """Return the tests of these files; None if one of them is not a test file, or the run does not name files."""
        names = {path.rpartition("/")[2] for path in paths}
        tests = {test for test in run.passing if test.partition("::")[0].rpartition("/")[2] in names and "::" in test}
        whole = all(deciding_files.is_test_file(path, self._trial.test_patterns) for path in paths)
        return frozenset(tests) if tests and whole else None

    async def shows_repair(self, plan: PreparedCheck, green: CheckOutcome, finding: Finding) -> bool:
        """Return whether a check that passed fails on the code of the base, with the base's tests or the result's."""
        limited = earlier_tests.with_time_limit(plan, green.seconds)
        # A check of new tests alone has nothing to run on the base.
        if not plan.uses_tests and observations.repaired(await self._base(limited, finding), green.observed):
            return True
        commit = await self._compose_files(await asyncio.to_thread(self._code_before, plan, green))
        trees = {await asyncio.to_thread(self._trial.tree.tree_of, ran) for ran in (self._trial.base, self._trial.head)}
        if await asyncio.to_thread(self._trial.tree.tree_of, commit) in trees:
            return False
        run = await self._observe(limited, commit, finding, without_coverage=True)
        return observations.repaired(run, green.observed)

    def _code_before(self, plan: PreparedCheck, green: CheckOutcome) -> dict[str, bytes | None]:
        """Return the code of the base, for ``compose``; tests, and what decides the check, stay as in the result."""
        trees, facts = self._known(), self._facts(plan, green)
        decide = {file.path: file.content is not None for file in deciding_files.decides(trees, facts)}
        decide |= {file.path: False for file in deciding_files.supports(trees, facts)}
        files: dict[str, bytes | None] = {path: None for _, path in trees.changes if path not in decide}
        for path in (path for path, has_code in decide.items() if has_code):
            old, new = trees.read_base(path), trees.read_result(path)
            if old is not None and new is not None and restored_parts.may_have_tests(path, old):
                files[path] = restored_parts.restored_tests(path, new, old)
        return files

    async def judge_tests(self, plan: PreparedCheck, green: CheckOutcome, seconds: float) -> Finding:
        """Judge a check that passed, of the recipe ``tests``: without the result's configuration, then older tests.

        ``seconds`` is the duration of the check, which sets the time limit of the whole suite.
        """
        finding = Finding()
        decided = [file for file in await self._decides(plan, green) if file.reason is not Reason.TEST]
        deciding = await asyncio.to_thread(self._without_new_fixtures, decided)
        commit = await self._compose(deciding)
        if commit != self._trial.head:
            lost = observations.losses(green.observed, await self._observe(plan, commit, finding))
            if lost:
                lost = lost.still(observations.losses(green.observed, await self._observe(plan, commit, finding)))
            if lost:
                self._check_changed(plan, deciding, finding)
        await self._older_tests(plan, green, seconds, finding, configured=bool(deciding))
        return finding

    def _without_new_fixtures(self, deciding: Sequence[Restored]) -> list[Restored]:
        """Leave out each ``conftest.py`` that only adds fixtures, which the new tests may need."""
        candidates = [file for file in deciding if PurePosixPath(file.path).name == "conftest.py"]
        if not candidates:
            return list(deciding)
        trees = self._known()
        paths = set(deciding_files.without_test_support(trees.base_paths, self._trial.test_patterns))
        others = list(trees.read_many([path for path in sorted(trees.base_paths) if path not in paths]).values())

        def only_adds(path: str) -> bool:
            result = trees.read_result(path)
            return result is not None and only_adds_fixtures(trees.read_base(path) or b"", result, others)

        harmless = {file.path for file in candidates if only_adds(file.path)}
        return [file for file in deciding if file.path not in harmless]

    def test_support(self) -> frozenset[str]:
        """Return the changed files that only tests used in the base, although neither name nor folder says so."""
        if self._support is not None:
            return self._support
        trees = self._known()
        check = CheckFacts(argv=(), test_patterns=self._trial.test_patterns)
        # The result must not decide what is left out.
        before = dataclasses.replace(trees, read_result=trees.read_base)
        self._support = frozenset(file.path for file in deciding_files.supports(before, check))
        return self._support

    def own_scripts(self) -> frozenset[str]:
        """Return the files that a check starts, in the base or in the result; what pytest gets is code or tests."""
        if self._scripts is None:
            trees = self._known()
            sides = ((trees.base_paths, trees.read_base), (trees.result_paths, trees.read_result))
            self._scripts = frozenset(
                path
                for check in self._checks
                if not is_only_pytest(check.argv)
                for paths, read in sides
                for path in started_files(_readable(check), _folder(check), paths, read)
            )
        return self._scripts

    def suite(self, plan: PreparedCheck, green: CheckOutcome) -> PreparedCheck | None:
        """Return the check that runs all tests of the base within its time limit; None if there is none."""
        suite = earlier_tests.suite_of(plan, green, self._known().base_paths)
        return earlier_tests.with_time_limit(suite, green.seconds) if suite is not None else None

    async def on_base(self, plan: PreparedCheck) -> tuple[Observed, float]:
        """Return what a check shows on the base, from the cache if it ran there before, and the seconds it took."""
        finding = Finding()
        return await self._base(plan, finding), finding.seconds

    async def without_unchanged_tests(self, new: Collection[str], earlier: Iterable[str]) -> str:
        """Return a commit that is the result with its earlier tests emptied; see ``earlier_tests``."""
        trial = self._trial
        files = await asyncio.to_thread(without_unchanged_tests, trial, new=new, earlier=earlier)
        return await asyncio.to_thread(trial.tree.compose, trial.head, trial.base, files)

    # -- recipes that change code ------------------------------------------------------------------------------

    def _with_new_names(self, restored: Sequence[Restored], finding: Finding) -> list[Restored]:
        """Return the files with the names that the result gave to what they use."""
        trees, patterns = self._known(), self._trial.test_patterns
        if self._renames is None:
            of_tests = {file.path for file in restored} | self.test_support()
            self._renames = renames_of(
                trees.changes,
                trees.read_base,
                trees.read_result,
                result_paths=trees.result_paths,
                is_code=lambda path: path not in of_tests and not deciding_files.is_test(path, patterns),
            )
        listed = []
        for file in restored:
            base = file.content or trees.read_base(file.path)
            content = renamed(file.path, base, self._renames) if base is not None and self._renames else base
            listed.append(dataclasses.replace(file, content=content) if content != base else file)
        if listed != list(restored):
            changed = {**self._renames.names, **self._renames.files}
            names = [f"{old} is {new}" for old, new in changed.items()]
            note = f"Earlier tests ran with names of the result: {name_list(names)}."
            finding.notes += [note] if note not in finding.notes else []
        return listed

    def _is_sure(self, restored: Sequence[Restored], support: Sequence[Restored]) -> bool:
        """Return whether a failing test says something about support that is restored: it is not the code under change.

        It is data, or the result changes other code as well.
        """
        if all(PurePosixPath(file.path).suffix not in CODE_SUFFIXES for file in support):
            return True
        left = {path for _, path in self._trial.changes}.difference(file.path for file in (*restored, *support))
        return any(PurePosixPath(path).suffix in CODE_SUFFIXES for path in left)

    def _adds_first_tests(self, restored: Sequence[Restored]) -> bool:
        """Return whether only tests are restored, which the result adds to a base without any."""
        base = self._known().base_paths
        if any(file.reason is not Reason.TEST or file.path in base for file in restored):
            return False
        return not any(deciding_files.is_test_file(path, self._trial.test_patterns) for path in base)

    def _is_incomplete(self, run: Observed) -> bool:
        """Return whether a run that names tests may miss one that is in a file of the base.

        Code can take tests out of a run before they are collected; whether they run at all, the base shows. Node names
        a file as if it were a test if the file registers none.
        """
        if any(test.strip().endswith(_SCRIPTS) for test in run.outcomes):
            return True
        functions = {observations.function_of(test) for test in run.outcomes if "::" in test and ".py" in test}
        if not functions:
            return False
        trees = self._known()
        tests = [path for path in trees.base_paths if deciding_files.is_test_file(path, self._trial.test_patterns)]
        texts = trees.read_many([path for path in sorted(tests) if path.endswith(".py")])
        ran: dict[str, Counter[bytes]] = {}
        for function in functions:
            # Ids begin at the folder of the check, so only the end of a path is compared.
            file, _, name = function.partition("::")
            ran.setdefault(file.rpartition("/")[2], Counter())[name.rpartition("::")[2].encode()] += 1
        names: dict[str, Counter[bytes]] = {}
        for path, text in texts.items():
            names.setdefault(path.rpartition("/")[2], Counter()).update(_TEST_NAME.findall(text))
        return any(defined - ran.get(file, Counter()) for file, defined in names.items())

    async def _same_tree(self, plan: PreparedCheck, green: CheckOutcome, finding: Finding) -> None:
        """Judge a result that restores nothing: one run is enough unless it shows less than every test passing."""
        result = green.observed
        unseen = result.passed is None and earlier_tests.runs_tests(plan.check.argv)
        if not (result.skipped or result.passed == 0 or unseen or self._inline_tests()) and not (
            await asyncio.to_thread(self._is_incomplete, result)
        ):
            return
        base = await self._base(plan, finding)
        lost = observations.losses(base, result)
        if not lost:
            self._given_up(base, result, (), finding)
            return
        missing = {test for test, outcome in lost.tests.items() if outcome == observations.MISSING}
        finding.comparison = _comparison(lost, base, result, ())
        if lost.tests and len(missing) == len(lost.tests) < lost.earlier:
            text = f"{_tests(lost)} no longer run: {name_list(lost.tests)}."
            finding.reservations.append((Reservation.TESTS_CHANGED, text))
        else:
            finding.red = f"{_tests(lost)} passed before and did not pass now{_listed(lost.tests)}."

    def _given_up(self, base: Observed, run: Observed, restored: Iterable[Restored], finding: Finding) -> bool:
        """Report tests that fail on the base and do not run on the result; return whether there are any."""
        lost = observations.given_up(base, run)
        if not lost:
            return False
        finding.comparison = _comparison(lost, base, run, restored)
        verb = "runs" if lost.count == 1 else "run"
        text = f"{_count(lost.count, 'test')} failed on the base and no longer {verb}{_listed(lost.tests)}."
        finding.reservations.append((Reservation.TESTS_CHANGED, text))
        return True

    def _inline_tests(self) -> bool:
        """Return whether a changed file contains code and tests, which cannot be restored separately."""
        assert self._trees is not None  # noqa: S101 - set by `_decides`
        return any(
            path.endswith(".rs") and b"#[cfg(test)]" in (self._trees.read_base(path) or b"")
            for _, path in self._trial.changes
        )

    async def _blame(
        self,
        plan: PreparedCheck,
        green: CheckOutcome,
        finding: Finding,
        *,
        restored: Sequence[Restored],
        lost: Losses,
        run: Observed,
        base: Observed,
    ) -> None:
        """Report which restored files the lost tests depend on: tests, files that decide the check, or both."""
        tests = [file for file in restored if file.reason in _TESTS]
        deciding = [file for file in restored if file.reason not in _TESTS]
        by_tests = by_deciding = bool(tests) and bool(deciding)
        if not by_tests:
            by_tests, by_deciding = bool(tests), bool(deciding)
        else:
            limited = earlier_tests.with_time_limit(plan, green.seconds)
            alone = await self._observe(limited, await self._compose(deciding), finding)
            by_deciding = observations.depends(lost, green.observed, alone)
            if by_deciding:
                alone = await self._observe(limited, await self._compose(tests), finding)
                by_tests = observations.depends(lost, green.observed, alone)
            if not by_tests and not by_deciding:
                by_tests = by_deciding = True
        finding.comparison = _comparison(lost, run, green.observed, restored)
        if by_deciding:
            self._check_changed(plan, deciding, finding)
        if not by_tests:
            return
        if run.unbuilt and not lost.tests:
            text = f"Earlier tests cannot be loaded without this result's edits{_listed(file.path for file in tests)}."
            finding.reservations.append((Reservation.TESTS_CHANGED, text))
            return
        unbuilt = run.unbuilt and all(outcome == observations.MISSING for outcome in lost.tests.values())
        failed = {test: how for test, how in lost.tests.items() if not (run.unbuilt and how == observations.MISSING)}
        if unbuilt or (run.unbuilt and len(failed) < len(lost.tests)):
            absent = sorted(lost.tests.keys() - failed.keys())
            text = f"Earlier tests cannot be loaded with the result{_listed(absent)}."
            finding.reservations.append((Reservation.BASE_TESTS_DO_NOT_BUILD, text))
        if not unbuilt:
            named = failed or lost.tests
            text = (
                f"{len(named) or lost.unnamed} of {lost.earlier} earlier tests pass only with this result's edits"
                if lost.earlier
                else f"The check {plan.check.name} passes only with this result's edits of tests"
            )
            shown = named or [file.path for file in tests]
            failed_before = named and all(base.outcomes.get(test) == observations.FAILED for test in named)
            why = " They failed before: if they contradict the task, confirm the edits." if failed_before else ""
            finding.reservations.append((Reservation.TESTS_CHANGED, f"{text}{_listed(shown)}.{why}"))

    def _gone(self, run: Observed, result: Observed, restored: Sequence[Restored], finding: Finding) -> None:
        """Report tests of the base that pass on the result, but that the result's own run does not show passing."""
        fewer = observations.fewer(run, result)
        if not fewer:
            renamed = observations.losses(run, result).tests
            if renamed:
                finding.notes.append(
                    f"Tests were renamed or replaced; their earlier versions pass on the result: {name_list(renamed)}."
                )
            return
        finding.comparison = _comparison(fewer, run, result, restored)
        if fewer.unnamed and not fewer.tests:
            text = f"The check no longer shows a passing test; with the base's files, {fewer.unnamed} pass."
            deciding = any(file.reason not in _TESTS for file in restored)
            finding.reservations.append((Reservation.CHECK_CHANGED if deciding else Reservation.TESTS_CHANGED, text))
            return
        text = f"{_tests(fewer)} are gone or skipped, although they pass on the result: {name_list(fewer.tests)}."
        finding.reservations.append((Reservation.TESTS_CHANGED, text))

    def _check_changed(self, plan: PreparedCheck, deciding: Iterable[Restored], finding: Finding) -> None:
        names = [f"{file.path} ({file.reason})" for file in deciding]
        text = f"The check {plan.check.name} passes only with files of the result that decide what it does"
        finding.reservations.append((Reservation.CHECK_CHANGED, f"{text}{_listed(names)}."))

    # -- the recipe tests --------------------------------------------------------------------------------------

    async def _older_tests(
        self, plan: PreparedCheck, green: CheckOutcome, seconds: float, finding: Finding, *, configured: bool
    ) -> None:
        """Run the base's tests on the result; the check counts as failed if one of them no longer passes."""
        trees = self._known()
        suite = earlier_tests.suite_of(plan, green, trees.base_paths)
        if suite is None:
            return
        existing = set(trees.base_paths)
        tests = [
            Restored(path=path, reason=Reason.TEST)
            for _, path in self._trial.changes
            if path in existing and deciding_files.is_test_file(path, self._trial.test_patterns)
        ]
        commit = await self._compose(tests)
        limited = earlier_tests.with_time_limit(suite, seconds)
        if suite is plan and commit == self._trial.head:
            run = green.observed
        else:
            run = await self._observe(limited, commit, finding)
        if run.timed_out and not (await self._base(limited, finding)).timed_out:
            limited = earlier_tests.with_longer_limit(limited)
            run = await self._observe(limited, commit, finding)
        if run.timed_out:
            limit = limited.check.timeout_seconds or 0
            text = f"The earlier tests did not finish on the result within {limit:g} seconds"
            if (await self._base(limited, finding)).timed_out:
                finding.notes.append(f"{text}, nor on the base.")
            else:
                finding.red = f"{text}; on the base they do."
            return
        if run.all_passed and not configured:
            return
        base = await self._base(limited, finding)
        lost, edited = observations.losses(base, run), observations.hidden(base, run, green.observed)
        if lost or edited:
            again = await self._observe(limited, commit, finding)
            lost = lost.still(observations.losses(base, again))
            edited = edited.still(observations.hidden(base, again, green.observed))
        if edited:
            # The check of the new tests runs alone: what another test breaks passes there without any edit.
            alone = suite is plan
            whole = green.observed if alone else await self._observe(limited, self._trial.head, finding)
            edited = edited.only(test for test in edited.tests if whole.outcomes.get(test) != observations.FAILED)
        self._edited_red(edited, run, green.observed, tests, finding)
        failing = [test for test, outcome in base.outcomes.items() if outcome == observations.FAILED]
        if failing and not lost:
            text = f"{len(failing)} of {len(base.outcomes)} earlier tests fail without the result, too"
            finding.notes.append(f"{text}, so they cannot show what it breaks: {name_list(failing, 3)}.")
        if lost and (lost.tests or not run.green):
            finding.comparison = _comparison(lost, run, green.observed, tests)
            finding.red = f"{_tests(lost)} passed before and do not pass with this result{_listed(lost.tests)}."

    def _edited_red(
        self, lost: Losses, run: Observed, result: Observed, restored: Sequence[Restored], finding: Finding
    ) -> None:
        """Report earlier tests that fail in the base's version and no longer fail in the result's.

        Of the tests in ``lost``, only those in files that the result changed: the check of new tests runs no others.
        """
        files = tuple(f"{file.path}::" for file in restored)
        edited = lost.only(test for test in lost.tests if test in result.outcomes or test.startswith(files)).tests
        if edited:
            finding.comparison = _comparison(dataclasses.replace(lost, tests=edited), run, result, restored)
            verb = "fails" if len(edited) == 1 else "fail"
            text = f"{_count(len(edited), 'earlier test')} {verb} without this result's edits{_listed(edited)}."
            finding.reservations.append((Reservation.TESTS_CHANGED, text))

    # -- runs --------------------------------------------------------------------------------------------------

    async def _observe(
        self, plan: PreparedCheck, commit: str, finding: Finding, *, without_coverage: bool = False
    ) -> Observed:
        outcome = await self._run(plan, commit, keep_going=True, without_coverage=without_coverage)
        finding.seconds += outcome.seconds
        return outcome.observed

    async def _base(self, plan: PreparedCheck, finding: Finding) -> Observed:
        """Return what the check shows on the base, from the cache if it ran there before."""
        key = await asyncio.to_thread(self.key, plan)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        limit, cut_off = self._cut_off.get(key, (0.0, None))
        if cut_off is not None and (plan.check.timeout_seconds or math.inf) <= limit:
            return cut_off
        observed = await self._observe(plan, self._trial.base, finding, without_coverage=True)
        if observed.timed_out and plan.check.timeout_seconds is not None:
            self._cut_off[key] = (plan.check.timeout_seconds, observed)
        await asyncio.to_thread(self._cache.put, key, observed)
        return observed

    def key(self, plan: PreparedCheck) -> str:
        """Return what decides the outcome on the base: its tree, the check, and the state of the environment."""
        context = self._trial.context
        facts = context.facts
        places = [*(facts.prefixes if facts is not None else ()), str(context.tree / "node_modules")]
        times = [_changed_at(place) for place in places]
        check = msgspec.structs.replace(plan.check, timeout_seconds=None, name="")
        interpreter = (facts.executable, facts.version) if facts is not None else None
        parts = (self._trial.tree.tree_of(self._trial.base), msgspec.json.encode(check), plan.kind, plan.tests)
        return repr((*parts, interpreter, times, os.environ.get("PATH"), str(context.workspace)))

    # -- files -------------------------------------------------------------------------------------------------

    async def _decides(self, plan: PreparedCheck, green: CheckOutcome) -> list[Restored]:
        return await asyncio.to_thread(lambda: deciding_files.decides(self._known(), self._facts(plan, green)))

    def _facts(self, plan: PreparedCheck, green: CheckOutcome) -> CheckFacts:
        trial, facts = self._trial, self._trial.context.facts
        top = trial.tree.path.resolve()
        roots = [os.path.relpath(path, trial.tree.path) for path in trial.context.plan.paths]
        return CheckFacts(
            argv=_readable(plan.check),
            folder=_folder(plan.check),
            configured_by=plan.check.configured_by,
            test_patterns=trial.test_patterns,
            modules=RUNNER_MODULES | (facts.modules if facts is not None else frozenset()),
            import_roots=[*(root for root in roots if root != "." and not root.startswith("..")), "src"],
            plugins={path for _, path in trial.changes if str(top / path) in green.report.plugins},
        )

    def _known(self) -> Trees:
        if self._trees is None:
            trial = self._trial
            self._trees = Trees(
                changes=trial.changes,
                base_paths=frozenset(trial.tree.paths(trial.base)),
                result_paths=frozenset(trial.tree.paths(trial.head)),
                read_base=functools.partial(read_unless_large, trial.tree, trial.base),
                read_result=functools.partial(read_unless_large, trial.tree, trial.head),
                read_many=lambda paths: trial.tree.read_many(trial.base, paths),
            )
        return self._trees

    async def _compose(self, restored: Iterable[Restored]) -> str:
        return await self._compose_files(deciding_files.contents(restored))

    async def _compose_files(self, files: Mapping[str, bytes | None]) -> str:
        commit = await asyncio.to_thread(self._trial.tree.compose, self._trial.head, self._trial.base, files)
        self._composed(commit, files)
        return commit


def _readable(check: Check) -> list[str]:
    """Return the command line of a check without its slots."""
    return [argument.replace(PYTHON_SLOT, "python") for argument in check.argv if TESTS_SLOT not in argument]


def _folder(check: Check) -> str:
    return "" if check.cwd in {None, ".", "./"} else os.path.normpath(check.cwd or "")


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _comparison(lost: Losses, run: Observed, result: Observed, restored: Iterable[Restored]) -> BaseComparison:
    changed = [
        ChangedTest(
            test=test,
            restored=run.outcomes.get(test, observations.MISSING),
            result=result.outcomes.get(test, observations.MISSING),
        )
        for test in lost.tests
    ]
    return BaseComparison(
        earlier=lost.earlier,
        lost=lost.count,
        tests=changed[:_MOST_LISTED],
        restored=[file.path for file in restored][:_MOST_LISTED],
    )


def _tests(lost: Losses) -> str:
    return f"{lost.count} of {lost.earlier} earlier tests"


def _listed(names: Iterable[str]) -> str:
    text = name_list(names)
    return f": {text}" if text else ""


def _changed_at(place: str) -> int | None:
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return None
