"""An answer on a terminal, printed piece by piece as it arrives."""

from __future__ import annotations

from typing import IO

import click

from understudy.frontends.cli.terminal import terminal


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
