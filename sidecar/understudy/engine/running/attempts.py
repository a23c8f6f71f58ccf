"""The attempts of one delegation: candidates tried one after another, a checkpoint after each.

A retry, and an attempt that tells the agent what the user said, continue in the same worktree. The next candidate
begins with a fresh one: the worktree of the failed attempt is kept under a rescue reference, and no change of it is in
the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.discovery import declarations
from understudy.engine.circuits import circuit_store
from understudy.engine.messages.message_delivery import UserMessages
from understudy.engine.queueing import group_budget, queue_entries
from understudy.engine.rounds import spent_limits
from understudy.engine.running import failure_policy, task
from understudy.engine.running.emitter import Emitter
from understudy.engine.running.failure_policy import FailurePolicy, Next, Retry, Stop
from understudy.engine.running.permission_requests import PermissionRequests
from understudy.engine.running.relay.relay_host import RelayHost
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.journal.delegation_folder import Folder
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.capabilities import Capabilities
from understudy.model.config.config_entries import Pause
from understudy.model.config.delegators import Limits
from understudy.model.delegations import Attempt
from understudy.model.errors import UNBILLED, ErrorKind, UnderstudyError, class_of, scope_of
from understudy.model.spec import Spec, SpecCandidate, session_owner
from understudy.runners.registry import runner_for
from understudy.runners.runner import Emit, Outcome

MAX_ATTEMPTS = 20
"""The most attempts of one delegation, whatever the policy says."""
SNAPSHOT_SECONDS = 300.0
BYTES_PER_TOKEN = 4

_WHY_FOLLOWING = "the user said more"
_FOLLOWING = "# What is asked for now"
_SAID = "# What the user said after that"
_NO_FOLLOWING = frozenset(
    {
        *(ErrorKind.AUTH_FAILED, ErrorKind.QUOTA_EXHAUSTED, ErrorKind.TOOL_MISSING, ErrorKind.CONFIG_INVALID),
        *(ErrorKind.MODEL_NOT_FOUND, ErrorKind.TIMED_OUT, ErrorKind.BUDGET_EXHAUSTED, ErrorKind.CONTEXT_TOO_LONG),
    }
)
"""Failures that would happen again at once, whatever the user said."""

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
    messages: UserMessages
    relay: RelayHost
    renew: Callable[[DelegationWorktree], Awaitable[None]]
    """Replaces the worktree by a fresh one with the contents that the first attempt began with."""
    worked: Callable[[str], Awaitable[None]]
    """Called with the name of the delegator after each attempt, whatever became of it."""


@dataclass(frozen=True)
class _Chosen:
    """The candidate of the next attempt."""

    place: int
    limits: Limits | None = None
    """What earlier attempts left of its limits; None: all."""
    skipped: str = ""
    """Why those before it are not tried, as sentences."""


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
        self._fresh_from = 1
        """The first attempt in the current worktree: sessions of earlier ones know files that are gone."""
        self._budget = group_budget.Watch(lambda: context.relay.group_id)

    async def run(self, worktree: DelegationWorktree | None) -> None:
        """Try candidates in ``worktree`` (None: without one); afterwards exactly one of outcome and failure is set."""
        self._worktree = worktree
        self._began = time.monotonic()
        try:
            await self._run(worktree)
        finally:
            self._context.messages.close()

    async def _run(self, worktree: DelegationWorktree | None) -> None:
        first = await self._choose(0) or _Chosen(0)
        place, limits, reason = first.place, first.limits, first.skipped or None
        for number in range(1, MAX_ATTEMPTS + 1):
            candidate = self._context.spec.candidates[place]
            tried = candidate if limits is None else msgspec.structs.replace(candidate, limits=limits)
            await self._try(number, tried, reason=reason)
            reason = None
            if self.failure is None:
                self._candidate = candidate
                await self.checkpoint(worktree)
                limits = self._limits_for_messages(candidate, number)
                if limits is None:
                    return
                reason = _WHY_FOLLOWING
                continue
            decision = self._decide(number, place)
            chosen = await self._choose(place + 1) if isinstance(decision, Next) else None
            if isinstance(decision, Next) and chosen is None:
                decision = Stop()
            limits = chosen.limits if chosen is not None else None
            if isinstance(decision, Stop):
                limits = self._limits_for_messages(candidate, number)
                if limits is not None:
                    decision, reason = Retry(), _WHY_FOLLOWING
            after = chosen.place if chosen is not None else place
            self._report(self.failure, decision, after)
            if isinstance(decision, Stop):
                await self.checkpoint(worktree)
                return
            if isinstance(decision, Next):
                skipped = chosen.skipped if chosen is not None else ""
                reason = f"{candidate.delegator.name} failed: {self.failure} {skipped}".rstrip()
                await self._begin_afresh(worktree, number)
            else:
                await self.checkpoint(worktree)
                if decision.wait_seconds > 0:
                    text = f"Waiting {decision.wait_seconds:g} s before the next attempt"
                    self._context.emit(events.Phase(text=text))
                    await asyncio.sleep(decision.wait_seconds)
            place = after

    async def _begin_afresh(self, worktree: DelegationWorktree | None, number: int) -> None:
        """Keep what attempt ``number`` did, and replace the worktree by one without it."""
        if worktree is not None and worktree.has_tree:
            # The files of a recipe that returns a text are never part of a result.
            changes = self._context.spec.recipe.returns != "text"
            await self.checkpoint(worktree, keep_as=f"{self._context.folder.id}-attempt-{number}" if changes else None)
            self._context.emit(events.Phase(text="Creating a fresh worktree"))
            await self._context.renew(worktree)
            self.commit = None
        self._fresh_from = number + 1

    async def again(self, request: str, why: str) -> str | None:
        """Ask the agent that finished, in its session, to do ``request`` too; return why that failed, None if it did.

        ``why`` is the reason of the attempt.

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
        spec = self._context.spec
        if self._session(candidate) is None:
            spec = _with(spec, _SAID, self._context.messages.delivered)
        spec = _with(spec, _FOLLOWING, [request])
        try:
            again = msgspec.structs.replace(candidate, limits=left)
            await self._try(number, again, spec, why, request=request)
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
        self,
        worktree: DelegationWorktree | None,
        limit_seconds: float = SNAPSHOT_SECONDS,
        *,
        keep_as: str | None = None,
    ) -> str | None:
        """Commit the contents of the worktree, unless the last checkpoint has them; return the commit.

        ``keep_as`` names a rescue reference under which the whole worktree is kept, if its files changed.
        """
        context = self._context
        if worktree is None or not worktree.has_tree:
            return None
        if self.commit is None:
            await context.in_thread(self._write_target, worktree)
            self.commit = await context.in_thread(worktree.checkpoint, context.tell, limit_seconds=limit_seconds)
            reference: str | None = None
            try:
                if keep_as is not None:
                    keep = worktree.keep_changed
                    reference = await context.in_thread(keep, self.commit, keep_as, limit_seconds=limit_seconds)
            finally:
                if context.spec.recipe.returns != "text":
                    context.emit(events.Checkpoint(commit=self.commit, rescue_ref=reference))
        return self.commit

    async def _checkpoint_turn(self) -> None:
        """Record what a running attempt has done so far, for the case that this process is killed."""
        worktree = self._worktree
        if worktree is None or not worktree.has_tree:
            return
        with contextlib.suppress(UnderstudyError, OSError):  # the last checkpoint reports what is wrong
            commit = await self._context.in_thread(worktree.checkpoint, lambda _: None, limit_seconds=SNAPSHOT_SECONDS)
            self._context.emit(events.Checkpoint(commit=commit))

    async def _try(
        self,
        number: int,
        candidate: SpecCandidate,
        spec: Spec | None = None,
        reason: str | None = None,
        *,
        request: str | None = None,
    ) -> None:
        """Make one attempt; the user may say something meanwhile, except when ``spec`` is given."""
        context, delegator = self._context, candidate.delegator
        messages = context.messages if spec is None else None
        start_commit = self.commit or (self._worktree.start_commit if self._worktree is not None else None)
        if reason is None:
            failed = f"the previous attempt failed: {self.failure}"
            reason = context.spec.explain.reason if self.failure is None else failed
        self.outcome = self.failure = self.commit = None
        context.emit.attempt = number
        tree = self._worktree.agent_path if self._worktree is not None else None
        context.permissions.begin_attempt(delegator, candidate.limits.answer_seconds or 0.0, tree)
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
        emit: Emit = self._emit_within_budget
        if spec is None:
            said = self._said(number, candidate)
            spec, request = _with(context.spec, _SAID, said), "\n\n".join(said) or None
            emit = self._emit_noting
        try:
            relay: task.GivenRelay | None = None
            if delegator.launch is not None and delegator.launch.relay:
                relay = task.GivenRelay(context.relay, *await context.relay.open(candidate))
            prepared = await context.in_thread(
                partial(self._prepare, number, candidate, spec, messages, request=request, relay=relay)
            )
            context.emit.redact_with(prepared.redactor)
            context.emit(events.Prompt(tokens=-(-len(prepared.task.prompt.encode()) // BYTES_PER_TOKEN)))
            runner = runner_for(delegator, candidate.model_server, candidate.tool_definition)
            self.outcome = await runner.run(prepared.task, emit)
            context.emit.close()
            self._require_answer(candidate)
        except UnderstudyError as failure:
            failure.scope = failure.scope or scope_of(failure.kind)
            self.outcome, self.failure = None, failure
        finally:
            await context.relay.end_attempt()
            if messages is not None:
                await messages.end_attempt(succeeded=self.outcome is not None)
        await self._count(candidate)
        await context.worked(delegator.name)

    def _emit_noting(self, event: events.Event) -> None:
        self._context.messages.saw(event)
        self._emit_within_budget(event)

    def _emit_within_budget(self, event: events.Event) -> None:
        """Write an event of the agent; raise ``budget_exhausted`` when the group has spent its budget."""
        self._context.emit(event)
        if isinstance(event, events.UsageReport):
            self._budget.check(self._context.writer.delegation)

    def _said(self, number: int, candidate: SpecCandidate) -> list[str]:
        """Return what the user said that belongs in the prompt of an attempt."""
        declared = _declared(candidate)
        session, attempts = self._session(candidate), self._context.writer.delegation.attempts
        return self._context.messages.begin_attempt(
            number,
            declared.messages,
            continues=_continues(declared, candidate, self._context.spec),
            known_to=[one.number for one in attempts if session is not None and one.session_id == session],
        )

    def _limits_for_messages(self, candidate: SpecCandidate, number: int) -> Limits | None:
        """Return the limits of an attempt that tells the agent what the user said; None if there is none to make."""
        attempts = self._context.writer.delegation.attempts
        fails_again = self.failure is not None and self.failure.kind in _NO_FOLLOWING
        if not self._context.messages.waiting or number == MAX_ATTEMPTS or fails_again:
            return None
        # A tool may name its session, and not be able to continue it.
        if not _continues(_declared(candidate), candidate, self._context.spec):
            return None
        if not attempts or attempts[-1].session_id is None or self._session(candidate) is None:
            return None
        left = spent_limits.left(candidate.limits, attempts, self._remaining(candidate))
        return None if isinstance(left, str) else left

    def _prepare(
        self,
        number: int,
        candidate: SpecCandidate,
        spec: Spec,
        messages: UserMessages | None,
        *,
        request: str | None,
        relay: task.GivenRelay | None,
    ) -> task.PreparedTask:
        context = self._context
        return task.build_task(
            context.folder,
            spec,
            candidate,
            number=number,
            worktree=self._worktree,
            total_seconds=self._remaining(candidate),
            session_id=self._session(candidate),
            request=request,
            ask=context.permissions.ask,
            messages=messages,
            # Not while a result is improved: one that is not kept must not be the head.
            checkpoint=self._checkpoint_turn if messages is not None and spec.recipe.returns == "tree" else None,
            relay=relay,
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
        attempts = self._context.writer.delegation.attempts
        decision = self._policy(attempts, self.failure.info(), datetime.now(UTC))
        if isinstance(decision, Next):
            return decision
        remaining = self._remaining(self._context.spec.candidates[place])
        wait = decision.wait_seconds if isinstance(decision, Retry) else 0.0
        return Stop() if remaining is not None and remaining <= wait else decision

    async def _choose(self, start: int) -> _Chosen | None:
        """Return the first candidate from ``start`` on that is not paused and has something left of its limits.

        If all of them are paused, it is the first one: a pause spares others the wait, and refuses no work. None if no
        candidate is left, or the earlier attempts have used up the limits.
        """
        paused: list[tuple[_Chosen, str]] = []
        for place, candidate in enumerate(self._context.spec.candidates[start:], start):
            name, limits = candidate.delegator.name, None
            if self.failure is not None:
                billed = _billed(self._context.writer.delegation.attempts, self.failure)
                left = spent_limits.left(candidate.limits, billed, self._remaining(candidate))
                if isinstance(left, str):
                    self._context.emit(events.Note(level="warning", text=f"{name} is not tried: {left}."))
                    continue
                limits = left
            pause = await self._pause_of(candidate)
            if pause is None:
                for _, text in paused:
                    self._context.emit(events.Note(level="info", text=f"{text} {name} takes over."))
                return _Chosen(place, limits, " ".join(text for _, text in paused))
            words = pause.failure.replace("_", " ")
            text = f"{name} is paused until {pause.until} ({words}, {pause.failures} times): {pause.message}"
            paused.append((_Chosen(place, limits), text))
        if not paused:
            return None
        chosen, text = paused[0]
        text = f"{text} It is tried all the same, because no other delegator can take over."
        self._context.emit(events.Note(level="warning", text=text))
        return chosen

    async def _pause_of(self, candidate: SpecCandidate) -> Pause | None:
        """Let an attempt begin, which may be the probe of a candidate that was paused; return what is against it."""
        with contextlib.suppress(UnderstudyError):  # a pause that cannot be read keeps no one from working
            found: Pause | None = await self._context.in_thread(
                circuit_store.admit, self._context.state, candidate.delegator, candidate.model_server
            )
            return found
        return None

    async def _count(self, candidate: SpecCandidate) -> None:
        """Record how the attempt ended, for the pauses of its delegator."""
        state, delegator, server = self._context.state, candidate.delegator, candidate.model_server
        with contextlib.suppress(UnderstudyError):
            if self.failure is None:
                await self._context.in_thread(circuit_store.succeeded, state, delegator, server)
            else:
                bounds = self._context.spec.pauses
                failed = circuit_store.failed
                await self._context.in_thread(failed, state, delegator, server, self.failure.info(), bounds)

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
            if attempt.number < self._fresh_from:
                break
            # Our own loop has no owner: its conversations are in this process, one for each delegator.
            same = owner is not None or attempt.delegator == candidate.delegator.name
            if attempt.session_id and same and session_owner(attempt.tool, attempt.delegator) == owner:
                return attempt.session_id
        origin = self._context.spec.origin
        return origin.sessions.get(owner) if origin is not None and owner is not None else None


def _billed(attempts: Sequence[Attempt], failure: UnderstudyError) -> list[Attempt]:
    """Return the attempts that may have cost something: not those that a server refused before its model worked.

    ``failure`` is that of the last attempt, which is not recorded yet.
    """
    kinds = [one.failure.kind if one.failure is not None else None for one in attempts[:-1]]
    return [
        one
        for one, kind in zip(attempts, [*kinds, failure.kind], strict=True)
        if kind is None
        or one.cost_usd is not None
        or one.usage.input_tokens + one.usage.output_tokens > 0
        or class_of(kind) not in UNBILLED
    ]


def _with(spec: Spec, title: str, said: Sequence[str]) -> Spec:
    """Return ``spec`` with further texts of the user in its task."""
    if not said:
        return spec
    params = spec.asked()
    before = (params.task or "").strip()
    asked = "\n\n".join([before, title, *said] if before else said)
    return msgspec.structs.replace(spec, params=msgspec.structs.replace(params, task=asked), origin=None)


def _continues(declared: Capabilities, candidate: SpecCandidate, spec: Spec) -> bool:
    """Return whether the agent can be asked for more after its turn: our own loop has turns only where files change."""
    return declared.sessions and (candidate.delegator.tool is not None or spec.recipe.returns == "tree")


def _declared(candidate: SpecCandidate) -> Capabilities:
    return declarations.require_capabilities(candidate.delegator, candidate.model_server, candidate.tool_definition)
