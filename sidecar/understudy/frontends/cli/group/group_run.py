"""Follow a group that was just started to its end."""

from __future__ import annotations

import sys
from typing import Any

import click

from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.group import group_table, queue_commands
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.held_interrupt import HeldInterrupt
from understudy.model.delegation.delegations import Delegation


def to_the_end(started: Any, held: HeldInterrupt, *, detach: bool, quiet: bool, as_json: bool) -> int:
    """Follow a group that was started to its end, print its results and return the highest exit code.

    A Ctrl-C that was held back while it started cancels it.
    """
    group = started.group
    queue_commands.warn_if_paused()
    if detach:
        output.json(started) if as_json else click.echo(group.id)
        held.explain_detached(f"understudy groups cancel {group.id}")
        return exit_codes.Exit.OK
    silent = quiet or (as_json and not terminal.is_terminal(sys.stderr))
    if not silent:
        click.echo(f"Group {group.id}", err=True)
    table = None if silent else group_table.view_on(sys.stderr, group.budget)
    return group_table.print_result(_follow_or_cancel(group.id, table, held), as_json=as_json)


def _follow_or_cancel(group: str, table: group_table.GroupTable | None, held: HeldInterrupt) -> list[Delegation]:
    """Follow to the end; Ctrl-C cancels all and waits for their end, a second Ctrl-C exits at once."""
    try:
        held.release()
        return group_table.follow(group, table)
    except KeyboardInterrupt:
        if table is not None:
            table.clear()
        click.echo("Cancelling; partial work is kept (Ctrl-C again to exit at once).", err=True)
    try:
        delegations: list[Delegation] = call("groups/cancel", id=group).delegations
    except KeyboardInterrupt:
        click.echo(f"Stopped waiting; run `understudy groups show {group}` to see the results.", err=True)
        raise
    return delegations
