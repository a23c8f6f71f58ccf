"""Kinds of arguments: readable values of each, and a Hypothesis strategy of each. Values are texts of Python.

Hypothesis is asked for many values at random, or for a simple one.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import enum
import fractions
import typing
from typing import Any, Callable

Shape = typing.Tuple[Any, ...]  # noqa: UP006 - Python 3.8; ("text",), ("list", shape), ("union", shape, …)

SHRINK_EXAMPLES = 120
TEXT: Shape = ("text",)
INT: Shape = ("int",)
COUNT: Shape = ("count",)
"""Whole numbers from 0 on."""
FLOAT: Shape = ("float",)
INTS: Shape = ("list", INT)
TEXTS: Shape = ("list", TEXT)
WORDS = [
    "hello world",
    "Hello",
    "a",
    "",
    "one two three",
    "abc",
    "42",
    " padded ",
    "some_name",
    "CamelCase",
    "a-b",
    "É",
    "אב",
    "x.y",
]
NUMBERS = [1, 2, 0, 3, 10, -1, 5, 12, 21, 100, 101, 1000, 1024, 1000000, -5]
AWKWARD = ["\\", "\\A", "(", "[", "*", "%", "%s", "{}", "{", "\n", "\0"]
"""Texts that mean something to patterns and templates: they read badly, but find crashes."""
REALS = ["1.5", "0.5", "2.0", "-2.5", "0.0", "1000.25", "3.14159", "1e+16", "1e-05"]
VALUES: dict[str, list[str]] = {
    "bool": ["True", "False"],
    "none": ["None"],
    "bytes": ["b'abc'", "b''", "b'hello world'", "b'\\x00\\xff'"],
    "callable": [
        *(
            "str",
            "abs",
            "lambda x: x * 2",
            "lambda x: x > 1",
            "lambda x: x % 2 == 0",
            "len",
            "int",
            "str.upper",
            "bool",
        ),
        *("lambda x, y: x + y", "max", "lambda *args: args", "lambda: 1", "None"),
    ],
    "date": ["datetime.date(2024, 2, 29)", "datetime.date(2001, 9, 9)", "datetime.date(1999, 12, 31)"],
    "datetime": ["datetime.datetime(2024, 2, 29, 13, 5, 9)", "datetime.datetime(2001, 1, 1)"],
    "time": ["datetime.time(13, 5)", "datetime.time(0, 0, 1)"],
    "timedelta": [
        *("datetime.timedelta(seconds=1)", "datetime.timedelta(minutes=5)", "datetime.timedelta(hours=3)"),
        *("datetime.timedelta(days=1)", "datetime.timedelta(days=45)", "datetime.timedelta(days=400)"),
        *("datetime.timedelta(seconds=90)", "datetime.timedelta(days=-1)", "datetime.timedelta(0)"),
        *("datetime.timedelta(days=800, hours=5)", "datetime.timedelta(microseconds=1500)"),
    ],
    "decimal": ["decimal.Decimal('1.5')", "decimal.Decimal('0')", "decimal.Decimal('-3.25')"],
    "fraction": ["fractions.Fraction(1, 3)", "fractions.Fraction(3, 2)"],
    "complex": ["1j", "(1+2j)"],
}
PYTHON_TYPES: dict[Any, Shape] = {
    str: TEXT,
    int: INT,
    float: ("union", FLOAT, INT),
    bool: ("bool",),
    bytes: ("bytes",),
    type(None): ("none",),
    complex: ("complex",),
    datetime.date: ("date",),
    datetime.datetime: ("datetime",),
    datetime.time: ("time",),
    datetime.timedelta: ("timedelta",),
    decimal.Decimal: ("decimal",),
    fractions.Fraction: ("fraction",),
    list: INTS,
    tuple: ("tuple*", INT),
    set: ("set", INT),
    dict: ("dict", TEXT, INT),
    frozenset: ("set", INT),
    object: ("union", TEXT, INT),
    type: ("literal", "int", "str"),
}


class Vocabulary:
    """What the module itself says: words and numbers of its source, its documentation and its tests."""

    def __init__(self, words: list[str], numbers: list[int]) -> None:
        """Put the module's own values before the general ones."""
        self.words = list(dict.fromkeys([*words[:40], *WORDS]))
        near = [near for number in numbers[:15] for near in (number, number + 1, number - 1)]
        self.numbers = list(dict.fromkeys([*NUMBERS[:4], *near, *NUMBERS]))[:40]


def pool(shape: Shape, words: Vocabulary, most: int = 30) -> list[str]:
    """Return readable values of a shape as texts, the best first."""
    kind = shape[0]
    if kind == "text":
        return [repr(word) for word in words.words[:most]]
    if kind == "int":
        return [repr(number) for number in words.numbers[:most]]
    if kind == "count":
        return [repr(number) for number in words.numbers if number >= 0][:most]
    if kind == "float":
        return REALS
    if kind == "literal":
        return list(shape[1:])
    if kind == "union":
        pools = [pool(part, words, most) for part in shape[1:]]
        return list(dict.fromkeys(p[i] for i in range(max(map(len, pools))) for p in pools if i < len(p)))[: most * 2]
    if kind in {"list", "tuple*", "set"}:
        inner = pool(shape[1], words, 8)
        groups = [inner[:3], inner[:1], [], inner[2::-1], inner[1:3] + inner[1:2], inner[:5], inner[3:8]]
        if shape[1][0] == "int":
            groups += [["1", "2", "3", "4", "5"], ["3", "1", "2", "3"], ["0", "0", "7"]]
        return list(dict.fromkeys(_brackets(kind, group) for group in groups))
    if kind == "dict":
        keys, values = pool(shape[1], words, 6), pool(shape[2], words, 6)
        pairs = [[(keys[0], values[0])], [], list(zip(keys, values))[:3]]
        return ["{" + ", ".join("{}: {}".format(*pair) for pair in group) + "}" for group in pairs]
    if kind == "tuple":
        pools = [pool(part, words, 6) for part in shape[1:]]
        return [
            "(" + ", ".join(p[i % len(p)] for p in pools) + ("," if len(pools) == 1 else "") + ")" for i in range(4)
        ]
    return VALUES[kind]


def _brackets(kind: str, items: list[str]) -> str:
    if kind == "list":
        return "[" + ", ".join(items) + "]"
    if kind == "tuple*":
        return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
    return "{" + ", ".join(dict.fromkeys(items)) + "}" if items else "set()"


def shape_of_value(value: Any) -> Shape | None:
    """Return the shape of values like this one."""
    kind: Any = type(value)
    if kind in (list, tuple, set, frozenset) and value:
        shapes = list(dict.fromkeys(filter(None, map(shape_of_value, list(value)[:5]))))
        inner = shapes[0] if len(shapes) == 1 else ("union", *shapes) if shapes else INT
        return ("list" if kind is list else "tuple*" if kind is tuple else "set", inner)
    if kind is dict and value:
        key, item = next(iter(value.items()))
        return ("dict", shape_of_value(key) or TEXT, shape_of_value(item) or INT)
    if kind is float:
        return FLOAT
    return PYTHON_TYPES.get(kind)


def shape_of_text(text: str) -> Shape | None:
    """Return the shape of a literal, or of a lambda."""
    if text.startswith("lambda"):
        return ("callable",)
    try:
        return shape_of_value(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def shape_of_hint(hint: Any, makers: dict[str, list[str]], depth: int = 4) -> Shape | None:
    """Return the shape of a type hint; ``makers`` has expressions that make objects of the module's classes."""
    if hint is None or hint is type(None):
        return ("none",)
    if hint is Any or isinstance(hint, typing.TypeVar) or depth == 0:
        return ("union", INT, TEXT)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        members = [f"{hint.__name__}.{member.name}" for member in hint] if hint.__name__ in makers else []
        return ("literal", *members) if members else None
    if isinstance(hint, type) and hint.__name__ in makers:
        return ("literal", *makers[hint.__name__]) if makers[hint.__name__] else None
    try:
        if hint in PYTHON_TYPES:
            return PYTHON_TYPES[hint]
    except TypeError:
        return None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    plain = arguments[0] if hasattr(hint, "__metadata__") else getattr(hint, "__supertype__", None)
    if plain is not None:  # Annotated, or NewType
        return shape_of_hint(plain, makers, depth)
    name = getattr(origin or hint, "__name__", None) or str(hint)
    if str(origin).endswith(("Literal", "Literal'>")):
        return ("literal", *map(repr, arguments))
    if origin is typing.Union or name == "UnionType":
        shapes = [shape for argument in arguments if (shape := shape_of_hint(argument, makers, depth - 1))]
        return ("union", *dict.fromkeys(shapes)) if shapes else None
    return _shape_of_generic(name, arguments, makers, depth)


def _shape_of_generic(name: str, arguments: tuple[Any, ...], makers: dict[str, list[str]], depth: int) -> Shape | None:
    inner = [
        shape_of_hint(argument, makers, depth - 1) or INT
        for argument in arguments
        if argument is not Ellipsis and not isinstance(argument, list)
    ]
    first = inner[0] if inner else INT
    if name == "Callable":
        return ("callable",)
    if name == "tuple" and inner and Ellipsis not in arguments:
        return ("tuple", *inner)
    if name in {"tuple", "Tuple"}:
        return ("tuple*", first)
    if name in {"set", "frozenset", "Set", "AbstractSet", "MutableSet", "FrozenSet"}:
        return ("set", first)
    if name in {"dict", "Mapping", "MutableMapping", "Dict", "defaultdict"}:
        return ("dict", first if inner else TEXT, inner[1] if len(inner) > 1 else INT)
    if name in {
        "list",
        "Sequence",
        "Iterable",
        "Iterator",
        "Collection",
        "List",
        "MutableSequence",
        "Sized",
        "Container",
    }:
        return ("list", first)
    if name in {"Type", "type"}:
        return ("literal", "int", "str")
    return {
        "SupportsFloat": FLOAT,
        "SupportsInt": INT,
        "Real": FLOAT,
        "Number": FLOAT,
        "Hashable": TEXT,
        "AnyStr": TEXT,
    }.get(name)


NAMES: list[tuple[str, Shape]] = [
    ("func function fn f predicate pred key callback callable_ transform default_factory", ("callable",)),
    (
        "n m i j k count num number size width length index depth times limit year month day value x y step start stop",
        INT,
    ),
    ("iterable iterables seq sequence items xs values elements lst list_ data args collection it", INTS),
    ("d dict_ mapping dct table params", ("dict", TEXT, INT)),
    ("date day", ("date",)),
    ("dt datetime_ when moment", ("datetime",)),
    ("delta td timedelta", ("timedelta",)),
    ("flag strict reverse", ("bool",)),
]
SIZES = frozenset(
    "width height size length len count limit depth columns rows indent spaces padding level levels times total maxlen "
    "capacity position lines chars".split()
)
"""Words in the names of parameters that count something or say how large it is: a negative number makes no sense."""
FREE: list[Shape] = [
    *(TEXT, INT, INTS, TEXTS, FLOAT, ("dict", TEXT, INT), ("callable",), ("list", ("tuple", INT, INT))),
    *(("list", INTS), ("bytes",), ("date",), ("datetime",), ("timedelta",), ("bool",)),
]


def is_named(name: str) -> bool:
    """Return whether the name of a parameter says what it is."""
    return any(name.strip("_") in names.split() for names, _ in NAMES)


def guesses(name: str) -> list[Shape]:
    """Return the shapes that a parameter of this name may have, the likeliest first."""
    first = [shape for names, shape in NAMES if name.strip("_") in names.split()]
    return list(dict.fromkeys([*first, *FREE]))


def counted(shape: Shape) -> Shape:
    """Return a shape without its negative whole numbers."""
    if shape[0] == "union":
        return ("union", *[counted(part) for part in shape[1:]])
    return COUNT if shape == INT else shape


def strategy(shape: Shape, words: Vocabulary, patterns: list[Any]) -> Any:
    """Return a Hypothesis strategy of texts."""
    from hypothesis import strategies as st

    kind = shape[0]
    readable = st.sampled_from(pool(shape, words) or ["None"])
    if kind == "text":
        free = st.text("abcxyzABZ 0129_-.,:/+'", max_size=12).map(repr)
        ascii_only = st.characters(min_codepoint=32, max_codepoint=126)  # all of Unicode would take seconds to prepare
        matching = [
            st.from_regex(p, fullmatch=True, alphabet=ascii_only).filter(_readable).map(repr) for p in patterns[:6]
        ]
        spliced = st.lists(st.sampled_from([*words.words, " ", "-", "_", "."]), min_size=2, max_size=3).map("".join)
        awkward = st.sampled_from(AWKWARD).map(repr)
        return st.one_of(readable, awkward, spliced.filter(lambda s: len(s) < 40).map(repr), free, *matching)
    if kind == "int":
        return readable | st.integers(-20, 200).map(repr) | st.integers(-(10**6), 10**9).map(repr)
    if kind == "count":
        return readable | st.integers(0, 200).map(repr)
    if kind == "float":
        return readable | st.floats(-1e4, 1e7, allow_nan=False, width=32).map(repr)
    if kind == "bytes":
        return readable | st.binary(max_size=6).map(repr)
    if kind == "timedelta":
        units = st.sampled_from(["days", "hours", "minutes", "seconds", "microseconds"])
        return readable | st.builds("datetime.timedelta({}={})".format, units, st.integers(-3, 1000))
    if kind == "date":
        return readable | st.dates().map(repr)
    if kind == "datetime":
        return readable | st.datetimes().map(repr)
    if kind == "union":
        return st.one_of([strategy(part, words, patterns) for part in shape[1:]])
    if kind in {"list", "tuple*", "set"}:
        inner = strategy(shape[1], words, patterns)
        return readable | st.lists(inner, max_size=5).map(lambda items: _brackets(kind, items))
    if kind == "dict":
        pairs = st.tuples(strategy(shape[1], words, patterns), strategy(shape[2], words, patterns))
        return readable | st.lists(pairs.map(": ".join), max_size=3).map(lambda items: "{" + ", ".join(items) + "}")
    if kind == "tuple":
        inners = [strategy(part, words, patterns) for part in shape[1:]]
        return st.tuples(*inners).map(lambda items: "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")")
    return readable


def _readable(text: str) -> bool:
    return len(text) < 30 and text.isprintable() and text.isascii()


class Late(BaseException):
    """Ends a run of Hypothesis, which catches exceptions of other kinds."""


def generated(strategy: Any, count: int, number: int, late: Callable[[], bool]) -> list[str]:
    """Return up to ``count`` different values of a strategy of texts; ``number`` selects the sequence."""
    texts: dict[str, None] = {}

    def collect(text: str) -> None:
        if late():
            raise Late
        texts[text] = None

    _completes(strategy, collect, count, number)
    return list(texts)


def smallest(strategy: Any, condition: Callable[[str], bool]) -> None:
    """Let Hypothesis look for a simple text that meets a condition, which keeps what it has seen itself."""
    from hypothesis import HealthCheck, Phase, find, settings

    options = settings(
        max_examples=SHRINK_EXAMPLES,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        find(strategy, condition, settings=options)
    except (Exception, Late):
        return


def counter_example(
    strategies: list[str], holds: Callable[[tuple[Any, ...]], bool], count: int, number: int, late: Callable[[], bool]
) -> bool:
    """Return whether ``holds`` fails for one of ``count`` values, or cannot be decided; ``strategies`` are texts."""
    from hypothesis import strategies as st

    made = [eval(text, {"st": st}) for text in strategies]  # noqa: S307 - texts of this package

    def check(values: tuple[Any, ...]) -> None:
        if late() or not holds(values):
            raise Late

    return not _completes(st.tuples(*made), check, count, number)


def _completes(strategy: Any, take: Callable[[Any], None], count: int, number: int) -> bool:
    """Pass up to ``count`` values to ``take``; return whether neither it nor the strategy raised an exception."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(value: Any) -> None:
        take(value)

    try:
        run()
    except (Exception, Late):
        return False
    return True
