"""The judge: from a base commit and a result commit to what the checks say of it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from understudy.engine.checks import detect, environment, scope
from understudy.engine.checks.control import Controlled, can_be_broken, run_control
from understudy.engine.checks.execute import TESTS_SLOT, Outcome, Plan, Setting, run_once
from understudy.engine.checks.tree import Change, JudgedTree
from understudy.engine.checks.verdict import in_order
from understudy.model.delegations import CheckResult
from understudy.model.delegators import Check, Recipe
from understudy.model.errors import UnderstudyError
from understudy.model.events import CheckFinished, CheckStarted, Event, Note
from understudy.model.states import Reservation

TESTS_RECIPE = "tests"
"""The recipe whose result is tests: it has checks of its own, and a control."""

_MOST_NAMES = 10
"""Paths or tests named in one note."""

Emit = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class JudgeRequest:
    """What is judged, and by what."""

    delegation_id: str
    """The mark by which processes of this delegation are known."""
    recipe: Recipe
    tree: JudgedTree
    base: str
    """Commit the work started from."""
    head: str
    """Commit that is judged."""
    workspace: Path
    """The user's checkout; ``tree.path`` stands for exactly this folder."""
    files: Sequence[str] = ()
    """What the work is about, relative POSIX paths; for ``tests``, the files under test."""
    checks: Sequence[Check] = ()
    """What to run; the recipe ``tests`` runs its own check where none is named."""
    interpreter: str | None = None
    """The project's interpreter where one is configured or was selected in the editor."""
    scratch: Path
    """A folder for the while, made where it is missing and emptied afterwards; outside tree and checkout."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the checks came to."""

    results: list[CheckResult] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)


async def judge(request: JudgeRequest, emit: Emit) -> Judgement:
    """Run the checks on exactly ``head`` and return results and reservations; the tree is ``head`` again at the end.

    No process of the agent may live any more. ``emit`` gets ``check_started``, ``check_finished`` and notes. A check
    that cannot be run is red with the reason. Raises only what the tree raises. Cancelling ends the running check's
    processes and leaves the tree as it is then.
    """
    await asyncio.to_thread(request.scratch.mkdir, parents=True, exist_ok=True)
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="judge-", dir=request.scratch))
    try:
        return await _Judge(request, emit, scratch).judge()
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


class _Judge:
    def __init__(self, request: JudgeRequest, emit: Emit, scratch: Path) -> None:
        self._request = request
        self._emit = emit
        self._tree = request.tree
        self._reservations: set[Reservation] = set()
        self._scratch = scratch
        self._setting: Setting
        self._changes: list[Change] = []
        self._tree_id = ""
        self._detected = False
        self._clean_at: str | None = None
        """The commit that the tree is exactly, as long as nothing ran in it."""
        self._pending: list[str] = []

    @property
    def _writes_tests(self) -> bool:
        return self._request.recipe.name == TESTS_RECIPE

    async def judge(self) -> Judgement:
        request = self._request
        self._tree_id = await asyncio.to_thread(self._tree.tree_of, request.head)
        self._changes = await asyncio.to_thread(self._tree.changed_paths, request.base, request.head)
        await self._materialise(request.head)
        self._look_at_scope()
        self._setting = await asyncio.to_thread(self._prepare)
        plans = await asyncio.to_thread(self._plans)
        for text in self._pending:
            self._note(text)
        results = [await self._run(plan) for plan in plans]
        if not any(result.required for result in results):
            self._reservations.add(Reservation.NO_CHECKS)
        return Judgement(results=results, reservations=in_order(self._reservations))

    # -- before anything runs ----------------------------------------------------------------------------------

    def _look_at_scope(self) -> None:
        outside = scope.outside(self._changes, self._request.recipe.writes, only_adds_and_modifies=self._writes_tests)
        outside = sorted({*outside, *scope.leading_out(self._tree.path, self._changes)})
        if outside:
            self._reserve(Reservation.OUTSIDE_SCOPE, f"Outside what the recipe writes: {_named(outside)}.")

    def _prepare(self) -> Setting:
        """Find the project's environment; a project without Python has none. Runs in a thread, so notes wait."""
        request, tree = self._request, self._tree.path
        neutral = self._scratch / "neutral"
        neutral.mkdir()
        setting = Setting(tree=tree, workspace=request.workspace, scratch=self._scratch, mark=request.delegation_id)
        try:
            interpreter = environment.find_interpreter(request.workspace, request.interpreter, tree=tree)
            if interpreter is None:
                return setting
            facts = environment.describe(interpreter, neutral=neutral)
        except UnderstudyError as error:
            self._pending.append(f"{error.message} {error.hint or ''}".strip())
            return setting
        plan = environment.import_locations(facts, request.workspace, tree)
        return Setting(
            tree=tree,
            workspace=request.workspace,
            scratch=self._scratch,
            mark=request.delegation_id,
            facts=facts,
            plan=plan,
            shadows=environment.write_shadows(plan, self._scratch / "shadows"),
        )

    def _plans(self) -> list[Plan]:
        request, facts = self._request, self._setting.facts

        def read(path: str) -> bytes | None:
            return self._tree.read(request.head, path)

        plans: list[Plan] = []
        if self._writes_tests and not any(
            TESTS_SLOT in argument for check in request.checks for argument in check.argv
        ):
            # A named check comes on top of the built-in one, unless it is about the tests that were written itself.
            detected = detect.detect(
                self._changes,
                self._tree.path,
                read,
                has_python=facts is not None,
                has_pytest=facts is not None and facts.has_pytest,
            )
            self._pending += detected.notes if not request.checks else ()
            plans += detected.plans
        self._detected = bool(plans)
        tests = tuple(detect.test_files(self._changes, read))
        for check in request.checks:
            uses_tests = any(TESTS_SLOT in argument for argument in check.argv)
            if uses_tests and not tests:
                self._pending.append(f"The check {check.name} was not run: no test file was added or changed.")
                continue
            plans.append(Plan(check=check, tests=tests if uses_tests else (), uses_tests=uses_tests))
        return plans

    # -- one check ---------------------------------------------------------------------------------------------

    async def _run(self, plan: Plan) -> CheckResult:
        check, request = plan.check, self._request
        self._emit(CheckStarted(name=check.name))
        last = await self._once(plan, request.head)
        seconds = last.seconds
        flaky = last.report.reran
        fails_on_base = False
        wrong = set(last.wrong)
        if not last.started and plan.uses_tests:
            fails_on_base = True  # a program that is not there is not there on the base either
        elif not last.green:
            last = await self._once(plan, request.head)
            seconds += last.seconds
            flaky = flaky or last.green
            wrong.update(last.wrong)
            if not last.green and not plan.uses_tests:
                on_base = await self._once(plan, request.base)
                seconds += on_base.seconds
                fails_on_base = not on_base.green
        controlled = Controlled()
        if last.green and self._writes_tests and (plan.uses_tests or not self._detected):
            before = await self._compare_collections(plan, last)
            controlled = await self._control(plan, last, before)
            seconds += controlled.outcome.seconds if controlled.outcome is not None else 0.0
        await self._materialise(request.head)
        if check.required:
            self._reserve_for(
                plan, flaky=flaky, fails_on_base=fails_on_base, wrong=sorted(wrong), plugins=last.report.plugins
            )
        counts = last.counts
        result = CheckResult(
            name=check.name,
            argv=[_printable(argument) for argument in last.argv],
            exit_code=last.code,
            seconds=round(seconds, 3),
            tree=self._tree_id,
            passed=counts.passed if counts is not None else None,
            failed=counts.failed if counts is not None else None,
            skipped=counts.skipped if counts is not None else None,
            output_tail=last.output,
            control=controlled.control,
            flaky=flaky,
            fails_on_base=fails_on_base,
            wrong_tree=[_printable(path) for path in sorted(wrong)] or None,
            ok=last.green,
            required=check.required,
        )
        self._emit(CheckFinished.of(result))
        return result

    async def _once(self, plan: Plan, commit: str, *, collect_only: bool = False) -> Outcome:
        """Run the check on exactly ``commit``; what it changes in the tree is thrown away before anything else runs."""
        await self._materialise(commit)
        self._clean_at = None
        return await run_once(plan, self._setting, collect_only=collect_only)

    def _reserve_for(
        self, plan: Plan, *, flaky: bool, fails_on_base: bool, wrong: list[str], plugins: frozenset[str]
    ) -> None:
        name = plan.check.name
        # A plugin decides what a test comes to, wherever it lies and however pytest was told of it.
        top = self._tree.path.resolve()
        loaded = [path for _, path in self._changes if str(top / path) in plugins]
        changing = sorted({*scope.check_changing(self._changes, plan.check.configured_by), *loaded})
        if changing:
            self._reserve(
                Reservation.CHECK_CHANGED, f"The result changes what the check {name} does: {_named(changing)}."
            )
        if flaky:
            self._reserve(Reservation.FLAKY, f"The check {name} was red once and green once on the same tree.")
        if fails_on_base:
            self._reserve(Reservation.FAILS_ON_BASE, f"The check {name} was red before the work began, and still is.")
        if wrong:
            self._reserve(
                Reservation.WRONG_TREE,
                f"The check {name} loaded files of the checkout instead of the result: {_named(wrong)}.",
            )

    # -- only for new tests ------------------------------------------------------------------------------------

    async def _compare_collections(self, plan: Plan, green: Outcome) -> frozenset[str]:
        """Return the tests that the base has in these files; reserve ``outside_scope`` when some are gone.

        They are collected only: nothing is run on the base.
        """
        request = self._request
        existing = await asyncio.to_thread(
            lambda: tuple(test for test in plan.tests if self._tree.read(request.base, test) is not None)
        )
        if not existing or not green.report.started:
            return frozenset()
        on_base = Plan(check=plan.check, kind=plan.kind, tests=existing, builtin=plan.builtin, uses_tests=True)
        listed = await self._once(on_base, request.base, collect_only=True)
        if not listed.listed:
            listed = await self._once(on_base, request.base, collect_only=True)
        if not listed.listed:
            self._reserve(
                Reservation.OUTSIDE_SCOPE,
                f"The tests of {_named(list(existing))} could not be listed as they were before, so nobody knows "
                "whether some are gone.",
            )
            return frozenset()
        before = listed.report.collected
        after = green.report.collected
        # By function: a test that is gone counts all its cases.
        gone = Counter(map(_function, before)) - Counter(map(_function, after))
        if gone:
            self._reserve(
                Reservation.OUTSIDE_SCOPE, f"Tests or cases that were there before are gone: {_named(sorted(gone))}."
            )
        return before

    async def _control(self, plan: Plan, green: Outcome, before: frozenset[str]) -> Controlled:
        files = [path for path in self._request.files if can_be_broken(path, plan.tests)]
        if not files:
            controlled = Controlled(why="no Python file under test was named")
        elif not plan.uses_tests:
            controlled = Controlled(why="the check does not run the new tests alone")
        else:
            await self._materialise(self._request.head)
            self._clean_at = None
            controlled = await run_control(plan, self._setting, files, green)
        if not plan.check.required:
            return controlled
        if controlled.control is None:
            self._reserve(
                Reservation.NO_CONTROL, f"Nothing shows that the tests of {plan.check.name} can fail: {controlled.why}."
            )
        # Where the result adds tests to a file, those that were there already prove nothing for the new ones.
        elif not controlled.bitten & (green.report.passed - before or green.report.passed):
            survived = _named(
                [test for test in controlled.control.survived if test not in before] or controlled.control.survived
            )
            self._reserve(
                Reservation.NOTHING_BITTEN, f"With the code under test broken on purpose, no test fails: {survived}."
            )
        return controlled

    # -- small things ------------------------------------------------------------------------------------------

    async def _materialise(self, commit: str) -> None:
        if self._clean_at != commit:
            self._clean_at = None
            await asyncio.to_thread(self._tree.materialise, commit)
            self._clean_at = commit

    def _reserve(self, reservation: Reservation, text: str) -> None:
        self._reservations.add(reservation)
        self._note(text)

    def _note(self, text: str) -> None:
        """Tell it; from the event loop's own thread only."""
        self._emit(Note(level="warning", text=_printable(text)))


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _function(test: str) -> str:
    """Return a test's id without the case of its parameters."""
    return test.partition("[")[0]


def _printable(text: str) -> str:
    """Return ``text`` as it can travel in JSON: names of files need not be UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
