"""Names in a sentence: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable


def name_list(names: Iterable[str], most: int = 10) -> str:
    """Return the first ``most`` names, separated by commas, and the number of the others."""
    every = list(names)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")
