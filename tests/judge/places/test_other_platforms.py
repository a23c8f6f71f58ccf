"""Code that this machine does not run, or does not build."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from understudy.model.evidence.checks import Check
from understudy.model.places import untested
from understudy.model.verdicts import Reservation
from understudy.mutants.generate import mutants_of

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "if sys.platform == 'win32':\n    a = 1\nelif os.name == 'nt':\n    a = 2\nelse:\n    a = 3\n"),
        ("a.js", "if (process.platform === 'win32') {\n  a = 1;\n} else {\n  a = 2;\n}\n"),
    ],
)
def test_only_the_condition_that_asks_for_the_platform_is_left_alone(path: str, text: str) -> None:
    changed = {mutant.line for mutant in mutants_of(path, text.encode())}
    assert changed == {number for number, line in enumerate(text.splitlines(), 1) if "a = " in line}
    assert not mutants_of("a.py", b"if __name__ == '__main__':\n    a = 1\n")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "added",
    [
        "    if sys.platform == 'win32':\n        return a * b + 1\n",
        "    if os.name == 'nt':\n        remove(a, 1)\n",
    ],
)
async def test_code_for_another_platform_beside_a_tested_change_is_named(project: Any, added: str) -> None:
    code = "import os\nimport sys\n\n\ndef mul(a, b):\n    return 0\n"
    test = "from calc import mul\n\n\ndef test_mul():\n    assert mul(0, 3) == {}\n"
    project.has({"calc.py": code, "test_calc.py": test.format(0)})
    edits = {
        "calc.py": code.replace("    return 0\n", f"{added}    return a * b + b\n"),
        "test_more.py": test.format(3).replace("test_mul", "test_more"),
    }
    edits["test_calc.py"] = test.format(3)
    result = await project.judge(edits, recipe="implement", checks=(SUITE,))
    assert Reservation.CHANGE_NOT_TESTED in result.said, (result.said, result.places)


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
async def test_a_file_of_go_that_is_not_built_is_named(empty_project: Any) -> None:
    code = "package calc\n\nfunc Double(a int) int {\n\treturn a * 2\n}\n"
    test = 'package calc\n\nimport "testing"\n\nfunc TestDouble(t *testing.T) {\n\tif Double(4) != 8 {\n\t\tt.Fatal(Double(4))\n\t}\n}\n'
    empty_project.has({"go.mod": "module calc\n\ngo 1.19\n", "calc.go": code, "calc_test.go": test})
    triple = code.replace("Double", "Triple").replace("* 2", "* 3")
    edits = {
        "calc.go": code + triple.removeprefix("package calc\n"),
        "triple_test.go": test.replace("Double", "Triple").replace("8", "12"),
        "calc_windows.go": code.replace("Double", "Half").replace("* 2", "/ 2"),
        "tagged.go": "//go:build never\n\npackage calc\n\nvar Mul = Double\n",
    }
    check = Check(name="suite", argv=["go", "test", "./..."])
    result = await empty_project.judge(edits, recipe="implement", checks=(check,))
    assert {place.path for place in untested(result.places)} == {"calc_windows.go", "tagged.go"}, result.places
