"""``answer``: answer permission requests of agents."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem

from understudy.frontends.cli import exit_codes, options
from understudy.frontends.cli.api_calls import call, resolve
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import permission_prompt, terminal, trust_prompt
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_INBOX = 100


def complete_waiting(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete IDs of delegations that wait for an answer."""
    _ = context, parameter
    try:
        found = waiting()
    except Exception:
        return []
    return [
        CompletionItem(one.id, help=terminal.one_line(one.waiting_for.title if one.waiting_for else ""))
        for one in found
        if one.id.startswith(incomplete) or one.id.rpartition("-")[2].startswith(incomplete)
    ]


@click.command(
    epilog=options.examples(
        "understudy answer",
        "understudy answer k3f9q",
        "understudy answer k3f9q allow_once",
        "understudy answer k3f9q reject_once --note 'use the test database'",
    )
)
@click.argument("identifier", metavar="[ID]", required=False, shell_complete=complete_waiting)
@click.argument("option", metavar="[OPTION]", required=False)
@click.option("--note", metavar="TEXT", help="Send this text to the agent with the answer.")
@click.option("--list", "list_", is_flag=True, help="Only list the open questions.")
@options.as_json
def answer(*, identifier: str | None, option: str | None, note: str | None, list_: bool, json_: bool) -> int:
    """Answer an agent that waits for permission.

    ID may be left out if only one agent waits. OPTION is the number, the kind (`allow_once`,
    `reject_once`, …) or the ID of an option; without it, the command shows the question and asks on the terminal.
    With --list and --json, prints the waiting delegations as a `ListResult`.
    """
    if list_:
        if identifier or option:
            raise click.UsageError("--list takes no other argument.")
        return _list(as_json=json_)
    found = _asked(identifier)
    request = found.waiting_for
    if request is None:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{found.id} does not wait for an answer.",
            hint="Run `understudy answer --list` to see the open questions.",
        )
    if option is None:
        for row in permission_prompt.rows(request):
            click.echo(row, err=True)
        if json_ or not trust_prompt.can_ask():
            raise click.UsageError(f"Name an option: understudy answer {found.id} OPTION.")
        option = str(click.prompt("Which option? (number)", err=True))
    picked = permission_prompt.chosen(request.options, option)
    done = call("delegations/answer", id=found.id, requestId=request.request_id, option=picked.id, note=note)
    if json_:
        output.json(done)
    else:
        click.echo(f"{found.id}  {terminal.one_line(picked.title)}")
    return exit_codes.Exit.OK


def waiting() -> list[Delegation]:
    """Return the delegations that wait for the user, newest first."""
    found = call("delegations/list", states=[str(State.WAITING)], limit=_INBOX).delegations
    return [one for one in found if one.waiting_for is not None]


def inbox(paint: terminal.Paint) -> str:
    """Return the open questions as lines for the top of a list, empty if there are none."""
    found = []
    for one in waiting():
        title = one.waiting_for.title if one.waiting_for else ""
        text = terminal.cut(f"{one.id} asks: {terminal.one_line(title)}", terminal.width() - 2)
        found.append(f"{paint('?', fg='yellow', bold=True)} {text}\n    understudy answer {one.id}\n")
    return "".join(found)


def _asked(identifier: str | None) -> Delegation:
    if identifier is not None:
        one: Delegation = call("delegations/get", id=resolve(identifier))
        return one
    found = waiting()
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnderstudyError(
            ErrorKind.CONFLICT, "No agent waits for an answer.", hint="Run `understudy list` to see what runs."
        )
    raise UnderstudyError(
        ErrorKind.CONFLICT,
        f"{len(found)} agents wait for an answer.",
        hint="Name one: `understudy answer ID`.",
        names=[f"{one.id}: {one.waiting_for.title}" for one in found if one.waiting_for],
    )


def _list(*, as_json: bool) -> int:
    if as_json:
        page = call("delegations/list", states=[str(State.WAITING)], limit=_INBOX)
        page.delegations = [one for one in page.delegations if one.waiting_for is not None]
        output.json(page)
        return exit_codes.Exit.OK
    found = waiting()
    output.table(
        ("ID", "BY", "UNTIL", "QUESTION"),
        [
            (one.id, one.delegator, one.waiting_for.deadline or "-", one.waiting_for.title)
            for one in found
            if one.waiting_for
        ],
    )
    if not found and terminal.is_terminal(sys.stdout):
        click.echo("No agent waits for an answer.")
    return exit_codes.Exit.OK
