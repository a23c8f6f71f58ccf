"""Tell the user how many mutants were judged: mutation testing can take minutes."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 20.0
"""The least time between two messages."""
_PARTS = 10
"""The most messages: one for each tenth of the mutants."""


class Progress:
    """Passes a text to ``tell`` now and then."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Start the time."""
        self._tell = tell
        self._told_at = time.monotonic()
        self._told = 0

    def judged(self, done: int, total: int) -> None:
        """Take note of the number of judged mutants, of ``total``; the last one needs no message."""
        now = time.monotonic()
        if done < total and now - self._told_at >= SECONDS and (done - self._told) * _PARTS >= total:
            self._told_at, self._told = now, done
            self._tell(f"tried {done} of {total} small changes")
