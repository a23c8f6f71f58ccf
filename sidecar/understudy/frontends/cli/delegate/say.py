"""``say``: say something to the agent of a delegation in progress."""

from __future__ import annotations

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.output import output
from understudy.model.delegation.delegations import Delivery

_OUTCOMES: dict[Delivery, str] = {
    "sent": "sent to its agent",
    "waiting": "waits for its agent, at the latest until the end of this turn",
    "kept": "its agent takes nothing more; this is part of your next reply:\n    understudy reply {id} TEXT",
}


@click.command(
    epilog=options.examples(
        "understudy say k3f9q 'do not touch the public names'",
        "understudy say k3f9q - < notes.md",
        "understudy say k3f9q --json 'test the empty string, too'",
    )
)
@options.identifier
@click.argument("words", metavar="TEXT...|-", nargs=-1, required=True)
@options.as_json
def say(*, identifier: str, words: tuple[str, ...], json_: bool) -> int:
    """Say something to the agent of a delegation in progress.

    Some agents get it at once, others when their turn ends; the answer says which. Once a delegation has finished, use
    `understudy reply`. `-` reads the text from stdin.
    """
    text = options.words_or_stdin(words)
    if not text.strip():
        raise click.UsageError("The message is empty.")
    whole = resolve(identifier)
    done = call("delegations/say", id=whole, text=text)
    if json_:
        output.json(done)
    else:
        delivery: Delivery = done.delivery
        click.echo(f"{whole}: {_OUTCOMES[delivery].format(id=whole)}")
    return exit_codes.Exit.OK
