"""``mcp install``, ``uninstall`` and ``status``: register the MCP server in other agents and editors."""

from __future__ import annotations

import shlex
from typing import Any

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.other_agents import McpClient, McpClientChange, RegistrationState
from understudy.model.text import sanitize

_STATES = {
    RegistrationState.ABSENT: "not registered",
    RegistrationState.REGISTERED: "registered",
    RegistrationState.OUTDATED: "starts another Understudy; `install` corrects it",
    RegistrationState.FOREIGN: "an entry of this name is not Understudy's",
    RegistrationState.UNKNOWN: "unknown; look into the file",
}
_clients = click.argument("clients", nargs=-1, metavar="[CLIENT]...")
_workspace = click.option(
    "--workspace",
    is_flag=False,
    flag_value=".",
    metavar="[DIR]",
    help="Use the files that clients have in a workspace (default: the current directory), not your own.",
)
_name = click.option("--name", metavar="NAME", help="Name of the entry (default: understudy).")
_dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
_yes = click.option("--yes", is_flag=True, help="Do it without asking.")


@click.command(
    epilog=options.examples(
        "understudy mcp install",
        "understudy mcp install claude codex --dry-run",
        "understudy mcp install vscode --workspace",
    )
)
@_clients
@_workspace
@_name
@click.option(
    "--tools",
    "tool_sets",
    multiple=True,
    type=click.Choice(["delegate-local"]),
    help="Also list the tools of another program; may be repeated.",
)
@_dry_run
@_yes
@options.as_json
def install(**arguments: Any) -> int:
    """Register the server in agents and editors.

    Default: all that are here; `understudy mcp status` lists them. Shows the commands of the agents and editors that it
    would run, then asks. For one without such a command, and for the files of a workspace, it creates a missing file,
    and prints what you add to an existing one. An entry of the same name that is not Understudy's stays as it is.
    """
    from understudy.frontends import mcp

    mcp.require_sdk()
    return _change("install", **arguments)


@click.command(epilog=options.examples("understudy mcp uninstall", "understudy mcp uninstall codex --yes"))
@_clients
@_workspace
@_name
@_dry_run
@_yes
@options.as_json
def uninstall(**arguments: Any) -> int:
    """Remove the server from agents and editors.

    Default: wherever it is registered. Runs the commands of the agents and editors. A file that `install` created is
    removed if nothing in it has changed; for any other file, prints what to remove.
    """
    return _change("uninstall", tool_sets=(), **arguments)


@click.command(epilog=options.examples("understudy mcp status", "understudy mcp status --workspace"))
@_workspace
@_name
@options.as_json
def status(*, workspace: str | None, name: str | None, json_: bool) -> None:
    """List agents and editors that can start the server."""
    result = call("mcpClients/list", workspace=_folder(workspace), entry=name)
    if json_:
        output.json(result)
    else:
        rows = [(client.name, _state(client), terminal.short_path(client.path)) for client in result.clients]
        output.table(("CLIENT", "STATE", "FILE"), rows)


def _state(client: McpClient) -> str:
    if client.state is RegistrationState.ABSENT and not client.workspace:
        return "not registered; the client is here" if client.found else "the client was not found"
    return client.problem or _STATES[client.state]


def _change(
    action: str,
    *,
    clients: tuple[str, ...],
    workspace: str | None,
    name: str | None,
    tool_sets: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    json_: bool,
) -> int:
    if json_ and not (yes or dry_run):
        raise click.UsageError("--json needs --yes or --dry-run, because it does not ask.")
    params: dict[str, Any] = {
        "action": action,
        "names": list(clients) or None,
        "workspace": _folder(workspace),
        "entry": name,
        "tools": list(tool_sets) or None,
    }
    result = call("mcpClients/change", **params, dryRun=not yes or dry_run)
    if not json_:
        for change in result.changes:
            _show(change)
        if not result.changes:
            click.echo(
                "No agent or editor was found. `understudy mcp status` lists them; name one."
                if action == "install"
                else "The MCP server is not registered anywhere."
            )
    pending = [change for change in result.changes if (change.commands or change.writes) and not change.problem]
    problems = [change.problem for change in result.changes if change.problem]
    if pending and not (yes or dry_run):
        question = "Register it in" if action == "install" else "Remove it from"
        if not click.confirm(f"{question} {', '.join(change.title for change in pending)}?", default=False, err=True):
            raise click.Abort
        result = call("mcpClients/change", **params | {"names": [change.name for change in pending]}, dryRun=False)
        pending = result.changes
        problems += [change.problem for change in pending if change.problem]
    if json_:
        output.json(result)
    elif not dry_run:
        for change in pending:
            _report(change, action)
    return exit_codes.Exit.UNVERIFIED if problems else exit_codes.Exit.OK


def _show(change: McpClientChange) -> None:
    """Print what is to be done, and what the user has to do."""
    if change.problem:
        click.echo(f"✗ {change.name}: {terminal.one_line(change.problem)}", err=True)
        return
    path = terminal.short_path(change.path)
    if change.writes:
        click.echo(f"{change.title}: {'create' if change.snippet else 'remove'} {path}")
    elif not change.commands:
        click.echo(f"{change.title}: {change.next or f'nothing to do, see {path}'}")
    for command in change.commands:
        click.echo(f"{change.title}: {sanitize.visible_line(shlex.join(command))}")
    for line in change.snippet.splitlines():
        click.echo(f"  {sanitize.visible(line)}")


def _report(change: McpClientChange, action: str) -> None:
    if change.problem:
        click.echo(f"✗ {change.name}: {terminal.one_line(change.problem)}", err=True)
        return
    click.echo(f"✓ {change.title}: {'registered' if action == 'install' else 'removed'}")
    if change.next:
        click.echo(f"  {change.next}")


def _folder(workspace: str | None) -> str | None:
    return None if workspace is None else uri(workspace)
