"""How many examples a property test tries: a quarter in `make test`, all in `make e2e`."""

from __future__ import annotations

import os

ALL = "UNDERSTUDY_ALL_EXAMPLES" in os.environ
"""Set by `make e2e`."""


def examples(number: int) -> int:
    """Return how many of a property's examples to try."""
    return number if ALL else max(3, number // 4)
