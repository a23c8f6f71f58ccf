"""Say how a delegation ended, with the cause of a failure."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.model.errors import ErrorInfo
from understudy.model.text.sanitize import one_line
from understudy.model.verdicts import RESERVATIONS, VERDICTS, Reservation, Verdict


def cause(error: ErrorInfo) -> str:
    """Return why something failed, on one line without a full stop: what follows is output of a program."""
    return one_line(error.message.strip().partition("\n")[0]).removesuffix(".")


def meaning(verdict: Verdict, error: ErrorInfo | None) -> str:
    """Return why a delegation ended like this, without a full stop: the cause, or what the verdict means."""
    return VERDICTS[verdict] if error is None else cause(error)


def verdict_sentence(
    verdict: Verdict | None, reservations: Sequence[Reservation], error: ErrorInfo | None = None
) -> str:
    """Return how a delegation ended, without a full stop: its verdict, then the cause and every reservation."""
    if verdict is None:
        return "not finished yet"
    reasons = [RESERVATIONS[reservation][0] for reservation in reservations]
    if error is not None or not reasons:
        reasons.insert(0, meaning(verdict, error))
    return f"{verdict.replace('_', ' ')}: {'; '.join(reasons)}"
