"""Parts of a place beside something that a test notices: functions inside of others, and parameters."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from understudy.judge.places.parts import ignored_parameters, inner_functions
from understudy.model.evidence.checks import Check
from understudy.model.places import untested
from understudy.model.verdicts import Reservation, Verdict

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
BASE = 'def area(w, h):\n    """Return it."""\n    return w * h\n'
ALL = range(1, 100)


def parameters(after: str, before: str = BASE) -> list[tuple[str, str | None]]:
    found = ignored_parameters("a.py", before.encode(), after.encode(), ALL)
    texts = [(name, content and content.decode()) for name, content in found]
    for _, text in texts:
        compile(text or "", "a.py", "exec")
    return [(name, text and text.partition('"""\n')[2].partition("\n")[0].strip()) for name, text in texts]


def test_a_new_parameter_of_an_earlier_function_is_set_to_what_it_is_without_it() -> None:
    after = BASE.replace("w, h", "w, h, *more, strict, scale=1.5, _unused=2, **named")
    assert parameters(after) == [
        ("area(strict)", "strict = __import__('unittest.mock').mock.MagicMock()"),
        ("area(scale)", "scale = 1.5"),
        ("area(more)", "more = ()"),
        ("area(named)", "named = {}"),
    ]
    assert parameters(BASE) == []
    assert ignored_parameters("a.py", BASE.encode(), after.encode(), [3]) == []
    assert ignored_parameters("a.js", BASE.encode(), after.encode(), ALL) == []


def test_of_a_new_function_only_what_nothing_reads_and_no_call_needs_is_named() -> None:
    after = BASE + "\n\nclass Box:\n    def size(self, event, deep=0, wide=1, *rest, **named):\n        return wide\n"
    assert parameters(after) == [("Box.size(deep)", None)]


def test_functions_inside_of_others_have_names() -> None:
    python = b"def a():\n    def b():\n        return 1\n\n    class C:\n        def d(self):\n            return 2\n    return b\n\n\ndef e():\n    return 1\n"
    assert sorted(inner_functions("a.py", python, ALL)) == ["a.C.d", "a.b"]
    assert inner_functions("a.py", python, [3]) == {"a.b": frozenset({2, 3})}
    script = b"function a() {\n  const b = (x) => {\n    return x;\n  };\n  return [1].map((x) => x + 1);\n}\n"
    assert sorted(inner_functions("a.js", script, ALL)) == ["a.b"]


TESTS = "from calc import area, report\n\n\ndef test_calc():\n    assert area(2, 3) == 6\n    assert report(2) == 4\n"
CALC = BASE + "\n\ndef report(n):\n    return n * 2\n"


@pytest.mark.heavy
async def test_what_no_test_notices_beside_something_noticed_is_named(project: Any) -> None:
    project.has({"calc.py": CALC, "test_calc.py": TESTS})
    inner = CALC.replace(
        "    return n * 2\n",
        "    logged = []\n\n    def log(text):\n        logged.append(len(text) * 3)\n\n    log('x')\n    return n * 5\n",
    )
    ignored = CALC.replace("w, h", "w, h, scale=1").replace("w * h\n", "w * h * 2 if scale else w * h * 2\n")
    for code, tests, function in (
        (inner, TESTS.replace("report(2) == 4", "report(2) == 10"), "report"),
        (ignored, TESTS.replace("area(2, 3) == 6", "area(2, 3, scale=1) == 12"), "area"),
    ):
        result = await project.judge({"calc.py": code, "test_calc.py": tests}, recipe="implement", checks=(SUITE,))
        assert Reservation.CHANGE_NOT_TESTED in result.said, result.notes
        [place] = untested(result.places)
        assert place.function == function
        assert "exists and does nothing" in place.why or "is ignored" in place.why


@pytest.mark.heavy
async def test_inner_functions_and_parameters_that_are_tested_are_verified(project: Any) -> None:
    code = CALC + (
        "\n\ndef doubled(function):\n    def wrapper(*args):\n        return function(*args) * 2\n\n    return wrapper\n"
    )
    code = code.replace("w, h", "w, h, scale=1").replace("w * h\n", "w * h * scale\n")
    tests = (
        TESTS
        + "    assert area(2, 3, 4) == 24\n\n\ndef test_doubled():\n    import calc\n\n    assert calc.doubled(abs)(-3) == 6\n"
    )
    project.has({"calc.py": CALC, "test_calc.py": TESTS})
    result = await project.judge({"calc.py": code, "test_calc.py": tests}, recipe="implement", checks=(SUITE,))
    assert result.is_(Verdict.VERIFIED)


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
async def test_an_inner_function_of_a_script_is_named(empty_project: Any) -> None:
    code = "exports.report = (n) => n * 2;\n"
    test = "require('node:test')('report', () => require('node:assert').equal(require('./calc.js').report(2), {}));\n"
    empty_project.has({"calc.js": code, "calc.test.js": test.format(4)})
    more = "exports.report = (n) => {\n  const log = (text) => {\n    return text.length * 3;\n  };\n  log('x');\n  return n * 5;\n};\n"
    edits = {"calc.js": more, "more.test.js": test.format(10), "calc.test.js": None}
    result = await empty_project.judge(edits, recipe="implement", checks=(Check(name="node", argv=["node", "--test"]),))
    assert Reservation.CHANGE_NOT_TESTED in result.said, result.notes
    assert "log" in untested(result.places)[0].why
