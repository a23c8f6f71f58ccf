"""``mcp install``, ``uninstall`` and ``status``: register the MCP server in other agents and editors."""

from __future__ import annotations

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
    RegistrationState.UNREADABLE: "cannot be read",
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
_dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be changed.")
_yes = click.option("--yes", is_flag=True, help="Change the files without asking.")


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
def install(**given: Any) -> int:
    """Register the server in agents and editors.

    Default: those whose folder exists; `understudy mcp status` lists all. Shows what it would change as a diff, then
    asks. Everything else in the files stays as it is, byte for byte, comments included. A file that cannot be parsed,
    and an entry of the same name that is not Understudy's, are left as they are.
    """
    from understudy.frontends import mcp

    mcp.require_sdk()
    return _change("install", **given)


@click.command(epilog=options.examples("understudy mcp uninstall", "understudy mcp uninstall codex --yes"))
@_clients
@_workspace
@_name
@_dry_run
@_yes
@options.as_json
def uninstall(**given: Any) -> int:
    """Remove the server from agents and editors.

    Default: wherever it is registered. Files are restored as they were before; where you changed them in between, only
    the entry goes.
    """
    return _change("uninstall", tool_sets=(), **given)


@click.command(epilog=options.examples("understudy mcp status", "understudy mcp status --workspace"))
@_workspace
@_name
@options.as_json
def status(*, workspace: str | None, name: str | None, json_: bool) -> int:
    """List agents and editors that can start the server."""
    found = call("mcpClients/list", workspace=_folder(workspace), entry=name)
    if json_:
        output.json(found)
    else:
        rows = [(one.name, _state(one), terminal.short_path(one.path)) for one in found.clients]
        output.table(("CLIENT", "STATE", "FILE"), rows)
    return exit_codes.Exit.OK


def _state(client: McpClient) -> str:
    if client.state is RegistrationState.ABSENT and client.found and not client.workspace:
        return "not registered; the client is here"
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
    given: dict[str, Any] = {
        "action": action,
        "names": list(clients) or None,
        "workspace": _folder(workspace),
        "entry": name,
        "tools": list(tool_sets) or None,
    }
    found = call("mcpClients/change", **given, dryRun=True)
    pending = [one for one in found.changes if one.diff]
    if json_ and not (yes or dry_run):
        raise click.UsageError("--json needs --yes or --dry-run, because it does not ask.")
    if not json_:
        for one in found.changes:
            _show(one)
        if not found.changes:
            click.echo(
                "No agent or editor was found. `understudy mcp status` lists them; name one."
                if action == "install"
                else "The MCP server is not registered anywhere."
            )
    if pending and not dry_run:
        if not (yes or click.confirm(f"Change {_count(pending)}?", default=False, err=True)):
            raise click.Abort
        found = call("mcpClients/change", **given, revision=found.revision)
        if not json_:
            for one in found.changes:
                _report(one, action, shown=one.name not in {each.name for each in pending})
    if json_:
        output.json(found)
    return exit_codes.Exit.UNVERIFIED if any(one.problem for one in found.changes) else exit_codes.Exit.OK


def _show(one: McpClientChange) -> None:
    if one.problem:
        click.echo(f"✗ {one.name}: {terminal.one_line(one.problem)}", err=True)
    elif not one.diff:
        click.echo(f"  {one.name}: nothing to do in {terminal.short_path(one.path)}")
    for line in one.diff.splitlines():
        click.echo(sanitize.visible(line))


def _report(one: McpClientChange, action: str, *, shown: bool) -> None:
    if shown:
        return
    if one.problem:
        click.echo(f"✗ {one.name}: {terminal.one_line(one.problem)}", err=True)
        return
    done = "registered in" if action == "install" else "removed from"
    click.echo(f"✓ {one.title}: {done} {terminal.short_path(one.path)}")
    if one.next:
        click.echo(f"  {one.next}")


def _count(pending: list[McpClientChange]) -> str:
    return terminal.short_path(pending[0].path) if len(pending) == 1 else f"{len(pending)} files"


def _folder(workspace: str | None) -> str | None:
    return None if workspace is None else uri(workspace)
