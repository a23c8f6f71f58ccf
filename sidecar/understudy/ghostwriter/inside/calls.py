"""Build calls of a function or a class of the module under test: from known calls, type hints, and guesses."""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import random
import re
import textwrap
import typing
from typing import Any, Iterable, Iterator

from .audit import Guard, Refused, TooSlow
from .exact import exact
from .loading import Example, Outcome, drained, evaluate, executed_lines
from .shapes import SIZES, Shape, Vocabulary, counted, guesses, is_named, pool, shape_of_hint, shape_of_text, strategy

MOST_CALLS = 400
MOST_GUESSES = 36
VARIANTS = 2
UNUSUAL_GUESSES = 10
"""How many likely combinations of shapes are tried before those with the same shape for all parameters."""
OPENING_OPTIONS = 4
"""How many options that lead to other lines are combined with other arguments."""


class Known:
    """Expressions of the documentation and the tests, with the arguments that they pass to each name."""

    def __init__(self, texts: Iterable[tuple[str, int]]) -> None:
        """Collect the calls in ``texts``, pairs of an expression and its origin."""
        self.calls: dict[str, list[tuple[list[str], dict[str, str], int]]] = {}
        for text, origin in texts:
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Call):
                    self._add(node, text, origin)

    def _add(self, node: ast.Call, text: str, origin: int) -> None:
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        starred = any(isinstance(argument, ast.Starred) for argument in node.args) or any(
            k.arg is None for k in node.keywords
        )
        if name is None or starred:
            return
        arguments = [ast.get_source_segment(text, argument) or "" for argument in node.args]
        keywords = {str(keyword.arg): ast.get_source_segment(text, keyword.value) or "" for keyword in node.keywords}
        if not all(map(_stands_alone, [*arguments, *keywords.values()])):
            return
        entry = (arguments, keywords, origin)
        if entry not in self.calls.setdefault(name, []) and len(self.calls[name]) < 60:
            self.calls[name].append(entry)


def _stands_alone(text: str) -> bool:
    """Return whether an argument is a literal, a builtin or a lambda, and short."""
    if not text or len(text) > 100 or "\n" in text:
        return False
    tree = ast.parse(text, mode="eval")
    bound = {item.arg for item in ast.walk(tree) if isinstance(item, ast.arg)}
    names = {item.id for item in ast.walk(tree) if isinstance(item, ast.Name)} - bound
    return all(hasattr(builtins, name) or name in {"datetime", "decimal", "fractions"} for name in names)


class Parameter:
    """One parameter of a target."""

    def __init__(
        self, name: str, kind: Any, *, required: bool, default: str | None, shape: Shape | None, counts: bool = False
    ) -> None:
        """Store what is known of it; ``counts``: negative numbers make no sense, and nothing expects them."""
        self.name = name
        self.keyword = kind == inspect.Parameter.KEYWORD_ONLY or (
            not required and kind != inspect.Parameter.POSITIONAL_ONLY
        )
        self.rest = kind == inspect.Parameter.VAR_POSITIONAL
        self.required = required
        self.default = default
        self.counts = counts
        self.shape = counted(shape) if counts and shape is not None else shape

    def guesses(self) -> list[Shape]:
        """Return the shapes that it may have, the likeliest first."""
        shapes = guesses(self.name)
        return list(map(counted, shapes)) if self.counts else shapes


class Target:
    """What is called: ``prefix`` is the text before the parenthesis."""

    def __init__(self, prefix: str, function: Any, name: str, *, bound: bool) -> None:
        """Look at the signature; ``bound`` says that the first parameter is already given."""
        self.prefix = prefix
        self.name = name
        self.function = function
        self.bound = bound
        self.parameters: list[Parameter] = []
        self.variants: list[list[Shape]] = []

    def read_signature(self, context: Context) -> bool:
        """Fill the parameters; return False when there is no signature."""
        try:
            listed = list(inspect.signature(self.function).parameters.values())
        except (ValueError, TypeError):
            return False
        hints = _hints(self.function, context)
        calls = context.known.calls.get(self.name, [])
        tree = _source_of(self.function)
        for position, parameter in enumerate(listed[1:] if self.bound else listed):
            if parameter.kind == inspect.Parameter.VAR_KEYWORD:
                continue
            required = (
                parameter.default is inspect.Parameter.empty and parameter.kind != inspect.Parameter.VAR_POSITIONAL
            )
            default = None if parameter.default is inspect.Parameter.empty else exact(parameter.default, context.scope)
            shape = shape_of_hint(hints[parameter.name], context.made) if parameter.name in hints else None
            values = [keywords[parameter.name] for _, keywords, _ in calls if parameter.name in keywords]
            values += [arguments[position] for arguments, _, _ in calls if len(arguments) > position]
            shapes = list(dict.fromkeys(filter(None, map(shape_of_text, values))))
            if shape is None and shapes:
                shape = ("union", *shapes[:3]) if len(shapes) > 1 else shapes[0]
            if shape is None and default not in (None, "None"):
                shape = shape_of_text(default or "")
            if values and shape is not None:
                shape = ("union", ("literal", *dict.fromkeys(values[:12])), shape)
            counts = bool(SIZES.intersection(parameter.name.split("_"))) and not _compares(tree, parameter.name)
            self.parameters.append(
                Parameter(
                    parameter.name, parameter.kind, required=required, default=default, shape=shape, counts=counts
                )
            )
        return True

    def text(self, required: Iterable[str], optional: dict[str, str]) -> str:
        """Return a call."""
        values = iter(required)
        arguments = []
        for parameter in self.parameters:
            if parameter.required:
                value = next(values)
                arguments.append(f"{parameter.name}={value}" if parameter.keyword else value)
            elif optional.get(parameter.name, parameter.default) != parameter.default:
                value = optional[parameter.name]
                arguments.append(value if parameter.rest or not parameter.keyword else f"{parameter.name}={value}")
        return "{}({})".format(self.prefix, ", ".join(arguments))


class Context:
    """The module under test as the calls see it."""

    def __init__(self, scope: dict[str, Any], module: dict[str, Any], guard: Guard, known_calls: Known) -> None:
        """Start without expressions for the module's own classes."""
        self.scope = scope
        self.module = module
        self.guard = guard
        self.known = known_calls
        self.words = Vocabulary([], [])
        self.made: dict[str, list[str]] = {}
        self.seen: dict[str, Outcome] = {}

    def lines(self, text: str) -> frozenset[int]:
        """Return the lines of the module that ``text`` executes."""
        try:
            return executed_lines(Example(text), self.scope, self.guard, str(self.module.get("__file__")))
        except (SyntaxError, ValueError, MemoryError):
            return frozenset()

    def outcome(self, text: str) -> Outcome:
        """Return how the original evaluates ``text``."""
        if text not in self.seen:
            try:
                self.seen[text] = evaluate(Example(text), self.scope, self.guard)
            except (SyntaxError, ValueError, MemoryError):
                self.seen[text] = Outcome("unusable")
        return self.seen[text]


def _source_of(function: Any) -> ast.AST | None:
    """Return the syntax tree of a function or class; None if it is not known."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None


def _compares(tree: ast.AST | None, name: str) -> bool:
    """Return whether code looks at the sign of a parameter, or may do so."""

    def is_it(node: ast.AST) -> bool:
        return getattr(node, "id", getattr(node, "attr", None)) == name

    if tree is None:
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("abs", "max", "min"):
            operands = node.args
        else:
            continue
        if any(map(is_it, operands)) and any(_is_least(operand) for operand in operands if not is_it(operand)):
            return True
        if len(operands) == 1 and is_it(operands[0]):
            return True
    return False


def _is_least(node: Any) -> bool:
    """Return whether an expression is a number up to 1: what one compares with to find a negative number."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return False
    return isinstance(value, (int, float)) and value <= 1


def _hints(function: Any, context: Context) -> dict[str, Any]:
    target = function.__init__ if inspect.isclass(function) else function
    target = inspect.unwrap(target)
    hints = {}
    for name, value in getattr(target, "__annotations__", {}).items():
        try:  # one by one: a name that exists for type checkers only must not cost all of them
            hints[name] = eval(value, {**vars(typing), **context.module}) if isinstance(value, str) else value  # noqa: S307
        except Exception:
            continue
    return hints


def known_calls(target: Target, context: Context) -> Iterator[tuple[str, int]]:
    """Yield the calls of this target that the documentation or the tests make, with their origins."""
    for arguments, keywords, origin in context.known.calls.get(target.name, []):
        defaults = {parameter.name: parameter.default for parameter in target.parameters}
        texts = [*arguments, *("{}={}".format(*pair) for pair in keywords.items() if defaults.get(pair[0]) != pair[1])]
        yield "{}({})".format(target.prefix, ", ".join(texts)), origin


def settle_variants(target: Target, context: Context) -> None:
    """Find shapes for the parameters that have none: those with which most calls succeed."""
    required = [parameter for parameter in target.parameters if parameter.required]
    options = [[parameter.shape] if parameter.shape is not None else parameter.guesses() for parameter in required]
    ranked = []
    by_guess = sorted(itertools.islice(itertools.product(*[range(len(o)) for o in options]), 5000), key=sum)
    by_guess[UNUSUAL_GUESSES:UNUSUAL_GUESSES] = _alike(options)
    for number, places in enumerate(by_guess[:MOST_GUESSES]):
        shapes: list[Shape] = [o[place] for o, place in zip(options, places)]
        rows = list(itertools.islice(_rows([pool(s, context.words) for s in shapes], 5), 5))
        ended = [context.outcome(target.text(row, {})) for row in rows]
        good = sum(1 for outcome in ended if outcome.kind == "value" and outcome.value is not NotImplemented)
        fair = sum(1 for outcome in ended if outcome.kind == "raises" and isinstance(outcome.value, ValueError))
        if good or fair:
            ranked.append((-(good + 0.4 * fair) / max(1, len(rows)), number, shapes))
        if context.guard.events:
            return
    # True and False pass for numbers and for much else: they are tried only if nothing else returns or has that name.
    plain = [item for item in ranked if not _guesses_flags(item[2], required)]
    if not plain and all(parameter.shape or is_named(parameter.name) for parameter in required):
        plain = [(0.0, 0, [shapes[0] for shapes in options])]
    plain = plain or ranked
    target.variants = [shapes for _, _, shapes in sorted(plain, key=lambda item: item[:2])[:VARIANTS]]
    for parameter in target.parameters:
        if not parameter.required and parameter.shape is None:
            parameter.shape = _shape_of_optional(target, parameter, context)


def _guesses_flags(shapes: list[Shape], required: list[Parameter]) -> bool:
    """Return whether flags are tried for parameters of which nothing says that they are flags."""
    return any(
        shape == ("bool",) and parameter.shape is None and parameter.guesses()[0] != shape
        for shape, parameter in zip(shapes, required)
    )


def _alike(options: list[list[Shape]]) -> list[tuple[int, ...]]:
    """Return the combinations in which all parameters have the same shape."""
    if len(options) < 2:
        return []
    common = [shape for shape in options[0] if all(shape in other for other in options)]
    return [tuple(other.index(shape) for other in options) for shape in common]


def _shape_of_optional(target: Target, parameter: Parameter, context: Context) -> Shape | None:
    """Return a shape that the optional parameter accepts, or None."""
    rows = list(first_rows(target, context))[:2]
    for shape in parameter.guesses():
        texts = [target.text(row, {parameter.name: value}) for row in rows for value in pool(shape, context.words)[:2]]
        if texts and all(context.outcome(text).kind == "value" for text in texts):
            return shape
    return None


def first_rows(target: Target, context: Context) -> Iterator[list[str]]:
    """Yield rows of required arguments with which the call returns."""
    for shapes in target.variants:
        for row in _rows([pool(shape, context.words) for shape in shapes], 12):
            if context.outcome(target.text(row, {})).kind == "value":
                yield row


def _rows(pools: list[list[str]], most: int) -> Iterator[list[str]]:
    """Yield rows of values that go through each pool, the first values first."""
    if not pools:
        yield []
    elif all(pools):
        for number in range(most):
            yield [p[(number * (place + 1) + (place if number else 0)) % len(p)] for place, p in enumerate(pools)]


def invented_calls(target: Target, context: Context) -> Iterator[str]:
    """Yield calls with readable arguments: one changes at a time, then optional ones are given, then all vary."""
    rows = list(first_rows(target, context))[:3] or [
        row for s in target.variants[:1] for row in _rows([pool(x, context.words) for x in s], 1)
    ]
    for shapes in target.variants:
        pools = [pool(shape, context.words) for shape in shapes]
        for base in [row for row in rows if len(row) == len(pools)][:2]:
            yield target.text(base, {})
            for place, values in enumerate(pools):
                for value in values:
                    yield target.text([*base[:place], value, *base[place + 1 :]], {})
        for row in _rows(pools, 12):
            yield target.text(row, {})
    options = {
        parameter.name: [value for value in pool(parameter.shape, context.words, 10)[:14] if value != parameter.default]
        for parameter in target.parameters
        if not parameter.required and parameter.shape is not None
    }
    for depth in range(14):
        filled = [{name: values[depth]} for name, values in options.items() if depth < len(values)]
        for row in rows[: 3 if depth < 2 else 1]:
            for chosen in filled:
                yield target.text(row, chosen)
        if depth == 1:
            yield from _combined(target, context, rows, options)
    numbers = random.Random(7)
    for _ in range(150 if target.parameters else 0):
        for shapes in target.variants[:1]:
            row = [numbers.choice(pool(shape, context.words)) for shape in shapes]
            free = [
                parameter
                for parameter in target.parameters
                if not parameter.required and parameter.shape is not None and numbers.random() < 0.4
            ]
            yield target.text(
                row,
                {
                    parameter.name: numbers.choice(pool(parameter.shape, context.words))
                    for parameter in free
                    if parameter.shape
                },
            )


def _combined(target: Target, context: Context, rows: list[list[str]], options: dict[str, list[str]]) -> Iterator[str]:
    """Yield calls with an option that leads to other lines of the module, and with other arguments than before."""
    seen: set[int] = set()
    for row in rows:
        seen |= context.lines(target.text(row, {}))
    opening = []
    for name, values in options.items():
        for value in values[:6]:
            reached = context.lines(target.text(rows[0], {name: value})) if rows else set()
            if not reached <= seen:
                seen |= reached
                opening.append({name: value})
    for option in opening[:OPENING_OPTIONS]:
        for shapes in target.variants[:1]:
            for row in _rows([pool(shape, context.words) for shape in shapes], 12):
                yield target.text(row, option)
        for other, values in options.items():
            for value in values[:3] if other not in option else ():
                for row in rows[:2]:
                    yield target.text(row, {**option, other: value})


def searched_calls(target: Target, context: Context, patterns: list[Any]) -> Any:
    """Return a Hypothesis strategy of calls, or None."""
    from hypothesis import strategies as st

    choices = []
    for shapes in target.variants:
        rows = st.tuples(*[strategy(shape, context.words, patterns) for shape in shapes])
        optional = {
            parameter.name: strategy(parameter.shape, context.words, patterns)
            for parameter in target.parameters
            if not parameter.required and parameter.shape is not None
        }
        choices.append(st.builds(target.text, rows, st.fixed_dictionaries({}, optional=optional)))
    return st.one_of(choices) if choices else None


def observations(text: str, value: Any, context: Context) -> list[str]:
    """Return expressions that show an object which has no exact text itself."""
    context.guard.start()
    try:
        items = drained(value)
    except (Exception, Refused, TooSlow):
        items = None
    finally:
        context.guard.stop()
    if items is not None:
        return [f"list({text})"]
    if hasattr(value, "__next__") or callable(value):
        return []
    kind: Any = type(value)
    expressions = []
    printed = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
    if printed and kind.__module__ != "builtins" and " at 0x" not in _printed(value, context):
        expressions.append(f"str({text})")
    expressions += [f"{text}.{name}" for name in _attributes(value)]
    expressions += [
        f"{name}({text})"
        for name, dunder in (("len", "__len__"), ("list", "__iter__"), ("bool", "__bool__"))
        if hasattr(kind, dunder)
    ]
    return expressions


def _printed(value: Any, context: Context) -> str:
    context.guard.start()
    try:
        return str(value)
    except (Exception, Refused, TooSlow):
        return " at 0x"
    finally:
        context.guard.stop()


def _attributes(value: Any) -> list[str]:
    """Return the names of public attributes and properties, not of methods."""
    kind = type(value)
    names = [
        *getattr(value, "__dict__", {}),
        *(n for base in kind.__mro__ for n, member in vars(base).items() if _is_data(member)),
    ]
    return [name for name in dict.fromkeys(names) if re.match(r"[A-Za-z]\w*$", name)][:12]


def _is_data(member: Any) -> bool:
    return (
        isinstance(member, property) or inspect.ismemberdescriptor(member) or type(member).__name__ == "cached_property"
    )
