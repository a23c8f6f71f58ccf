"""``export`` and ``commit``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from understudy.frontends.cli.calls import exit_codes, options, workspace_trust
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.output import event_lines, output, output_file
from understudy.frontends.cli.terminal import terminal


@click.command(
    epilog=options.examples(
        "understudy export k3f9q --to branch --branch wrap-tabs",
        "understudy export k3f9q --to commit -m 'Support tabs'",
        "understudy export k3f9q --to patch > wrap.patch",
        "understudy export k3f9q --to patch -o wrap.patch",
    )
)
@options.identifier
@click.option(
    "--to",
    type=click.Choice(["branch", "commit", "patch"]),
    help="Export as a branch, commit or patch; --branch alone means a branch.",
)
@click.option("--branch", metavar="NAME", help="Name of the new branch.")
@click.option("-m", "--message", metavar="TEXT", help="Commit message.")
@click.option(
    "-o", "--output", "file", metavar="FILE", type=click.Path(), help="Write the patch to this file instead of stdout."
)
@click.option("--force", is_flag=True, help="Overwrite the file of --output without asking.")
@options.as_json
def export(
    *,
    identifier: str,
    to: str | None,
    branch: str | None,
    message: str | None,
    file: str | None,
    force: bool,
    json_: bool,
) -> None:
    """Export a result as a branch, commit or patch.

    Your branch, index and files do not change. Rejected hunks are left out. A patch is printed to stdout byte for byte.
    With --json, prints the `ExportResult`.
    """
    to = to or (None if branch is None else "branch")
    if to is None:
        raise click.UsageError("Name the form: --to branch --branch NAME, --to commit or --to patch.")
    if to == "branch" and branch is None:
        raise click.UsageError("Name the new branch: --branch NAME.")
    if to != "branch" and branch is not None:
        raise click.UsageError(f"--to {to} takes no --branch.")
    if message is not None and to == "patch":
        raise click.UsageError("--to patch takes no --message.")
    if file is not None and (to != "patch" or json_):
        raise click.UsageError("--output requires --to patch, and excludes --json.")
    if force and file is None:
        raise click.UsageError("--force requires --output.")
    if file is not None and not force:
        force = _may_overwrite(file)
    exported = call("delegations/export", id=resolve(identifier), to=to, branch=branch, message=message)
    if json_:
        output.json(exported)
    elif to == "patch":
        _patch(exported.patch or "", file, overwrite=force)
    else:
        # One word, for scripts.
        click.echo(exported.branch if to == "branch" else exported.commit)
        if exported.branch and terminal.is_terminal(sys.stdout):
            output.say(
                event_lines.next_commands(f"git diff HEAD...{exported.branch}", f"git merge {exported.branch}"),
                err=True,
            )


@click.command(
    epilog=options.examples(
        "understudy commit k3f9q", "understudy commit k3f9q -m 'Support tabs'", "understudy commit k3f9q --dry-run"
    )
)
@options.identifier
@click.option("-m", "--message", metavar="TEXT", help="Use another message.")
@click.option("--dry-run", is_flag=True, help="Only show the message and the files.")
@click.option("-y", "--yes", is_flag=True, help="Commit without asking.")
@options.as_json
def commit(*, identifier: str, message: str | None, dry_run: bool, yes: bool, json_: bool) -> int:
    """Commit the accepted files of a result on your branch, with its evidence in the message.

    Exactly these files are committed, as they are on disk; what else you changed or staged stays as it is. It is your
    own git, with your hooks and your signature, so the workspace must be trusted. With --json, prints the
    `CommitResult`.
    """
    whole = resolve(identifier)
    shown = call("delegations/commit", id=whole, message=message, dryRun=True)
    if not json_:
        rows = [terminal.one_line(row) for row in shown.message.rstrip().splitlines()]
        mixed = dict.fromkeys(shown.mixed, " (with your own changes)")
        files = [f"  {terminal.path(path)}{mixed.get(path, '')}" for path in shown.files]
        click.echo("\n".join([*rows, "", *files]), err=not dry_run)
    if dry_run:
        if json_:
            output.json(shown)
        return exit_codes.Exit.OK
    if not yes:
        if json_ or not workspace_trust.can_ask():
            raise click.UsageError("Asking needs a terminal: commit with --yes, or look first with --dry-run.")
        if not click.confirm("Commit?", default=True, err=True):
            raise click.Abort
    committed = call("delegations/commit", id=whole, message=shown.message)
    if json_:
        output.json(committed)
    else:
        click.echo(committed.commit)  # one word, for scripts
    return exit_codes.Exit.OK


def _may_overwrite(file: str) -> bool:
    """Return whether the file exists and the user agreed to overwrite it; otherwise raise ``target_exists``."""
    # A pipe or a terminal is written to; nothing in it is lost.
    if not os.path.lexists(file) or (Path(file).exists() and not Path(file).is_file()):
        return os.path.lexists(file)
    if terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr):
        if click.confirm(f"Overwrite {terminal.path(file)}?", default=False, err=True):
            return True
        raise click.Abort
    raise output_file.exists(file)


def _patch(text: str, file: str | None, *, overwrite: bool) -> None:
    data = text.encode("utf-8", "surrogateescape")
    if file is None:
        if terminal.is_terminal(sys.stdout):
            from understudy.frontends.cli.review import diff

            diff.show(data)
            return
        click.echo(data, nl=False)
        return
    output_file.write(file, data, overwrite=overwrite)
