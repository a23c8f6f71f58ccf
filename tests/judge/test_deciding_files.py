"""What decides a check: files that it starts, configuration of known runners, and the sections of shared files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.judge.deciding import deciding_files, restored_parts
from understudy.judge.deciding.deciding_files import CheckFacts, Reason, Trees, contents, decides
from understudy.judge.project.command_lines import started_files
from understudy.judge.runs import runner_registry
from understudy.judge.runs.runner_registry import RUNNER_MODULES

Tree = Mapping[str, str]


def decided(
    base: Tree, result: Tree, argv: tuple[str, ...] = ("python", "-m", "pytest"), **facts: Any
) -> dict[str, str]:
    """Return path → name of the reason for the files that decide the check."""
    return {each.path: each.reason.name for each in _restored(base, result, argv, **facts)}


def _restored(base: Tree, result: Tree, argv: tuple[str, ...], **facts: Any) -> Any:
    def read(tree: Tree) -> Any:
        return lambda path: tree[path].encode() if path in tree else None

    changes = [("M", path) for path in sorted({*base, *result}) if base.get(path) != result.get(path)]
    trees = Trees(
        changes=changes,
        base_paths=list(base),
        result_paths=list(result),
        read_base=read(base),
        read_result=read(result),
        read_many=lambda paths: {path: base[path].encode() for path in paths if path in base},
    )
    return decides(trees, CheckFacts(argv=argv, modules=facts.pop("modules", RUNNER_MODULES), **facts))


def starts(argv: str, tree: Tree, folder: str = "") -> set[str]:
    return started_files(argv.split(), folder, set(tree), lambda path: tree[path].encode() if path in tree else None)


@pytest.mark.parametrize(
    ("argv", "tree", "expected"),
    [
        ("./ci.sh", {"ci.sh": "python tools/a.py\n", "tools/a.py": "", "b.py": ""}, {"ci.sh", "tools/a.py"}),
        ("sh -ec ./ci.sh", {"ci.sh": ""}, {"ci.sh"}),
        ("bash scripts/ci.sh x.json", {"scripts/ci.sh": "", "x.json": ""}, {"scripts/ci.sh", "x.json"}),
        ("python -m tools.ci", {"tools/ci.py": "", "tools/__init__.py": ""}, {"tools/ci.py"}),
        ("python -m tools", {"src/tools/__main__.py": ""}, {"src/tools/__main__.py"}),
        ("python -m pytest tests/x.py::test_a -c other.ini", {"tests/x.py": "", "other.ini": ""}, {"tests/x.py", "other.ini"}),
        ("python -m pytest --config-file=other.ini", {"other.ini": ""}, {"other.ini"}),
        ("python3.12 -X dev run.py", {"run.py": "open('golden.txt'); import calc", "golden.txt": "", "calc.py": ""}, {"run.py", "golden.txt"}),
        ("coverage run ci.py", {"ci.py": ""}, {"ci.py"}),
        ("python -m coverage run ci.py", {"ci.py": ""}, {"ci.py"}),
        ("python -m pytest @options.txt", {"options.txt": ""}, {"options.txt"}),
        ("timeout 60 bash ci.sh", {"ci.sh": ""}, {"ci.sh"}),
        ("npm test", {"package.json": json.dumps({"scripts": {"test": "node ci/run.js", "start": "node server.js"}}), "ci/run.js": "", "server.js": ""}, {"package.json", "ci/run.js"}),
        ("pnpm run ci", {"package.json": json.dumps({"scripts": {"preci": "sh a.sh", "ci": "npm run two", "two": "node b.mjs"}}), "a.sh": "", "b.mjs": ""}, {"package.json", "a.sh", "b.mjs"}),
        ("npm --prefix web test", {"web/package.json": json.dumps({"scripts": {"test": "node t.js"}}), "web/t.js": "", "t.js": ""}, {"web/package.json", "web/t.js"}),
        ("make", {"Makefile": "S=ci\n-include more.mk\nall: one\none:\n\t@sh $(S).sh\nother:\n\tsh no.sh\n", "ci.sh": "", "no.sh": "", "more.mk": ""}, {"Makefile", "ci.sh", "more.mk"}),
        ("make -C sub -f Other x", {"sub/Other": "x:\n\tcd .. && ./top.sh\n", "top.sh": "", "Makefile": ""}, {"sub/Other", "top.sh"}),
        ("just test", {"justfile": "test:\n  sh ci.sh\n", "ci.sh": ""}, {"justfile", "ci.sh"}),
        ("./tool", {"tool": "#!/usr/bin/env bash\nsource lib/x.sh\n", "lib/x.sh": ". lib/y.sh", "lib/y.sh": ""}, {"tool", "lib/x.sh", "lib/y.sh"}),
        ("ruff check calc.py", {"calc.py": ""}, set()),
        ("python -m mypy calc.py --config-file my.toml", {"calc.py": "", "my.toml": ""}, {"my.toml"}),
        ("sh loop.sh", {"loop.sh": "sh loop.sh\n"}, {"loop.sh"}),
        ("sh odd.sh", {"odd.sh": "echo 'unfinished\n\x00\n$(sh in.sh)", "in.sh": ""}, {"odd.sh", "in.sh"}),
        ("sh ../out.sh /etc/passwd", {"out.sh": ""}, set()),
    ],
)  # fmt: skip
def test_what_a_check_starts(argv: str, tree: Tree, expected: set[str]) -> None:
    assert starts(argv, tree) == expected


def test_a_folder_of_the_check_is_where_names_are_looked_up() -> None:
    assert starts("sh ci.sh", {"sub/ci.sh": "python x.py", "sub/x.py": "", "ci.sh": ""}, "sub") == {
        "sub/ci.sh",
        "sub/x.py",
    }


@pytest.mark.parametrize(
    "path",
    [
        *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "conftest.py", "a/conftest.py"),
        *("tests/pyvenv.cfg", "x.pth", "calc.egg-info/entry_points.txt", ".gitattributes", "noxfile.py", ".coveragerc"),
        *("Makefile", "GNUmakefile", "makefile", "package.json", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", ".mocharc.js"),
        *("vitest.config.ts", "jest.config.js", "node.config.json", "go.work", ".cargo/config.toml", "build.rs"),
        *("package-lock.json", "uv.lock", "node_modules/jest/index.js", "sitecustomize.py", "vendor/modules.txt"),
    ],
)  # fmt: skip
def test_known_configuration_decides(path: str) -> None:
    assert decided({}, {path: '{"scripts": {"x": "1"}}' if path == "package.json" else "[x]\nsome = 1\n"}) == {
        path: "CONFIGURATION"
    }


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        *((path, "TEST") for path in ("tests/data.bin", "src/a.test.ts", "a_test.go", "src/__tests__/x.js", "x/__snapshots__/y.snap", "tests/__init__.py")),
        *((path, "SHADOWS") for path in ("json.py", "pluggy/__init__.py", "_pytest/x.py", "src/random.so", "tests/json.py", "tests/calc.py")),
        *((path, None) for path in ("src/calc/new.py", "docs/tests.md", "pkg/json.py", "contest.py", "README.md", "latest/x.py")),
    ],
)  # fmt: skip
def test_tests_and_shadows(path: str, reason: str | None) -> None:
    found = decided({"calc.py": "", "other.py": ""}, {"calc.py": "", "other.py": "", path: "x"}, import_roots=["src"])
    assert found == ({path: reason} if reason else {})


def test_a_project_with_the_name_of_a_library_is_not_a_shadow() -> None:
    base = {"packaging/__init__.py": "", "src/attr.py": ""}
    assert decided(base, {"packaging/version.py": "", **base, "src/attr.py": "x"}, import_roots=["src"]) == {}


def test_configured_by_and_plugins_add_to_what_is_found() -> None:
    result = {"check.yaml": "x", "hooks.py": "x", "calc.py": "x"}
    found = decided({}, result, configured_by=["*.yaml"], plugins={"hooks.py"})
    assert found == {"check.yaml": Reason.DECLARED.name, "hooks.py": Reason.PLUGIN.name}


def test_init_files_of_folders_with_code_are_code() -> None:
    assert (
        decided(
            {"calc/a.py": "", "calc/test_a.py": ""}, {"calc/a.py": "", "calc/test_a.py": "", "calc/__init__.py": "x"}
        )
        == {}
    )
    found = decided({"calc/test_a.py": ""}, {"calc/test_a.py": "", "calc/__init__.py": "x"})
    assert found == {"calc/__init__.py": "TEST"}


@pytest.mark.parametrize(("lock", "manifest"), sorted(runner_registry.LOCKS.items()))
def test_a_lock_follows_its_manifest(lock: str, manifest: str) -> None:
    before = '{"dependencies": {}}' if manifest.endswith(".json") else "[dependencies]\n"
    after = '{"dependencies": {"a": "1"}}' if manifest.endswith(".json") else '[dependencies]\na = "1"\n'
    if manifest == "pyproject.toml":
        after = '[dependencies]\n[project]\ndependencies = ["a"]\n'
    assert lock in decided({lock: "a 1 h1\n", manifest: before}, {lock: "a 1 h2\n", manifest: before})
    changed = decided({lock: "a 1 h1\n", manifest: before}, {lock: "a 1 h1\nb 1 h2\n", manifest: after})
    assert lock not in changed


PYPROJECT = """\
# the project
[project]
name = "calc"  # ours
version = "1.0"
dependencies = ["attrs"]

[tool.pytest.ini_options]
addopts = "-q"

[tool.coverage.report]
fail_under = 90

[[tool.mypy.overrides]]
module = "a"
"""


def test_toml_keeps_what_does_not_decide() -> None:
    honest = PYPROJECT.replace('"1.0"', '"1.1"').replace('["attrs"]', '[\n  "attrs",  # x\n  "yarl",\n]')
    assert restored_parts.restored_sections("pyproject.toml", PYPROJECT.encode(), honest.encode()) == honest.encode()
    lied = (
        honest.replace('"-q"', '"-k add"').replace("90", "0").replace("[[tool.mypy", "[tool.new]\nx = 1\n\n[[tool.mypy")
    )
    back = restored_parts.restored_sections("pyproject.toml", PYPROJECT.encode(), lied.encode()).decode()
    assert tomllib.loads(back) == tomllib.loads(honest)
    removed = honest.replace('[tool.pytest.ini_options]\naddopts = "-q"\n\n', "")
    back = restored_parts.restored_sections("pyproject.toml", PYPROJECT.encode(), removed.encode()).decode()
    assert tomllib.loads(back) == tomllib.loads(honest)


@pytest.mark.parametrize(
    "result",
    [
        'project.version = "2"\ntool.pytest.ini_options.addopts = "-k add"\n',
        '[project]\nversion = "2"\n[tool]\npytest = {ini_options = {addopts = "-k add"}}\n',
        '[tool."pytest"."ini_options"]\naddopts = "-k add"\n[project]\nversion = "2"\n',
        '[project]\nversion = "2"\ndescription = """\n[tool.pytest.ini_options]\n"""\n[tool.pytest.ini_options]\naddopts="x"\n',
        '[project]\nversion = "2"\n[project.entry-points.pytest11]\nx = "y"\n[tool.pytest.ini_options]\naddopts="x"\n',
    ],
)
def test_toml_written_in_other_ways_is_restored_too(result: str) -> None:
    base = '[project]\nversion = "1"\n[tool.pytest.ini_options]\naddopts = "-q"\n'
    back = tomllib.loads(restored_parts.restored_sections("pyproject.toml", base.encode(), result.encode()).decode())
    assert back["tool"] == {"pytest": {"ini_options": {"addopts": "-q"}}}
    assert back["project"]["version"] == "2"
    assert "entry-points" not in back["project"]


@pytest.mark.parametrize(
    ("name", "base", "result", "expected"),
    [
        ("setup.cfg", "[metadata]\nversion = 1\n[tool:pytest]\naddopts = -q\n", "[metadata]\nversion = 2\n[tool:pytest]\naddopts = -k a\n", "[metadata]\nversion = 2\n[tool:pytest]\naddopts = -q\n"),
        ("setup.cfg", "[metadata]\nversion = 1\n", "[metadata]\nversion = 2\n[tool:pytest]\naddopts = -k a\n", "[metadata]\nversion = 2\n"),
        ("tox.ini", "[testenv]\ndeps = a\ncommands = pytest\n", "[testenv]\ndeps =\n  a\n  b\ncommands = true\n[pytest]\nx=1\n", "[testenv]\ndeps =\n  a\n  b\ncommands = pytest\n"),
        ("package.json", '{"version": "1", "scripts": {"test": "jest"}}', '{"version": "2", "scripts": {"test": "true"}, "jest": {}}', '{"version": "2", "scripts": {"test": "jest"}}\n'),
        ("go.mod", "module x\n\ngo 1.22\n", "module x\n\ngo 1.22\n\nrequire (\n\ta v1\n)\n\nreplace a => ./fake\n", "module x\ngo 1.22\nrequire (\n\ta v1\n)\n"),
        ("Cargo.toml", '[package]\nname = "a"\n', '[package]\nname = "a"\n\n[dependencies]\nb = "1"\n\n[[test]]\nname = "t"\nharness = false\n', '[package]\nname = "a"\n\n[dependencies]\nb = "1"\n'),
    ],
)  # fmt: skip
def test_other_files_with_sections(name: str, base: str, result: str, expected: str) -> None:
    assert restored_parts.restored_sections(name, base.encode(), result.encode()).decode() == expected


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg", "tox.ini", "package.json", "go.mod", "Cargo.toml"])
@pytest.mark.parametrize("result", [b"\xff\xfe", b"[a\n", b"[" * 100_000, b"[a]\n[a]\nx=1\nx=2\n", b"[1]", b""])
def test_what_cannot_be_read_is_the_bases(name: str, result: bytes) -> None:
    base = b'{"scripts": {"test": "x"}}' if name.endswith(".json") else b"[tool]\nx = 1\n"
    if name == "go.mod":
        base = b"replace a => b\n"
    back = restored_parts.restored_sections(name, base, result)
    assert back == base or back.strip() in {b"", base.strip()} or b"x" in back or b"replace a => b" in back


def test_hashes_of_known_modules_cannot_change() -> None:
    base, result = b"a v1 h1:x\n", b"a v1 h1:EVIL\nb v1 h1:y\n"
    assert restored_parts.merged_sums(base, result) == b"a v1 h1:x\nb v1 h1:y\n"


def test_a_new_manifest_loses_only_its_deciding_sections() -> None:
    result = '[project]\nname = "x"\n\n[tool.pytest.ini_options]\naddopts = "-k add"\n'
    [restored] = _restored({}, {"pyproject.toml": result}, ("pytest",))
    assert contents([restored]) == {"pyproject.toml": b'[project]\nname = "x"\n'}


CODE = st.sampled_from(["pub fn f() -> i32 { 1 }", "/// Doc.\n#[inline]\npub struct S;", "mod inner { pub fn g() {} }"])
TEST = st.sampled_from(
    [
        '#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() { assert!(true, "#[test]"); }\n}',
        "#[test]\n#[should_panic]\nfn b() {}",
        "#[cfg(all(test, unix))]\nuse std::fs;",
        "#[tokio::test]\nasync fn c() {}",
    ]
)


@given(st.lists(CODE | TEST), st.lists(CODE | TEST), TEST)
def test_tests_beside_code_are_those_of_the_base(base: list[str], result: list[str], test: str) -> None:
    def tests(items: list[str]) -> list[str]:
        return [item for item in items if item.startswith(("#[cfg", "#[test", "#[tokio"))]

    old, new = ("\n\n".join(items).encode() for items in (base, result))
    found = restored_parts.restored_tests("src/lib.rs", old, new)
    code = [item for item in result if item not in tests(result)]
    wanted = "".join(sorted([*code, *tests(base)]))
    assert sorted(found.decode().replace("\n", "")) == sorted(wanted.replace("\n", ""))
    assert restored_parts.restored_tests("src/lib.rs", old, found) == found
    positions = [found.decode().find(item) for item in dict.fromkeys(tests(base))]
    assert -1 not in positions
    inside = f"mod inner {{\n{test}\n}}\n".encode()
    assert test.encode() in restored_parts.restored_tests("src/lib.rs", inside, b"mod inner { }\n")
    assert restored_parts.restored_tests("src/lib.rs", inside, b"mod other { }\n") == b"mod other { }\n"


def test_lines_of_tests_beside_code_are_known() -> None:
    source = b"fn f() {}\n#[cfg(test)]\nmod tests {\n    fn a() {}\n}\nfn g() {}\n"
    assert [line for line in range(8) if restored_parts.is_line_of_test("src/lib.rs", source, line)] == [2, 3, 4, 5]
    assert restored_parts.has_only_tests("src/lib.rs", source, [2, 3])
    assert not restored_parts.has_only_tests("src/lib.rs", source, [1, 2])


EXAMPLE = 'def f(x):\n    """Double.\n\n    >>> f(2)\n    {}\n    """\n    return x * {}\n\n\nclass C:\n    """No example."""\n'


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (EXAMPLE.format(6, 3), EXAMPLE.format(4, 3)),
        (EXAMPLE.format(4, 3), None),
        (EXAMPLE.format(4, 2).replace("No example.", "None."), None),
        ("def f(x):\n    return x\n", 'def f(x):\n    """Double.\n\n    >>> f(2)\n    4\n    """\n    return x\n'),
        ("def g(x):\n    return x\n", None),
        (f"# new\n{EXAMPLE.format(6, 3)}", f"# new\n{EXAMPLE.format(4, 3)}"),
    ],
)
def test_examples_in_docstrings_are_those_of_the_base(result: str, expected: str | None) -> None:
    restored = _restored({"calc.py": EXAMPLE.format(4, 2)}, {"calc.py": result}, ("python", "-m", "pytest"))
    assert [each.content.decode() for each in restored] == ([] if expected is None else [expected])


def test_texts_with_examples_belong_to_the_tests() -> None:
    base = {"README.md": ">>> 1 + 1\n2\n", "docs/a.rst": "Text.\n", "src/a.txt": ">>> 1\n1\n"}
    assert decided(base, {path: text + "\nMore.\n" for path, text in base.items()}) == {
        "README.md": "TEST",
        "src/a.txt": "TEST",
    }


def test_only_the_tests_of_a_file_with_code_are_restored() -> None:
    base = "fn f() {}\n#[cfg(test)]\nmod tests { fn a() {} }\n"
    [found] = _restored(
        {"src/lib.rs": base},
        {"src/lib.rs": base.replace("fn f() {}", "fn f() { g() }").replace("a()", "b()")},
        ("cargo", "test"),
    )
    assert (found.path, found.reason) == ("src/lib.rs", Reason.TEST)
    assert found.content == base.replace("fn f() {}", "fn f() { g() }").encode()
    assert decided({"src/lib.rs": base}, {"src/lib.rs": base + "fn h() {}\n"}, ("cargo", "test")) == {}


CONFTEST = 'import pytest\n\n\n@pytest.fixture\ndef words():\n    """Some words."""\n    return ["a"]\n'
FIXTURE = "\n\n@pytest.fixture\ndef basket(words):\n    return [*words, 10]\n"


@pytest.mark.parametrize(
    "added",
    [
        FIXTURE,
        FIXTURE.replace("fixture", 'fixture(scope="module", params=[1, 2])'),
        "\nimport json\nfrom pathlib import Path\n\nDATA = [1]\n\n\ndef read(path=None):\n    return json.loads(Path(path).read_text())\n",
    ],
    ids=["fixture", "with options", "helpers"],
)
def test_fixtures_that_tests_have_to_name_decide_nothing(added: str) -> None:
    assert restored_parts.only_adds_fixtures(
        CONFTEST.encode(), f"{CONFTEST}{added}".encode(), [b"def test_a(words): ..."]
    )
    assert restored_parts.only_adds_fixtures(b"", f"import pytest\n{added}".encode(), [])


@pytest.mark.parametrize(
    "result",
    [
        CONFTEST + FIXTURE.replace("fixture", "fixture(autouse=True)"),
        CONFTEST + FIXTURE.replace("fixture", "fixture(**{'autouse': True})"),
        CONFTEST + FIXTURE.replace("fixture", "fixture(name='words')"),
        CONFTEST + FIXTURE.replace("basket", "tmp_path"),
        CONFTEST + FIXTURE.replace("basket", "used"),
        CONFTEST + FIXTURE.replace("basket", "words").replace("(words)", "()"),
        CONFTEST + FIXTURE.replace("@pytest", "@calc"),
        CONFTEST + FIXTURE.replace("words)", "words=patch())"),
        CONFTEST.replace('["a"]', '["b"]') + FIXTURE,
        CONFTEST.split("@", maxsplit=1)[0] + FIXTURE,
        CONFTEST + "\n\ndef pytest_runtest_call(item):\n    pass\n",
        CONFTEST + "\nfrom os import path as pytest_runtest_call\n",
        CONFTEST + "\nimport os as pytest\n" + FIXTURE,
        CONFTEST + "\nfrom helpers import basket\n",
        CONFTEST + "\nfrom os import *\n",
        CONFTEST + '\npytest_plugins = ["helpers"]\n',
        CONFTEST + '\ncollect_ignore = ["test_a.py"]\n',
        CONFTEST + "\nimport calc\n\ncalc.add = max\n",
        CONFTEST + "\nclass Basket:\n    x = patch()\n",
        CONFTEST + "\nif True:\n    pass\n",
        CONFTEST + "\ndef (",
    ],
)
def test_a_conftest_that_acts_by_itself_decides(result: str) -> None:
    used = [b"import pytest\n\n\n@pytest.mark.usefixtures('used')\ndef test_a(): ..."]
    assert not restored_parts.only_adds_fixtures(CONFTEST.encode(), result.encode(), used)


@pytest.mark.parametrize(
    ("user", "source", "is_data"),
    [
        ("calc.py", '"""See LICENSE."""\n\n\ndef f():\n    """Of the LICENSE."""\n', False),
        ("calc.py", "# LICENSE\n", False),
        ("calc.py", 'FILES = "LICENSE README".split()\n', True),
        ("calc.py", 'def f(:\n    """LICENSE"""\n', True),
        ("main.go", "//go:embed LICENSE\n", True),
    ],
)
def test_a_text_is_data_if_a_program_names_it(user: str, source: str, is_data: bool) -> None:
    texts = deciding_files.documentation(["LICENSE"], (), lambda: {user: source.encode()})
    assert texts == ([] if is_data else ["LICENSE"])
