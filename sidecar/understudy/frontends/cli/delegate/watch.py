"""``watch`` and ``wait``."""

from __future__ import annotations

import contextlib
import sys

import click

from understudy.api.serving.follow import follow, follow_all
from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.group import group_table
from understudy.frontends.cli.output import output
from understudy.frontends.cli.output.live_view import REDRAW_SECONDS
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_UNFINISHED = [str(state) for state in State if state is not State.FINISHED]


@click.command(
    epilog=options.examples("understudy watch", "understudy watch k3f9q --json | jq .type", "understudy watch --all")
)
@click.argument("identifier", metavar="[ID]", required=False, shell_complete=options.complete_identifiers)
@click.option(
    "--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Start after the event with this number."
)
@click.option("--all", "all_", is_flag=True, help="Show every delegation in progress, of all workspaces, as a table.")
@click.option(
    "-n", "--newest", metavar="N", type=click.IntRange(0, 100), default=5, help="With --all: finished ones to show."
)
@click.option("--once", is_flag=True, help="With --all: print the table once, and exit.")
@options.as_json
def watch(*, identifier: str | None, after: int, all_: bool, newest: int, once: bool, json_: bool) -> int:
    """Follow a delegation live, from its first event to its end.

    Without ID, follows the newest running delegation; a finished one is shown from its first event. Ctrl-C stops
    watching, not the delegation. With --json, prints one event per line; with --all, a `Delegation` whenever one has
    changed.
    """
    if all_:
        _watch_all(newest=newest, once=once, json_=json_)
        return exit_codes.Exit.OK
    if identifier is None:
        running = follower.newest(_UNFINISHED)
        if running is None:
            raise UnderstudyError(
                ErrorKind.UNKNOWN_DELEGATION,
                "No delegation is running.",
                hint="Run `understudy list` to see finished ones.",
            )
        identifier = str(running.id)
    else:
        identifier = resolve(identifier)
    if json_:
        for event in follow(identifier, after, idle_seconds=REDRAW_SECONDS):
            if event is not None:
                output.json_line(event)
        return exit_codes.of_verdict(call("delegations/get", id=identifier).verdict)
    watcher = follower.watching(identifier, sys.stdout, after=after)
    try:
        finished = watcher.run()
    except KeyboardInterrupt:
        click.echo(
            f"Stopped watching; {identifier} keeps running. Continue with: understudy watch {identifier}", err=True
        )
        return exit_codes.Exit.CANCELLED
    click.echo()
    follower.show_card(finished)
    return exit_codes.of_verdict(finished.verdict)


def _watch_all(*, newest: int, once: bool, json_: bool) -> None:
    followed = follow_all(idle_seconds=group_table.IDLE_SECONDS, newest=newest)
    table = group_table.view_on(sys.stdout, None)
    shown: dict[str, int] = {}
    with contextlib.closing(followed), contextlib.suppress(KeyboardInterrupt):
        for members in followed:
            if json_:
                for member in members:
                    if shown.get(member.id) != member.last_seq:
                        shown[member.id] = member.last_seq
                        output.json_line(member)
                sys.stdout.flush()
            elif once:
                group_table.print_table(members, "Nothing was delegated yet.")
            else:
                table.show(members)
            if once:
                break
