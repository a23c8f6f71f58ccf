"""Collect the results of a run (a commit of the agent's changes, or the text of its answer), and judge them.

A further result of an agent that was sent back is held until it is kept (``Trial``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.config.loading import loader
from understudy.config.trust import records
from understudy.config.validation import start_options
from understudy.engine.queueing import launcher
from understudy.engine.running.attempts.run_attempts import SNAPSHOT_SECONDS, Attempts
from understudy.engine.running.outside_watch import OutsideWatch
from understudy.engine.running.preparation import paths
from understudy.engine.running.run_context import RunContext
from understudy.model.delegation import events
from understudy.model.errors import UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.verdicts import in_order
from understudy.policy.next_step import NextCandidate, Step
from understudy.runners.runner import Outcome

if TYPE_CHECKING:
    from understudy.config.configuration import Configuration
    from understudy.judge.judge import Judgement
    from understudy.judge.mutation.planning import MutantSample

STOPPED_LOOK_SECONDS = 0.5
"""How long a cancel looks for changes of ignored files."""
_RESTORE_SECONDS = 3.0
"""A cancel must finish within five seconds."""


class Judging:
    """What the checks of one run show."""

    def __init__(self, run: RunContext, results: ResultCollection, outside: OutsideWatch) -> None:
        """Judge nothing yet."""
        self.judgement: Judgement | None = None
        """The judgement of the result, as far as it was made."""
        self.is_complete = False
        """Whether no check of the result was stopped."""
        self._run = run
        self._results = results
        self._outside = outside
        self._checks, self._fallback_checks = run.spec.checks, run.spec.fallback_checks

    async def judge(self) -> None:
        """Judge the result, if it changes something."""
        result = self._results.result
        if result is None or result.head is None:
            return
        if await self._run.in_thread(self._results.changed):
            self.is_complete = False
            folder = self._run.folder.path
            self.judgement = await self.judge_commit(result.head, self._run.emit, None, folder, stopped=self._stopped)
            self.is_complete = True

    def _stopped(self, partial: Judgement) -> None:
        """Add what was found before the checks of the result were stopped."""
        earlier = self.judgement
        if earlier is None:
            self.judgement = partial
            return
        self.judgement = dataclasses.replace(
            earlier,
            reservations=in_order({*earlier.reservations, *partial.reservations}),
            facts=[*earlier.facts, *(fact for fact in partial.facts if fact not in earlier.facts)],
        )

    async def judge_again(self) -> None:
        """Judge the result of an earlier run: without checks of its own, with those that are configured now.

        The worktree gets files and links that were configured since: a check may have been impossible without them.
        """
        run = self._run
        configured = await run.in_thread(self._configured_now)
        if run.checkout is None:
            copy, link = configured.worktrees.copy, configured.worktrees.link
            await run.in_thread(run.worktree.add_extra_files, copy, link, run.tell)
        if not self._checks:
            recipe, asked = run.spec.recipe, run.spec.asked()
            self._checks = start_options.checks_to_run(configured.checks, recipe, asked)
            self._fallback_checks = start_options.fallback_checks(configured.checks, recipe, asked)
        await self.judge()

    def _configured_now(self) -> Configuration:
        """Return the configuration of the workspace as it is now: the user may have added a check since."""
        workspace = Path(self._run.spec.workspace)
        trusted = records.status(workspace, self._run.state).trusted
        return loader.load(workspace, trusted=trusted)

    async def judge_commit(
        self,
        head: str,
        emit: Callable[[events.Event], None],
        sample: MutantSample | None,
        reports: Path,
        *,
        stopped: Callable[[Judgement], None] | None = None,
    ) -> Judgement:
        """Judge a commit of the worktree; ``stopped`` gets what was found if that is cancelled."""
        from understudy.judge.judge import JudgeRequest, judge
        from understudy.judge.mutation import planning

        run, spec = self._run, self._run.spec
        await self._outside.start()
        return await judge(
            JudgeRequest(
                delegation_id=run.folder.id,
                recipe=spec.recipe,
                tree=run.worktree.judged(),
                base=run.worktree.record.base_commit,
                head=head,
                workspace=Path(spec.workspace),
                files=paths(spec.files),
                checks=self._checks,
                fallback_checks=self._fallback_checks,
                interpreter=spec.interpreter,
                scratch=run.folder.path / "checks",
                cache=run.state / "base-outcomes",
                since=run.began,
                evidence=spec.evidence,
                dismissed=await run.in_thread(planning.dismissed, run.state, spec.workspace, run.began),
                reports=reports,
                sample=sample,
                after_check=self._outside.after_check,
                stopped=stopped,
                program_limits=spec.program_limits,
                linked=run.worktree.linked(),
                spare_slot=functools.partial(launcher.spare_slot, run.state, spec.slots),
            ),
            emit,
        )


class ResultCollection:
    """The result of one run: reported once, and again when a round made it better."""

    def __init__(self, run: RunContext, attempts: Attempts, stopped: Callable[[], bool]) -> None:
        """Collect nothing yet; ``stopped`` says whether the run was stopped and must end soon."""
        self.result: events.Result | None = None
        """What was reported last."""
        self._run = run
        self._attempts = attempts
        self._stopped = stopped

    async def collect(self, limit_seconds: float = SNAPSHOT_SECONDS) -> None:
        """Report the contents of the worktree, or the answer, as the result, unless there is one."""
        if self.result is not None:
            return
        outcome = self._attempts.outcome
        text = outcome.text if outcome is not None else None
        summary = outcome.summary if outcome is not None else None
        commit = await self._attempts.checkpoint(limit_seconds)
        if commit is None:
            if text is not None:
                self._report(events.Result(files=[], text=text, summary=summary))
        elif self._run.spec.recipe.returns == "text":
            if commit != self._run.worktree.record.base_commit:
                self._run.emit(
                    events.Note(level="warning", text="The recipe returns text, so changes to files were discarded.")
                )
            self._report(events.Result(head=None, files=[], text=text, summary=summary))
        else:
            await self.report_commit(commit, outcome, limit_seconds)

    async def report_commit(
        self, commit: str, outcome: Outcome | None, limit_seconds: float = SNAPSHOT_SECONDS
    ) -> None:
        """Report ``commit`` as the result, with what the agent said."""
        collected = await self._run.in_thread(self._run.worktree.result, commit, limit_seconds=limit_seconds)
        self._report(
            events.Result(
                head=commit,
                files=collected.files,
                text=outcome.text if outcome is not None else None,
                summary=outcome.summary if outcome is not None else None,
                hunks=collected.hunks,
            )
        )
        await self.leave_checkout(limit_seconds)

    async def leave_checkout(self, limit_seconds: float) -> None:
        """Mark what the agent changed in the checkout as accepted, unless that was done before a cancel."""
        run, checkout = self._run, self._run.checkout
        if checkout is None or not checkout.is_to_leave:
            return
        intent = await run.in_thread(checkout.prepare_undo, limit_seconds=limit_seconds)
        checkout.leave(run.writer, intent)
        look_seconds = STOPPED_LOOK_SECONDS if self._stopped() else None
        await run.in_thread(checkout.compare, run.tell, look_seconds)
        checkout.release()

    def reuse(self, head: str) -> None:
        """Let a result that was reported before be the result."""
        self.result = events.Result(head=head, files=[])

    def changed(self) -> bool:
        """Return whether the result differs from the base; blocks."""
        worktree, result = self._run.worktree, self.result
        if result is None or result.head is None:
            return False
        return worktree.tree_of(result.head) != worktree.tree_of(worktree.record.base_commit)

    def _report(self, result: events.Result) -> None:
        self.result = result
        self._run.emit(result)


class Trial:
    """One further result."""

    def __init__(self, run: RunContext, before: str | None, purpose: Step) -> None:
        """Commit nothing yet; ``before`` is the commit of the result so far, which ``purpose`` should make better."""
        self.head: str | None = None
        self.judgement: Judgement | None = None
        self.objection: str | None = None
        """Why it is not kept, as far as that is known."""
        self._run = run
        self.before = before
        self.purpose = purpose
        self._held: list[events.Event] = []
        self._reports = run.folder.path / "round"

    @contextlib.contextmanager
    def objecting(self) -> Iterator[None]:
        """Let an error be the objection."""
        try:
            yield
        except UnderstudyError as error:
            self.objection = error.message.rstrip(".")

    async def collect(self) -> None:
        """Commit the contents of the worktree, which are not the result yet."""
        run = self._run
        self.head = await run.in_thread(run.worktree.checkpoint, run.tell, limit_seconds=SNAPSHOT_SECONDS)
        if self.before is not None and await run.in_thread(self._same_tree, self.head, self.before):
            self.objection = "the agent changed nothing"

    async def judge(self, judging: Judging, sample: MutantSample | None) -> None:
        """Judge what was collected."""
        if self.head is None or self.objection is not None:
            return
        if isinstance(self.purpose, NextCandidate) and await self._run.in_thread(
            self._same_tree, self.head, self._run.worktree.record.base_commit
        ):
            return  # as a first result without a change
        await self._run.in_thread(self._new_folder)
        self.judgement = await judging.judge_commit(self.head, self._hold, sample, self._reports)

    def release(self) -> None:
        """Emit what was held back: it is kept."""
        for event in self._held:
            self._run.emit(event)

    async def restore(self) -> None:
        """Reset the worktree to the result so far."""
        if self.before is not None:
            with contextlib.suppress(UnderstudyError):  # the next check resets it, too
                await self._run.in_thread(self._reset, self.before, limit_seconds=_RESTORE_SECONDS)

    def _hold(self, event: events.Event) -> None:
        if isinstance(event, events.CheckStarted):
            self._run.emit(event)
        else:
            self._held.append(event)

    def _same_tree(self, commit: str, other: str) -> bool:
        return self._run.worktree.tree_of(commit) == self._run.worktree.tree_of(other)

    def changed(self) -> list[str]:
        """Return the paths in which it differs from the result so far, as mutants name them; blocks."""
        if self.before is None or self.head is None:
            return []
        changes = self._run.worktree.judged().changed_paths(self.before, self.head)
        return [path_quoting.quote(os.fsencode(path)) for _, path in changes]

    def _new_folder(self) -> None:
        shutil.rmtree(self._reports, ignore_errors=True)
        self._reports.mkdir(mode=0o700)

    def _reset(self, head: str) -> None:
        shutil.rmtree(self._reports, ignore_errors=True)
        self._run.worktree.judged().materialise(head)

    def keep_reports(self) -> None:
        """Replace the reports of the result so far; blocks."""
        with contextlib.suppress(FileNotFoundError):
            for file in self._reports.iterdir():
                file.replace(self._run.folder.path / file.name)
            self._reports.rmdir()
