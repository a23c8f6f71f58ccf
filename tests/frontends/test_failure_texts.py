"""Test that every frontend names the cause of a failure, once."""

from __future__ import annotations

from understudy.engine.running.relay import child_delegations
from understudy.frontends.acp import result_updates
from understudy.frontends.cli.output import event_lines, verdict_card
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.lsp.delegate import result_messages
from understudy.frontends.mcp.tools import tool_answers
from understudy.model import verdicts
from understudy.model.delegation import events as e
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.text import delegation_text
from understudy.model.verdicts import Reservation, Verdict
from understudy.reports.evidence_page import evidence_page


def test_every_text_about_a_failure_names_its_cause(delegation) -> None:
    error = ErrorInfo(ErrorKind.TOOL_CRASHED, "The agent exited with code 3: no space.\n  at line 7", "Free some.")
    failed = delegation(verdict=Verdict.FAILED, error=error, reservations=[Reservation.OUTSIDE_CHANGED])
    for text in (
        verdict_card.card(failed, terminal.Paint(on=False)),
        event_lines.line(e.Finished(verdict=Verdict.FAILED, reservations=[], error=error)),
        delegation_text.verdict_sentence(failed),
        result_messages.message(failed),
        result_updates.verdict_text(failed),
        tool_answers.brief(failed)["meaning"],
        child_delegations.brief(failed)["meaning"],
        evidence_page(failed, None),
    ):
        assert text.count("The agent exited with code 3: no space") == 1, text
        assert verdicts.VERDICTS[Verdict.FAILED] not in text
    assert verdict_card.state_and_kind(failed) == "failed: tool crashed"
