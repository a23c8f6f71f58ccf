"""Check the fields of a recipe that a request may also set."""

from __future__ import annotations

from understudy.config.findings import Finding
from understudy.model.config.recipes import MOST_ROUNDS


def check_rounds(rounds: int | None, returns: str) -> Finding | None:
    """Find a number of rounds that makes no sense for a recipe that returns ``returns``."""
    if rounds is None:
        return None
    if not 0 <= rounds <= MOST_ROUNDS:
        return Finding(("rounds",), f"`rounds` must be from 0 to {MOST_ROUNDS}.")
    if rounds and returns != "tree":
        return Finding(
            ("rounds",),
            f"`rounds` has no effect on a recipe that returns a {returns}.",
            "Remove it: only a recipe that returns a tree can write tests.",
            code="no_effect",
        )
    return None
