"""``recipes``: list the kinds of work."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.api.caller import TerminalCaller
from understudy.api.handlers import offers
from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, uri
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
    routes = offers.routes(TerminalCaller(Path.cwd()), uri("."))
    chosen = {one.recipe.name: one.explain.delegator for one in routes if one.explain is not None}
    rows = [(one.name, one.returns, one.scope, chosen.get(one.name, "-"), one.title) for one in found.recipes]
    output.table(("RECIPE", "RETURNS", "FROM", "DELEGATOR", "WHAT"), rows, wrap=True)
    output.problems(found.problems)
    return exit_codes.Exit.OK
