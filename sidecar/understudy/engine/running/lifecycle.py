"""Run one delegation, from its folder to its verdict, in one worker process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from understudy.config.trust import records
from understudy.engine import workspaces
from understudy.engine.checkout_runs.checkout_worktree import CheckoutWorktree, worktree_of
from understudy.engine.checks import verdict_rules
from understudy.engine.messages.message_delivery import UserMessages
from understudy.engine.queueing import base_recorder, launcher, queue_entries, spare_slots
from understudy.engine.running import failure_policy
from understudy.engine.running.attempts import SNAPSHOT_SECONDS, AttemptContext, Attempts
from understudy.engine.running.emitter import Emitter
from understudy.engine.running.failure_policy import FailurePolicy
from understudy.engine.running.permission_requests import PermissionRequests
from understudy.engine.running.relay import child_delegations
from understudy.engine.running.relay.relay_host import RelayHost
from understudy.engine.running.task import paths, proxy_secrets
from understudy.engine.running.worker_threads import WorkerThreads
from understudy.engine.worktrees import setup_command
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.engine.worktrees.outside_watch import OutsideWatch
from understudy.git import command
from understudy.git.checkout import unrecorded_files
from understudy.journal import delegation_folder, state_folder, worker_lock
from understudy.journal.change_notifications import ChangeListener, notify
from understudy.journal.summaries import summary
from understudy.journal.worker_requests import Cancel, RequestTail, worker_topic
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.checks import Check, CheckResult
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.spec import Spec
from understudy.model.verdicts import Reservation, Verdict
from understudy.process import children, identity, leftovers
from understudy.runners.registry import runner_for
from understudy.runners.runner import Outcome
from understudy.secrets.redaction import Redactor

if TYPE_CHECKING:  # what judges a result is imported while the agent works: see ``_import_judge``
    from understudy.engine.checks.judge import Judgement
    from understudy.engine.checks.mutation.planning import MutantSample
    from understudy.engine.rounds.rounds import JudgedResult, Rounds

CANCEL_SNAPSHOT_SECONDS = 2.0
"""A cancel must finish within five seconds; this part of them is for committing the partial work."""

STOPPED_LOOK_SECONDS = 0.5
"""How long a cancel looks for changes of ignored files."""

ENDED_EARLY = frozenset(
    {Verdict.CANCELLED, Verdict.INTERRUPTED, Verdict.TIMED_OUT, Verdict.BUDGET_EXHAUSTED, Verdict.FAILED}
)
"""How the work itself ended; checks that run again later do not change that."""

IMPORT_JUDGE_SECONDS = 2.0
"""How long the agent has run when the modules that judge its result are imported: not while the agent starts."""

_T = TypeVar("_T")


class DelegationRun:
    """One delegation in this process."""

    def __init__(
        self,
        folder: delegation_folder.Folder,
        spec: Spec,
        lock: int,
        policy: FailurePolicy = failure_policy.decide,
    ) -> None:
        """Take over the folder that is locked by ``lock``. The process holds a slot until it has ended."""
        self.folder = folder
        self.spec = spec
        self.root = state_folder.state_root()
        self._lock = lock
        self._children: dict[int, identity.Identity] = {}
        worker_lock.write_holder(lock, identity.current(), [])
        self._writer = Writer(folder, lock)
        proxies = proxy_secrets()  # the setup command uses them, too
        self._emit = Emitter(self._writer, Redactor(proxies) if proxies else None)
        self._control = RequestTail(folder)
        self._permissions = PermissionRequests(folder, self._emit)
        self._messages = UserMessages(self._emit, self._writer.delegation.messages)
        self._relay = RelayHost(
            folder, spec, self.root, emit=self._emit, ask=self._permissions.ask, in_thread=self.in_thread
        )
        self._only_check = False
        self._work: asyncio.Task[None] | None = None
        self._cancelled_by: str | None = None
        self._interrupted = False
        self._failure: UnderstudyError | None = None
        self._worktree: DelegationWorktree | None = None
        self._checkout: CheckoutWorktree | None = None
        """The worktree again, if the agent works in the checkout."""
        self._result: events.Result | None = None
        self._judgement: Judgement | None = None
        self._outside: OutsideWatch | None = None
        self._rounds: Rounds | None = None
        self._before: Delegation | None = None
        self._checks = spec.checks
        self._threads = WorkerThreads()
        self._ended_before = ""
        context = AttemptContext(
            folder=folder,
            spec=spec,
            state=self.root,
            writer=self._writer,
            emit=self._emit,
            tell=self._tell,
            in_thread=self.in_thread,
            permissions=self._permissions,
            messages=self._messages,
            relay=self._relay,
            renew=self._renew_tree,
            worked=self._compare_after_attempt,
        )
        self._attempts = Attempts(context, policy)

    @property
    def needs_tree(self) -> bool:
        """Return whether the run needs a worktree."""
        return launcher.needs_worktree(self.spec)

    async def run(self, *, only_check: bool = False) -> None:
        """Run everything up to the verdict. Errors of the work end up in the verdict; only journal errors raise."""
        loop = self._loop = asyncio.get_running_loop()
        self._only_check = only_check
        if only_check:
            self._before = summary.load(self.folder)
            self._ended_before = self._before.finished_at or ""
        children.on_child_change(self._child_changed)
        command.mark_calls(leftovers.MARK, self.folder.id)
        loop.set_default_executor(self._threads)
        command.resume()
        with ChangeListener(only=[worker_topic(self.folder.id)]) as bell:
            loop.add_reader(bell.fileno(), self._look_at_control, bell)
            ticking = asyncio.create_task(self._tick())
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                loop.add_signal_handler(number, self._interrupt)
            try:
                await self._guarded(self._check_again() if only_check else self._work_through())
                await self._end(only_check=only_check)
            finally:
                ticking.cancel()
                loop.remove_reader(bell.fileno())
                self._release()

    # -- being stopped ---------------------------------------------------------------------------------------

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Run ``work`` until it ends or a cancel, a signal or a failure ends it, and record which."""
        self._work = asyncio.ensure_future(work)
        self._look_at_control(None)
        try:
            await self._work
        except asyncio.CancelledError:
            if self._cancelled_by is None and not self._interrupted:
                raise
        except UnderstudyError as failure:
            # The failure of the work matters more than the failure to keep partial work.
            self._failure = self._attempts.failure or failure
        except Exception as error:
            # A bug must still end in one terminal state that reports it.
            self._failure = _fault(self.folder, error)

    def _look_at_control(self, bell: ChangeListener | None) -> None:
        if bell is not None:
            bell.drain()
        items = self._control.read()
        self._permissions.take(items)
        if not self._only_check:  # what was not delivered is for the next reply
            self._messages.take(items)
            self._relay.take(items)
        for item in items:
            # A cancel from before an earlier end does not apply to checks that run again.
            if isinstance(item, Cancel) and self._cancelled_by is None and item.at > self._ended_before:
                self._cancelled_by = item.by
                self._stop()

    async def _tick(self) -> None:
        # A lost change notification delays a cancel by a second.
        while True:
            await asyncio.sleep(1)
            self._look_at_control(None)
            if self._cancelled_by is None and not self._only_check and child_delegations.has_lost_parent(self.spec):
                self._cancelled_by = child_delegations.BY
                self._stop()

    def _interrupt(self) -> None:
        self._interrupted = True
        self._stop()

    def _stop(self) -> None:
        if self._worktree is not None:
            self._worktree.abort()
        if self._work is not None:
            self._work.cancel()

    def _release(self) -> None:
        """Close the journal and free the folder's lock: others may record decisions, or check again, from here on."""
        if self._lock >= 0:
            self._writer.close()
            os.close(self._lock)
            self._lock = -1
            notify(self.folder.id)
        if self._checkout is not None:
            self._checkout.release()

    def _child_changed(self, child: identity.Identity, alive: bool) -> None:
        if alive:
            self._children[child.pid] = child
        else:
            self._children.pop(child.pid, None)
        if self._lock < 0:
            return
        worker_lock.write_holder(self._lock, identity.current(), list(self._children.values()))

    # -- the work --------------------------------------------------------------------------------------------

    async def _work_through(self) -> None:
        for text in self.spec.notes:
            self._emit(events.Note(level="warning", text=text))
        self._threads.submit(_import_runner, self.spec)  # while git runs
        looking: asyncio.Task[None] | None = None
        if self.needs_tree:
            self._worktree = self._new_worktree()
            if self._checkout is not None:
                await self.in_thread(self._checkout.claim_checkout)
            bootstrap = self.spec.bootstrap
            # A set-up command may change files outside, and what is linked is outside: those are looked at later.
            if not bootstrap.setup and not bootstrap.link:
                looking = asyncio.create_task(self.in_thread(self._look_early, self._worktree))
            await self.in_thread(self._make_base, self._worktree)
        self._check_trust()
        if self._worktree is not None:
            await self._make_tree(self._worktree, looking)
        if self._checkout is not None:
            await self.in_thread(self._checkout.enter, self._tell)
        later = self._loop.call_later(IMPORT_JUDGE_SECONDS, self._threads.submit, _import_judge)
        try:
            await self._attempts.run(self._worktree)
        finally:
            later.cancel()
            await self._relay.close()
        self._failure = self._attempts.failure
        await self._collect()
        await self._judge()
        await self._improve()

    def _new_worktree(self) -> DelegationWorktree:
        made = worktree_of(self.folder, self.spec, self.root)
        self._checkout = made if isinstance(made, CheckoutWorktree) else None
        return made

    def _make_base(self, worktree: DelegationWorktree) -> None:
        """Record the base, unless that was done while it waited; runs in a thread."""
        if not base_recorder.is_recorded(self._writer.delegation, worktree):
            self._tell(events.Phase(text="Recording your files"))
            base_recorder.record_base(self.folder, self.spec, worktree, self.root, self._tell)

    def _check_trust(self) -> None:
        """Raise an error if trust was revoked, or the covered files changed, since the request."""
        workspace = Path(self.spec.workspace)
        if self.spec.trusted and not records.status(workspace, self.root).trusted:
            raise UnderstudyError(
                ErrorKind.UNTRUSTED_WORKSPACE,
                f"{workspace} is no longer trusted: trust was revoked, or its configuration changed.",
                hint=workspaces.trust_hint(workspace),
            )

    async def _make_tree(self, worktree: DelegationWorktree, looking: asyncio.Task[None] | None) -> None:
        """Create the worktree, and look at the files outside it before an agent runs."""
        made = self.in_thread(worktree.make_tree, self._tell)
        if looking is None:
            await made
            await self._set_up(worktree)
            await self._watch_outside(worktree)
        else:
            await asyncio.gather(made, self._watch_after(looking, worktree))

    async def _renew_tree(self, worktree: DelegationWorktree) -> None:
        """Replace the worktree of a failed attempt by a fresh one, for the next candidate."""
        # No process of the failed attempt may write to the new one.
        await self.in_thread(leftovers.kill_leftovers, self.folder.id)
        await self.in_thread(worktree.make_tree, self._tell)
        await self._set_up(worktree)

    def _look_early(self, worktree: DelegationWorktree) -> None:
        """Look at the environment while the base is recorded; runs in a thread, and raises nothing."""
        with contextlib.suppress(UnderstudyError):  # reported when the base is recorded
            self._check_trust()  # finding the environment may start tools of the project
            self._outside = OutsideWatch(self.spec, worktree, self._tell)
            self._outside.look_early()

    async def _watch_after(self, looking: asyncio.Task[None], worktree: DelegationWorktree) -> None:
        await looking
        await self._watch_outside(worktree)

    async def _set_up(self, worktree: DelegationWorktree) -> None:
        argv = self.spec.bootstrap.setup
        if not argv:
            return
        self._emit(events.Phase(text=f"Setting up the worktree: {argv[0]}"))
        await setup_command.run(
            argv,
            worktree.tree_path,
            worktree.environment(),
            mark=self.folder.id,
            timeout_seconds=self.spec.bootstrap.setup_timeout_seconds,
        )

    # -- the result ------------------------------------------------------------------------------------------

    async def _collect(self, limit_seconds: float = SNAPSHOT_SECONDS) -> None:
        """Report the contents of the worktree, or the answer, as the result."""
        if self._result is not None:
            return
        outcome, worktree = self._attempts.outcome, self._worktree
        text = outcome.text if outcome is not None else None
        summary = outcome.summary if outcome is not None else None
        commit = await self._attempts.checkpoint(worktree, limit_seconds)
        if worktree is None or commit is None:
            if text is not None:
                self._result = events.Result(files=[], text=text, summary=summary)
                self._emit(self._result)
            return
        if self.spec.recipe.returns == "text":
            if commit != worktree.base_commit:
                self._emit(
                    events.Note(level="warning", text="The recipe returns text, so changes to files were discarded.")
                )
            self._result = events.Result(head=None, files=[], text=text, summary=summary)
            self._emit(self._result)
        else:
            await self._report_result(commit, outcome, limit_seconds)

    async def _report_result(self, commit: str, outcome: Outcome | None, limit_seconds: float) -> None:
        collected = await self.in_thread(self._known_worktree().result, commit, limit_seconds=limit_seconds)
        self._result = events.Result(
            head=commit,
            files=collected.files,
            text=outcome.text if outcome is not None else None,
            summary=outcome.summary if outcome is not None else None,
            hunks=collected.hunks,
        )
        self._emit(self._result)
        await self._leave_checkout(limit_seconds)

    async def _leave_checkout(self, limit_seconds: float) -> None:
        """Mark what the agent changed in the checkout as accepted, unless that was done before a cancel."""
        checkout = self._checkout
        if checkout is None or not checkout.is_to_leave:
            return
        intent = await self.in_thread(checkout.prepare_undo, limit_seconds=limit_seconds)
        checkout.leave(self._writer, intent)
        look_seconds = STOPPED_LOOK_SECONDS if self._stopped else unrecorded_files.LONGEST_SECONDS
        await self.in_thread(checkout.compare, self._tell, look_seconds)
        checkout.release()

    async def _judge(self) -> None:
        worktree, result = self._worktree, self._result
        if self._failure is not None or worktree is None or result is None or result.head is None:
            return
        if not await self.in_thread(self._changed):
            return
        self._judgement = await self.judge_commit(result.head, self._emit, None, self.folder.path)

    async def judge_commit(
        self, head: str, emit: Callable[[events.Event], None], sample: MutantSample | None, reports: Path
    ) -> Judgement:
        """Judge a commit of the worktree; see ``rounds.RoundHost``, as for the next methods."""
        from understudy.engine.checks.judge import JudgeRequest, judge
        from understudy.engine.checks.mutation import dismissed_mutants

        worktree = self._known_worktree()
        await self._watch_outside(worktree)
        return await judge(
            JudgeRequest(
                delegation_id=self.folder.id,
                recipe=self.spec.recipe,
                tree=worktree.judged(),
                base=worktree.base_commit,
                head=head,
                workspace=Path(self.spec.workspace),
                files=paths(self.spec.files),
                checks=self._checks,
                interpreter=self.spec.interpreter,
                scratch=self.folder.path / "checks",
                cache=self.root / "base-outcomes",
                evidence=self.spec.evidence,
                dismissed=await self.in_thread(dismissed_mutants.dismissed, self.root, self.spec.workspace),
                reports=reports,
                sample=sample,
                after_check=self._compare_after_check,
                spare_slot=functools.partial(spare_slots.spare_slot, self.root, self.spec.slots),
            ),
            emit,
        )

    # -- rounds ----------------------------------------------------------------------------------------------

    async def _improve(self) -> None:
        result, judgement, worktree = self._result, self._judgement, self._worktree
        rounds, repairs = self.spec.rounds, self.spec.repairs
        if not (rounds or repairs) or judgement is None or worktree is None or result is None or result.head is None:
            return
        from understudy.engine.rounds.rounds import JudgedResult, Rounds

        self._rounds = Rounds(
            self,
            worktree,
            self._emit,
            count=rounds,
            repairs=repairs,
            recipe=self.spec.recipe.name,
            reports=self.folder.path,
        )
        await self._rounds.run(JudgedResult(result.head, judgement))

    async def attempt_again(self, request: str, why: str) -> str | None:
        """Ask the agent for more in the same worktree."""
        await self._watch_outside(self._known_worktree())
        return await self._attempts.again(request, why)

    async def commit(self) -> str:
        """Commit the contents of the worktree, which are not the result yet."""
        return await self.in_thread(self._known_worktree().checkpoint, self._tell, limit_seconds=SNAPSHOT_SECONDS)

    async def keep(self, judged: JudgedResult) -> None:
        """Replace the result, if it changed, and its judgement."""
        if self._result is None or judged.head != self._result.head:
            outcome = self._attempts.adopt(judged.head)
            await self._report_result(judged.head, outcome, SNAPSHOT_SECONDS)
        self._judgement = judged.judgement

    def verdict_on(self, judgement: Judgement) -> tuple[Verdict, list[Reservation]]:
        """Return the verdict if the delegation ended with this judgement of changed files."""
        return self._verdict(changed=True, judgement=judgement)

    def _known_worktree(self) -> DelegationWorktree:
        if self._worktree is None:
            raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, "There is no worktree.", hint="Start it again.")
        return self._worktree

    async def _watch_outside(self, worktree: DelegationWorktree) -> None:
        self._outside = self._outside or OutsideWatch(self.spec, worktree, self._tell)
        await self.in_thread(self._outside.start)

    async def _compare_after_attempt(self, delegator: str) -> None:
        confined = self._writer.delegation.confined
        await self._compare_outside(
            f"the agent {delegator}", f"{delegator} worked", confined=confined, in_checkout=self._checkout is not None
        )

    async def _compare_after_check(self, result: CheckResult) -> None:
        confined = result.sandbox is not None and result.sandbox.reached.restricts_access
        await self._compare_outside(f"the check {result.name}", f"the check {result.name} ran", confined=confined)

    async def _compare_outside(self, who: str, doing: str, *, confined: bool, in_checkout: bool = False) -> None:
        """Report changes outside the worktree, unless a sandbox made them impossible."""
        if self._outside is not None and not confined:
            await self.in_thread(self._outside.compare, who, doing, in_checkout)

    async def _check_again(self) -> None:
        before = self._before or summary.load(self.folder)
        self._worktree = self._new_worktree()
        self._worktree.reopen(before)
        left_over = self._checkout is not None and self._checkout.resume_collection()
        # A worker that was killed has left more than its last checkpoint.
        if before.head is None or before.result is None or left_over:
            await self._collect()
        else:
            self._result = events.Result(head=before.head, files=[])
        if not self._checks:
            self._checks = await self.in_thread(self._configured_now)
        await self._judge()

    def _configured_now(self) -> list[Check]:
        """Return the checks that a request without checks would run now: the user may have added one since."""
        from understudy import config
        from understudy.engine.planning import plan

        workspace = Path(self.spec.workspace)
        trusted = records.status(workspace, self.root).trusted
        configured = config.load(workspace, trusted=trusted).checks
        return plan.checks_to_run(configured, self.spec.recipe, self.spec.asked())

    async def _end(self, *, only_check: bool) -> None:
        """Keep partial work and write the verdict; write an end even if any of this fails."""
        await self._relay.close()
        await self._threads_are_out()
        if self._worktree is not None:
            self._worktree.resume()
        try:
            limit_seconds = CANCEL_SNAPSHOT_SECONDS if self._stopped else SNAPSHOT_SECONDS
            await self._collect(limit_seconds)
            await self._leave_checkout(limit_seconds)  # a cancel may have come between the two
        except UnderstudyError as failure:
            self._failure = self._failure or failure
        except Exception as error:
            self._failure = self._failure or _fault(self.folder, error)
        # No process of this delegation may be alive now, not even programs that git started.
        await self.in_thread(leftovers.kill_leftovers, self.folder.id)
        if self._rounds is not None:
            await self._rounds.restore()
        changed = False
        try:
            self._emit.close()
            changed = await self.in_thread(self._changed)
        except UnderstudyError as failure:
            self._failure = self._failure or failure
        self._writer.verify()
        if only_check and self._before is not None and (self._stopped or self._failure is not None):
            self._emit(events.Note(level="warning", text=f"The checks did not finish: {self._why()}."))
            verdict, reservations, info = _end_of(self._before)
        else:
            verdict, reservations = self._verdict(changed=changed, judgement=self._judgement)
            info = self._failure.info() if self._failure is not None else None
            if only_check:
                verdict, reservations, info = self._same_end(verdict, reservations, info)
        self._look_at_control(None)
        if self._messages.waiting:
            text = f"The agent did not get your last message. It is part of your next reply to {self.folder.id}."
            self._emit(events.Note(level="warning", text=text))
        if verdict is Verdict.VERIFIED:
            await self._keep_as_branch()
        self._emit(events.Finished(verdict=verdict, reservations=reservations, error=info))
        queue_entries.remove(self.root, self.folder.id)
        self._release()

    async def _keep_as_branch(self) -> None:
        """Commit the result on a new branch, if the delegator of the last attempt is configured like that."""
        from understudy.engine.review import kept_branch

        last = self._writer.delegation.attempts[-1].delegator
        name = kept_branch.name_for(self.spec, self.folder.id, last)
        if name is None:
            return
        try:
            text = await self.in_thread(kept_branch.keep, self.folder, name, limit_seconds=kept_branch.SECONDS)
        except Exception as failure:
            error = failure if isinstance(failure, UnderstudyError) else _fault(self.folder, failure)
            self._emit(events.Note(level="warning", text=kept_branch.failure_text(self.folder.id, name, error)))
        else:
            self._emit(events.Note(level="info", text=text))

    @property
    def _stopped(self) -> bool:
        return self._cancelled_by is not None or self._interrupted

    def _why(self) -> str:
        if self._cancelled_by is not None:
            return "they were cancelled"
        return self._failure.message.rstrip(".") if self._failure is not None else "they were interrupted"

    async def _threads_are_out(self) -> None:
        """Wait for threads whose work was stopped; git may be called again only after that."""
        busy = [asyncio.wrap_future(future) for future in self._threads.busy()]
        if busy:
            await asyncio.wait(busy, timeout=CANCEL_SNAPSHOT_SECONDS)

    def _changed(self) -> bool:
        worktree, result = self._worktree, self._result
        if worktree is None or result is None or result.head is None:
            return False
        return worktree.tree_of(result.head) != worktree.tree_of(worktree.base_commit)

    def _verdict(self, *, changed: bool, judgement: Judgement | None) -> tuple[Verdict, list[Reservation]]:
        failure, result = self._failure, self._result
        limit: verdict_rules.LimitReached | None = None
        if failure is not None and failure.kind in {ErrorKind.TIMED_OUT, ErrorKind.STALLED}:
            limit = "timed_out"
        elif failure is not None and failure.kind is ErrorKind.BUDGET_EXHAUSTED:
            limit = "budget_exhausted"
        reservations = frozenset(judgement.reservations if judgement is not None else ())
        if self._writer.tampered:
            reservations |= {Reservation.TAMPERED}
        if self._outside is not None and self._outside.changed:
            reservations |= {Reservation.OUTSIDE_CHANGED}
        if self._checkout is not None:
            reservations |= self._checkout.reservations()
        return verdict_rules.verdict_of(verdict_rules.VerdictFacts(
            cancelled=self._cancelled_by is not None,
            interrupted=self._interrupted,
            limit=limit,
            failed=failure is not None,
            answer=((result and result.text) or "") if self.spec.recipe.returns == "text" else None,
            changed=changed,
            results=tuple(judgement.results) if judgement is not None else (),
            reservations=reservations,
        ))  # fmt: skip

    def _same_end(
        self, verdict: Verdict, reservations: list[Reservation], info: ErrorInfo | None
    ) -> tuple[Verdict, list[Reservation], ErrorInfo | None]:
        """Write the end after checks ran again; how the work itself ended does not change."""
        before = self._before
        if before is None:
            return verdict, reservations, info
        if before.verdict in ENDED_EARLY and self._failure is None:
            error = before.error if self._checkout is None else self._checkout.ended(before.error)
            return before.verdict, before.reservations, error
        # Running checks again does not make up for what happened before.
        lasting = {Reservation.TAMPERED, Reservation.OUTSIDE_CHANGED, Reservation.NOT_ISOLATED} & set(
            before.reservations
        )
        if not lasting <= set(reservations):
            reservations = verdict_rules.in_order({*reservations, *lasting})
            if verdict is Verdict.VERIFIED:
                verdict = Verdict.UNVERIFIED
        return verdict, reservations, info

    async def in_thread(self, call: Callable[..., _T], *args: object, limit_seconds: float | None = None) -> _T:
        """Run blocking git work in a thread; a cancel aborts the git process, so the thread ends at once."""
        future = asyncio.get_running_loop().run_in_executor(None, functools.partial(call, *args))
        # The caller may have stopped waiting for this thread; then its exception is never retrieved.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(limit_seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            if self._worktree is not None:
                self._worktree.abort()
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"Git was still using the worktree after {limit_seconds} s.",
                hint="The work is still in the worktree; check for a slow or full disk.",
            ) from None

    def _tell(self, event: events.Event) -> None:
        """Emit from another thread: the event is appended by the loop, in order, before the thread's result is seen."""
        self._loop.call_soon_threadsafe(self._emit_if_open, event)

    def _emit_if_open(self, event: events.Event) -> None:
        if self._lock >= 0:  # an abandoned thread must not write
            self._emit(event)


def _import_runner(spec: Spec) -> None:
    """Import what the first attempt needs; an error is raised again, and reported, by the attempt."""
    candidate = spec.candidates[0]
    with contextlib.suppress(Exception):
        runner_for(candidate.delegator, candidate.model_server, candidate.tool_definition)


def _import_judge() -> None:
    """Import what judges a result: it takes longer than the rest of a worker's start."""
    from understudy.engine.checks import judge

    del judge


def _end_of(before: Delegation) -> tuple[Verdict, list[Reservation], ErrorInfo | None]:
    return before.verdict or Verdict.INTERRUPTED, before.reservations, before.error


def _fault(folder: delegation_folder.Folder, error: Exception) -> UnderstudyError:
    import traceback

    with contextlib.suppress(OSError), (folder.path / "worker.log").open("a", encoding="utf-8") as log:
        log.write(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()))
        log.writelines(traceback.format_exception(error))
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return UnderstudyError(
            ErrorKind.DISK_FULL,
            "The disk became full while the delegation was running.",
            hint="Free some space, then retry.",
        )
    return UnderstudyError(
        ErrorKind.INTERNAL,
        f"Internal error in the worker: {type(error).__name__}: {error}",
        hint="This is a bug in Understudy. Please report it; the log of the worker has the details.",
        log_paths=[str(folder.path / "worker.log")],
    )
