"""``wait``: wait for delegations to finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, members
from understudy.frontends.cli.output import event_lines, output, verdict_card
from understudy.frontends.cli.terminal import terminal
from understudy.model.delegation.delegations import Delegation
from understudy.model.states import State

_MOST_SECONDS = 86_400.0
_SLICE_SECONDS = 3600.0


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
            click.echo(f"{delegation.id}  {word}{because}  {terminal.one_line(delegation.title)}")
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
