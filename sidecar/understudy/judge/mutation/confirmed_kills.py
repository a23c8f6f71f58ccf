"""Run a check by its plain command on some killed mutants, which must make it fail, too.

Runs that count kills have circumstances of their own: chosen tests, one process for many runs, a probe. A test that
recognises these could fail only there.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from understudy.judge.injected.understudy_tree import CopiedTree
from understudy.judge.mutation.copies.mutant_result import MutantResult
from understudy.judge.mutation.runners import mutated_file
from understudy.judge.mutation.runners.check_mutants import limited
from understudy.judge.runs.check_run import CheckContext, PreparedCheck, run_once

_MOST_TRIED = 3
_SLOWER = 10.0
_LEAST_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class ConfirmedKills:
    """What the plain command showed."""

    unconfirmed: tuple[MutantResult, ...] = ()
    """Killed mutants on which it passed twice, if these are most of those tried."""
    seconds: float = 0.0


async def confirm_kills(
    plan: PreparedCheck, context: CheckContext, copied: CopiedTree, killed: Sequence[MutantResult], *, seconds: float
) -> ConfirmedKills:
    """Run the check on one of ``killed``, chosen at random, and on two more if it passes there.

    The tree of ``context`` is a copy in which mutants may be put in place. ``seconds`` is what a run of the check
    takes. More than one is tried because a test may fail on a mutant only without the tests that run before it.
    """
    check = limited(plan, max(_LEAST_SECONDS, _SLOWER * seconds))
    unconfirmed: list[MutantResult] = []
    confirmed, spent = 0, 0.0
    for result in random.SystemRandom().sample(killed, min(_MOST_TRIED, len(killed))):
        source = await asyncio.to_thread(mutated_file.read, context.tree, result.path)
        with mutated_file.in_place(context.tree, result.path, result.mutant.apply(source)):
            passed = True
            for _ in range(2):  # a flaky test may pass once
                if passed:
                    outcome = await run_once(check, context, bare=True)
                    spent += outcome.seconds
                    passed = outcome.green
        await asyncio.to_thread(copied.reset)
        confirmed += not passed
        if passed:
            unconfirmed.append(result)
        if confirmed > len(unconfirmed) or len(unconfirmed) > 1:
            break
    return ConfirmedKills(unconfirmed=tuple(unconfirmed) if len(unconfirmed) > confirmed else (), seconds=spent)
