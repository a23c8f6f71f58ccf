"""Exit codes and their meaning."""

from __future__ import annotations

import enum
from typing import Self


class Exit(enum.IntEnum):
    """The exit code of ``understudy``, with its meaning."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        """Keep the meaning beside the number."""
        member = int.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    OK = 0, "verified or answered; other commands: success"
    UNVERIFIED = 1, "the result is not verified; doctor, test: a problem was found"
    USAGE = 2, "invalid command or option"
    CHECKS_FAILED = 3, "a required check failed on the result"
    NO_CHANGES = 4, "the agent finished without changing anything"
    FAILED = 5, "the last attempt failed; partial work is kept"
    LIMIT = 6, "a limit on time, turns, tokens or cost was reached"
    INTERRUPTED = 7, "the worker process died; partial work is kept"
    ERROR = 8, "an error; see the message"
    NOT_FINISHED = 9, "`wait --timeout` expired; a delegation is still running"
    CONFLICTS = 10, "accept, review: hunks have conflicts and stay pending"
    CANCELLED = 130, "cancelled, or stopped with Ctrl-C"
    PIPE_CLOSED = 141, "the reader of the output closed it"


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
    return "\n".join(f"  {code.value:>3}  {code.meaning}" for code in Exit)
