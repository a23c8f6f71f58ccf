"""``tools``: list the agent CLIs."""

from __future__ import annotations

import click

from understudy.frontends.cli import exit_codes, options
from understudy.frontends.cli.api_calls import call
from understudy.frontends.cli.output import output


@click.command(epilog=options.examples("understudy tools", "understudy tools --refresh --json"))
@click.option("--refresh", is_flag=True, help="Query the versions again.")
@options.as_json
def tools(*, refresh: bool, json_: bool) -> int:
    """List the supported agent CLIs, installed or not."""
    found = call("tools/list", refresh=refresh)
    if json_:
        output.json(found)
        return exit_codes.Exit.OK
    rows = []
    for tool in sorted(found.tools, key=lambda tool: (not tool.found, tool.name)):
        place = tool.path or ("-" if not tool.found else "built in")
        able = "yes" if tool.runnable else "not yet"
        rows.append((tool.name, tool.version or ("?" if tool.found else "not found"), able, place))
    output.table(("TOOL", "VERSION", "RUNNABLE", "PATH"), rows)
    output.problems([problem for tool in found.tools for problem in tool.problems])
    return exit_codes.Exit.OK
