"""``ledger`` and ``metrics``: what was delegated, its costs and results."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, get_args

import click
import msgspec

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.output.event_lines import plural
from understudy.frontends.cli.output.output import cost_origin, review_counts, thousands, usd
from understudy.frontends.cli.terminal import terminal
from understudy.model.delegation.delegations import Usage
from understudy.model.delegation.ledger import GroupBy, LedgerEntry, LedgerLine, LedgerShare, LedgerTotals
from understudy.model.errors import ErrorKind
from understudy.model.text.delegation_text import duration
from understudy.model.verdicts import Verdict

_GROUPS = [word.replace("_", "-") for word in get_args(GroupBy)]
_USAGE_COLUMNS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens", "turns")


_period = options.all_of(
    click.option("--since", metavar="TIME", help="From this time on: a date, a time, or how long ago (36h, 7d, 2w)."),
    click.option("--until", metavar="TIME", help="Only before this time."),
)
_work = options.all_of(
    click.option("--model", metavar="ID", help="Only this model."),
    click.option("--recipe", metavar="RECIPE", help="Only this kind of work."),
)


@click.command(
    epilog=options.examples(
        "understudy ledger",
        "understudy ledger --since 7d --by model",
        "understudy ledger --since 2026-11-01 --by recipe --compare 15/75/1.5",
        "understudy ledger --since 7d --share --compare 15/75/1.5",
        "understudy ledger --export csv > delegated.csv",
    )
)
@_period
@click.option(
    "--by",
    type=click.Choice(_GROUPS),
    help="Show totals for each of these, instead of the attempts.",
)
@click.option("--workspace", metavar="DIR", type=click.Path(), help="Only this workspace.")
@click.option(
    "-d", "--delegator", metavar="NAME", shell_complete=options.complete_delegators, help="Only this delegator."
)
@click.option("--tool", metavar="TOOL", shell_complete=options.complete_tools, help="Only this agent CLI.")
@click.option("--model-server", "--server", "modelServer", metavar="NAME", help="Only this model server.")
@_work
@click.option(
    "--verdict",
    type=click.Choice([str(verdict) for verdict in Verdict]),
    help="Only attempts that ended a delegation with this verdict.",
)
@click.option("--session", metavar="ID", help="Only what the agent of this session asked for.")
@click.option(
    "--compare",
    metavar="READ/WRITTEN[/CACHED]",
    help="Also show what the tokens would cost at these prices, in US dollars per million tokens.",
)
@click.option(
    "--share",
    is_flag=True,
    help="Also read the session files of Claude Code and Codex, and show the share of the work that was delegated.",
)
@options.most("Show at most this many attempts.")
@click.option(
    "--export",
    "export",
    type=click.Choice(["jsonl", "csv", "token-meter"]),
    help="Print all selected attempts, oldest first: as JSON lines, as a table for spreadsheets, or for token-meter.",
)
@options.as_json
def ledger(*, export: str | None, json_: bool, limit: int, compare: str | None, share: bool, **arguments: Any) -> None:
    """Show what was delegated, its costs and results.

    Every attempt that has ended counts, also one that failed. A delegation without one is only in `understudy list`: it
    still runs or waits, or it ended before its agent started. Costs are those that the agent or the model server
    reported, or computed from prices; an estimate is marked ~, an unknown cost adds nothing. Days are those of UTC.
    With --json, prints the `LedgerResult`.
    """
    asked = _asked(arguments)
    if compare is not None:
        asked["compare"] = _prices(compare)
    if export is not None and ("by" in asked or json_ or share):
        raise click.UsageError("--export prints every attempt: leave out --by, --share and --json.")
    if export is not None:
        _EXPORTS[export](_all(asked))
        return
    with options.as_options():
        result = call("ledger/read", **asked, limit=limit, share=share or None)
    if json_:
        output.json(result)
        return
    if not result.totals.attempts:
        click.echo("No attempt matches." if asked.keys() - {"by"} else "Nothing was delegated yet.", err=True)
        return
    if "by" in asked:
        output.table(
            (asked["by"].replace("_", " ").upper(), *_SUMS),
            [(group.key or "-", *_sums(group.totals)) for group in result.groups],
            below=_SUMS_NEEDED_LEAST,
        )
    else:
        output.table(_HEADER, [_row(line) for line in result.lines], below=_NEEDED_LEAST)
    click.echo()
    for text in _summary(result.totals, compare):
        click.echo(text)
    for text in [] if result.share is None else _share(result.share, compare):
        click.echo(text)
    if result.cursor is not None and "by" not in asked and terminal.is_terminal(sys.stdout):
        click.echo(f"The newest {len(result.lines)} are shown; --limit N shows more, --export all of them.")


@click.command(
    epilog=options.examples(
        "understudy metrics",
        "understudy metrics --since 7d --by model",
        "understudy metrics --recipe tests --by day --csv > tests.csv",
    )
)
@_period
@click.option(
    "--by",
    type=click.Choice(_GROUPS),
    default="delegator",
    show_default=True,
    help="Show a line for each of these.",
)
@click.option("--workspace", metavar="DIR", type=click.Path(), help="Only this workspace.")
@click.option(
    *("-d", "--delegator", "--agent", "delegator"),
    metavar="NAME",
    shell_complete=options.complete_delegators,
    help="Only this delegator.",
)
@_work
@click.option("--csv", "csv_", is_flag=True, help="Print a table for spreadsheets.")
@options.as_json
def metrics(*, csv_: bool, json_: bool, **arguments: Any) -> None:
    """Show how often delegators succeed, how long they take, and what they cost.

    A run is an attempt that has ended. It succeeds if its result is verified, or if it answers in text. Half of the
    runs take at most P50, nine of ten at most P90. HANDED OVER counts runs after which another delegator took over.
    USD/VERIFIED is what all runs cost, also those that failed, for each verified result. With --json, prints the
    `MetricsResult`.
    """
    if csv_ and json_:
        raise click.UsageError("--csv and --json exclude each other.")
    asked = _asked(arguments)
    with options.as_options():
        result = call("metrics/read", **asked)
    if json_:
        output.json(result)
    elif csv_:
        table = csv.writer(sys.stdout, lineterminator="\n")
        table.writerow([asked["by"], *_METRICS_COLUMNS])
        for group in result.groups:
            table.writerow([_inert(cell) for cell in (group.key, *_metrics_cells(group.totals))])
    elif not result.groups:
        click.echo("No run matches." if asked.keys() - {"by"} else "Nothing was delegated yet.", err=True)
    else:
        rows = [(group.key or "-", *_metrics(group.totals)) for group in result.groups]
        if len(rows) > 1:
            rows.append(("all", *_metrics(result.totals)))
        output.table((asked["by"].replace("_", " ").upper(), *_METRICS), rows, below=_METRICS_NEEDED_LEAST)


_METRICS = ("RUNS", "SUCCESS", "P50", "P90", "HANDED OVER", "READ", "WRITTEN", "USD", "USD/VERIFIED", "FAILURES")
_METRICS_NEEDED_LEAST = ("FAILURES", "WRITTEN", "READ", "HANDED OVER", "P90", "USD")
_METRICS_COLUMNS = (
    "runs", "succeeded", "p50Seconds", "p90Seconds", "handovers", "failures", *_USAGE_COLUMNS, "costUsd",
    "costsUnknown", "verifiedUsd",
)  # fmt: skip


def _succeeded(totals: LedgerTotals) -> int:
    return totals.outcomes.get(Verdict.VERIFIED, 0) + totals.outcomes.get(Verdict.ANSWERED, 0)


def _failures(totals: LedgerTotals) -> dict[str, int]:
    kinds = {str(kind) for kind in ErrorKind}
    return {word: count for word, count in totals.outcomes.items() if word in kinds}


def _metrics(totals: LedgerTotals) -> tuple[str, ...]:
    succeeded = _succeeded(totals)
    return (
        str(totals.attempts),
        f"{succeeded} ({100 * succeeded / totals.attempts:.0f} %)",
        duration(totals.median_seconds),
        duration(totals.p90_seconds),
        str(totals.handovers),
        *_tokens_of(totals.usage),
        usd(totals),
        totals.verified_usd or "-",
        ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in _failures(totals).items()) or "-",
    )


def _metrics_cells(totals: LedgerTotals) -> tuple[Any, ...]:
    return (
        totals.attempts,
        _succeeded(totals),
        totals.median_seconds,
        totals.p90_seconds,
        totals.handovers,
        " ".join(f"{word}:{count}" for word, count in _failures(totals).items()),
        *(msgspec.to_builtins(totals.usage)[name] for name in _USAGE_COLUMNS),
        totals.cost_usd,
        totals.costs_unknown,
        totals.verified_usd,
    )


_HEADER = (
    "WHEN (UTC)",
    "ID",
    "RECIPE",
    "OUTCOME",
    "READ",
    "WRITTEN",
    "USD",
    "COST FROM",
    "TIME",
    "DECIDED",
    "ASKED BY",
    "BY",
    "MODEL",
)
_NEEDED_LEAST = ("COST FROM", "ASKED BY", "TIME", "READ", "WRITTEN", "MODEL", "BY", "DECIDED", "USD", "OUTCOME")
"""The columns that are written below their row where a terminal is too narrow, in this order."""
_SUMS_NEEDED_LEAST = ("P90", "MEDIAN", "TIME", "WRITTEN", "READ", "FAILED", "VERIFIED")
_SUMS = ("ATTEMPTS", "VERIFIED", "FAILED", "READ", "WRITTEN", "USD", "TIME", "MEDIAN", "P90")


def _row(line: LedgerLine) -> tuple[str, ...]:
    entry, review = line.entry, line.review
    mark = "~" if entry.cost_estimated or entry.cost_source == "estimated" else ""
    shorter = terminal.is_terminal(sys.stdout)
    return (
        entry.at[5 if shorter else 0 : 16].replace("T", " "),
        entry.id.rpartition("-")[2] if shorter else entry.id,
        entry.recipe,
        (entry.failure or entry.verdict or "continued").replace("_", " "),
        *_tokens_of(entry.usage),
        "?" if entry.cost_usd is None else mark + entry.cost_usd,
        "-" if entry.cost_source == "unknown" else cost_origin(entry.cost_source, entry.price_date),
        duration(entry.seconds),
        "-" if review is None else review_counts(review) or "-",
        terminal.one_line(entry.asked_by.agent or entry.asked_by.frontend),
        entry.delegator,
        entry.model or "-",
    )


def _tokens_of(usage: Usage) -> tuple[str, str]:
    """Return what was read and written; nothing, if no model was used or nothing reported it."""
    if not (usage.input_tokens or usage.output_tokens):
        return "-", "-"
    return thousands(usage.input_tokens), thousands(usage.output_tokens)


def _sums(totals: LedgerTotals) -> tuple[str, ...]:
    return (
        str(totals.attempts),
        str(totals.outcomes.get("verified", 0)),
        str(sum(_failures(totals).values())),
        thousands(totals.usage.input_tokens),
        thousands(totals.usage.output_tokens),
        usd(totals),
        duration(totals.seconds),
        duration(totals.median_seconds),
        duration(totals.p90_seconds),
    )


def _summary(totals: LedgerTotals, compare: str | None) -> Iterable[str]:
    outcomes = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in totals.outcomes.items())
    attempts, delegations = plural(totals.attempts, "ended attempt"), plural(totals.delegations, "delegation")
    yield f"{attempts} of {delegations}: {outcomes}."
    usage = totals.usage
    yield f"Tokens: {_tokens(usage) if usage.input_tokens or usage.output_tokens else 'none'}."
    cost = "none" if totals.cost_usd == "0" and not totals.costs_unknown else f"{totals.cost_usd} US dollars"
    cost = "unknown" if totals.costs_unknown == totals.attempts else cost
    notes = [
        *([f"{totals.costs_computed} computed from prices"] if totals.costs_computed else []),
        *([f"{totals.costs_estimated} estimated"] if totals.costs_estimated else []),
        *([f"{totals.costs_unknown} unknown and not counted"] if totals.costs_unknown and cost != "unknown" else []),
    ]
    yield f"Cost: {cost}" + (f" ({', '.join(notes)})." if notes else ".")
    if totals.verified_usd is not None and Decimal(totals.cost_usd):
        yield f"For each verified result: {totals.verified_usd} US dollars."
    if totals.compared_usd is not None:
        yield f"At {compare} US dollars per million tokens: {totals.compared_usd} US dollars."


def _tokens(usage: Usage) -> str:
    cached = f" ({thousands(usage.cache_read_tokens)} from caches)" if usage.cache_read_tokens else ""
    return f"{thousands(usage.input_tokens)} read{cached}, {thousands(usage.output_tokens)} written"


def _share(share: LedgerShare, compare: str | None) -> Iterable[str]:
    since = "" if share.since.startswith("1970") else f" since {share.since[:16].replace('T', ' ')} (UTC)"
    if not share.orchestrators:
        yield f"Delegated share: unknown, because Claude Code and Codex have no session{since}."
    else:
        read, written = share.read_percent or 0, share.written_percent or 0
        yield f"Delegated{since}: {read:g} % of the tokens read, {written:g} % of those written."
    for orchestrator in share.orchestrators:
        model = terminal.one_line(orchestrator.model) or "unknown model"
        sessions = plural(orchestrator.sessions, "session")
        yield f"  {orchestrator.tool}, {model}: {sessions}, {_tokens(orchestrator.usage)}."
    for text in share.unread:
        yield f"  Not read: {terminal.one_line(text)}"
    priced = [orchestrator for orchestrator in share.orchestrators if orchestrator.delegated_usd is not None]
    for orchestrator in priced:
        model, price = terminal.one_line(orchestrator.model), f"at its list price of {orchestrator.price_date}"
        yield f"  What was delegated would have cost {orchestrator.delegated_usd} US dollars on {model}, {price}."
    if share.orchestrators and not priced and compare is None:
        model = terminal.one_line(share.orchestrators[0].model) or "your model"
        yield f"  What it would have cost on {model}: add --compare with its prices."


def _asked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request for what was given on the command line."""
    asked = {name: value for name, value in arguments.items() if value is not None}
    for name in ("since", "until"):
        if name in asked:
            asked[name] = options.since(asked[name])
    if "workspace" in asked:
        asked["workspace"] = uri(asked["workspace"])
    if "by" in asked:
        asked["by"] = asked["by"].replace("-", "_")
    return asked


def _prices(text: str) -> dict[str, str]:
    parts = text.split("/")
    if not 2 <= len(parts) <= 3:
        raise click.BadParameter(f"{text!r} is not READ/WRITTEN or READ/WRITTEN/CACHED.", param_hint="--compare")
    return dict(zip(("readUsd", "writtenUsd", "cachedUsd"), parts, strict=False))


def _all(asked: Mapping[str, Any]) -> list[LedgerEntry]:
    """Return all selected attempts, oldest first."""
    lines: list[LedgerLine] = []
    cursor: str | None = None
    while True:
        page = call("ledger/read", **asked, limit=options.PAGE, **({"cursor": cursor} if cursor is not None else {}))
        lines += page.lines
        cursor = page.cursor
        if cursor is None:
            return [line.entry for line in reversed(lines)]


def _json_lines(entries: Iterable[LedgerEntry]) -> None:
    for entry in entries:
        click.echo(msgspec.json.encode(entry))


_COLUMNS = (
    "at", "id", "attempt", "recipe", "language", "workspace", "target", "delegator", "tool", "modelServer", "model",
    "verdict", "failure", "costUsd", "costSource", "priceDate", "seconds",
)  # fmt: skip


def _csv(entries: Iterable[LedgerEntry]) -> None:
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow([*_COLUMNS, *_USAGE_COLUMNS, "agent", "session"])
    for entry in entries:
        plain = msgspec.to_builtins(entry)
        by, usage = plain["askedBy"], plain["usage"]
        cells = [plain.get(name, "") for name in _COLUMNS] + [usage[name] for name in _USAGE_COLUMNS]
        table.writerow([_inert(cell) for cell in [*cells, by.get("agent", ""), by.get("session", "")]])


def _inert(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _token_meter(entries: Iterable[LedgerEntry]) -> None:
    """Print records as agent-delegate 0.2.0 logs them: the same fields, order and bytes."""
    servers = {entry.model_server.name: entry.model_server for entry in call("modelServers/list").model_servers}
    for entry in entries:
        by, usage = entry.asked_by, entry.usage
        server = servers.get(entry.model_server or "")
        speaks_messages = server is not None and (server.protocols or [""])[0] == "anthropic"
        backend = "anthropic" if speaks_messages else "openai-compat"
        record = {
            "ts": datetime.fromisoformat(entry.at).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": entry.recipe,
            "profile": entry.delegator,
            "backend": entry.tool or backend,
            "model": entry.model,
            "prompt_eval_count": usage.input_tokens - (usage.cache_read_tokens if speaks_messages else 0),
            "eval_count": usage.output_tokens,
            "cached_tokens": usage.cache_read_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "total_duration_ms": round(entry.seconds * 1000),
            "cwd": by.cwd or entry.workspace,
            "claude_session_id": (by.agent == "claude" and by.session) or "",
            "codex_session_id": (by.agent == "codex" and by.session) or "",
            "parent_pid": by.pid,
            "host": "" if server is None else server.base_url,
            **({} if entry.target is None else {"target": entry.target}),
        }
        click.echo(json.dumps(record))


_EXPORTS: Mapping[str, Callable[[Iterable[LedgerEntry]], None]] = {
    "jsonl": _json_lines,
    "csv": _csv,
    "token-meter": _token_meter,
}
