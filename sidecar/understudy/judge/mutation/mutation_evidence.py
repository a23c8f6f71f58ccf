"""Judge whether the tests of a result notice wrong code, from what mutation testing shows (``judge.mutation``).

For the recipe ``tests``, the files under test are mutated and the new tests must notice; for recipes that change code,
the changed lines are mutated and any test of a required check must notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from understudy.judge.base_runs.restored_runs import EarlierVersion
from understudy.judge.deciding import deciding_files
from understudy.judge.mutant_runners.mutant_runs import MutantResult, PlannedRun, Progress, TellOfCheck
from understudy.judge.mutation.lost_kills import BaseRun, EarlierTests, LostKills, lost_kills
from understudy.judge.mutation.mutation_test import (
    MOST_TESTS,
    MutationOutcome,
    MutationRequest,
    mutation_test,
    save_report,
)
from understudy.judge.mutation.planning import Groups, MutantSample, PlaceChange
from understudy.judge.outcomes.observations import printable
from understudy.judge.runs.check_run import CheckOutcome, ResultToJudge
from understudy.judge.runs.judged_tree import read_unless_large
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.model.evidence.checks import Evidence, JudgedMutant, MutationResult
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation
from understudy.mutants.generate import mutants_of
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.test_code.test_ids import KnownTests

_FEWEST = 8
"""Mutants that are judged even if they take longer than usual, unless the configuration sets the time."""
_MOST_FILES = 500
"""Most files that are mutated; a sample of their mutants is judged anyway."""
_REPORT = "mutation-report"


_MOST_LINES = 20_000
"""Comparing longer files takes too long; all their lines count as changed."""


@dataclass(frozen=True, kw_only=True)
class MutationSettings:
    """How much the tests must notice, and which mutants count."""

    evidence: Evidence
    dismissed: frozenset[str]
    """Identities of mutants that the user dismissed."""
    reports: Path | None
    """The folder for reports; None: they are not kept."""
    sample: MutantSample | None = None
    """Mutants to judge before others."""


@dataclass(kw_only=True)
class MutationFinding:
    """What one check showed."""

    result: MutationResult | None = None
    reservations: list[tuple[Reservation, str]] = field(default_factory=list)
    flaky: frozenset[str] = frozenset()
    """Tests that failed on the very same bytes."""
    judged: tuple[JudgedMutant, ...] = ()
    """All mutants of the sample."""
    outcome: MutationOutcome | None = None
    """What was judged on the changed lines."""
    in_fresh_clone: CheckOutcome | None = None
    """See ``MutationOutcome``."""
    tampered: str = ""
    """Why the kills are not believed."""
    seconds: float = 0.0


class MutationEvidence:
    """Judges the required checks of one result."""

    def __init__(
        self,
        trial: ResultToJudge,
        settings: MutationSettings,
        *,
        tell: TellOfCheck,
        ran: Callable[[PlannedRun, MutantResult], None] = lambda _run, _result: None,
        test_support: Callable[[], frozenset[str]] = frozenset,
        own_scripts: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """Read nothing yet.

        ``tell`` shows the user how far a check is, and ``ran`` gets each run on a change. ``test_support`` and
        ``own_scripts`` return files that belong to the tests and those that a check starts, which nothing mutates: a
        script of a check would fail by itself.
        """
        self._tell = tell
        self._ran = ran
        self._test_support = test_support
        self._own_scripts = own_scripts
        self._trial = trial
        self._settings = settings
        self._best: MutationOutcome | None = None
        """Of the changed lines: the outcome of the check that noticed most."""
        self._changed: tuple[dict[str, bytes], dict[str, frozenset[int]]] | None = None
        self._reports = 0

    async def judge_tests(
        self, plan: PreparedCheck, green: CheckOutcome, new: frozenset[str], *, emptied: bool
    ) -> MutationFinding:
        """Judge the ``new`` tests of a check that passed; if there are none, changed ones.

        The worktree has the result; ``emptied`` means that its unchanged tests do nothing there.
        """
        name = plan.check.name
        sources, named = await asyncio.to_thread(self._files_under_test, plan.tests)
        if not sources:
            return _not_tested(name, "no code under test is in a language that can be mutated")
        counted = new or green.observed.passing
        outcome = await self._test(plan, green, sources, counted=counted or None, only_executed=not named)
        finding = MutationFinding(
            result=outcome.result,
            flaky=outcome.flaky,
            judged=outcome.judged,
            in_fresh_clone=outcome.in_fresh_clone,
            seconds=outcome.seconds,
        )
        result, score = outcome.result, outcome.score
        if result is None or score is None:
            why = f"{outcome.why}, in which earlier tests do nothing" if emptied else outcome.why
            return _not_tested(name, why, outcome.seconds)
        self._look_at_unreliable(name, outcome, finding)
        evidence = self._settings.evidence
        if not result.total:
            return _not_tested(name, "the code under test has nothing that could be changed", outcome.seconds)
        if not result.executed or (result.viable and not result.killed):
            what = f"on {result.viable} small changes" if result.viable else "the code under test"
            text = f"No new test of {name} {'fails' if result.viable else 'executes'} {what}{_listed(result.idle)}."
            text += " Earlier tests do not count." if emptied else ""
            finding.reservations.append((Reservation.NO_MUTANT_KILLED, text))
            return finding
        if not result.viable:
            why = result.unfinished or "no small change of the code could be built"
            finding.reservations += _not_tested(name, why).reservations
            return finding
        if result.killed == result.blind:
            text = f"The new tests of {name} notice only changes on which the code raises an error or gets stuck."
            finding.reservations.append((Reservation.NO_MUTANT_KILLED, text))
            return finding
        if not self._enough(outcome):
            finding.reservations.append(
                (Reservation.FEW_MUTANTS_KILLED, f"The new tests of {name} notice {_share(outcome)}.")
            )
        if result.executed < evidence.least_executed * result.total:
            text = f"The new tests of {name} execute code of {result.executed} of {result.total} small changes."
            finding.reservations.append((Reservation.LITTLE_EXECUTED, text))
        return finding

    async def judge_code(
        self,
        plan: PreparedCheck,
        green: CheckOutcome,
        places: Groups,
        *,
        changes: Sequence[PlaceChange] = (),
        left: bool,
        deadline: float | None = None,
    ) -> MutationFinding:
        """Judge the tests of a check that passed on the lines that the result changed; see ``conclude``.

        ``places`` says which of them belong together, ``left`` whether an earlier check left something open.
        ``changes`` are tried beside the mutants, where the runner knows which tests run a line, until ``deadline``.
        """
        if not left and self._best is not None and self._enough(self._best):
            return MutationFinding()
        sources, lines = await asyncio.to_thread(self._changed_code)
        if changes:
            others = {change.path for change in changes}.difference(sources)
            sources = {**sources, **await asyncio.to_thread(self._sources, sorted(others))}
        if not sources:
            return MutationFinding()
        tests = await asyncio.to_thread(self._test_files, sources)
        base = {path: await asyncio.to_thread(self._read, self._trial.base, path) for path in sources}
        outcome = await self._test(
            plan,
            green,
            sources,
            lines=lines,
            groups=places,
            changes=changes,
            deadline=deadline,
            test_files=tests,
            base=base,
            new_among=self._only_new,
        )
        if outcome.result is None:
            return MutationFinding(seconds=outcome.seconds)
        if not outcome.result.total:
            return MutationFinding(flaky=outcome.flaky, outcome=outcome, seconds=outcome.seconds)
        if outcome.score is not None:
            new = await asyncio.to_thread(self._only_new, outcome.score.idle)
            outcome.result.idle = [printable(test) for test in new[:MOST_TESTS]]
        if self._best is None or _rank(outcome) > _rank(self._best):
            self._best = outcome
        finding = MutationFinding(
            result=outcome.result,
            flaky=outcome.flaky,
            judged=outcome.judged,
            outcome=outcome,
            in_fresh_clone=outcome.in_fresh_clone,
            seconds=outcome.seconds,
        )
        self._look_at_unreliable(plan.check.name, outcome, finding)
        return finding

    async def lost_kills(self, plan: PreparedCheck, suite: PreparedCheck, on_base: BaseRun) -> LostKills:
        """Find out whether the earlier tests notice less of the code under test than on the base."""
        trial = self._trial
        sources, _ = await asyncio.to_thread(self._files_under_test, plan.tests)
        same = {path: source for path, source in sources.items() if self._read(trial.base, path) == source}
        if not same:
            return LostKills()
        return await lost_kills(
            EarlierTests(
                suite=suite,
                base=trial.base,
                head=trial.head,
                context=trial.context,
                sources=same,
                new_tests=[path for kind, path in trial.changes if kind[:1] == "A" and path in plan.tests],
                seed=await asyncio.to_thread(trial.tree.tree_of, trial.base),
                evidence=self._settings.evidence,
                deadline=asyncio.get_running_loop().time() + self._settings.evidence.seconds_for(on_base.seconds),
                on_base=on_base,
                tell=functools.partial(self._tell, plan.check),
            )
        )

    async def lost_kills_of_edits(
        self, plan: PreparedCheck, version: EarlierVersion, green: CheckOutcome, base: BaseRun
    ) -> LostKills:
        """Find out whether the tests of a result that changes code notice less of it than the base's tests do."""
        trial = self._trial
        sources = await asyncio.to_thread(self._code)
        before = {path: content for path in sources if (content := self._read(version.commit, path)) is not None}
        return await lost_kills(
            EarlierTests(
                suite=plan,
                base=version.commit,
                head=trial.head,
                context=trial.context,
                sources=sources,
                sources_before=before,
                counted=version.tests,
                after=green.observed,
                only_executed=True,
                new_tests=(),
                seed=await asyncio.to_thread(trial.tree.tree_of, trial.base),
                evidence=self._settings.evidence,
                deadline=asyncio.get_running_loop().time() + self._settings.evidence.seconds_for(base.seconds),
                on_base=base,
                tell=functools.partial(self._tell, plan.check),
            )
        )

    def _code(self) -> dict[str, bytes]:
        """Return the code of the result that no check starts, what was changed first."""
        trial, besides = self._trial, self._test_support() | self._own_scripts()
        changed = {path for _, path in trial.changes}
        every = [path for path in self._mutable(trial.tree.paths(trial.head), ()) if path not in besides]
        return self._sources(sorted(every, key=lambda path: (path not in changed, path))[:_MOST_FILES])

    def conclude(self) -> list[tuple[Reservation, str]]:
        """Return what all required checks together leave open about how much the tests notice in the changed code.

        Whether they notice each changed place is another question, see ``judge.places``.
        """
        if self._best is None or self._best.result is None:
            return []
        result = self._best.result
        if not result.viable or result.killed == result.blind:
            return []
        if self._enough(self._best):
            return []
        return [(Reservation.FEW_MUTANTS_KILLED, f"Of the changed code, the tests notice {_share(self._best)}.")]

    def _enough(self, outcome: MutationOutcome) -> bool:
        score, least = outcome.score, self._settings.evidence.least_killed
        return score is not None and score.share_by_value >= least and not score.sees_only_replaced

    def _look_at_unreliable(self, name: str, outcome: MutationOutcome, finding: MutationFinding) -> None:
        if outcome.result is None:
            return
        looking = [test for test in outcome.result.unreliable if test not in outcome.flaky]
        if looking:
            text = f"Tests of {name} fail when the text of the code changes, but not what it does{_listed(looking)}."
            finding.reservations.append((Reservation.LOOKS_AT_SOURCE, text))
        if outcome.in_fresh_clone is not None and not outcome.in_fresh_clone.green:
            where = f"a fresh clone of the result{', without your checkout' if outcome.in_fresh_clone.hidden else ''}"
            text = f"The tests of {name} do not pass in {where}, so what they notice is not confirmed."
            finding.reservations.append((Reservation.NOT_MUTATION_TESTED, text))
        if outcome.looks_at_source:
            text = f"In a fresh clone, tests of {name} fail when the text of the code changes, but not what it does."
            finding.reservations.append((Reservation.LOOKS_AT_SOURCE, text))
        if outcome.indifferent:
            text = f"Tests of {name} pass although they expect wrong values: {name_list(outcome.indifferent)}."
            finding.reservations.append((Reservation.CHECK_CHANGED, text))
        if outcome.differing:
            text = f"Code behaves otherwise in tests: {'; '.join(outcome.differing)}."
            finding.reservations.append((Reservation.CHECK_CHANGED, text))
        if outcome.only_answered:
            text = f"{' '.join(outcome.only_answered)} These tests may contradict the task."
            finding.reservations.append((Reservation.CHECK_CHANGED, text))
        if outcome.unconfirmed:
            mutant = outcome.unconfirmed[0]
            place = f"line {mutant.line} of {mutant.path}"
            finding.tampered = f"in a fresh clone, a small change in {place} makes no test fail."

    async def _test(
        self,
        plan: PreparedCheck,
        green: CheckOutcome,
        sources: Mapping[str, bytes],
        *,
        lines: Mapping[str, frozenset[int]] | None = None,
        counted: frozenset[str] | None = None,
        groups: Groups | None = None,
        changes: Sequence[PlaceChange] = (),
        only_executed: bool = False,
        test_files: tuple[str, ...] = (),
        base: Mapping[str, bytes | None] | None = None,
        new_among: Callable[[Iterable[str]], Iterable[str]] = frozenset,
        deadline: float | None = None,
    ) -> MutationOutcome:
        trial = self._trial
        outcome = await mutation_test(
            MutationRequest(
                plan=plan,
                passed=green.observed.passing,
                seconds=green.seconds,
                context=trial.context,
                sources=sources,
                lines=lines,
                counted=counted,
                groups=groups,
                changes=tuple(changes),
                deadline=deadline,
                only_executed=only_executed,
                test_files=test_files,
                base=base,
                new_among=new_among,
                seed=await asyncio.to_thread(trial.tree.tree_of, trial.head),
                evidence=self._settings.evidence,
                dismissed=self._settings.dismissed,
                sample=self._settings.sample,
                fewest=_FEWEST if self._settings.evidence.seconds is None else 0,
                progress=Progress(functools.partial(self._tell, plan.check), self._ran),
            )
        )
        if self._settings.reports is not None and outcome.report:
            self._reports += 1
            number = f"-{self._reports}" if self._reports > 1 else ""
            with contextlib.suppress(OSError):  # a full disk costs the report, not the verdict
                await asyncio.to_thread(save_report, outcome.report, self._settings.reports / f"{_REPORT}{number}.json")
        return outcome

    # -- files -------------------------------------------------------------------------------------------------

    def _files_under_test(self, tests: Sequence[str]) -> tuple[dict[str, bytes], bool]:
        """Return the files to mutate and whether they were named; else it is all code in the languages of the tests."""
        trial = self._trial
        named = self._sources(self._mutable(trial.files, tests))
        if named:
            return named, True
        suffixes = {PurePosixPath(test).suffix for test in tests}
        every = [path for path in trial.tree.paths(trial.head) if PurePosixPath(path).suffix in suffixes]
        return self._sources(self._mutable(every, tests)[:_MOST_FILES]), False

    def _test_files(self, code: Iterable[str]) -> tuple[str, ...]:
        """Return the files of tests in the languages of the changed code, those that the result changes first."""
        trial = self._trial
        suffixes = {PurePosixPath(path).suffix for path in code}
        every = [path for path in trial.tree.paths(trial.head) if PurePosixPath(path).suffix in suffixes]
        # In Rust, tests are in the files of the code.
        tests = every if suffixes == {".rs"} else deciding_files.tests_among(every, trial.test_patterns)
        changed = {path for _, path in trial.changes}
        return tuple(sorted(tests, key=lambda path: path not in changed))

    def _changed_code(self) -> tuple[dict[str, bytes], dict[str, frozenset[int]]]:
        """Return the changed code that can be mutated, and its changed lines. Every check gets the same."""
        if self._changed is None:
            trial = self._trial
            besides = self._test_support() | self._own_scripts()
            changed = [path for kind, path in trial.changes if kind[:1] != "D" and path not in besides]
            paths = self._mutable(changed, ())
            sources = self._sources(paths[:_MOST_FILES])
            lines: dict[str, frozenset[int]] = {}
            for path, source in sources.items():
                numbers = changed_lines(self._read(trial.base, path), source)
                if any(mutant.line in numbers for mutant in mutants_of(path, source)):
                    lines[path] = numbers
            self._changed = {path: sources[path] for path in lines}, lines
        return self._changed

    def _only_new(self, tests: Iterable[str]) -> list[str]:
        """Return the tests whose definitions the result added."""
        trial = self._trial
        files = [(path if kind[:1] != "D" else None, path if kind[:1] != "A" else None) for kind, path in trial.changes]
        index = KnownTests(files, lambda path: self._read(trial.head, path), lambda path: self._read(trial.base, path))
        definitions = {test: index.find(test) for test in tests}
        return [test for test, definition in definitions.items() if definition is not None and index.is_new(definition)]

    def _mutable(self, paths: Iterable[str], tests: Sequence[str]) -> list[str]:
        code = [path for path in paths if path not in tests and language_of(path) is not None]
        return deciding_files.without_test_support(code, self._trial.test_patterns)

    def _sources(self, paths: Iterable[str]) -> dict[str, bytes]:
        contents = ((path, self._read(self._trial.head, path)) for path in paths)
        return {path: source for path, source in contents if source is not None}

    def _read(self, commit: str, path: str) -> bytes | None:
        return read_unless_large(self._trial.tree, commit, path)


def _not_tested(name: str, why: str, seconds: float = 0.0) -> MutationFinding:
    text = f"The new tests of {name} were not mutation-tested: {why}."
    return MutationFinding(reservations=[(Reservation.NOT_MUTATION_TESTED, text)], seconds=seconds)


def _rank(outcome: MutationOutcome) -> tuple[float, int]:
    return (outcome.score.share, outcome.score.executed) if outcome.score is not None else (-1.0, 0)


def _share(outcome: MutationOutcome) -> str:
    """Return how many changes are noticed by comparing: running into an error needs no look at a value."""
    result = outcome.result
    assert result is not None  # noqa: S101 - something was judged
    if outcome.score is not None and outcome.score.sees_only_types:
        return "only results of another type, and no other value of the same type"
    if outcome.score is not None and outcome.score.sees_only_replaced:
        return "only results that were replaced as a whole, and none of the other small changes"
    return f"{result.killed - result.blind} of {_changes(result.viable - result.blind)} by comparing a value"


def _changes(count: int) -> str:
    return "1 small change" if count == 1 else f"{count} small changes"


def _listed(names: Sequence[str]) -> str:
    return f": {name_list(names)}" if names else ""


def changed_lines(before: bytes | None, after: bytes) -> frozenset[int]:
    """Return the lines of ``after``, from 1, that ``before`` does not have at that place; all lines of a new file."""
    edits = _edits(before, after)
    if edits is None:
        return frozenset(range(1, len(after.splitlines()) + 1))
    return frozenset(line + 1 for _, _, first, last in edits for line in range(first, last))


def _edits(before: bytes | None, after: bytes) -> list[tuple[int, int, int, int]] | None:
    """Return the lines before and after each edit, as pairs from 0 with exclusive ends; None if all lines changed."""
    if before is None:
        return None
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _MOST_LINES:
        return None
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [places for kind, *places in matcher.get_opcodes() if kind != "equal"]  # type: ignore[misc]
