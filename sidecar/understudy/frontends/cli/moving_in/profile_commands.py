"""``delegators import`` and ``delegators export``: agent profiles, and workflows of AGNT."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import option_names
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.moving_in.import_command import show_not_carried
from understudy.frontends.cli.output import output, output_file
from understudy.frontends.cli.terminal import terminal
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import sanitize

_MOST_FILES = 200


@click.command(
    "import",
    epilog=options.examples(
        "understudy delegators import agent-profile.json",
        "understudy delegators import profiles/ --dry-run",
    ),
)
@click.argument("path", metavar="FILE|DIR", type=click.Path())
@click.option(
    "--with-permissions",
    is_flag=True,
    help="Also take over what lets the agent do more: yolo, permission modes, flags, commands, variables.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@click.option("--yes", is_flag=True, help="Write without asking.")
@options.in_workspace
@options.as_json
def import_(*, path: str, with_permissions: bool, dry_run: bool, yes: bool, workspace: str | None, json_: bool) -> None:
    """Import agent profiles (agent-profile.json) as delegators.

    Shows what it would write into your own configuration and what has no effect here, then asks. The profile itself is
    kept beside the delegator, so that `export` loses nothing. Of a folder, every *.json file is read. With --json,
    prints one line for each file.
    """
    if json_ and not (yes or dry_run):
        raise click.UsageError("--json needs --yes or --dry-run, because it does not ask.")
    params = {"permissions": with_permissions, "workspace": uri(workspace or ".")}
    failed: UnderstudyError | None = None
    files = _files(path)
    for file in files:
        try:
            _import_one({**params, "path": uri(file)}, dry_run=dry_run, yes=yes, json_=json_)
        except UnderstudyError as error:
            if len(files) == 1:
                raise
            # The others are imported all the same.
            click.echo(f"{terminal.one_line(file)}: {terminal.one_line(error.message)}", err=True)
            failed = error
    if failed is not None:
        raise failed


def _files(path: str) -> list[str]:
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    files = sorted(str(file) for file in folder.glob("*.json"))
    if not files:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY, f"{path} has no *.json file.", hint="Name the folder with the agent profiles."
        )
    if len(files) > _MOST_FILES:
        raise UnderstudyError(
            ErrorKind.INPUT_TOO_LARGE,
            f"{path} has {len(files)} *.json files; at most {_MOST_FILES} are imported at once.",
            hint="Name the files one by one, or a smaller folder.",
        )
    return files


def _import_one(params: dict[str, Any], *, dry_run: bool, yes: bool, json_: bool) -> None:
    with option_names.as_options():
        seen = call("delegators/importProfile", **params, dryRun=True)
    if not json_:
        _show(seen)
    if not dry_run and seen.files:
        if not yes and not click.confirm("Write it?", default=False, err=True):
            raise click.Abort
        seen = call("delegators/importProfile", **params, revision=seen.revision)
        if not json_:
            names = [file.name for file in seen.files if file.kind == "delegator"]
            click.echo(f"Imported {', '.join(names)}.")
    if json_:
        output.json_line(seen)


def _show(seen: Any) -> None:
    for path in seen.read:
        click.echo(f"Read {terminal.one_line(path)}", err=True)
    for line in seen.diff.splitlines():
        click.echo(sanitize.visible(line))
    for file in seen.files:
        if file.kind == "profile":
            click.echo(f"The profile itself is kept with the delegator {file.name}.")
    if not seen.files:
        same = ", ".join(entry.name for entry in seen.unchanged)
        click.echo(f"There is nothing to import: the delegator {same} is from this profile.")
    show_not_carried(seen)


@click.command(
    epilog=options.examples(
        "understudy delegators export researcher > agent-profile.json",
        "understudy delegators export researcher -o agent-profile.json",
        'understudy delegators export researcher writer --format agnt --task "Compare the parsers"',
    )
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=options.complete_delegators)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["profile", "agnt"]),
    default="profile",
    show_default=True,
    help="An agent profile, or a workflow of AGNT in which the delegators work one after the other.",
)
@click.option("--task", metavar="TEXT", help="What the agents of a workflow are asked.")
@click.option("-o", "--output", "target", metavar="FILE", type=click.Path(), help="Write it into FILE.")
@click.option("--force", is_flag=True, help="Overwrite the file of --output.")
@options.in_workspace
@options.as_json
def export(
    *,
    names: tuple[str, ...],
    format_: str,
    task: str | None,
    target: str | None,
    force: bool,
    workspace: str | None,
    json_: bool,
) -> None:
    """Export delegators as an agent profile or an AGNT workflow.

    A profile has one delegator; in a workflow, several work one after the other. An imported delegator gives its
    original profile, byte for byte, with what you have changed since. With --json, prints the `ExportProfileResult`.
    """
    with option_names.as_options():
        made = call(
            "delegators/exportProfile", names=list(names), format=format_, task=task, workspace=uri(workspace or ".")
        )
    if target is not None:
        output_file.write(target, made.text.encode(), overwrite=force)
    if json_:
        output.json(made)
    elif target is None:
        sys.stdout.buffer.write(made.text.encode())
    else:
        click.echo(f"Wrote {terminal.one_line(target)}.")
    if made.left_out and not json_:
        click.echo("Left out:", err=True)
        for entry in made.left_out:
            click.echo(f"  {terminal.one_line(entry.setting)}: {terminal.one_line(entry.reason)}", err=True)
