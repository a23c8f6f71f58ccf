"""Instants at which a test may let the process die, by name."""

from __future__ import annotations

import os
import signal

FAULT = "UNDERSTUDY_TEST_FAULT"
"""Environment variable of tests: ``<point>:<n>``; the process kills itself when it passes there for the n-th time."""

_passed: dict[str, int] = {}


def point(name: str) -> None:
    """Die here when a test asks for it."""
    wanted = os.environ.get(FAULT)
    if wanted is not None:
        _passed[name] = _passed.get(name, 0) + 1
        if wanted == f"{name}:{_passed[name]}":
            os.kill(os.getpid(), signal.SIGKILL)
