"""``accept``, ``reject`` and ``undo``; decisions are sent, and flagged files asked about, here for ``review``, too."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from understudy.frontends.cli.calls import exit_codes, options, workspace_trust
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.output import event_lines, output
from understudy.frontends.cli.review import hunk_targets, hunk_view
from understudy.frontends.cli.terminal import terminal
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, HunkState

_NAMED = 3
"""At most so many rejected hunks are named in the command that undoes their rejection."""


@click.command(
    epilog=options.examples(
        "understudy accept k3f9q --all",
        "understudy accept k3f9q src/wrap.py tests/",
        "understudy accept k3f9q src/wrap.py:4be0c2d19a77",
    )
)
@options.identifier
@hunk_targets.argument
@click.option("--all", "all_", is_flag=True, help="Choose all pending hunks.")
@click.option("--verified", is_flag=True, help="Choose only hunks that tests notice; the rest stays pending.")
@click.option(
    "--include-flagged",
    is_flag=True,
    help="Include files that configure git hooks, CI, builds, editors, agents or environments.",
)
@click.option("--merged-manually", is_flag=True, help="Mark as merged by hand; change no file.")
@options.as_json
def accept(
    *,
    identifier: str,
    chosen: tuple[str, ...],
    all_: bool,
    verified: bool,
    include_flagged: bool,
    merged_manually: bool,
    json_: bool,
) -> int:
    """Merge hunks of a result into your files as they are now.

    PATH is a file or folder as `understudy diff` prints it, HUNK a prefix of a hunk's ID (see `understudy review ID
    --list`). Hunks that conflict with your files stay pending and are shown with all three sides; the others are
    merged, all or none. --merged-manually accepts a conflict that you merged by hand. A rejected hunk can be accepted
    by its ID. --verified takes the hunks of which every changed place is tested, and leaves the others.

    Flagged files configure git hooks, CI, builds, editors, agents or environments. They need --include-flagged, or a
    yes on a terminal. With --json, prints the `DecideResult`.
    """
    whole = resolve(identifier)
    files = call("delegations/diff", id=whole).files
    everything = all_ or (verified and not chosen)
    targets = hunk_targets.find(files, chosen, everything=everything, command="accept", identifier=whole)
    if verified:
        targets = hunk_targets.tested(files, targets, whole)
    decisions = hunk_targets.decisions(targets, "accept")
    if merged_manually:
        decisions = [decision | {"mergedManually": True} for decision in decisions]
        return send(whole, files, decisions, as_json=json_)
    risky = {item.file.path: item.file for item in hunk_targets.items(files, targets) if item.file.flag_reason}
    if risky and not include_flagged and not json_ and workspace_trust.can_ask():
        include_flagged = confirm_flagged(list(risky.values()))
        if not include_flagged:
            click.echo("Nothing was accepted.", err=True)
            return exit_codes.Exit.ERROR
    try:
        return send(whole, files, decisions, flagged=include_flagged, as_json=json_)
    except UnderstudyError as error:
        # Of the conflicts, only this one names files; the hint of the API names its field, not the option.
        if include_flagged or not risky or error.kind is not ErrorKind.CONFLICT or not error.names:
            raise
        raise UnderstudyError(
            error.kind, error.message, hint="Read these changes, then accept with --include-flagged.", names=error.names
        ) from None


@click.command(
    epilog=options.examples(
        "understudy reject k3f9q src/wrap.py --reason 'keep the old signature'", "understudy reject k3f9q --all"
    )
)
@options.identifier
@hunk_targets.argument
@click.option("--all", "all_", is_flag=True, help="Choose all pending hunks.")
@click.option("-m", "--reason", metavar="TEXT", help="The reason; `understudy reply` sends it to the agent.")
@options.as_json
def reject(*, identifier: str, chosen: tuple[str, ...], all_: bool, reason: str | None, json_: bool) -> int:
    """Reject hunks of a result, with a reason; your files do not change.

    PATH and HUNK are as for `understudy accept`. With --json, prints the `DecideResult`.
    """
    whole = resolve(identifier)
    files = call("delegations/diff", id=whole).files
    targets = hunk_targets.find(files, chosen, everything=all_, command="reject", identifier=whole)
    return send(whole, files, hunk_targets.decisions(targets, "reject", reason), as_json=json_)


@click.command(
    epilog=options.examples(
        "understudy undo 20261121-004512-k3f9q.9c41ab02", "understudy undo k3f9q", "understudy undo k3f9q src/wrap.py"
    )
)
@click.argument("identifier", metavar="TOKEN|ID", required=False, shell_complete=options.complete_identifiers)
@hunk_targets.argument
@options.as_json
def undo(*, identifier: str | None, chosen: tuple[str, ...], json_: bool) -> int:
    """Undo an accept, the last one of a delegation, or with PATH the rejection of hunks; keep your later edits.

    The hunks become pending again. If a later edit overlaps an accept, no file changes and the error names the overlap.
    With --json and PATH, prints the `DecideResult`.
    """
    if identifier is None:
        raise click.UsageError(
            "Name what to undo: the token that `accept` printed, or the ID of a delegation (`understudy list`), whose "
            "last accept is undone."
        )
    if chosen:
        whole = resolve(identifier)
        files = call("delegations/diff", id=whole).files
        targets = hunk_targets.find(files, chosen, identifier=whole, state=HunkState.REJECTED)
        return send(whole, files, hunk_targets.decisions(targets, "pending"), as_json=json_)
    token = identifier if "." in identifier else hunk_targets.last_accept(resolve(identifier))
    result = call("delegations/undo", undoToken=token)
    if json_:
        output.json(result)
    else:
        follow_up = call("delegations/get", id=token.partition(".")[0]).superseded_by
        now = "Its hunks are pending again."
        if follow_up is not None:
            now = f"{terminal.one_line(follow_up)} continues it, so decide there: understudy review {follow_up}"
        click.echo(f"Undone: {terminal.one_line(token)}. {now}")
    return exit_codes.Exit.OK


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
    sides = [hunk_view.three_sides(conflict.path, conflict, paint) for conflict in result.conflicts]
    rows = []
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
            rows.append(f"undo the rejection: understudy undo {identifier} {what}\n")
    if result.conflicts:
        stay = "stays" if len(result.conflicts) == 1 else "stay"
        count = event_lines.plural(len(result.conflicts), "hunk")
        rows.append(
            paint("conflicts", fg="yellow", bold=True)
            + f": {count} {stay} pending; edit the result or your file, or merge by hand and accept with "
            "--merged-manually\n"
        )
    if result.undo_token:
        rows.append(f"undo the accept: understudy undo {result.undo_token}\n")
    left = sum(hunk.state is HunkState.PENDING for hunk in result.hunks)
    if left:
        rows.append(f"pending: {event_lines.plural(left, 'hunk')}; understudy review {identifier}\n")
    elif follows and any(hunk.state is HunkState.REJECTED for hunk in result.hunks):
        rows.append(event_lines.next_commands(f"understudy reply {identifier} 'what to do instead'") + "\n")
    elif result.undo_token:
        rows.append(event_lines.next_commands("understudy checks test", f"understudy commit {identifier}") + "\n")
    return "".join(sides) + terminal.for_people("".join(rows), sys.stdout)


def confirm_flagged(files: list[FileDiff]) -> bool:
    """Show why each file is flagged and ask whether to accept anyway."""
    paint = terminal.Paint(on=terminal.has_colour(sys.stderr))
    for file in files:
        text = f"{terminal.path(file.path)} {file.flag_reason}"
        click.echo(f"{paint('!', fg='yellow', bold=True)} {text}", err=True)
    return click.confirm("Accept anyway?", default=False, err=True)
