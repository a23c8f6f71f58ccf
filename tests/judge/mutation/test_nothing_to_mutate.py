"""Changes in which nothing can be mutated: they are never verified, unless they are only words for people."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
CALC = (
    '"""Calculate."""\nimport math\n\n\ndef add(a, b):\n    if a is None:\n        raise ValueError\n    return a + b\n'
)
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
BASE = {
    "calc.py": CALC,
    "test_calc.py": TEST,
    "README.md": "# Calc\n",
    "table.json": "{}\n",
    "run.sh": "exit 0\n",
    "app.py": "TEXT = open('prompt.md').read()\n",
    "prompt.md": "Be kind.\n",
    "pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n',
}


async def judged(project: Any, edits: dict[str, Any]) -> Any:
    project.has(BASE)
    return await project.judge(edits, recipe="implement", checks=(SUITE,))


@pytest.mark.parametrize(
    ("edits", "places"),
    [
        pytest.param({"calc.py": CALC + "\n\ndef mul(a, b):\n    pass\n"}, "calc.py:9", id="empty function"),
        pytest.param({"calc.py": CALC + "\n\ndef mul(a, b): ...\n"}, "calc.py:9", id="ellipsis"),
        pytest.param({"calc.py": CALC + "\n\nmul = add\n"}, "calc.py:9", id="alias"),
        pytest.param({"calc.py": "from operator import mul\n" + CALC}, "calc.py:1", id="import"),
        pytest.param({"more.py": "from calc import add\n"}, "more.py", id="new file of imports"),
        pytest.param(
            {"calc.py": "import functools\n" + CALC.replace("def add(", "@functools.cache\ndef add(")},
            "calc.py:1, calc.py:6",
            id="decorator",
        ),
        pytest.param({"calc.py": CALC.replace("def add(a,", "def add(a: int,")}, "calc.py:5", id="type"),
        pytest.param(
            {"calc.py": CALC.replace("    if a is None:\n        raise ValueError\n", "")},
            "calc.py:6 (removed)",
            id="removed validation",
        ),
        pytest.param({"app.py": None}, "app.py (removed)", id="removed file"),
        pytest.param({"calc.go": "package calc\n\nvar Mul = Add\n"}, "calc.go", id="another language"),
        pytest.param({"lib.rs": "pub use crate::add;\n"}, "lib.rs", id="re-export"),
    ],
)
async def test_code_without_mutants_is_not_verified(project: Any, edits: dict[str, Any], places: str) -> None:
    result = await judged(project, edits)
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert result.notes.count(f": {places}") == 1, result.notes


@pytest.mark.parametrize(
    ("edits", "files"),
    [
        pytest.param({"table.json": '{"a": 1}\n'}, "table.json", id="data"),
        pytest.param({"run.sh": "exit 0 # \n"}, "run.sh", id="shell"),
        pytest.param({"query.sql": "DROP TABLE users;\n", "README.md": "# SQL\n"}, "query.sql", id="SQL"),
        pytest.param({"add.c": "int add(int a, int b) { return 0; }\n"}, "add.c", id="C"),
        pytest.param({"prompt.md": "Be rude.\n"}, "prompt.md", id="a text that a program reads"),
        pytest.param({"pages/index.md": "# Home\n"}, "pages/index.md", id="a text in another folder"),
        pytest.param({"pyproject.toml": BASE["pyproject.toml"].replace('"1"', '"2"')}, "pyproject.toml", id="version"),
        pytest.param({"test_calc.py": TEST.replace("== 3", "== 3 != 4")}, "test_calc.py", id="only tests"),
    ],
)
async def test_other_files_are_not_verified(project: Any, edits: dict[str, str], files: str) -> None:
    result = await judged(project, edits)
    assert result.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    assert f": {files}." in result.notes


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({"README.md": "# Calc\n\nIt adds.\n"}, id="README"),
        pytest.param({"docs/use.md": "# Use\n", "LICENSE": "Free.\n"}, id="new documentation"),
        pytest.param({"README.md": None}, id="removed documentation"),
        pytest.param({"calc.py": CALC.replace("Calculate.", "Calculate numbers.")}, id="docstring"),
        pytest.param({"calc.py": CALC.replace("    return a", "    # The sum.\n    return a")}, id="comment"),
        pytest.param({"pkg/__init__.py": ""}, id="empty package"),
    ],
)
async def test_words_for_people_are_verified(project: Any, edits: dict[str, str | None]) -> None:
    assert (await judged(project, edits)).is_(Verdict.VERIFIED)
