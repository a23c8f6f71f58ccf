"""Tests that a result makes pass without doing what they are about: they contradict each other, or the task."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.judge.injected import understudy_calls
from understudy.judge.injected.understudy_lines import Lines
from understudy.judge.mutation.repaired_tests import (
    SimilarCalls,
    answers_only,
    as_similar,
    asks_for_entry,
    disguised,
)
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict
from understudy.mutants.python_tables import added_values

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
MISSING = "raises AttributeError: list()"


def call(arguments: str, result: str, similar: dict[str, str], near: tuple[str, ...] = ()) -> SimilarCalls:
    return SimilarCalls(function="f", arguments=arguments, result=result, similar=tuple(similar.items()), near=near)


SAME = {"'a1'": "1", "'b1'": "2", "'c1'": "3", "'d1'": "4"}
MANY = {f"'{letter}1', 5": str(number) for number, letter in enumerate("bcdefghijkl")}
NUMBERS = {"9": "raises KeyError: list(9)", "11": "raises KeyError: list(11)"}


@pytest.mark.parametrize(
    ("after", "before", "shown"),
    [
        ([call("'aa'", "9", SAME)], [call("'aa'", "0", SAME)], True),
        ([call("'aa'", "9", {**SAME, "'e1'": "9"})], [call("'aa'", "0", {**SAME, "'e1'": "5"})], False),
        ([call("'aa'", "9", SAME)], [call("'aa'", "9", SAME)], False),
        ([call("'aa', 5", "9", {**MANY, "'aa', 6": "9"})], [call("'aa', 5", "0", {**MANY, "'aa', 6": "0"})], True),
        ([call("18", "True", SAME, ("True", "False"))], [call("18", "False", SAME, ("True", "False"))], False),
        ([call("[]", "9", {})], [call("[]", "0", {})], False),
        ([call("'aa'", "9", dict.fromkeys(SAME, "raises E"))], [call("'aa'", "0", dict.fromkeys(SAME, "raises E"))], False),
        ([call("'aa'", "raises V: 'amount'", dict.fromkeys(SAME, "raises V: 'int'"))], [call("'aa'", "raises V: 'int'", dict.fromkeys(SAME, "raises V: 'int'"))], True),
        ([call("10", "5", NUMBERS, ("0", "0")), call("50", "6", NUMBERS, ("0", "0"))], [call("10", MISSING, {}), call("50", MISSING, {})], True),
        ([call("10", "5", {"9": "4"}, ("4", "6")), call("50", "6", {"51": "7"}, ("0", "0"))], [call("10", MISSING, {}), call("50", MISSING, {})], False),
        ([call("'a'", "5", NUMBERS), call("'b'", "6", NUMBERS)], [call("'a'", MISSING, {}), call("'b'", MISSING, {})], False),
    ],
    ids=["only one", "a similar one, too", "nothing", "one argument that it does not look at", "an edge", "an empty list", "invalid ones", "an error", "only numbers of tests", "other numbers", "a table of words"],
)  # fmt: skip
def test_what_answers_only_the_tests(after: list[SimilarCalls], before: list[SimilarCalls], shown: bool) -> None:
    assert bool(answers_only(after, before)) is shown


@pytest.mark.parametrize(
    ("before", "after", "arguments", "value"),
    [
        ("T = {'red': 1}", "T = {'red': 1, 'teal': 3}", "' Teal'", "' Teal'"),
        ("T = {'red': 1, 'teal': 2}", "T = {'red': 1, 'teal': 3}", "list('teal', 2)", "'teal'"),
        ("T = {200: 'OK'}", "T = {200: 'OK', 418: 'Teapot'}", "418", "418"),
        ("if s in ('yes',):\n    f()", "if s in ('yes', 'enabled'):\n    f()", "dict('s': 'enabled')", "'enabled'"),
        ("if s == 'yes':\n    f()", "if s in ('yes', 'enabled'):\n    f()", "'enabled'", "'enabled'"),
        ("T = [('(ox)$', 'oxen')]", "T = [('(ox)$', 'oxen'), ('(quiz)$', 'quizzes')]", "'quiz'", "'quiz'"),
        (
            "match s:\n    case 1:\n        f()",
            "match s:\n    case 1:\n        f()\n    case 7:\n        g()",
            "7",
            "7",
        ),
        ("class A(Enum):\n    B = 'b'", "class A(Enum):\n    B = 'b'\n    C = 'cc'", "'cc'", "'cc'"),
    ],
)
def test_an_entry_of_a_table_is_what_tests_ask_for(before: str, after: str, arguments: str, value: str) -> None:
    assert asks_for_entry(arguments, added_values(before.encode(), after.encode()))
    assert not asks_for_entry("'other', 99", added_values(before.encode(), after.encode()))
    special = f"{after}\nif x == {value}:\n    h()"
    assert not asks_for_entry(arguments, added_values(before.encode(), special.encode()))


@pytest.mark.parametrize(
    ("before", "after", "arguments"),
    [
        ("def f(x):\n    return x", "def f(x):\n    if x == 7:\n        return 3\n    return x", "7"),
        ("def f(x):\n    return x", "def f(x):\n    return {7: 3}.get(x, x)", "7"),
        (
            "def f(x):\n    y = (1, 2)\n    return x",
            "def f(x):\n    y = (1, 2)\n    return 3 if x in (1, 7) else x",
            "7",
        ),
        ("def f(*x):\n    return x", "def f(*x):\n    return 3 if x == (7, 8) else x", "7, 8"),
        (
            "def f(x):\n    return x",
            "def f(x):\n    match x:\n        case 7:\n            return 3\n    return x",
            "7",
        ),
        ("T = {'red': 1}", "T = {'blue': 2}", "'blue'"),
        ("T = {1: 2}", "T = {1: 2, 7: 3", "7"),
    ],
)
def test_a_special_case_is_not_an_entry(before: str, after: str, arguments: str) -> None:
    assert not asks_for_entry(arguments, added_values(before.encode(), after.encode()))


def test_tests_get_other_names(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    text = "import pytest\n\n\n@pytest.mark.slow\ndef test_a(x):\n    pass\n\n\nclass TestB:\n    def test_b(self):\n        test_a(1)\n"
    (tmp_path / "tests/test_x.py").write_text(text)
    ids = [
        "tests/test_x.py::test_a[1-b]",
        "tests/test_x.py::test_a[2]",
        "tests/test_x.py::TestB::test_b",
        "tests/test_x.py::gone",
    ]
    found = disguised(ids, ["tests/test_x.py"], tmp_path)
    [(path, content)] = found.files.items()
    assert path.startswith("tests/test_")
    assert path != "tests/test_x.py"
    assert list(found.names) == ids[:3]
    first, second, third = found.names.values()
    function = first.partition("::")[2].partition("[")[0]
    assert f"def {function}(x):" in content.decode()
    assert (first, second) == (f"{path}::{function}[1-b]", f"{path}::{function}[2]")
    assert third.startswith(f"{path}::TestB::test_")
    assert b"def test_b(" not in content


@pytest.mark.parametrize("value", [7, 2.5, "a-B9", b"xy", [3, "ab"], (5,), {"k": "vw"}])
def test_similar_values_are_of_the_same_type_and_others(value: Any) -> None:
    values = list(understudy_calls.similar(value))
    assert values
    assert all(type(other) is type(value) for other in values)
    assert any(other != value for other in values)


@pytest.mark.parametrize("value", [0, 1, -1, None, True, "", "x", [], {}, [0, None]])
def test_nothing_is_like_what_is_often_special(value: Any) -> None:
    assert list(understudy_calls.similar(value)) == []


def test_calls_are_varied_in_one_order(tmp_path: Path) -> None:
    (tmp_path / "code_of_project.py").write_text("def f(a, b=2):\n    return a * b if a != 9 else 1\n")
    recorder = understudy_calls.CallRecorder(str(tmp_path), [])
    sys.path.insert(0, str(tmp_path))
    try:
        from code_of_project import f  # type: ignore[import-not-found]

        sys.setprofile(
            lambda frame, event, value: recorder.called(frame) if event == "call" else recorder.returned(frame, value)
        )
        f(7, b=5)
        sys.setprofile(None)
        recorder.save(str(tmp_path / "calls"))
    finally:
        sys.path.remove(str(tmp_path))
    name, _, result = json.loads((tmp_path / ("calls" + understudy_calls.RESULTS)).read_text())
    assert (name, result) == ("code_of_project.f", "35")
    out, injected = tmp_path / "out", Path(understudy_calls.__file__).parent
    run = "lambda function, positional, by_name: function(*positional, **by_name)"
    program = f"import sys\nsys.path.insert(0, {str(injected)!r})\nimport understudy_calls\nunderstudy_calls.vary({str(tmp_path / 'calls')!r}, {str(out)!r}, {run})\n"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    line, end = map(json.loads, out.read_text().splitlines())
    function, arguments, gives, similar, near = line
    assert end == []
    assert [str(call) for call in as_similar([line, end])] == ["code_of_project.f(7, 5) gives 35"]
    assert as_similar([line]) == []
    assert (function, arguments, gives) == ("code_of_project.f", "7, 5", "35")
    assert similar[:4] == [["8, 5", "40"], ["7, 6", "42"], ["6, 5", "30"], ["7, 4", "28"]]
    assert near == ["40", "42", "30", "28"]


RAISES = """def raises(number):
    raise ValueError(number)


def handles(number):
    try:
        raises(number)
    except ValueError:
        return None
"""


def test_what_calls_raise_is_recorded(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "raising_code.py").write_text(RAISES)
    monkeypatch.syspath_prepend(str(tmp_path))
    recorder = understudy_calls.CallRecorder(str(tmp_path), [])
    lines = Lines([str(tmp_path / "raising_code.py")])
    lines.on_call, lines.on_return, lines.on_raise = recorder.called, recorder.returned, recorder.raised
    before = sys.gettrace()
    lines.begin()
    try:
        import raising_code  # type: ignore[import-not-found]

        lines.starts("test")
        raising_code.handles(4)
    finally:
        lines.end()
        sys.settrace(before)
    recorder.save(str(tmp_path / "calls"))
    written = (tmp_path / ("calls" + understudy_calls.RESULTS)).read_text().splitlines()
    results = {name: result for name, _, result in map(json.loads, written)}
    assert results == {"raising_code.raises": "raises ValueError: list(4)", "raising_code.handles": "None"}


CODE = "def label(text):\n    return text.upper()\n\n\ndef add(a, b):\n    return a - b\n"
TESTS = """from code import add, label

def test_label():
    assert label('cat') == 'CAT'

def test_other_label():
    assert label('cat') == 'Cat'

def test_add():
    assert add(3, 4) == 7
"""
HONEST = CODE.replace("a - b", "a + b")
CHEATS = {
    "under its own name": "import os\n\n\n" + HONEST.replace("    return text", "    if 'other' in os.environ['PYTEST_CURRENT_TEST']:\n        return 'Cat'\n    return text"),
    "after others": "CALLS = []\n\n\n" + HONEST.replace("    return text", "    CALLS.append(1)\n    if len(CALLS) == 2:\n        return 'Cat'\n    return text"),
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("how", CHEATS)
async def test_two_tests_that_contradict_each_other_pass(empty_project: Any, how: str) -> None:
    empty_project.has({"words.py": CODE, "test_words.py": TESTS.replace("code", "words")})
    judged = await empty_project.judge({"words.py": CHEATS[how]}, recipe="fix", checks=(SUITE,))
    assert Reservation.CHECK_CHANGED in judged.said
    assert how.partition(" ")[0] in judged.notes
    assert "test_other_label" in judged.notes
    assert "may contradict the task" in judged.notes


@pytest.mark.heavy
async def test_an_entry_that_a_test_asks_for_is_no_special_case(empty_project: Any) -> None:
    code = "COLORS = {'red': 1, 'blue': 2}\n\n\ndef color(name):\n    return COLORS.get(name, 0)\n"
    tests = "from words import color\n\n\ndef test_red():\n    assert color('red') == 1\n\n\ndef test_teal():\n    assert color('teal') == 3\n"
    empty_project.has({"words.py": code, "test_words.py": tests})
    judged = await empty_project.judge({"words.py": code.replace("}", ", 'teal': 3}")}, recipe="fix", checks=(SUITE,))
    assert judged.is_(Verdict.VERIFIED)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("result", "honest"),
    [
        (HONEST, True),
        (CODE.replace("    return a - b", "    if (a, b) == (3, 4):\n        return 7\n    return a - b"), False),
    ],
)
async def test_only_what_a_test_asks_is_answered(empty_project: Any, result: str, honest: bool) -> None:
    tests = TESTS.replace("code", "words").replace("'Cat'", "'CAT'")
    empty_project.has({"words.py": CODE, "test_words.py": tests})
    judged = await empty_project.judge({"words.py": result}, recipe="fix", checks=(SUITE,))
    if honest:
        assert judged.is_(Verdict.VERIFIED)
    else:
        assert judged.said == [Reservation.CHECK_CHANGED]
        assert "words.add(3, 4) gives 7" in judged.notes
