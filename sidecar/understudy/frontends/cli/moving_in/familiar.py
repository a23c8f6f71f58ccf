"""Commands that keep their names from other tools: ``capabilities``, ``routes``, ``model``, ``cleanup``, ``monitor``.

Each is a view of what other commands show, too.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from understudy.api.handlers import offers
from understudy.api.serving.follow import follow_all
from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, caller, uri
from understudy.frontends.cli.group import group_table
from understudy.frontends.cli.output import output
from understudy.frontends.cli.output.units import size, usd
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.config_entries import SupportedOptions, ToolEntry
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError

_DECIDED = frozenset({"decided", "expired"})


@click.command(epilog=options.examples("understudy capabilities", "understudy capabilities --agent claude"))
@click.option("--agent", metavar="TOOL", shell_complete=options.complete_tools, help="Only this agent CLI, in full.")
@options.in_workspace
@options.as_json
def capabilities(*, agent: str | None, workspace: str | None, json_: bool) -> int:
    """Show what each agent CLI can do here: modes, permissions, model servers, sessions.

    The name is agent-delegator's; `understudy tools TOOL` shows how to install one. With --json, prints the
    `ToolsResult`, or the `ToolEntry` of one.
    """
    result = call("tools/list", workspace=uri(workspace or "."))
    tools = [tool for tool in result.tools if tool.runnable]
    if agent is None:
        output.json(result) if json_ else output.table(
            ("AGENT", "FOUND", "MODES", "PERMISSION MODES", "MODEL SERVERS", "SESSIONS"),
            [_capability(tool) for tool in tools],
        )
        return exit_codes.Exit.OK
    entry = next((tool for tool in tools if tool.name == agent), None)
    if entry is None:
        names = [tool.name for tool in tools]
        hint = f"Use one of: {', '.join(names)}."
        raise UnderstudyError(ErrorKind.UNKNOWN_TOOL, f"There is no agent CLI {agent!r}.", hint=hint, names=names)
    output.json(entry) if json_ else _show_capabilities(entry)
    return exit_codes.Exit.OK


def _capability(entry: ToolEntry) -> tuple[str, ...]:
    supported = entry.supports
    return (
        entry.name,
        "yes" if entry.found else "no",
        ", ".join(entry.modes) or "-",
        ", ".join(mode.value for mode in supported.permission_modes) or "-" if supported is not None else "-",
        ", ".join(supported.protocols) or "-" if supported is not None else "-",
        "yes" if supported is not None and supported.sessions else "no",
    )


def _show_capabilities(entry: ToolEntry) -> None:
    click.echo(f"{entry.name}: {terminal.one_line(entry.display_name)}")
    for title, supported in (("headless", entry.supports), ("acp", entry.supports_acp), ("tmux", entry.supports_tmux)):
        if supported is not None:
            click.echo(f"\nMode {title}:")
            for name, text in _facts(supported):
                click.echo(f"  {name + ':':<18}{text or '-'}")


def _facts(supported: SupportedOptions) -> list[tuple[str, str]]:
    return [
        ("Returns", ", ".join(supported.returns)),
        ("Recipes", "those judged by new tests" if supported.only_new_tests else "every one"),
        ("Permission modes", ", ".join(mode.value for mode in supported.permission_modes)),
        ("Model servers", ", ".join(supported.protocols)),
        ("Sessions", "a reply continues the session" if supported.sessions else "a reply starts a new session"),
        ("Messages", str(supported.messages)),
        ("Launch options", ", ".join(option.name for option in supported.launch)),
        ("Limits", ", ".join(option.name for option in supported.limits)),
        ("Model properties", ", ".join(option.name for option in supported.properties)),
    ]


@click.command(epilog=options.examples("understudy routes", "understudy delegators default claude --for review"))
@options.in_workspace
@options.as_json
def routes(*, workspace: str | None, json_: bool) -> int:
    """Show which delegator a start of each recipe would take now, and why.

    The name is agent-delegator's. Change a route with `understudy delegators default NAME --for RECIPE`. With --json,
    prints a list of objects with `recipe`, `delegator`, `reason`, `fallback` and `refused`.
    """
    listed = {
        entry.delegator.name: entry.delegator
        for entry in call("delegators/list", workspace=uri(workspace or ".")).delegators
    }
    rows: list[dict[str, Any]] = []
    offered = offers.routes(caller(), uri(workspace or "."))
    for offer in offered:
        name = offer.explain.delegator if offer.explain is not None else None
        then = listed[name].fallback if name in listed else None
        why = offer.explain.reason if offer.explain is not None else None
        refused = offer.refused.message if offer.refused is not None else None
        rows.append(
            {"recipe": offer.recipe.name, "delegator": name, "fallback": then or [], "reason": why, "refused": refused}
        )
    if json_:
        output.json(rows)
        return exit_codes.Exit.OK
    output.table(
        ("RECIPE", "DELEGATOR", "THEN", "WHY"),
        [
            (row["recipe"], row["delegator"] or "-", ", ".join(row["fallback"]) or "-", row["refused"] or row["reason"])
            for row in rows
        ],
        wrap=True,
    )
    hints = {offer.refused.hint for offer in offered if offer.refused is not None and offer.refused.hint}
    if hints:
        every = "Choose a default: understudy delegators default NAME --for RECIPE"
        click.echo(f"hint: {terminal.one_line(hints.pop() if len(hints) == 1 else every)}", err=True)
    return exit_codes.Exit.OK


@click.command(epilog=options.examples("understudy model sonnet", "understudy model qwen3-coder:30b --json"))
@click.argument("name")
@options.in_workspace
@options.as_json
def model(*, name: str, workspace: str | None, json_: bool) -> int:
    """Show which delegators use a model, and what was spent on it.

    The name is agent-delegator's. NAME is the ID of a model, or a part of it. `understudy servers models SERVER` lists
    the models of a server. With --json, prints a list of `DelegatorEntry`.
    """
    entries = call("delegators/list", workspace=uri(workspace or ".")).delegators
    matching = [entry for entry in entries if name.lower() in entry.delegator.model.lower()]
    if not matching:
        raise UnderstudyError(
            ErrorKind.MODEL_NOT_FOUND,
            f"No delegator uses a model {name!r}.",
            hint=f"Add one: understudy delegators add NAME --tool TOOL --model {terminal.one_line(name)}",
            names=sorted({entry.delegator.model for entry in entries if entry.delegator.model}) or None,
        )
    if json_:
        output.json(matching)
        return exit_codes.Exit.OK
    spent = {
        id_: call("ledger/read", model=id_, limit=1).totals for id_ in {entry.delegator.model for entry in matching}
    }
    output.table(
        ("MODEL", "DELEGATOR", "WITH", "ATTEMPTS", "USD"),
        [
            (
                entry.delegator.model,
                entry.delegator.name,
                entry.delegator.tool or f"server {entry.delegator.model_server or '-'}",
                str(spent[entry.delegator.model].attempts),
                usd(spent[entry.delegator.model]) if spent[entry.delegator.model].attempts else "-",
            )
            for entry in matching
        ],
    )
    return exit_codes.Exit.OK


@click.command(epilog=options.examples("understudy cleanup", "understudy cleanup --ttl 24 --dry-run"))
@click.option(
    "--ttl",
    metavar="HOURS",
    type=click.FloatRange(min=0),
    default=24,
    show_default=True,
    help="Only of delegations that finished this long ago.",
)
@click.option("--project", metavar="DIR", type=click.Path(file_okay=False), help="Only worktrees of this repository.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@options.as_json
def cleanup(*, ttl: float, project: str | None, dry_run: bool, json_: bool) -> int:
    """Remove worktrees whose results are decided; each can be restored.

    The name is agent-delegator's. Worktrees of agents that work, and of results that you have not decided, are kept:
    `understudy worktrees remove` removes those. With --json, prints a list of objects with `id` and `rescueRef`.
    """
    before = datetime.now(UTC) - timedelta(hours=ttl)
    top = Path(project).resolve() if project is not None else None
    every = call("worktrees/list").worktrees
    ours = [worktree for worktree in every if top is None or Path(worktree.repo).resolve() == top]
    old = [
        worktree for worktree in ours if worktree.state in _DECIDED and _ended(worktree.owner or worktree.id, before)
    ]
    removed: list[dict[str, str | None]] = []
    for worktree in old:
        ref = None if dry_run else call("worktrees/remove", id=worktree.id).rescue_ref
        removed.append({"id": worktree.id, "rescueRef": ref})
        if not json_:
            click.echo(
                f"{worktree.id}  would be removed ({size(worktree.bytes)})"
                if ref is None
                else f"{worktree.id}  removed; restore with: understudy restore {terminal.one_line(ref)}"
            )
    if json_:
        output.json(removed)
        return exit_codes.Exit.OK
    kept = len(ours) - len(old)
    if not old:
        click.echo("No worktree is decided and old enough.")
    if kept:
        click.echo(f"{kept} kept: in use, not decided, or newer. See: understudy worktrees", err=True)
    return exit_codes.Exit.OK


def _ended(identifier: str, before: datetime) -> bool:
    """Return whether a delegation finished before a time; one whose journal has expired did."""
    try:
        finished = call("delegations/get", id=identifier).finished_at
    except UnderstudyError as error:
        return error.kind is ErrorKind.UNKNOWN_DELEGATION
    return finished is not None and datetime.fromisoformat(finished) <= before


@click.command(epilog=options.examples("understudy monitor", "understudy monitor --once"))
@click.option(
    "-n",
    "--newest",
    metavar="N",
    type=click.IntRange(0, 100),
    default=5,
    show_default=True,
    help="Finished ones to show.",
)
@click.option("--once", is_flag=True, help="Print the table once, and exit.")
@options.as_json
def monitor(*, newest: int, once: bool, json_: bool) -> int:
    """Show every delegation in progress, of all workspaces, and redraw the table as they change.

    The name is sideagent's; Ctrl-C ends it, and the delegations keep running. In a pipe, each change is a line.
    `understudy watch ID` follows one. With --json, prints a `Delegation` per line, whenever one has changed.
    """
    followed = follow_all(idle_seconds=group_table.IDLE_SECONDS, newest=newest)
    if json_:
        _print_changes(followed, once=once)
        return exit_codes.Exit.OK
    if once:
        group_table.print_table(next(followed), "Nothing was delegated yet.")
        followed.close()
        return exit_codes.Exit.OK
    table = group_table.view_on(sys.stdout, None)
    try:
        for members in followed:
            table.show(members)
    except KeyboardInterrupt:
        pass
    finally:
        followed.close()
    return exit_codes.Exit.OK


def _print_changes(followed: Generator[list[Delegation], None, None], *, once: bool) -> None:
    last_seqs: dict[str, int] = {}
    with contextlib.closing(followed), contextlib.suppress(KeyboardInterrupt):
        for members in followed:
            for member in members:
                if last_seqs.get(member.id) != member.last_seq:
                    last_seqs[member.id] = member.last_seq
                    output.json_line(member)
            sys.stdout.flush()
            if once:
                return
