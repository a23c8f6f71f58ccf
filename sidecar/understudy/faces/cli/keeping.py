"""``export``, ``discard``, ``restore`` and ``worktrees``: where a result and its tree go."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from understudy.faces.cli import exits, lines, options, output, terminal
from understudy.faces.cli.calls import call, resolve

_UNITS = ("B", "kB", "MB", "GB", "TB")


@click.command(
    epilog=options.examples(
        "understudy export k3f9q --to branch --branch wrap-tabs",
        "understudy export k3f9q --to commit -m 'Support tabs'",
        "understudy export k3f9q --to patch > wrap.patch",
        "understudy export k3f9q --to patch -o wrap.patch",
    )
)
@options.identifier
@click.option("--to", type=click.Choice(["branch", "commit", "patch"]), required=True, help="What to make of it.")
@click.option("--branch", metavar="NAME", help="The branch to make, with --to branch.")
@click.option("-m", "--message", metavar="TEXT", help="The commit's message.")
@click.option("-o", "--output", "file", metavar="FILE", type=click.Path(), help="Write the patch there, not to stdout.")
@options.as_json
def export(*, identifier: str, to: str, branch: str | None, message: str | None, file: str | None, json_: bool) -> int:
    """Take a result out of its tree: as a branch, as a commit, or as a patch.

    Your branch, index and files stay as they are. A patch goes to stdout as it is. With --json: the `ExportResult`.
    """
    if (branch is not None) != (to == "branch"):
        raise click.UsageError("--branch NAME goes with --to branch, and only there")
    if message is not None and to == "patch":
        raise click.UsageError("a patch has no message")
    if file is not None and (to != "patch" or json_):
        raise click.UsageError("--output goes with --to patch, without --json")
    found = call("delegations/export", id=resolve(identifier), to=to, branch=branch, message=message)
    if json_:
        output.json(found)
    elif to == "patch":
        _patch(found.patch or "", file)
    else:
        # One word, for scripts; which it is was said on the command line.
        click.echo(found.branch if to == "branch" else found.commit)
        if found.branch and terminal.is_terminal(sys.stdout):
            click.echo(f"next: git diff HEAD...{found.branch}   git merge {found.branch}", err=True)
    return exits.Exit.OK


@click.command(epilog=options.examples("understudy discard k3f9q"))
@options.identifier
@options.as_json
def discard(*, identifier: str, json_: bool) -> int:
    """Throw a result and its tree away; what is printed brings them back. Your files stay as they are.

    Hunks that you accepted stay in your files. To take those back, too, use `understudy undo` before; afterwards only
    once the tree is restored. With --json: the `RescueResult`.
    """
    whole = resolve(identifier)
    _rescued(call("delegations/discard", id=whole), whole, as_json=json_)
    return exits.Exit.OK


@click.command(epilog=options.examples("understudy restore REF"))
@click.argument("ref", metavar="REF")
@options.as_json
def restore(*, ref: str, json_: bool) -> int:
    """Bring a tree back that was discarded or removed, byte for byte; print where it is.

    REF is what `understudy discard` and `understudy worktrees remove` printed. With --json: the `RestoreResult`.
    """
    return _restore(ref, as_json=json_)


@click.group(
    epilog=options.examples("understudy worktrees", "understudy worktrees remove ID"), invoke_without_command=True
)
@click.pass_context
def worktrees(context: click.Context) -> int:
    """Look after the trees in which agents worked: what is there, how large, whose; remove, bring back."""
    if context.invoked_subcommand is None:
        return int(context.invoke(list_, json_=False))
    return exits.Exit.OK


def _complete_trees(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    _ = context, parameter
    try:
        found = call("worktrees/list").worktrees
    except Exception:
        return []
    return [
        CompletionItem(tree.id, help=f"{tree.state}, {size(tree.bytes)}")
        for tree in found
        if tree.id.startswith(incomplete)
    ]


@worktrees.command("list", epilog=options.examples("understudy worktrees list", "understudy worktrees list --json"))
@options.as_json
def list_(*, json_: bool) -> int:
    """List every tree on disk, and below them those that were removed and can be brought back, by their REF.

    What may go by itself is `decided` or `expired`.
    """
    found = call("worktrees/list")
    if json_:
        output.json(found)
        return exits.Exit.OK
    rows = [(tree.id, tree.state, size(tree.bytes), tree.leased_by or "-", tree.path) for tree in found.worktrees]
    rows += [(one.rescue_ref, "removed", "-", "-", one.path) for one in found.rescues]
    output.table(("ID", "STATE", "SIZE", "FOR", "PATH"), rows)
    if terminal.is_terminal(sys.stdout):
        total = sum(tree.bytes for tree in found.worktrees)
        count = lines.plural(len(found.worktrees), "tree")
        click.echo(f"{count}, {size(total)}" if found.worktrees else "No tree is on disk.")
        if found.rescues:
            click.echo("What is removed comes back with: understudy worktrees restore REF")
    return exits.Exit.OK


@worktrees.command(epilog=options.examples("understudy worktrees remove ID"))
@click.argument("trees", metavar="ID...", nargs=-1, required=True, shell_complete=_complete_trees)
@options.as_json
def remove(*, trees: tuple[str, ...], json_: bool) -> int:
    """Remove trees; what is printed brings each back. With --json: one `RescueResult` a line."""
    for tree in trees:
        _rescued(call("worktrees/remove", id=tree), tree, as_json=json_)
    return exits.Exit.OK


@worktrees.command("restore", epilog=options.examples("understudy worktrees restore REF"))
@click.argument("ref", metavar="REF")
@options.as_json
def restore_tree(*, ref: str, json_: bool) -> int:
    """Bring a removed tree back; the same as `understudy restore`."""
    return _restore(ref, as_json=json_)


def size(count: int) -> str:
    """Return ``950 B``, ``1.2 MB``: powers of 1000, as disks are sold and `df -H` counts."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _rescued(found: object, what: str, *, as_json: bool) -> None:
    if as_json:
        output.json_line(found)
        return
    ref = terminal.one_line(str(getattr(found, "rescue_ref", "")))
    click.echo(f"{what}  removed; back with: understudy restore {ref}")


def _restore(ref: str, *, as_json: bool) -> int:
    found = call("worktrees/restore", rescueRef=ref)
    output.json(found) if as_json else click.echo(terminal.one_line(found.path))
    return exits.Exit.OK


def _patch(text: str, file: str | None) -> None:
    data = text.encode("utf-8", "surrogateescape")
    if file is None:
        if terminal.is_terminal(sys.stdout):
            from understudy.faces.cli.diff import coloured  # noqa: PLC0415 - only for a person's eyes
            from understudy.faces.cli.pager import paged  # noqa: PLC0415

            with paged() as write:
                write(coloured(data, output.paint()))
            return
        click.echo(data, nl=False)
        return
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--output") from None
