"""Verdicts and reservations in words, the same in every face."""

from __future__ import annotations

from understudy.model.delegations import Delegation
from understudy.model.states import Reservation, Verdict

VERDICTS: dict[Verdict, str] = {
    Verdict.ANSWERED: "the model answered",
    Verdict.VERIFIED: "a required check passed on exactly this result, and nothing speaks against it",
    Verdict.UNVERIFIED: "there is a result, and a reason not to rely on it without looking",
    Verdict.CHECKS_FAILED: "a required check fails on the result and passes without it",
    Verdict.NO_CHANGES: "the agent ended well and changed nothing",
    Verdict.FAILED: "it came to nothing; what it left is kept",
    Verdict.CANCELLED: "stopped on request; what was done is kept",
    Verdict.TIMED_OUT: "a time limit passed; what was done is kept",
    Verdict.BUDGET_EXHAUSTED: "a limit on tokens, turns or money was reached; what was done is kept",
    Verdict.INTERRUPTED: "its worker died; what was done is kept",
}
"""What a verdict means."""
RESERVATIONS: dict[Reservation, tuple[str, str]] = {
    Reservation.NO_CHECKS: ("no required check ran", "configure one under [[checks]], or name one with --check"),
    Reservation.NO_CONTROL: (
        "nothing shows that the new tests can fail",
        "read the tests: does each one assert something?",
    ),
    Reservation.FLAKY: (
        "a check was red once and green once on the same tree",
        "run `understudy check ID` again, and look for what is random",
    ),
    Reservation.FAILS_ON_BASE: (
        "a check is red, and was red before the work began",
        "repair it first, then delegate again",
    ),
    Reservation.CHECK_CHANGED: (
        "the result changes a file that decides what a check does",
        "read that file in the diff first",
    ),
    Reservation.OUTSIDE_SCOPE: (
        "the result touches files that this recipe does not write, or removes tests",
        "look at those files in the diff",
    ),
    Reservation.WRONG_TREE: (
        "a check loaded files of your checkout instead of the result",
        "the files are listed below; an absolute path in the environment is the usual cause",
    ),
    Reservation.NOTHING_BITTEN: (
        "with the code under test broken on purpose, every new test still passes",
        "these tests prove nothing: ask for ones that fail when the code is wrong",
    ),
    Reservation.TAMPERED: (
        "the journal held lines that its worker did not write; they were cut out",
        "something in the tree tries to forge results: read the diff with care",
    ),
}
"""What speaks against a result, and what to do about it on the command line."""


def verdict(delegation: Delegation) -> str:
    """Return how a delegation ended as a sentence without its full stop: the verdict, and every reservation."""
    if delegation.verdict is None:
        return "not finished yet"
    name = delegation.verdict.replace("_", " ")
    because = "; ".join(RESERVATIONS[reservation][0] for reservation in delegation.reservations)
    return f"{name}: {because or VERDICTS[delegation.verdict]}"
