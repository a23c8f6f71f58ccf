"""Send decisions and print the outcome; ask first about flagged files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.output import event_lines, output
from understudy.frontends.cli.review import hunk_view
from understudy.frontends.cli.terminal import terminal
from understudy.model.hunks import FileDiff, HunkState

_NAMED = 3
"""At most so many rejected hunks are named in the command that undoes their rejection."""


def send(
    identifier: str,
    before: Sequence[FileDiff],
    decisions: list[dict[str, Any]],
    *,
    flagged: bool = False,
    as_json: bool = False,
) -> int:
    """Send decisions in one request and print the outcome; ``before`` is the diff that the user decided on."""
    if not decisions:
        click.echo("Nothing was decided.", err=True)
        return exit_codes.Exit.OK
    # False is the default of the API.
    try:
        result = call("delegations/decide", id=identifier, decisions=decisions, includeFlagged=flagged or None)
    except KeyboardInterrupt:
        click.echo(
            f"\nYour files have either all accepted hunks or none: understudy review {identifier} --list",
            err=True,
        )
        raise
    if as_json:
        output.json(result)
    else:
        follows = follower.follows(call("delegations/get", id=identifier))
        text = summary(identifier, before, result, output.paint(), follows=follows)
        if not result.decided and not result.conflicts:
            text = "Nothing changed: these hunks were decided before.\n" + text
        click.echo(text, nl=False)
    return exit_codes.Exit.CONFLICTS if result.conflicts else exit_codes.Exit.OK


def summary(
    identifier: str, before: Sequence[FileDiff], result: Any, paint: terminal.Paint, *, follows: bool = True
) -> str:
    """Return the outcome of decisions as text: conflicts with their sides, counts, undo token, next step.

    ``follows``: a reply to the rejections would have an effect.
    """
    paths = {item.hunk.id: item.file.path for item in hunk_view.items(before)}
    # Not the difference to `before`: another process may have decided in the meantime.
    moved = set(result.decided)
    rows = [hunk_view.three_sides(conflict.path, conflict, paint) for conflict in result.conflicts]
    named = {item.hunk.id: item.spelled for item in hunk_view.items(before)}
    for state, colour in ((HunkState.ACCEPTED, "green"), (HunkState.REJECTED, "red"), (HunkState.PENDING, "blue")):
        changed = [hunk for hunk in result.hunks if hunk.state is state and hunk.id in moved]
        if changed:
            touched = len({paths.get(hunk.id, "") for hunk in changed})
            count = f"{event_lines.plural(len(changed), 'hunk')} in {event_lines.plural(touched, 'file')}"
            again = " again" if state is HunkState.PENDING else ""
            rows.append(f"{paint(state.value, fg=colour, bold=True)}{again}: {count}\n")
        if changed and state is HunkState.REJECTED:
            names = [named[hunk.id] for hunk in changed if hunk.id in named]
            what = shlex.join(names) if len(names) <= _NAMED else "PATH[:HUNK]…"
            rows.append(f"undo: understudy undo {identifier} {what}\n")
    if result.conflicts:
        stay = "stays" if len(result.conflicts) == 1 else "stay"
        count = event_lines.plural(len(result.conflicts), "hunk")
        rows.append(
            paint("conflicts", fg="yellow", bold=True)
            + f": {count} {stay} pending; edit the result or your file, or merge by hand and accept with "
            "--merged-manually\n"
        )
    if result.undo_token:
        rows.append(f"undo: understudy undo {result.undo_token}\n")
    left = sum(hunk.state is HunkState.PENDING for hunk in result.hunks)
    if left:
        rows.append(f"pending: {event_lines.plural(left, 'hunk')}; understudy review {identifier}\n")
    elif follows and any(hunk.state is HunkState.REJECTED for hunk in result.hunks):
        rows.append(event_lines.next_commands(f"understudy reply {identifier} 'what to do instead'") + "\n")
    return "".join(rows)


def confirm_flagged(files: list[FileDiff]) -> bool:
    """Show why each file is flagged and ask whether to accept anyway."""
    paint = terminal.Paint(on=terminal.has_colour(sys.stderr))
    for file in files:
        text = f"{terminal.path(file.path)} {file.flag_reason}"
        click.echo(f"{paint('!', fg='yellow', bold=True)} {text}", err=True)
    return click.confirm("Accept anyway?", default=False, err=True)
