"""Hold Ctrl-C back while a request creates delegations, so that those it has created are cancelled, not forgotten."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self

import click


class HeldInterrupt:
    """Holds the first Ctrl-C back while it is entered; the second one interrupts at once.

    May be entered again later; only in the main thread.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.pressed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        """Begin to hold."""
        self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        """End holding; what was pressed stays until `release`."""
        signal.signal(signal.SIGINT, self._before)

    def release(self) -> None:
        """Interrupt now if Ctrl-C was held back."""
        if self.pressed:
            self.pressed = False
            raise KeyboardInterrupt

    def explain_detached(self, cancel: str) -> None:
        """After a start that nothing follows, tell that Ctrl-C came too late, and the command that cancels."""
        if self.pressed:
            click.echo(f"Already started; to cancel: {cancel}", err=True)

    def _press(self, _: int, __: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        click.echo("Stopping as soon as the start is complete (Ctrl-C again to exit at once).", err=True)
