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
    found = call("recipes/list", uri=None if file is None else uri(file))
    if json_:
        output.json(found)
        return exit_codes.Exit.OK
    listed = call("delegators/list").delegators
    defaults = {recipe: entry.delegator.name for entry in listed for recipe in entry.default_for}
    general = next((entry.delegator.name for entry in listed if entry.is_default), "-")
    rows = [
        (one.name, one.returns, one.scope, one.delegator or defaults.get(one.name, general), one.title)
        for one in found.recipes
    ]
    output.table(("RECIPE", "RETURNS", "FROM", "DELEGATOR", "WHAT"), rows)
    output.problems(found.problems)
    return exit_codes.Exit.OK
