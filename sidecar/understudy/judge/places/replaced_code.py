"""Judge what a result replaced: the earlier tests must notice changes of these lines on the base, and still pass."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from understudy.git.merge.line_edits import split_lines
from understudy.judge.base_runs import earlier_tests
from understudy.judge.deciding import deciding_files
from understudy.judge.mutant_runners.mutant_runs import MutantResult, Progress, RecordedTests, TellOfCheck
from understudy.judge.mutation.mutation_test import MutationOutcome, MutationRequest, mutation_test
from understudy.judge.outcomes.observations import Observed, printable
from understudy.judge.places.changed_places import tested_by
from understudy.judge.places.compared_texts import ComparedTexts
from understudy.judge.places.exchanged_operands import exchanged_operand
from understudy.judge.places.judged_place import TIME_OVER, JudgedPlace, TimeOver
from understudy.judge.places.replaced_statements import dropped, kept_lines, released, without
from understudy.judge.runs.check_run import CheckOutcome, ResultToJudge
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.model.evidence.checks import Evidence, MutantStatus
from understudy.model.places import PlaceEvidence
from understudy.mutants.generate import Mutant, mutants_of
from understudy.mutants.languages.by_suffix import language_of

_MOST_DROPPED = 20
"""Most statements that a place drops that are left out, one after another."""
_EDGES = frozenset({b"<", b"<=", b">", b">="})

OnBase = Callable[[PreparedCheck], Awaitable[tuple[Observed, float]]]
"""Returns what a check shows on the base, and the seconds that took now."""


class Notices(Protocol):
    """Runs a check on a commit, and returns which test fails; see ``failing_test``."""

    def __call__(
        self, plan: PreparedCheck, unchanged: tuple[str, Observed], commit: str, unreliable: frozenset[str], /
    ) -> Awaitable[str | None]:
        """``unchanged`` is the commit that it comes from, and what the check showed on that one."""
        ...


class ReplacedCode:
    """The lines of the base that a result replaces or removes."""

    def __init__(
        self,
        trial: ResultToJudge,
        evidence: Evidence,
        *,
        texts: ComparedTexts,
        notices: Notices,
        materialise: Callable[[str], Awaitable[None]],
        tell: TellOfCheck,
        test_support: Callable[[], Iterable[str]],
        own_scripts: Callable[[], frozenset[str]],
    ) -> None:
        """Read nothing yet; see ``ChangedPlaces``."""
        self._trial = trial
        self._evidence = evidence
        self._texts = texts
        self._notices = notices
        self._materialise = materialise
        self._tell = tell
        self._test_support = test_support
        self._own_scripts = own_scripts

    async def judge(
        self,
        judged: Sequence[JudgedPlace],
        plan: PreparedCheck,
        green: CheckOutcome,
        mutated: MutationOutcome | None,
        on_base: OnBase,
        *,
        deadline: float,
    ) -> None:
        """Test mutants of the lines that the result replaced, on the base and with its tests."""
        trial = self._trial
        left = [
            item
            for item in judged
            if item.evidence is None
            and item.place.path not in self._own_scripts()
            and item.place.old[0] < item.place.old[1]
            and (item.added or item.place.new[0] == item.place.new[1] or self._texts.adds_nothing(item.place))
        ]
        exchanged = [item for item in left if await asyncio.to_thread(self._exchanges_operand, item)]
        left = [item for item in left if item not in exchanged]
        lines: dict[str, set[int]] = {}
        for item in left:
            path = item.place.source or item.place.path
            if language_of(path) is not None:
                lines.setdefault(path, set()).update(item.place.removed)
        sources = {path: source for path in lines if (source := self._texts.read_base(path)) is not None}
        if not sources:
            return
        if asyncio.get_running_loop().time() >= deadline:
            for item in left:
                item.late = True
            return
        self._tell(plan.check, "making small changes to the replaced code of the base, to see whether tests noticed")
        request = MutationRequest(
            plan=plan,
            passed=green.observed.passing,
            seconds=green.seconds,
            context=trial.context,
            sources=sources,
            lines={path: frozenset(numbers) for path, numbers in lines.items() if path in sources},
            groups={path: {line: line for line in numbers} for path, numbers in lines.items()},
            seed=await asyncio.to_thread(trial.tree.tree_of, trial.base),
            evidence=self._evidence,
            deadline=deadline,
            trusted=True,
            progress=Progress(functools.partial(self._tell, plan.check), run="replaced code"),
        )
        recorded = await asyncio.to_thread(self._recorded_on_base, left, mutated) if mutated is not None else None
        outcome = MutationOutcome()
        base: Observed | None = None
        if recorded is not None:
            await self._materialise(trial.base)
            outcome = await mutation_test(replace(request, recorded=recorded))
        if outcome.score is None or not outcome.score.viable:
            # It is not known which tests run these lines, or one of them does not pass on the base.
            base, _ = await on_base(plan)
            if base.timed_out or not (base.passing or base.green):
                return
            await self._materialise(trial.base)
            outcome = await mutation_test(replace(request, passed=base.passing))
        await self._materialise(trial.head)
        kept, as_often = await asyncio.to_thread(lambda: kept_lines(self._changed_lines(judged)))
        self._use_base_mutants(left, outcome, kept)
        unreliable = outcome.score.unreliable if outcome.score is not None else frozenset[str]()
        limited = earlier_tests.with_time_limit(plan, green.seconds)

        async def is_noticed(path: str, content: bytes) -> bool:
            """Return whether a test of the base fails with another content of a file there."""
            nonlocal base
            if base is None:
                base, _ = await on_base(plan)
            if asyncio.get_running_loop().time() >= deadline:
                raise TimeOver
            commit = await asyncio.to_thread(trial.tree.compose, trial.base, trial.base, {path: content})
            return await self._notices(limited, (trial.base, base), commit, unreliable) != ""

        shown = [item for item in left if item.evidence is PlaceEvidence.NOTICED]
        for item in shown:
            try:
                await self._look_at_dropped(item, as_often, is_noticed)
            except TimeOver:
                item.take_back(TIME_OVER)

    def _exchanges_operand(self, item: JudgedPlace) -> bool:
        """Return whether a place has another operand on a line that is the same otherwise; then say so."""
        place = item.place
        before, after = self._texts.read_base(place.source or place.path), self._texts.read_result(place.path)
        if before is None or after is None:
            return False
        operand = exchanged_operand(
            place.path,
            before,
            after,
            place.removed,
            place.lines,
            docstrings_run=self._texts.docstrings_are_read,
            annotations_run=self._texts.annotations_are_read,
        )
        if operand is None:
            return False
        item.take_back(f"no test notices when it has `{printable(operand)}` again, as before")
        return True

    async def _look_at_dropped(
        self, item: JudgedPlace, kept: frozenset[bytes], is_noticed: Callable[[str, bytes], Awaitable[bool]]
    ) -> None:
        """Leave out, on the base, what a place drops and what has no mutant: a test must notice each statement.

        A lock or a handler around a statement that the result has elsewhere is dropped for that statement.
        """
        path = item.place.source or item.place.path
        source = self._texts.read_base(path) or b""
        changed = {mutant.line for mutant in mutants_of(path, source)}
        after = self._texts.read_result(item.place.path) or b""
        statements = await asyncio.to_thread(dropped, path, source, item.place.removed, changed, kept)
        statements += await asyncio.to_thread(released, path, source, after, item.place.removed)
        if not statements:
            return
        if len(statements) > 1 and not await is_noticed(path, without(statements, source)):
            unseen = statements
        else:
            first = statements[:_MOST_DROPPED]
            unseen = [statement for statement in first if not await is_noticed(path, without([statement], source))]
        if unseen:
            item.take_back(f"no test noticed when line {unseen[0].line} of the base, which is gone, did nothing")
        elif len(statements) > _MOST_DROPPED:
            item.take_back("it drops more statements than are tried one after another")

    def _changed_lines(self, judged: Sequence[JudgedPlace]) -> Iterable[tuple[list[bytes], list[bytes]]]:
        """Yield the lines of each place in the base and in the result."""
        for item in judged:
            place = item.place
            before = split_lines(self._texts.read_base(place.source or place.path) or b"")
            after = split_lines(self._texts.read_result(place.path) or b"")
            yield before[place.old[0] : place.old[1]], after[place.new[0] : place.new[1]]

    def _recorded_on_base(self, left: Sequence[JudgedPlace], mutated: MutationOutcome) -> RecordedTests | None:
        """Return which tests of the base run the lines that were replaced: those that run what replaced them.

        None if that is not known, or if the result changes tests of the base.
        """
        recorded, trial = mutated.recorded, self._trial
        if recorded is None or mutated.score is None:
            return None
        added = {path for letter, path in trial.changes if letter[:1] == "A"}
        support = set(self._test_support())
        tests = {
            path
            for _, path in trial.changes
            if path in support or deciding_files.is_test(path, trial.test_patterns) or path.endswith("conftest.py")
        }
        if tests - {path for path in added if deciding_files.is_test_file(path, trial.test_patterns)}:
            return None
        lines_by_file: dict[str, dict[str, frozenset[int]]] = {}
        for item in left:
            place, after = item.place, self._texts.read_result(item.place.path)
            if place.whole or not place.path.endswith(".py") or after is None:
                return None
            first, last, function = tested_by(place, after)
            where = Mutant(
                start=0,
                end=0,
                text=b"",
                operator="",
                line=first,
                first_line=first,
                last_line=last,
                function=function,
            )
            by_test = lines_by_file.setdefault(place.path, {})
            for test in recorded.tests_of(place.path, where):
                if test.partition("::")[0] not in added and test not in mutated.score.unreliable:
                    by_test[test] = by_test.get(test, frozenset()) | place.removed
        passed = {test: recorded.passed[test] for by_test in lines_by_file.values() for test in by_test}
        return replace(recorded, passed=passed, lines=lines_by_file, compiled=frozenset(), failed=frozenset())

    def _use_base_mutants(self, left: Sequence[JudgedPlace], outcome: MutationOutcome, kept: frozenset[bytes]) -> None:
        score = outcome.score
        if score is None:
            return
        kills = [result for result in score.noticed if result.status is MutantStatus.KILLED and not result.crashed]
        killed = {(result.path, result.mutant.line) for result in kills}
        missed = {(result.path, result.mutant) for result in score.survivors if not _is_edge_of(result, kills)}
        missed |= set(outcome.unreached)
        for item in left:
            path = item.place.source or item.place.path
            lines = split_lines(self._texts.read_base(path) or b"")
            item.late = outcome.result is not None and outcome.result.unfinished is not None
            mine = {line for line in item.place.removed if (path, line) in killed}
            lost = sorted(
                mutant.line
                for place, mutant in missed
                if place == path
                and mutant.line in item.place.removed
                # A line that only moved still does what it did.
                and ((path, mutant.line) not in killed or lines[mutant.line - 1].strip() not in kept)
            )
            if mine and not lost:
                item.show(
                    PlaceEvidence.NOTICED,
                    "tests noticed small changes of what it replaces, and still pass" + (f"; {item.why}" * item.added),
                )
            elif lost:
                item.added = False
                item.why = f"no test noticed changes of line {lost[0]} of the base, which is gone"


def _is_edge_of(missed: MutantResult, kills: Iterable[MutantResult]) -> bool:
    """Return whether a mutant only moves the edge of a comparison of which a test noticed another change.

    Where both sides of the edge give the same result, nothing can notice that.
    """
    mutant = missed.mutant
    return mutant.text in _EDGES and any(
        kill.path == missed.path and kill.mutant.start <= mutant.start and mutant.end <= kill.mutant.end
        for kill in kills
    )
