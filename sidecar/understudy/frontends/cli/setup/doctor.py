"""``doctor`` and ``version``."""

from __future__ import annotations

import click

from understudy.frontends.cli import exit_codes, options
from understudy.frontends.cli.api_calls import call
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal


@click.command(epilog=options.examples("understudy version --json"))
@options.as_json
def version(*, json_: bool) -> int:
    """Print the version of Understudy and of its protocol."""
    found = call("version")
    if json_:
        output.json(found)
    else:
        click.echo(f"understudy {found.version}, protocol {found.protocol_version}")
    return exit_codes.Exit.OK


@click.command(epilog=options.examples("understudy doctor", "understudy doctor --json"))
@options.as_json
def doctor(*, json_: bool) -> int:
    """Check that everything a delegation needs is installed; print how to fix what is missing."""
    found = call("doctor")
    good = all(check.ok for check in found.checks)
    if json_:
        output.json(found)
        return exit_codes.Exit.OK if good else exit_codes.Exit.UNVERIFIED
    brush = output.paint()
    for check in found.checks:
        mark = brush("✓", fg="green") if check.ok else brush("✗", fg="red")
        click.echo(f"{mark} {check.name}: {terminal.one_line(check.message)}")
        if check.hint and not check.ok:
            click.echo(f"    {terminal.one_line(check.hint)}")
    return exit_codes.Exit.OK if good else exit_codes.Exit.UNVERIFIED
