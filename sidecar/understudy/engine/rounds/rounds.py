"""Let an agent improve its result in rounds: judge it, ask for more, judge again, keep what is better.

While a required check fails, it is asked for a repair, with the output of the check; then for tests that notice more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from understudy.engine.planning import repair_prompt, strengthen_prompt
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.judge.judge import Judgement
from understudy.judge.mutation.planning import MutantSample
from understudy.judge.verdict_rules import in_order
from understudy.model.config.recipes import Recipe
from understudy.model.delegation import events
from understudy.model.errors import UnderstudyError
from understudy.model.evidence.mutation import Noticed, noticed
from understudy.model.text import path_quoting
from understudy.model.verdicts import Reservation, Verdict

_BY_KILLS = frozenset(
    {
        Reservation.NO_MUTANT_KILLED,
        Reservation.FEW_MUTANTS_KILLED,
        Reservation.LITTLE_EXECUTED,
        Reservation.CHANGE_NOT_TESTED,
    }
)
"""Reservations about what the tests notice: for these, the mutants are compared."""
_DECEIVES = frozenset(
    {
        *(Reservation.CHECK_CHANGED, Reservation.TESTS_CHANGED, Reservation.OUTSIDE_SCOPE, Reservation.TAMPERED),
        *(Reservation.LOADED_CHECKOUT, Reservation.TREE_CHANGED),
    }
)
"""A check that passes like this was not repaired."""
_WHY_STRONGER = "its tests should notice more"
_RANK = {Verdict.VERIFIED: 2, Verdict.UNVERIFIED: 1}
_MOST_NAMED = 5
_RESTORE_SECONDS = 3.0
"""A cancel must finish within five seconds."""

_T = TypeVar("_T")
Emit = Callable[[events.Event], None]


@dataclass(frozen=True)
class JudgedResult:
    """A result and what its checks showed."""

    head: str
    judgement: Judgement


class RoundHost(Protocol):
    """The delegation whose result is improved."""

    async def attempt_again(self, request: str, why: str) -> str | None:
        """Ask the agent to do ``request`` too, because of ``why``; return why that failed, None if it finished."""
        ...

    async def commit(self) -> str:
        """Commit the contents of the worktree."""
        ...

    async def judge_commit(self, head: str, emit: Emit, sample: MutantSample | None, reports: Path) -> Judgement:
        """Judge a commit; ``emit`` gets the events, and reports are written to the folder ``reports``."""
        ...

    def verdict_on(self, judgement: Judgement) -> tuple[Verdict, list[Reservation]]:
        """Return the verdict if the delegation ended with this judgement."""
        ...

    async def keep(self, result: JudgedResult) -> None:
        """Replace the result, and report it."""
        ...

    async def in_thread(self, call: Callable[..., _T], *args: object, limit_seconds: float | None = None) -> _T:
        """Run blocking git work."""
        ...


class Rounds:
    """The rounds of one delegation."""

    def __init__(
        self,
        host: RoundHost,
        worktree: DelegationWorktree,
        emit: Emit,
        *,
        count: int,
        repairs: int,
        recipe: Recipe,
        reports: Path,
    ) -> None:
        """Ask for stronger tests ``count`` times at most, and for repairs ``repairs`` times.

        ``emit`` appends to the journal, and ``reports`` is the folder for the
        reports of the result that is kept.
        """
        self._host = host
        self._worktree = worktree
        self._emit = emit
        self._count = count
        self._repairs = repairs
        self._recipe = recipe
        self._reports = reports
        self._new_reports = reports / "round"
        self._unfinished: str | None = None

    async def run(self, result: JudgedResult) -> None:
        """Improve ``result`` until nothing is left to notice, a round brings nothing, or the limits are reached.

        Cancellation leaves the last result that was kept; call ``restore`` then.
        """
        result = await self._repaired(result)
        if repair_prompt.failed(result.judgement.results, self._recipe) or not self._count:
            return
        found = _noticed(result.judgement)
        if found is None:
            return
        seed = await self._tree_of(result.head)
        self._report(0, found, None)
        first = result
        for number in range(1, self._count + 1):
            if not strengthen_prompt.is_worthwhile(found):
                return
            self._emit(events.Phase(text=f"Round {number} of {self._count}: asking for tests that notice more"))
            new, why = await self._improve(
                result,
                strengthen_prompt.request_of(found),
                _WHY_STRONGER,
                partial(self._why_not_stronger, result, found),
                MutantSample(seed=seed, identities=found.judged),
            )
            seen = (_noticed(new.judgement) if new is not None else None) or found
            self._report(number, seen, why)
            if new is None or why is not None:
                break
            result, found = new, seen
        if result is not first and found.sampled:
            # The agent has seen some of the mutants; the verdict is about those that the result itself chooses.
            judgement = await self._host.judge_commit(result.head, self._emit, None, self._reports)
            await self._host.keep(JudgedResult(result.head, judgement))

    async def _repaired(self, result: JudgedResult) -> JudgedResult:
        """Ask for repairs while a required check fails; return the last result that was kept."""
        for number in range(1, self._repairs + 1):
            failing = repair_prompt.failed(result.judgement.results, self._recipe)
            if not failing:
                break
            names = ", ".join(check.name for check in failing)
            self._emit(events.Phase(text=f"Round {number} of {self._repairs}: asking for a repair ({names})"))
            new, why = await self._improve(
                result,
                repair_prompt.request_of(failing),
                f"the check {names} failed" if len(failing) == 1 else f"the checks {names} failed",
                partial(self._why_not_repaired, result),
            )
            if new is None or why is not None:
                self._emit(events.Note(level="info", text=f"The repair was not kept: {why}."))
                break
            result = new
        return result

    async def _improve(
        self,
        before: JudgedResult,
        request: str,
        reason: str,
        objection: Callable[[JudgedResult], Awaitable[str | None]],
        sample: MutantSample | None = None,
    ) -> tuple[JudgedResult | None, str | None]:
        """Ask the agent for more, judge its new result, and keep it unless there is an ``objection`` to it.

        Return the new result, if it was judged, and why it was not kept; the worktree is back at ``before`` then.
        """
        self._unfinished = before.head
        held: list[events.Event] = []
        new = None
        try:
            why = await self._host.attempt_again(request, reason)
            if why is None:
                head = await self._host.commit()
                if await self._tree_of(head) == await self._tree_of(before.head):
                    why = "the agent changed nothing"
                else:
                    await self._host.in_thread(self._new_folder)
                    emit = _holding(held, self._emit)
                    new = JudgedResult(head, await self._host.judge_commit(head, emit, sample, self._new_reports))
                    why = await objection(new)
        except UnderstudyError as error:
            why = error.message.rstrip(".")
        if new is None or why is not None:
            await self.restore()
            return new, why
        for event in held:
            self._emit(event)
        await self._host.keep(new)
        self._unfinished = None
        await self._host.in_thread(self._keep_reports)
        return new, None

    async def restore(self) -> None:
        """Reset the worktree to the result before the round that did not end, if there is one."""
        head, self._unfinished = self._unfinished, None
        if head is not None:
            with contextlib.suppress(UnderstudyError):  # the next check resets it, too
                await self._host.in_thread(self._reset, head, limit_seconds=_RESTORE_SECONDS)

    async def _why_not_repaired(self, before: JudgedResult, new: JudgedResult) -> str | None:
        """Return why the new result is not a step to a repair; None if it is."""
        passed = {check.name for check in before.judgement.results if check.required and check.ok}
        failing = repair_prompt.failed(new.judgement.results, self._recipe)
        broken = [check.name for check in failing if check.name in passed]
        if broken:
            return f"now {', '.join(broken)} fails"
        worse = in_order((set(new.judgement.reservations) - set(before.judgement.reservations)) & _DECEIVES)
        return f"it adds {', '.join(worse)}" if worse else None

    async def _why_not_stronger(self, before: JudgedResult, known: Noticed, new: JudgedResult) -> str | None:
        """Return why the tests of the new result are not better; None if they are."""
        (old, had), (verdict, has) = map(self._host.verdict_on, (before.judgement, new.judgement))
        if verdict is Verdict.CHECKS_FAILED:
            return "a check fails"
        worse = in_order(set(has) - set(had) - _BY_KILLS)
        if worse:
            return f"it adds {', '.join(worse)}"
        if _RANK.get(verdict, 0) < _RANK.get(old, 0):
            return f"the verdict would be {verdict}"
        seen = _noticed(new.judgement)
        if seen is None:
            return "its tests could not be judged in the same way"
        lost = seen.lost(known, await self._host.in_thread(self._changed, before.head, new.head))
        if lost:
            named = ", ".join(f"{one.path}:{one.line}" for one in lost[:_MOST_NAMED])
            return f"its tests no longer notice {len(lost)} of the changes before ({named})"
        return None if seen.gained(known) else "its tests notice nothing more"

    def _report(self, number: int, found: Noticed, why: str | None) -> None:
        kept = why is None
        self._emit(events.RoundJudged(number=number, killed=found.killed, viable=found.viable, kept=kept, why=why))

    def _changed(self, before: str, after: str) -> list[str]:
        """Return the changed paths, as mutants name them."""
        changes = self._worktree.judged().changed_paths(before, after)
        return [path_quoting.quote(os.fsencode(path)) for _, path in changes]

    def _new_folder(self) -> None:
        shutil.rmtree(self._new_reports, ignore_errors=True)
        self._new_reports.mkdir(mode=0o700)

    def _reset(self, head: str) -> None:
        shutil.rmtree(self._new_reports, ignore_errors=True)
        self._worktree.judged().materialise(head)

    def _keep_reports(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for file in self._new_reports.iterdir():
                file.replace(self._reports / file.name)
            self._new_reports.rmdir()

    async def _tree_of(self, commit: str) -> str:
        return await self._host.in_thread(self._worktree.tree_of, commit)


def _noticed(judgement: Judgement) -> Noticed | None:
    return noticed(check.mutation for check in judgement.results)


def _holding(held: list[events.Event], emit: Emit) -> Emit:
    """Return an ``emit`` that keeps results and notes back until it is known whether the result is kept."""

    def take(event: events.Event) -> None:
        if isinstance(event, events.CheckStarted):
            emit(event)
        else:
            held.append(event)

    return take
