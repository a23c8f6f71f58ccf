"""``instructions``: tell other agents when to delegate, and how."""

from __future__ import annotations

from typing import Any

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.other_agents import InstructionChange, InstructionState, InstructionTarget

_STATES = {
    InstructionState.ABSENT: "not installed",
    InstructionState.INSTALLED: "installed",
    InstructionState.OUTDATED: "another version; `install` replaces it",
    InstructionState.EDITED: "edited by someone",
    InstructionState.FOREIGN: "not Understudy's",
    InstructionState.UNREADABLE: "cannot be read",
}
_project = click.option(
    "--project",
    "project",
    is_flag=False,
    flag_value=".",
    metavar="[DIR]",
    help="Also the files of a project (default: of the current directory).",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
_force = click.option("--force", is_flag=True, help="Also where someone has edited the instructions.")
_texts = click.option(
    "--print",
    "printed",
    is_flag=False,
    flag_value="agent",
    type=click.Choice(["agent", "desktop"]),
    metavar="[agent|desktop]",
    help="Only print the instructions, for an application without such files; `desktop`: one that has no command line.",
)
_places = click.argument("places", nargs=-1, metavar="[PLACE]...")


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
    result = call("instructions/list", workspace=_workspace(project))
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
    return target.problem or _STATES[target.state]


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
    action: str, *, places: tuple[str, ...], project: str | None, dry_run: bool, force: bool, json_: bool
) -> int:
    result = call(
        "instructions/change",
        action=action,
        names=list(places) or None,
        workspace=_workspace(project),
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
        click.echo(f"✗ {change.name}: {terminal.one_line(change.problem)}", err=True)
    elif not change.diff:
        click.echo(f"  {change.name}: nothing to do in {path}")
    elif dry_run:
        click.echo(terminal.sanitize(change.diff), nl=False)
    else:
        verb = "removed from" if change.after is InstructionState.ABSENT else "written to"
        click.echo(f"✓ {change.name}: {verb} {path}")


def _workspace(project: str | None) -> str | None:
    return None if project is None else uri(project)
