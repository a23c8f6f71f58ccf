"""``watch`` and ``wait``: what happens, and that it has ended."""

from __future__ import annotations

import sys
import time

import click

from understudy.faces.cli import card, exits, following, lines, options, output, terminal
from understudy.faces.cli.calls import call, resolve
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_UNFINISHED = [str(state) for state in State if state is not State.FINISHED]
_MOST_SECONDS = 86_400.0
_SLICE_SECONDS = 3600.0


@click.command(
    epilog=options.examples("understudy watch", "understudy watch k3f9q", "understudy watch k3f9q --json | jq .type")
)
@click.argument("identifier", metavar="[ID]", required=False, shell_complete=options.complete_identifiers)
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Begin behind this event.")
@options.as_json
def watch(*, identifier: str | None, after: int, json_: bool) -> int:
    """Follow a delegation live, from its first event to its end; without ID, the newest one that runs.

    With --json: one event a line, as the contract has them. Ctrl-C stops watching, not the delegation. An ended
    delegation is shown from its beginning.
    """
    if identifier is None:
        running = following.newest(_UNFINISHED)
        if running is None:
            raise UnderstudyError(
                ErrorKind.UNKNOWN_DELEGATION, "nothing runs at the moment", hint="`understudy list` shows what ran"
            )
        identifier = str(running.id)
    else:
        identifier = resolve(identifier)
    if json_:
        for event in following.events(identifier, after):
            if event is not None:
                output.json_line(event)
        return exits.of_verdict(call("delegations/get", id=identifier).verdict)
    follower = following.watching(identifier, sys.stdout, after=after)
    try:
        finished = follower.run()
    except KeyboardInterrupt:
        follower.end()
        click.echo(f"stopped watching; it goes on: understudy watch {identifier}", err=True)
        return exits.Exit.CANCELLED
    click.echo()
    click.echo(card.card(finished, output.paint()), nl=False)
    return exits.of_verdict(finished.verdict)


@click.command(epilog=options.examples("understudy wait k3f9q", "understudy wait k3f9q m2a8x --timeout 600"))
@options.identifiers
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait no longer than this for all of them."
)
@options.as_json
def wait(*, identifiers: tuple[str, ...], timeout: float | None, json_: bool) -> int:
    """Wait until delegations have ended, and print a line for each.

    The exit code is the highest of theirs. With --json: one `Delegation` a line.
    """
    whole = [resolve(text) for text in identifiers]
    deadline = time.monotonic() + (_MOST_SECONDS if timeout is None else timeout)
    worst = 0
    for identifier in whole:
        while True:
            left = max(0.0, deadline - time.monotonic())
            found = call("delegations/wait", id=identifier, timeoutSeconds=min(left, _SLICE_SECONDS))
            if found.state is State.FINISHED or time.monotonic() >= deadline:
                break
        if json_:
            output.json_line(found)
        else:
            brush = output.paint()
            word = brush(card.state_word(found), fg=card.verdict_colour(found.verdict))
            reservations = ", ".join(map(lines.words, found.reservations))
            because = f" ({reservations})" if reservations else ""
            click.echo(f"{found.id}  {word}{because}  {terminal.one_line(found.title)}")
        worst = max(worst, exits.of_verdict(found.verdict))
    return worst
