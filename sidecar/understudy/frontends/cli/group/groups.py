"""``groups`` and ``batch``: delegations to start, wait for and cancel together."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from understudy.api import batch_file
from understudy.api.caller import require_current_folder
from understudy.api.serving.follow import follow_group
from understudy.frontends.cli.calls import exit_codes, options
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.calls.workspace_trust import with_trust
from understudy.frontends.cli.group import group_table
from understudy.frontends.cli.output import event_lines, output
from understudy.frontends.cli.output.output import age
from understudy.frontends.cli.terminal.terminal import HeldInterrupt
from understudy.model.errors import UnderstudyError


@click.group(
    cls=DefaultGroup,
    epilog=options.examples(
        "understudy groups", "understudy groups show k3f9q", "understudy wait --group 20261121-004512-k3f9q"
    ),
)
def groups() -> None:
    """List groups of delegations, or manage one; `list`, `wait` and `cancel` take one with --group."""


@groups.command("list", epilog=options.examples("understudy groups list --limit 100"))
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="List at most N.")
@options.as_json
def list_(*, limit: int, json_: bool) -> None:
    """List the newest groups, and how far they are."""
    result = call("groups/list", limit=limit)
    if json_:
        output.json(result)
        return
    now = datetime.now(UTC)
    rows = [
        (
            overview.group.id,
            overview.group.kind,
            age(overview.group.created_at, now),
            ", ".join(f"{count} {event_lines.words(state)}" for state, count in overview.states.items()) or "empty",
            overview.title or "",
        )
        for overview in result.groups
    ]
    output.table(
        ("ID", "KIND", "AGE", "DELEGATIONS", "TITLE"),
        rows,
        empty="There are no groups yet. `start --each`, several -d and `batch` make one.",
    )


@groups.command(epilog=options.examples("understudy groups create", "understudy groups create --kind compare"))
@click.option(
    "--kind",
    type=click.Choice(["batch", "compare"]),
    default="batch",
    show_default=True,
    help="`batch`: several tasks; `compare`: one task for several delegators.",
)
@options.as_json
def create(*, kind: str, json_: bool) -> None:
    """Create an empty group and print its ID.

    Delegations join it with `understudy start --group ID`.
    """
    group = call("groups/create", kind=kind)
    if json_:
        output.json(group)
    else:
        click.echo(group.id)


@groups.command(
    epilog=options.examples("understudy groups show 20261121-004512-k3f9q", "understudy groups show k3f9q --watch")
)
@click.argument("group", metavar="ID")
@click.option("--watch", is_flag=True, help="Follow them until all have finished; Ctrl-C stops watching only.")
@options.as_json
def show(*, group: str, watch: bool, json_: bool) -> int:
    """Show the delegations of a group, in the order in which they joined.

    With --watch, the exit code is the highest of theirs.
    """
    result = call("groups/get", id=group)
    group = result.id
    if json_ and not watch:
        output.json(result)
        return exit_codes.Exit.OK
    if not watch:
        members = next(follow_group(group, idle_seconds=0.0))
        group_table.print_table(members)
        return exit_codes.Exit.OK
    table = group_table.view_on(sys.stdout, result.budget)
    try:
        members = group_table.follow(group, None if json_ else table)
    except KeyboardInterrupt:
        table.clear()
        output.say(f"Stopped watching; continue with: understudy groups show {group} --watch", err=True)
        return exit_codes.Exit.CANCELLED
    return group_table.print_result(members, as_json=json_)


@click.command(
    epilog=options.examples(
        "understudy batch tasks.toml",
        "understudy batch tasks.jsonl --budget-usd 5 --json > results.jsonl",
        """echo '{"recipe": "tests", "files": ["src/wrap.py"]}' | understudy batch -""",
    )
    + "\n\nThe exit code is the highest of the verdicts': `understudy --help` lists the codes."
)
@click.argument("file", type=click.File("rb"))
@click.option("--budget-usd", metavar="N", help="Limit what all tasks may cost together, in USD.")
@click.option("--budget-tokens", metavar="N", type=int, help="Limit the tokens that all tasks read and write together.")
@click.option("--trust", is_flag=True, help="Trust the workspace without asking.")
@options.following
@options.as_json
def batch(
    *,
    file: Any,
    budget_usd: str | None,
    budget_tokens: int | None,
    trust: bool,
    detach: bool,
    quiet: bool,
    json_: bool,
) -> int:
    """Start the tasks of a file as one group, and follow them in a table.

    FILE (- for stdin) is TOML with [[tasks]], or has one JSON object on each line. A task has the parameters of
    `understudy/delegations/start`: recipe, files, task, delegator, limits, …; in TOML they are written like
    `context_files`. Relative paths start in the current directory.

    A task with `name` can be named in `after` of others, which then start only when it has succeeded. All tasks are
    checked before any starts, and all start from the same base. When the budget is spent, tasks that wait
    do not start and those that run are stopped. Ctrl-C cancels the group and keeps its partial work. With --json,
    prints one `Delegation` per line, in the order of the file.
    """
    path = Path("/dev/stdin") if file.name in {"-", "<stdin>"} else require_current_folder() / file.name
    try:
        data = file.read()
    except OSError as error:
        raise click.UsageError(f"{file.name} cannot be read: {error.strerror}.") from None
    parsed = batch_file.read(data, path, require_current_folder())
    params: dict[str, Any] = msgspec.to_builtins(parsed.params)
    budget = {"maxUsd": budget_usd, "maxTokens": budget_tokens}
    bounds = {name: value for name, value in budget.items() if value is not None}
    if bounds:
        params["budget"] = {**params.get("budget", {}), **bounds}
    held = HeldInterrupt()
    try:
        started = with_trust("groups/start", params, params["tasks"][0], trust=trust, held=held)
    except UnderstudyError as error:
        raise parsed.locate(error) from None
    return group_table.to_the_end(started, held, detach=detach, quiet=quiet, as_json=json_)
