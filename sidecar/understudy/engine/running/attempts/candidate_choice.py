"""Choose the candidate of the next attempt: one that is not paused, and has something left of its limits."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from understudy.engine.circuits import circuit_store
from understudy.engine.running.attempts.spent_limits import SpentLimits
from understudy.engine.running.run_context import RunContext
from understudy.model.config.config_entries import Pause
from understudy.model.config.delegators import Limits
from understudy.model.delegation import events
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import UnderstudyError


@dataclass(frozen=True)
class Chosen:
    """The candidate of the next attempt."""

    place: int
    limits: Limits | None = None
    """What earlier attempts left of its limits; None: all."""
    skipped: str = ""
    """Why those before it are not tried, as sentences."""


class CandidateChoice:
    """The candidates of one run, and the pauses of their delegators, which all runs share."""

    def __init__(self, run: RunContext, limits: SpentLimits) -> None:
        """Choose nothing yet."""
        self._run = run
        self._limits = limits

    async def choose(self, start: int, failure: UnderstudyError | None) -> Chosen | None:
        """Return the first candidate from ``start`` on that is not paused and has something left of its limits.

        If all of them are paused, it is the first one: a pause spares others the wait, and refuses no work. None if no
        candidate is left, or the earlier attempts have used up the limits. ``failure`` is that of the last attempt.
        """
        paused: list[tuple[Chosen, str]] = []
        for place, candidate in enumerate(self._run.spec.candidates[start:], start):
            name, limits = candidate.delegator.name, None
            if failure is not None:
                left = self._limits.left(candidate, failure)
                if isinstance(left, str):
                    self._run.emit(events.Note(level="warning", text=f"{name} is not tried: {left}."))
                    continue
                limits = left
            pause = await self._pause_of(candidate)
            if pause is None:
                for _, text in paused:
                    self._run.emit(events.Note(level="info", text=f"{text} {name} takes over."))
                return Chosen(place, limits, " ".join(text for _, text in paused))
            words = pause.failure.replace("_", " ")
            text = f"{name} is paused until {pause.until} ({words}, {pause.failures} times): {pause.message}"
            paused.append((Chosen(place, limits), text))
        if not paused:
            return None
        chosen, text = paused[0]
        text = f"{text} It is tried all the same, because no other delegator can take over."
        self._run.emit(events.Note(level="warning", text=text))
        return chosen

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
