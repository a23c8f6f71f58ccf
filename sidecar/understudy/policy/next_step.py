"""Decide what follows an attempt: each rule answers from the history, and the first answer within the limits counts.

::

    fallback    after a failure that another delegator may not have: the next candidate, which continues the work
                unless the agent itself was the reason
    messages    the user said more while the agent worked: tell it, in its session
    repair      a required check fails: send the result back with the output
    strengthen  tests notice too little: send it back with what they do not notice
    escalate    where the route says so, a result that is not verified: the next candidate, from the best result so far
                if its checks pass, else from the base

Whatever the rules say, a run ends: it has a most of attempts, a time, a budget and a list of candidates. A result of an
agent that was sent back replaces the one before it, unless something speaks against it (``objection``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from understudy.model.config.delegators import Recipe
from understudy.model.delegation.delegations import Attempt
from understudy.model.errors import ErrorInfo, ErrorKind, class_of
from understudy.model.evidence.checks import CheckResult, Noticed
from understudy.model.verdicts import Reservation, Verdict, in_order
from understudy.policy.budget import Budget, Shortage

MAX_ATTEMPTS = 20
"""The most attempts of one delegation, whatever the rules say."""
_FAILS_AGAIN = frozenset(
    {
        *(ErrorKind.AUTH_FAILED, ErrorKind.QUOTA_EXHAUSTED, ErrorKind.TOOL_MISSING, ErrorKind.CONFIG_INVALID),
        *(ErrorKind.MODEL_NOT_FOUND, ErrorKind.TIMED_OUT, ErrorKind.BUDGET_EXHAUSTED, ErrorKind.CONTEXT_TOO_LONG),
    }
)
"""Failures that would happen again at once, whatever the user said."""
_AGENT_AT_FAULT = frozenset(
    {ErrorKind.TOOL_CRASHED, ErrorKind.TOOL_NO_RESULT, ErrorKind.MALFORMED_OUTPUT, ErrorKind.EMPTY_OUTPUT}
)
"""Failures after which nothing is known about the files: the next candidate begins again from the base."""
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
_RANK = {Verdict.VERIFIED: 2, Verdict.UNVERIFIED: 1}
_RANK_OF_CANDIDATES = {Verdict.VERIFIED: 3, Verdict.ANSWERED: 3, Verdict.UNVERIFIED: 2, Verdict.CHECKS_FAILED: 1}
_MOST_NAMED = 5


# -- what may follow -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Retry:
    """Try the same candidate again after a pause, in the same worktree."""

    wait_seconds: float = 0.0


@dataclass(frozen=True)
class NextCandidate:
    """Let the next candidate try at once: from the base, or from what the one before has made."""

    fresh: bool = True


class Request(Enum):
    """What an agent is asked for after its turn."""

    MESSAGES = auto()
    """What the user said meanwhile."""
    REPAIR = auto()
    """Required checks fail."""
    STRENGTHEN = auto()
    """Its tests should notice more."""


@dataclass(frozen=True, kw_only=True)
class SendBack:
    """Ask the agent for more, in its session and its worktree."""

    request: Request
    why: str
    """The reason of the attempt."""
    number: int = 1
    """How often that was asked for, with this one."""

    @property
    def improves(self) -> bool:
        """Return whether the result is replaced only by a better one."""
        return self.request is not Request.MESSAGES


@dataclass(frozen=True)
class Stop:
    """End the run with what there is."""

    instead_of: SendBack | None = None
    """What would have followed, but for ``why``."""
    why: str | None = None


Step = Retry | NextCandidate | SendBack
"""What leads to an attempt; the first one is a ``NextCandidate``, too."""


Decision = Step | Stop


# -- what happened -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failed:
    """The agent did not finish."""

    error: ErrorInfo


@dataclass(frozen=True)
class Unheard:
    """The agent finished, and did not get what the user said meanwhile; its result was not judged."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known about a result."""

    verdict: Verdict
    """How the delegation would end with it."""
    reservations: Sequence[Reservation] = ()
    checks: Sequence[CheckResult] = ()
    noticed: Noticed | None = None
    """What its tests notice; None: they were not mutation-tested."""
    tested: frozenset[tuple[str, str]] = frozenset()
    """The changed functions, as path and name, of which tests notice every changed place."""
    untested: frozenset[tuple[str, str]] = frozenset()
    """The others that further tests could show."""
    worth_asking: bool = False
    """Whether there is something to show to an agent that its tests do not notice."""


@dataclass(frozen=True)
class Judged:
    """The agent finished, and its result was judged."""

    evidence: Evidence | None
    """None: that was not possible, or not necessary, as the objection says."""
    objection: str | None = None
    """Why the result before was kept; None: this one was."""


@dataclass(frozen=True)
class Try:
    """One attempt, why it was made, and its end."""

    step: Step
    outcome: Failed | Unheard | Judged


@dataclass(frozen=True, kw_only=True)
class History:
    """Everything that decides what follows."""

    tries: Sequence[Try]
    """At least one."""
    attempts: Sequence[Attempt]
    """As the journal has them."""
    clock: float
    """In seconds since 1970."""
    budget: Budget
    """Of the candidate that tried last, with what all attempts spent."""
    recipe: Recipe
    repairs: int
    """How often a repair may be asked for."""
    rounds: int
    """How often stronger tests may be asked for."""
    followers: bool
    """Whether a further candidate can be tried."""
    escalates: bool = False
    """Whether further candidates try until a result is verified."""
    hands_over: bool = False
    """Whether the next candidate may continue the files of the last one."""
    waiting: bool = False
    """Whether the user said something that no agent got."""
    can_continue: bool = False
    """Whether the last agent can be asked for more in its session."""
    kept: Evidence | None = None
    """That of the result so far; None: none yet."""

    @property
    def last(self) -> Try:
        """Return the attempt that ended last."""
        return self.tries[-1]

    @property
    def failure(self) -> ErrorInfo | None:
        """Return why the last attempt failed; None if it did not."""
        return self.last.outcome.error if isinstance(self.last.outcome, Failed) else None

    @property
    def is_settled(self) -> bool:
        """Return whether a result was judged last."""
        return isinstance(self.last.outcome, Judged)

    def asked(self, request: Request) -> list[Try]:
        """Return the attempts that were asked for this."""
        return [tried for tried in self.tries if isinstance(tried.step, SendBack) and tried.step.request is request]

    def failing(self) -> list[CheckResult]:
        """Return the checks that fail on the result so far, see ``failing_checks``."""
        return failing_checks(self.kept.checks, self.recipe) if self.kept is not None else []


def failing_checks(checks: Iterable[CheckResult], recipe: Recipe) -> list[CheckResult]:
    """Return the required checks that fail and that the recipe should make pass.

    A check that failed before the work began may be the bug that is to be fixed, unless the recipe changes no code.
    """
    failing = [check for check in checks if check.required and not check.ok]
    return failing if recipe.changes == "code" else [check for check in failing if not check.fails_on_base]


# -- the rules -----------------------------------------------------------------------------------------------------


Rule = Callable[[History], Decision | None]
"""Returns what should follow, or None where it has nothing to say."""


def fallback(history: History) -> Decision | None:
    """Return the next candidate after a failure that another delegator may not have.

    It continues the work of the last one, if the account, the server or a limit of that one was the reason. The same
    candidate is never tried again: backends and agents have made their own retries before they failed.
    """
    if history.failure is None or _improves(history.last):
        return None
    fresh = not history.hands_over or history.failure.kind in _AGENT_AT_FAULT
    return NextCandidate(fresh) if class_of(history.failure.kind) is not None else None


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
    if history.escalates and kept.verdict is Verdict.VERIFIED:
        return None  # that is what was asked for
    if not _may_repeat(before, history.rounds):
        return None
    return SendBack(request=Request.STRENGTHEN, why="its tests should notice more", number=len(before) + 1)


def escalate(history: History) -> Decision | None:
    """Let the next candidate try while no result is verified; one whose checks pass is improved, another one is not."""
    if not history.escalates or not history.is_settled or history.kept is None:
        return None
    if history.kept.verdict in {Verdict.VERIFIED, Verdict.ANSWERED}:
        return None
    return NextCandidate(fresh=history.kept.verdict is not Verdict.UNVERIFIED or not history.hands_over)


RULES: Sequence[Rule] = (fallback, messages, repair, strengthen, escalate)


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


# -- which result is kept ------------------------------------------------------------------------------------------


def objection(
    step: Step, before: Evidence, new: Evidence, *, failing: Sequence[str], changed: Sequence[str]
) -> str | None:
    """Return why the new result is not kept; None if it is better in the way that ``step`` was meant to make it.

    ``failing`` are the names of the new result's failing checks, ``changed`` the paths in which the results differ, as
    mutants name them.
    """
    if not isinstance(step, SendBack):
        return _why_not_better(before, new)
    if step.request is Request.STRENGTHEN:
        return _why_not_stronger(before, new, changed)
    return _why_not_repaired(before, new, failing)


def _why_not_better(before: Evidence, new: Evidence) -> str | None:
    """Return why the result of another candidate is not better: by its verdict, then by what its tests notice."""
    ranks = _RANK_OF_CANDIDATES.get(before.verdict, 0), _RANK_OF_CANDIDATES.get(new.verdict, 0)
    if ranks[1] > ranks[0]:
        return None
    if ranks[1] < ranks[0] or new.verdict is not Verdict.UNVERIFIED:
        return f"it is {new.verdict}, and the one before is {before.verdict}"
    worse = in_order(set(new.reservations) - set(before.reservations) - _BY_KILLS)
    if worse:
        return f"it adds {', '.join(worse)}"
    return None if _shortfall(new) < _shortfall(before) else "its tests notice no more than those before"


def _shortfall(evidence: Evidence) -> tuple[float, int]:
    """Return how much is not noticed: the share of small changes, then the number of functions without tests."""
    noticed = evidence.noticed
    share = 1 - noticed.killed / noticed.viable if noticed is not None and noticed.viable else 1.0
    return share, len(evidence.untested)


def _why_not_repaired(before: Evidence, new: Evidence, failing: Sequence[str]) -> str | None:
    """Return why the new result is not a step to a repair."""
    passed = {check.name for check in before.checks if check.required and check.ok}
    broken = [name for name in failing if name in passed]
    if broken:
        return f"now {', '.join(broken)} fails"
    worse = in_order((set(new.reservations) - set(before.reservations)) & _DECEIVES)
    return f"it adds {', '.join(worse)}" if worse else None


def _why_not_stronger(before: Evidence, new: Evidence, changed: Sequence[str]) -> str | None:
    """Return why the tests of the new result are not better."""
    if new.verdict is Verdict.CHECKS_FAILED:
        return "a check fails"
    worse = in_order(set(new.reservations) - set(before.reservations) - _BY_KILLS)
    if worse:
        return f"it adds {', '.join(worse)}"
    if _RANK.get(new.verdict, 0) < _RANK.get(before.verdict, 0):
        return f"the verdict would be {new.verdict}"
    more_places = bool(before.untested & new.tested) and not before.tested & new.untested
    if new.noticed is None or before.noticed is None:
        return None if more_places else "its tests could not be judged in the same way"
    lost = new.noticed.lost(before.noticed, changed)
    if lost:
        named = ", ".join(f"{mutant.path}:{mutant.line}" for mutant in lost[:_MOST_NAMED])
        return f"its tests no longer notice {len(lost)} of the changes before ({named})"
    return None if more_places or new.noticed.gained(before.noticed) else "its tests notice nothing more"
