"""The attempts of one run, one at a time: what the last one led to, and what the next one starts from.

A retry, and an attempt that is asked for more, continue in the same worktree. A candidate that begins again gets a
new one: the worktree before is kept under a rescue reference, and no change of it is in the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from understudy.engine.running.attempts.agent_conversation import Conversation
from understudy.engine.running.attempts.candidate_choice import CandidateChoice
from understudy.engine.running.attempts.checkpoints import SNAPSHOT_SECONDS, Checkpoints
from understudy.engine.running.attempts.run_budget import RunBudget
from understudy.engine.running.attempts.single_attempt import AgentLinks, Order, SingleAttempt
from understudy.engine.running.run_context import RunContext
from understudy.model.config.delegators import Limits
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import UnderstudyError, scope_of
from understudy.policy.budget import Budget
from understudy.policy.candidates import Turn
from understudy.runners.runner import Outcome


class Attempts:
    """Makes the attempts of one run."""

    def __init__(self, run: RunContext, links: AgentLinks, *, worked: Callable[[str], Awaitable[None]]) -> None:
        """Start nothing; ``worked`` is called with the name of the delegator after each attempt, however it ended."""
        self.number = 0
        """That of the last attempt."""
        self.outcome: Outcome | None = None
        """What the last attempt led to, if its agent finished."""
        self.failure: UnderstudyError | None = None
        """Why the last attempt failed."""
        self._run = run
        self._links = links
        self._worked = worked
        self._budget = RunBudget(run.writer)
        self._choice = CandidateChoice(run, self._budget)
        self._conversation = Conversation(run.spec, run.writer, links.messages)
        self._checkpoints = Checkpoints(run)
        self._single = SingleAttempt(
            run, links, conversation=self._conversation, budget=self._budget, checkpoints=self._checkpoints
        )

    async def begin(self) -> Turn | None:
        """Start the total time; return whose turn it is first."""
        self._budget.begin()
        return await self.choose(0)

    async def choose(self, start: int) -> Turn | None:
        """Return whose turn it is from the place ``start`` on; see ``CandidateChoice.choose``."""
        return await self._choice.choose(start, self.failure)

    async def make(
        self, candidate: SpecCandidate, limits: Limits | None, reason: str, request: str | None = None
    ) -> None:
        """Make one attempt, within ``limits``: afterwards exactly one of ``outcome`` and ``failure`` is set.

        The user may say something meanwhile, except when there is a ``request``.
        """
        self.number += 1
        if limits is not None:
            candidate = msgspec.structs.replace(candidate, limits=limits)
        order = Order(number=self.number, candidate=candidate, reason=reason, request=request)
        start_commit = self._checkpoints.start_commit
        self.outcome = self.failure = self._checkpoints.commit = None
        self._single.announce(order, start_commit)
        try:
            self.outcome = await self._single.work(order)
        except UnderstudyError as failure:
            failure.scope = failure.scope or scope_of(failure.kind)
            self.failure = failure
        finally:
            await self._single.end(order, succeeded=self.outcome is not None)
        await self._choice.count(candidate, self.failure)
        await self._worked(candidate.delegator.name)

    def budget(self, candidate: SpecCandidate) -> Budget:
        """Return what all attempts so far have spent of the candidate's limits."""
        return self._budget.of(candidate, self.failure)

    @property
    def user_waits(self) -> bool:
        """Whether the user said something that no agent got."""
        return self._links.messages.waiting

    def can_continue(self, candidate: SpecCandidate) -> bool:
        """Return whether the agent of the last attempt, on ``candidate``, can be asked for more."""
        return self._conversation.can_continue(candidate)

    def close(self) -> None:
        """Keep what the user says from now on for the next reply."""
        self._links.messages.close()

    # -- the worktree ----------------------------------------------------------------------------------------

    async def checkpoint(self, limit_seconds: float = SNAPSHOT_SECONDS) -> str | None:
        """Commit what the attempts did; see ``Checkpoints.save``."""
        answer = self.outcome.text if self.outcome is not None else None
        return await self._checkpoints.save(answer, limit_seconds)

    async def set_aside(self, number: int, *, is_head: bool) -> None:
        """Keep the worktree, which attempt ``number`` has made, under a rescue reference; see ``Checkpoints``."""
        # The files of a recipe that returns a text are never part of a result.
        name = f"{self._run.folder.id}-attempt-{number}" if self._run.spec.recipe.returns != "text" else None
        if is_head:
            answer = self.outcome.text if self.outcome is not None else None
            await self._checkpoints.save(answer, keep_as=name)
        elif name is not None:
            await self._checkpoints.keep(name)

    def begin_afresh(self) -> None:
        """Note that the worktree was replaced: earlier sessions know files that are gone."""
        self._checkpoints.commit = None
        self._conversation.forget(self.number + 1)

    def return_to(self, outcome: Outcome | None, commit: str | None) -> None:
        """Note that the worktree is that of an earlier result again, or of a later one that was kept."""
        self.outcome, self._checkpoints.commit = outcome, commit
