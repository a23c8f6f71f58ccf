"""The exit codes: the one list that the commands, their help and the tests use."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """What the exit code of ``understudy`` says."""

    OK = 0
    UNVERIFIED = 1
    USAGE = 2
    CHECKS_FAILED = 3
    NO_CHANGES = 4
    FAILED = 5
    LIMIT = 6
    INTERRUPTED = 7
    ERROR = 8
    NOT_FINISHED = 9
    CONFLICTS = 10
    CANCELLED = 130
    PIPE_CLOSED = 141


MEANING: dict[Exit, str] = {
    Exit.OK: "verified, or answered; for other commands: done",
    Exit.UNVERIFIED: "a result that is not verified; doctor, test, probe: something is wrong",
    Exit.USAGE: "the command was not understood",
    Exit.CHECKS_FAILED: "a required check fails on the result",
    Exit.NO_CHANGES: "the agent ended well and changed nothing",
    Exit.FAILED: "the agent failed",
    Exit.LIMIT: "a limit on time, turns, tokens or money was reached",
    Exit.INTERRUPTED: "the worker died; what it left is kept",
    Exit.ERROR: "an error, no run: see the message",
    Exit.NOT_FINISHED: "`wait --timeout` passed and it still runs",
    Exit.CONFLICTS: "accept, review: hunks do not merge and stay undecided",
    Exit.CANCELLED: "cancelled, or stopped with Ctrl-C",
    Exit.PIPE_CLOSED: "the reader of the output went away",
}

_BY_VERDICT: dict[str, Exit] = {
    "answered": Exit.OK,
    "verified": Exit.OK,
    "unverified": Exit.UNVERIFIED,
    "checks_failed": Exit.CHECKS_FAILED,
    "no_changes": Exit.NO_CHANGES,
    "failed": Exit.FAILED,
    "cancelled": Exit.CANCELLED,
    "timed_out": Exit.LIMIT,
    "budget_exhausted": Exit.LIMIT,
    "interrupted": Exit.INTERRUPTED,
}


def of_verdict(verdict: str | None) -> Exit:
    """Return the exit code for a verdict; None (not finished) is ``NOT_FINISHED``."""
    return Exit.NOT_FINISHED if verdict is None else _BY_VERDICT[verdict]


def table() -> str:
    """Return the exit codes as lines for a help page."""
    return "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in MEANING.items())
