"""Choose the candidate of the next attempt: one that is not paused, and has something left of its limits."""

from __future__ import annotations

import contextlib

from understudy.engine.circuits import circuit_store
from understudy.engine.running.attempts.run_budget import RunBudget
from understudy.engine.running.run_context import RunContext
from understudy.model.config.config_entries import Pause
from understudy.model.delegation import events
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import UnderstudyError
from understudy.policy.budget import Shortage
from understudy.policy.candidates import Option, Turn, next_turn


class CandidateChoice:
    """The candidates of one run, and the pauses of their delegators, which all runs share."""

    def __init__(self, run: RunContext, budget: RunBudget) -> None:
        """Choose nothing yet."""
        self._run = run
        self._budget = budget

    async def choose(self, start: int, failure: UnderstudyError | None) -> Turn | None:
        """Return whose turn it is from ``start`` on, and tell the user about those that are left out.

        None if no candidate remains, or the earlier attempts have used up the limits. ``failure`` is that of the last
        attempt. A candidate that may begin may be the probe of a pause, so none after it is asked.
        """
        options: list[Option] = []
        for place, candidate in enumerate(self._run.spec.candidates[start:], start):
            option = await self._option(place, candidate, failure)
            options.append(option)
            if option.is_free:
                break
        turns = next_turn(options)
        for text in turns.warnings:
            self._run.emit(events.Note(level="warning", text=text))
        for text in turns.remarks:
            self._run.emit(events.Note(level="info", text=text))
        return turns.next

    async def _option(self, place: int, candidate: SpecCandidate, failure: UnderstudyError | None) -> Option:
        name = candidate.delegator.name
        reserved = self._budget.of(candidate, failure).reserve()
        if isinstance(reserved, Shortage):
            return Option(place=place, name=name, refused=reserved.why)
        limits = reserved.left()
        pause = await self._pause_of(candidate)
        if pause is None:
            return Option(place=place, name=name, limits=limits)
        words = pause.failure.replace("_", " ")
        text = f"{name} is paused until {pause.until} ({words}, {pause.failures} times): {pause.message}"
        return Option(place=place, name=name, limits=limits, paused=text)

    async def count(self, candidate: SpecCandidate, failure: UnderstudyError | None) -> None:
        """Record how an attempt ended, for the pauses of its delegator."""
        run, delegator, server = self._run, candidate.delegator, candidate.model_server
        with contextlib.suppress(UnderstudyError):
            if failure is None:
                await run.in_thread(circuit_store.succeeded, run.state, delegator, server)
            else:
                bounds = run.spec.pauses
                await run.in_thread(circuit_store.failed, run.state, delegator, server, failure.info(), bounds)

    async def _pause_of(self, candidate: SpecCandidate) -> Pause | None:
        """Let an attempt begin, which may be the probe of a candidate that was paused; return what is against it."""
        with contextlib.suppress(UnderstudyError):  # a pause that cannot be read keeps no one from working
            return await self._run.in_thread(
                circuit_store.admit, self._run.state, candidate.delegator, candidate.model_server
            )
        return None
