"""Collect the result of a run: a commit of the agent's changes, or the text of its answer."""

from __future__ import annotations

from collections.abc import Callable

from understudy.engine.running.attempts.checkpoints import SNAPSHOT_SECONDS
from understudy.engine.running.attempts.run_attempts import Attempts
from understudy.engine.running.run_context import RunContext
from understudy.model.delegation import events
from understudy.runners.runner import Outcome

STOPPED_LOOK_SECONDS = 0.5
"""How long a cancel looks for changes of ignored files."""


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
            if commit != self._run.worktree.base_commit:
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
        return worktree.tree_of(result.head) != worktree.tree_of(worktree.base_commit)

    def _report(self, result: events.Result) -> None:
        self.result = result
        self._run.emit(result)
