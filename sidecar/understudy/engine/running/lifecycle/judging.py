"""Judge the results of a run with its checks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.config.trust import records
from understudy.engine.queueing import launcher
from understudy.engine.running.lifecycle.outside_comparison import OutsideComparison
from understudy.engine.running.lifecycle.result_collection import ResultCollection
from understudy.engine.running.run_context import RunContext
from understudy.engine.running.task import paths
from understudy.model.delegation import events

if TYPE_CHECKING:  # what judges a result is imported when there is one
    from understudy.config.configuration import Configuration
    from understudy.judge.judge import Judgement
    from understudy.judge.mutation.planning import MutantSample


class Judging:
    """What the checks of one run show."""

    def __init__(self, run: RunContext, results: ResultCollection, outside: OutsideComparison) -> None:
        """Judge nothing yet."""
        self.judgement: Judgement | None = None
        """The judgement of the result."""
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
            self.judgement = await self.judge_commit(result.head, self._run.emit, None, self._run.folder.path)

    async def judge_again(self) -> None:
        """Judge the result of an earlier run: without checks of its own, with those that are configured now.

        The worktree gets files and links that were configured since: a check may have been impossible without them.
        """
        from understudy.engine.planning import plan

        run = self._run
        configured = await run.in_thread(self._configured_now)
        if run.checkout is None:
            copy, link = configured.worktrees.copy, configured.worktrees.link
            await run.in_thread(run.worktree.add_extra_files, copy, link, run.tell)
        if not self._checks:
            recipe, asked = run.spec.recipe, run.spec.asked()
            self._checks = plan.checks_to_run(configured.checks, recipe, asked)
            self._fallback_checks = plan.fallback_checks(configured.checks, recipe, asked)
        await self.judge()

    def _configured_now(self) -> Configuration:
        """Return the configuration of the workspace as it is now: the user may have added a check since."""
        from understudy.config.loading import loader

        workspace = Path(self._run.spec.workspace)
        trusted = records.status(workspace, self._run.state).trusted
        return loader.load(workspace, trusted=trusted)

    async def judge_commit(
        self, head: str, emit: Callable[[events.Event], None], sample: MutantSample | None, reports: Path
    ) -> Judgement:
        """Judge a commit of the worktree."""
        from understudy.judge.judge import JudgeRequest, judge
        from understudy.judge.mutation import dismissed_mutants

        run, spec = self._run, self._run.spec
        await self._outside.start()
        return await judge(
            JudgeRequest(
                delegation_id=run.folder.id,
                recipe=spec.recipe,
                tree=run.worktree.judged(),
                base=run.worktree.base_commit,
                head=head,
                workspace=Path(spec.workspace),
                files=paths(spec.files),
                checks=self._checks,
                fallback_checks=self._fallback_checks,
                interpreter=spec.interpreter,
                scratch=run.folder.path / "checks",
                cache=run.state / "base-outcomes",
                evidence=spec.evidence,
                dismissed=await run.in_thread(dismissed_mutants.dismissed, run.state, spec.workspace),
                reports=reports,
                sample=sample,
                after_check=self._outside.after_check,
                program_limits=spec.program_limits,
                spare_slot=functools.partial(launcher.spare_slot, run.state, spec.slots),
            ),
            emit,
        )
