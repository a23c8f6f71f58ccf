"""``answer``: what an agent that waits for a person wants to know."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem

from understudy.faces.cli import exits, options, output, questions, terminal, trusting
from understudy.faces.cli.calls import call, resolve
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_INBOX = 100


def complete_waiting(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the ids of delegations that wait for an answer."""
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
@click.option("--note", metavar="TEXT", help="What to tell the agent with the answer.")
@click.option("--list", "list_", is_flag=True, help="Only list what is asked.")
@options.as_json
def answer(*, identifier: str | None, option: str | None, note: str | None, list_: bool, json_: bool) -> int:
    """Answer the question of an agent that waits; without ID, the one that asks, or a list of them.

    OPTION is the number, the kind (`allow_once`, `reject_once`, …) or the id of an option; without it the question is
    shown and asked on a terminal. With --json and --list: the delegations that wait, as `ListResult`.
    """
    if list_:
        if identifier or option:
            raise click.UsageError("--list goes alone")
        return _list(as_json=json_)
    found = _asked(identifier)
    request = found.waiting_for
    if request is None:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{found.id} asks nothing",
            hint="`understudy answer --list` shows what is asked",
        )
    if option is None:
        for row in questions.rows(request.title, request.detail, request.options):
            click.echo(row, err=True)
        if json_ or not trusting.can_ask():
            raise click.UsageError(f"name an option: understudy answer {found.id} OPTION")
        option = str(click.prompt("Which one? (number)", err=True))
    picked = questions.chosen(request.options, option)
    done = call("delegations/answer", id=found.id, requestId=request.request_id, option=picked.id, note=note)
    if json_:
        output.json(done)
    else:
        click.echo(f"{found.id}  {terminal.one_line(picked.title)}")
    return exits.Exit.OK


def waiting() -> list[Delegation]:
    """Return the delegations that wait for a person, newest first."""
    found = call("delegations/list", states=[str(State.WAITING)], limit=_INBOX).delegations
    return [one for one in found if one.waiting_for is not None]


def inbox(paint: terminal.Paint) -> str:
    """Return what is asked as lines for the top of a list, empty where nothing is."""
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
        raise UnderstudyError(ErrorKind.CONFLICT, "no agent asks anything", hint="`understudy list` shows what runs")
    raise UnderstudyError(
        ErrorKind.CONFLICT,
        f"{len(found)} agents ask something",
        hint="say which: `understudy answer ID`",
        names=[f"{one.id}: {one.waiting_for.title}" for one in found if one.waiting_for],
    )


def _list(*, as_json: bool) -> int:
    if as_json:
        page = call("delegations/list", states=[str(State.WAITING)], limit=_INBOX)
        page.delegations = [one for one in page.delegations if one.waiting_for is not None]
        output.json(page)
        return exits.Exit.OK
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
        click.echo("No agent asks anything.")
    return exits.Exit.OK
