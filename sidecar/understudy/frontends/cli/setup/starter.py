"""``init``: write a configuration file."""

from __future__ import annotations

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.model.text import path_quoting


@click.command(epilog=options.examples("understudy init", "understudy init --scope workspace"))
@options.scope
@options.in_workspace
@options.as_json
def init(*, scope: str, workspace: str | None, json_: bool) -> None:
    """Write a commented configuration file.

    Everything in it is a comment: what can be set, the agent CLIs that are installed, and in a workspace the test
    runners that its files show. A file that exists is never replaced.
    """
    made = call("configuration/init", scope=scope, workspace=uri(workspace or "."))
    if json_:
        output.json(made)
        return
    click.echo(f"Wrote {path_quoting.path_of(made.location.uri)}")
    for title, names in (("Installed agent CLIs", made.tools), ("Test runners", made.checks)):
        if names:
            click.echo(f"{title}: {', '.join(names)}", err=True)
    click.echo("Remove the # of what you need, then: understudy delegators list", err=True)
