"""Decide what follows an attempt: each rule answers from the history, and the first answer within the limits counts.

::

    fallback    after a failure that another delegator may not have: the next candidate, from the base
    messages    the user said more while the agent worked: tell it, in its session
    repair      a required check fails: send the result back with the output
    strengthen  tests notice too little: send it back with what they do not notice

Whatever the rules say, a run ends: it has a most of attempts, a time, a budget and a list of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.model.errors import ErrorKind, class_of
from understudy.policy.budget import Shortage
from understudy.policy.history import (
    Decision,
    History,
    Judged,
    NextCandidate,
    Request,
    Retry,
    SendBack,
    Stop,
    Try,
)

MAX_ATTEMPTS = 20
"""The most attempts of one delegation, whatever the rules say."""

_FAILS_AGAIN = frozenset(
    {
        *(ErrorKind.AUTH_FAILED, ErrorKind.QUOTA_EXHAUSTED, ErrorKind.TOOL_MISSING, ErrorKind.CONFIG_INVALID),
        *(ErrorKind.MODEL_NOT_FOUND, ErrorKind.TIMED_OUT, ErrorKind.BUDGET_EXHAUSTED, ErrorKind.CONTEXT_TOO_LONG),
    }
)
"""Failures that would happen again at once, whatever the user said."""

Rule = Callable[[History], Decision | None]
"""Returns what should follow, or None where it has nothing to say."""


def fallback(history: History) -> Decision | None:
    """Return the next candidate after a failure that another delegator may not have.

    The same candidate is never tried again: backends and agents have made their own retries before they failed.
    """
    if history.failure is None or _improves(history.last):
        return None
    return NextCandidate() if class_of(history.failure.kind) is not None else None


def messages(history: History) -> Decision | None:
    """Let the agent hear what the user said meanwhile, unless it would fail again."""
    if history.is_settled or _improves(history.last) or not (history.waiting and history.can_continue):
        return None
    if history.failure is not None and history.failure.kind in _FAILS_AGAIN:
        return None
    return SendBack(request=Request.MESSAGES, why="the user said more")


def repair(history: History) -> Decision | None:
    """Ask for a repair while a required check fails, as often as was asked for, until a repair is not kept."""
    before, failing = history.asked(Request.REPAIR), history.failing()
    if not history.is_settled or not failing or not _may_repeat(before, history.repairs):
        return None
    names = ", ".join(check.name for check in failing)
    why = f"the check {names} failed" if len(failing) == 1 else f"the checks {names} failed"
    return SendBack(request=Request.REPAIR, why=why, number=len(before) + 1)


def strengthen(history: History) -> Decision | None:
    """Ask for tests that notice more, as often as was asked for, until a round brings nothing."""
    before, kept = history.asked(Request.STRENGTHEN), history.kept
    if not history.is_settled or history.failing() or kept is None or not kept.worth_asking:
        return None
    if not _may_repeat(before, history.rounds):
        return None
    return SendBack(request=Request.STRENGTHEN, why="its tests should notice more", number=len(before) + 1)


RULES: Sequence[Rule] = (fallback, messages, repair, strengthen)


def next_step(history: History, rules: Sequence[Rule] = RULES) -> Decision:
    """Return what follows: the first answer of a rule that the limits allow, else the end."""
    for rule in rules:
        decision = rule(history)
        allowed = _within_limits(history, decision) if decision is not None else None
        if allowed is not None:
            return allowed
    return Stop()


def begins_rounds(history: History) -> bool:
    """Return whether the result so far is the one that rounds start from."""
    measured = history.kept is not None and history.kept.noticed is not None
    unasked = not history.asked(Request.STRENGTHEN)
    return bool(history.rounds and history.is_settled and measured and unasked and not history.failing())


def needs_fresh_sample(history: History) -> bool:
    """Return whether the result was improved for a sample of mutants, which its agent has seen."""
    improved = any(map(_is_kept, history.asked(Request.STRENGTHEN)))
    return improved and history.kept is not None and history.kept.noticed is not None and history.kept.noticed.sampled


def _within_limits(history: History, decision: Decision) -> Decision | None:
    """Return the decision if it can be carried out; for an improvement that cannot, why the run ends; else None."""
    if isinstance(decision, Stop):
        return decision
    improves = isinstance(decision, SendBack) and decision.improves
    if len(history.tries) >= MAX_ATTEMPTS:
        why: str | None = "the delegation had too many attempts"
    elif isinstance(decision, NextCandidate):  # it has limits of its own
        return decision if history.followers else None
    else:
        reserved = history.budget.reserve()
        why = reserved.why if isinstance(reserved, Shortage) else None
    if isinstance(decision, SendBack) and improves and why is not None:
        return Stop(decision, why)
    left = history.budget.seconds_left
    if isinstance(decision, Retry) and left is not None and left <= decision.wait_seconds:
        return None
    return decision if why is None else None


def _may_repeat(before: Sequence[Try], most: int) -> bool:
    return len(before) < most and all(map(_is_kept, before))


def _is_kept(tried: Try) -> bool:
    return isinstance(tried.outcome, Judged) and tried.outcome.objection is None


def _improves(tried: Try) -> bool:
    return isinstance(tried.step, SendBack) and tried.step.improves
