"""``list`` and ``show``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, resolve, uri, whole_group
from understudy.frontends.cli.delegate import answer, follower
from understudy.frontends.cli.output import output, verdict_card
from understudy.frontends.cli.output.output import age
from understudy.frontends.cli.terminal import terminal
from understudy.model.states import State


@click.command(
    "list",
    epilog=options.examples(
        "understudy list",
        "understudy list --state running --state queued",
        "understudy list --workspace . --text wrap --json",
    ),
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([str(state) for state in State]),
    help="List only delegations in this state; may be repeated.",
)
@click.option("--workspace", metavar="DIR", type=click.Path(), help="List only delegations of this workspace.")
@click.option(
    "-d",
    "--delegator",
    metavar="NAME",
    shell_complete=options.complete_delegators,
    help="List only delegations of this delegator.",
)
@click.option("--group", "groupId", metavar="ID", help="List only delegations of this group.")
@click.option("--text", metavar="TEXT", help="List only delegations whose title contains this text.")
@options.most("List at most this many.")
@click.option("-a", "--all", "all_", is_flag=True, help="List all of them.")
@options.as_json
def list_(
    *,
    states: tuple[str, ...],
    workspace: str | None,
    limit: int,
    all_: bool,
    json_: bool,
    **arguments: Any,
) -> None:
    """List delegations, newest first; on a terminal, open questions of agents come first."""
    params = {
        "states": list(states) or None,
        "workspace": uri(workspace) if workspace else None,
        "limit": options.PAGE if all_ else limit,
        **arguments,
        "groupId": whole_group(arguments["groupId"]),
    }
    page = call("delegations/list", **params)
    while all_ and page.cursor:
        further = call("delegations/list", **params, cursor=page.cursor)
        page.delegations += further.delegations
        page.cursor = further.cursor
    named = arguments["delegator"]
    # A configured delegator without delegations has an empty list; an unknown name is an error.
    if named is not None and not (page.delegations or call("delegations/list", delegator=named, limit=1).delegations):
        call("delegators/get", name=named, workspace=uri(workspace or "."))
    if json_:
        output.json(page)
        return
    if terminal.is_terminal(sys.stdout):
        click.echo(answer.headline(output.paint()), nl=False)
    now = datetime.now(UTC)
    filtered = states or workspace or any(value is not None for value in arguments.values())
    # Programs get the same columns, with whole IDs, each time.
    for_people = terminal.is_terminal(sys.stdout)
    mixed = for_people and len({delegation.workspace for delegation in page.delegations}) > 1
    output.table(
        ("ID", "STATE", "RECIPE", "BY", "AGE", *(["IN"] if mixed else []), "TITLE"),
        [
            (
                delegation.id.rpartition("-")[2] if for_people else delegation.id,
                *(
                    verdict_card.state_and_kind(delegation),
                    delegation.recipe,
                    delegation.delegator,
                    age(delegation.started_at, now),
                ),
                *([unquote(delegation.workspace).rstrip("/").rpartition("/")[2]] if mixed else []),
                delegation.title,
            )
            for delegation in page.delegations
        ],
        empty=(
            "No delegation matches."
            if filtered
            else "Nothing was delegated yet. `understudy --help` shows the first steps."
        ),
        wrap=True,
    )
    if page.cursor and sys.stdout.isatty():
        click.echo("… and more: --all, or a higher --limit")


@click.command(epilog=options.examples("understudy show k3f9q", "understudy show k3f9q --json"))
@options.identifier
@options.as_json
def show(*, identifier: str, json_: bool) -> None:
    """Show one delegation: verdict, reservations, checks, files, cost and worktree."""
    delegation = call("delegations/get", id=resolve(identifier))
    if json_:
        output.json(delegation)
    else:
        follower.show_card(delegation)
