"""The one loop of a run: attempt, collect, judge, and ask the policy what follows, until it says stop.

The first result is reported at once. A later one is on trial: it replaces the result so far only if it is better in
the way that its attempt was made for.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from understudy.config.discovery import declarations
from understudy.engine.planning import prompt
from understudy.engine.running.attempts.run_attempts import Attempts
from understudy.engine.running.lifecycle.results import Judging, ResultCollection, Trial
from understudy.engine.running.outside_watch import OutsideWatch
from understudy.engine.running.preparation import Preparation
from understudy.engine.running.run_context import RunContext
from understudy.model.delegation import events
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import UnderstudyError
from understudy.model.evidence.checks import CheckResult, Noticed, noticed
from understudy.model.places import without_tests
from understudy.model.verdicts import Reservation, Verdict
from understudy.policy import next_step
from understudy.policy.candidates import Option, Turn
from understudy.policy.next_step import (
    RULES,
    Decision,
    Evidence,
    Failed,
    History,
    Judged,
    NextCandidate,
    Request,
    Retry,
    Rule,
    SendBack,
    Step,
    Stop,
    Try,
    Unheard,
    failing_checks,
)
from understudy.policy.patience import Patience, patience
from understudy.runners.runner import Outcome

if TYPE_CHECKING:  # what judges a result is imported when there is one
    from understudy.judge.judge import Judgement
    from understudy.judge.mutation.planning import MutantSample

VerdictOn = Callable[["Judgement | None"], tuple[Verdict, list[Reservation]]]


class Campaign:
    """The attempts of one run, and the result that is kept."""

    def __init__(
        self,
        run: RunContext,
        rules: Sequence[Rule] = RULES,
        *,
        attempts: Attempts,
        results: ResultCollection,
        judging: Judging,
        preparation: Preparation,
        outside: OutsideWatch,
        close_relay: Callable[[], Awaitable[None]],
        verdict_on: VerdictOn,
    ) -> None:
        """Start nothing. ``verdict_on`` returns the verdict if the run ended with a result of a judgement, or none."""
        self.failure: UnderstudyError | None = None
        """Why the last attempt failed, as long as none has given a result."""
        self._run = run
        self._attempts = attempts
        self._results = results
        self._judging = judging
        self._preparation = preparation
        self._outside = outside
        self._close_relay = close_relay
        self._verdict_on = verdict_on
        self._rules = rules
        self._turn = self._before = self._kept_turn = Turn(Option(place=0, name=run.spec.candidates[0].delegator.name))
        self._kept_number = 0
        """The attempt that made the result that is kept."""
        self._set_aside: set[int] = set()
        self._next_place = 1
        self._tries: list[Try] = []
        self._is_collected = False
        """Whether the last attempt led to a result."""
        self._outcome: Outcome | None = None
        """What the agent of the result that is kept said."""
        self._trial: Trial | None = None
        self._seed: str | None = None

    async def run(self) -> None:
        """Work until the policy says stop. Errors are those of git, of a new worktree and of the checks."""
        try:
            step: Decision = await self._begin()
            while not isinstance(step, Stop):
                await self._attempt(step)
                await self._collect(step)
                await self._judge()
                step = await self._next(step)
        finally:
            await self._leave_agent()
        await self._finish()

    async def restore(self) -> None:
        """Reset the worktree to the result that is kept, if another one was being made."""
        trial, self._trial = self._trial, None
        if trial is not None:
            await trial.restore()

    # -- the steps of the loop -------------------------------------------------------------------------------

    async def _begin(self) -> Step:
        self._take(await self._attempts.begin() or self._turn)
        return NextCandidate()

    async def _attempt(self, step: Step) -> None:
        """Make an attempt, up to the end of its agent."""
        result = self._results.result
        if result is not None and self._trial is None:
            self._trial = Trial(self._run, result.head, step)
        reason = self._reason(step)
        if self._tries:
            await self._make_ready(step)
        if self._trial is None:
            self.failure = None
        self._is_collected = False
        limits = self._attempts.budget(self._candidate).left()
        request = self._request_of(step) if self._improves_result(step) else None
        await self._attempts.make(self._candidate, limits, reason, request, patience=self._patience())
        if self._trial is None:
            self.failure = self._attempts.failure

    def _patience(self) -> Patience:
        """Return how long the model server of the next attempt is waited for; an agent waits for its own."""
        if self._candidate.delegator.tool is not None:
            return Patience()
        return patience(
            followed=self._next_place < len(self._run.spec.candidates),
            is_probe=self._turn.option.is_probe,
            returns_text=self._run.spec.recipe.returns == "text",
        )

    async def _collect(self, step: Step) -> None:
        """Collect what the agent made, unless it failed, or must hear more before."""
        if self._attempts.failure is not None:
            return
        if self._trial is None:
            await self._attempts.checkpoint()
        unheard = self._history(Try(step, Unheard()))
        if isinstance(next_step.next_step(unheard, self._rules), SendBack):
            return
        self._is_collected = True
        await self._leave_agent()
        if self._trial is None:
            await self._results.collect()
        else:
            with self._trial.objecting():
                await self._trial.collect()

    async def _judge(self) -> None:
        """Judge what was collected."""
        if not self._is_collected:
            return
        if self._trial is None:
            await self._judging.judge()
        else:
            with self._trial.objecting():
                await self._trial.judge(self._judging, await self._sample())

    async def _next(self, step: Step) -> Decision:
        """Keep what is better, ask the policy what follows, and record both."""
        self._tries.append(Try(step, await self._compared()))
        failure = self._attempts.failure
        if failure is None:
            await self._settle()
        history = self._history()
        decision, turn = next_step.next_step(history, self._rules), None
        if isinstance(decision, NextCandidate):
            turn = await self._attempts.choose(self._next_place)
            if turn is not None and not self._can_take_over(turn):
                decision = NextCandidate()
            if turn is None:
                decision = next_step.next_step(dataclasses.replace(history, followers=False), self._rules)
        if failure is not None:
            self._report_failure(failure, decision, turn)
            if isinstance(decision, Stop) and self._trial is None:
                await self._attempts.checkpoint()
            elif isinstance(decision, Stop) or (isinstance(decision, SendBack) and decision.improves):
                await self._settle()
        if next_step.begins_rounds(history) and (isinstance(decision, Stop) or _is_stronger(decision)):
            self._report_round(0, self._noticed, None)
        if isinstance(decision, Stop) and decision.instead_of is not None:
            self._run.emit(events.Phase(text=self._phase(decision.instead_of)))
            self._report(decision.instead_of, self._noticed, decision.why)
        if turn is not None:
            self._take(turn)
        return decision

    async def _finish(self) -> None:
        """Collect partial work if no attempt gave a result; judge one again whose agent has seen some mutants."""
        result = self._results.result
        if result is None:
            await self._results.collect()
        elif result.head is not None and next_step.needs_fresh_sample(self._history()):
            # The verdict is about those that the result itself chooses.
            await self._judging.judge()

    # -- an attempt ------------------------------------------------------------------------------------------

    @property
    def _candidate(self) -> SpecCandidate:
        return self._run.spec.candidates[self._turn.option.place]

    def _can_take_over(self, turn: Turn) -> bool:
        """Return whether a candidate understands what was done before it."""
        candidate = self._run.spec.candidates[turn.option.place]
        declared = declarations.capabilities_of(candidate.delegator, candidate.model_server, candidate.tool_definition)
        return declared is None or declared.follows_instructions

    def _take(self, turn: Turn) -> None:
        self._before, self._turn = self._turn, turn
        self._next_place = turn.option.place + 1

    def _reason(self, step: Step) -> str:
        """Return why an attempt is made."""
        if isinstance(step, SendBack):
            return step.why
        failure = self._attempts.failure
        if isinstance(step, Retry):
            return f"the previous attempt failed: {failure}" if failure is not None else "it is tried again"
        if not self._tries:
            return self._turn.skipped or self._run.spec.explain.reason
        name, kept = self._before.option.name, self._kept()
        verdict = f"the result of {name} is {kept.verdict}." if kept is not None else ""
        why = f"{name} failed: {failure}" if failure is not None else verdict
        return f"{why} {self._turn.skipped}".rstrip()

    async def _make_ready(self, step: Step) -> None:
        """Prepare the worktree for a further attempt, and wait as long as the policy says."""
        run = self._run
        if isinstance(step, SendBack) and step.improves:
            run.emit(events.Phase(text=self._phase(step)))
            await self._outside.start()
        elif isinstance(step, NextCandidate) and step.fresh:
            if run.tree is not None:
                # After a result that was not kept, the worktree is that of the result before it.
                was_reset = self._is_collected and self._kept_number != self._attempts.number
                await self._keep_worktree(self._kept_number if was_reset else self._attempts.number)
                run.emit(events.Phase(text="Creating a fresh worktree"))
                await self._preparation.renew()
            self._attempts.begin_afresh()
        elif isinstance(step, NextCandidate):
            run.emit(events.Phase(text=f"Handing the work over to {self._turn.option.name}"))
            await self._attempts.hand_over()
        elif self._trial is None:
            await self._attempts.checkpoint()
        if isinstance(step, Retry) and step.wait_seconds > 0:
            run.emit(events.Phase(text=f"Waiting {step.wait_seconds:g} s before the next attempt"))
            await asyncio.sleep(step.wait_seconds)

    async def _keep_worktree(self, number: int) -> None:
        """Keep the worktree, which attempt ``number`` has made, under a rescue reference."""
        if number not in self._set_aside:
            self._set_aside.add(number)
            # What could still be dropped must not become the head.
            is_head = number == self._attempts.number and (self._trial is None or number == self._kept_number)
            await self._attempts.set_aside(number, is_head=is_head)

    def _phase(self, step: SendBack) -> str:
        if step.request is Request.REPAIR:
            names = ", ".join(check.name for check in self._failing(self._judging.judgement))
            return f"Round {step.number} of {self._run.spec.repairs}: asking for a repair ({names})"
        return f"Round {step.number} of {self._run.spec.rounds}: asking for tests that notice more"

    def _improves_result(self, step: Step) -> bool:
        """Return whether an agent is asked to improve the result so far: its own, or that of another candidate."""
        if isinstance(step, NextCandidate):
            return not step.fresh and self._trial is not None
        return isinstance(step, SendBack) and step.improves

    def _request_of(self, step: Step) -> str:
        """Return what the agent is asked to do to the result."""
        judgement = self._judging.judgement
        failing = self._failing(judgement)
        if failing and not (isinstance(step, SendBack) and step.request is Request.STRENGTHEN):
            return prompt.repair_request(failing)
        return prompt.strengthen_request(self._noticed, judgement.places if judgement is not None else ())

    async def _leave_agent(self) -> None:
        """Keep what the user says from now on for the next reply, and stop what the agent delegated."""
        self._attempts.close()
        await self._close_relay()

    # -- a result --------------------------------------------------------------------------------------------

    @property
    def _noticed(self) -> Noticed | None:
        """What the tests of the result that is kept notice."""
        return _noticed_by(self._judging.judgement)

    def _failing(self, judgement: Judgement | None) -> list[CheckResult]:
        return failing_checks(judgement.results if judgement is not None else (), self._run.spec.recipe)

    async def _sample(self) -> MutantSample | None:
        """Return the mutants on which a result is compared with the one that is kept."""
        trial, before, result = self._trial, self._noticed, self._results.result
        if trial is None or before is None or result is None or result.head is None or not _is_stronger(trial.purpose):
            return None
        from understudy.judge.mutation.planning import MutantSample

        if self._seed is None:
            self._seed = await self._run.in_thread(self._run.worktree.tree_of, result.head)
        return MutantSample(seed=self._seed, identities=before.judged)

    async def _compared(self) -> Failed | Unheard | Judged:
        """Return how the last attempt ended, with what speaks against keeping its result."""
        failure, trial = self._attempts.failure, self._trial
        if failure is not None:
            return Failed(failure.info())
        if not self._is_collected:
            return Unheard()
        if trial is None:
            return Judged(self._evidence(self._judging.judgement))
        if trial.objection is not None:
            return Judged(None, trial.objection)
        new = self._evidence(trial.judgement)
        with trial.objecting():
            trial.objection = next_step.objection(
                trial.purpose,
                self._evidence(self._judging.judgement),
                new,
                failing=[check.name for check in self._failing(trial.judgement)],
                changed=await self._run.in_thread(trial.changed) if _is_stronger(trial.purpose) else (),
            )
        return Judged(new, trial.objection)

    async def _settle(self) -> None:
        """Keep the result of the last attempt, or go back to the one before, and report that."""
        trial, outcome = self._trial, self._tries[-1].outcome
        if isinstance(outcome, Unheard):
            return
        if trial is None:
            self._note_kept()
            return
        measured = _noticed_by(trial.judgement) or self._noticed
        if isinstance(outcome, Judged) and outcome.objection is None and trial.head is not None:
            trial.release()
            self._trial = None
            self._note_kept()
            await self._results.report_commit(trial.head, self._outcome)
            self._judging.judgement = trial.judgement
            self._attempts.return_to(self._outcome, trial.head)
            await self._run.in_thread(trial.keep_reports)
            self._report(trial.purpose, measured, None)
            return
        why = outcome.error.message.rstrip(".") if isinstance(outcome, Failed) else outcome.objection
        if isinstance(trial.purpose, NextCandidate):
            await self._keep_worktree(self._attempts.number)
        await self.restore()
        self._turn = self._kept_turn
        self._attempts.return_to(self._outcome, trial.before)
        self._report(trial.purpose, measured, why)

    def _note_kept(self) -> None:
        """Remember which attempt made the result that is kept."""
        self._outcome, self._kept_turn, self._kept_number = self._attempts.outcome, self._turn, self._attempts.number

    # -- what the policy sees --------------------------------------------------------------------------------

    def _history(self, *last: Try) -> History:
        run, result = self._run, self._results.result
        has_more = self._next_place < len(run.spec.candidates)
        return History(
            tries=(*self._tries, *last),
            attempts=tuple(run.writer.delegation.attempts),
            clock=time.time(),
            budget=self._attempts.budget(self._candidate),
            recipe=run.spec.recipe,
            repairs=run.spec.repairs,
            rounds=run.spec.rounds,
            escalates=run.spec.escalates,
            hands_over=run.spec.handover == "continue" and run.spec.recipe.returns == "tree" and run.tree is not None,
            # A text is not put on trial.
            followers=has_more and (result is None or result.head is not None),
            waiting=self._attempts.user_waits,
            can_continue=self._attempts.user_waits and self._attempts.can_continue(self._candidate),
            kept=self._kept(),
        )

    def _kept(self) -> Evidence | None:
        return self._evidence(self._judging.judgement) if self._results.result is not None else None

    def _evidence(self, judgement: Judgement | None) -> Evidence:
        verdict, reservations = self._verdict_on(judgement)
        measured = _noticed_by(judgement)
        places = judgement.places if judgement is not None else ()
        without = {(place.path, place.function) for place in without_tests(places)}
        return Evidence(
            verdict=verdict,
            reservations=reservations,
            checks=judgement.results if judgement is not None else (),
            noticed=measured,
            tested=frozenset((place.path, place.function) for place in places) - without,
            untested=frozenset(without),
            worth_asking=prompt.is_worth_strengthening(measured, places),
        )

    # -- what the user sees ----------------------------------------------------------------------------------

    def _report_failure(self, failure: UnderstudyError, decision: Decision, turn: Turn | None) -> None:
        """Record that an attempt failed, and what follows."""
        again = isinstance(decision, Retry | SendBack)
        wait_seconds = decision.wait_seconds if isinstance(decision, Retry) else 0.0
        self._run.emit(
            events.AttemptFailed(
                error=failure.info(),
                will_retry=again,
                next_delegator=turn.option.name if turn is not None else None,
                continues=isinstance(decision, NextCandidate) and not decision.fresh,
                wait_seconds=wait_seconds if again else None,
            )
        )

    def _report(self, purpose: Step, measured: Noticed | None, why: str | None) -> None:
        """Record whether the result of an attempt was kept; ``why`` it was not."""
        if isinstance(purpose, SendBack) and purpose.request is Request.STRENGTHEN:
            self._report_round(purpose.number, measured, why)
        elif why is not None:
            what = "The repair" if isinstance(purpose, SendBack) else "The result of this attempt"
            self._run.emit(events.Note(level="info", text=f"{what} was not kept: {why}."))

    def _report_round(self, number: int, measured: Noticed | None, why: str | None) -> None:
        if measured is not None:
            killed, viable = measured.killed, measured.viable
            self._run.emit(events.RoundJudged(number=number, killed=killed, viable=viable, kept=why is None, why=why))


def _noticed_by(judgement: Judgement | None) -> Noticed | None:
    return noticed(check.mutation for check in judgement.results) if judgement is not None else None


def _is_stronger(decision: Decision) -> bool:
    return isinstance(decision, SendBack) and decision.request is Request.STRENGTHEN
