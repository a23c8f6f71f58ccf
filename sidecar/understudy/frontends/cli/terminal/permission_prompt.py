"""An agent's question on a terminal: shown as it is, answered by number, kind or id, withdrawn when another answers."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Sequence
from typing import Any

from understudy.faces.cli import terminal
from understudy.model.delegations import PermissionOption
from understudy.model.errors import ErrorKind, UnderstudyError

_DETAIL_SHOWN = 40
"""Lines of a question's detail that are printed; what is behind them is said to be there."""
_LINE_BYTES = 4096
"""A terminal in canonical mode gives one line at most, and no longer one (Linux N_TTY)."""


def rows(title: str, detail: str, options: Sequence[PermissionOption]) -> list[str]:
    """Return a question as lines: its title, its detail, and the numbered options. Nothing in it is hidden."""
    found = [f"asks: {' '.join(map(terminal.visible, title.splitlines()))}"]
    given = detail.rstrip("\n").split("\n") if detail.strip() else []
    found += [f"  | {terminal.visible(line)}" for line in given[:_DETAIL_SHOWN]]
    if len(given) > _DETAIL_SHOWN:
        found.append(f"  … and {len(given) - _DETAIL_SHOWN} more lines: `understudy show --json` has all")
    found += [
        f"  {number}  {terminal.one_line(option.title)}  ({option.kind})" for number, option in enumerate(options, 1)
    ]
    return found


def chosen(options: Sequence[PermissionOption], text: str) -> PermissionOption:
    """Return the option with this number, kind (the first of it) or id; ``invalid_params`` names what there is."""
    wanted = text.strip()
    if wanted.isdecimal() and 1 <= int(wanted[:9]) <= len(options):
        return options[int(wanted) - 1]
    for option in options:
        if option.kind == wanted:
            return option
    for option in options:
        if option.id == wanted:
            return option
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"there is no option {terminal.one_line(text)!r}" if wanted else "no option was named",
        hint="give the number, or one of these:",
        names=list(dict.fromkeys(option.kind for option in options)),
    )


class Asking:
    """Asks while events go on: whoever follows a delegation calls ``poll`` a few times a second."""

    def __init__(
        self,
        identifier: str,
        call: Callable[..., Any],
        say: Callable[[str], None],
        *,
        read: Callable[[], str | None],
        discard: Callable[[], None],
    ) -> None:
        """Ask about ``identifier``; ``read`` returns a typed line or None, ``discard`` forgets earlier typing."""
        self._identifier = identifier
        self._call = call
        self._say = say
        self._read = read
        self._discard = discard
        self._request: Any = None

    @property
    def asks(self) -> bool:
        """Tell whether a question stands open: nothing else should be drawn where the person types."""
        return self._request is not None

    def begin(self, request_id: str) -> None:
        """Ask this question, if it still waits for an answer."""
        waiting = self._call("delegations/get", id=self._identifier).waiting_for
        if waiting is None or waiting.request_id != request_id:
            return
        # What was typed while nothing was asked is no answer.
        self._discard()
        self._request = waiting
        for row in rows(waiting.title, waiting.detail, waiting.options)[1:]:
            self._say(row)
        self._prompt()

    def withdraw(self, request_id: str) -> None:
        """Take the question back: somebody else, or the deadline, answered."""
        if self._request is not None and self._request.request_id == request_id:
            self._request = None
            self._say("")

    def poll(self) -> None:
        """Take an answer if there is one; one that does not fit is asked for again."""
        if self._request is None:
            return
        line = self._read()
        if line is None:
            return
        if not line:  # the end of input: the question waits for another terminal
            self._request = None
            self._say(f"answer it later: understudy answer {self._identifier}")
            return
        try:
            option = chosen(self._request.options, line)
        except UnderstudyError as error:
            if line.strip():
                self._say(terminal.one_line(error.message))
            self._prompt()
            return
        request, self._request = self._request, None
        try:
            self._call("delegations/answer", id=self._identifier, requestId=request.request_id, option=option.id)
        except UnderstudyError as error:
            self._say(terminal.one_line(error.message))

    def _prompt(self) -> None:
        limit = f" until {self._request.deadline}, then {self._request.on_deadline}" if self._request.deadline else ""
        self._say(terminal.one_line(f"Which one{limit}? (number)"))


def read_line() -> str | None:
    """Return the line typed at the terminal, ``""`` at the end of input, None where there is none yet."""
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], 0)[0]:
        return None
    # Not through sys.stdin: what its buffer held back, select would not see.
    return os.read(descriptor, _LINE_BYTES).decode("utf-8", "replace")


def discard_typed() -> None:
    """Forget what was typed and not read."""
    import termios  # noqa: PLC0415 - not on every platform

    with contextlib.suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
