"""What a notification says. Pure.

A notification leaves this machine, so it says only what Understudy itself knows: counts, verdicts, fixed sentences. Of
what users and agents wrote, it takes a line that is plain words, such as a title, or a file name; code, commands that
are more than words, paths outside the workspace and everything longer are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from understudy.model.config.notifications import NotificationEvent
from understudy.model.delegation.delegations import Delegation, PermissionRequest
from understudy.model.text.sanitize import one_line
from understudy.model.verdicts import RESERVATIONS, VERDICTS, Verdict

LONGEST_TITLE = 120
LONGEST_TEXT = 600
MOST_BUTTONS = 3
"""As many as ntfy shows."""
_LONGEST_QUOTE = 100
_PLAIN = re.compile(r"[\w\s.,:?!'/@+-]+")
_OUTSIDE = re.compile(r"(?:^|[\s:='])(?:[/~]|\.\.(?:/|$))|/\.\.(?:/|$)")
"""An absolute path, one in a home folder, or one that leads upwards."""
_EVENTS: dict[Verdict, NotificationEvent] = {
    Verdict.FAILED: "failure",
    Verdict.TIMED_OUT: "failure",
    Verdict.INTERRUPTED: "failure",
    Verdict.BUDGET_EXHAUSTED: "budget",
}


class Button(msgspec.Struct, frozen=True):
    """A button that answers a question."""

    title: str
    option: str
    """The id of the option that it chooses."""
    code: str = ""
    """What is sent back when it is pressed; each counts once."""


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A notification, as a webhook gets it."""

    event: NotificationEvent | Literal["test"]
    title: str
    text: str
    key: str
    """The same for each try to deliver one notification, and for no other."""
    delegation: str | None = None
    verdict: Verdict | None = None


def plain(text: str, most: int = _LONGEST_QUOTE) -> str | None:
    """Return ``text`` if it is one short line of words that names no file outside the workspace, otherwise None."""
    text = text.strip()
    fits = 0 < len(text) <= most and text == one_line(text)
    return text if fits and _PLAIN.fullmatch(text) and not _OUTSIDE.search(text) else None


def of_test(name: str, key: str) -> Message:
    """Return what `notifications test` sends."""
    return Message(event="test", title="Understudy: test", text=f"The receiver {name} gets notifications.", key=key)


def of_end(delegation: Delegation) -> Message | None:
    """Return the notification of the end of a run; None where the user ended it."""
    verdict = delegation.verdict
    if verdict is None or verdict is Verdict.CANCELLED:
        return None
    lines = [f"{_words(verdict)}: {VERDICTS[verdict]}."]
    if delegation.error is not None:
        lines.append(f"Reason: {_words(delegation.error.kind).lower()}.")
    if delegation.reservations:
        first, more = RESERVATIONS[delegation.reservations[0]][0], len(delegation.reservations) - 1
        lines.append(f"Reservation: {first}{f', and {more} more' if more else ''}.")
    files = delegation.result.files if delegation.result is not None else []
    if files:
        added, removed = sum(file.additions for file in files), sum(file.deletions for file in files)
        lines.append(f"{_count(len(files), 'file')}: {_count(added, 'line')} added, {removed} removed.")
    return _message(delegation, _EVENTS.get(verdict, "verdict"), _words(verdict), lines, verdict=verdict)


def of_pause(delegation: Delegation, delegator: str, until: str, failure: str) -> Message:
    """Return the notification that a delegator is paused."""
    lines = [f"{plain(delegator) or 'A delegator'} keeps failing: {_words(failure).lower()}."]
    return _message(delegation, "pause", "Delegator paused", [*lines, f"It is paused until {until}."])


def of_question(delegation: Delegation, request: PermissionRequest) -> Message:
    """Return the notification that an agent waits for an answer."""
    about = subject(request)
    lines = [f"{_ASKS.get(request.kind, _ASKS['other'])}{f': {about}' if about else '.'}"]
    if request.deadline:
        lines.append(f"Without an answer, the default applies at {request.deadline}.")
    return _message(delegation, "question", "Question", [*lines, f"To answer: understudy answer {delegation.id}"])


def subject(request: PermissionRequest) -> str | None:
    """Return what exactly is asked, if a notification may say it in full."""
    if request.kind == "question":
        return plain(request.title) if one_line(request.title) == one_line(request.detail) else None
    # A rule is proposed only where the command or path that is shown is complete.
    return plain(request.rule.command or request.rule.path or "", _LONGEST_QUOTE) if request.rule is not None else None


def buttons(request: PermissionRequest) -> list[Button]:
    """Return the options that a notification may offer: none that lasts, takes a text, or allows something unseen."""
    once = [option for option in request.options if option.kind in _KINDS and not option.takes_text]
    seen = subject(request) is not None
    if request.kind == "question":
        titled = [Button(title, option.id) for option in once if (title := plain(option.title, 40)) is not None]
        return titled[:MOST_BUTTONS] if seen else []
    # The agent's own titles could call an option that allows "Reject".
    kinds = [kind for kind in _KINDS if seen or kind == "reject_once"]
    firsts = [next((option for option in once if option.kind == kind), None) for kind in kinds]
    return [Button(_KINDS[option.kind], option.id) for option in firsts if option is not None]


_KINDS = {"allow_once": "Allow once", "reject_once": "Reject"}
_ASKS = {
    "question": "The agent asks",
    "execute": "The agent wants to run a command",
    "read": "The agent wants to read a file",
    "edit": "The agent wants to change a file",
    "fetch": "The agent wants to use the network",
    "other": "The agent asks for permission",
}


def _message(
    delegation: Delegation,
    event: NotificationEvent,
    what: str,
    lines: Sequence[str],
    verdict: Verdict | None = None,
) -> Message:
    about = plain(delegation.title, 80) or plain(delegation.recipe) or delegation.id
    return Message(
        event=event,
        title=f"{what}: {about}"[:LONGEST_TITLE],
        text="\n".join(lines)[:LONGEST_TEXT],
        key=f"{delegation.id}-{delegation.last_seq}-{event}",
        delegation=delegation.id,
        verdict=verdict,
    )


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
