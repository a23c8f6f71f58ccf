"""``accept``, ``reject`` and ``undo``: a result becomes the person's by their decisions, hunk by hunk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from understudy.faces.cli import exits, hunks, lines, options, output, targets, terminal, trusting
from understudy.faces.cli.calls import call, resolve
from understudy.model.delegations import FileDiff, HunkState
from understudy.model.errors import ErrorKind, UnderstudyError


@click.command(
    epilog=options.examples(
        "understudy accept k3f9q --all",
        "understudy accept k3f9q src/wrap.py tests/",
        "understudy accept k3f9q src/wrap.py:4be0c2d19a77",
        "understudy accept k3f9q -p",
    )
)
@options.identifier
@targets.argument
@click.option("--all", "all_", is_flag=True, help="Everything that is undecided.")
@click.option("-p", "--patch", is_flag=True, help="Decide hunk by hunk, as `understudy review` does.")
@click.option("--flagged", is_flag=True, help="Also what changes hooks, CI, editor or agent configuration, builds.")
@click.option("--by-hand", is_flag=True, help="It is in your files already, merged by hand: no file is changed.")
@options.as_json
def accept(
    *, identifier: str, chosen: tuple[str, ...], all_: bool, patch: bool, flagged: bool, by_hand: bool, json_: bool
) -> int:
    """Merge hunks of a result into your files as they are now.

    PATH is a file or a folder as `understudy diff` spells it, HUNK the beginning of a hunk's id (`understudy review ID
    --list`). What does not merge stays undecided and is shown with its three sides; the rest is all or nothing. Once
    you have brought it into your file yourself, --by-hand says so. A hunk that was rejected can be accepted by name.

    Files that something else obeys (git hooks, CI, editors, agents, package scripts) need your word: --flagged, or a
    yes on a terminal. With --json: the `DecideResult`.
    """
    if patch:
        from understudy.faces.cli.review import run  # noqa: PLC0415 - it imports this module

        if all_ or flagged or by_hand:
            raise click.UsageError("--patch asks about every hunk: it goes without --all, --flagged and --by-hand")
        return run(identifier, chosen, as_json=json_)
    whole = resolve(identifier)
    files = call("delegations/diff", id=whole).files
    wanted = targets.find(files, chosen, everything=all_, command="accept")
    decisions = targets.decisions(wanted, "accept")
    if by_hand:
        decisions = [one | {"byHand": True} for one in decisions]
        return send(whole, files, decisions, as_json=json_)
    risky = {item.file.path: item.file for item in targets.items(files, wanted) if item.file.flagged}
    if risky and not flagged and not json_ and trusting.can_ask():
        flagged = _meant(list(risky.values()))
        if not flagged:
            click.echo("Nothing was accepted.", err=True)
            return exits.Exit.ERROR
    try:
        return send(whole, files, decisions, flagged=flagged, as_json=json_)
    except UnderstudyError as error:
        # The conflict that names files is the one that a word lifts; here it is said in this face's words.
        if flagged or not risky or error.kind is not ErrorKind.CONFLICT or not error.names:
            raise
        raise UnderstudyError(
            error.kind, error.message, hint="read these changes, then accept with --flagged", names=error.names
        ) from None


@click.command(
    epilog=options.examples(
        "understudy reject k3f9q src/wrap.py --reason 'keep the old signature'", "understudy reject k3f9q --all"
    )
)
@options.identifier
@targets.argument
@click.option("--all", "all_", is_flag=True, help="Everything that is undecided.")
@click.option("--reason", metavar="TEXT", help="Why; `understudy reply` tells the agent.")
@options.as_json
def reject(*, identifier: str, chosen: tuple[str, ...], all_: bool, reason: str | None, json_: bool) -> int:
    """Turn hunks of a result down; your files stay as they are.

    PATH and HUNK are as for `understudy accept`. With --json: the `DecideResult`.
    """
    whole = resolve(identifier)
    files = call("delegations/diff", id=whole).files
    wanted = targets.find(files, chosen, everything=all_, command="reject")
    return send(whole, files, targets.decisions(wanted, "reject", reason), as_json=json_)


@click.command(epilog=options.examples("understudy undo 20261121-004512-k3f9q.9c41ab02"))
@click.argument("token", metavar="TOKEN", shell_complete=targets.complete_tokens)
@options.as_json
def undo(*, token: str, json_: bool) -> int:
    """Take an accept back: your files are as before it, and what you have edited since stays.

    Where a later edit overlaps, nothing changes, and the overlap is named. The hunks are undecided again.
    """
    done = call("delegations/undo", undoToken=token)
    if json_:
        output.json(done)
    else:
        click.echo(f"Undone: {terminal.one_line(token)}. Its hunks are undecided again.")
    return exits.Exit.OK


def send(
    identifier: str,
    before: Sequence[FileDiff],
    decisions: list[dict[str, Any]],
    *,
    flagged: bool = False,
    as_json: bool = False,
) -> int:
    """Decide in one call and say what came of it; ``before`` is the diff that the person decided on."""
    if not decisions:
        click.echo("Nothing was decided.", err=True)
        return exits.Exit.OK
    # False is the contract's default: what a person did not say is not sent.
    try:
        found = call("delegations/decide", id=identifier, decisions=decisions, flagged=flagged or None)
    except KeyboardInterrupt:
        click.echo(
            f"\nWhat you accept is in your files as a whole or not at all: understudy review {identifier} --list",
            err=True,
        )
        raise
    if as_json:
        output.json(found)
    else:
        text = summary(identifier, before, found, output.paint())
        if not found.moved and not found.conflicts:
            text = "Nothing changed: it was decided already.\n" + text
        click.echo(text, nl=False)
    return exits.Exit.CONFLICTS if found.conflicts else exits.Exit.OK


def summary(identifier: str, before: Sequence[FileDiff], found: Any, paint: terminal.Paint) -> str:
    """Return what a decision came to as text: conflicts with their sides, counts, the undo token, what is next."""
    paths = {item.hunk.id: item.file.path for item in hunks.items(before)}
    # Not what differs from `before`: somebody else may have decided at the same moment.
    moved = set(found.moved)
    rows = [hunks.three_sides(conflict.path, conflict, paint) for conflict in found.conflicts]
    for state, colour in ((HunkState.ACCEPTED, "green"), (HunkState.REJECTED, "red")):
        changed = [hunk for hunk in found.hunks if hunk.state is state and hunk.id in moved]
        if changed:
            touched = len({paths.get(hunk.id, "") for hunk in changed})
            count = f"{lines.plural(len(changed), 'hunk')} in {lines.plural(touched, 'file')}"
            rows.append(f"{paint(state.value, fg=colour, bold=True)}: {count}\n")
    if found.conflicts:
        stay = "stays" if len(found.conflicts) == 1 else "stay"
        count = lines.plural(len(found.conflicts), "hunk")
        rows.append(
            paint("conflicts", fg="yellow", bold=True)
            + f": {count} {stay} undecided; edit the result or your file, or merge it there yourself and "
            "accept it --by-hand\n"
        )
    if found.undo_token:
        rows.append(f"undo: understudy undo {found.undo_token}\n")
    left = sum(hunk.state is HunkState.PENDING for hunk in found.hunks)
    if left:
        rows.append(f"undecided: {lines.plural(left, 'hunk')}; understudy review {identifier}\n")
    elif any(hunk.state is HunkState.REJECTED for hunk in found.hunks):
        rows.append(f"next: understudy reply {identifier} 'what to do instead'\n")
    return "".join(rows)


def _meant(files: list[FileDiff]) -> bool:
    paint = terminal.Paint(on=terminal.has_colour(sys.stderr))
    for file in files:
        text = f"{terminal.path(file.path)} {file.flagged}"
        click.echo(f"{paint('!', fg='yellow', bold=True)} {text}", err=True)
    return click.confirm("Accept it all the same?", default=False, err=True)
