"""``import``, ``delegators import`` and ``delegators export``: other tools, agent profiles, workflows of AGNT."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, get_args

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output, output_file
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.config_entries import ImportSource
from understudy.model.errors import ErrorKind, Location, UnderstudyError
from understudy.model.text import sanitize

_MOST_FILES = 200
_OTHER_NAMES = {"agent-offload": "sideagent", "claude-code-delegate-local": "delegate-local"}
"""Other names of these tools."""


@click.command(
    "import",
    epilog=options.examples(
        "understudy import agent-delegate --dry-run",
        "understudy import agent-delegate",
        "understudy import delegate-local .mcp.json --yes",
    ),
)
@click.argument("source", metavar="TOOL", type=options.NamedChoice(get_args(ImportSource), _OTHER_NAMES))
@click.argument("path", required=False, type=click.Path())
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@click.option("--yes", is_flag=True, help="Write without asking; keys in plain text are not stored.")
@click.option("--store-keys", is_flag=True, help="Also store keys that are in plain text, as `servers set-key` does.")
@options.scope
@options.in_workspace
@options.as_json
def import_(
    *,
    source: str,
    path: str | None,
    dry_run: bool,
    yes: bool,
    store_keys: bool,
    scope: str,
    workspace: str | None,
    json_: bool,
) -> None:
    """Import the configuration of another delegation tool.

    TOOL is one of the names below; PATH is its file, if that is not in its usual place. The command shows what it would
    write as a diff, and every setting that cannot be carried over, then asks. Nothing that exists is replaced, and a
    second import changes nothing. Keys are never copied into a configuration file. With `--scope workspace`, the file
    of a project, such as .agent-delegator.json, becomes the configuration of that project only.

    docs/moving-in.md lists every command and setting of these tools.
    """
    params: dict[str, Any] = {
        "source": source,
        "path": uri(path) if path is not None else None,
        "scope": scope,
        "workspace": uri(workspace or "."),
    }
    seen = call("configuration/import", **params, dryRun=True)
    keys = [key.model_server for key in seen.keys]
    if dry_run:
        output.json(seen) if json_ else _show_seen(seen, store_keys=store_keys)
        return
    if json_:
        if not yes:
            raise click.UsageError("--json needs --yes or --dry-run, because it does not ask.")
    else:
        _show_seen(seen, store_keys=store_keys)
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
            output.say(f"Imported {_count(result)} from {source}.")
        if chosen:
            output.say(f"Stored the API key for {', '.join(chosen)}.")
        output.say("Try them: understudy delegators test --all", err=True)


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


def _show_seen(seen: Any, *, store_keys: bool) -> None:
    same = len(seen.unchanged)
    nothing = f"{same} of its entries exist already" if same else "nothing in it can be carried over"
    _show(seen, nothing, {key.setting for key in seen.keys} if store_keys else set())


def _show(seen: Any, nothing: str, stored: Collection[str] = ()) -> None:
    """Print an ``ImportResult``, ``nothing`` where it has no files, and every setting that is not carried over."""
    for path in seen.read:
        output.say(f"Read {terminal.one_line(path)}", err=True)
    for line in seen.diff.splitlines():
        click.echo(sanitize.visible(line))
    for file in seen.files:
        if file.kind == "profile":
            output.say(f"The profile itself is kept with the delegator {file.name}.")
    if not seen.files:
        output.say(f"There is nothing to import: {nothing}.")
    left_out = [entry for entry in seen.not_carried_over if entry.setting not in stored]
    if left_out:
        output.say("Not carried over as it is:", err=True)
    for entry in left_out:
        where = f" ({_place(entry.location)})" if entry.location is not None else ""
        output.say(f"  {terminal.one_line(entry.setting)}{where}: {terminal.one_line(entry.reason)}", err=True)


def _place(location: Location) -> str:
    return f"{output.file_of(location)}:{location.range.start.line + 1}"


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
def import_profiles(
    *, path: str, with_permissions: bool, dry_run: bool, yes: bool, workspace: str | None, json_: bool
) -> None:
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
            output.say(f"{terminal.one_line(file)}: {terminal.one_line(error.message)}", err=True)
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
    with options.as_options():
        seen = call("delegators/importProfile", **params, dryRun=True)
    if not json_:
        same = ", ".join(entry.name for entry in seen.unchanged)
        _show(seen, f"the delegator {same} is from this profile")
    if not dry_run and seen.files:
        if not yes and not click.confirm("Write it?", default=False, err=True):
            raise click.Abort
        seen = call("delegators/importProfile", **params, revision=seen.revision)
        if not json_:
            names = [file.name for file in seen.files if file.kind == "delegator"]
            output.say(f"Imported {', '.join(names)}.")
    if json_:
        output.json_line(seen)


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
    with options.as_options():
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
        output.say(f"Wrote {terminal.one_line(target)}.")
    if made.left_out and not json_:
        output.say("Left out:", err=True)
        for entry in made.left_out:
            output.say(f"  {terminal.one_line(entry.setting)}: {terminal.one_line(entry.reason)}", err=True)
