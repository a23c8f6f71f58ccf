"""The candidates of one unit: a public function, or a public class with its methods. Ordered by how well they read."""

from __future__ import annotations

import ast
import inspect
import itertools
import random
import re
import types
from typing import Any, Iterable, Iterator, Tuple

from .audit import Effects
from .calls import (
    MOST_CALLS,
    Context,
    Target,
    first_rows,
    invented_calls,
    known_calls,
    observations,
    settle_variants,
)
from .loading import Example, Outcome, evaluate, record
from .shapes import Vocabulary, pool

MOST_CANDIDATES = 500
MOST_OBJECTS = 16
MOST_CONSTANTS = 6
"""How many objects that the module itself makes are looked at."""
CHANGED_OBJECTS = 2
"""How many objects of a class have several of their methods called, one after another."""
MOST_STEPS = 3
STEP_CALLS = 24
"""How many calls are tried after each sequence of steps."""
SEQUENCES = 6
STEP_EXAMPLES = 240
COMPARISONS = ("{} == {}", "{} < {}", "{} + {}", "{} - {}", "{} | {}", "{} & {}", "{} * {}", "{} in {}", "{}[{}]")
DUNDERS = {
    "__eq__": 0,
    "__lt__": 1,
    "__add__": 2,
    "__sub__": 3,
    "__or__": 4,
    "__and__": 5,
    "__mul__": 6,
    "__contains__": 7,
    "__getitem__": 8,
}


Sequence = Tuple[str, ...]  # noqa: UP006 - Python 3.8
"""Calls on an object, each a text after its variable, such as ``.add(1)``."""


def vocabulary(nodes: Iterable[ast.AST], texts: Iterable[str]) -> Vocabulary:
    """Return the words and numbers of syntax trees, after those of known calls."""
    words: list[str] = []
    numbers: list[int] = []
    trees: list[ast.AST] = []
    for text in texts:
        try:
            trees.append(ast.parse(text))
        except (SyntaxError, ValueError):
            continue
    for tree in [*trees, *nodes]:
        for item in ast.walk(tree):
            if isinstance(item, ast.Constant) and isinstance(item.value, str) and 0 < len(item.value) <= 24:
                words.append(item.value)
            elif isinstance(item, ast.Constant) and type(item.value) is int and abs(item.value) < 10**9:
                numbers.append(item.value)
    readable = [word for word in words if re.fullmatch(r"[\w .,:;/@+'!?&<>=#-]*\w[\w .,:;/@+'!?&<>=#-]*", word)]
    return Vocabulary(list(dict.fromkeys(readable)), list(dict.fromkeys(numbers)))


def is_function(value: Any, module: str) -> bool:
    """Return whether ``value`` is a function of this module, perhaps decorated."""
    plain = inspect.unwrap(value) if callable(value) else value
    return isinstance(plain, types.FunctionType) and plain.__module__ == module and not inspect.isclass(value)


def targets_of(name: str, value: Any, effects: Effects) -> list[Target]:
    """Return what can be called without an object: the function, or the constructor and the class methods."""
    if not inspect.isclass(value):
        return [] if inspect.iscoroutinefunction(value) else [Target(name, value, name, bound=False)]
    targets = [] if inspect.isabstract(value) else [Target(name, value, name, bound=False)]
    for method, member in list(vars(value).items()):
        if (
            not method.startswith("_")
            and isinstance(member, (classmethod, staticmethod))
            and _may_call(name, method, effects)
        ):
            targets.append(Target(f"{name}.{method}", getattr(value, method), method, bound=False))
    return targets


def _may_call(owner: str, method: str, effects: Effects) -> bool:
    node = effects.definitions.get(owner)
    return not isinstance(node, ast.ClassDef) or effects.method_reason(node, method) is None


def prepare(targets: list[Target], context: Context) -> list[Target]:
    """Find arguments for the targets; return those that can be called."""
    usable = []
    for target in targets:
        if target.read_signature(context):
            settle_variants(target, context)
            usable.append(target)
    return usable


def make_objects(name: str, value: Any, context: Context, effects: Effects) -> list[str]:
    """Return expressions that make different objects of a class, the most readable first."""
    makers: dict[str, None] = {}
    for target in prepare(targets_of(name, value, effects), context):
        texts = [text for text, _ in known_calls(target, context)]
        rows = list(first_rows(target, context))
        optional = [
            parameter for parameter in target.parameters if not parameter.required and parameter.shape is not None
        ]
        texts += [target.text(row, {}) for row in rows[:MOST_OBJECTS]]
        for place in (0, 1):
            for parameter in optional:
                values = [
                    value
                    for value in pool(parameter.shape or ("none",), context.words, 6)
                    if value != parameter.default
                ]
                texts += [
                    target.text(row, {parameter.name: value}) for row in rows[:1] for value in values[place : place + 1]
                ]
        for text in texts[:60]:
            made = context.outcome(text)
            if made.kind == "value" and isinstance(made.value, value):
                makers[text] = None
    constants = [n for n, v in context.scope.items() if type(v) is value and not n.startswith("_")]
    return [*list(makers)[: MOST_OBJECTS - MOST_CONSTANTS], *constants[:MOST_CONSTANTS]]


def candidates(name: str, value: Any, context: Context, effects: Effects) -> tuple[list[Example], list[Target]]:
    """Return the examples of a unit that the original passes, and the targets for a search."""
    targets = prepare(targets_of(name, value, effects), context)
    texts: list[tuple[str, int]] = []
    for target in targets:
        texts += known_calls(target, context)
        most = MOST_CALLS if target.prefix == name else MOST_CALLS // 3
        texts += [(text, 2) for text, _ in zip(invented_calls(target, context), range(most))]
    examples = list(recorded_texts(texts, context))
    if inspect.isclass(value):
        more, methods = _of_objects(name, value, context, effects)
        examples += more
        targets += methods
    return examples[: MOST_CANDIDATES * 2], targets


def recorded_texts(texts: Iterable[tuple[str, int]], context: Context) -> Iterator[Example]:
    """Yield an example for each text, or for what can be observed of its value."""
    shown: dict[type, int] = {}
    seen: set[str] = set()
    for text, origin in texts:
        if text in seen:
            continue
        seen.add(text)
        outcome = context.outcome(text)
        example = _recorded(text, (), origin, outcome, context)
        if example is not None:
            yield example
        elif outcome.kind == "value" and shown.get(type(outcome.value), 0) < 40:
            shown[type(outcome.value)] = shown.get(type(outcome.value), 0) + 1
            for more in observations(text, outcome.value, context):
                example = _recorded(more, (), origin, context.outcome(more), context)
                if example is not None:
                    yield example


def _recorded(text: str, setup: tuple[str, ...], origin: int, outcome: Outcome, context: Context) -> Example | None:
    try:
        example = Example(text, setup, origin)
    except (SyntaxError, ValueError):
        return None
    if not record(example, outcome, context.scope, context.guard):
        return None
    example.cost = cost(example)
    return example


def cost(example: Example) -> int:
    """Return how badly an example reads: its length, its origin, unusual characters, and that it shows no value."""
    shown = example.expected[2] if example.expected and example.expected[0] == "value" else ""
    text = example.expression + "".join(example.setup)
    odd = len(re.findall(r"\\x|\\u|\\n|\\t|'[^'\w]+'|''", text + shown))
    raises = bool(example.expected and example.expected[0] == "raises")
    nothing = shown == "None"
    penalties = 12 * odd + 12 * example.origin + 15 * raises + 60 * nothing + 10 * len(example.setup)
    return len(text) + len(shown) // 2 + penalties


def _of_objects(name: str, value: Any, context: Context, effects: Effects) -> tuple[list[Example], list[Target]]:
    """Return examples of attributes, methods and operators of the objects of a class."""
    objects = context.made.get(name) or make_objects(name, value, context, effects)
    texts: list[tuple[str, int]] = []
    examples: list[Example] = []
    targets: list[Target] = []
    changing: dict[str, list[tuple[str, int]]] = {}
    for text in objects:
        texts += [(more, 2) for more in observations(text, context.outcome(text).value, context)]
    methods = [(m, f) for base in value.__mro__[:-1] for m, f in vars(base).items() if inspect.isfunction(f)]
    for method, function in dict(reversed(methods)).items():
        if (method.startswith("_") and method != "__call__") or not _may_call(name, method, effects):
            continue
        for number, text in enumerate(objects[:8]):
            prefix = text if method == "__call__" else f"{text}.{method}"
            target = Target(prefix, function, method, bound=True)
            if not target.read_signature(context):
                break
            settle_variants(target, context)
            calls = [*known_calls(target, context), *((call, 2) for call in invented_calls(target, context))][
                : 40 if number < 2 else 8
            ]
            texts += calls
            if number < CHANGED_OBJECTS and not text.isidentifier():  # the next example sees what an object became
                changing.setdefault(text, []).extend(calls)
            targets += [target] if number == 0 else []
    for text, calls in changing.items():
        for example in Steps(name, text, context).examples(calls):
            example.cost = cost(example)
            examples.append(example)
    defined = {m for base in value.__mro__[:-1] for m in vars(base)}
    for dunder, place in DUNDERS.items():
        if dunder in defined:
            others = objects[:6] if place < 7 else []
            texts += [(COMPARISONS[place].format(a, b), 2) for a in objects[:4] for b in [*others, "1", "'a'", "0"]][
                :24
            ]
    return [*examples, *recorded_texts(texts, context)], targets


class Steps:
    """Sequences of calls on one object, made by the expression ``made``."""

    def __init__(self, name: str, made: str, context: Context) -> None:
        """Look at the object of the class ``name`` before any call."""
        self.made = made
        self.context = context
        variable = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        self.variable = variable if variable.isidentifier() and variable not in context.scope else "made"
        shown = observations(made, context.outcome(made).value, context)
        self.shown = [text.replace(made, self.variable, 1) for text in shown[:8]]

    def examples(self, calls: list[tuple[str, int]]) -> Iterator[Example]:
        """Yield examples that show something else than they would without the last step before them.

        ``calls`` are texts that begin with ``made``, and their origins.
        """
        numbers = random.Random(7)
        suffixes = _mixed([(text[len(self.made) :], origin) for text, origin in calls])[:STEP_CALLS]
        sequences: list[Sequence] = [()]
        count = 0
        for _ in range(MOST_STEPS):
            longer: list[Sequence] = []
            for sequence in sequences:
                before = {text: self._evaluated(text, sequence, 0) for text in self.shown}
                for suffix, origin in suffixes:
                    after = {text: self._evaluated(text, (*sequence, suffix), origin) for text in self.shown}
                    new = [example for text, example in after.items() if example and _other(before[text], example)]
                    longer += [(*sequence, suffix)] if new else []
                    called = self._evaluated(self.variable + suffix, sequence, origin) if sequence else None
                    if called and _other(self._evaluated(self.variable + suffix, sequence[:-1], origin), called):
                        new.append(called)
                    yield from new[: STEP_EXAMPLES - count]
                    count += len(new)
                    if count >= STEP_EXAMPLES:
                        return
            sequences = numbers.sample(longer, min(len(longer), SEQUENCES))

    def _evaluated(self, text: str, sequence: Sequence, origin: int) -> Example | None:
        """Return the example of ``text`` after some calls, or None when it has no exact outcome."""
        setup = (f"{self.variable} = {self.made}", *(self.variable + step for step in sequence))
        try:
            example = Example(text, setup, origin)
        except (SyntaxError, ValueError):
            return None
        context = self.context
        outcome = evaluate(example, context.scope, context.guard)
        return example if record(example, outcome, context.scope, context.guard) else None


def _other(before: Example | None, after: Example) -> bool:
    """Return whether an example expects something else than before."""
    if before is None or before.expected is None or after.expected is None:
        return True
    (kind, value, text), (new_kind, new_value, new_text) = before.expected, after.expected
    return kind != new_kind or text != new_text or (kind == "raises" and value != new_value)


def _mixed(calls: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the calls in an order in which each method has its first one before another has its second."""
    by_method: dict[str, list[tuple[str, int]]] = {}
    for suffix, origin in calls:
        by_method.setdefault(suffix.partition("(")[0], []).append((suffix, origin))
    rounds = itertools.zip_longest(*by_method.values())
    return [call for round_ in rounds for call in round_ if call is not None]
