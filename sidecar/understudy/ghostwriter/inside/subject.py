"""What is searched: a module, its mutants, and what is known about them. Every process of a search has it."""

from __future__ import annotations

import base64
import random
import time
from typing import Any

from .audit import Effects, Guard
from .loading import Source

OWN_MUTANTS = 250
REACHED_MUTANTS = 150


class Subject:
    """A module under search, and which of its mutants are killed so far."""

    def __init__(self, request: dict[str, Any], module: Any, source: Source, guard: Guard) -> None:
        """Analyse the module."""
        self.request = request
        self.module = module
        self.source = source
        self.guard = guard
        self.effects = Effects(source.tree)
        self.mutants = [Change(encoded) for encoded in request["mutants"]]
        self.touched = {
            i: self.effects.touched_by(source.piece_of(m.start)) for i, m in enumerate(self.mutants) if not m.function
        }
        self.killed: set[int] = set()
        self.until = time.monotonic() + request["seconds"]

    def own_mutants(self, name: str) -> list[int]:
        """Return the mutants in a function or class of this name."""
        return [i for i, m in enumerate(self.mutants) if m.function == name or m.function.startswith(name + ".")]

    def relevant(self, name: str) -> list[int]:
        """Return the mutants that an example of this unit may kill, sampled evenly."""
        reached = self.effects.reach(name) - {name}
        used = self.effects.touched(name)
        others = [
            i
            for i, m in enumerate(self.mutants)
            if (m.function.split(".")[0] in reached if m.function else self.touched[i] & used)
        ]
        own_mutants = set(self.own_mutants(name))
        others = [i for i in others if i not in own_mutants]
        numbers = random.Random(11)
        return sample(self.own_mutants(name), OWN_MUTANTS, numbers) + sample(others, REACHED_MUTANTS, numbers)


class Change:
    """A mutant of the module: bytes, the function, the first and the last line that run when it runs."""

    __slots__ = ("end", "first", "function", "last", "start", "text")

    def __init__(self, encoded: list[Any]) -> None:
        """Decode it."""
        self.start, self.end, text, self.function, self.first, self.last = encoded
        self.text = base64.b64decode(text)


def sample(mutants: list[int], most: int, numbers: random.Random) -> list[int]:
    """Return up to ``most`` of the mutants, in order."""
    return sorted(numbers.sample(mutants, most)) if len(mutants) > most else mutants
