"""Waiting for what comes from elsewhere: for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

STEP_SECONDS = 0.01

LIMITS = (0.5, 4.0, 30.0)
"""Time limits in seconds for a program that never ends, to be tried in turn until it has begun before the limit: on a
busy machine, the shortest may end before the program has said a word."""


def until(condition: Callable[[], Any], what: str | Callable[[], str] = "the condition", seconds: float = 60.0) -> Any:
    """Return what the condition gives as soon as it gives something; fail with ``what`` when that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(STEP_SECONDS)
    return found
