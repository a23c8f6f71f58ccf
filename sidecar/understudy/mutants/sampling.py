"""Choose some of the mutants of a file, evenly over its functions and always the same ones."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import TypeVar

from understudy.mutants.mutant import Mutant

T = TypeVar("T")


def sample(found: Iterable[tuple[str, Mutant]], count: int, seed: str) -> list[tuple[str, Mutant]]:
    """Return at most ``count`` of the mutants with their files, in the order in which they should be judged.

    Each function gets its first mutant before another one gets its second, so that a limit of time that ends the
    judging early leaves an even sample, too. The same mutants and ``seed`` give the same sample.
    """
    groups: dict[tuple[str, str], list[tuple[str, Mutant]]] = {}
    for path, mutant in sorted(found):
        groups.setdefault((path, mutant.function), []).append((path, mutant))
    order = list(groups.values())
    generator = random.Random(seed)  # noqa: S311 - reproducible by design
    generator.shuffle(order)
    for group in order:
        generator.shuffle(group)
    rounds = chain.from_iterable(zip_longest(*order))
    return [chosen for chosen in rounds if chosen is not None][:count]
