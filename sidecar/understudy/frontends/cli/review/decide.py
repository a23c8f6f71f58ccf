"""``accept``, ``reject`` and ``undo``."""

from __future__ import annotations

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.output import output
from understudy.frontends.cli.review import hunk_targets
from understudy.frontends.cli.review.send_decisions import confirm_flagged, send
from understudy.frontends.cli.terminal import terminal, trust_prompt
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import HunkState


@click.command(
    epilog=options.examples(
        "understudy accept k3f9q --all",
        "understudy accept k3f9q src/wrap.py tests/",
        "understudy accept k3f9q src/wrap.py:4be0c2d19a77",
        "understudy accept k3f9q -p",
    )
)
@options.identifier
@hunk_targets.argument
@click.option("--all", "all_", is_flag=True, help="Choose all pending hunks.")
@click.option("-p", "--interactive", is_flag=True, help="Decide hunk by hunk, as `understudy review` does.")
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
    interactive: bool,
    include_flagged: bool,
    merged_manually: bool,
    json_: bool,
) -> int:
    """Merge hunks of a result into your files as they are now.

    PATH is a file or folder as `understudy diff` prints it, HUNK a prefix of a hunk's ID (see `understudy review ID
    --list`). Hunks that conflict with your files stay pending and are shown with all three sides; the others are
    merged, all or none. --merged-manually accepts a conflict that you merged by hand. A rejected hunk can be accepted
    by its ID.

    Flagged files configure git hooks, CI, builds, editors, agents or environments. They need --include-flagged, or a
    yes on a terminal. With --json, prints the `DecideResult`.
    """
    if interactive:
        from understudy.frontends.cli.review.review import run

        if all_ or include_flagged or merged_manually:
            raise click.UsageError("--interactive excludes --all, --include-flagged and --merged-manually.")
        return run(identifier, chosen, as_json=json_)
    whole = resolve(identifier)
    files = call("delegations/diff", id=whole).files
    targets = hunk_targets.find(files, chosen, everything=all_, command="accept", identifier=whole)
    decisions = hunk_targets.decisions(targets, "accept")
    if merged_manually:
        decisions = [decision | {"mergedManually": True} for decision in decisions]
        return send(whole, files, decisions, as_json=json_)
    risky = {item.file.path: item.file for item in hunk_targets.items(files, targets) if item.file.flag_reason}
    if risky and not include_flagged and not json_ and trust_prompt.can_ask():
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
@click.option("--reason", metavar="TEXT", help="The reason; `understudy reply` sends it to the agent.")
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
        click.echo(f"Undone: {terminal.one_line(token)}. Its hunks are pending again.")
    return exit_codes.Exit.OK
