"""Following a delegation from the command line: its events as they are written, and what Ctrl-C means."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import click

from understudy.faces.cli import card, exits, output, questions, terminal
from understudy.faces.cli.calls import call, uri
from understudy.faces.cli.live import REDRAW_SECONDS, View
from understudy.journal.bell import Bell
from understudy.journal.reader import Tail
from understudy.journal.store import open_folder
from understudy.model.delegations import Delegation
from understudy.model.events import Event, Permission, PermissionAnswered, Text
from understudy.model.states import State

LOOK_AFTER_WORKER_SECONDS = 2.0
"""How often a follower in a silence asks for the delegation itself: whoever asks notices a dead worker and ends it."""


def events(identifier: str, after: int = 0, over: Callable[[], bool] | None = None) -> Iterator[Event | None]:
    """Yield the events of a delegation behind ``after`` up to its end, and None a few times a second in between.

    ``over`` tells where the end is, if not at the first ``finished`` (or the end there was already).
    """
    tail = Tail(open_folder(identifier), after)
    looked = time.monotonic()
    with Bell() as bell:
        while True:
            is_over = over() if over else tail.has_finished
            found = tail.read()
            if found:
                yield from found
                continue
            if is_over:
                return
            if over is None and time.monotonic() - looked > LOOK_AFTER_WORKER_SECONDS:
                looked = time.monotonic()
                standing: Delegation = call("delegations/get", id=identifier)
                if standing.state is State.FINISHED and standing.last_seq <= tail.last:
                    return
            bell.wait(REDRAW_SECONDS)
            yield None


def view_on(stream: IO[str], *, answer: bool = False) -> View:
    """Return a live view for ``stream``; with ``answer``, the agent's words go to stdout as they come."""
    return View(
        stream,
        redraw=terminal.can_redraw(stream),
        colour=terminal.has_colour(stream),
        answer=_print_answer if answer else None,
    )


class Follower:
    """Follows one delegation to its end with a view, remembering what of the answer was shown."""

    def __init__(
        self, identifier: str, view: View | None, after: int = 0, *, asking: questions.Asking | None = None
    ) -> None:
        """Follow ``identifier`` behind ``after``; without a view, silently.

        ``asking`` puts the agent's questions to the person who watches, else a line says how to answer.
        """
        self.identifier = identifier
        self.view = view
        self.after = after
        self.answer = ""
        self.asking = asking

    def run(self, over: Callable[[], bool] | None = None) -> Delegation:
        """Follow to the end (see ``events``) and return the delegation."""
        for event in events(self.identifier, self.after, over):
            if event is None:
                self._idle()
                continue
            self.after = event.seq
            if isinstance(event, Text):
                self.answer += event.text
            if self.view:
                if self.asking and isinstance(event, PermissionAnswered):
                    self.asking.withdraw(event.request_id)
                self.view.show(event)
                if isinstance(event, Permission):
                    self._ask(event.request_id, self.view)
        return self.end()

    def _idle(self) -> None:
        if self.asking:
            self.asking.poll()
        if self.view:
            # The status line would be drawn over what the person types.
            self.view.clear() if self.asking and self.asking.asks else self.view.tick()

    def _ask(self, request_id: str, view: View) -> None:
        if self.asking:
            view.clear()
            self.asking.begin(request_id)
            return
        waiting = call("delegations/get", id=self.identifier).waiting_for
        if waiting is not None and waiting.request_id == request_id:
            view.say(f"answer it: understudy answer {self.identifier}")

    def end(self) -> Delegation:
        """Take the view away and return the delegation as it stands."""
        if self.view:
            self.view.clear()
        found: Delegation = call("delegations/get", id=self.identifier)
        return found


def watching(identifier: str, stream: IO[str], *, after: int = 0, answer: bool = False) -> Follower:
    """Return a follower with a view on ``stream``, which asks the agent's questions where a person can answer."""
    view = view_on(stream, answer=answer)
    asking = None
    if terminal.is_terminal(sys.stdin) and terminal.is_terminal(stream):
        asking = questions.Asking(
            identifier,
            call,
            lambda text: click.echo(text, file=stream),
            read=questions.read_line,
            discard=questions.discard_typed,
        )
    return Follower(identifier, view, after, asking=asking)


def to_the_end(identifier: str, recipe: str, *, quiet: bool, as_json: bool) -> int:
    """Follow what was just started, print what came of it, and return the exit code. Ctrl-C cancels it."""
    silent = quiet or (as_json and not terminal.is_terminal(sys.stderr))
    answers = terminal.is_terminal(sys.stdout) and not as_json and _answers_with_text(recipe)
    follower = Follower(identifier, None) if silent else watching(identifier, sys.stderr, answer=answers)
    finished = follow_or_cancel(follower)
    if as_json:
        output.json(finished)
    else:
        print_card(finished, shown_answer=follower.answer if follower.view and answers else "")
    return exits.of_verdict(finished.verdict)


def follow_or_cancel(follower: Follower, over: Callable[[], bool] | None = None) -> Delegation:
    """Follow to the end; Ctrl-C cancels and waits for the end (at most 5 s), a second Ctrl-C leaves at once."""
    try:
        return follower.run(over)
    except KeyboardInterrupt:
        if follower.view:
            follower.view.clear()
        click.echo("cancelling; the work is kept (Ctrl-C again to leave at once)", err=True)
    try:
        call("delegations/cancel", id=follower.identifier)
        return follower.run(over)
    except KeyboardInterrupt:
        click.echo(f"left; `understudy show {follower.identifier}` tells how it ended", err=True)
        raise


def print_card(delegation: Delegation, *, shown_answer: str = "") -> None:
    """Print the verdict card on stdout, or the answer alone where stdout is not a terminal and there is one."""
    result = delegation.result
    if delegation.verdict == "answered" and result and result.text and not terminal.is_terminal(sys.stdout):
        # `understudy start ask … > answer.md` is the answer and nothing else, byte for byte.
        # As bytes, because click takes escapes out of text.
        ending = "" if result.text.endswith("\n") else "\n"
        click.echo((result.text + ending).encode("utf-8", "replace"), nl=False)
        return
    if shown_answer and not shown_answer.endswith("\n"):
        click.echo()
    click.echo(card.card(delegation, output.paint(), shown_answer=shown_answer), nl=False)


def _answers_with_text(recipe: str) -> bool:
    found = {one.name: one for one in call("recipes/list", uri=uri(".")).recipes}
    return recipe in found and found[recipe].returns == "text"


def _print_answer(text: str) -> None:
    click.echo(terminal.clean(text), nl=False)
    sys.stdout.flush()


def newest(states: list[str]) -> Any:
    """Return the newest delegation in one of ``states``, None where there is none."""
    found = call("delegations/list", states=states, limit=1).delegations
    return found[0] if found else None
