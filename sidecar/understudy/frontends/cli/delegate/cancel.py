"""``cancel``: end delegations."""

from __future__ import annotations

from collections.abc import Iterator

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls.api_calls import call, members
from understudy.frontends.cli.output import output, verdict_card
from understudy.model.delegation.delegations import Delegation
from understudy.model.states import State

_JOIN_SECONDS = 10.0


@click.command(epilog=options.examples("understudy cancel k3f9q", "understudy cancel k3f9q m2a8x"))
@options.members
@options.as_json
def cancel(*, identifiers: tuple[str, ...], group: str | None, json_: bool) -> None:
    """Cancel delegations within five seconds; their partial work is kept.

    A delegation that has finished is not changed. With --json, prints one `Delegation` per line.
    """
    named = members(identifiers, group)
    ended = {identifier for identifier in named if call("delegations/get", id=identifier).state is State.FINISHED}
    for delegation in _cancelled(named, group):
        if json_:
            output.json_line(delegation)
        else:
            already = ", had finished already" if delegation.id in ended else ""
            click.echo(f"{delegation.id}  {verdict_card.state_word(delegation)}{already}")


def _cancelled(named: list[str], group: str | None) -> Iterator[Delegation]:
    for identifier in named:
        yield call("delegations/cancel", id=identifier)
    if group is not None:
        yield from (member for member in call("groups/cancel", id=group).delegations if member.id not in named)
