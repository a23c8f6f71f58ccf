"""Places: hunks divided by functions, and files in which some of them are undone."""

from __future__ import annotations

import msgspec
import pytest
from file_differences import file_difference
from hypothesis import given
from hypothesis import strategies as st

from understudy.judge.places.changed_places import Place, is_same_module, only_named_again, places_of, unbound, undone
from understudy.judge.places.changed_places import tested_by as lines_of_tests
from understudy.model.hunks import FileDiff

CALC = b"import os\n\n\ndef add(a, b):\n    return a + b\n\n\nclass Box:\n    size = 1\n\n    def area(self):\n        return 2\n"


def places(
    before: bytes | None, after: bytes | None, *, path: str = "calc.py", source: str | None = None
) -> list[Place]:
    return places_of([file_difference(path, before, after, source=source)], lambda _: before, lambda _: after)


def test_a_new_file_has_a_place_for_each_function() -> None:
    found = [(place.function, place.new) for place in places(None, CALC)]
    assert found == [("", (0, 3)), ("add", (3, 5)), ("Box", (5, 8)), ("Box.size", (8, 9)), ("Box.area", (9, 12))]


def test_a_hunk_across_functions_is_divided_and_a_renamed_function_is_one_place() -> None:
    after = CALC.replace(b"def add(a, b):\n    return a + b\n", b"def plus(a, b):\n    return b + a\n")
    assert [(place.function, place.old, place.new) for place in places(CALC, after)] == [("plus", (3, 5), (3, 5))]
    both = CALC.replace(b"return a + b\n\n\nclass Box:\n    size = 1\n", b"return a\n\n\nclass Box:\n    size = 2\n")
    assert [(place.function, place.old) for place in places(CALC, both)] == [("add", (4, 5)), ("Box.size", (8, 9))]
    file = FileDiff(
        path="calc.py",
        status="modified",
        binary=False,
        hunks=[msgspec.structs.replace(file_difference("calc.py", CALC, both).hunks[0], old_lines=5, new_lines=5)],
    )
    parts = places_of([file], lambda _: CALC, lambda _: both)
    assert [(place.function, place.old, place.new) for place in parts] == [
        ("add", (4, 5), (4, 5)),
        ("Box", (5, 8), (5, 8)),
        ("Box.size", (8, 9), (8, 9)),
    ]


def test_a_place_is_tested_by_what_runs_its_lines_or_the_function_around_it() -> None:
    """Outside of functions, every test that loads the file runs it; removed functions are tested by any line."""
    longer = CALC.replace(b"return a + b\n", b"c = a + b\n    return c\n")
    whole = (1, CALC.count(b"\n") + 1, "")
    for before, after, expected in (
        (CALC, longer, (5, 6, "add")),
        (longer, CALC.replace(b"return a + b", b"return c"), (5, 5, "add")),
        (longer, longer.replace(b"    return c\n", b""), (5, 5, "add")),
        (CALC, CALC.replace(b"def add(a, b)", b"def add(a, b=1)"), (5, 5, "add")),
        (CALC, CALC.replace(b"import os", b"import sys"), (1, 1, "")),
        (CALC.replace(b"import os\n", b"import os\ndef gone():\n    return 1\n"), CALC, whole),
    ):
        [place] = places(before, after)
        assert lines_of_tests(place, after) == expected, place


def test_whole_files_are_undone_as_files() -> None:
    for before, after, path in ((None, b"a,b\n", "a.csv"), (CALC, None, "calc.py")):
        found = places(before, after, path=path)
        assert undone(found, lambda _, before=before: before, lambda _, after=after: after) == {path: None}
    renamed = places(CALC, CALC + b"\n", path="b.py", source="a.py")
    assert undone(renamed, lambda _: CALC, lambda _: CALC + b"\n") == {"b.py": None, "a.py": None}


def test_lines_that_end_with_a_carriage_return_are_counted_as_git_and_as_python_do() -> None:
    """Python sees five lines here, git three."""
    after = b"import a\r\rb = 1\nx = 2\n\ry = 3\n"
    [place] = places(b"import a\r\rb = 1\n\ry = 3\n", after)
    assert (place.new, unbound(place, after)) == (
        (1, 2),
        [("x", b"import a\r\rb = 1\nx = 2\nx = None\n\ry = 3\n")],
    )


GO = b"package a\n\nfunc Clamp(x int) int {\n\treturn round(x)\n}\n"


@pytest.mark.parametrize(
    ("after", "only"),
    [
        (GO.replace(b"Clamp", b"Limit"), True),
        (GO.replace(b"Clamp(x int)", b"Limit(x int64)"), False),
        (GO.replace(b"round", b"ceil"), False),
        (GO.replace(b"Clamp", b"Limit") + b"\nfunc Clamp() {}\n", False),
        (GO.replace(b"Clamp", b"round"), False),
        (GO.replace(b"func Clamp", b"type Limit"), False),
    ],
)
def test_a_definition_under_another_name(after: bytes, only: bool) -> None:
    first, *_ = places(GO, after, path="a.go")
    assert only_named_again(first, GO, after) is only


@pytest.mark.parametrize(
    ("source", "path", "before", "after", "same"),
    [
        ("a/calc.py", "a/calc/__init__.py", CALC, CALC, True),
        ("calc/__init__.py", "calc.py", CALC, CALC, True),
        ("calc.py", "calc/__init__.py", CALC, CALC + b"x = 1\n", False),
        ("calc.py", "lib/__init__.py", CALC, CALC, False),
        ("calc.py", "calc/__init__.py", CALC + b"print(__file__)\n", CALC + b"print(__file__)\n", False),
        ("calc.py", "calc/__init__.py", b"from . import a\n", b"from . import a\n", False),
        ("calc.txt", "calc/__init__.py", CALC, CALC, False),
        (None, "calc.py", CALC, CALC, False),
    ],
)
def test_a_module_that_became_a_package(source: str | None, path: str, before: bytes, after: bytes, same: bool) -> None:
    assert is_same_module(Place("h", path, source, True, (0, 0), (0, 0)), before, after) is same


def test_a_function_of_which_only_the_head_changed_is_bound_to_nothing() -> None:
    after = CALC.replace(b"def add", b"def plus")
    [place] = places(CALC, after)
    assert unbound(place, after) == [("plus", after.replace(b"a + b\n", b"a + b\nplus = None\n"))]


def test_a_file_of_the_base_that_is_too_large_is_undone_as_a_whole() -> None:
    found = places_of([file_difference("calc.py", CALC, b"# Empty\n")], lambda _: None, lambda _: b"# Empty\n")
    assert {place.whole for place in found} == {True}
    assert undone(found, lambda _: None, lambda _: b"# Empty\n") == {"calc.py": None}


LINES = st.lists(
    st.sampled_from(
        [
            "import a\n",
            "\n",
            "def f():\n",
            "    return 1\n",
            "    return 2\n",
            "class C:\n",
            "    def m(self):\n",
            "        pass\n",
        ]
    ),
    max_size=12,
)


@given(LINES, LINES)
def test_undoing_all_places_gives_the_base_and_every_line_has_one_place(old: list[str], new: list[str]) -> None:
    before, after = "".join(old).encode(), "".join(new).encode()
    found = places(before, after)
    contents = undone(found, lambda _: before, lambda _: after)
    assert contents.get("calc.py", after) == before
    lines = [line for place in found for line in place.lines]
    assert (
        len(lines) == len(set(lines)) == sum(hunk.new_lines for hunk in file_difference("calc.py", before, after).hunks)
    )
    removed = [line for place in found for line in place.removed]
    assert (
        len(removed)
        == len(set(removed))
        == sum(hunk.old_lines for hunk in file_difference("calc.py", before, after).hunks)
    )
