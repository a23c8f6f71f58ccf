"""Notice, in one run, changes of the files outside the worktree: after each agent, and after each check."""

from __future__ import annotations

from understudy.engine.running.run_context import RunContext
from understudy.engine.worktrees.outside_watch import OutsideWatch
from understudy.model.evidence.checks import CheckResult


class OutsideComparison:
    """Looks at the files before an agent runs, and compares them whenever a program has ended."""

    def __init__(self, run: RunContext) -> None:
        """Look at nothing yet."""
        self._run = run
        self._watch = OutsideWatch(run.spec, run.worktree, run.tell)

    @property
    def changed(self) -> bool:
        """Whether a comparison found a change that the user's editor did not make."""
        return self._watch.changed

    def look_early(self) -> None:
        """Look at the project's environment before there is a worktree; blocks, and raises nothing."""
        self._watch.look_early()

    async def start(self) -> None:
        """Look at the files, unless that was done."""
        await self._run.in_thread(self._watch.start)

    async def after_attempt(self, delegator: str) -> None:
        """Compare after an agent has ended."""
        await self._compare(
            f"the agent {delegator}",
            f"{delegator} worked",
            confined=self._run.writer.delegation.confined,
            in_checkout=self._run.checkout is not None,
        )

    async def after_check(self, result: CheckResult) -> None:
        """Compare after a check has ended."""
        confined = result.sandbox is not None and result.sandbox.reached.restricts_access
        await self._compare(f"the check {result.name}", f"the check {result.name} ran", confined=confined)

    async def _compare(self, who: str, doing: str, *, confined: bool, in_checkout: bool = False) -> None:
        """Report changes, unless a sandbox made them impossible."""
        if not confined:
            await self._run.in_thread(self._watch.compare, who, doing, in_checkout)
