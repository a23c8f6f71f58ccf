"""``status``: everything at a glance."""

from __future__ import annotations

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.output.event_lines import plural
from understudy.frontends.cli.output.units import thousands
from understudy.frontends.cli.terminal import terminal
from understudy.model.delegation.ledger import LedgerTotals


@click.command(epilog=options.examples("understudy status", "understudy status --json"))
@options.in_workspace
@options.as_json
def status(*, workspace: str | None, json_: bool) -> None:
    """Show what runs, what waits for you, and what was spent today.

    Delegations of all workspaces count. The day begins at midnight of this machine's time zone.
    """
    overview = call("status", workspace=uri(workspace or "."))
    if json_:
        output.json(overview)
        return
    if overview.workspace is not None:
        word = "trusted" if overview.trusted else "not trusted (understudy trust)"
        _line("Workspace", f"{overview.workspace}, {word}")
    builtin = "only the built-in ghostwriter (understudy delegators add)"
    ready = (
        f"{overview.delegators - len(overview.not_ready)} of {overview.delegators} ready"
        if overview.delegators
        else builtin
    )
    default = f", default {overview.default_delegator}" if overview.default_delegator else ""
    broken = f"; not ready: {', '.join(overview.not_ready)}" if overview.not_ready else ""
    _line("Delegators", ready + default + broken)
    if overview.paused:
        _line("Paused", f"{', '.join(overview.paused)} (understudy delegators list; understudy delegators reset NAME)")
    if overview.problems:
        _line("Configuration", f"{plural(overview.problems, 'error')} (understudy delegators list)")
    running = ", ".join(f"{count} {state}" for state, count in overview.states.items())
    paused = "; the queue is paused (understudy queue resume)" if call("queue/get").paused else ""
    _line("Delegations", (running or "none in progress") + paused)
    if overview.questions:
        _line("Questions", f"{plural(len(overview.questions), 'agent')} waiting for an answer (understudy inbox)")
    _line("To review", f"{plural(overview.to_review, 'result')}" if overview.to_review else "nothing")
    _line("Today", _spent(overview.spent))
    _line("Understudy", f"{overview.version}, protocol {overview.protocol_version}")


def _line(title: str, text: str) -> None:
    click.echo(f"{title + ':':<15}{terminal.one_line(text)}")


def _spent(totals: LedgerTotals) -> str:
    if not totals.attempts:
        return "nothing delegated yet"
    read, written = totals.usage.input_tokens, totals.usage.output_tokens
    mark = "~" if totals.costs_estimated else ""
    cost = f"{mark}{totals.cost_usd} US dollars"
    if totals.costs_unknown == totals.attempts:
        cost = "cost unknown"
    elif totals.costs_unknown:
        cost += f" and {plural(totals.costs_unknown, 'attempt')} of unknown cost"
    elif totals.cost_usd == "0":
        cost = "no cost"
    tokens = f", {thousands(read)} tokens read, {thousands(written)} written" if read or written else " without tokens"
    return f"{plural(totals.attempts, 'attempt')}{tokens}, {cost}"
