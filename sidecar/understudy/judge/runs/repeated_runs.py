"""Run a check again: new tests in other circumstances, and every check once without the probe.

New tests run in fresh processes, in another order, with another hash seed, at another time zone: a test that passes
once and fails once is flaky. The zones are 26 hours apart, so that in at least one run the local date differs from the
first run's. In Python, where the machine has libfaketime, one run is a year later: a test may pass only until New Year.
If a probe reported the first run, the last one is without it, so Python tests have their own order there.

A run without the probe must agree with what the probe reported in exit code and counts. A disagreement is repeated,
with and without the probe, so that a flaky check is not mistaken for one that deceives.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.judge.outcomes.observations import Counts
from understudy.judge.runs.check_run import CheckOutcome, Variation, faketime
from understudy.judge.runs.judged_tree import JudgedTree
from understudy.judge.runs.runner_registry import PreparedCheck

RUNS = 3
"""Runs besides the first one. A test that fails half the time passes all four in one of sixteen judgements."""
LEAST_BUDGET_SECONDS = 60.0
BUDGET_FACTOR = 5.0
"""All runs together take at most ``LEAST_BUDGET_SECONDS``, or this many times as long as the first run."""
LONGEST_CHECK_SECONDS = 600.0
"""A check that takes longer is not repeated."""

_MOST_NAMES = 10
_A_YEAR = 366
_LATER_RUN = 1
"""The number of the run that is a year later, from 0."""

_ZONES = (("Etc/GMT-14", "<+14>-14"), ("Etc/GMT+12", "<-12>12"), ("Asia/Kathmandu", "<+0545>-5:45"))
"""Names, and the same as a POSIX rule for machines without a time zone database."""
_DATABASE = Path("/usr/share/zoneinfo")


@dataclass(frozen=True, kw_only=True)
class SteadyRuns:
    """What the further runs showed."""

    failed: frozenset[str] = frozenset()
    """Ids of tests that failed in one of them."""
    red: tuple[str, ...] = ()
    """One description per run that failed."""
    skipped: str = ""
    """Why fewer than ``RUNS`` runs were made; empty if all were."""
    seconds: float = 0.0
    variation: Variation | None = None
    """The circumstances of the first run that failed."""
    notes: tuple[str, ...] = ()
    """Messages for the user."""
    tampered: str = ""
    """How the run without the probe disagreed; empty if it agreed."""


Run = Callable[[Variation, bool], Awaitable[CheckOutcome]]
"""Runs the check in the given circumstances; True leaves the probe out."""


def variations(seed: str, *, later: bool = False) -> list[Variation]:
    """Return the circumstances of the runs; the same seed (the id of the judged tree) gives the same ones.

    ``later`` lets one of them be a year later. Not every program can bear that: the compiler of Rust never ends.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, and not a secret
    circumstances = []
    for number, (zone, rule) in enumerate(_ZONES[:RUNS]):
        order = chance.randrange(1, 1 << 31)
        circumstances.append(
            Variation(
                order="reversed" if number == 0 else f"shuffled:{order}",
                order_seed=order,
                hash_seed=chance.randrange(1, 1 << 32),
                time_zone=zone if (_DATABASE / zone).exists() else rule,
                days=_A_YEAR if later and number == _LATER_RUN and faketime() else 0,
            )
        )
    return circumstances


async def run_again(
    once: Callable[[PreparedCheck, str, Variation, bool], Awaitable[CheckOutcome]],
    *,
    plan: PreparedCheck,
    first: CheckOutcome,
    tree: JudgedTree,
    commits: tuple[str, str],
    before: frozenset[str],
) -> SteadyRuns:
    """Run the check ``plan`` on the result until a run fails; ``first`` is the run that passed.

    ``once`` runs a check on a commit, and leaves the probe out if its last argument is true. ``commits`` are base and
    result, ``before`` the tests of the base. A run in which only tests of the base fail says nothing if they fail in
    the same circumstances on the base.
    """
    base, head = commits
    seed = await asyncio.to_thread(tree.tree_of, head)
    planned = variations(seed, later=all(test.endswith(".py") for test in plan.tests))
    run: Run = lambda variation, bare: once(plan, head, variation, bare)  # noqa: E731
    confirms = plan.check.required and needs_confirmation(first)
    steady = await _until_red(run, first, planned[:-1] if confirms else planned)
    if confirms and not steady.red:
        steady = await _confirmed(run, first, planned[-1], steady)
    notes = (f"The new tests of {plan.check.name} were not all run again: {steady.skipped}.",) if steady.skipped else ()
    if steady.variation is not None and steady.failed and steady.failed <= before:
        existing = await asyncio.to_thread(
            lambda: tuple(test for test in plan.tests if tree.read(base, test) is not None)
        )
        earlier = await once(dataclasses.replace(plan, tests=existing), base, steady.variation, False)
        seconds = steady.seconds + earlier.seconds
        if steady.failed <= set(earlier.failed_tests):
            shown = ", ".join(sorted(steady.failed)[:_MOST_NAMES])
            note = f"Earlier tests fail {describe(steady.variation)}, with and without this result: {shown}."
            return SteadyRuns(notes=(*notes, note), seconds=seconds)
        steady = dataclasses.replace(steady, seconds=seconds)
    if steady.red:
        notes = (*notes, f"The new tests of {plan.check.name} failed {steady.red[0]}.")
    return dataclasses.replace(steady, notes=notes)


async def _until_red(run: Run, first: CheckOutcome, among: Sequence[Variation]) -> SteadyRuns:
    if first.seconds > LONGEST_CHECK_SECONDS:
        return SteadyRuns(skipped=f"one run takes {first.seconds:.0f} s")
    budget = max(LEAST_BUDGET_SECONDS, BUDGET_FACTOR * first.seconds)
    spent = 0.0
    for number, planned in enumerate(among):
        if spent + first.seconds > budget:
            return SteadyRuns(skipped=f"{number} of {len(among)} runs took {spent:.0f} s", seconds=spent)
        variation = planned
        outcome = await run(variation, False)
        spent += outcome.seconds
        if not outcome.green and not outcome.failed_tests and variation.order_option:
            # The runner may not know the option that changes the order.
            variation = dataclasses.replace(variation, order_option=False)
            outcome = await run(variation, False)
            spent += outcome.seconds
        if not outcome.green:
            return SteadyRuns(
                failed=frozenset(outcome.failed_tests), red=(describe(variation),), seconds=spent, variation=variation
            )
    return SteadyRuns(seconds=spent)


async def _confirmed(run: Run, first: CheckOutcome, variation: Variation, steady: SteadyRuns) -> SteadyRuns:
    """Add the run without the probe to ``steady``; it is never skipped, because the verdict depends on it."""
    confirmed = await confirm(lambda bare: run(variation, bare), first)
    steady = dataclasses.replace(steady, seconds=steady.seconds + confirmed.seconds, tampered=confirmed.tampered)
    if not confirmed.flaky:
        return steady
    where = f"in a further run, with PYTHONHASHSEED={variation.hash_seed} TZ={variation.time_zone}"
    return dataclasses.replace(steady, failed=confirmed.failed, red=(where,), variation=variation)


def describe(variation: Variation) -> str:
    """Return the circumstances of a run as text, with what it takes to repeat it."""
    order = "in reverse order" if variation.order == "reversed" else "in another order"
    later = f" FAKETIME=+{variation.days}d" if variation.days else ""
    return f"{order}, with PYTHONHASHSEED={variation.hash_seed} TZ={variation.time_zone}{later}"


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What runs without the probe showed; nothing if the first one agreed."""

    tampered: str = ""
    """What disagreed in two runs without the probe: the rest of a sentence."""
    flaky: bool = False
    failed: frozenset[str] = frozenset()
    """Ids of tests that failed, as far as the runs name them."""
    seconds: float = 0.0


def needs_confirmation(green: CheckOutcome) -> bool:
    """Return whether a probe took part in this run."""
    return green.green and (green.report.started > 0 or green.report.node)


async def confirm(run: Callable[[bool], Awaitable[CheckOutcome]], first: CheckOutcome) -> Confirmation:
    """Compare ``first``, which passed, with a run without the probe; ``run(True)`` leaves the probe out."""
    if not needs_confirmation(first):
        return Confirmation()
    bare = await run(True)
    seconds = bare.seconds
    if not disagreement(first, bare):
        return Confirmation(seconds=seconds)
    probed = await run(False)
    seconds += probed.seconds
    if not probed.green:
        return Confirmation(flaky=True, failed=frozenset(probed.failed_tests), seconds=seconds)
    if not disagreement(probed, bare):
        return Confirmation(seconds=seconds)  # other circumstances than in the first run, where fewer tests apply
    again = await run(True)
    seconds += again.seconds
    text = disagreement(probed, again)
    failed = frozenset(bare.failed_tests) if not text else frozenset[str]()
    return Confirmation(tampered=text, flaky=not text, failed=failed, seconds=seconds)


def disagreement(probed: CheckOutcome, bare: CheckOutcome) -> str:
    """Return how a run without the probe differs from a green one with it; an empty text if it does not."""
    if bare.timed_out:
        return "it did not finish in time"
    if not bare.green:
        return f"its exit code is {bare.code} instead of 0"
    if probed.printed is None:
        return ""
    if bare.printed is None:
        return "it printed no summary of its tests"
    if bare.printed != probed.printed:
        return f"it printed {_text(bare.printed)} instead of {_text(probed.printed)}"
    if probed.report.started == 1 and probed.report.claimed > bare.printed.passed:
        return f"it printed {_text(bare.printed)}, but {probed.report.claimed} were reported as passed"
    return ""


def _text(counts: Counts) -> str:
    return f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
