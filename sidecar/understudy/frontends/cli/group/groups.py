"""``groups``: delegations to wait for and cancel together."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from understudy.api.serving.follow import follow_group
from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.group import group_table
from understudy.frontends.cli.output import event_lines, output
from understudy.frontends.cli.output.units import age


@click.group(
    cls=DefaultGroup,
    epilog=options.examples(
        "understudy groups", "understudy groups show k3f9q", "understudy wait --group 20261121-004512-k3f9q"
    ),
)
def groups() -> None:
    """List groups of delegations, or manage one; `list`, `wait` and `cancel` take one with --group."""


@groups.command("list", epilog=options.examples("understudy groups list --limit 100"))
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="List at most N.")
@options.as_json
def list_(*, limit: int, json_: bool) -> None:
    """List the newest groups, and how far they are."""
    result = call("groups/list", limit=limit)
    if json_:
        output.json(result)
        return
    now = datetime.now(UTC)
    rows = [
        (
            overview.group.id,
            overview.group.kind,
            age(overview.group.created_at, now),
            ", ".join(f"{count} {event_lines.words(state)}" for state, count in overview.states.items()) or "empty",
            overview.title or "",
        )
        for overview in result.groups
    ]
    output.table(
        ("ID", "KIND", "AGE", "DELEGATIONS", "TITLE"),
        rows,
        empty="There are no groups yet. `start --each`, several -d and `batch` make one.",
    )


@groups.command(epilog=options.examples("understudy groups create", "understudy groups create --kind compare"))
@click.option(
    "--kind",
    type=click.Choice(["batch", "compare"]),
    default="batch",
    show_default=True,
    help="`batch`: several tasks; `compare`: one task for several delegators.",
)
@options.as_json
def create(*, kind: str, json_: bool) -> None:
    """Create an empty group and print its ID.

    Delegations join it with `understudy start --group ID`.
    """
    group = call("groups/create", kind=kind)
    if json_:
        output.json(group)
    else:
        click.echo(group.id)


@groups.command(
    epilog=options.examples("understudy groups show 20261121-004512-k3f9q", "understudy groups show k3f9q --watch")
)
@click.argument("group", metavar="ID")
@click.option("--watch", is_flag=True, help="Follow them until all have finished; Ctrl-C stops watching only.")
@options.as_json
def show(*, group: str, watch: bool, json_: bool) -> int:
    """Show the delegations of a group, in the order in which they joined.

    With --watch, the exit code is the highest of theirs.
    """
    result = call("groups/get", id=group)
    group = result.id
    if json_ and not watch:
        output.json(result)
        return exit_codes.Exit.OK
    if not watch:
        members = next(follow_group(group, idle_seconds=0.0))
        group_table.print_table(members)
        return exit_codes.Exit.OK
    table = group_table.view_on(sys.stdout, result.budget)
    try:
        members = group_table.follow(group, None if json_ else table)
    except KeyboardInterrupt:
        table.clear()
        click.echo(f"Stopped watching; continue with: understudy groups show {group} --watch", err=True)
        return exit_codes.Exit.CANCELLED
    return group_table.print_result(members, as_json=json_)
