"""How a delegation moves, and what can be said of it at the end.

.. code-block:: text

    preparing ─► queued ─► running ⇄ waiting ─► checking ─► finished
        └───────────────────►┘                                  ▲
        any state before the end ───────────────────────────────┘
"""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """Where a delegation is."""

    PREPARING = "preparing"
    """Its base and its tree are being made."""
    QUEUED = "queued"
    """It waits for a slot; no process belongs to it."""
    RUNNING = "running"
    """An attempt is at work."""
    WAITING = "waiting"
    """An attempt asked a person and waits for the answer."""
    CHECKING = "checking"
    """No agent process lives any more; the result is being checked."""
    FINISHED = "finished"
    """It has a verdict. Nothing runs; decisions may still be recorded."""


TRANSITIONS: dict[State, frozenset[State]] = {
    State.PREPARING: frozenset({State.QUEUED, State.RUNNING, State.FINISHED}),
    State.QUEUED: frozenset({State.PREPARING, State.RUNNING, State.FINISHED}),
    State.RUNNING: frozenset({State.RUNNING, State.WAITING, State.CHECKING, State.FINISHED}),
    State.WAITING: frozenset({State.RUNNING, State.CHECKING, State.FINISHED}),
    State.CHECKING: frozenset({State.CHECKING, State.RUNNING, State.FINISHED}),
    State.FINISHED: frozenset({State.FINISHED, State.CHECKING}),
}
"""The legal moves. ``finished → checking → finished`` is ``delegations/check``: the same tree, judged again."""

NEEDS_HOLDER: frozenset[State] = frozenset({State.PREPARING, State.RUNNING, State.WAITING, State.CHECKING})
"""States in which a live process must hold the folder's lock; a free lock there means that its worker died."""


class Verdict(enum.StrEnum):
    """What a finished delegation came to: of the rules below, the first that fits."""

    ANSWERED = "answered"
    """A text recipe answered."""
    VERIFIED = "verified"
    """At least one required check passed on exactly this result, and there is no reservation."""
    UNVERIFIED = "unverified"
    """There is a result, and a reason not to call it verified."""
    CHECKS_FAILED = "checks_failed"
    """A required check failed twice on the result and passes on the base."""
    NO_CHANGES = "no_changes"
    """The agent ended well and changed nothing."""
    FAILED = "failed"
    """The last attempt failed; what it left is kept."""
    CANCELLED = "cancelled"
    """A person stopped it; what it left is kept."""
    TIMED_OUT = "timed_out"
    """A time limit passed; what it left is kept."""
    BUDGET_EXHAUSTED = "budget_exhausted"
    """A limit on tokens, turns or money was reached; what it left is kept."""
    INTERRUPTED = "interrupted"
    """Its worker was gone; what it left is kept."""


class Reservation(enum.StrEnum):
    """A reason why a result is not called verified. The list is closed."""

    NO_CHECKS = "no_checks"
    """No required check ran."""
    NO_CONTROL = "no_control"
    """New tests ran, and nothing shows that they can fail."""
    FLAKY = "flaky"
    """A check was red once and green once on the same tree."""
    FAILS_ON_BASE = "fails_on_base"
    """A check is red on the result and was red before the work began."""
    CHECK_CHANGED = "check_changed"
    """The result changes a file that configures a check."""
    OUTSIDE_SCOPE = "outside_scope"
    """The result touches files that the recipe does not write, or removes tests."""
    WRONG_TREE = "wrong_tree"
    """A check loaded files of the user's checkout instead of the result."""
    NOTHING_BITTEN = "nothing_bitten"
    """With the code under test broken on purpose, every new test still passes."""
    TAMPERED = "tampered"
    """The journal held bytes that its worker did not write."""
