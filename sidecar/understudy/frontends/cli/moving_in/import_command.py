"""``import``."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.config_entries import ImportSource
from understudy.model.errors import Location
from understudy.model.text import path_quoting, sanitize


@click.command(
    "import",
    epilog=options.examples(
        "understudy import agent-delegate --dry-run",
        "understudy import agent-delegate",
        "understudy import delegate-local .mcp.json --yes",
    ),
)
@click.argument("source", metavar="TOOL", type=click.Choice(get_args(ImportSource)))
@click.argument("path", required=False, type=click.Path())
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@click.option("--yes", is_flag=True, help="Write without asking; keys in plain text are not stored.")
@click.option("--store-keys", is_flag=True, help="Also store keys that are in plain text, as `servers set-key` does.")
@options.in_workspace
@options.as_json
def import_(
    *,
    source: str,
    path: str | None,
    dry_run: bool,
    yes: bool,
    store_keys: bool,
    workspace: str | None,
    json_: bool,
) -> None:
    """Import the configuration of another delegation tool.

    TOOL is one of the names below; PATH is its file, if that is not in its usual place. The command shows what it would
    write into your own configuration as a diff, and every setting that cannot be carried over, then asks. Nothing that
    exists is replaced, and a second import changes nothing. Keys are never copied into a configuration file.

    docs/moving-in.md lists every command and setting of these tools.
    """
    params: dict[str, Any] = {
        "source": source,
        "path": uri(path) if path is not None else None,
        "workspace": uri(workspace or "."),
    }
    seen = call("configuration/import", **params, dryRun=True)
    keys = [key.model_server for key in seen.keys]
    if dry_run:
        output.json(seen) if json_ else _show(seen)
        return
    if json_:
        if not yes:
            raise click.UsageError("--json needs --yes or --dry-run, because it does not ask.")
    else:
        _show(seen)
        store_keys = _ask(seen, yes=yes, store_keys=store_keys)
    chosen = keys if store_keys else []
    result = seen
    if seen.files or chosen:
        result = call("configuration/import", **params, revision=seen.revision, storeKeys=chosen)
    if json_:
        output.json(result)
        return
    if result.written:
        if result.files:
            click.echo(f"Imported {_count(result)} from {source}.")
        if chosen:
            click.echo(f"Stored the API key for {', '.join(chosen)}.")
        click.echo("Try them: understudy delegators test --all", err=True)


def _ask(seen: Any, *, yes: bool, store_keys: bool) -> bool:
    """Return whether to store keys; abort if the user wants no import."""
    keys = [key.model_server for key in seen.keys]
    if not seen.files and not keys:
        return False
    if not yes:
        if seen.files and not click.confirm(f"Write {_count(seen)}?", default=False, err=True):
            raise click.Abort
        if keys and not store_keys and terminal.is_terminal(sys.stdin):
            store_keys = click.confirm(f"Store the API key for {', '.join(keys)}?", default=False, err=True)
    return store_keys


def _show(seen: Any) -> None:
    for path in seen.read:
        click.echo(f"Read {terminal.one_line(path)}", err=True)
    for line in seen.diff.splitlines():
        click.echo(sanitize.visible(line))
    if not seen.files:
        same = len(seen.unchanged)
        what = f"{same} of its entries exist already" if same else "nothing in it can be carried over"
        click.echo(f"There is nothing to import: {what}.")
    show_not_carried(seen)


def show_not_carried(seen: Any) -> None:
    """Print every setting of an ``ImportResult`` that is not carried over."""
    if seen.not_carried_over:
        click.echo("Not carried over as it is:", err=True)
    for entry in seen.not_carried_over:
        where = f" ({_place(entry.location)})" if entry.location is not None else ""
        click.echo(f"  {terminal.one_line(entry.setting)}{where}: {terminal.one_line(entry.reason)}", err=True)


def _place(location: Location) -> str:
    path = path_quoting.path_of(location.uri)
    return terminal.one_line(f"{path or location.uri}:{location.range.start.line + 1}")


def _count(seen: Any) -> str:
    parts = []
    for kind, singular, more in (
        ("modelServer", "model server", "model servers"),
        ("delegator", "delegator", "delegators"),
        ("default", "file of defaults", "files of defaults"),
    ):
        number = sum(file.kind == kind for file in seen.files)
        if number:
            parts.append(f"{number} {singular if number == 1 else more}")
    return ", ".join(parts)
