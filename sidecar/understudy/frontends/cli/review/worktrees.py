"""``discard``, ``restore`` and ``worktrees``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import event_lines, output
from understudy.frontends.cli.output.output import size
from understudy.frontends.cli.terminal import terminal
from understudy.model.errors import ErrorKind, UnderstudyError

_DECIDED = frozenset({"decided", "expired"})
_HEADER = ("ID", "STATE", "SIZE", "REF", "PATH")
_REF_EXAMPLE = "greeting-1f3a9c07d2/20261120-220431-b7m2x"


@click.command(epilog=options.examples("understudy discard k3f9q"))
@options.identifier
@options.as_json
def discard(*, identifier: str, json_: bool) -> None:
    """Discard a result and its worktree; print the command that restores them. Your files do not change.

    Accepted hunks stay in your files. To undo those as well, run `understudy undo` first. After a discard, undoing
    needs the worktree restored first. With --json, prints the `RescueResult`.
    """
    whole = resolve(identifier)
    _rescued(call("delegations/discard", id=whole), whole, as_json=json_)


@click.command(epilog=options.examples("understudy restore k3f9q", f"understudy restore {_REF_EXAMPLE}"))
@click.argument("ref", type=options.Identifier("`understudy worktrees` lists what can be restored."), metavar="ID|REF")
@options.as_json
def restore(*, ref: str, json_: bool) -> None:
    """Restore a discarded or removed worktree, byte for byte, and print its path.

    ID is the delegation's; `understudy discard` and `understudy worktrees remove` print the REF. With --json, prints
    the `RestoreResult`.
    """
    restored = call("worktrees/restore", rescueRef=ref if "/" in ref else resolve(ref))
    output.json(restored) if json_ else click.echo(terminal.one_line(restored.path))


@click.group(
    cls=DefaultGroup,
    epilog=options.examples("understudy worktrees", "understudy worktrees remove 20261121-004512-k3f9q"),
)
def worktrees() -> None:
    """Manage the worktrees of agents on disk: list, remove, clean up."""


def _trees(_: click.Context) -> Iterator[tuple[str, str]]:
    for tree in call("worktrees/list").worktrees:
        yield tree.id, f"{tree.state}, {size(tree.bytes)}"


@worktrees.command("list", epilog=options.examples("understudy worktrees list", "understudy worktrees list --json"))
@options.as_json
def list_(*, json_: bool) -> None:
    """List worktrees, and removed ones to restore.

    Shows the worktrees on disk, then the removed ones with the REF that restores each. Worktrees in the state
    `decided` or `expired` may be removed automatically. A narrow terminal shows the paths below the rows.
    """
    result = call("worktrees/list")
    if json_:
        output.json(result)
        return
    for_people = terminal.is_terminal(sys.stdout)
    # The end of a delegation's ID is enough for every command.
    names = [tree.id.rpartition("-")[2] if for_people and tree.owner else tree.id for tree in result.worktrees]
    path = terminal.short_path if for_people else str
    rows = [
        (name, tree.state, size(tree.bytes), "-", path(tree.path))
        for name, tree in zip(names, result.worktrees, strict=True)
    ]
    rows += [("-", "removed", "-", rescue.rescue_ref, path(rescue.path)) for rescue in result.rescues]
    output.table(_HEADER, rows, empty="No worktree is on disk.", below=("PATH", "REF"))
    if rows and for_people:
        total = sum(tree.bytes for tree in result.worktrees)
        count = event_lines.plural(len(result.worktrees), "worktree")
        output.say(f"{count}, {size(total)}" if result.worktrees else "No worktree is on disk.")
        if result.rescues:
            output.say("Restore a removed one with: understudy restore REF")


@worktrees.command(epilog=options.examples("understudy worktrees remove 20261121-004512-k3f9q"))
@click.argument("trees", metavar="ID...", nargs=-1, required=True, shell_complete=options.completes(_trees))
@options.as_json
def remove(*, trees: tuple[str, ...], json_: bool) -> None:
    """Remove worktrees; print the command that restores each.

    With --json, prints one `RescueResult` per line.
    """
    for tree in trees:
        _rescued(call("worktrees/remove", id=tree), tree, as_json=json_)


@worktrees.command(
    epilog=options.examples("understudy worktrees cleanup", "understudy worktrees cleanup --ttl 2 --dry-run")
)
@click.option(
    "--ttl",
    metavar="HOURS",
    type=click.FloatRange(min=0),
    default=24,
    show_default=True,
    help="Only of delegations that finished this long ago.",
)
@click.option("--project", metavar="DIR", type=click.Path(file_okay=False), help="Only worktrees of this repository.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@options.as_json
def cleanup(*, ttl: float, project: str | None, dry_run: bool, json_: bool) -> None:
    """Remove worktrees whose results are decided.

    Prints the command that restores each. Worktrees of agents that work, and of results that you have not decided, are
    kept. With --json, prints one `RescueResult` per line, with --dry-run one `WorktreeEntry`.
    """
    before = datetime.now(UTC) - timedelta(hours=ttl)
    trees = call("worktrees/list").worktrees
    if project is not None:
        trees = [tree for tree in trees if Path(tree.repo).resolve() == Path(project).resolve()]
    old = [tree for tree in trees if tree.state in _DECIDED and _ended(tree.owner or tree.id, before)]
    for tree in old:
        if not dry_run:
            _rescued(call("worktrees/remove", id=tree.id), tree.id, as_json=json_)
        elif json_:
            output.json_line(tree)
        else:
            output.say(f"{tree.id}  would be removed ({size(tree.bytes)})")
    if not json_:
        if not old:
            output.say("No worktree is decided and old enough.")
        if kept := len(trees) - len(old):
            output.say(f"{kept} kept: in use, not decided, or newer. See: understudy worktrees", err=True)


def _ended(identifier: str, before: datetime) -> bool:
    """Return whether a delegation finished before a time; one whose journal has expired did."""
    try:
        finished = call("delegations/get", id=identifier).finished_at
    except UnderstudyError as error:
        return error.kind is ErrorKind.UNKNOWN_DELEGATION
    return finished is not None and datetime.fromisoformat(finished) <= before


def _rescued(result: object, what: str, *, as_json: bool) -> None:
    if as_json:
        output.json_line(result)
        return
    ref = terminal.one_line(str(getattr(result, "rescue_ref", "")))
    output.say(f"{what}  removed; restore with: understudy restore {ref}")
