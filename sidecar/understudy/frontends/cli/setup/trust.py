"""``trust``: trust a workspace, or revoke its trust."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal, trust_prompt


@click.command(
    epilog=options.examples("understudy trust", "understudy trust ~/src/project --yes", "understudy trust --revoke")
)
@click.argument("path", required=False, type=click.Path(file_okay=False))
@click.option("--revoke", is_flag=True, help="Revoke the trust.")
@click.option("--status", is_flag=True, help="Only print whether the workspace is trusted.")
@click.option("-y", "--yes", is_flag=True, help="Trust without asking.")
@options.as_json
def trust(*, path: str | None, revoke: bool, status: bool, yes: bool, json_: bool) -> int:
    """Trust a workspace (default: the current directory): agents and checks may run in its worktrees.

    Shows the effects, and what changed since you trusted it, before asking. The exit code is 1 if the workspace is
    not trusted.
    """
    if revoke and (status or yes):
        raise click.UsageError("--revoke excludes --status and --yes.")
    workspace = trust_prompt.workspace_of(str(Path(path or ".").expanduser().absolute()))
    decision = False if revoke else True if yes and not status else None
    if json_:
        if not (revoke or status or yes):
            raise click.UsageError("--json does not ask: add --yes, --revoke or --status.")
        trust_status = call("workspace/trust", workspace=str(workspace), trusted=decision)
        output.json(trust_status)
        return exit_codes.Exit.OK if trust_status.trusted is not revoke else exit_codes.Exit.UNVERIFIED
    if revoke:
        trust_prompt.record(workspace, trusted=False)
        click.echo(f"{terminal.one_line(str(workspace))} is no longer trusted.")
        return exit_codes.Exit.OK
    trust_status = trust_prompt.describe(workspace)
    if status or trust_status.trusted:
        return exit_codes.Exit.OK if trust_status.trusted else exit_codes.Exit.UNVERIFIED
    if not yes and not trust_prompt.can_ask():
        raise click.UsageError("There is no terminal to ask on: add --yes.")
    if not yes and not trust_prompt.confirm():
        return exit_codes.Exit.UNVERIFIED
    trust_prompt.record(workspace, trusted=True, digest=trust_status.digest)
    click.echo("Trusted.")
    return exit_codes.Exit.OK
