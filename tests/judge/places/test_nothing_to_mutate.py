"""Changes in which nothing can be mutated: they are never verified, unless they are only words for people."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.model.evidence.checks import Check
from understudy.model.places import PlaceEvidence, untested
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


CODE = {
    "empty.py": CALC + "\n\ndef mul(a, b):\n    pass\n",
    "ellipsis.py": CALC + "\n\ndef mul(a, b): ...\n",
    "alias.py": CALC + "\n\nmul = add\n",
    "imports.py": "from app import TEXT\n" + CALC,
    "decorator.py": "import functools\n" + CALC.replace("def add(", "@functools.cache\ndef add("),
    "type.py": CALC.replace("def add(a,", "def add(a: int,"),
    "removed.py": CALC.replace("    if a is None:\n        raise ValueError\n", ""),
}
"""Changes of a file in which no small change can be made; new and removed files, and other languages, are below."""


def named(result: Any) -> list[str]:
    """Each place without evidence, and which of the three it is."""
    return sorted(
        f"{place.path}:{place.line}{' (removed)' if not place.lines else ''} {place.evidence}"
        for place in untested(result.places)
    )


@pytest.mark.parametrize(
    ("edits", "places"),
    [
        pytest.param(
            {name: CODE[name] for name in ("empty.py", "ellipsis.py", "alias.py")},
            ["alias.py:9 unnoticed", "ellipsis.py:9 unnoticed", "empty.py:9 unnoticed"],
            id="additions",
        ),
        pytest.param(
            {name: CODE[name] for name in ("imports.py", "decorator.py")},
            ["decorator.py:1 unnoticed", "decorator.py:6 unnoticed", "imports.py:1 unnoticed"],
            id="imports and decorators",
        ),
        pytest.param(
            {"removed.py": CODE["removed.py"], "app.py": None},
            ["app.py:1 (removed) unnoticed", "removed.py:6 (removed) unnoticed"],
            id="removals",
        ),
        pytest.param(
            {
                "more.py": "from calc import add\n",
                "calc.go": "package calc\n\nvar Mul = Add\n",
                "lib.rs": "pub use crate::add;\n",
                "load.go": 'package calc\n\nimport _ "embed"\n',
                "types.ts": "import type { A } from './a';\n\nexport interface Box {\n  size: A;\n}\n",
                "words.rs": "use crate::add;\n",
            },
            ["calc.go:3 unnoticed", "lib.rs:1 unnoticed", "load.go:1 unnoticed", "more.py:1 unnoticed"],
            id="new files",
        ),
        pytest.param(
            {
                "table.json": '{"a": 1}\n',
                "run.sh": "exit 0 # \n",
                "query.sql": "DROP TABLE users;\n",
                "README.md": "# SQL\n",
            },
            ["query.sql:1 unlooked", "run.sh:1 unlooked", "table.json:1 unlooked"],
            id="data, shell and SQL",
        ),
        pytest.param(
            {"add.c": "int add(int a, int b) { return 0; }\n", "prompt.md": "Be rude.\n", "pages/index.md": "# Home\n"},
            ["add.c:1 unnoticed", "pages/index.md:1 unlooked", "prompt.md:1 unlooked"],
            id="C, a text that a program reads, and one in another folder",
        ),
        pytest.param(
            {
                "pyproject.toml": BASE["pyproject.toml"].replace('"1"', '"2"'),
                "test_calc.py": TEST.replace("== 3", "== 3 != 4"),
            },
            ["pyproject.toml:3 unlooked"],
            id="version and tests",
        ),
    ],
)
async def test_what_no_test_notices_is_not_verified(project: Any, edits: dict[str, Any], places: list[str]) -> None:
    project.has(dict.fromkeys(CODE, CALC))
    result = await judged(project, edits)
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert named(result) == places


ONLY_EXISTS = {
    "empty": "\n\ndef mul(a, b):\n    pass\n",
    "wrong": "\n\ndef mul(a, b):\n    return a - b\n",
    "alias": "\n\nmul = add\n",
    "class": "\n\nclass mul:\n    def __init__(self, a, b):\n        pass\n",
}


@pytest.mark.parametrize("added", ONLY_EXISTS.values(), ids=ONLY_EXISTS)
@pytest.mark.parametrize(
    "test",
    [
        pytest.param("import calc\n\n\ndef test_mul():\n    calc.mul(2, 3)\n", id="an attribute"),
        pytest.param("from calc import mul\n\n\ndef test_mul():\n    mul(2, 3)\n", id="an import"),
    ],
)
async def test_a_test_that_only_calls_what_was_added_shows_that_it_exists_and_nothing_else(
    project: Any, added: str, test: str
) -> None:
    """Without the function the test fails, as with any function of that name it passes."""
    result = await judged(project, {"calc.py": CALC + added, "test_mul.py": test})
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert named(result)[0].startswith("calc.py:")


KEPT = {
    "in the folder for temporary files": "pathlib.Path(tempfile.gettempdir(), 'kept')",
    "in a cache of the home": "pathlib.Path.home() / '.cache' / 'kept' / 'table'",
    "in a cache that a variable names": "pathlib.Path(os.environ.get('XDG_CACHE_HOME', '~')).expanduser() / 'kept'",
}


@pytest.mark.parametrize("kept", [pytest.param(KEPT[name], id=name, marks=pytest.mark.heavy) for name in KEPT])
async def test_a_snapshot_that_a_test_writes_itself_is_no_evidence(
    project: Any, kept: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    test = (
        "import os, pathlib, tempfile\n\n\ndef test_table():\n    table = pathlib.Path('table.json').read_text()\n"
        f"    kept = {kept}\n    kept.parent.mkdir(parents=True, exist_ok=True)\n    if not kept.exists():\n"
        "        kept.write_text(table)\n    assert kept.read_text() == table\n"
    )
    result = await judged(project, {"table.json": '{"a": 1}\n', "test_table.py": test})
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert named(result) == ["table.json:1 unlooked"]


@pytest.mark.heavy
async def test_a_test_that_needs_a_file_of_the_home_notices_nothing_in_an_empty_one(
    project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / ".calcrc").write_text("1")
    monkeypatch.setenv("HOME", str(tmp_path))
    test = "import pathlib\n\n\ndef test_settings():\n    assert (pathlib.Path.home() / '.calcrc').read_text() == '1'\n"
    result = await judged(project, {"table.json": '{"a": 1}\n', "test_table.py": test})
    assert Reservation.CHANGE_NOT_TESTED in result.said
    assert named(result) == ["table.json:1 unlooked"]


async def test_a_function_of_a_script_that_is_only_called_is_not_verified(project: Any) -> None:
    code = "exports.add = (a, b) => a + b;\n"
    test = "require('node:test')('mul', () => require('./calc.js').{});\n"
    project.has({"calc.js": code, "calc.test.js": test.format("add(1, 2)")})
    edits = {"calc.js": code + "exports.mul = (a, b) => {};\n", "mul.test.js": test.format("mul(2, 3)")}
    result = await project.judge(edits, recipe="implement", checks=(Check(name="node", argv=["node", "--test"]),))
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert named(result) == ["calc.js:2 unnoticed"]


async def test_a_test_that_looks_at_what_was_added_is_enough(project: Any) -> None:
    """The aliases and the import have no mutants."""
    edits = {
        "calc.py": CALC.replace("import math\n", "import math\nimport os\n") + "\n\nmul = add\nsep = os.sep\n",
        "test_mul.py": "import calc\n\n\ndef test_mul():\n    assert calc.mul(2, 3) == 5\n    assert calc.sep == '/'\n",
    }
    assert (await judged(project, edits)).is_(Verdict.VERIFIED)


async def test_a_result_of_tests_alone_is_not_verified(project: Any) -> None:
    result = await judged(project, {"test_calc.py": TEST.replace("== 3", "== 3 != 4")})
    assert result.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    assert "Only tests and their files changed" in result.notes


async def test_comments_that_hide_code_only_together_are_no_words_for_people(project: Any) -> None:
    """Each of the two begins a comment that the last line ends; without one of them, the other one still does."""
    code = "exports.add = (a, b) => a + b;\n{}\n{}exports.check = require('assert');\n/* The end\n */\n"
    project.has({"calc.js": code.format("", "")})
    result = await judged(project, {"calc.js": code.format("/*\n", "/*\n")})
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert named(result) == ["calc.js:2 unnoticed", "calc.js:4 unnoticed"]


async def test_words_for_people_are_verified(project: Any) -> None:
    """A README, new and removed documentation, a docstring, a comment, an annotation and an empty package."""
    edits = {
        "README.md": "# Calc\n\nIt adds.\n",
        "docs/use.md": "# Use\n",
        "LICENSE": "Free.\n",
        "CONTRIBUTING.md": None,
        "calc.py": CALC.replace("Calculate.", "Calculate numbers.").replace(
            "    return a", "    # The sum.\n    return a"
        ),
        "pkg/__init__.py": "",
        "type.py": CODE["type.py"],
    }
    project.has({"CONTRIBUTING.md": "# Help\n", "type.py": CALC})
    assert (await judged(project, edits)).is_(Verdict.VERIFIED)


async def test_a_moved_test_is_the_same_test(project: Any) -> None:
    result = await judged(project, {"test_calc.py": None, "tests/test_calc.py": TEST})
    assert result.is_(Verdict.VERIFIED)
    [place] = result.places
    assert (place.evidence, place.why) == (PlaceEvidence.SAME, "the same tests in another file")


async def test_docstrings_that_a_library_reads_run(project: Any) -> None:
    """With docopt, the docstring is the command line; with ply, it is the grammar."""
    project.has({"tool.py": '"""Usage: tool FILE"""\n\nimport docopt\n\n\ndef main():\n    docopt.docopt(__doc__)\n'})
    edits = {"tool.py": '"""Usage: tool"""\n\nimport docopt\n\n\ndef main():\n    docopt.docopt(__doc__)\n'}
    edits["calc.py"] = CALC.replace("Calculate.", "Calculate numbers.")
    result = await judged(project, edits)
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert named(result) == ["calc.py:1 unnoticed", "tool.py:1 unnoticed"]
