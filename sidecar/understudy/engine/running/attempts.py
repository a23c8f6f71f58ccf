"""The attempts of one delegation: candidates tried one after another in the same worktree, a checkpoint after each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from understudy.engine.queueing import queue_entries
from understudy.engine.rounds import spent_limits
from understudy.engine.running import failure_policy, task
from understudy.engine.running.emitter import Emitter
from understudy.engine.running.failure_policy import FailurePolicy, Next, Retry, Stop
from understudy.engine.running.permission_requests import PermissionRequests
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.journal.delegation_folder import Folder
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.errors import ErrorKind, UnderstudyError, scope_of
from understudy.model.spec import Spec, SpecCandidate, session_owner
from understudy.runners.registry import runner_for
from understudy.runners.runner import Outcome

MAX_ATTEMPTS = 20
"""The most attempts of one delegation, whatever the policy says."""
SNAPSHOT_SECONDS = 300.0
BYTES_PER_TOKEN = 4

_WHY_AGAIN = "its tests should notice more"
_FOLLOWING = "# What is asked for now"

InThread = Callable[..., Awaitable[Any]]
"""Runs a blocking call in a thread: the call, its arguments, ``limit_seconds``."""


@dataclass(frozen=True, kw_only=True)
class AttemptContext:
    """What the attempts need from their delegation."""

    folder: Folder
    spec: Spec
    state: Path
    writer: Writer
    emit: Emitter
    tell: Callable[[events.Event], None]
    """Emits from another thread."""
    in_thread: InThread
    permissions: PermissionRequests
    worked: Callable[[str], Awaitable[None]]
    """Called with the name of the delegator after each attempt, whatever became of it."""


class Attempts:
    """Tries candidates until one finishes or the policy says stop."""

    def __init__(self, context: AttemptContext, policy: FailurePolicy = failure_policy.decide) -> None:
        """Store the context; nothing starts yet."""
        self.outcome: Outcome | None = None
        """The result of the last attempt, if it finished."""
        self.failure: UnderstudyError | None = None
        """Why the last attempt failed."""
        self.commit: str | None = None
        """The last checkpoint; None while the worktree has changes that no checkpoint contains."""
        self._context = context
        self._policy = policy
        self._worktree: DelegationWorktree | None = None
        self._began = 0.0
        self._candidate: SpecCandidate | None = None
        self._again: Outcome | None = None

    async def run(self, worktree: DelegationWorktree | None) -> None:
        """Try candidates in ``worktree`` (None: without one); afterwards exactly one of outcome and failure is set."""
        self._worktree = worktree
        self._began = time.monotonic()
        place = 0
        for number in range(1, MAX_ATTEMPTS + 1):
            candidate = self._context.spec.candidates[place]
            await self._try(number, candidate)
            if self.failure is None:
                self._candidate = candidate
                await self.checkpoint(worktree)
                return
            decision = self._decide(number, place)
            following = place + 1 if isinstance(decision, Next) else place
            self._report(self.failure, decision, following)
            await self.checkpoint(worktree)
            if isinstance(decision, Stop):
                return
            if isinstance(decision, Retry) and decision.wait_seconds > 0:
                self._context.emit(events.Phase(text=f"Waiting {decision.wait_seconds:g} s before the next attempt"))
                await asyncio.sleep(decision.wait_seconds)
            place = following

    async def again(self, request: str) -> str | None:
        """Ask the agent that finished, in its session, to do ``request`` too; return why that failed, None if it did.

        The caller commits the changes or discards them; ``outcome`` and ``commit`` stay those of the result so far.
        """
        outcome, commit, candidate = self.outcome, self.commit, self._candidate
        number = len(self._context.writer.delegation.attempts) + 1
        if candidate is None or number > MAX_ATTEMPTS:
            return "the delegation had too many attempts"
        attempts = self._context.writer.delegation.attempts
        left = spent_limits.left(candidate.limits, attempts, self._remaining(candidate))
        if isinstance(left, str):
            return left
        params = self._context.spec.asked()
        before = (params.task or "").strip()
        asked = f"{before}\n\n{_FOLLOWING}\n\n{request}" if before else request
        params = msgspec.structs.replace(params, task=asked)
        spec = msgspec.structs.replace(self._context.spec, params=params, origin=None)
        try:
            await self._try(number, msgspec.structs.replace(candidate, limits=left), spec, _WHY_AGAIN)
            if self.failure is not None:
                self._context.emit(events.AttemptFailed(error=self.failure.info(), will_retry=False))
                return self.failure.message.rstrip(".")
            self._again = self.outcome
            return None
        finally:
            self.outcome, self.failure, self.commit = outcome, None, commit

    def adopt(self, commit: str) -> Outcome | None:
        """Let what ``again`` made, as ``commit``, be the result; return its outcome."""
        self.outcome, self.commit = self._again or self.outcome, commit
        return self.outcome

    async def checkpoint(
        self, worktree: DelegationWorktree | None, limit_seconds: float = SNAPSHOT_SECONDS
    ) -> str | None:
        """Commit the contents of the worktree, unless the last checkpoint has them; return the commit."""
        context = self._context
        if worktree is None or not worktree.has_tree:
            return None
        if self.commit is None:
            await context.in_thread(self._write_target, worktree)
            self.commit = await context.in_thread(worktree.checkpoint, context.tell, limit_seconds=limit_seconds)
            if context.spec.recipe.returns != "text":
                context.emit(events.Checkpoint(commit=self.commit))
        return self.commit

    async def _try(
        self, number: int, candidate: SpecCandidate, spec: Spec | None = None, reason: str | None = None
    ) -> None:
        context, delegator = self._context, candidate.delegator
        start_commit = self.commit or (self._worktree.start_commit if self._worktree is not None else None)
        if reason is None:
            failed = f"the previous attempt failed: {self.failure}"
            reason = context.spec.explain.reason if self.failure is None else failed
        self.outcome = self.failure = self.commit = None
        context.emit.attempt = number
        context.permissions.seconds = candidate.limits.answer_seconds or 0.0
        context.emit(
            events.Started(
                delegator=delegator.name,
                tool=delegator.tool,
                model_server=delegator.model_server,
                model=delegator.model,
                reason=reason,
                commit=start_commit,
            )
        )
        queue_entries.remove(context.state, context.folder.id)
        try:
            prepared = await context.in_thread(self._prepare, number, candidate, spec or context.spec)
            context.emit.redact_with(prepared.redactor)
            context.emit(events.Prompt(tokens=-(-len(prepared.task.prompt.encode()) // BYTES_PER_TOKEN)))
            self.outcome = await runner_for(delegator, candidate.model_server).run(prepared.task, context.emit)
            context.emit.close()
            self._require_answer(candidate)
        except UnderstudyError as failure:
            failure.scope = failure.scope or scope_of(failure.kind)
            self.outcome, self.failure = None, failure
        await context.worked(delegator.name)

    def _prepare(self, number: int, candidate: SpecCandidate, spec: Spec) -> task.PreparedTask:
        context = self._context
        return task.build_task(
            context.folder,
            spec,
            candidate,
            number=number,
            worktree=self._worktree,
            total_seconds=self._remaining(candidate),
            session_id=self._session(candidate),
            ask=context.permissions.ask,
            note=context.tell,
        )

    def _require_answer(self, candidate: SpecCandidate) -> None:
        """Raise ``empty_output`` if a text recipe returned no text."""
        outcome = self.outcome
        text = outcome.text if outcome is not None else None
        if self._context.spec.recipe.returns == "text" and not (text and text.strip()):
            raise UnderstudyError(
                ErrorKind.EMPTY_OUTPUT,
                f"{candidate.delegator.name} finished without an answer.",
                hint="Try again, or choose another model.",
            )

    def _write_target(self, worktree: DelegationWorktree) -> None:
        """Write the answer of a recipe that returns a file."""
        target = task.target_of(self._context.spec)
        text = self.outcome.text if self.outcome is not None else None
        if self._context.spec.recipe.returns == "file" and text and target is not None:
            worktree.write_target(target, text)

    def _decide(self, number: int, place: int) -> failure_policy.Decision:
        """Ask the policy; stop if its decision cannot be carried out."""
        if self.failure is None or number == MAX_ATTEMPTS:
            return Stop()
        candidates = self._context.spec.candidates
        attempts = self._context.writer.delegation.attempts
        decision = self._policy(attempts, self.failure.info(), datetime.now(UTC))
        if isinstance(decision, Next):
            place += 1
            if place == len(candidates):
                return Stop()
        remaining = self._remaining(candidates[place])
        wait = decision.wait_seconds if isinstance(decision, Retry) else 0.0
        return Stop() if remaining is not None and remaining <= wait else decision

    def _report(self, failure: UnderstudyError, decision: failure_policy.Decision, following: int) -> None:
        candidates = self._context.spec.candidates
        self._context.emit(
            events.AttemptFailed(
                error=failure.info(),
                will_retry=isinstance(decision, Retry),
                next_delegator=candidates[following].delegator.name if isinstance(decision, Next) else None,
                wait_seconds=decision.wait_seconds if isinstance(decision, Retry) else None,
            )
        )

    def _remaining(self, candidate: SpecCandidate) -> float | None:
        """Return how much of the candidate's total time all attempts together have left, in seconds."""
        total = candidate.limits.total_seconds
        return None if total is None else round(max(0.0, total - (time.monotonic() - self._began)), 3)

    def _session(self, candidate: SpecCandidate) -> str | None:
        """Return the last session of the candidate's tool: from an earlier attempt, else from the parent."""
        owner = session_owner(candidate.delegator.tool, candidate.delegator.name)
        for attempt in reversed(self._context.writer.delegation.attempts):
            if attempt.session_id and session_owner(attempt.tool, attempt.delegator) == owner:
                return attempt.session_id
        origin = self._context.spec.origin
        return origin.sessions.get(owner) if origin is not None and owner is not None else None
