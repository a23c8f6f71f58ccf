"""Instants at which a test may let the process die, by name."""

from __future__ import annotations

import os
import signal

FAULT = "UNDERSTUDY_TEST_FAULT"
"""Environment variable of tests: ``<point>:<n>``; the process kills itself when it passes there for the n-th time.

With ``*`` for the point, when it passes any point for the n-th time: so a test walks them all in their order.
"""

_passed: dict[str, int] = {}


def point(name: str) -> None:
    """Die here when a test asks for it."""
    wanted = os.environ.get(FAULT)
    if wanted is not None:
        for each in (name, "*"):
            _passed[each] = _passed.get(each, 0) + 1
        if wanted in {f"{each}:{_passed[each]}" for each in (name, "*")}:
            os.kill(os.getpid(), signal.SIGKILL)
