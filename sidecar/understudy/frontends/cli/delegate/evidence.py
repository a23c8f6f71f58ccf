"""``evidence``, ``dismiss`` and ``check``: the evidence for a verdict, and to judge again."""

from __future__ import annotations

import sys
import threading

import click

from understudy.frontends.cli.calls import exit_codes, options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.delegate import follower as following
from understudy.frontends.cli.output import markdown, output
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.terminal import sanitize

_JOIN_SECONDS = 10.0


@click.command(epilog=options.examples("understudy evidence k3f9q", "understudy evidence k3f9q > evidence.md"))
@options.identifier
@options.as_json
def evidence(*, identifier: str, json_: bool) -> None:
    """Show all evidence for a verdict, with commands to repeat it; in a pipe, as Markdown."""
    page = call("delegations/evidence", id=resolve(identifier))
    if json_:
        output.json(page)
        return
    text = sanitize(page.markdown)
    is_terminal = terminal.is_terminal(sys.stdout)
    click.echo(markdown.rendered(text, output.paint(), terminal.width()) if is_terminal else text, nl=False)


@click.command(epilog=options.examples("understudy dismiss k3f9q 5d1c0b7a9e42"))
@options.identifier
@click.argument("mutants", nargs=-1, required=True, metavar="CHANGE…")
@options.as_json
def dismiss(*, identifier: str, mutants: tuple[str, ...], json_: bool) -> None:
    """Dismiss small changes of the code that no test can notice, because it does the same.

    They stay left out in this workspace while their line stays the same. `understudy check` judges a result without
    them.
    """
    whole = resolve(identifier)
    dismissed = call("delegations/dismiss", id=whole, mutants=list(mutants))
    if json_:
        output.json(dismissed)
    else:
        output.say(f"Dismissed {len(mutants)}.\nnext: understudy check {whole}")


@click.command(epilog=options.examples("understudy check k3f9q"))
@options.identifier
@options.as_json
def check(*, identifier: str, json_: bool) -> int:
    """Run the checks of a result again and update its verdict. Ctrl-C cancels them."""
    return run_checks(resolve(identifier), json_=json_)


def run_checks(whole: str, *, json_: bool) -> int:
    """Run the checks, follow them, and print the card; return the exit code of the verdict."""
    before = call("delegations/get", id=whole).last_seq
    silent = json_ and not terminal.is_terminal(sys.stderr)
    checking = _Checking(whole)
    checking.start()
    follower = following.Follower(whole, None if silent else following.view_on(sys.stderr), before)
    delegation = following.follow_or_cancel(follower, lambda: not checking.is_alive())
    checking.join(timeout=_JOIN_SECONDS)
    if checking.error is not None:
        raise checking.error
    if json_:
        output.json(delegation)
    else:
        following.print_card(delegation)
    return exit_codes.of_verdict(delegation.verdict)


class _Checking(threading.Thread):
    """The request, in a thread: it returns when the checks have finished, and the command follows the events."""

    def __init__(self, identifier: str) -> None:
        super().__init__(daemon=True)
        self._identifier = identifier
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            call("delegations/check", id=self._identifier)
        except Exception as error:
            self.error = error
