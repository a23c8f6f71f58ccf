"""Exit codes and their meaning."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """The exit code of ``understudy``."""

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
    Exit.OK: "verified or answered; other commands: success",
    Exit.UNVERIFIED: "the result is not verified; doctor, test: a problem was found",
    Exit.USAGE: "invalid command or option",
    Exit.CHECKS_FAILED: "a required check failed on the result",
    Exit.NO_CHANGES: "the agent finished without changing anything",
    Exit.FAILED: "the last attempt failed; partial work is kept",
    Exit.LIMIT: "a limit on time, turns, tokens or cost was reached",
    Exit.INTERRUPTED: "the worker process died; partial work is kept",
    Exit.ERROR: "an error; see the message",
    Exit.NOT_FINISHED: "`wait --timeout` expired; a delegation is still running",
    Exit.CONFLICTS: "accept, review: hunks have conflicts and stay pending",
    Exit.CANCELLED: "cancelled, or stopped with Ctrl-C",
    Exit.PIPE_CLOSED: "the reader of the output closed it",
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
