"""``cancel`` and ``check``: what a person asks of a delegation."""

from __future__ import annotations

import sys
import threading

import click

from understudy.faces.cli import card, exits, following, options, output, terminal
from understudy.faces.cli.calls import call, resolve

_JOIN_SECONDS = 10.0


@click.command(epilog=options.examples("understudy cancel k3f9q", "understudy cancel k3f9q m2a8x"))
@options.identifiers
@options.as_json
def cancel(*, identifiers: tuple[str, ...], json_: bool) -> int:
    """Stop delegations within five seconds; their work is kept.

    One that has ended already stays as it is. With --json: one `Delegation` a line.
    """
    for identifier in [resolve(text) for text in identifiers]:
        found = call("delegations/cancel", id=identifier)
        if json_:
            output.json_line(found)
        else:
            click.echo(f"{found.id}  {card.state_word(found)}")
    return exits.Exit.OK


@click.command(epilog=options.examples("understudy check k3f9q"))
@options.identifier
@options.as_json
def check(*, identifier: str, json_: bool) -> int:
    """Run the checks again on a result, and say the verdict anew. Ctrl-C cancels them."""
    whole = resolve(identifier)
    before = call("delegations/get", id=whole).last_seq
    silent = json_ and not terminal.is_terminal(sys.stderr)
    checking = _Checking(whole)
    checking.start()
    follower = following.Follower(whole, None if silent else following.view_on(sys.stderr), before)
    found = following.follow_or_cancel(follower, lambda: not checking.is_alive())
    checking.join(timeout=_JOIN_SECONDS)
    if checking.error is not None:
        raise checking.error
    if json_:
        output.json(found)
    else:
        following.print_card(found)
    return exits.of_verdict(found.verdict)


class _Checking(threading.Thread):
    """The request, which answers when the checks have ended; meanwhile the command follows the events."""

    def __init__(self, identifier: str) -> None:
        super().__init__(daemon=True)
        self._identifier = identifier
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            call("delegations/check", id=self._identifier)
        except Exception as error:
            self.error = error
