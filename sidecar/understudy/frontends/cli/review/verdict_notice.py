"""What a review says about the verdict: at its top, or as soon as the checks have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.frontends.cli.output import event_lines, verdict_card
from understudy.frontends.cli.terminal import terminal
from understudy.model.delegation.delegations import Delegation
from understudy.model.states import State

QUESTION = "Wait for the verdict [Y/n/q]?"
HELP = (
    "y  wait until the checks have ended, then review (Ctrl-C: review at once)\n"
    "n  review now; your decisions are applied after the checks have ended\n"
    "q  quit"
)


class VerdictNotice:
    """Says the verdict once: before the first hunk, or before the next one after the checks have ended."""

    def __init__(self, identifier: str, call: Callable[..., Any], person: Any) -> None:
        """Ask and tell ``person`` (``say``, ``ask``, ``paint``)."""
        self._identifier = identifier
        self._call = call
        self._person = person
        self._said = False

    def begin(self, wait: Callable[[], None]) -> bool:
        """Say the verdict; without one, ask whether to ``wait`` for it. Return False if the user quits."""
        delegation: Delegation = self._call("delegations/get", id=self._identifier)
        self._person.say(terminal.one_line(f"{delegation.id}  {delegation.title}"))
        if delegation.state is State.FINISHED:
            self._say(delegation)
            return True
        self._person.say(no_verdict(delegation, self._person.paint))
        while True:
            line = self._person.ask(QUESTION)
            match "q" if line is None else line.strip().lower():
                case "" | "y" | "yes":
                    wait()
                    self.update()
                    return True
                case "n" | "no":
                    return True
                case "q":
                    return False
                case _:
                    self._person.say(HELP)

    def before_sending(self, decisions: int, wait: Callable[[], None]) -> bool:
        """Return whether to apply decisions; if they were made without the verdict, wait for it and ask again."""
        if self._said or not decisions:
            return True
        self.update()
        if not self._said:
            self._person.say("Your decisions are applied after the checks have ended (Ctrl-C: they are not applied).")
            wait()
            self.update()
        count = event_lines.plural(decisions, "decision")
        answer = self._person.ask(f"Apply your {count} [Y/n]?")
        return answer is not None and answer.strip().lower() in {"", "y", "yes"}

    def update(self) -> None:
        """Say the verdict if there is one now and it was not said."""
        if not self._said:
            delegation: Delegation = self._call("delegations/get", id=self._identifier)
            if delegation.state is State.FINISHED:
                self._say(delegation)

    def _say(self, delegation: Delegation) -> None:
        self._said = True
        self._person.say(verdict_card.verdict_line(delegation, self._person.paint))


def no_verdict(delegation: Delegation, paint: terminal.Paint) -> str:
    """Return the line that says why a result has no verdict yet."""
    why = "its checks still run" if delegation.state is State.CHECKING else "its agent works on it again"
    return f"{paint('NO VERDICT YET', fg='yellow', bold=True)}: {why}"
