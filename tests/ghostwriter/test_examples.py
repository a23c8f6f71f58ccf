"""Examples: what is recorded of a value, and of an object after calls of its methods."""

import enum
import http
import re
import time
import types
from collections import Counter, OrderedDict, namedtuple

import pytest

from understudy.ghostwriter.choose_examples import Found, shows_something
from understudy.ghostwriter.inside.audit import Effects, Guard
from understudy.ghostwriter.inside.calls import Context, Known, Target, settle_variants
from understudy.ghostwriter.inside.exact import exact
from understudy.ghostwriter.inside.loading import Example, Source, detects, evaluate, record
from understudy.ghostwriter.inside.shapes import pool
from understudy.ghostwriter.inside.unit_candidates import Steps, make_objects, vocabulary
from understudy.ghostwriter.inside.unit_search import UnitSearch, _patterns

Point = namedtuple("Point", "x y")  # noqa: PYI024 - as a module under test may have it


class Word(str):
    __slots__ = ()


class Shouted(str):
    __slots__ = ()

    def __eq__(self, other):
        return str(other).upper() == str(self)

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Point(1, "a"), "(1, 'a')"),
        ([Point(1, 2), None], "[(1, 2), None]"),
        (OrderedDict(b=1, a=2), "{'b': 1, 'a': 2}"),
        (Counter("aab"), "{'a': 2, 'b': 1}"),
        (http.HTTPStatus.OK, "200"),
        (Word("a"), "'a'"),
        (Shouted("A"), None),
        (object(), None),
        (None, "None"),
    ],
)
def test_a_value_of_a_derived_type_is_recorded_as_what_it_equals(value, text):
    assert exact(value, {}) == text
    if text is not None:
        assert value == eval(text)  # noqa: S307


def test_the_names_of_the_module_are_preferred():
    assert exact(Point(1, 2), {"Point": Point}) == "Point(x=1, y=2)"


def loaded(code: str) -> tuple[Source, Guard]:
    module = types.ModuleType("examined")
    module.__file__ = "examined.py"
    exec(code, vars(module))  # noqa: S102
    guard = Guard([])
    return Source(module, code.encode(), guard), guard


def test_an_enumeration_of_the_mutant_is_compared_with_its_own():
    code = "import enum\nclass Size(enum.Enum):\n    BIG = 1\n    SMALL = 2\ndef size(x):\n    return Size.BIG if x > 7 else Size.SMALL\n"
    source, guard = loaded(code)
    example = Example("size(8)")
    assert record(example, evaluate(example, source.original(), guard), source.original(), guard)
    assert example.expected is not None
    assert example.expected[2] == "Size.BIG"
    for old, new, noticed in [("> 7", "> 6", False), ("> 7", "> 8", True), ("    SMALL = 2", "    SMALL = 3", False)]:
        start = code.index(old)
        scope = source.mutated(start, start + len(old), new.encode())
        assert scope is not None
        assert detects(example, evaluate(example, scope, guard), scope) is noticed, new
    assert isinstance(source.original()["Size"].BIG, enum.Enum)


STACK = """
class Stack:
    def __init__(self):
        self.items = []
    def push(self, item):
        self.items.append(item)
        return self
    def pop(self):
        return self.items.pop()
    def size(self):
        return len(self.items)
"""


def test_methods_are_called_one_after_another():
    source, guard = loaded(STACK)
    context = Context(source.original(), vars(source.module), guard, Known([]))
    calls = [("Stack().push(1)", 2), ("Stack().push(2)", 2), ("Stack().pop()", 2), ("Stack().size()", 2)]
    found = list(Steps("Stack", "Stack()", context).examples(calls))
    shown = {(*one.setup, one.expression): one.expected[2] for one in found if one.expected}
    assert shown["stack = Stack()", "stack.push(2)", "stack.items"] == "[2]"
    assert shown["stack = Stack()", "stack.push(2)", "stack.size()"] == "1"
    assert shown["stack = Stack()", "stack.push(2)", "stack.push(1)", "stack.pop()"] == "1"
    assert ("stack = Stack()", "stack.size()", "stack.items") not in shown, "it changes nothing"
    assert ("stack = Stack()", "stack.push(1)", "stack.push(1)") not in shown, "it has no exact text"
    assert len(found) <= 240


def test_words_and_patterns_of_the_module():
    source, _ = loaded("TABLE = {'milk': 120}\ndef f(x):\n    return 'no milk' if x == 'none' else x\n")
    words = vocabulary(source.tree.body[::-1], ["'known'"]).words
    assert words[:4] == ["known", "no milk", "none", "milk"]
    first, second = re.compile("a"), re.compile("b")
    assert _patterns([first, [second, first, 3], {"key": re.compile(b"c")}]) == [first, second]


SIZES = """
def cut(text: str, width: int, times: int = 1):
    return text[:width] * times
def checked(text: str, width: int, max_length: int = 1):
    if width < 1:
        raise ValueError(width)
    return text[:width] * max(0, max_length)
def moved(text: str, offset: int):
    return text[offset:]
def plain(text, width):
    return text[:width]
"""


@pytest.mark.parametrize(
    ("name", "negative"),
    [
        ("cut", {"width": False, "times": False}),
        ("checked", {"width": True, "max_length": True}),
        ("moved", {"offset": True}),
        ("plain", {"width": False}),
    ],
)
def test_a_size_is_negative_only_if_the_code_looks_at_its_sign(tmp_path, name, negative):
    (tmp_path / "examined_sizes.py").write_text(SIZES)
    source, guard = loaded(SIZES)
    source.module.__file__ = str(tmp_path / "examined_sizes.py")
    exec(compile(SIZES, source.module.__file__, "exec"), vars(source.module))  # noqa: S102
    context = Context(source.original(), vars(source.module), guard, Known([]))
    target = Target(name, vars(source.module)[name], name, bound=False)
    assert target.read_signature(context)
    offered = {}
    for parameter in target.parameters[1:]:
        shapes = [parameter.shape] if parameter.shape is not None else parameter.guesses()
        numbers = [text for shape in shapes if shape[0] in {"int", "count"} for text in pool(shape, context.words)]
        offered[parameter.name] = any(text.startswith("-") for text in numbers)
    assert offered == negative


def test_an_invented_error_alone_is_not_worth_a_file():
    shown = [
        Found("f", [], "f(1)", outcome, origin, 1, {1})
        for outcome, origin in (
            (("raises", "ValueError", ""), 2),
            (("raises", "ValueError", ""), 0),
            (("value", "", "2"), 2),
        )
    ]
    assert [shows_something(example) for example in shown] == [False, True, True]


BOXES = """
class Box:
    def __init__(self, text: str):
        first, second = text.split("|")
        self.row = first + second
ROUND = Box("(|)")
_HIDDEN = Box("[|]")
"""


def test_objects_that_the_module_makes_are_looked_at():
    source, guard = loaded(BOXES)
    context = Context(source.original(), vars(source.module), guard, Known([]))
    assert make_objects("Box", vars(source.module)["Box"], context, Effects(source.tree)) == ["ROUND"]


@pytest.mark.parametrize(
    ("code", "first"),
    [
        ("def grid(n, m):\n    if not n - 1 <= m <= n:\n        raise KeyError(n)\n    return 'g'\n", [("int",)] * 2),
        ("def both(left, right):\n    return left & right\n", [("int",)] * 2),
        ("def kept(strict):\n    return {True: 1, False: 2}[strict]\n", [("bool",)]),
    ],
)
def test_flags_are_not_tried_for_numbers(code, first):
    source, guard = loaded(code)
    context = Context(source.original(), vars(source.module), guard, Known([]))
    name = code[4 : code.index("(")]
    target = Target(name, vars(source.module)[name], name, bound=False)
    assert target.read_signature(context)
    settle_variants(target, context)
    assert target.variants[0] == first
    assert not any(("bool",) in shapes for shapes in target.variants) or name == "kept"


VERSIONS = """
class Version:
    def __init__(self, text):
        self.text = text
    def __repr__(self):
        return f"<Version({self.text!r})>"
"""


def test_the_representation_is_compared_where_the_documentation_shows_it():
    source, guard = loaded(VERSIONS)
    shown = {"setup": [], "expression": "Version('1')", "want": "<Version('1')>", "raises": None}
    other = {**shown, "expression": "Version('2')", "want": "<Version('1')>"}
    request = {"documented": [shown, other], "calls": []}
    subject = types.SimpleNamespace(request=request, mutants=[], guard=guard, source=source, module=source.module)
    subject.until = time.monotonic() + 60
    told = []
    search = UnitSearch(subject, "", None, 10.0, lambda kind, **fields: told.append((kind, fields)))
    search.run()
    [(_, refused), (_, kept)] = told
    assert refused == {"example": "Version('2')", "why": "gives another value than the documentation shows"}
    assert (kept["expression"], kept["outcome"]) == ("repr(Version('1'))", ["value", "", repr("<Version('1')>")])
