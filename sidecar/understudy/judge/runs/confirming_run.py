"""Run a check once more without the probe, and compare exit code and counts with what the probe reported.

Only a check that passed because of a probe's report needs it. A disagreement is repeated, with and without the probe,
so that a flaky check is not mistaken for one that deceives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from understudy.judge.outcomes.runner_reports import Counts
from understudy.judge.runs.check_run import CheckOutcome


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What the runs showed; nothing if the first one agreed."""

    tampered: str = ""
    """What disagreed in two runs without the probe: the rest of a sentence."""
    flaky: bool = False
    failed: frozenset[str] = frozenset()
    """Ids of tests that failed, as far as the runs name them."""
    seconds: float = 0.0


def is_needed(green: CheckOutcome) -> bool:
    """Return whether a probe took part in this run."""
    return green.green and (green.report.started > 0 or green.report.node)


async def confirm(run: Callable[[bool], Awaitable[CheckOutcome]], first: CheckOutcome) -> Confirmation:
    """Compare ``first``, which passed, with a run without the probe; ``run(True)`` leaves the probe out."""
    if not is_needed(first):
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
