"""``evidence`` and ``dismiss``: the evidence for a verdict."""

from __future__ import annotations

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal.terminal import sanitize


@click.command(epilog=options.examples("understudy evidence k3f9q", "understudy evidence k3f9q > evidence.md"))
@options.identifier
@options.as_json
def evidence(*, identifier: str, json_: bool) -> None:
    """Show all evidence for a verdict as Markdown, with commands to repeat it."""
    page = call("delegations/evidence", id=resolve(identifier))
    if json_:
        output.json(page)
    else:
        click.echo(sanitize(page.markdown), nl=False)


@click.command(epilog=options.examples("understudy dismiss k3f9q 5d1c0b7a9e42"))
@options.identifier
@click.argument("mutants", nargs=-1, required=True, metavar="CHANGE…")
@options.as_json
def dismiss(*, identifier: str, mutants: tuple[str, ...], json_: bool) -> None:
    """Dismiss small changes of the code that no test can notice, because it does the same.

    They stay left out in this workspace while their line stays the same. `understudy check` judges a result without
    them.
    """
    whole = resolve(identifier)
    dismissed = call("delegations/dismiss", id=whole, mutants=list(mutants))
    if json_:
        output.json(dismissed)
    else:
        click.echo(f"Dismissed {len(mutants)}.\nnext: understudy check {whole}")
