"""The attempts of one delegation: candidates tried one after another, a checkpoint after each.

A retry, and an attempt that tells the agent what the user said, continue in the same worktree. The next candidate
begins with a fresh one: the worktree of the failed attempt is kept under a rescue reference, and no change of it is in
the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec

from understudy.engine.running.attempts import failure_policy
from understudy.engine.running.attempts.agent_conversation import Conversation
from understudy.engine.running.attempts.candidate_choice import CandidateChoice
from understudy.engine.running.attempts.checkpoints import SNAPSHOT_SECONDS, Checkpoints
from understudy.engine.running.attempts.failure_policy import Decision, FailurePolicy, Next, Retry, Stop
from understudy.engine.running.attempts.single_attempt import AgentLinks, Order, SingleAttempt
from understudy.engine.running.attempts.spent_limits import SpentLimits
from understudy.engine.running.run_context import RunContext
from understudy.model.config.delegators import Limits
from understudy.model.delegation import events
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import ErrorKind, UnderstudyError, scope_of
from understudy.policy.candidates import Turn
from understudy.runners.runner import Outcome

MAX_ATTEMPTS = 20
"""The most attempts of one delegation, whatever the policy says."""

_WHY_FOLLOWING = "the user said more"
_NO_FOLLOWING = frozenset(
    {
        *(ErrorKind.AUTH_FAILED, ErrorKind.QUOTA_EXHAUSTED, ErrorKind.TOOL_MISSING, ErrorKind.CONFIG_INVALID),
        *(ErrorKind.MODEL_NOT_FOUND, ErrorKind.TIMED_OUT, ErrorKind.BUDGET_EXHAUSTED, ErrorKind.CONTEXT_TOO_LONG),
    }
)
"""Failures that would happen again at once, whatever the user said."""


class Attempts:
    """Tries candidates until one finishes or the policy says stop."""

    def __init__(
        self,
        run: RunContext,
        links: AgentLinks,
        *,
        renew: Callable[[], Awaitable[None]],
        worked: Callable[[str], Awaitable[None]],
        policy: FailurePolicy = failure_policy.decide,
    ) -> None:
        """Start nothing.

        ``renew`` replaces the worktree by a fresh one with the contents that the first attempt began with; ``worked``
        is called with the name of the delegator after each attempt, whatever became of it.
        """
        self.outcome: Outcome | None = None
        """The result of the last attempt, if it finished."""
        self.failure: UnderstudyError | None = None
        """Why the last attempt failed."""
        self._run = run
        self._messages = links.messages
        self._renew = renew
        self._worked = worked
        self._policy = policy
        self._limits = SpentLimits(run.writer)
        self._choice = CandidateChoice(run, self._limits)
        self._conversation = Conversation(run.spec, run.writer, links.messages)
        self._checkpoints = Checkpoints(run)
        self._single = SingleAttempt(
            run, links, conversation=self._conversation, limits=self._limits, checkpoints=self._checkpoints
        )
        self._finished: SpecCandidate | None = None
        """The candidate whose agent finished, and can be asked again."""
        self._again: Outcome | None = None

    async def run(self) -> None:
        """Try the candidates; afterwards exactly one of ``outcome`` and ``failure`` is set."""
        self._limits.begin()
        try:
            await self._try_candidates()
        finally:
            self._messages.close()

    async def _try_candidates(self) -> None:
        first = await self._choice.choose(0, None)
        place, limits, reason = 0, None, None
        if first is not None:
            place, limits, reason = first.option.place, first.option.limits, first.skipped or None
        for number in range(1, MAX_ATTEMPTS + 1):
            candidate = self._run.spec.candidates[place]
            await self._try(number, _limited(candidate, limits), reason)
            reason = None
            if self.failure is None:
                self._finished = candidate
                await self.checkpoint()
                limits = self._limits_for_messages(candidate, number)
                if limits is None:
                    return
                reason = _WHY_FOLLOWING
                continue
            decision = self._decide(number, candidate)
            chosen = await self._choice.choose(place + 1, self.failure) if isinstance(decision, Next) else None
            if isinstance(decision, Next) and chosen is None:
                decision = Stop()
            limits = chosen.option.limits if chosen is not None else None
            if isinstance(decision, Stop):
                limits = self._limits_for_messages(candidate, number)
                if limits is not None:
                    decision, reason = Retry(), _WHY_FOLLOWING
            self._report(self.failure, decision, chosen)
            if isinstance(decision, Stop):
                await self.checkpoint()
                return
            if chosen is not None:
                reason = f"{candidate.delegator.name} failed: {self.failure} {chosen.skipped}".rstrip()
                await self._begin_afresh(number)
                place = chosen.option.place
            else:
                await self.checkpoint()
                await self._wait(decision)

    async def again(self, request: str, why: str) -> str | None:
        """Ask the agent that finished, in its session, to do ``request`` too; return why that failed, None if it did.

        ``why`` is the reason of the attempt. The caller commits the changes or discards them; ``outcome`` and the last
        checkpoint stay those of the result so far.
        """
        candidate, outcome, commit = self._finished, self.outcome, self._checkpoints.commit
        number = len(self._run.writer.delegation.attempts) + 1
        if candidate is None or number > MAX_ATTEMPTS:
            return "the delegation had too many attempts"
        left = self._limits.left(candidate)
        if isinstance(left, str):
            return left
        try:
            await self._try(number, _limited(candidate, left), why, request=request)
            if self.failure is not None:
                self._report(self.failure, Stop(), None)
                return self.failure.message.rstrip(".")
            self._again = self.outcome
            return None
        finally:
            self.outcome, self.failure, self._checkpoints.commit = outcome, None, commit

    def adopt(self, commit: str) -> Outcome | None:
        """Let what ``again`` made, as ``commit``, be the result; return its outcome."""
        self.outcome, self._checkpoints.commit = self._again or self.outcome, commit
        return self.outcome

    async def checkpoint(self, limit_seconds: float = SNAPSHOT_SECONDS, *, keep_as: str | None = None) -> str | None:
        """Commit what the attempts did; see ``Checkpoints.save``."""
        answer = self.outcome.text if self.outcome is not None else None
        return await self._checkpoints.save(answer, limit_seconds, keep_as=keep_as)

    async def _try(
        self, number: int, candidate: SpecCandidate, reason: str | None, *, request: str | None = None
    ) -> None:
        """Make one attempt; the user may say something meanwhile, except when there is a ``request``."""
        if reason is None:
            failed = f"the previous attempt failed: {self.failure}"
            reason = self._run.spec.explain.reason if self.failure is None else failed
        order = Order(number=number, candidate=candidate, reason=reason, request=request)
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

    async def _begin_afresh(self, number: int) -> None:
        """Keep what attempt ``number`` did, and replace the worktree by one without it."""
        if self._run.tree is not None:
            # The files of a recipe that returns a text are never part of a result.
            changes = self._run.spec.recipe.returns != "text"
            await self.checkpoint(keep_as=f"{self._run.folder.id}-attempt-{number}" if changes else None)
            self._run.emit(events.Phase(text="Creating a fresh worktree"))
            await self._renew()
            self._checkpoints.commit = None
        self._conversation.forget(number + 1)

    async def _wait(self, decision: Decision) -> None:
        """Make the pause before a retry."""
        if isinstance(decision, Retry) and decision.wait_seconds > 0:
            self._run.emit(events.Phase(text=f"Waiting {decision.wait_seconds:g} s before the next attempt"))
            await asyncio.sleep(decision.wait_seconds)

    def _decide(self, number: int, candidate: SpecCandidate) -> Decision:
        """Ask the policy; stop if its decision cannot be carried out."""
        if self.failure is None or number == MAX_ATTEMPTS:
            return Stop()
        attempts = self._run.writer.delegation.attempts
        decision = self._policy(attempts, self.failure.info(), datetime.now(UTC))
        if isinstance(decision, Next):
            return decision
        left = self._limits.seconds_left(candidate)
        wait = decision.wait_seconds if isinstance(decision, Retry) else 0.0
        return Stop() if left is not None and left <= wait else decision

    def _limits_for_messages(self, candidate: SpecCandidate, number: int) -> Limits | None:
        """Return the limits of an attempt that tells the agent what the user said; None if there is none to make."""
        fails_again = self.failure is not None and self.failure.kind in _NO_FOLLOWING
        if not self._messages.waiting or number == MAX_ATTEMPTS or fails_again:
            return None
        if not self._conversation.can_continue(candidate):
            return None
        left = self._limits.left(candidate)
        return None if isinstance(left, str) else left

    def _report(self, failure: UnderstudyError, decision: Decision, chosen: Turn | None) -> None:
        """Record that an attempt failed, and what follows."""
        self._run.emit(
            events.AttemptFailed(
                error=failure.info(),
                will_retry=isinstance(decision, Retry),
                next_delegator=chosen.option.name if chosen is not None else None,
                wait_seconds=decision.wait_seconds if isinstance(decision, Retry) else None,
            )
        )


def _limited(candidate: SpecCandidate, limits: Limits | None) -> SpecCandidate:
    return candidate if limits is None else msgspec.structs.replace(candidate, limits=limits)
