"""Kill this process at a named point when a test asks for it."""

from __future__ import annotations

import os

VARIABLE = "UNDERSTUDY_FAILPOINT"
"""The environment variable that arms a failpoint: ``<name>:<n>`` kills the process at its n-th pass.

``*`` as the name matches every failpoint, so a test can visit all of them in order.
"""

_armed = os.environ.get(VARIABLE)
"""Read once: an accept of thousands of files passes hundreds of thousands of failpoints."""
_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Kill this process with SIGKILL if a test armed this failpoint."""
    if _armed is not None:
        for each in (name, "*"):
            _passed[each] = _passed.get(each, 0) + 1
        if _armed in {f"{each}:{_passed[each]}" for each in (name, "*")}:
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
