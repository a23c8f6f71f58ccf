"""Verdicts and reservations, each with the sentence that every frontend shows."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from understudy.model.remedies import Remedy
from understudy.model.wire import Wire


class Verdict(enum.StrEnum):
    """How a finished delegation ended: the first member whose rule applies (``judge.verdict_rules``)."""

    ANSWERED = "answered"
    """A text recipe answered."""
    VERIFIED = "verified"
    """At least one required check passed on exactly this result, and there is no reservation."""
    UNVERIFIED = "unverified"
    """There is a result, and a reason not to call it verified."""
    CHECKS_FAILED = "checks_failed"
    """A required check failed twice on the result and passes on the base."""
    NO_CHANGES = "no_changes"
    """The agent finished without changing anything."""
    FAILED = "failed"
    """The last attempt failed; partial work is kept."""
    CANCELLED = "cancelled"
    """A user stopped it; partial work is kept."""
    TIMED_OUT = "timed_out"
    """A time limit was reached; partial work is kept."""
    BUDGET_EXHAUSTED = "budget_exhausted"
    """A limit on tokens, turns or money was reached; partial work is kept."""
    INTERRUPTED = "interrupted"
    """Its worker process died; partial work is kept."""


class Reservation(enum.StrEnum):
    """A reason why a result is not verified. The list is closed."""

    NO_CHECKS = "no_checks"
    """No required check ran."""
    CHECKS_OUTDATED = "checks_outdated"
    """The result was edited after its checks ran."""
    NOT_MUTATION_TESTED = "not_mutation_tested"
    """Tests ran, and nothing shows that they can fail."""
    FLAKY = "flaky"
    """A check, or a new test in another order, time zone or hash seed, failed once and passed once on the same tree."""
    FAILS_ON_BASE = "fails_on_base"
    """A check fails on the result and failed before the work began."""
    CHECK_CHANGED = "check_changed"
    """A check passes only with changed files that decide what it does, or changed code behaves otherwise in tests."""
    TESTS_CHANGED = "tests_changed"
    """Earlier tests pass only with this result's edits, notice less because of them, or no longer run."""
    BASE_TESTS_DO_NOT_BUILD = "base_tests_do_not_build"
    """Earlier tests cannot be compiled or loaded with this result."""
    OUTSIDE_SCOPE = "outside_scope"
    """The result changes files that the recipe does not write, removes tests, or makes earlier tests notice less."""
    LOADED_CHECKOUT = "loaded_checkout"
    """A check loaded files of the user's checkout instead of the result."""
    TREE_CHANGED = "tree_changed"
    """After a run of a check, tracked files of its worktree differed from the commit."""
    NO_MUTANT_KILLED = "no_mutant_killed"
    """No new test fails on any of many small changes of the code under test."""
    FEW_MUTANTS_KILLED = "few_mutants_killed"
    """The tests notice too few of the small changes on lines that they execute."""
    LITTLE_EXECUTED = "little_executed"
    """The tests execute only a small part of the code under test."""
    CHANGE_NOT_TESTED = "change_not_tested"
    """No test notices some of the changed places."""
    PROBLEM_NOT_SHOWN = "problem_not_shown"
    """No test fails on the code of the base and passes on the result's, although the recipe repairs something."""
    LOOKS_AT_SOURCE = "looks_at_source"
    """A test fails when only a comment, or a value that nothing reads, is added to the code."""
    OUTSIDE_CHANGED = "outside_changed"
    """Files outside the worktree changed while the agent or a check ran, and no editor reported that it saved them."""
    NOT_ISOLATED = "not_isolated"
    """The agent ran in the user's checkout, without isolation, as ``launch.use_worktree`` says."""
    TAMPERED = "tampered"
    """The journal contained bytes that its worker did not write, or a check's report and its run disagree."""


DOUBTED = frozenset(
    {
        Reservation.FLAKY,
        Reservation.CHECK_CHANGED,
        Reservation.TESTS_CHANGED,
        Reservation.LOADED_CHECKOUT,
        Reservation.TREE_CHANGED,
        Reservation.LOOKS_AT_SOURCE,
        Reservation.TAMPERED,
    }
)
"""With one of these, what tests noticed cannot be relied on, whichever place it is about."""
OF_NEW_TESTS = frozenset(
    {
        Reservation.NOT_MUTATION_TESTED,
        Reservation.NO_MUTANT_KILLED,
        Reservation.FEW_MUTANTS_KILLED,
        Reservation.LITTLE_EXECUTED,
    }
)
"""With one of these, nothing or too little shows that new tests notice anything."""


class ReservationFact(Wire, kw_only=True):
    """What a reservation is about: one sentence with the files, lines, tests and counts."""

    reservation: Reservation
    text: str
    hint: str | None = None
    """What to do, as a sentence for the command line."""
    remedy: Remedy | None = None
    """The same for a button; then the checks can run again."""


VERDICTS: dict[Verdict, str] = {
    Verdict.ANSWERED: "the model answered",
    Verdict.VERIFIED: "a required check passed on exactly this result, and there is no reservation",
    Verdict.UNVERIFIED: "there is a result, but check it before you rely on it",
    Verdict.CHECKS_FAILED: "a required check fails on the result and passes without it",
    Verdict.NO_CHANGES: "the agent finished without changing anything",
    Verdict.FAILED: "an error ended the work",
    Verdict.CANCELLED: "stopped on request",
    Verdict.TIMED_OUT: "a time limit was reached",
    Verdict.BUDGET_EXHAUSTED: "a limit on tokens, turns or money was reached",
    Verdict.INTERRUPTED: "its worker process died",
}
"""What a verdict means, without a full stop; ``text.delegation_text.meaning`` returns the cause instead, if known."""

RESERVATIONS: dict[Reservation, tuple[str, str]] = {
    Reservation.NO_CHECKS: (
        "no required check ran",
        "let one run, or add one (understudy checks add); then judge this result again: understudy check ID",
    ),
    Reservation.CHECKS_OUTDATED: (
        "the result was edited after the checks ran",
        "run them again: understudy check ID",
    ),
    Reservation.NOT_MUTATION_TESTED: (
        "nothing shows that the tests can fail",
        "read the tests: does each one assert something?",
    ),
    Reservation.FLAKY: (
        "a check failed once and passed once on the same tree",
        "run `understudy check ID` again, and look for what is random, or depends on order, time zone or date",
    ),
    Reservation.FAILS_ON_BASE: (
        "a check fails, and failed before the work began",
        "fix it first, then delegate again",
    ),
    Reservation.CHECK_CHANGED: (
        "a check passes only with changed files that decide what it does, or changed code behaves otherwise in tests",
        "read those files in the diff first",
    ),
    Reservation.TESTS_CHANGED: (
        "earlier tests pass only with this result's edits, or no longer run",
        "compare the changed tests with what you asked for; to confirm them, accept all: `understudy accept ID PATH`",
    ),
    Reservation.BASE_TESTS_DO_NOT_BUILD: (
        "earlier tests cannot be loaded with this result",
        "the usual cause is a changed name or signature: did you ask for that change?",
    ),
    Reservation.OUTSIDE_SCOPE: (
        "the result changes files that this recipe does not write, removes tests, or makes earlier tests notice less",
        "look at them in the diff",
    ),
    Reservation.LOADED_CHECKOUT: (
        "a check loaded files of your checkout instead of the result",
        "the files are listed below; the usual cause is an absolute path in the environment",
    ),
    Reservation.TREE_CHANGED: (
        "tracked files changed while a check ran",
        "the files are listed below: let the check write elsewhere, and look for a program that edits the worktree",
    ),
    Reservation.NO_MUTANT_KILLED: (
        "no new test notices any wrong value",
        "these tests prove nothing: ask for tests that compare results with what they should be",
    ),
    Reservation.FEW_MUTANTS_KILLED: (
        "the tests notice few of the small changes that were made to the code",
        "read the changes that they missed in `understudy show ID`, and ask for tests that notice them",
    ),
    Reservation.LITTLE_EXECUTED: (
        "the tests execute only a small part of the code under test",
        "ask for tests of the rest, or accept them as a beginning",
    ),
    Reservation.CHANGE_NOT_TESTED: (
        "no test notices some of the changed places",
        "take the others with `understudy accept ID --verified`; read these, or ask for tests of them",
    ),
    Reservation.PROBLEM_NOT_SHOWN: (
        "no test fails on the code as it was and passes on the result",
        "ask for a test that fails without the fix, or try it yourself before you rely on it",
    ),
    Reservation.LOOKS_AT_SOURCE: (
        "a test fails when only the text of the code changes, not what it does",
        "it looks at the source instead of what the code does: read it before you rely on it",
    ),
    Reservation.OUTSIDE_CHANGED: (
        "files outside the worktree changed while the agent or a check ran",
        "you or the agent changed them: `understudy watch ID` names them, and how to see what a file was before",
    ),
    Reservation.NOT_ISOLATED: (
        "the agent ran in your checkout, without isolation",
        "its changes are in your files: read the diff, which may have your own, too; to undo all: understudy undo ID",
    ),
    Reservation.TAMPERED: (
        "a report was forged: the journal's, or that of a check",
        "`understudy watch ID` says which and what disagreed: read the diff with care, then delegate again",
    ),
}
"""Why a result is not verified, and what to do about it on the command line."""


def in_order(reservations: Iterable[Reservation]) -> list[Reservation]:
    """Return the reservations once each, in the order in which they are declared."""
    present = set(reservations)
    return [reservation for reservation in Reservation if reservation in present]


def check_outcome(ok: bool, reservations: Sequence[Reservation]) -> str:
    """Return how a check ended, and whether that was before the user edited the result."""
    word = "passed" if ok else "failed"
    return f"{word} before your edits" if Reservation.CHECKS_OUTDATED in reservations else word
