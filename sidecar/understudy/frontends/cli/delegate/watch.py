"""``watch``, ``wait``, ``cancel`` and ``attach``."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import click

from understudy.api.serving.follow import follow, follow_all
from understudy.frontends.cli.calls import exit_codes, options
from understudy.frontends.cli.calls.api_calls import call, members, resolve
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.group import group_table
from understudy.frontends.cli.output import event_lines, output, verdict_card
from understudy.frontends.cli.output.live_view import REDRAW_SECONDS
from understudy.frontends.cli.terminal import terminal
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_UNFINISHED = [str(state) for state in State if state is not State.FINISHED]
_MOST_SECONDS = 86_400.0
_SLICE_SECONDS = 3600.0
_JOIN_SECONDS = 10.0


@click.command(
    epilog=options.examples("understudy watch", "understudy watch k3f9q --json | jq .type", "understudy watch --all")
)
@click.argument("identifier", metavar="[ID]", required=False, shell_complete=options.complete_identifiers)
@click.option(
    "--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Start after the event with this number."
)
@click.option("--all", "all_", is_flag=True, help="Show every delegation in progress, of all workspaces, as a table.")
@click.option(
    "-n", "--newest", metavar="N", type=click.IntRange(0, 100), default=5, help="With --all: finished ones to show."
)
@click.option("--once", is_flag=True, help="With --all: print the table once, and exit.")
@options.as_json
def watch(*, identifier: str | None, after: int, all_: bool, newest: int, once: bool, json_: bool) -> int:
    """Follow a delegation live, from its first event to its end.

    Without ID, follows the newest running delegation; a finished one is shown from its first event. Ctrl-C stops
    watching, not the delegation. With --json, prints one event per line; with --all, a `Delegation` whenever one has
    changed.
    """
    if all_:
        _watch_all(newest=newest, once=once, json_=json_)
        return exit_codes.Exit.OK
    if identifier is None:
        running = follower.newest(_UNFINISHED)
        if running is None:
            raise UnderstudyError(
                ErrorKind.UNKNOWN_DELEGATION,
                "No delegation is running.",
                hint="Run `understudy list` to see finished ones.",
            )
        identifier = str(running.id)
    else:
        identifier = resolve(identifier)
    if json_:
        for event in follow(identifier, after, idle_seconds=REDRAW_SECONDS):
            if event is not None:
                output.json_line(event)
        return exit_codes.of_verdict(call("delegations/get", id=identifier).verdict)
    watcher = follower.watching(identifier, sys.stdout, after=after, prints_output=True)
    try:
        finished = watcher.run()
    except KeyboardInterrupt:
        output.say(
            f"Stopped watching; {identifier} keeps running. Continue with: understudy watch {identifier}", err=True
        )
        return exit_codes.Exit.CANCELLED
    click.echo()
    follower.show_card(finished)
    return exit_codes.of_verdict(finished.verdict)


def _watch_all(*, newest: int, once: bool, json_: bool) -> None:
    followed = follow_all(idle_seconds=group_table.IDLE_SECONDS, newest=newest)
    table = group_table.view_on(sys.stdout, None)
    shown: dict[str, int] = {}
    with contextlib.closing(followed), contextlib.suppress(KeyboardInterrupt):
        for members in followed:
            if json_:
                for member in members:
                    if shown.get(member.id) != member.last_seq:
                        shown[member.id] = member.last_seq
                        output.json_line(member)
                sys.stdout.flush()
            elif once:
                group_table.print_table(members, "Nothing was delegated yet.")
            else:
                table.show(members)
            if once:
                break


@click.command(epilog=options.examples("understudy wait k3f9q", "understudy wait k3f9q m2a8x --timeout 600"))
@options.members
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait at most this long for all of them."
)
@options.as_json
def wait(*, identifiers: tuple[str, ...], group: str | None, timeout: float | None, json_: bool) -> int:
    """Wait for delegations to finish and print a line for each.

    The exit code is the highest of theirs. With --json, prints one `Delegation` per line.
    """
    named = members(identifiers, group)
    deadline = time.monotonic() + (_MOST_SECONDS if timeout is None else timeout)
    worst = 0
    for delegation in _ended(named, group, deadline):
        if json_:
            output.json_line(delegation)
        else:
            brush = output.paint()
            word = brush(verdict_card.state_word(delegation), fg=verdict_card.verdict_colour(delegation.verdict))
            reasons = event_lines.reasons(delegation.error, delegation.reservations)
            because = f" ({reasons})" if reasons else ""
            output.say(f"{delegation.id}  {word}{because}  {terminal.one_line(delegation.title)}")
        worst = max(worst, exit_codes.of_verdict(delegation.verdict))
    return worst


def _ended(named: list[str], group: str | None, deadline: float) -> Iterator[Delegation]:
    """Yield each delegation when it has finished, those of the group together; at the deadline as they are."""

    def one(identifier: str, seconds: float) -> list[Delegation]:
        return [call("delegations/wait", id=identifier, timeoutSeconds=seconds)]

    def members_of(group: str, seconds: float) -> list[Delegation]:
        members: list[Delegation] = call("groups/wait", id=group, timeoutSeconds=seconds).delegations
        return members

    for identifier in named:
        yield from _until(deadline, partial(one, identifier))
    if group is not None:
        yield from (
            delegation for delegation in _until(deadline, partial(members_of, group)) if delegation.id not in named
        )


def _until(deadline: float, wait: Callable[[float], list[Delegation]]) -> list[Delegation]:
    """Repeat a request, whose own limit is an hour, until everything it returns has finished or the deadline."""
    while True:
        delegations = wait(min(max(0.0, deadline - time.monotonic()), _SLICE_SECONDS))
        if time.monotonic() >= deadline or all(delegation.state is State.FINISHED for delegation in delegations):
            return delegations


@click.command(epilog=options.examples("understudy cancel k3f9q", "understudy cancel k3f9q m2a8x"))
@options.members
@click.option("--checks", is_flag=True, help="Only stop the checks of results, to decide on what they have shown.")
@options.as_json
def cancel(*, identifiers: tuple[str, ...], group: str | None, checks: bool, json_: bool) -> None:
    """Cancel delegations within five seconds; their partial work is kept.

    A delegation that has finished is not changed. --checks is for delegations whose agent has ended: the result is not
    verified, but what the checks have shown so far stays, and `understudy accept ID --verified` takes it. With --json,
    prints one `Delegation` per line.
    """
    if checks and group is not None:
        raise click.UsageError("--checks needs the IDs of delegations instead of --group.")
    named = members(identifiers, group)
    ended = {identifier for identifier in named if call("delegations/get", id=identifier).state is State.FINISHED}
    for delegation in _cancelled(named, group, only_checks=checks):
        if json_:
            output.json_line(delegation)
        else:
            already = ", had finished already" if delegation.id in ended else ""
            output.say(f"{delegation.id}  {verdict_card.state_word(delegation)}{already}")


def _cancelled(named: list[str], group: str | None, *, only_checks: bool) -> Iterator[Delegation]:
    for identifier in named:
        # False is the default of the API.
        yield call("delegations/cancel", id=identifier, onlyChecks=only_checks or None)
    if group is not None:
        yield from (member for member in call("groups/cancel", id=group).delegations if member.id not in named)


@click.command(epilog=options.examples("understudy attach k3f9q"))
@options.identifier
def attach(*, identifier: str) -> int:
    """Show the terminal of an agent that runs in tmux.

    In the same tmux, its pane becomes the active one; in any other terminal, tmux attaches to it. Detach with `C-b d`:
    the agent goes on.
    """
    if not os.environ.get("TMUX") and not sys.stdout.isatty():
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "`attach` needs a terminal.",
            hint=f"Run it in one, or follow the delegation: understudy watch {identifier}",
        )
    here = f"{os.environ['TMUX']} {os.environ.get('TMUX_PANE', '')}" if os.environ.get("TMUX") else None
    argv = call("delegations/attach", id=resolve(identifier), tmux=here).argv
    # In another tmux, tmux refuses to start inside itself.
    environment = {name: value for name, value in os.environ.items() if name not in {"TMUX", "TMUX_PANE"}}
    try:
        os.execve(argv[0], argv, environment)  # noqa: S606 - no shell is intended
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING, f"{argv[0]} cannot be started: {error.strerror}.", hint="Check your tmux."
        ) from None
