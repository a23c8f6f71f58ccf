"""Run one delegation, from its folder to its verdict, in one worker process."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from understudy.engine.queueing import launcher
from understudy.engine.review import review_state
from understudy.engine.running.attempts.agent_conversation import UserMessages
from understudy.engine.running.attempts.run_attempts import SNAPSHOT_SECONDS, AgentLinks, Attempts
from understudy.engine.running.lifecycle.campaign import Campaign
from understudy.engine.running.lifecycle.results import Judging, ResultCollection
from understudy.engine.running.notifier import Notifier
from understudy.engine.running.outside_watch import OutsideWatch
from understudy.engine.running.preparation import Preparation, proxy_secrets
from understudy.engine.running.run_context import Emitter, RunContext, WorkerThreads
from understudy.engine.running.user_requests import PermissionRequests, StopRequests
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.files import durable
from understudy.git import command
from understudy.journal import delegation_folder, reader, worker_files
from understudy.journal.change_notifications import notify
from understudy.journal.delegation_folder import Folder
from understudy.journal.worker_files import Item
from understudy.journal.writing.writer import Writer
from understudy.judge import verdict_rules
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.places import ChangedPlace
from understudy.model.states import State
from understudy.model.verdicts import Reservation, ReservationFact, Verdict, in_order
from understudy.model.wire import timestamp
from understudy.policy.next_step import RULES, Rule
from understudy.process import identity
from understudy.process.guardian import marked_processes
from understudy.process.programs import children
from understudy.secrets.redaction import Redactor

if TYPE_CHECKING:
    from understudy.engine.checkout_runs.checkout_worktree import CheckoutWorktree
    from understudy.engine.running.relay.relay_host import RelayHost
    from understudy.judge.judge import Judgement

CANCEL_SNAPSHOT_SECONDS = 2.0
"""A cancel must finish within five seconds; this part of them is for committing the partial work."""
ENDED_EARLY = frozenset(
    {Verdict.CANCELLED, Verdict.INTERRUPTED, Verdict.TIMED_OUT, Verdict.BUDGET_EXHAUSTED, Verdict.FAILED}
)
"""How the work itself ended; checks that run again later do not change that."""
_STOPPED = "The checks were stopped before they had ended."
_LASTING = frozenset({Reservation.TAMPERED, Reservation.OUTSIDE_CHANGED, Reservation.NOT_ISOLATED})
"""Running checks again does not make up for these."""
_LIMITS: dict[ErrorKind, verdict_rules.LimitReached] = {
    ErrorKind.TIMED_OUT: "timed_out",
    ErrorKind.STALLED: "timed_out",
    ErrorKind.BUDGET_EXHAUSTED: "budget_exhausted",
}


class DelegationRun:
    """One delegation in this process: the order of everything that is done for it."""

    def __init__(
        self,
        folder: Folder,
        spec: Spec,
        lock: int,
        rules: Sequence[Rule] = RULES,
        *,
        only_check: bool = False,
    ) -> None:
        """Take over the folder that is locked by ``lock``; ``only_check``: run the checks of its result again."""
        self._held = held = HeldFolder(folder, lock)
        self._before = reader.load(folder) if only_check else None
        """The delegation as it had ended, if only its checks run again."""
        worktree, checkout = _worktree_of(folder, spec)
        root = delegation_folder.state_root()
        self._run = run = RunContext(
            folder=folder,
            spec=spec,
            state=root,
            writer=held.writer,
            emit=held.emit,
            tell=held.tell,
            threads=WorkerThreads(),
            worktree=worktree,
            checkout=checkout,
            notifier=Notifier(folder, root, held.emit.redact),
        )
        self._failure: UnderstudyError | None = None
        self._permissions = PermissionRequests(
            folder, held.emit, asked=lambda request: run.notifier.asked(run.writer.delegation, request)
        )
        self._messages = UserMessages(held.emit, held.writer.delegation.messages)
        self._relay = _relay_of(run, self._permissions)
        self._stops = StopRequests(
            folder,
            take=self._take,
            checking=lambda: run.writer.delegation.state is State.CHECKING,
            # Checks that run again end for no parent, and for no cancel from before an earlier end.
            parent=spec.relay_parent if self._before is None else None,
            since=(self._before.finished_at or "") if self._before is not None else "",
        )
        self._outside = OutsideWatch(run)
        self._preparation = Preparation(run, self._outside)
        attempts = Attempts(
            run,
            AgentLinks(permissions=self._permissions, messages=self._messages, relay=self._relay),
            worked=self._outside.after_attempt,
        )
        self._results = ResultCollection(run, attempts, lambda: self._stops.stopped)
        self._judging = Judging(run, self._results, self._outside)
        self._campaign = Campaign(
            run,
            rules,
            attempts=attempts,
            results=self._results,
            judging=self._judging,
            preparation=self._preparation,
            outside=self._outside,
            close_relay=self._close_relay,
            verdict_on=self._verdict_on,
        )

    async def run(self) -> None:
        """Run everything up to the verdict. Errors of the work end up in the verdict; only journal errors raise."""
        run, before, loop = self._run, self._before, asyncio.get_running_loop()
        self._held.begin()
        children.on_child_change(self._held.child_changed)
        command.mark_calls(marked_processes.MARK, run.folder.id)
        loop.set_default_executor(run.threads)
        command.resume()
        with self._stops.listening():
            try:
                await self._until_stopped(self._work_through() if before is None else self._check_again(before))
                await self._end()
            finally:
                self._release()

    async def _until_stopped(self, work: Awaitable[None]) -> None:
        """Run ``work`` until it ends or a cancel, a signal or a failure ends it, and record the failure."""
        try:
            await self._stops.guard(work)
        except UnderstudyError as failure:
            # The failure of the work matters more than the failure to keep partial work.
            self._failure = self._campaign.failure or failure
        except Exception as error:
            # A bug must still end in one terminal state that reports it.
            self._failure = fault(self._run.folder, error)

    def _take(self, items: Sequence[Item]) -> None:
        """Hand new requests to those whom they concern."""
        self._permissions.take(items)
        if self._before is None:  # what was not delivered is for the next reply
            self._messages.take(items)
            if self._relay is not None:
                self._relay.take(items)

    # -- the work --------------------------------------------------------------------------------------------

    async def _work_through(self) -> None:
        run = self._run
        for text in run.spec.notes:
            run.emit(events.Note(level="warning", text=text))
        for lack in run.spec.lacks:
            run.emit(events.Note(level="warning", text=lack.text, hint=lack.hint, remedy=lack.remedy))
        await self._preparation.prepare()
        await self._campaign.run()
        self._failure = self._campaign.failure

    async def _check_again(self, before: Delegation) -> None:
        checkout = self._run.checkout
        self._run.worktree.reopen(before)
        left_over = checkout is not None and checkout.resume_collection()
        # A worker that was killed has left more than its last checkpoint.
        if before.head is None or before.result is None or left_over:
            await self._results.collect()
        else:
            self._results.reuse(before.head)
        await self._judging.judge_again()

    # -- the end ---------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Keep partial work and write the verdict; write an end even if any of this fails."""
        run = self._run
        await self._close_relay()
        await run.threads.wait_until_idle(CANCEL_SNAPSHOT_SECONDS)
        command.resume()
        try:
            limit_seconds = CANCEL_SNAPSHOT_SECONDS if self._stops.stopped else SNAPSHOT_SECONDS
            await self._results.collect(limit_seconds)
            await self._results.leave_checkout(limit_seconds)  # a cancel may have come between the two
        except UnderstudyError as failure:
            self._failure = self._failure or failure
        except Exception as error:
            self._failure = self._failure or fault(run.folder, error)
        # No process of this delegation may be alive now, not even programs that git started.
        await run.in_thread(marked_processes.kill_leftovers, run.folder.id)
        await self._campaign.restore()
        changed = False
        try:
            run.emit.close()
            changed = await run.in_thread(self._results.changed)
        except UnderstudyError as failure:
            self._failure = self._failure or failure
        run.writer.verify()
        end = self._decided(changed=changed)
        self._stops.look()
        if self._messages.waiting:
            text = f"The agent did not get your last message. It is part of your next reply to {run.folder.id}."
            run.emit(events.Note(level="warning", text=text))
        await self._report_lost_edits()
        if end.verdict is Verdict.VERIFIED:
            await self._keep_as_branch()
        run.emit(
            events.Finished(
                verdict=end.verdict,
                reservations=end.reservations,
                reservation_facts=end.facts,
                places=end.places,
                error=end.error,
            )
        )
        launcher.leave(run.state, run.folder.id)
        self._release()
        is_new = self._before is None or self._before.verdict != end.verdict
        if is_new and run.spec.relay_parent is None:  # what agents delegate themselves concerns them
            run.notifier.ended(run.writer.delegation)

    def _decided(self, *, changed: bool) -> RunEnd:
        """Return how the delegation ends."""
        before, checkout = self._before, self._run.checkout
        if before is None:
            return self._end_with(self._judging.judgement, changed=changed)
        if self._stops.stopped or self._failure is not None:
            self._run.emit(events.Note(level="warning", text=f"The checks did not finish: {self._why()}."))
            return earlier_end(before)
        error = before.error if checkout is None else checkout.ended(before.error)
        return after_recheck(before, self._end_with(self._judging.judgement, changed=changed), error)

    def _end_with(self, judgement: Judgement | None, *, changed: bool) -> RunEnd:
        run, result = self._run, self._results.result
        reservations: set[Reservation] = set()
        if run.writer.tampered:
            reservations.add(Reservation.TAMPERED)
        if self._outside.changed:
            reservations.add(Reservation.OUTSIDE_CHANGED)
        if run.checkout is not None:
            reservations |= run.checkout.reservations()
        # What was found before the checks were stopped can still be accepted.
        places, results, facts = run.writer.delegation.places, [], []
        if judgement is not None:
            reservations |= set(judgement.reservations)
            places, results, facts = judgement.places, judgement.results, [*judgement.facts]
        elif self._stops.only_checks:
            results = run.writer.delegation.checks
        if self._stops.only_checks and not self._judging.is_complete:
            reservations.add(Reservation.NOT_MUTATION_TESTED)
            facts.append(ReservationFact(reservation=Reservation.NOT_MUTATION_TESTED, text=_STOPPED))
        if self._before is None and Reservation.NO_CHECKS in reservations:
            facts += [
                ReservationFact(reservation=Reservation.NO_CHECKS, text=lack.text, hint=lack.hint, remedy=lack.remedy)
                for lack in run.spec.lacks
            ]
        failure = self._failure
        verdict, listed = verdict_rules.verdict_of(
            verdict_rules.VerdictFacts(
                cancelled=self._stops.cancelled_by is not None and not self._stops.only_checks,
                interrupted=self._stops.interrupted,
                limit=_LIMITS.get(failure.kind) if failure is not None else None,
                failed=failure is not None,
                answer=((result and result.text) or "") if run.spec.recipe.returns == "text" else None,
                changed=changed,
                results=tuple(results),
                reservations=frozenset(reservations),
            )
        )
        return RunEnd(verdict, listed, facts, failure.info() if failure is not None else None, places)

    def _verdict_on(self, judgement: Judgement | None) -> tuple[Verdict, list[Reservation]]:
        """Return the verdict if the delegation ended with a result of this judgement; only changed files are judged."""
        end = self._end_with(judgement, changed=judgement is not None)
        return end.verdict, end.reservations

    def _why(self) -> str:
        if self._stops.cancelled_by is not None:
            return "they were cancelled"
        return self._failure.message.rstrip(".") if self._failure is not None else "they were interrupted"

    async def _report_lost_edits(self) -> None:
        """Tell the user which of their edits of the parent's result the agent has changed."""
        run, result, origin = self._run, self._results.result, self._run.spec.origin
        if self._before is None and origin is not None and origin.edited and result is not None and result.head:
            from understudy.engine.review import amend

            with contextlib.suppress(UnderstudyError):  # the verdict matters more
                lost = await run.in_thread(amend.lost_edits, origin, run.worktree.store, result.head)
                if lost is not None:
                    run.emit(events.Note(level="warning", text=lost))

    async def _keep_as_branch(self) -> None:
        """Commit the result on a new branch, if the delegator of the last attempt is configured like that."""
        run = self._run
        last = run.writer.delegation.attempts[-1].delegator
        name = review_state.branch_of(run.spec, run.folder.id, last)
        if name is None:
            return
        try:
            text = await run.in_thread(review_state.keep_branch, run.folder, name, limit_seconds=review_state.SECONDS)
        except Exception as failure:
            error = failure if isinstance(failure, UnderstudyError) else fault(run.folder, failure)
            run.emit(events.Note(level="warning", text=review_state.branch_failure(run.folder.id, name, error)))
        else:
            run.emit(events.Note(level="info", text=text))

    async def _close_relay(self) -> None:
        if self._relay is not None:
            await self._relay.close()

    def _release(self) -> None:
        """Let others use the folder and the checkout."""
        self._held.release()
        if self._run.checkout is not None:
            self._run.checkout.release()


def _worktree_of(folder: Folder, spec: Spec) -> tuple[DelegationWorktree, CheckoutWorktree | None]:
    """Return the worktree, and once more with the checkout if the agent works there; nothing is created on disk."""
    state = delegation_folder.state_root()
    if not spec.in_checkout:
        return DelegationWorktree(folder, spec, state), None
    from understudy.engine.checkout_runs.checkout_worktree import CheckoutWorktree

    checkout = CheckoutWorktree(folder, spec, state)
    return checkout, checkout


def _relay_of(run: RunContext, permissions: PermissionRequests) -> RelayHost | None:
    """Return what serves the relay tools, if any agent of the delegation has them."""
    if not run.spec.has_relay:
        return None
    from understudy.engine.running.relay.relay_host import RelayHost

    return RelayHost(run.folder, run.spec, run.state, emit=run.emit, ask=permissions.ask, in_thread=run.in_thread)


def fault(folder: Folder, error: Exception) -> UnderstudyError:
    """Write the traceback to the worker's log, and return the error that ends the delegation."""
    import traceback

    with contextlib.suppress(OSError), (folder.path / "worker.log").open("a", encoding="utf-8") as log:
        log.write(f"{timestamp(precision='seconds')} ")
        log.writelines(traceback.format_exception(error))
    if (refused := durable.system_failure(error)) is not None:
        return refused
    return UnderstudyError(
        ErrorKind.INTERNAL,
        f"Internal error in the worker: {type(error).__name__}: {error}",
        hint="This is a bug in Understudy. Please report it; the log of the worker has the details.",
        log_paths=[str(folder.path / "worker.log")],
    )


class HeldFolder:
    """A folder that this process has locked, for one event loop. The process holds a slot until it has ended."""

    def __init__(self, folder: Folder, lock: int) -> None:
        """Take over the folder that is locked by ``lock``, and open its journal."""
        self._folder = folder
        self._lock = lock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._children: dict[int, identity.Identity] = {}
        worker_files.write_holder(lock, identity.current(), [])
        self.writer = Writer(folder, lock)
        proxies = proxy_secrets()  # the setup command uses them, too
        self.emit = Emitter(self.writer, Redactor(proxies) if proxies else None)

    def begin(self) -> None:
        """Use the running event loop."""
        self._loop = asyncio.get_running_loop()

    def tell(self, event: events.Event) -> None:
        """Emit from another thread: the event is appended by the loop, in order, before the thread's result is seen."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._emit_if_open, event)

    def child_changed(self, child: identity.Identity, alive: bool) -> None:
        """Record that a child of this process has started or ended: others end it if this process is killed."""
        if alive:
            self._children[child.pid] = child
        else:
            self._children.pop(child.pid, None)
        if self._lock >= 0:
            worker_files.write_holder(self._lock, identity.current(), list(self._children.values()))

    def release(self) -> None:
        """Close the journal and free the lock: others may record decisions, or check again, from here on."""
        if self._lock >= 0:
            self.writer.close()
            os.close(self._lock)
            self._lock = -1
            notify(self._folder.id)

    def _emit_if_open(self, event: events.Event) -> None:
        if self._lock >= 0:  # an abandoned thread must not write
            self.emit(event)


@dataclass(frozen=True)
class RunEnd:
    """How a delegation ends."""

    verdict: Verdict
    reservations: list[Reservation]
    facts: list[ReservationFact] = field(default_factory=list)
    """What the reservations are about."""
    error: ErrorInfo | None = None
    places: list[ChangedPlace] = field(default_factory=list)


def earlier_end(before: Delegation) -> RunEnd:
    """Return how a delegation had ended before its checks ran again."""
    verdict = before.verdict or Verdict.INTERRUPTED
    return RunEnd(verdict, before.reservations, before.reservation_facts, before.error, before.places)


def after_recheck(before: Delegation, end: RunEnd, error: ErrorInfo | None) -> RunEnd:
    """Return how a delegation ends whose checks ran again, to ``end``: how the work itself ended does not change.

    ``error`` is why the work had ended early, as far as that still holds.
    """
    if before.verdict in ENDED_EARLY:
        return RunEnd(before.verdict, before.reservations, before.reservation_facts, error, before.places)
    lasting = _LASTING.intersection(before.reservations)
    if lasting <= set(end.reservations):
        return end
    verdict = Verdict.UNVERIFIED if end.verdict is Verdict.VERIFIED else end.verdict
    facts = [*end.facts, *(fact for fact in before.reservation_facts if fact.reservation in lasting)]
    reservations = in_order({*end.reservations, *lasting})
    return replace(end, verdict=verdict, reservations=reservations, facts=facts)
