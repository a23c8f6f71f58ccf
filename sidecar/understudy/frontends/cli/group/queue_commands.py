"""``queue``: what waits for a slot."""

from __future__ import annotations

from typing import Any

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output

_PAUSED = "The queue is paused, so nothing starts; continue with: understudy queue resume"


@click.group(
    cls=DefaultGroup,
    epilog=options.examples("understudy queue", "understudy queue pause", "understudy queue move k3f9q 1"),
)
def queue() -> None:
    """Show the delegations that wait for a slot; pause the queue, or change its order."""


@queue.command("list", epilog=options.examples("understudy queue list --json"))
@options.as_json
def list_(*, json_: bool) -> None:
    """Show what waits, in the order in which it starts."""
    _show(call("queue/get"), as_json=json_)


@queue.command(epilog=options.examples("understudy queue pause"))
@options.as_json
def pause(*, json_: bool) -> None:
    """Let nothing that waits start.

    What runs is not affected. The queue stays paused until `queue resume`, also after a restart.
    """
    _show(call("queue/pause", paused=True), as_json=json_)


@queue.command(epilog=options.examples("understudy queue resume"))
@options.as_json
def resume(*, json_: bool) -> None:
    """Let what waits start again."""
    _show(call("queue/pause", paused=False), as_json=json_)


@queue.command(epilog=options.examples("understudy queue move k3f9q 1"))
@options.identifier
@click.argument("position", type=click.IntRange(min=1))
@options.as_json
def move(*, identifier: str, position: int, json_: bool) -> None:
    """Change the place of a waiting delegation.

    Place 1 is the next to start.
    """
    _show(call("queue/move", id=resolve(identifier), position=position), as_json=json_)


def warn_if_paused() -> None:
    """Say on stderr that the queue is paused, if it is: what was just started waits then."""
    if call("queue/get").paused:
        output.say(_PAUSED, err=True)


def _show(queue: Any, *, as_json: bool) -> None:
    if as_json:
        output.json(queue)
        return
    if queue.paused:
        output.say(_PAUSED, err=True)
    rows = [
        (str(place), delegation.id, delegation.delegator, delegation.title, ", ".join(delegation.after))
        for place, delegation in enumerate(queue.delegations, 1)
    ]
    columns = 5 if any(row[-1] for row in rows) else 4
    header = ("", "ID", "BY", "TITLE", "COMES AFTER")
    output.table(header[:columns], [row[:columns] for row in rows], empty="Nothing waits.")
