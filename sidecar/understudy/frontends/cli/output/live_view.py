"""The live view: lines above a status line that is redrawn in place; plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO

import click
import msgspec

from understudy.frontends.cli.output import event_lines
from understudy.frontends.cli.output.output import thousands
from understudy.frontends.cli.terminal import terminal
from understudy.model.delegation import events
from understudy.model.states import State
from understudy.model.text.delegation_text import duration

REDRAW_SECONDS = 0.25
"""Faster changes cannot be read."""
_COLOURS: dict[type[events.Event], str] = {
    events.AttemptFailed: "red",
    events.Permission: "yellow",
    events.Queued: "yellow",
    events.Result: "cyan",
    events.Finished: "cyan",
}
_BACKGROUND = (events.Base, events.Worktree, events.ToolCall, events.ToolResult, events.Phase)
_LONG = (events.ToolCall, events.ToolResult)
"""Titles and output of tools may be pages."""
_LONGEST_LINE = 4096
"""How many characters of a line of output are kept until it ends."""
_ON_ONE_ROW = "\x1b[?7l{}\x1b[?7h"
"""Without DECAWM, a status whose width was computed wrong is cut by the terminal; wrapped, it could not be erased."""


class View:
    """Shows the events of one delegation on one stream."""

    def __init__(
        self,
        stream: IO[str],
        *,
        redraw: bool,
        colour: bool,
        answer: StreamedAnswer | None = None,
        prints_output: bool = False,
        columns: Callable[[], int] = terminal.width,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write to ``stream``; ``answer`` prints the agent's text as it is streamed (None: it is not shown).

        ``prints_output`` prints the lines of a command of the user; else, only the last one is in the status.
        """
        self._stream = stream
        self._redraw = redraw
        self._paint = terminal.Paint(on=colour)
        self._answer = answer
        self._prints_output = prints_output
        self._columns = columns
        self._clock = clock
        self._began = clock()
        self._drawn = ""
        self._drawn_at = float("-inf")
        self._state = State.PREPARING
        self._activity = ""
        self._tool_calls = 0
        self._tokens = 0
        self._last_line: str | None = None
        self._failure: str | None = None
        self._is_custom = False
        self._output = ""

    def show(self, event: events.Event) -> None:
        """Show one event as a line, or in the status."""
        self._state = events.STATE_AFTER.get(type(event), self._state)
        if isinstance(event, events.ToolCall):
            self._tool_calls += 1
        if isinstance(event, events.UsageReport):
            self._tokens = event.input_tokens + event.output_tokens
        if isinstance(event, events.Text) and self._answer is not None:
            self._erase_status()
            self._answer.add(event.text)
            return
        if isinstance(event, events.Started):
            self._is_custom, self._output = event.tool == events.CUSTOM_COMMAND, ""
        if isinstance(event, events.Text) and self._is_custom:
            self._show_output(event.text)
        text = event_lines.line(self._without_repetition(event))
        if text is None:
            self.tick()
            return
        if not isinstance(event, events.Finished | events.CheckFinished | events.PlacesJudged):
            self._activity = text.lstrip("→ ")
        if self._redraw and isinstance(event, events.Phase) and event.count is not None:
            self.tick()  # many of them: the status is enough
            return
        if text != self._last_line:
            self._last_line = text
            self.say(self._styled(event, text), exactly=isinstance(event, events.Permission))

    def _show_output(self, piece: str) -> None:
        """Show the last line that a command of the user has printed, and in ``watch`` each of them."""
        *lines, rest = (self._output + piece).split("\n")
        self._output = rest[-_LONGEST_LINE:]
        shown = [line for line in map(terminal.one_line, lines) if line]
        self._activity = next(reversed(shown), self._activity)
        for line in shown if self._prints_output else ():
            self.say(self._paint(f"  | {line}", dim=True))

    def _without_repetition(self, event: events.Event) -> events.Event:
        """Return the event; at the end, without a failure that the line of the last attempt has told."""
        if isinstance(event, events.AttemptFailed):
            self._failure = event.error.message
        if isinstance(event, events.Finished) and event.error is not None and event.error.message == self._failure:
            return msgspec.structs.replace(event, error=None)
        return event

    def say(self, text: str, *, exactly: bool = False) -> None:
        """Write a line above the status, below the answer; ``exactly`` leaves wrapping to the terminal."""
        self._end_answer_line()
        if not self._redraw:
            self._stream.write(f"{text}\n")
            self._stream.flush()
            return
        text = text if exactly else terminal.wrap(terminal.short_ids(text), self._columns())
        # One write for old status, line and new status, so that the terminal does not flicker.
        status = self._status()
        self._stream.write(f"{self._erase()}{text}\n{status}")
        self._stream.flush()
        self._drawn, self._drawn_at = status, self._clock()

    def tick(self) -> None:
        """Redraw the status when it is due, but not in a line of the answer; call this a few times a second."""
        if not self._redraw or self._clock() - self._drawn_at < REDRAW_SECONDS:
            return
        if self._answer is not None and self._answer.in_line:
            return
        status = self._status()
        if status != self._drawn:
            self._stream.write(f"{self._erase()}{status}")
            self._stream.flush()
            self._drawn = status
        self._drawn_at = self._clock()

    def clear(self) -> None:
        """Erase the status and end the line of the answer, before other output."""
        self._erase_status()
        self._end_answer_line()

    def _erase_status(self) -> None:
        if self._drawn:
            self._stream.write(self._erase())
            self._stream.flush()
            self._drawn = ""

    def _end_answer_line(self) -> None:
        if self._answer is not None:
            self._answer.end_line()

    def _erase(self) -> str:
        return "\r\x1b[2K" if self._drawn else ""

    def _styled(self, event: events.Event, text: str) -> str:
        if self._redraw and isinstance(event, _LONG):  # the others have something to copy, or are for the user
            text = terminal.cut(text, self._columns())
        if isinstance(event, events.CheckFinished):
            return self._paint(text, fg="green" if event.ok else "red")
        if isinstance(event, events.Note):
            return self._paint(text, fg={"info": None, "warning": "yellow", "error": "red"}[event.level])
        if isinstance(event, _BACKGROUND):
            return self._paint(text, dim=True)
        return self._paint(text, fg=_COLOURS.get(type(event)))

    def _status(self) -> str:
        parts = [event_lines.words(self._state), duration(self._clock() - self._began)]
        if self._tool_calls:
            parts.append(event_lines.plural(self._tool_calls, "step"))
        if self._tokens:
            parts.append(f"{thousands(self._tokens)} tokens")
        if self._activity:
            parts.append(self._activity)
        # The last column stays empty: some terminals wrap when it is written.
        text = self._paint(terminal.cut(" · ".join(parts), self._columns() - 1), bold=True)
        return _ON_ONE_ROW.format(text)


class StreamedAnswer:
    """Prints the pieces of an answer, sanitised, and knows whether its last line has ended."""

    def __init__(self, stream: IO[str]) -> None:
        """Write to ``stream``, whose cursor is at the beginning of a line."""
        self._stream = stream
        self.in_line = False
        """Whether the cursor is behind text of the answer: other output must end the line first."""
        self._held = ""

    def add(self, text: str) -> None:
        """Print a piece."""
        text = self._held + text
        # Its line feed may be the beginning of the next piece.
        self._held = "\r" if text.endswith("\r") else ""
        shown = terminal.sanitize(text.removesuffix("\r"))
        if shown:
            click.echo(shown, file=self._stream, nl=False)
            self._stream.flush()
            self.in_line = not shown.endswith("\n")

    def end_line(self) -> None:
        """Move to the beginning of a line, unless the cursor is there."""
        self._held = ""
        if self.in_line:
            click.echo(file=self._stream)
            self._stream.flush()
            self.in_line = False
