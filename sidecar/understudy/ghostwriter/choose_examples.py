"""Choose the examples to keep: each kills a mutant that those before it do not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MOST = 40
DOCUMENTED = 0
MOST_PROPERTIES = 6


@dataclass
class Found:
    """An example as ``inside/search`` reports it."""

    unit: str
    setup: list[str]
    expression: str
    outcome: tuple[str, str, str]
    """``value``, empty, its text; or ``raises``, the exception's name, its module (empty: builtin, ``.``: the same)."""
    origin: int
    cost: int
    kills: set[int] = field(default_factory=set)

    @classmethod
    def decode(cls, answer: dict[str, Any]) -> Found:
        """Return the example of an answer."""
        kind, name, text = answer["outcome"]
        kills = set(answer["kills"])
        setup, expression = list(answer["setup"]), str(answer["expression"])
        return cls(str(answer["unit"]), setup, expression, (kind, name, text), answer["origin"], answer["cost"], kills)

    @property
    def key(self) -> tuple[str, ...]:
        """Identify the example."""
        return (*self.setup, self.expression)


@dataclass
class Property:
    """An assertion that holds for any arguments: their names and Hypothesis strategies."""

    name: str
    arguments: list[tuple[str, str]]
    assertion: str
    kills: set[int]

    @classmethod
    def decode(cls, answer: dict[str, Any]) -> Property:
        """Return the property of an answer."""
        arguments = [(str(name), str(strategy)) for name, strategy in answer["arguments"]]
        return cls(str(answer["name"]), arguments, str(answer["assertion"]), set(answer["kills"]))


def choose_properties(properties: list[Property], examples: list[Found]) -> list[Property]:
    """Return the properties that kill a mutant which neither the examples nor the properties before kill."""
    killed: set[int] = set().union(*(candidate.kills for candidate in examples))
    kept: list[Property] = []
    for candidate in properties:
        if candidate.kills - killed and len(kept) < MOST_PROPERTIES:
            kept.append(candidate)
            killed |= candidate.kills
    return kept


def shows_something(example: Found) -> bool:
    """Return whether an example is worth a file: it shows a value, or an error that the documentation shows."""
    return example.origin == DOCUMENTED or example.outcome[0] == "value"


def merged(examples: Iterable[Found]) -> list[Found]:
    """Return each example once, with everything that it kills; the documentation's own come first."""
    by_key: dict[tuple[str, ...], Found] = {}
    for example in examples:
        first = by_key.setdefault(example.key, example)
        first.kills |= example.kills
        first.origin = min(first.origin, example.origin)
        first.unit = first.unit or example.unit
    return sorted(by_key.values(), key=lambda example: (example.origin != DOCUMENTED, example.cost))


def choose(examples: list[Found], most: int = MOST) -> list[Found]:
    """Return the examples to keep, the documentation's own first, then those that kill most for their cost."""
    killed: set[int] = set()
    kept: list[Found] = []
    for waiting in (
        [example for example in examples if example.origin == DOCUMENTED],
        [example for example in examples if example.origin != DOCUMENTED],
    ):
        while waiting and len(kept) < most:
            best = max(waiting, key=lambda example: len(example.kills - killed) / (example.cost + 40))
            if not best.kills - killed:
                break
            waiting.remove(best)
            kept.append(best)
            killed |= best.kills
    for example in sorted(kept, key=lambda example: (example.origin == DOCUMENTED, -example.cost)):
        # What the author wrote is not replaced by what was invented.
        rivals = [other for other in kept if example.origin != DOCUMENTED or other.origin == DOCUMENTED]
        others = set().union(*(other.kills for other in rivals if other is not example))
        if example.kills <= others:
            kept.remove(example)
    return kept
