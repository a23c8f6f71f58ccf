"""``batch``: start the tasks of a file as one group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from understudy.api import batch_file
from understudy.api.caller import require_current_folder
from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.arguments.trusted_call import with_trust
from understudy.frontends.cli.group import group_run
from understudy.frontends.cli.terminal.held_interrupt import HeldInterrupt
from understudy.model.errors import UnderstudyError


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
    return group_run.to_the_end(started, held, detach=detach, quiet=quiet, as_json=json_)
