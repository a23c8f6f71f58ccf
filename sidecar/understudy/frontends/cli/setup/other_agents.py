"""``instructions``, and ``mcp install``, ``uninstall`` and ``status``: what other agents know of Understudy."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import Any

import click

from understudy.frontends.cli.calls import exit_codes, options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.other_agents import (
    InstructionChange,
    InstructionState,
    InstructionTarget,
    McpClient,
    McpClientChange,
    RegistrationState,
)
from understudy.model.text import sanitize

_INSTRUCTIONS = {
    InstructionState.ABSENT: "not installed",
    InstructionState.INSTALLED: "installed",
    InstructionState.OUTDATED: "another version; `install` replaces it",
    InstructionState.EDITED: "edited by someone",
    InstructionState.FOREIGN: "not Understudy's",
    InstructionState.UNREADABLE: "cannot be read",
}
_PLACES = {"claude-code": "claude-md", "codex-cli": "codex-md"}
_PRINTED = dict.fromkeys(_PLACES, "agent") | dict.fromkeys(("claude-desktop", "codex-app"), "desktop")
"""What agent-delegate calls the places for instructions, and the texts."""
_project = click.option(
    "--project",
    "project",
    is_flag=False,
    flag_value=".",
    metavar="[DIR]",
    help="Also the files of a project (default: of the current directory).",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
_force = click.option("--force", is_flag=True, help="Also where someone has edited the instructions.")
_texts = click.option(
    "--print",
    "printed",
    is_flag=False,
    flag_value="agent",
    type=options.NamedChoice(["agent", "desktop"], _PRINTED),
    metavar="[agent|desktop]",
    help="Only print the instructions, for an application without such files; `desktop`: one that has no command line.",
)
_places = options.all_of(
    click.argument("places", nargs=-1, metavar="[PLACE]..."),
    click.option("--tool", "tools", multiple=True, metavar="PLACE", help="The same as PLACE; may be repeated."),
)
_REGISTRATIONS = {
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
_yes = click.option("--yes", is_flag=True, help="Do it without asking.")


@click.group(
    cls=DefaultGroup,
    epilog=options.examples(
        "understudy instructions",
        "understudy instructions install --dry-run",
        "understudy instructions install claude codex",
        "understudy instructions install project-agents-md --project",
        "understudy instructions uninstall",
        "understudy instructions --print",
        "understudy instructions --print desktop",
    ),
)
def instructions() -> None:
    """Tell other agents when to delegate, and how.

    Without a command, lists the places: skills of agents, and blocks in CLAUDE.md and AGENTS.md. Uninstalling restores
    every byte that was there before.
    """


@instructions.command(epilog=options.examples("understudy instructions status --project"))
@_project
@_texts
@options.as_json
def status(*, project: str | None, printed: str | None, json_: bool) -> None:
    """List the places for instructions, and what is there."""
    _status(project=project, printed=printed, json_=json_)


def _status(*, project: str | None, printed: str | None, json_: bool) -> None:
    result = call("instructions/list", workspace=_folder(project))
    if json_:
        output.json(result)
    elif printed:
        click.echo(result.snippet if printed == "desktop" else result.text, nl=False)
    else:
        output.table(
            ("PLACE", "STATE", "FILE"),
            [(target.name, _state(target), terminal.short_path(target.path)) for target in result.targets],
        )


def _state(target: InstructionTarget) -> str:
    if target.state is InstructionState.ABSENT and target.found:
        return "not installed; the agent is here"
    return target.problem or _INSTRUCTIONS[target.state]


@instructions.command(epilog=options.examples("understudy instructions install claude codex --dry-run"))
@_places
@_project
@_dry_run
@_force
@_texts
@options.as_json
def install(*, printed: str | None, **arguments: Any) -> int:
    """Install the instructions.

    Default: where the folder of an agent exists.
    """
    if printed:
        _status(project=arguments["project"], printed=printed, json_=arguments["json_"])
        return exit_codes.Exit.OK
    return _change("install", **arguments)


@instructions.command(
    epilog=options.examples("understudy instructions uninstall", "understudy instructions uninstall codex")
)
@_places
@_project
@_dry_run
@_force
@options.as_json
def uninstall(**arguments: Any) -> int:
    """Remove the instructions.

    Default: wherever they are.
    """
    return _change("uninstall", **arguments)


def _change(
    action: str,
    *,
    places: tuple[str, ...],
    tools: tuple[str, ...] = (),
    project: str | None,
    dry_run: bool,
    force: bool,
    json_: bool,
) -> int:
    named = [*places, *(name for names in tools for name in names.split(","))]
    printed = next((name for name in named if _PRINTED.get(name) == "desktop"), None)
    if printed is not None:
        raise click.UsageError(f"{printed} reads no file: `understudy instructions --print desktop` prints its text.")
    result = call(
        "instructions/change",
        action=action,
        names=[_PLACES.get(name, name) for name in named] or None,
        workspace=_folder(project),
        dryRun=dry_run,
        force=force,
    )
    failed = any(change.problem for change in result.changes)
    if json_:
        output.json(result)
    else:
        for change in result.changes:
            _print(change, dry_run=dry_run)
        if not result.changes:
            click.echo(
                "No agent was found that reads instructions. `understudy instructions` lists the places; name one."
                if action == "install"
                else "There are no instructions to remove."
            )
    return exit_codes.Exit.UNVERIFIED if failed else exit_codes.Exit.OK


def _print(change: InstructionChange, *, dry_run: bool) -> None:
    path = terminal.short_path(change.path)
    if change.problem:
        output.say(f"✗ {change.name}: {terminal.one_line(change.problem)}", err=True)
    elif not change.diff:
        click.echo(f"  {change.name}: nothing to do in {path}")
    elif dry_run:
        click.echo(terminal.sanitize(change.diff), nl=False)
    else:
        verb = "removed from" if change.after is InstructionState.ABSENT else "written to"
        click.echo(f"✓ {change.name}: {verb} {path}")


@click.command(
    "install",
    epilog=options.examples(
        "understudy mcp install",
        "understudy mcp install claude codex --dry-run",
        "understudy mcp install vscode --workspace",
    ),
)
@_clients
@_workspace
@_name
@options.tool_sets
@_dry_run
@_yes
@options.as_json
def mcp_install(**arguments: Any) -> int:
    """Register the server in agents and editors.

    Default: all that are here; `understudy mcp status` lists them. Shows the commands of the agents and editors that it
    would run, then asks. For one without such a command, and for the files of a workspace, it creates a missing file,
    and prints what you add to an existing one. An entry of the same name that is not Understudy's stays as it is.

    Then offers `understudy instructions install` for the same agents: without instructions, they do not delegate.
    """
    from understudy.frontends import mcp

    mcp.require_sdk()
    return _register("install", **arguments)


@click.command("uninstall", epilog=options.examples("understudy mcp uninstall", "understudy mcp uninstall codex --yes"))
@_clients
@_workspace
@_name
@_dry_run
@_yes
@options.as_json
def mcp_uninstall(**arguments: Any) -> int:
    """Remove the server from agents and editors.

    Default: wherever it is registered. Runs the commands of the agents and editors. A file that `install` created is
    removed if nothing in it has changed; for any other file, prints what to remove.
    """
    return _register("uninstall", tool_sets=(), **arguments)


@click.command("status", epilog=options.examples("understudy mcp status", "understudy mcp status --workspace"))
@_workspace
@_name
@options.as_json
def mcp_status(*, workspace: str | None, name: str | None, json_: bool) -> None:
    """List agents and editors that can start the server."""
    result = call("mcpClients/list", workspace=_folder(workspace), entry=name)
    if json_:
        output.json(result)
    else:
        rows = [(client.name, _registration(client), terminal.short_path(client.path)) for client in result.clients]
        output.table(("CLIENT", "STATE", "FILE"), rows)


def _registration(client: McpClient) -> str:
    if client.state is RegistrationState.ABSENT and not client.workspace:
        return "not registered; the client is here" if client.found else "the client was not found"
    return client.problem or _REGISTRATIONS[client.state]


def _register(
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
        if action == "install" and workspace is None:
            _offer_instructions({change.name for change in pending if not change.problem}, asks=not yes)
    return exit_codes.Exit.UNVERIFIED if problems else exit_codes.Exit.OK


def _offer_instructions(clients: Collection[str], *, asks: bool) -> None:
    """Offer, or only name, the instructions for clients in which the server has been registered.

    Agents look for the tools of a server when they want one, so a server alone is never used.
    """
    unread = {InstructionState.ABSENT, InstructionState.OUTDATED}
    targets = [
        target for target in call("instructions/list").targets if target.name in clients and target.state in unread
    ]
    if not targets:
        return
    names = [target.name for target in targets]
    if not asks:
        click.echo(f"They delegate only if told when: understudy instructions install {' '.join(names)}")
        return
    files = ", ".join(terminal.short_path(target.path) for target in targets)
    if click.confirm(f"Tell them when to delegate, too ({files})? Without it, they do not.", default=False, err=True):
        _change("install", places=tuple(names), project=None, dry_run=False, force=False, json_=False)


def _show(change: McpClientChange) -> None:
    """Print what is to be done, and what the user has to do."""
    if change.problem:
        output.say(f"✗ {change.name}: {terminal.one_line(change.problem)}", err=True)
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
        output.say(f"✗ {change.name}: {terminal.one_line(change.problem)}", err=True)
        return
    click.echo(f"✓ {change.title}: {'registered' if action == 'install' else 'removed'}")
    if change.next:
        click.echo(f"  {change.next}")


def _folder(workspace: str | None) -> str | None:
    return None if workspace is None else uri(workspace)
