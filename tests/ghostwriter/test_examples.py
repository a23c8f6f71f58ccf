"""Examples: what is recorded of a value, and of an object after calls of its methods."""

import enum
import http
import re
import types
from collections import Counter, OrderedDict, namedtuple

import pytest

from understudy.ghostwriter.inside.audit import Guard
from understudy.ghostwriter.inside.calls import Context, Known
from understudy.ghostwriter.inside.exact import exact
from understudy.ghostwriter.inside.loading import Example, Source, detects, evaluate, record
from understudy.ghostwriter.inside.unit_candidates import Steps, vocabulary
from understudy.ghostwriter.inside.unit_search import _patterns

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
