"""Texts about a delegation: its duration, how it ended, and what a permission question would allow. Pure."""

from __future__ import annotations

import re

from understudy.model.delegation.delegations import Delegation, PermissionRequest
from understudy.model.errors import ErrorInfo
from understudy.model.evidence.checks import CheckResult
from understudy.model.text.sanitize import one_line
from understudy.model.verdicts import RESERVATIONS, VERDICTS, Reservation, Verdict


def duration(seconds: float) -> str:
    """Return a duration as ``0:07``, ``12:34`` or ``1:02:03``."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def cause(error: ErrorInfo) -> str:
    """Return why something failed, on one line without a full stop: what follows is output of a program."""
    return one_line(error.message.strip().partition("\n")[0]).removesuffix(".")


def meaning(verdict: Verdict, error: ErrorInfo | None) -> str:
    """Return why a delegation ended like this, without a full stop: the cause, or what the verdict means."""
    return VERDICTS[verdict] if error is None else cause(error)


def facts_of(reservation: Reservation, delegation: Delegation) -> list[str]:
    """Return what a reservation of a delegation is about, as sentences; none if only its meaning is known."""
    return [one_line(fact.text) for fact in delegation.reservation_facts if fact.reservation is reservation]


def reservation_reason(reservation: Reservation, delegation: Delegation) -> str:
    """Return why a result is not verified, without a full stop: the first fact, or what the reservation means."""
    facts = facts_of(reservation, delegation)
    if not facts:
        return RESERVATIONS[reservation][0]
    more = f" (and {len(facts) - 1} more)" if facts[1:] else ""
    return f"{facts[0].removesuffix('.')}{more}"


def verdict_sentence(delegation: Delegation) -> str:
    """Return how a delegation ended, without a full stop: its verdict, then the cause and every reservation."""
    verdict, error = delegation.verdict, delegation.error
    if verdict is None:
        return "not finished yet"
    reasons = [reservation_reason(reservation, delegation) for reservation in delegation.reservations]
    if error is not None or not reasons:
        reasons.insert(0, meaning(verdict, error))
    return f"{verdict.replace('_', ' ')}: {'; '.join(reasons)}"


def remembered(request: PermissionRequest) -> str | None:
    """Return what an answer with ``remember`` would allow from now on; None if it cannot be remembered."""
    rule = request.rule
    if rule is None or not any(option.kind == "allow_once" for option in request.options):
        return None
    if rule.command is not None:
        return f"`{rule.command}`" if rule.exact else f"commands that begin with `{rule.command}`"
    path = (rule.path or "").removeprefix("/")
    return f"edits of {path}" if rule.kind == "edit" else f"reading {path}"


def describe_request(request: PermissionRequest) -> str:
    """Return first the effect, from the fields that the agent's driver reports, then the agent's own text.

    Lines of the agent's text that only repeat the effect are left out.
    """
    if request.kind == "question":
        return request.detail.rstrip() if request.detail.strip() != request.title.strip() else ""
    stated = {request.command, *(request.paths or [])}
    rest = [line for line in request.detail.split("\n") if re.sub(r"^\w+: ", "", line.strip()) not in stated]
    return "\n".join([*_effect(request), *rest]).rstrip()


def _effect(request: PermissionRequest) -> list[str]:
    files = ", ".join(request.paths or [])
    runs = [f"Runs: {request.command}"] if request.command is not None else []
    named = [f"Files: {files}"] if files else []
    match request.kind:
        case "execute":
            return [*(runs or ["Runs a command"]), *named]
        case "read":
            return [f"Reads: {files}" if files else "Reads files", *runs]
        case "edit":
            return [f"Changes: {files}" if files else "Changes files", *runs]
        case "fetch":
            return ["Accesses the network", *runs, *named]
        case _:
            return [*runs, *named]


def test_counts(result: CheckResult) -> str:
    """Return a check's test counts, or its exit code if it reports none."""
    parts = [
        f"{count} {word}"
        for count, word in ((result.passed, "passed"), (result.failed, "failed"), (result.skipped, "skipped"))
        if count
    ]
    if parts:
        return ", ".join(parts)
    if result.passed is not None:
        return "no test ran"
    return "did not start" if result.exit_code is None else f"exit code {result.exit_code}"
