"""Follow a delegation's events to its end; handle Ctrl-C."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import IO, Any

import click

from understudy.api.serving.follow import follow
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, caller
from understudy.frontends.cli.output import event_lines, output, verdict_card
from understudy.frontends.cli.output.live_view import REDRAW_SECONDS, StreamedAnswer, View
from understudy.frontends.cli.terminal import permission_prompt, terminal
from understudy.frontends.cli.terminal.terminal import HeldInterrupt
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.events import Event, Note, Permission, PermissionAnswered, Text
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State


def view_on(stream: IO[str], *, answer: bool = False, prints_output: bool = False) -> View:
    """Return a live view on ``stream``; with ``answer``, the agent's text is streamed to stdout."""
    return View(
        stream,
        redraw=terminal.can_redraw(stream),
        colour=terminal.has_colour(stream),
        answer=StreamedAnswer(sys.stdout) if answer else None,
        prints_output=prints_output,
    )


class Follower:
    """Follows one delegation to its end with a view, and collects the text of the answer."""

    def __init__(
        self,
        identifier: str,
        view: View | None,
        after: int = 0,
        *,
        asking: permission_prompt.Asking | None = None,
        warns: bool = False,
    ) -> None:
        """Follow the events of ``identifier`` after ``after``; without a view, silently.

        ``asking`` asks the user the agent's questions; without it, a line explains how to answer. ``warns``: without a
        view, warnings and questions are printed on stderr all the same.
        """
        self.identifier = identifier
        self.view = view
        self.after = after
        self.answer = ""
        self.asking = asking
        self.warns = warns

    def run(self, over: Callable[[], bool] | None = None) -> Delegation:
        """Follow to the end (see ``api.serving.follow``) and return the delegation."""
        try:
            for event in follow(self.identifier, self.after, idle_seconds=REDRAW_SECONDS, over=over):
                self._show(event)
        finally:
            if self.view:
                self.view.clear()
        ended: Delegation = call("delegations/get", id=self.identifier)
        return ended

    def _show(self, event: Event | None) -> None:
        if event is None:
            self._idle()
            return
        self.after = event.seq
        if isinstance(event, Text):
            self.answer += event.text
        if self.view:
            if self.asking and isinstance(event, PermissionAnswered):
                self.asking.close(event.request_id)
            self.view.show(event)
            if isinstance(event, Permission):
                self._ask(event.request_id, self.view)
        elif self.warns:
            self._warn(event)

    def _idle(self) -> None:
        if self.asking:
            self.asking.poll()
        if self.view:
            # The status line would be drawn over the user's typing.
            self.view.clear() if self.asking and self.asking.asks else self.view.tick()

    def _ask(self, request_id: str, view: View) -> None:
        if self.asking:
            view.clear()
            self.asking.begin(request_id)
            return
        waiting = call("delegations/get", id=self.identifier).waiting_for
        if waiting is not None and waiting.request_id == request_id:
            view.say(f"Answer with: understudy answer {self.identifier}")

    def _warn(self, event: Event) -> None:
        if isinstance(event, Permission) or (isinstance(event, Note) and event.level != "info"):
            output.say(event_lines.line(event) or "", err=True)
        if isinstance(event, Permission):
            output.say(f"Answer with: understudy answer {self.identifier}", err=True)


def watching(
    identifier: str, stream: IO[str], *, after: int = 0, answer: bool = False, prints_output: bool = False
) -> Follower:
    """Return a follower with a view on ``stream`` that asks the agent's questions if it is a terminal."""
    view = view_on(stream, answer=answer, prints_output=prints_output)
    asking = None
    if terminal.is_terminal(sys.stdin) and terminal.is_terminal(stream):
        asking = permission_prompt.Asking(
            identifier,
            call,
            lambda text: click.echo(text, file=stream),
            read=permission_prompt.read_line,
            discard=permission_prompt.discard_typed,
        )
    return Follower(identifier, view, after, asking=asking)


def follow_started(
    started: Any, recipe: str, does: str, held: HeldInterrupt, *, detach: bool, quiet: bool, as_json: bool
) -> int:
    """Follow a started delegation, print its result and return the exit code. With ``detach``, print only its ID.

    Ctrl-C cancels it, also one that was held back while it started. ``does`` is what the first line says after its ID.
    """
    if detach:
        output.json(started) if as_json else click.echo(started.id)
        held.explain_detached(f"understudy cancel {started.id}")
        return exit_codes.Exit.OK
    if not quiet:
        output.say(f"{started.id}: {does}", err=True)
    silent = quiet or (as_json and not terminal.is_terminal(sys.stderr))
    answers = terminal.is_terminal(sys.stdout) and not as_json and _answers_with_text(recipe)
    follower = (
        Follower(started.id, None, warns=not as_json) if silent else watching(started.id, sys.stderr, answer=answers)
    )
    try:
        finished = follow_or_cancel(follower, held=held)
    except UnderstudyError as error:
        raise _refused(started.id, error) from error
    if as_json:
        output.json(finished)
    else:
        print_card(finished, shown_answer=follower.answer if follower.view and answers else "")
    return exit_codes.of_verdict(finished.verdict)


def _refused(identifier: str, error: UnderstudyError) -> UnderstudyError:
    """Cancel a start that a full disk refuses, so that one who starts it again has not two; return what to report."""
    if error.kind is not ErrorKind.DISK_FULL:
        return error
    with contextlib.suppress(UnderstudyError):
        if call("delegations/get", id=identifier).state not in {State.PREPARING, State.QUEUED}:
            return error
    with contextlib.suppress(UnderstudyError):  # its end is written when there is space
        call("delegations/cancel", id=identifier)
    problem = error.__cause__ if isinstance(error.__cause__, UnderstudyError) else error
    return UnderstudyError(
        ErrorKind.DISK_FULL,
        f"{identifier} did not start, and will not: {problem.message}",
        hint=f"{problem.hint or ''} Then start it again.".strip(),
    )


def follow_or_cancel(
    follower: Follower, over: Callable[[], bool] | None = None, *, held: HeldInterrupt | None = None
) -> Delegation:
    """Follow to the end; Ctrl-C cancels and waits for the end (at most 5 s), a second Ctrl-C exits at once."""
    try:
        if held is not None:
            held.release()
        return follower.run(over)
    except KeyboardInterrupt:
        output.say("Cancelling; partial work is kept (Ctrl-C again to exit at once).", err=True)
    try:
        call("delegations/cancel", id=follower.identifier)
        return follower.run(over)
    except KeyboardInterrupt:
        output.say(f"Stopped waiting; run `understudy show {follower.identifier}` to see the result.", err=True)
        raise


def print_card(delegation: Delegation, *, shown_answer: str = "") -> None:
    """Print the verdict card on stdout, or the answer alone where stdout is not a terminal and there is one."""
    result = delegation.result
    if delegation.verdict == "answered" and result and result.text and not terminal.is_terminal(sys.stdout):
        # `understudy start ask … > answer.md` writes only the answer, byte for byte. As bytes, because click takes
        # escapes out of text.
        ending = "" if result.text.endswith("\n") else "\n"
        click.echo((result.text + ending).encode("utf-8", "replace"), nl=False)
        return
    if shown_answer:
        click.echo()
    show_card(delegation, shown_answer=shown_answer)


def show_card(delegation: Delegation, *, shown_answer: str = "") -> None:
    """Print the verdict card on stdout."""
    text = verdict_card.card(
        delegation,
        output.paint(),
        shown_answer=shown_answer,
        alternative=_alternative,
        follows=follows,
        fit=lambda text: terminal.for_people(text, sys.stdout),
    )
    click.echo(text, nl=False)


def follows(delegation: Delegation) -> bool:
    """Return whether a reply to the delegation would have an effect."""
    from understudy.api.handlers import offers

    return offers.follows_instructions(delegation)


def _alternative(delegation: Delegation) -> str | None:
    """Return a delegator that could try instead; None if there is none or the workspace was removed."""
    from understudy.api.handlers import offers

    tried = {delegation.delegator, *(attempt.delegator for attempt in delegation.attempts)}
    with contextlib.suppress(UnderstudyError):
        return offers.alternative(caller(), delegation.workspace, delegation.recipe, tried)
    return None


def _answers_with_text(recipe: str) -> bool:
    recipes = {entry.name: entry for entry in call("recipes/list").recipes}
    return recipe in recipes and recipes[recipe].returns == "text"


def newest(states: list[str]) -> Any:
    """Return the newest delegation in one of ``states``, None where there is none."""
    delegations = call("delegations/list", states=states, limit=1).delegations
    return delegations[0] if delegations else None
