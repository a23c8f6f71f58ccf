"""``recipes``: list the kinds of work."""

from __future__ import annotations

import click

from understudy.frontends.cli import exit_codes, options
from understudy.frontends.cli.api_calls import call, uri
from understudy.frontends.cli.output import output


@click.command(epilog=options.examples("understudy recipes", "understudy recipes src/wrap.py"))
@click.argument("file", required=False, type=click.Path())
@options.as_json
def recipes(*, file: str | None, json_: bool) -> int:
    """List the recipes: the kinds of work to delegate; with FILE, those that apply to it."""
    found = call("recipes/list", uri=uri(file or "."))
    if json_:
        output.json(found)
        return exit_codes.Exit.OK
    output.table(
        ("RECIPE", "RETURNS", "FROM", "WHAT"), [(one.name, one.returns, one.scope, one.title) for one in found.recipes]
    )
    output.problems(found.problems)
    return exit_codes.Exit.OK
