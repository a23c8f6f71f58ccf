"""Find out for each changed place of a result whether tests notice it: by mutants, by undoing it, by what it replaced.

Every change can be undone, in any language and any file: a place is noticed if a test that passes on the result fails
without it. What a refactoring replaced cannot be noticed like that; there, the earlier tests must notice mutants of the
replaced lines on the base.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from understudy.judge.base_runs import earlier_tests
from understudy.judge.deciding import deciding_files
from understudy.judge.mutant_runners.mutant_runs import MutantResult, PlannedRun, TellOfCheck, counted
from understudy.judge.mutation.mutation_test import MutationOutcome
from understudy.judge.mutation.planning import PlaceChange
from understudy.judge.outcomes.observations import Observed, printable
from understudy.judge.places.changed_places import (
    Place,
    by_line,
    hollow,
    is_same_module,
    only_named_again,
    places_of,
    replaced_lines,
    tested_by,
    unbound,
    undone,
)
from understudy.judge.places.compared_texts import ComparedTexts
from understudy.judge.places.judged_place import TIME_OVER, JudgedPlace, TimeOver, failing_test, noticed_change
from understudy.judge.places.parts import ignored_parameters, inner_functions, without_function
from understudy.judge.places.replaced_code import OnBase, ReplacedCode
from understudy.judge.runs.check_run import CheckOutcome, ResultToJudge
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.judge.test_runners.pytest import is_only_pytest
from understudy.model.evidence.checks import Evidence, MutantStatus
from understudy.model.places import MOST_LISTED, SHOWN, ChangedPlace, PlaceEvidence, described, share, untested
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation
from understudy.mutants.generate import Mutant, is_for_the_compiler
from understudy.mutants.languages.by_suffix import language_of

_MOST_ALONE = 40
"""Most places that are undone alone although nothing fails when they are undone together."""
_NOT_OF_THE_PROGRAM = re.compile(r"(?:^|/)\.|(?:^|/)(?:MANIFEST\.in|mkdocs\.ya?ml)$|\.(?:md|rst)$")
"""Matches files that may name a text for people to pack, build or mention it: hidden ones, and other texts."""
_MOST_UNBOUND = 20
"""Most names of a place that are bound to nothing, one after another."""
_MOST_DROPPED = 20
"""Most statements that a place drops that are left out, one after another."""
_EDGES = frozenset({b"<", b"<=", b">", b">="})
_MOST_NAMED = 10
_UNDONE = ""
"""The operator of a change without a place; that of a change in which something does nothing is its name."""


class Run(Protocol):
    """Runs a check on exactly one commit, with the other files if one of its tests cannot be loaded.

    The run has an empty home and a folder for temporary files of its own.
    """

    def __call__(
        self, plan: PreparedCheck, commit: str, *, keep_going: bool, without_coverage: bool
    ) -> Awaitable[CheckOutcome]:
        """Return the outcome; ``without_coverage`` switches the threshold of pytest-cov off."""
        ...


class ChangedPlaces:
    """Judges the places of one result with its required checks; one that notices a place is enough."""

    def __init__(
        self,
        trial: ResultToJudge,
        evidence: Evidence,
        *,
        run: Run,
        materialise: Callable[[str], Awaitable[None]],
        tell: TellOfCheck,
        report: Callable[[list[ChangedPlace], int], None],
        test_support: Callable[[], Iterable[str]],
        own_scripts: Callable[[], frozenset[str]],
        only_tests: bool,
    ) -> None:
        """Read nothing yet.

        ``report`` gets places as soon as something is known about them, with the number of all places. ``only_tests``:
        the recipe writes tests, whose own rules decide.
        """
        self._trial = trial
        self._texts = ComparedTexts(trial)
        self._read_base, self._read_result = self._texts.read_base, self._texts.read_result
        self._run = run
        self._tell = tell
        self._report = report
        self._reported: dict[int, ChangedPlace] = {}
        self._test_support = test_support
        self._only_tests = only_tests
        self._judged: list[JudgedPlace] | None = None
        self._passed = False
        self._alone: dict[tuple[str, str], Observed] = {}
        """What a check shows on a commit in a run that shares no files with others: name and commit → run."""
        self._replaced = ReplacedCode(
            trial,
            evidence,
            texts=self._texts,
            notices=self._notices,
            materialise=materialise,
            tell=tell,
            test_support=test_support,
            own_scripts=own_scripts,
        )

    async def judge(
        self,
        plan: PreparedCheck,
        green: CheckOutcome,
        mutated: MutationOutcome | None,
        on_base: OnBase,
        deadline: float,
    ) -> float:
        """Judge the places that no earlier check showed with one that passed on the result; return the seconds.

        After ``deadline``, a time of the event loop, the places that are left count as not looked at.
        """
        self._passed = True
        judged = await asyncio.to_thread(self._places)
        unreliable = mutated.score.unreliable if mutated is not None and mutated.score is not None else frozenset[str]()
        if mutated is not None:
            self._use_mutants(judged, mutated)
            self._use_changes(judged, mutated, unreliable, whole=is_only_pytest(plan.check.argv))
        self._report_known()
        loop = asyncio.get_running_loop()
        began = loop.time()
        pending = [item for item in judged if item.evidence is None]
        if pending:
            try:
                await self._undo(plan, green, pending, deadline, unreliable)
            except TimeOver:
                for item in pending:
                    item.why = TIME_OVER if item.unbuilt and not item.why else item.why
        await self._replaced.judge(judged, plan, green, mutated, on_base, deadline=deadline)
        noticed = [item for item in judged if item.evidence is PlaceEvidence.NOTICED]
        await self._look_at_parts(plan, green, noticed, deadline, unreliable)
        self._report_known()
        return loop.time() - began

    async def begin(self) -> None:
        """Report the places of which something is known without a run."""
        await asyncio.to_thread(self._places)
        self._report_known()

    def saw(self, run: PlannedRun, result: MutantResult) -> None:
        """Report the place of a run on a change, if that alone shows it; what later runs show is the last word."""
        # Numbers beyond the places are those of functions inside of them.
        if self._judged is None or run.group is None or run.group >= len(self._judged):
            return
        if result.status is not MutantStatus.KILLED:
            return
        item = self._judged[run.group]
        by_value = not result.crashed and not item.place.removed and not run.of_place
        undone_ = run.of_place and bool(item.place.removed) and bool(result.killers)
        if item.evidence is None and run.group not in self._reported and (by_value or undone_):
            seen = replace(item)
            why = noticed_change(result) if by_value else f"without it, {printable(result.killers[0])} fails"
            seen.show(PlaceEvidence.NOTICED, why)
            self._report_places({run.group: seen.as_place()})

    def _report_known(self) -> None:
        """Report the places of which something is known now that was not reported."""
        judged = self._judged or []
        current = {number: item.as_place() for number, item in enumerate(judged) if item.evidence is not None}
        # Something was said about these that did not hold.
        current |= {number: judged[number].as_place() for number in self._reported if number not in current}
        self._report_places({number: place for number, place in current.items() if self._reported.get(number) != place})

    def _report_places(self, places: Mapping[int, ChangedPlace]) -> None:
        if places:
            self._reported |= places
            self._report(list(places.values())[:MOST_LISTED], len(self._judged or ()))

    def stop(self) -> list[ChangedPlace]:
        """Report the places of which nothing was said yet, and return all of them.

        What was found in others says nothing about their hunks.
        """
        judged = self._judged or ()
        left = {number: item.as_place() for number, item in enumerate(judged) if number not in self._reported}
        self._report_places(
            {
                number: msgspec.structs.replace(place, evidence=PlaceEvidence.UNLOOKED, why="the checks were stopped")
                for number, place in left.items()
            }
        )
        return _listed([self._reported[number] for number in sorted(self._reported)])

    def conclude(self) -> tuple[list[tuple[Reservation, str]], list[ChangedPlace]]:
        """Return what the places leave open, and all of them; nothing if no check passed."""
        if not self._passed:
            return [], []
        places = [item.as_place() for item in self._places()]
        missing, listed = untested(places), _listed(places)
        if self._only_tests:
            return [], listed
        if not missing:
            return self._nothing_noticed(places), listed
        text = f"{share(places)}. Not: {name_list(map(described, missing), _MOST_NAMED)}."
        return [(Reservation.CHANGE_NOT_TESTED, text)], listed

    def _nothing_noticed(self, places: Sequence[ChangedPlace]) -> list[tuple[Reservation, str]]:
        """Return the reservation about a result of which only tests changed, without their recipe's own evidence."""
        seen = {place.evidence for place in places}
        if PlaceEvidence.NEW_TEST not in seen or PlaceEvidence.NOTICED in seen:
            return []
        tests = dict.fromkeys(place.path for place in places if place.evidence is PlaceEvidence.NEW_TEST)
        text = "Only tests and their files changed; nothing shows that they notice wrong code"
        return [(Reservation.NOT_MUTATION_TESTED, f"{text}: {name_list(tests)}.")]

    def left(self) -> bool:
        """Return whether a further check may show something about a place."""
        return any(item.evidence is None or item.unreached - item.noticed for item in self._places())

    def groups(self) -> Mapping[str, Mapping[int, int]]:
        """Return path → line of the result, from 1 → a number for each place, and for each function inside of another.

        Each of them is to be shown by a mutant.
        """
        judged = self._places()
        groups = {path: dict(lines) for path, lines in by_line(item.place for item in judged).items()}
        last = len(judged)
        for item in judged:
            for lines in self._inner(item).values():
                last += 1
                groups[item.place.path].update(dict.fromkeys(item.place.lines & lines, last))
        return groups

    def _inner(self, item: JudgedPlace) -> dict[str, frozenset[int]]:
        if item.inner is None:
            has_code = item.place.lines and language_of(item.place.path) is not None
            after = self._read_result(item.place.path) if has_code else None
            item.inner = inner_functions(item.place.path, after, item.place.lines) if after is not None else {}
        return item.inner

    def changes(self) -> list[PlaceChange]:
        """Return the files without one of the places, or in which what it adds does nothing; only of Python."""
        changes: list[PlaceChange] = []
        for number, item in enumerate(self._places()):
            place = item.place
            after = self._read_result(place.path)
            if item.evidence is not None or place.whole or not place.path.endswith(".py") or after is None:
                continue
            before = self._read_base(place.source or place.path)
            content = undone([place], self._read_base, self._read_result)[place.path] or b""
            hollows = hollow(place, after)
            if content == after or len(hollows) > _MOST_UNBOUND:
                continue
            first, last, function = tested_by(place, after)
            whole = 0, len(after)
            contents = [(name, *whole, hollowed) for name, hollowed in hollows]
            contents.insert(0, (_UNDONE, *(replaced_lines(place, before, after) if content else (*whole, b""))))
            for operator, start, end, text in contents:
                mutant = Mutant(
                    start=start,
                    end=end,
                    text=text,
                    operator=operator,
                    line=first,
                    first_line=first,
                    last_line=last,
                    function=function,
                )
                changes.append(
                    PlaceChange(
                        path=place.path,
                        mutant=mutant,
                        group=number,
                        only_if_missed=not place.removed,
                        only_if_noticed=operator != _UNDONE,
                    )
                )
        return changes

    # -- what is known without a run --------------------------------------------------------------------------

    def _places(self) -> list[JudgedPlace]:
        if self._judged is None:
            trial = self._trial
            places = places_of(trial.tree.file_diffs(trial.base, trial.head), self._read_base, self._read_result)
            self._judged = [JudgedPlace(place) for place in places]
            self._use_texts(self._judged)
        return self._judged

    def _use_texts(self, judged: Sequence[JudgedPlace]) -> None:
        """Find the places that belong to tests, and those in which nothing that runs changed."""
        trial = self._trial
        paths = {item.place.path for item in judged}
        support = set(self._test_support())
        tests = {path for path in paths if path in support or deciding_files.is_test(path, trial.test_patterns)}
        texts = set(deciding_files.documentation(paths, trial.test_patterns, self._texts_of_result))
        same: dict[str, list[Place]] = {}
        for item in judged:
            place = item.place
            if place.path not in texts and self._texts.run_the_same([place]):
                same.setdefault(place.path, []).append(place)
        # Two comments that begin in front of code hide it together, and each of them alone changes nothing.
        same = {path: places for path, places in same.items() if len(places) == 1 or self._texts.run_the_same(places)}
        for item in judged:
            place = item.place
            if place.path in texts:
                item.show(PlaceEvidence.SAME, "documentation")
            elif place in same.get(place.path, ()):
                item.show(PlaceEvidence.SAME, "nothing that runs changed")
            elif place.path in tests and self._texts.is_moved_test(place):
                item.show(PlaceEvidence.SAME, "the same tests in another file")
            elif is_same_module(place, self._read_base(place.source or place.path), self._read_result(place.path)):
                item.show(PlaceEvidence.SAME, "the same module in another file")
            elif not (place.whole or place.removed) and is_for_the_compiler(
                place.path, self._read_result(place.path) or b"", place.lines
            ):
                item.show(PlaceEvidence.SAME, "only declarations; what uses or defines them is judged where it is")
            elif place.path in tests or self._texts.is_in_inline_tests(place):
                item.show(PlaceEvidence.NEW_TEST, "it belongs to the tests")

    def _texts_of_result(self) -> Mapping[str, bytes]:
        """Return the files that may name a text because they use it: not other documentation, tests or settings."""
        trial = self._trial
        paths = deciding_files.without_test_support(trial.tree.paths(trial.head), trial.test_patterns)
        users = (path for path in deciding_files.without_documentation(paths) if not _NOT_OF_THE_PROGRAM.search(path))
        return trial.tree.read_many(trial.head, users)

    # -- mutants ----------------------------------------------------------------------------------------------

    def _use_mutants(self, judged: Sequence[JudgedPlace], mutated: MutationOutcome) -> None:
        """Take what mutants of the changed lines showed: one that a test notices by a value is enough for its place."""
        index = by_line(item.place for item in judged)

        def place_at(path: str, line: int) -> JudgedPlace | None:
            number = index.get(path, {}).get(line)
            return None if number is None else judged[number]

        if mutated.score is None:
            return
        for path, mutant in mutated.unreached:
            if (item := place_at(path, mutant.line)) is not None:
                item.idle = True
                item.unreached.add(mutant.line)
        for result in mutated.score.noticed:
            item = place_at(result.path, result.mutant.line)
            if item is None:
                continue
            item.noticed.add(result.mutant.line)
            if item.evidence is not None:
                continue
            item.ran = True
            if result.status is MutantStatus.KILLED and not result.crashed:
                item.added = True
                item.why = noticed_change(result)
                if item.place.old[0] == item.place.old[1]:
                    item.evidence = PlaceEvidence.NOTICED
        for result in mutated.score.survivors:
            if (item := place_at(result.path, result.mutant.line)) is not None:
                item.ran = True
                item.missed.add(result.mutant.line)

    def _use_changes(
        self, judged: Sequence[JudgedPlace], mutated: MutationOutcome, unreliable: frozenset[str], *, whole: bool
    ) -> None:
        """Take what tests that run a place showed without it, and where what it adds does nothing.

        ``whole``: these tests are all of the check, so that nothing else can notice a place.
        """
        tried: dict[int, dict[str, MutantResult]] = {}
        for run, result in mutated.of_places:
            if run.group is not None:
                tried.setdefault(run.group, {})[run.mutant.operator] = result
        for group, results in tried.items():
            item, without = judged[group], results.pop(_UNDONE)
            if item.evidence is None:
                item.use_change(without, results, unreliable)
                item.tried = item.tried and (whole or item.unbuilt)

    # -- undoing ----------------------------------------------------------------------------------------------

    async def _undo(
        self,
        plan: PreparedCheck,
        green: CheckOutcome,
        pending: Sequence[JudgedPlace],
        deadline: float,
        unreliable: frozenset[str],
    ) -> None:
        """Run the check without some places, in groups that are halved while a test fails; ``TimeOver`` ends it."""
        limited = earlier_tests.with_time_limit(plan, green.seconds)
        loop = asyncio.get_running_loop()
        # The others were undone beside mutants, where only the tests that run them had to run.
        untried = [item for item in pending if not item.tried]
        groups = [untried] if untried else []
        alone: list[JudgedPlace] = []

        async def fails_with(files: Mapping[str, bytes | None]) -> str | None:
            """Return the name of a test that fails, "" if none does; None if the code cannot be loaded."""
            if loop.time() >= deadline:
                raise TimeOver
            left = sum(item.evidence is None for item in pending)
            self._report_known()
            number = min(len(pending), len(pending) - left + 1)
            self._tell(plan.check, *counted("places", number, len(pending), left * green.seconds))
            commit = await asyncio.to_thread(self._trial.tree.compose, self._trial.head, self._trial.base, files)
            return await self._notices(limited, (self._trial.head, green.observed), commit, unreliable)

        async def fails_without(group: Sequence[JudgedPlace]) -> str | None:
            places = [item.place for item in group]
            return await fails_with(await asyncio.to_thread(undone, places, self._read_base, self._read_result))

        async def try_alone(item: JudgedPlace, by: str | None) -> None:
            if by and not await self._only_exists(item, fails_with):
                item.show(PlaceEvidence.NOTICED, f"without it, {by} fails")
            item.tried, item.unbuilt = True, by is None

        while groups:
            group = groups.pop(0)
            by = await fails_without(group)
            if len(group) == 1:
                await try_alone(group[0], by)
            elif by == "":
                alone += group
            else:
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]
        for item in alone[:_MOST_ALONE]:
            if item.idle:
                item.tried = True  # no test runs it, so nothing can hide what it does
                continue
            await try_alone(item, await fails_without([item]))
        for item in pending:
            if item.evidence is None and item.unbuilt:
                await self._unbind(item, fails_with)
        linked = [item for item in pending if item.evidence is None and item.unbuilt and not item.idle]
        paths = {item.place.path for item in linked}
        beside = [
            item for item in self._places() if item.place.path in paths and item.evidence is PlaceEvidence.NOTICED
        ]
        if len(linked) + len(beside) > 1 and linked and (by := await fails_without([*linked, *beside])):
            for item in linked:
                if not await self._only_exists(item, fails_with):
                    item.show(PlaceEvidence.NOTICED, f"without it and what it belongs to, {by} fails")

    async def _notices(
        self, plan: PreparedCheck, unchanged: tuple[str, Observed], commit: str, unreliable: frozenset[str]
    ) -> str | None:
        """Run the check on ``commit``, and return which test fails, see ``failing_test``.

        ``unchanged`` is the commit that it comes from, and what the check showed on that one. Only tests that pass on
        it with an empty home, too, can notice something.
        """
        run = (await self._run(plan, commit, keep_going=True, without_coverage=True)).observed
        by = failing_test(unchanged[1], run, unreliable)
        if not by:
            return by
        key = (plan.check.name, unchanged[0])
        if key not in self._alone:
            alone = await self._run(plan, unchanged[0], keep_going=True, without_coverage=True)
            self._alone[key] = alone.observed
        return failing_test(self._alone[key], run, unreliable)

    async def _only_exists(
        self, item: JudgedPlace, fails_with: Callable[[Mapping[str, bytes | None]], Awaitable[str | None]]
    ) -> bool:
        """Return whether no test notices when something that a place adds exists and does nothing; then say so.

        That is not the last word: another check may notice it.
        """
        place = item.place
        contents = await asyncio.to_thread(hollow, place, self._read_result(place.path) or b"")
        if len(contents) > _MOST_UNBOUND:
            item.why = "it binds more names than are tried one after another"
            return True
        for name, content in contents:
            if await fails_with({place.path: content}) == "":
                item.why = f"no test notices when `{printable(name)}` exists and does nothing"
                return True
        return False

    async def _unbind(
        self, item: JudgedPlace, fails_with: Callable[[Mapping[str, bytes | None]], Awaitable[str | None]]
    ) -> None:
        """Bind the names of a place to nothing, one after another: a test must notice each of them."""
        place = item.place
        before, after = (
            self._read_base(place.source or place.path) or b"",
            self._read_result(place.path) or b"",
        )
        moved = place.source is not None and before == after
        # In Python, a name can be bound to something else to see who looks at it.
        if moved or (not place.path.endswith(".py") and only_named_again(place, before, after)):
            item.show(PlaceEvidence.NOTICED, "the same code under another name, without which tests cannot be loaded")
            return
        names = await asyncio.to_thread(unbound, place, after)
        why = ""
        for name, content in names[:_MOST_UNBOUND]:
            by = await fails_with({place.path: content})
            if by == "":
                item.why, item.unbuilt = f"no test notices when `{printable(name)}` is bound to nothing", False
                return
            why = (
                f"if `{name}` is bound to nothing, {by} fails" if by else why or "the code cannot be loaded without it"
            )
        if names and len(names) <= _MOST_UNBOUND and not await self._only_exists(item, fails_with):
            item.show(PlaceEvidence.NOTICED, why)

    # -- parts of places ---------------------------------------------------------------------------------------

    async def _look_at_parts(
        self,
        plan: PreparedCheck,
        green: CheckOutcome,
        shown: Sequence[JudgedPlace],
        deadline: float,
        unreliable: frozenset[str],
    ) -> None:
        """Look at inner functions and new parameters of places that are noticed because of something beside them."""
        limited = earlier_tests.with_time_limit(plan, green.seconds)
        for item in shown:
            for what, content in await asyncio.to_thread(self._silent_parts, item):
                by: str | None = ""
                if content is not None:
                    if asyncio.get_running_loop().time() >= deadline:
                        item.take_back(TIME_OVER)
                        break
                    files = {item.place.path: content}
                    commit = await asyncio.to_thread(
                        self._trial.tree.compose, self._trial.head, self._trial.base, files
                    )
                    by = await self._notices(limited, (self._trial.head, green.observed), commit, unreliable)
                if by == "":
                    item.take_back(what)
                    break

    def _silent_parts(self, item: JudgedPlace) -> list[tuple[str, bytes | None]]:
        """Return what to say if no test notices a part, each with the file without it; None: nothing notices it."""
        place = item.place
        after = self._read_result(place.path)
        if after is None or place.whole:
            return []
        parts: list[tuple[str, bytes | None]] = []
        for name, lines in self._inner(item).items():
            if lines & item.noticed:
                continue
            content = without_function(place.path, after, lines, place.lines)
            if content is not None:
                parts.append((f"no test notices when `{printable(name)}` exists and does nothing", content))
            elif lines & item.missed:
                parts.append((f"no test notices a change in `{printable(name)}`", None))
        before = self._read_base(place.source or place.path)
        for name, content in ignored_parameters(place.path, before, after, place.lines):
            parts.append((f"no test notices when the parameter of `{printable(name)}` is ignored", content))
        return parts


def _listed(places: Sequence[ChangedPlace]) -> list[ChangedPlace]:
    """Return the places for the card, those without evidence first."""
    return [*untested(places), *(place for place in places if place.evidence in SHOWN)][:MOST_LISTED]
