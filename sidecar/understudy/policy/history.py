"""What happened in a run, and what may follow: the values that a policy reads, and those that it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from understudy.model.config.delegators import Recipe
from understudy.model.delegation.delegations import Attempt
from understudy.model.errors import ErrorInfo
from understudy.model.evidence.checks import CheckResult, Noticed
from understudy.model.verdicts import Reservation, Verdict
from understudy.policy.budget import Budget

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
