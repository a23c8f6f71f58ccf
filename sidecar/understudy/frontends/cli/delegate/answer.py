"""``answer``: answer permission requests of agents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from understudy.frontends.cli.calls import options, workspace_trust
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import permission_prompt, terminal
from understudy.model.delegation.delegations import Delegation, Delivery, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_INBOX = 100


_OUTCOMES: dict[Delivery, str] = {
    "sent": "sent to its agent",
    "waiting": "waits for its agent, at the latest until the end of this turn",
    "kept": "its agent takes nothing more; this is part of your next reply:\n    understudy reply {id} TEXT",
}


def _waiting(_: click.Context) -> Iterator[tuple[str, str]]:
    for delegation in waiting():
        yield delegation.id, terminal.one_line(delegation.waiting_for.title if delegation.waiting_for else "")


@click.command(
    epilog=options.examples(
        "understudy answer",
        "understudy answer k3f9q",
        "understudy answer k3f9q allow_once",
        "understudy answer k3f9q allow_once --remember",
        "understudy answer k3f9q reject_once --note 'use the test database'",
        "understudy answer k3f9q 'Use SQLite.'",
    )
)
@click.argument("identifier", metavar="[ID]", required=False, shell_complete=options.completes(_waiting))
@click.argument("option", metavar="[OPTION]", required=False)
@click.option("--note", metavar="TEXT", help="Send this text to the agent with the answer.")
@click.option("--remember", is_flag=True, help="Save a rule, so that the delegator is not asked this again.")
@options.as_json
def answer(*, identifier: str | None, option: str | None, note: str | None, remember: bool, json_: bool) -> None:
    """Answer an agent that waits for permission, or for the answer to a question.

    ID may be left out if only one agent waits. OPTION is the number, the kind (`allow_once`,
    `reject_once`, …) or the ID of an option, or the text that answers a question; without it, the command shows the
    question and asks on the terminal.
    """
    delegation = _asked(identifier)
    request = delegation.waiting_for
    if request is None:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{delegation.id} does not wait for an answer.",
            hint="Run `understudy inbox` to see the open questions.",
        )
    if option is None:
        _show(request)
        if json_ or not workspace_trust.can_ask():
            raise click.UsageError(f"Name an option: understudy answer {delegation.id} OPTION.")
        option = str(click.prompt(permission_prompt.prompt(request), err=True))
    picked = _with_text(permission_prompt.parse(request, option, note))
    sent = _send(delegation.id, request, picked, remember=remember)
    if json_:
        output.json(sent)
    else:
        shown = picked.note if picked.option.takes_text and picked.note else picked.option.title
        output.say(f"{delegation.id}  {terminal.one_line(shown)}")


@click.command(epilog=options.examples("understudy inbox", "understudy inbox --json"))
@options.as_json
def inbox(*, json_: bool) -> None:
    """List the questions of all agents, and answer them one after another.

    Asks on a terminal only; elsewhere it lists the questions. Enter leaves a question open.
    With --json, prints the waiting delegations as a `ListResult`.
    """
    if json_ or not workspace_trust.can_ask():
        _list(as_json=json_)
        return
    delegations = waiting()
    if not delegations:
        output.say("No agent waits for an answer.")
    for delegation in delegations:
        if delegation.waiting_for is not None:
            output.say(f"{delegation.id}  {delegation.delegator}, {terminal.one_line(delegation.title)}", err=True)
            _settle(delegation.id, delegation.waiting_for)


def _settle(identifier: str, request: PermissionRequest) -> None:
    """Ask until the answer is valid; an empty one leaves the question open."""
    _show(request)
    asked = permission_prompt.prompt(request)
    while typed := str(click.prompt(asked, default="", show_default=False, err=True)):
        try:
            _send(identifier, request, _with_text(permission_prompt.parse(request, typed)))
        except UnderstudyError as error:
            output.say(terminal.one_line(f"{error.message} {error.hint or ''}"), err=True)
            if error.kind is ErrorKind.INVALID_PARAMS:
                continue
        return


def _show(request: PermissionRequest) -> None:
    for row in permission_prompt.rows(request):
        click.echo(row, err=True)  # exactly what is approved: not wrapped, and with whole IDs


def _with_text(picked: permission_prompt.Picked) -> permission_prompt.Picked:
    """Ask for the text of an answer that is one."""
    if not picked.option.takes_text or picked.note or not workspace_trust.can_ask():
        return picked
    return replace(picked, note=str(click.prompt("Your answer", err=True)))


def _send(
    identifier: str, request: PermissionRequest, picked: permission_prompt.Picked, *, remember: bool = False
) -> Any:
    remember = remember or picked.remember
    params = {"requestId": request.request_id, "option": picked.option.id, "note": picked.note, "remember": remember}
    return call("delegations/answer", id=identifier, **params)


def waiting() -> list[Delegation]:
    """Return the delegations that wait for the user, newest first."""
    delegations = call("delegations/list", states=[str(State.WAITING)], limit=_INBOX).delegations
    return [delegation for delegation in delegations if delegation.waiting_for is not None]


def headline(paint: terminal.Paint) -> str:
    """Return the open questions as lines for the top of a list, empty if there are none."""
    lines = []
    for delegation in waiting():
        title = delegation.waiting_for.title if delegation.waiting_for else ""
        text = terminal.cut(f"{delegation.id} asks: {terminal.one_line(title)}", terminal.width() - 2)
        lines.append(f"{paint('?', fg='yellow', bold=True)} {text}\n    understudy answer {delegation.id}\n")
    return "".join(lines)


def _asked(identifier: str | None) -> Delegation:
    if identifier is not None:
        delegation: Delegation = call("delegations/get", id=resolve(identifier))
        return delegation
    delegations = waiting()
    if len(delegations) == 1:
        return delegations[0]
    if not delegations:
        raise UnderstudyError(
            ErrorKind.CONFLICT, "No agent waits for an answer.", hint="Run `understudy list` to see what runs."
        )
    raise UnderstudyError(
        ErrorKind.CONFLICT,
        f"{len(delegations)} agents wait for an answer.",
        hint="Name one: `understudy answer ID`.",
        names=[
            f"{delegation.id}: {delegation.waiting_for.title}" for delegation in delegations if delegation.waiting_for
        ],
    )


def _list(*, as_json: bool) -> None:
    if as_json:
        page = call("delegations/list", states=[str(State.WAITING)], limit=_INBOX)
        page.delegations = [delegation for delegation in page.delegations if delegation.waiting_for is not None]
        output.json(page)
        return
    delegations = waiting()
    output.table(
        ("ID", "BY", "UNTIL", "QUESTION"),
        [
            (
                delegation.id,
                delegation.delegator,
                terminal.local_time(delegation.waiting_for.deadline) if delegation.waiting_for.deadline else "-",
                delegation.waiting_for.title,
            )
            for delegation in delegations
            if delegation.waiting_for
        ],
        empty="No agent waits for an answer.",
    )


@click.command(
    epilog=options.examples(
        "understudy say k3f9q 'do not touch the public names'",
        "understudy say k3f9q - < notes.md",
        "understudy say k3f9q --json 'test the empty string, too'",
    )
)
@options.identifier
@click.argument("words", metavar="TEXT...|-", nargs=-1, required=True)
@options.as_json
def say(*, identifier: str, words: tuple[str, ...], json_: bool) -> None:
    """Say something to the agent of a delegation in progress.

    Some agents get it at once, others when their turn ends; the answer says which. Once a delegation has finished, use
    `understudy reply`. `-` reads the text from stdin.
    """
    text = options.words_or_stdin(words)
    if not text.strip():
        raise click.UsageError("The message is empty.")
    whole = resolve(identifier)
    sent = call("delegations/say", id=whole, text=text)
    if json_:
        output.json(sent)
    else:
        delivery: Delivery = sent.delivery
        output.say(f"{whole}: {_OUTCOMES[delivery].format(id=whole)}")
