"""``doctor`` and ``version``."""

from __future__ import annotations

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.entries import print_connection_tests
from understudy.frontends.cli.terminal import terminal


@click.command(epilog=options.examples("understudy version --json"))
@options.as_json
def version(*, json_: bool) -> None:
    """Print the version of Understudy and of its protocol."""
    result = call("version")
    if json_:
        output.json(result)
    else:
        click.echo(f"understudy {result.version}, protocol {result.protocol_version}")


@click.command(
    epilog=options.examples("understudy doctor", "understudy doctor --delegators", "understudy doctor --json")
)
@click.option(
    "--delegators",
    "delegators",
    is_flag=True,
    help="Also test every delegator with a short question to its model.",
)
@options.as_json
def doctor(*, delegators: bool, json_: bool) -> int:
    """Check that everything a delegation needs is installed; print how to fix what is missing."""
    if delegators and json_:
        raise click.UsageError("Use `understudy delegators test --all --json` for the delegators.")
    result = call("doctor")
    passed = all(check.ok for check in result.checks)
    if json_:
        output.json(result)
        return exit_codes.Exit.OK if passed else exit_codes.Exit.UNVERIFIED
    brush = output.paint()
    for check in result.checks:
        good = brush("!", fg="yellow") if check.hint else brush("✓", fg="green")
        mark = good if check.ok else brush("✗", fg="red")
        click.echo(f"{mark} {check.name}: {terminal.one_line(check.message)}")
        if check.hint:
            click.echo(f"    {terminal.one_line(check.hint)}")
    if delegators:
        place = uri(".")
        listed = call("delegators/list", workspace=place).delegators
        names = [entry.delegator.name for entry in listed if entry.delegator.remote_agent is None]
        tested = print_connection_tests(
            lambda name: call("delegators/test", name=name, workspace=place), names, json_=False
        )
        passed = passed and tested == exit_codes.Exit.OK
    return exit_codes.Exit.OK if passed else exit_codes.Exit.UNVERIFIED
