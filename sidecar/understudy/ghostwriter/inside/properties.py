"""Find properties that hold for any argument: idempotence, commutativity, and round trips of two functions."""

from __future__ import annotations

import random
import re
from typing import Any, Callable, Iterator

from .calls import Target
from .loading import Example, evaluate
from .shapes import FLOAT, INT, INTS, TEXT, TEXTS, Shape, counter_example, pool
from .subject import Subject
from .unit_candidates import prepare, targets_of
from .unit_search import UnitSearch

HELD = 1000
"""Random examples, with fresh seeds, for which a property must hold."""
TRIED = 100
"""Random examples of a run of the test, which a mutant must not survive, whatever the seed."""
MOST_MUTANTS = 60
MOST_READABLE = 60
STRATEGIES: list[tuple[Shape, str]] = [
    (TEXT, "st.text()"),
    (INT, "st.integers()"),
    (FLOAT, "st.floats(allow_nan=False, allow_infinity=False)"),
    (("bytes",), "st.binary()"),
    (("bool",), "st.booleans()"),
    (INTS, "st.lists(st.integers())"),
    (TEXTS, "st.lists(st.text())"),
]
OPPOSITES = (
    "encode decode,escape unescape,quote unquote,dumps loads,dump load,pack unpack,format parse,compress decompress,"
    "serialize deserialize,encrypt decrypt,to from,split join,wrap unwrap,add remove"
)


class Candidate:
    """A property that may hold: the first function decides the arguments."""

    def __init__(self, name: str, units: list[str], form: str, count: int) -> None:
        """Store it; ``form`` is an expression with ``{0}`` and ``{1}`` for the arguments."""
        self.name = name
        self.units = units
        self.form = form
        self.count = count

    def survivors(self, subject: Subject) -> list[int]:
        """Return the mutants that the property may kill and no example kills."""
        reached = [mutant for unit in self.units for mutant in subject.relevant(unit)]
        return [mutant for mutant in dict.fromkeys(reached) if mutant not in subject.killed]


def candidates(units: list[str]) -> Iterator[Candidate]:
    """Yield the properties to try for the functions ``units``."""
    for unit in units:
        for other in units:
            if other in opposites(unit):
                yield Candidate(f"{other}_reverses_{unit}", [unit, other], f"{other}({unit}({{0}})) == {{0}}", 1)
    for unit in units:
        yield Candidate(f"{unit}_is_idempotent", [unit], f"{unit}({unit}({{0}})) == {unit}({{0}})", 1)
        yield Candidate(f"{unit}_is_commutative", [unit], f"{unit}({{0}}, {{1}}) == {unit}({{1}}, {{0}})", 2)


def opposites(name: str) -> set[str]:
    """Return names that a function which reverses ``name`` may have."""
    names = set()
    for pair in OPPOSITES.split(","):
        first, second = pair.split()
        for word, other in ((first, second), (second, first)):
            names.add(re.sub(rf"(?<![a-z]){word}(?![a-z])", other, name))
    parts = re.fullmatch(r"(\w+?)(_to_|_?2_?)(\w+)", name)
    if parts:
        names.add(parts[3] + parts[2] + parts[1])
    return names - {name}


def try_property(search: UnitSearch, candidate: Candidate, say: Callable[..., None]) -> None:
    """Report the property when it holds and kills a mutant that was not killed before."""
    search.read_words()
    arguments = _arguments(search, candidate)
    if arguments is None:
        return
    expression = candidate.form.format(*[name for name, _ in arguments])
    example = Example(expression)
    strategies = [text for _, text in arguments]
    names = [name for name, _ in arguments]

    def fails(scope: dict[str, Any], count: int, number: int) -> bool:
        def holds(values: tuple[Any, ...]) -> bool:
            outcome = evaluate(example, {**scope, **dict(zip(names, values))}, search.guard)
            return outcome.kind == "value" and outcome.value is True

        return counter_example(strategies, holds, count, number, search.late)

    fresh = random.SystemRandom()
    original = search.context.scope
    if any(fails(original, count, fresh.getrandbits(32)) for count in (TRIED // 4, HELD)):
        return
    if not _holds_for_readable(search, candidate):
        return
    kills = []
    for mutant in candidate.survivors(search.subject)[:MOST_MUTANTS]:
        if search.late():
            break
        scope = search.scope(mutant)
        killed = scope is not None and all(fails(scope, TRIED, fresh.getrandbits(32)) for _ in range(3))
        if killed and not search.late():  # what the time was not enough for is not killed
            kills.append(mutant)
    if kills and not search.late(1.0):
        say("property", name=candidate.name, arguments=arguments, assertion=expression, kills=kills)


def _holds_for_readable(search: UnitSearch, candidate: Candidate) -> bool:
    """Return whether the property holds for words and numbers of the module itself, which random values miss."""
    target: Target = prepare(targets_of(candidate.units[0], search.value, search.subject.effects), search.context)[0]
    values = [text for shape in target.variants[0] for text in pool(shape, search.context.words, MOST_READABLE)]
    for first, second in zip(values, values[::-1]):
        outcome = search.context.outcome(candidate.form.format(first, second))
        if outcome.kind != "value" or outcome.value is not True:
            return False
    return True


def _arguments(search: UnitSearch, candidate: Candidate) -> list[tuple[str, str]] | None:
    """Return the names and the strategies of the arguments, None when the function takes others."""
    targets: list[Target] = prepare(
        targets_of(candidate.units[0], search.value, search.subject.effects), search.context
    )
    if not targets or not targets[0].variants:
        return None
    required = [parameter for parameter in targets[0].parameters if parameter.required]
    texts = [_strategy(shape) for shape in targets[0].variants[0]]
    if len(required) != candidate.count or any(parameter.keyword for parameter in required) or len(set(texts)) != 1:
        return None
    taken = set(search.context.scope) | {"st", "given", "settings", "pytest"}
    usable = [parameter.name for parameter in required if parameter.name not in taken]
    names = usable if len(usable) == len(required) else ["value", "other"][: len(required)]
    if taken & set(names):
        return None
    return [(name, text) for name, text in zip(names, texts) if text is not None] if texts[0] is not None else None


def _strategy(shape: Shape) -> str | None:
    if shape[0] == "union":  # literals that were seen, and their general shape
        shapes = [part for part in shape[1:] if part[0] != "literal"]
        return _strategy(shapes[-1]) if shapes else None
    return next((text for usual, text in STRATEGIES if usual == shape), None)
