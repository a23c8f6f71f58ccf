"""``groups``: delegations to wait for and cancel together."""

from __future__ import annotations

import click

from understudy.frontends.cli import exit_codes, options
from understudy.frontends.cli.api_calls import call
from understudy.frontends.cli.output import output


@click.group(epilog=options.examples("understudy groups create", "understudy wait --group 20261121-004512-k3f9q"))
def groups() -> None:
    """Manage groups of delegations; `list`, `wait` and `cancel` take one with --group."""


@groups.command(epilog=options.examples("understudy groups create", "understudy groups create --kind compare"))
@click.option(
    "--kind",
    type=click.Choice(["batch", "compare"]),
    default="batch",
    show_default=True,
    help="`batch`: several tasks; `compare`: one task for several delegators.",
)
@options.as_json
def create(*, kind: str, json_: bool) -> int:
    """Create an empty group and print its ID.

    Delegations join it with `understudy start --group ID`.
    """
    found = call("groups/create", kind=kind)
    if json_:
        output.json(found)
    else:
        click.echo(found.id)
    return exit_codes.Exit.OK


@groups.command(epilog=options.examples("understudy groups show 20261121-004512-k3f9q"))
@click.argument("group", metavar="ID")
@options.as_json
def show(*, group: str, json_: bool) -> int:
    """Show the delegations of a group.

    They are listed in the order in which they joined.
    """
    found = call("groups/get", id=group)
    if json_:
        output.json(found)
    else:
        for member in found.delegations:
            click.echo(member)
    return exit_codes.Exit.OK
