"""``schedules``: work that starts by itself at certain times."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.output.event_lines import plural
from understudy.frontends.cli.setup.entries import print_saved
from understudy.frontends.cli.terminal.terminal import local_time, one_line
from understudy.model.config.config_entries import ScheduleEntry, ScheduleRun
from understudy.model.wire import camel


@click.group(
    cls=DefaultGroup,
    epilog=options.examples(
        "understudy schedules",
        "understudy schedules add nightly '0 2 * * 1-5' --recipe tests src/net.py",
        "understudy schedules install",
    ),
)
def schedules() -> None:
    """Manage schedules: delegations and batches that start by themselves at certain times.

    They start while an editor, an MCP client or another program has Understudy running. `install` lets the system start
    them at other times, too.
    """


def _names(_: click.Context) -> list[tuple[str, str]]:
    return [(entry.schedule.name, entry.schedule.cron) for entry in call("schedules/list").schedules]


_complete = options.completes(_names)
_name = click.argument("name", shell_complete=_complete)


@schedules.command("list", epilog=options.examples("understudy schedules list --json"))
@options.as_json
def list_(*, json_: bool) -> None:
    """List the schedules with their next and last runs."""
    result = call("schedules/list")
    if json_:
        output.json(result)
        return
    if not result.schedules:
        click.echo("No schedule is configured. To add one: understudy schedules add NAME CRON --recipe NAME", err=True)
        return
    rows = [
        (entry.schedule.name, entry.schedule.cron, _what(entry), _next(entry), _last(entry))
        for entry in result.schedules
    ]
    output.table(("NAME", "CRON", "STARTS", "NEXT", "LAST"), rows, below=("LAST",), wrap=True)


def _what(entry: ScheduleEntry) -> str:
    schedule = entry.schedule
    words = [schedule.batch] if schedule.batch else [schedule.recipe or "", *schedule.files]
    by = f" by {schedule.delegator}" if schedule.delegator else ""
    return one_line(" ".join(words)) + by


def _next(entry: ScheduleEntry) -> str:
    errors = [problem.message for problem in entry.state.problems if problem.severity == "error"]
    if errors:
        return one_line(errors[0])
    return "paused" if entry.state.paused else local_time(entry.state.next_at or "")


def _last(entry: ScheduleEntry) -> str:
    state = entry.state
    missed = f"{plural(state.missed, 'time')} missed since" if state.missed else ""
    return "; ".join(filter(None, [_told(state.runs[-1]) if state.runs else "", missed]))


def _told(run: ScheduleRun) -> str:
    """Return the outcome of a run."""
    before = f" ({plural(run.missed, 'time')} missed before)" if run.missed else ""
    outcome = f"not started: {one_line(run.error.message)}" if run.error is not None else run.delegation or run.group
    return f"{local_time(run.started_at)} {outcome}{before}"


@schedules.command(
    epilog=options.examples(
        "understudy schedules add nightly '0 2 * * 1-5' --recipe tests src/net.py -d cheap",
        "understudy schedules add docs '30 6 * * 1' --recipe ask -t 'What is out of date?' --timezone Asia/Tokyo",
        "understudy schedules add weekly '0 3 * * 0' --batch tasks.toml --catch-up skip",
    )
)
@click.argument("name")
@click.argument("cron")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--recipe", metavar="RECIPE", help="The recipe of the delegation.")
@click.option("-t", "--task", metavar="TEXT", help="What is to be done.")
@click.option(
    "-d", "--delegator", metavar="NAME", shell_complete=options.complete_delegators, help="The delegator or the route."
)
@click.option("--batch", metavar="FILE", help="A file of tasks instead of a recipe (see `understudy batch`).")
@click.option("--timezone", metavar="ZONE", help="Such as Europe/Berlin (default: that of this machine).")
@click.option(
    "--catch-up",
    type=click.Choice(["once", "skip"]),
    help="For times at which nothing could start it: make up for the last one (default), or for none.",
)
@click.option("--window-minutes", type=float, metavar="N", help="How late a time may be made up for (default: 1440).")
@click.option("--workspace", metavar="DIR", type=click.Path(file_okay=False), help="Where it works (default: here).")
@options.as_json
def add(*, name: str, cron: str, workspace: str | None, files: tuple[str, ...], json_: bool, **fields: Any) -> None:
    """Add a schedule. CRON has five fields: minute, hour, day of the month, month, day of the week."""
    schedule = {
        "name": name,
        "cron": cron,
        "workspace": str(Path(workspace or ".").absolute()),
        **({"files": list(files)} if files else {}),
        **{camel(key): value for key, value in fields.items() if value is not None},
    }
    with options.as_options():
        entry = call("schedules/create", schedule=schedule)
    if json_:
        output.json(entry)
        return
    print_saved("Added schedule", entry, name, f"understudy schedules run {name}", json_=False)
    output.say(f"It starts next at {local_time(entry.state.next_at)}.")
    if not call("workspace/trust", workspace=uri(schedule["workspace"])).trusted:
        output.say("The folder is not trusted, and work that runs programs cannot start there: understudy trust")


@schedules.command(epilog=options.examples("understudy schedules run nightly", "understudy schedules run --due"))
@click.argument("name", required=False, shell_complete=_complete)
@click.option("--due", is_flag=True, help="Start what is due of all schedules, as the system's timer does.")
@options.as_json
def run(*, name: str | None, due: bool, json_: bool) -> None:
    """Start the work of a schedule now; its times stay as they are."""
    if due == (name is not None):
        raise click.UsageError("Name a schedule, or use --due.")
    runs = call("schedules/serve").runs if due else [call("schedules/run", name=name)]
    if json_:
        output.json({"runs": runs})
        return
    for started in runs:
        click.echo(_told(started))


@schedules.command(epilog=options.examples("understudy schedules pause nightly"))
@_name
@options.as_json
def pause(*, name: str, json_: bool) -> None:
    """Let a schedule start nothing until it is resumed."""
    _pause(name, paused=True, json_=json_)


@schedules.command(epilog=options.examples("understudy schedules resume nightly"))
@_name
@options.as_json
def resume(*, name: str, json_: bool) -> None:
    """Let a paused schedule start its work again.

    Times while it was paused are not made up for.
    """
    _pause(name, paused=False, json_=json_)


def _pause(name: str, *, paused: bool, json_: bool) -> None:
    entry = call("schedules/pause", name=name, paused=paused)
    if json_:
        output.json(entry)
    else:
        output.say(f"{name} is paused." if paused else f"{name} starts next at {local_time(entry.state.next_at)}.")


@schedules.command(epilog=options.examples("understudy schedules remove nightly"))
@_name
@options.as_json
def remove(*, name: str, json_: bool) -> None:
    """Remove a schedule; what it started stays."""
    call("schedules/delete", name=name)
    if json_:
        output.json({})
    else:
        output.say(f"Removed {name}.")


@schedules.command(epilog=options.examples("understudy schedules install", "understudy schedules install --yes"))
@click.option("--yes", is_flag=True, help="Write it without asking.")
@options.as_json
def install(*, yes: bool, json_: bool) -> None:
    """Let a timer of the system start what is due.

    It does so while no other program has Understudy running.

    Shows what is written before it is: a user timer of systemd, an agent of launchd, or a line for crontab.
    """
    timer = call("schedules/install", dryRun=True)
    for path, text in timer.files.items():
        click.echo(f"{path}:\n{text}", err=json_)
    click.echo(f"Then: {shlex.join(timer.command)}" if timer.command else "Add this line with `crontab -e`.", err=json_)
    if timer.command and not yes and not click.confirm("Write this?", default=False, err=True):
        raise click.Abort
    result = call("schedules/install") if timer.command else timer
    if json_:
        output.json(result)
    elif result.installed:
        output.say("Installed. Schedules also start while nothing else has Understudy running.")
