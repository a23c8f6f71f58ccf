"""Requests about the evidence of a result: the page, and mutants that cannot be noticed."""

from __future__ import annotations

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers.delegations import folder_of
from understudy.engine.running.supervision import current
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import MutantStatus


def page(caller: Caller, params: messages.IdParams) -> messages.EvidenceResult:
    """Return everything that was looked at to judge a result, as one page with commands to repeat it."""
    from understudy.judge import check_findings
    from understudy.reports.evidence_page import evidence_page

    _ = caller
    folder = folder_of(params.id)
    return messages.EvidenceResult(markdown=evidence_page(current(folder), check_findings.read_record(folder.path)))


def dismiss(caller: Caller, params: messages.DismissParams) -> messages.EmptyResult:
    """Leave out mutants that no test can notice from later judgements in this workspace.

    Errors: ``invalid_params``.
    """
    from understudy.judge.mutation import planning

    _ = caller
    delegation = current(folder_of(params.id))
    survived = {
        one.id
        for check in delegation.checks
        if check.mutation is not None
        for one in check.mutation.mutants
        if one.status is MutantStatus.SURVIVED
    }
    unknown = [mutant for mutant in params.mutants if mutant not in survived]
    if unknown or not params.mutants:
        named = ", ".join(unknown[:5])
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"No change that the tests missed has the id {named}." if named else "No change is named.",
            hint=f"The card lists the ids: understudy show {delegation.id}",
        )
    planning.dismiss(delegation_folder.state_root(), delegation.workspace, params.mutants)
    return messages.EmptyResult()
