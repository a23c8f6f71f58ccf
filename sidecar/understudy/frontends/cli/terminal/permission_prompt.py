"""Show a permission request on a terminal and read the answer."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.frontends.cli.terminal import terminal
from understudy.model.delegation.delegations import PermissionOption, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import delegation_text

_DETAIL_SHOWN = 40
"""How many lines of a question's detail are printed; the number of further lines is shown."""
REMEMBER = "a"
"""The answer that allows a question and saves the proposed rule."""
_LINE_BYTES = 4096
"""The longest line that a terminal in canonical mode returns (Linux N_TTY)."""


def rows(request: PermissionRequest) -> list[str]:
    """Return a question as lines: title, effect, detail and numbered options, with control characters made visible."""
    lines = [f"asks: {' '.join(map(terminal.visible, request.title.splitlines()))}"]
    detail = delegation_text.describe_request(request)
    detail_lines = detail.rstrip("\n").split("\n") if detail.strip() else []
    lines += [f"  | {terminal.visible(line)}" for line in detail_lines[:_DETAIL_SHOWN]]
    if len(detail_lines) > _DETAIL_SHOWN:
        lines.append(f"  … and {len(detail_lines) - _DETAIL_SHOWN} more lines: `understudy show --json` prints all")
    lines += [
        f"  {number}  {terminal.one_line(option.title)}  ({option.id if asks_user(request) else option.kind})"
        for number, option in enumerate(request.options, 1)
    ]
    if (what := delegation_text.remembered(request)) is not None:
        lines.append(f"  {REMEMBER}  Always allow {terminal.one_line(what)}")
    return lines


@dataclass(frozen=True)
class Picked:
    """An answer."""

    option: PermissionOption
    remember: bool = False
    note: str | None = None
    """The text that is the answer, or goes with it."""


def asks_user(request: PermissionRequest) -> bool:
    """Return whether the agent asks the user a question: then a text may be the answer."""
    return any(option.takes_text for option in request.options)


def parse(request: PermissionRequest, text: str, note: str | None = None) -> Picked:
    """Return the answer. To a question, whatever names no option is the answer itself. Errors: ``invalid_params``.

    An option that takes a text, named without one, is returned without one: ask for it.
    """
    if text.strip() == REMEMBER and delegation_text.remembered(request) is not None:
        return Picked(chosen(request.options, "allow_once"), remember=True)
    named = next((option for option in request.options if option.id == text.strip()), None)
    if asks_user(request) and named is not None:  # choices have the same kind
        return Picked(named, note=note)
    try:
        return Picked(chosen(request.options, text), note=note)
    except UnderstudyError:
        free = next((option for option in request.options if option.takes_text), None)
        if free is None or not text.strip() or note is not None:
            raise
        return Picked(free, note=text.strip())


def prompt(request: PermissionRequest) -> str:
    """Return what to ask for."""
    return "Which option? (number, or your answer)" if asks_user(request) else "Which option? (number)"


def chosen(options: Sequence[PermissionOption], text: str) -> PermissionOption:
    """Return the option with this number, kind (the first one) or id. Errors: ``invalid_params``."""
    typed = text.strip()
    if typed.isdecimal() and 1 <= int(typed[:9]) <= len(options):
        return options[int(typed) - 1]
    of_kind = [option for option in options if option.kind == typed]
    if matching := of_kind or [option for option in options if option.id == typed]:
        return matching[0]
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"There is no option {terminal.one_line(text)!r}." if typed else "No option was named.",
        hint="Give the number of an option, or one of the kinds listed above.",
        names=list(dict.fromkeys(option.kind for option in options)),
    )


class Asking:
    """Asks while events are shown; the follower of the delegation calls ``poll`` a few times a second."""

    def __init__(
        self,
        identifier: str,
        call: Callable[..., Any],
        say: Callable[[str], None],
        *,
        read: Callable[[], str | None],
        discard: Callable[[], None],
    ) -> None:
        """Ask about ``identifier``; ``read`` returns a typed line or None, ``discard`` drops earlier input."""
        self._identifier = identifier
        self._call = call
        self._say = say
        self._read = read
        self._discard = discard
        self._request: Any = None
        self._writes: PermissionOption | None = None
        """The option whose text is typed next."""

    @property
    def asks(self) -> bool:
        """Whether a question is open; then nothing else must be drawn where the user types."""
        return self._request is not None

    def begin(self, request_id: str) -> None:
        """Ask this question if it is still open."""
        waiting = self._call("delegations/get", id=self._identifier).waiting_for
        if waiting is None or waiting.request_id != request_id:
            return
        # Input typed before the question is not an answer to it.
        self._discard()
        self._writes = None
        self._request = waiting
        for row in rows(waiting)[1:]:
            self._say(row)
        self._prompt()

    def close(self, request_id: str) -> None:
        """Close the question: it was answered elsewhere, or by its deadline."""
        if self._request is not None and self._request.request_id == request_id:
            self._request = None
            self._say("")

    def poll(self) -> None:
        """Send the answer if one was typed; ask again if it is invalid."""
        if self._request is None:
            return
        line = self._read()
        if line is None:
            return
        if not line:  # the end of input: the question waits for another terminal
            self._request = None
            self._say(f"Answer it later with: understudy answer {self._identifier}")
            return
        try:
            picked = self._picked(line)
        except UnderstudyError as error:
            if line.strip():
                self._say(terminal.one_line(error.message))
            self._prompt()
            return
        if picked.option.takes_text and not picked.note:
            self._writes = picked.option
            self._say("Your answer:")
            return
        request, self._request, self._writes = self._request, None, None
        try:
            params = {"requestId": request.request_id, "option": picked.option.id, "remember": picked.remember}
            params |= {"note": picked.note} if picked.note else {}
            self._call("delegations/answer", id=self._identifier, **params)
        except UnderstudyError as error:
            self._say(terminal.one_line(error.message))

    def _picked(self, line: str) -> Picked:
        """Return the answer that a line is; raise ``invalid_params`` for an invalid one."""
        if self._writes is not None and line.strip():
            return Picked(self._writes, note=line.strip())
        return parse(self._request, line)

    def _prompt(self) -> None:
        limit = (
            f" until {terminal.local_time(self._request.deadline)}, then {self._request.deadline_action}"
            if self._request.deadline
            else ""
        )
        self._say(terminal.one_line(f"{prompt(self._request).replace('?', f'{limit}?', 1)}"))


def read_line() -> str | None:
    """Return the line typed at the terminal, ``""`` at the end of input, None if there is none yet."""
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], 0)[0]:
        return None
    # Not through sys.stdin: select does not see its buffer.
    return os.read(descriptor, _LINE_BYTES).decode("utf-8", "replace")


def discard_typed() -> None:
    """Discard input that was typed but not read."""
    import termios

    with contextlib.suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
