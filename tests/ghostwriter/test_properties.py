"""Properties and crashes: which are tried, how they are judged, and how they are written."""

import ast
import runpy
import sys
import types

import pytest

from understudy.ghostwriter.choose_examples import Found, Property, choose_properties
from understudy.ghostwriter.inside.audit import Guard
from understudy.ghostwriter.inside.loading import Source, crash
from understudy.ghostwriter.inside.properties import candidates, opposites
from understudy.ghostwriter.inside.shapes import counter_example
from understudy.ghostwriter.test_file import Style, write


@pytest.mark.parametrize(
    ("name", "other"),
    [("encode", "decode"), ("unescape", "escape"), ("hex_to_rgb", "rgb_to_hex"), ("str2hex", "hex2str")],
)
def test_round_trips_are_found_by_name(name, other):
    assert other in opposites(name)
    assert f"{other}_reverses_{name}" in [one.name for one in candidates([name, other])]


def test_a_word_that_only_contains_an_opposite_is_left_alone():
    assert "editor" not in opposites("edifrom")
    assert not [one for one in candidates(["total", "from_total"]) if "reverses" in one.name]


def test_a_property_must_hold_for_every_value():
    assert not counter_example(["st.integers()"], lambda values: values[0] == values[0], 100, 1, lambda: False)
    assert counter_example(["st.integers()"], lambda values: values[0] < 1000, 1000, 1, lambda: False)
    assert counter_example(["st.integers()"], lambda values: True, 10, 1, lambda: True), (
        "what is not decided is not proven"
    )


def test_a_property_is_kept_for_what_examples_do_not_kill():
    example = Found("f", [], "f(1)", ("value", "", "1"), 2, 20, {1, 2})
    known = Property("known", [("text", "st.text()")], "f(text) == text", {2})
    new = Property("new", [("text", "st.text()")], "g(f(text)) == text", {2, 3})
    again = Property("again", [("text", "st.text()")], "f(g(text)) == text", {3})
    assert choose_properties([known, new, again], [example]) == [new]


def test_a_property_is_a_hypothesis_test():
    one = Property("is_commutative", [("a", "st.integers()"), ("b", "st.integers()")], "f(a, b) == f(b, a)", {1})
    text, _ = write("pack.mod", frozenset({"f"}), [], Style(), [one])
    ast.parse(text)
    assert "from hypothesis import given, settings\nfrom hypothesis import strategies as st\n" in text
    assert text.endswith(
        "@settings(deadline=None)\n@given(st.integers(), st.integers())\n"
        "def test_is_commutative(a, b):\n    assert f(a, b) == f(b, a)\n"
    )
    assert not write("pack.mod", frozenset({"f"}), [], Style(width=30), [one])[1], "too long for the project"


CODE = """
import re

def first(text):
    return text[0]

def pattern(text):
    return re.compile(text)

def refuse(text):
    raise IndexError(text)

def convert(text):
    return int(text)
"""


@pytest.mark.parametrize(
    ("call", "documentation", "expected"),
    [
        ("first('')", "", "IndexError"),
        ("first('')", "Raise IndexError when it is empty.", None),
        ("refuse('')", "", None),
        ("convert('x')", "", None),
        ("first(1)", "", None),
    ],
)
def test_a_crash_is_neither_announced_nor_raised_on_purpose(tmp_path, call, documentation, expected):
    path = tmp_path / "mod.py"
    path.write_text(CODE)
    scope = runpy.run_path(str(path))
    with pytest.raises(Exception) as caught:
        eval(call, scope)  # noqa: S307
    assert crash(caught.value, str(tmp_path), documentation) == expected


def test_a_crash_below_the_project_is_one_of_the_project(tmp_path):
    path = tmp_path / "mod.py"
    path.write_text(CODE)
    scope = runpy.run_path(str(path))
    with pytest.raises(Exception) as caught:
        scope["pattern"]("(")
    assert crash(caught.value, str(tmp_path), "").startswith("re.")
    assert crash(caught.value, str(tmp_path / "elsewhere"), "") is None


def test_what_is_refused_while_a_mutant_is_loaded_is_taken_from_the_original(monkeypatch):
    guard = Guard([])
    watcher = types.ModuleType("watcher")
    watcher.look = lambda name: guard.refuse("open") if guard.on else f"version of {name}"
    monkeypatch.setitem(sys.modules, "watcher", watcher)
    source = b"import watcher\nVERSION = watcher.look('a')\n\ndef f(x):\n    return x + 1\n"
    module = types.ModuleType("looked_up")
    module.__file__ = "looked_up.py"
    exec(source, vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, "looked_up", module)
    place = source.index(b"+")
    scope = Source(module, source, guard).mutated(place, place + 1, b"-")
    assert scope is not None
    assert (scope["VERSION"], scope["f"](1)) == ("version of a", 0)
    place = source.index(b"'a'")
    assert Source(module, source, guard).mutated(place, place + 3, b"''") is None, "a mutant that is refused"
