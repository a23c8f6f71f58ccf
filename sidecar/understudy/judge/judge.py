"""Run the checks on a result commit and compare them with its base commit."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from understudy.journal import worker_files
from understudy.judge import test_aware_code
from understudy.judge.base_runs.restored_runs import BaseRuns, EarlierVersion, Finding
from understudy.judge.check_findings import CheckFindings, EvidenceRecord, ResultFindings, altered, leading_out, outside
from understudy.judge.mutant_runners.mutant_runs import Progress, about
from understudy.judge.mutation.confirmation import empty_home
from understudy.judge.mutation.lost_kills import BaseRun
from understudy.judge.mutation.mutation_evidence import MutationEvidence, MutationFinding, MutationSettings
from understudy.judge.mutation.planning import MutantSample
from understudy.judge.outcomes.observations import Observed, OutcomeCache, function_of, newly_red
from understudy.judge.places.place_evidence import ChangedPlaces
from understudy.judge.project.interpreter import project_folder
from understudy.judge.runs import repeated_runs, runner_registry
from understudy.judge.runs.check_run import (
    CheckContext,
    CheckOutcome,
    ResultToJudge,
    SpareSlot,
    Variation,
    run_once,
    temporary_folder,
    with_interpreter,
)
from understudy.judge.runs.judged_tree import Change, JudgedTree, read_unless_large
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.judge.test_runners.shared.test_runner import TESTS_SLOT
from understudy.model.config.delegators import ProgramLimits, Recipe
from understudy.model.delegation.delegations import Count
from understudy.model.delegation.events import CheckFinished, CheckStarted, Event, Phase, PlacesJudged
from understudy.model.evidence.checks import Check, CheckResult, Evidence
from understudy.model.places import ChangedPlace
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation, ReservationFact, in_order
from understudy.process.program_spec import limits_of

Emit = Callable[[Event], None]
_RUNS_TO_COMPARE = 6
"""What comparing what the earlier tests notice takes, in runs of them: lines are recorded twice, and mutants run."""


@dataclass(frozen=True, kw_only=True)
class JudgeRequest:
    """What to judge, and with which checks."""

    delegation_id: str
    """Marks the processes of this delegation."""
    recipe: Recipe
    tree: JudgedTree
    base: str
    """The commit the work started from."""
    head: str
    """The commit to judge."""
    workspace: Path
    """The user's checkout, which corresponds to ``tree.path``."""
    files: Sequence[str] = ()
    """The files the delegation is about, relative POSIX paths; for ``tests``, the files under test."""
    checks: Sequence[Check] = ()
    """The checks to run; if there are none, a recipe that is judged by new tests runs the built-in ones."""
    fallback_checks: Sequence[Check] = ()
    """The checks to run if there are neither ``checks`` nor built-in ones for the new tests."""
    interpreter: str | None = None
    """The project's interpreter, if it is configured or was selected in the editor."""
    scratch: Path
    """A folder for temporary files, outside worktree and checkout; created if missing, emptied afterwards."""
    cache: Path | None = None
    """A folder that keeps what checks showed on bases; created if missing."""
    since: float = field(default_factory=time.time)
    """A time, in seconds since 1970, before which no agent of this result ran: what was kept later may be its own."""
    evidence: Evidence = field(default_factory=Evidence)
    """How much the tests must notice."""
    dismissed: frozenset[str] = frozenset()
    """Identities of mutants that the user dismissed."""
    reports: Path | None = None
    """The folder for the record of all runs and the reports of mutation testing; None: they are not kept."""
    sample: MutantSample | None = None
    """Mutants to judge before others, so that the result can be compared with another; None: chosen by the tree."""
    after_check: Callable[[CheckResult], Awaitable[None]] | None = None
    """Called when all runs of a check are over and none of its processes is alive."""
    stopped: Callable[[Judgement], None] | None = None
    """Called on a cancellation, with what was found before it: reservations, places, and results of whole checks."""
    spare_slot: Callable[[], SpareSlot | None] | None = None
    """See ``CheckContext``."""
    program_limits: ProgramLimits = field(default_factory=ProgramLimits)
    linked: Sequence[Path] = ()
    """The items of the checkout that the worktree links to."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The results of the checks."""

    results: list[CheckResult] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    facts: list[ReservationFact] = field(default_factory=list)
    """What the reservations are about."""
    places: list[ChangedPlace] = field(default_factory=list)
    """Every changed place and its evidence; empty if no required check passed."""


async def judge(request: JudgeRequest, emit: Emit) -> Judgement:
    """Run the checks on exactly ``head``, reset the worktree to ``head``, and return results and reservations.

    All processes of the agent must be dead. ``emit`` gets ``check_started``, ``check_finished`` and notes. A check that
    cannot be run fails with the reason in its output. Errors are those of ``tree``. Cancellation kills the processes of
    the running check and does not reset the worktree (see ``JudgeRequest.stopped``).
    """
    await asyncio.to_thread(request.scratch.mkdir, parents=True, exist_ok=True)
    # Of a worker that was killed before it wrote anything to the journal.
    await asyncio.to_thread(worker_files.remove_check_scratch, request.scratch)
    prefix = worker_files.SCRATCH_PREFIX
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=prefix, dir=request.scratch))
    try:
        async with temporary_folder(scratch) as temporary:
            return await _Judge(request, emit, scratch, temporary).judge()
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


class _Judge:
    def __init__(self, request: JudgeRequest, emit: Emit, scratch: Path, temporary: Path) -> None:
        self._request = request
        self._emit = emit
        self._tree = request.tree
        self._scratch = scratch
        self._temporary = temporary
        self._project = ""
        """The folder of the Python project, relative to the worktree."""
        self._setting: CheckContext
        self._record: EvidenceRecord
        self._findings: ResultFindings
        self._check: CheckFindings
        self._base_runs: BaseRuns
        self._mutation: MutationEvidence
        self._ran: set[str] = set()
        """Names of checks that ran on the result."""
        self._places: ChangedPlaces
        self._test_patterns: Sequence[str]
        self._changes: list[Change] = []
        self._results: list[CheckResult] = []
        self._stop_places: Callable[[], list[ChangedPlace]] = list
        self._tree_id = ""
        self._detected = False
        self._repaired = False
        """A test of a required check fails on the code of the base and passes on the result's."""
        self._clean_at: str | None = None
        """The commit that the worktree is at; None once a program ran in it."""
        self._unchecked: list[str] = []
        """Why checks could not be run, as sentences."""

    @property
    def _writes_tests(self) -> bool:
        return self._request.recipe.judged_by == "new_tests"

    @property
    def _repairs(self) -> bool:
        return self._request.recipe.judged_by == "failing_test"

    async def judge(self) -> Judgement:
        request = self._request
        self._tree_id = await asyncio.to_thread(self._tree.tree_of, request.head)
        self._changes = await asyncio.to_thread(self._tree.changed_paths, request.base, request.head)
        self._record = EvidenceRecord(base=request.base, head=request.head, tree=self._tree_id)
        self._findings = ResultFindings(self._record, self._emit)
        try:
            return await self._judged()
        except asyncio.CancelledError:
            partial = self._judgement(self._stop_places())
            if request.stopped is not None:
                request.stopped(partial)
            raise

    async def _judged(self) -> Judgement:
        request, results = self._request, self._results
        await self._materialise(request.head)
        self._check_scope()
        self._setting = await asyncio.to_thread(self._prepare)
        if self._setting.facts is not None:
            self._record.log.interpreter = self._setting.facts.executable
            self._record.log.interpreter_version = ".".join(map(str, self._setting.facts.version[:3]))
        await asyncio.to_thread(self._prepare_judges)
        plans = await asyncio.to_thread(self._plans)
        if any(plan.check.required for plan in plans):
            self._findings.note(*self._unchecked)
        else:
            self._findings.reserve(*((Reservation.NO_CHECKS, text) for text in self._unchecked))
        if not self._writes_tests:
            aware = await asyncio.to_thread(self._find_test_aware)
            if aware:
                text = f"Changed code asks whether tests run it: {name_list(aware)}."
                self._findings.reserve((Reservation.CHECK_CHANGED, text))
        for plan in plans:
            try:
                results.append(await self._run(plan))
            except asyncio.CancelledError:
                if plan.check.required:
                    self._findings.reserve(*self._check.reservations())
                raise
            if request.after_check is not None:
                await request.after_check(results[-1])
        if not any(result.required for result in results):
            self._findings.reservations.add(Reservation.NO_CHECKS)
        elif self._repairs and not self._repaired and any(result.ok for result in results if result.required):
            text = "No test fails on the base's code and passes on the result's, so nothing shows what was repaired."
            self._findings.reserve((Reservation.PROBLEM_NOT_SHOWN, text))
        self._findings.reserve(*await asyncio.to_thread(self._mutation.conclude))
        untested, places = await asyncio.to_thread(self._places.conclude)
        self._findings.reserve(*untested)
        if request.reports is not None:
            await self._save_record(request.reports)
        return self._judgement(places)

    def _judgement(self, places: list[ChangedPlace]) -> Judgement:
        """Return what was found."""
        reservations = in_order(self._findings.reservations)
        return Judgement(results=self._results, reservations=reservations, facts=self._findings.facts, places=places)

    async def _save_record(self, folder: Path) -> None:
        try:
            await asyncio.to_thread(self._record.save, folder)
        except OSError as error:
            # The verdict is in the journal; only the page of evidence will be shorter.
            self._findings.note(f"The record of all runs could not be kept: {error.strerror}.")

    # -- preparation -------------------------------------------------------------------------------------------

    def _check_scope(self) -> None:
        paths = outside(self._changes, self._request.recipe.writes, only_adds_and_modifies=self._writes_tests)
        paths = sorted({*paths, *leading_out(self._tree.path, self._changes)})
        if paths:
            text = f"The recipe must not change: {name_list(paths)}."
            self._findings.reserve((Reservation.OUTSIDE_SCOPE, text))

    def _prepare(self) -> CheckContext:
        """Find the project's Python environment, if checks may run. In a thread, so notes are emitted later."""
        request = self._request
        setting = CheckContext(
            tree=self._tree.path,
            workspace=request.workspace,
            scratch=self._scratch,
            temporary=self._temporary,
            mark=request.delegation_id,
            spare_slot=request.spare_slot,
            limits=limits_of(request.program_limits),
            linked=tuple(request.linked),
        )
        if request.checks or self._writes_tests:
            self._project = project_folder(request.workspace, self._places_of_project())
            setting, note = with_interpreter(setting, request.interpreter, self._project)
            self._unchecked += [note] if note else []
        return setting

    def _places_of_project(self) -> list[str]:
        """Return what shows which project of the workspace this is about."""
        changed = [path for _, path in self._changes if path.endswith(".py")]
        return list(self._request.files) or changed or [check.cwd or "" for check in self._request.checks]

    def _prepare_judges(self) -> None:
        request = self._request
        self._test_patterns = runner_registry.test_globs(self._read_base)
        trial = ResultToJudge(
            tree=self._tree,
            base=request.base,
            head=request.head,
            changes=self._changes,
            files=request.files,
            context=self._setting,
            test_patterns=self._test_patterns,
        )
        self._base_runs = BaseRuns(
            trial,
            cache=OutcomeCache(request.cache, since=request.since),
            run=self._once,
            composed=self._record.composed,
            checks=request.checks,
        )
        self._places = ChangedPlaces(
            trial,
            request.evidence,
            run=self._once_alone,
            materialise=self._materialise,
            tell=self._tell,
            report=lambda places, total: self._emit(PlacesJudged(places=places, total=total)),
            test_support=self._base_runs.test_support,
            own_scripts=self._base_runs.own_scripts,
            only_tests=self._writes_tests,
        )
        self._stop_places = self._places.stop
        self._mutation = MutationEvidence(
            trial,
            MutationSettings(
                evidence=request.evidence,
                dismissed=request.dismissed,
                reports=request.reports,
                sample=request.sample,
            ),
            tell=self._tell,
            ran=self._places.saw,
            test_support=self._base_runs.test_support,
            own_scripts=self._base_runs.own_scripts,
        )

    def _plans(self) -> list[PreparedCheck]:
        request, facts = self._request, self._setting.facts
        plans: list[PreparedCheck] = []
        checks = request.checks
        if self._writes_tests and not any(
            TESTS_SLOT in argument for check in request.checks for argument in check.argv
        ):
            # A named check is run in addition to the built-in one, unless it runs the new tests itself.
            detected = runner_registry.detect(
                self._changes,
                self._tree.path,
                self._read_head,
                self._read_base,
                project=self._project,
                has_python=facts is not None,
                has_pytest=facts is not None and facts.has_pytest,
                has_pytest_cov=facts is not None and facts.has_pytest_cov,
            )
            plans += detected.plans
            if not plans:
                checks = checks or request.fallback_checks
            self._unchecked += detected.notes if not checks else ()
        self._detected = bool(plans)
        tests: tuple[str, ...] | None = None
        for check in checks:
            uses_tests = any(TESTS_SLOT in argument for argument in check.argv)
            if uses_tests and tests is None:
                tests = tuple(runner_registry.test_files(self._changes, self._read_head))
            if uses_tests and not tests:
                self._unchecked.append(f"The check {check.name} was not run: no test file was added or changed.")
                continue
            plans.append(PreparedCheck(check=check, tests=(tests or ()) if uses_tests else (), uses_tests=uses_tests))
        return plans

    # -- one check ---------------------------------------------------------------------------------------------

    async def _run(self, plan: PreparedCheck) -> CheckResult:
        check, request = plan.check, self._request
        self._emit(CheckStarted(name=check.name))
        self._record.begin(check.name)
        findings = self._check = CheckFindings(check=check)
        last = await self._once(plan, request.head)
        findings.ran(last)
        findings.flaky = last.report.reran
        if not last.started and plan.uses_tests:
            findings.fails_on_base = True  # a missing program is missing on the base, too
        elif not last.green:
            failed = last.failed_tests
            last = await self._once(plan, request.head)
            findings.ran(last)
            findings.repeated(flaky=last.green, tests=failed if last.green else (), seconds=0.0)
            if not last.green and not plan.uses_tests:
                on_base = await self._once(plan, request.base)
                # Another test that passed before must still pass.
                findings.fails_on_base = not on_base.green and not newly_red(on_base.observed, last.observed)
                findings.seconds += on_base.seconds
        judges_tests = last.green and self._writes_tests and (plan.uses_tests or not self._detected)
        before = frozenset[str]()
        if judges_tests and plan.uses_tests:
            before = await self._compare_collections(plan, last)
        elif judges_tests and check.required:
            base_tests = await self._on_base(plan, last)
            judges_tests, before = base_tests is not None, base_tests or before
        if last.green and plan.tests:
            soon = about(repeated_runs.RUNS * last.seconds)
            self._tell(check, f"running the new tests again, in other orders and time zones{soon}")
            steady = await repeated_runs.run_again(
                lambda check, commit, variation, bare: self._once(check, commit, variation=variation, bare=bare),
                plan=plan,
                first=last,
                tree=self._tree,
                commits=(request.base, request.head),
                before=before,
            )
            self._findings.note(*steady.notes)
            findings.repeated(flaky=bool(steady.red), tests=steady.failed, seconds=steady.seconds)
            findings.contradicted(_when_bare(steady.tampered))
        finding = await self._judge_with_base(plan, last)
        mutation = MutationFinding()
        if last.green and check.required and not finding.red and (judges_tests or not self._writes_tests):
            await self._places.begin()
            deadline = asyncio.get_running_loop().time() + request.evidence.seconds_for(last.seconds)
            mutation = await self._mutate(plan, last, before, deadline)
            deadline += mutation.outcome.besides if mutation.outcome is not None else 0.0
            mutation.seconds += await self._places.judge(
                plan, last, mutation.outcome, self._base_runs.on_base, deadline
            )
            if finding.earlier is not None and not finding.reservations:
                mutation.seconds += await self._compare_edits(plan, last, finding.earlier)
        findings.repeated(flaky=bool(mutation.flaky), tests=mutation.flaky, seconds=finding.seconds + mutation.seconds)
        if mutation.in_fresh_clone is not None:
            self._record.ran(plan, request.head, mutation.in_fresh_clone, None, bare=True, fresh=True)
        if last.green and check.required and not plan.tests:
            await self._confirm(plan, last, mutation.in_fresh_clone)
        await self._materialise(request.head)
        if check.required:
            self._findings.reserve(*findings.reservations())
        result = findings.result(last, finding, mutation, tree=self._tree_id)
        self._emit(CheckFinished.of(result))
        return result

    async def _confirm(self, plan: PreparedCheck, last: CheckOutcome, in_clone: CheckOutcome | None) -> None:
        """Compare a check that passed with a run without the probe: the one in a fresh clone, if it passed there."""
        kept = [in_clone] if in_clone is not None and in_clone.green else []

        async def run(bare: bool) -> CheckOutcome:
            return kept.pop() if bare and kept else await self._once(plan, self._request.head, bare=bare)

        self._tell(plan.check, f"running it again{about(last.seconds)}")
        confirmed = await repeated_runs.confirm(run, last)
        self._check.repeated(flaky=confirmed.flaky, tests=confirmed.failed, seconds=confirmed.seconds)
        self._check.contradicted(_when_bare(confirmed.tampered))

    async def _judge_with_base(self, plan: PreparedCheck, last: CheckOutcome) -> Finding:
        """Let the base's tests and configuration judge a required check that passed."""
        if not last.green or not plan.check.required:
            return Finding()
        self._tell(plan.check, f"running the earlier tests, with and without the result{about(last.seconds)}")
        if self._writes_tests:
            finding = await self._base_runs.judge_tests(plan, last, last.seconds)
        else:
            finding = await self._base_runs.judge_code(plan, last)
            if self._repairs and not finding.red and not self._repaired:
                self._repaired = await self._base_runs.shows_repair(plan, last, finding)
        self._findings.reserve(*finding.reservations)
        self._findings.note(*finding.notes, *([finding.red] if finding.red else []))
        return finding

    async def _once(
        self,
        plan: PreparedCheck,
        commit: str,
        *,
        collect_only: bool = False,
        keep_going: bool = False,
        without_coverage: bool = False,
        variation: Variation | None = None,
        bare: bool = False,
        setting: CheckContext | None = None,
    ) -> CheckOutcome:
        """Run the check on exactly ``commit``; its changes to the worktree are discarded before the next run."""
        await self._materialise(commit)
        self._clean_at = None
        named = self._named(plan.check.name, commit, variation, alone=setting is not None)
        progress = Progress(functools.partial(self._tell, plan.check), of="tests", run=named)
        outcome = await run_once(
            plan,
            dataclasses.replace(setting or self._setting, counted=progress.judged),
            collect_only=collect_only,
            keep_going=keep_going,
            without_coverage=without_coverage,
            variation=variation,
            bare=bare,
        )
        self._record.ran(plan, commit, outcome, variation, bare=bare)
        if commit == self._request.head:
            self._check.distrust(outcome.report.problems)
            differing = await asyncio.to_thread(self._tree.differing, commit)
            self._check.altered(altered(differing, plan.check, self._changes))
        return outcome

    def _named(self, check: str, commit: str, variation: Variation | None, *, alone: bool) -> str:
        """Return which of the runs of a check it is, for its progress; nothing for the first one."""
        if commit == self._request.base:
            return "without the result"
        if commit != self._request.head:
            return "without some changes" if alone else "earlier tests, with the result"
        again = check in self._ran
        self._ran.add(check)
        return "in another order" if variation is not None else "again" if again else ""

    async def _once_alone(
        self, plan: PreparedCheck, commit: str, *, keep_going: bool, without_coverage: bool
    ) -> CheckOutcome:
        """Run the check as ``_once``, without the temporary files and the home of other runs.

        A test that compares the code with a snapshot which it wrote there itself must not notice another commit.
        """
        async with temporary_folder(self._scratch) as temporary, temporary_folder(self._scratch) as home:
            environment = empty_home(home) | (plan.check.env or {})
            return await self._once(
                dataclasses.replace(plan, check=msgspec.structs.replace(plan.check, env=environment)),
                commit,
                keep_going=keep_going,
                without_coverage=without_coverage,
                setting=dataclasses.replace(self._setting, temporary=temporary),
            )

    def _find_test_aware(self) -> list[str]:
        return test_aware_code.find(
            self._changes,
            self._read_base,
            self._read_head,
            patterns=self._test_patterns,
            besides=self._base_runs.test_support,
        )

    # -- new tests ---------------------------------------------------------------------------------------------

    async def _compare_collections(self, plan: PreparedCheck, green: CheckOutcome) -> frozenset[str]:
        """Return the tests that these files have on the base; reserve ``outside_scope`` if some are gone.

        Those of Python are only collected; the other runners run them.
        """
        request = self._request
        existing = await asyncio.to_thread(
            lambda: tuple(test for test in plan.tests if self._read_base(test) is not None)
        )
        # A runner that selects by names can find an earlier test of another package under that of a new one.
        if not existing and not plan.runner.names_select:
            return frozenset()
        on_base = PreparedCheck(check=plan.check, kind=plan.kind, tests=existing, builtin=plan.builtin, uses_tests=True)
        if not green.report.started:
            ran = (await self._once(on_base, request.base)).observed
            if ran.timed_out or not ran.started:
                text = f"{plan.check.name} could not be run on the base, so its new tests are not known."
                self._findings.reserve((Reservation.NOT_MUTATION_TESTED, text))
            return frozenset(ran.outcomes)
        listed = await self._once(on_base, request.base, collect_only=True)
        if not listed.listed:
            listed = await self._once(on_base, request.base, collect_only=True)
        if not listed.listed:
            text = f"The tests that {name_list(existing)} had before could not be listed, so some may be gone."
            self._findings.reserve((Reservation.OUTSIDE_SCOPE, text))
            return frozenset()
        self._reserve_removed(listed.report.collected, green.report.collected)
        return listed.report.collected

    async def _on_base(self, plan: PreparedCheck, green: CheckOutcome) -> frozenset[str] | None:
        """Return the tests that a check which was not told what to run knows on the base, too.

        None, with the reason as a reservation, if it ran no new test or may have run none: then the earlier tests alone
        can be why it passes, and why it fails on mutants.
        """
        name = plan.check.name
        if not green.observed.outcomes:
            text = f"{name} passed, but does not name its tests, so it may not have run the new ones."
            self._findings.reserve((Reservation.NOT_MUTATION_TESTED, text))
            return None
        on_base = (await self._once(plan, self._request.base)).observed
        if on_base.timed_out or on_base.unbuilt or not on_base.started:
            text = f"{name} could not be run on the base, so its new tests are not known."
            self._findings.reserve((Reservation.NOT_MUTATION_TESTED, text))
            return None
        before, after = frozenset(on_base.outcomes), frozenset(green.observed.outcomes)
        self._reserve_removed(before, after)
        if not green.observed.passing - before:
            self._findings.reserve((Reservation.NO_MUTANT_KILLED, f"{name} passed, but it ran no new test."))
            return None
        return before

    def _reserve_removed(self, before: frozenset[str], after: frozenset[str]) -> None:
        # Count cases by function: the id of a case may change.
        gone = Counter(map(function_of, before)) - Counter(map(function_of, after))
        if gone:
            text = f"Tests or test cases were removed: {name_list(sorted(gone))}."
            self._findings.reserve((Reservation.OUTSIDE_SCOPE, text))

    async def _mutate(
        self, plan: PreparedCheck, green: CheckOutcome, before: frozenset[str], deadline: float
    ) -> MutationFinding:
        """Let the tests of a check that passed run on mutants of the result."""
        self._tell(plan.check, "making small changes to the code, to see whether the tests notice")
        if self._writes_tests:
            suite = await asyncio.to_thread(self._base_runs.suite, plan, green)
            on_base, seconds = Observed(green=True), 0.0
            if suite is not None:
                on_base, seconds = await self._base_runs.on_base(suite)
            earlier = () if on_base.timed_out else on_base.outcomes
            # A name of a new test can also be that of an earlier one in another file.
            new = (green.observed.passing - before).difference(earlier)
            commit = await self._base_runs.without_unchanged_tests(new, earlier)
            await self._materialise(commit)
            finding = await self._mutation.judge_tests(plan, green, new, emptied=commit != self._request.head)
            finding.seconds += seconds
            if suite is not None:
                base = BaseRun(
                    observed=on_base,
                    key=await asyncio.to_thread(self._base_runs.key, suite),
                    seconds=seconds or green.seconds,
                    cache=OutcomeCache(self._request.cache, since=self._request.since),
                    materialise=self._materialise,
                )
                soon = about(_RUNS_TO_COMPARE * base.seconds)
                self._tell(plan.check, f"comparing what the earlier tests notice with and without the new ones{soon}")
                lost = await self._mutation.lost_kills(plan, suite, base)
                finding.seconds += lost.seconds
                if lost.not_compared and all(kind[:1] == "A" for kind, _ in self._changes):
                    # Nothing was done to them, as far as their files show.
                    self._findings.note(*(text for _, text in lost.reservations()))
                else:
                    finding.reservations += lost.reservations()
        else:
            await self._materialise(self._request.head)
            places = await asyncio.to_thread(self._places.groups)
            changes = await asyncio.to_thread(self._places.changes)
            left = self._places.left()
            finding = await self._mutation.judge_code(
                plan, green, places, changes=changes, left=left, deadline=deadline
            )
        self._findings.reserve(*finding.reservations)
        self._check.contradicted(finding.tampered)
        self._record.judged(finding.judged, finding.outcome.untried if finding.outcome is not None else ())
        return finding

    async def _compare_edits(self, plan: PreparedCheck, green: CheckOutcome, version: EarlierVersion) -> float:
        """Ask if the tests notice less than the base's tests do, because of what the result did to them."""
        self._tell(plan.check, "comparing what the changed tests notice with what the earlier ones do")
        base = BaseRun(
            observed=version.observed,
            key=version.commit,
            seconds=green.seconds,
            cache=OutcomeCache(None, since=self._request.since),
            materialise=self._materialise,
        )
        lost = await self._mutation.lost_kills_of_edits(plan, version, green, base)
        about = f" Changed: {name_list(version.weakening)}."
        self._findings.reserve(*((what, text + about) for what, text in lost.reservations(Reservation.TESTS_CHANGED)))
        return lost.seconds

    # -- helpers -----------------------------------------------------------------------------------------------

    def _tell(self, check: Check, what: str, count: Count | None = None) -> None:
        self._emit(Phase(text=f"{check.name}: {what}", count=count))

    def _read_base(self, path: str) -> bytes | None:
        return read_unless_large(self._tree, self._request.base, path)

    def _read_head(self, path: str) -> bytes | None:
        return read_unless_large(self._tree, self._request.head, path)

    async def _materialise(self, commit: str) -> None:
        if self._clean_at != commit:
            self._clean_at = None
            await asyncio.to_thread(self._tree.materialise, commit)
            self._clean_at = commit


def _when_bare(how: str) -> str:
    return how and f"when it ran without Understudy's report, {how}."
