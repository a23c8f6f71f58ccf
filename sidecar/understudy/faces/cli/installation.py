"""``doctor``, ``tools``, ``recipes``, ``trust`` and ``version``."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.faces.cli import exits, options, output, terminal, trusting
from understudy.faces.cli.calls import call, uri


@click.command(epilog=options.examples("understudy version --json"))
@options.as_json
def version(*, json_: bool) -> int:
    """Print the version and the contract it speaks."""
    found = call("version")
    if json_:
        output.json(found)
    else:
        click.echo(f"understudy {found.version}, protocol {found.protocol_version}")
    return exits.Exit.OK


@click.command(epilog=options.examples("understudy doctor", "understudy doctor --json"))
@options.as_json
def doctor(*, json_: bool) -> int:
    """Check that everything a run needs is there; say what to do about what is missing."""
    found = call("doctor")
    good = all(check.ok for check in found.checks)
    if json_:
        output.json(found)
        return exits.Exit.OK if good else exits.Exit.UNVERIFIED
    brush = output.paint()
    for check in found.checks:
        mark = brush("✓", fg="green") if check.ok else brush("✗", fg="red")
        click.echo(f"{mark} {check.name}: {terminal.one_line(check.message)}")
        if check.hint and not check.ok:
            click.echo(f"    {terminal.one_line(check.hint)}")
    return exits.Exit.OK if good else exits.Exit.UNVERIFIED


@click.command(epilog=options.examples("understudy tools", "understudy tools --refresh --json"))
@click.option("--refresh", is_flag=True, help="Ask each of them for its version again.")
@options.as_json
def tools(*, refresh: bool, json_: bool) -> int:
    """List the agent CLIs that are known, found on this machine or not."""
    found = call("tools/list", refresh=refresh)
    if json_:
        output.json(found)
        return exits.Exit.OK
    rows = []
    for tool in sorted(found.tools, key=lambda tool: (not tool.found, tool.name)):
        place = tool.path or ("-" if not tool.found else "built in")
        able = "yes" if tool.runnable else "not yet"
        rows.append((tool.name, tool.version or ("?" if tool.found else "not found"), able, place))
    output.table(("TOOL", "VERSION", "RUNNABLE", "PATH"), rows)
    output.problems([problem for tool in found.tools for problem in tool.problems])
    return exits.Exit.OK


@click.command(epilog=options.examples("understudy recipes", "understudy recipes src/wrap.py"))
@click.argument("file", required=False, type=click.Path())
@options.as_json
def recipes(*, file: str | None, json_: bool) -> int:
    """List the kinds of work that can be delegated; with FILE, those that fit it."""
    found = call("recipes/list", uri=uri(file or "."))
    if json_:
        output.json(found)
        return exits.Exit.OK
    output.table(
        ("RECIPE", "RETURNS", "FROM", "WHAT"), [(one.name, one.returns, one.scope, one.title) for one in found.recipes]
    )
    output.problems(found.problems)
    return exits.Exit.OK


@click.command(
    epilog=options.examples("understudy trust", "understudy trust ~/src/project --yes", "understudy trust --withdraw")
)
@click.argument("path", required=False, type=click.Path(file_okay=False))
@click.option("--withdraw", is_flag=True, help="Trust it no longer.")
@click.option("--status", is_flag=True, help="Only say how it stands.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.as_json
def trust(*, path: str | None, withdraw: bool, status: bool, yes: bool, json_: bool) -> int:
    """Trust a workspace (here by default): agents and checks may run in trees made from it.

    Shows what that allows, and what changed since you trusted it, before it asks. Exit code 1: it is not trusted.
    """
    if withdraw and (status or yes):
        raise click.UsageError("--withdraw goes with neither --status nor --yes")
    from understudy.engine.places import workspace_of  # noqa: PLC0415 - one user

    workspace = workspace_of([], str(Path(path).expanduser().absolute()) if path else None, Path.cwd())
    given = False if withdraw else True if yes and not status else None
    if json_:
        if not (withdraw or status or yes):
            raise click.UsageError("--json asks nothing: add --yes, --withdraw or --status")
        standing = call("workspace/trust", workspace=str(workspace), trusted=given)
        output.json(standing)
        return exits.Exit.OK if standing.trusted is not withdraw else exits.Exit.UNVERIFIED
    if withdraw:
        trusting.record(workspace, trusted=False)
        click.echo(f"{terminal.one_line(str(workspace))} is not trusted any more.")
        return exits.Exit.OK
    standing = trusting.describe(workspace)
    if status or standing.trusted:
        return exits.Exit.OK if standing.trusted else exits.Exit.UNVERIFIED
    if not yes and not trusting.can_ask():
        raise click.UsageError("there is no terminal to ask on: add --yes")
    if not yes and not click.confirm("Trust this folder?", default=False, err=True):
        return exits.Exit.UNVERIFIED
    trusting.record(workspace, trusted=True, seen=standing.seen)
    click.echo("Trusted.")
    return exits.Exit.OK
