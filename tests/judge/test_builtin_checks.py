"""Which runner runs which new tests, and what their reports say."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.judge import check_findings
from understudy.judge.outcomes import observations
from understudy.judge.outcomes.probe import Received, write_node_hook
from understudy.judge.runs import runner_registry
from understudy.judge.runs.runner_registry import BY_NAME
from understudy.judge.test_runners.cargo import cargo_counts
from understudy.judge.test_runners.go import go_counts
from understudy.judge.test_runners.shared.node_packages import jest_counts
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict


def detected(
    files: dict[str, str],
    tree: Path,
    *,
    changed: Sequence[str] = (),
    has_pytest: bool = True,
    has_python: bool = True,
) -> runner_registry.Detected:
    contents = {path: text.encode() for path, text in files.items()}
    changes = [("A", path) for path in changed or files]
    return runner_registry.detect(
        changes, tree, contents.get, contents.get, has_python=has_python, has_pytest=has_pytest, has_pytest_cov=False
    )


@pytest.mark.parametrize(
    ("files", "kind", "tests"),
    [
        (
            {"test_a.py": "", "a_test.py": "", "a.py": "", "conftest.py": "", "tests/help.py": ""},
            "pytest",
            ["test_a.py", "a_test.py"],
        ),
        (
            {"pytest.ini": "[pytest]\npython_files = check_*.py\n", "check_a.py": "", "test_b.py": ""},
            "pytest",
            ["check_a.py"],
        ),
        (
            {"pyproject.toml": "[tool.pytest.ini_options]\npython_files = ['spec/*.py']\n", "x/spec/a.py": ""},
            "pytest",
            [],
        ),
        (
            {"pyproject.toml": "[tool.pytest.ini_options]\npython_files = ['*/spec/*.py']\n", "x/spec/a.py": ""},
            "pytest",
            ["x/spec/a.py"],
        ),
        ({"setup.cfg": "[tool:pytest]\naddopts = -q\n", "test_a.py": ""}, "pytest", ["test_a.py"]),
        ({"pyproject.toml": "not toml [", "tox.ini": "\x00[", "test_a.py": ""}, "pytest", ["test_a.py"]),
    ],
)
def test_python_tests_are_those_pytest_would_collect(
    tmp_path: Path, files: dict[str, str], kind: str, tests: list[str]
) -> None:
    found = detected(files, tmp_path)
    assert [(plan.kind, list(plan.tests)) for plan in found.plans] == ([(kind, tests)] if tests else [])


@pytest.mark.parametrize(
    ("file", "text", "kept"),
    [
        ("pytest.ini", "[pytest]\naddopts = --cov --strict-markers\n", "--strict-markers"),
        ("pytest.ini", "[pytest]\naddopts = --cov src -q --cov-report=xml --no-cov-on-fail\n", "-q"),
        (
            "tox.ini",
            "[pytest]\naddopts = --cov-append --cov-report html\n  -k 'not slow' tests\n",
            "-k 'not slow' tests",
        ),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\naddopts = ['--cov', 'my src', '-m', 'not slow']\n",
            "-m 'not slow'",
        ),
    ],
)
def test_options_of_pytest_cov_are_left_out_where_it_is_missing(
    tmp_path: Path, file: str, text: str, kept: str
) -> None:
    [plan] = detected({file: text, "test_a.py": ""}, tmp_path).plans
    assert plan.check.argv[3:5] == ["-o", f"addopts={kept}"]


def test_unittest_needs_no_pytest(tmp_path: Path) -> None:
    found = detected({"tests/test_a.py": "import unittest\n"}, tmp_path, has_pytest=False)
    assert [plan.kind for plan in found.plans] == ["unittest"]
    found = detected({"test_a.py": "def test_a(): pass\n"}, tmp_path, has_pytest=False)
    assert found.plans == ()
    assert "does not have pytest" in found.notes[0]
    assert "no Python" in detected({"test_a.py": ""}, tmp_path, has_python=False).notes[0]


def test_javascript_tests_of_another_runner_need_a_check_of_the_users(tmp_path: Path) -> None:
    files = {"package.json": json.dumps({"scripts": {"test": "node --test"}}), "src/a.test.js": ""}
    assert "names neither vitest nor jest" in detected(files, tmp_path).notes[0]


@pytest.mark.parametrize("kind", ["vitest", "jest"])
def test_javascript_tests_need_a_runner_in_the_tree(tmp_path: Path, kind: str) -> None:
    files = {"package.json": json.dumps({"devDependencies": {kind: "*"}}), "src/a.test.ts": "", "src/a.ts": ""}
    assert "node_modules" in detected(files, tmp_path).notes[0]
    program = tmp_path / "node_modules" / ".bin" / kind
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    plan = detected(files, tmp_path).plans[0]
    assert (plan.kind, plan.tests, plan.check.argv[0]) == (kind, ("src/a.test.ts",), f"node_modules/.bin/{kind}")


@pytest.mark.parametrize("place", ["packages/a", ""])
def test_javascript_tests_of_a_member_run_where_its_package_json_is(tmp_path: Path, place: str) -> None:
    files = {"package.json": "{}", "packages/a/package.json": json.dumps({"devDependencies": {"vitest": "*"}})}
    tests = {"packages/a/src/a.test.ts": "", "packages/a/src/deep/b.test.ts": ""}
    assert "node_modules" in detected(files | tests, tmp_path).notes[0]
    (tmp_path / "packages" / "a").mkdir(parents=True)
    program = tmp_path / place / "node_modules" / ".bin" / "vitest"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    [plan] = detected(files | tests, tmp_path, changed=list(tests)).plans
    above = "" if place else "../../"
    assert (plan.check.cwd, plan.check.argv[0]) == ("packages/a", f"{above}node_modules/.bin/vitest")
    command = BY_NAME["vitest"].script(plan.check.argv, tmp_path / "packages" / "a")
    assert command is not None
    assert command.program == plan.check.argv[0]


def test_go_and_cargo_run_the_new_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    go = {"go.mod": "module x\n", "pkg/a_test.go": "func TestA(t *testing.T) {}\nfunc TestB_1(t *testing.T) {}\n"}
    cargo = {"Cargo.toml": "[package]\n", "tests/one.rs": "", "tests/two.rs": ""}
    assert "not installed" in detected(go, tmp_path).notes[0]
    assert "not installed" in detected(cargo, tmp_path).notes[0]
    for name in ("go", "cargo"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    assert detected(go, tmp_path).plans[0].check.argv == [
        "go",
        "test",
        "-json",
        "-count=1",
        "-run",
        "^(TestA|TestB_1)$",
        "./pkg",
    ]
    (tmp_path / "pkg").mkdir()
    for path, text in go.items():
        (tmp_path / path).write_text(text)
    for text in ("func (s *Suite) TestOne() {}\n", "func helper() {}\n"):
        [plan] = detected({**go, "pkg/new_test.go": text}, tmp_path, changed=["pkg/new_test.go"]).plans
        assert plan.check.argv[4:] == ["./pkg"]
        assert plan.tests == ("pkg/new_test.go", "pkg/a_test.go"), "the base's tests are to be listed, too"
    other = {**go, "new_test.go": "func TestC(t *testing.T) {}\n", "pkg/new_test.go": "func helper() {}\n"}
    [plan] = detected(other, tmp_path, changed=["new_test.go", "pkg/new_test.go"]).plans
    assert plan.check.argv[4:] == ["-run", "^(TestA|TestB_1|TestC)$", "./.", "./pkg"]
    assert detected(cargo, tmp_path).plans[0].check.argv[4:] == ["--test", "one", "--test", "two"]
    inline = {**cargo, "src/lib.rs": "#[cfg(test)]\nmod tests {}\n"}
    assert detected(inline, tmp_path).plans[0].check.argv == ["cargo", "test", "--color", "never"]


def test_counts_of_other_runners() -> None:
    go = "\n".join(
        json.dumps(event)
        for event in [
            {"Action": "run", "Package": "p", "Test": "TestA"},
            {"Action": "pass", "Package": "p", "Test": "TestA/sub"},
            {"Action": "pass", "Package": "p", "Test": "TestA"},
            {"Action": "fail", "Package": "q", "Test": "TestA"},
            {"Action": "skip", "Package": "p", "Test": "TestB"},
            {"Action": "fail", "Package": "q"},
        ]
    )
    assert go_counts(f"noise\n{go}\n[1]\n") == observations.Counts(passed=1, failed=1, skipped=1)
    assert go_counts("cannot find package") is None
    cargo = "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured\nx\ntest result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured\n"
    assert cargo_counts(cargo) == observations.Counts(passed=3, failed=3, skipped=1)
    assert cargo_counts("error: could not compile") is None
    jest = {
        "numTotalTests": 3,
        "numPassedTests": 1,
        "numFailedTests": 1,
        "numPendingTests": 1,
        "testResults": [{"status": "failed", "assertionResults": []}, {"status": "failed", "assertionResults": [{}]}],
    }
    assert jest_counts(jest) == observations.Counts(passed=1, failed=2, skipped=1)
    assert jest_counts({}) is None


def test_output_is_clean_and_short() -> None:
    assert observations.tail(b"\x1b[31mred\x1b[0m\r\n\x1b]0;title\x07ok\x00\n", b"\xff") == "red\nok\n�"
    long = observations.tail(b"x" * 100_000 + b"\xc3\xa9 end")
    assert long.startswith("…x")
    assert long.endswith("é end")
    assert len(long.encode()) <= 8 * 1024 + 3


@given(st.binary(max_size=400))
def test_any_output_and_any_report_can_be_read(data: bytes) -> None:
    observations.tail(data, data).encode()
    go_counts("[" * 100_000)
    go_counts(json.dumps({"Action": ["x"], "Test": {"y": 1}}))
    go_counts(data.decode("utf-8", "replace"))
    cargo_counts(data.decode("utf-8", "replace"))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["k", "id", "ids", "files", "outcome", "numTotalTests", "testResults", "numPassedTests"]
                ),
                inner,
            )
        ),
    )
)
def test_a_forged_report_never_breaks_the_judge(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    folder = tmp_path_factory.mktemp("report", numbered=True)
    kinds = ["start", "end", "collected", "collect_error", "files", "test"]
    entries = [value, *({"k": kind, "id": value, "ids": value, "files": value, "outcome": value} for kind in kinds)]
    (folder / "1-x.node.json").write_text(json.dumps(value))
    sessions = (tuple(entry for entry in entries if isinstance(entry, dict)),)
    report = observations.read_probe(Received(sessions=sessions), folder)
    assert report.counts is not None
    if isinstance(value, dict):
        jest_counts(value)


def test_scope() -> None:
    changes = [("A", "tests/test_a.py"), ("M", "src/a.py"), ("D", "tests/test_b.py"), ("T", "tests/test_c.py")]
    assert check_findings.outside(changes, None, only_adds_and_modifies=False) == []
    assert check_findings.outside(changes, [], only_adds_and_modifies=False) == [path for _, path in changes]
    assert check_findings.outside(changes, ["tests/"], only_adds_and_modifies=False) == ["src/a.py"]
    assert check_findings.outside(changes, ["test_*.py"], only_adds_and_modifies=True) == [
        "src/a.py",
        "tests/test_b.py",
        "tests/test_c.py",
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
async def test_what_node_loads_from_the_checkout_is_named(empty_project: Any) -> None:
    empty_project.has(
        {
            "main.js": "require('./lib.js'); require(process.argv[2]);\n",
            "lib.js": "",
            "stray.js": "",
            "read.mjs": "import fs from 'node:fs';\nfs.readFileSync(process.argv[2]);\n",
            "package.json": "{}",
        }
    )
    installed = empty_project.checkout / "node_modules" / "dep" / "index.js"
    installed.parent.mkdir(parents=True)
    installed.write_text("")
    stray = empty_project.checkout / "stray.js"
    for script, target, wrong in (
        ("main.js", str(stray), [str(stray)]),
        ("main.js", str(installed), None),
        ("main.js", "./stray.js", None),
        ("read.mjs", str(stray), [str(stray)]),
    ):
        check = Check(name="node", argv=["node", script, target])
        judged = await empty_project.judge({"README.md": "x"}, recipe="implement", checks=(check,))
        assert judged.only.checkout_files == wrong
        assert judged.is_(*((Verdict.UNVERIFIED, Reservation.LOADED_CHECKOUT) if wrong else (Verdict.VERIFIED,)))


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_the_node_probe_survives_a_folder_with_spaces(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b\\ c'
    folder.mkdir()
    hook = write_node_hook(folder, folder, tmp_path)
    (tmp_path / "x.js").write_text("console.log('ran')\n")
    script = str(hook).replace("\\", "\\\\").replace('"', '\\"')
    node = shutil.which("node")
    assert node is not None
    done = subprocess.run(
        [node, "x.js"],
        cwd=tmp_path,
        env={"NODE_OPTIONS": f'--require "{script}"'},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("ran\n", "")
    report = json.loads(next(folder.glob("*.node.json")).read_text())
    assert str((tmp_path / "x.js").resolve()) in report["files"]


@pytest.mark.heavy
@pytest.mark.usefixtures("cargo")
async def test_rust_tests_are_run_and_mutation_tested(empty_project: Any) -> None:
    empty_project.has(
        {
            "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
            "Cargo.lock": 'version = 3\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n',
            "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\n",
        }
    )
    test = "#[test]\nfn adds() { assert_eq!(calc::add(1, 2), 3); }\n#[test]\n#[ignore]\nfn later() {}\n"
    judged = await empty_project.judge({"tests/calc.rs": test}, files=("src/lib.rs",))
    assert judged.is_(Verdict.VERIFIED)
    assert (judged.only.passed, judged.only.failed, judged.only.skipped) == (1, 0, 1)
    blind = test.replace("assert_eq!(calc::add(1, 2), 3);", "calc::add(1, 2);")
    judged = await empty_project.judge({"tests/calc.rs": blind}, files=("src/lib.rs",))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
    judged = await empty_project.judge({"tests/calc.rs": test.replace("3);", "4);")}, files=("src/lib.rs",))
    assert judged.is_(Verdict.CHECKS_FAILED)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["jest", "vitest"])
async def test_javascript_tests_are_run_and_mutation_tested(empty_project: Any, kind: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here")
    empty_project.has(
        {"package.json": json.dumps({"name": "calc", "version": "1.0.0", "devDependencies": {kind: "*"}})}
    )
    tree = empty_project.tree.path
    tree.mkdir(parents=True)
    empty_project.tree._keep = ("node_modules",)
    (tree / "package.json").write_text("{}")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--silent", kind], cwd=tree, capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("npm cannot install here")
    empty_project.has({"calc.js": "exports.add = (a, b) => a + b;\n"})
    globals_ = (
        "const { test, expect } = globalThis.test ? globalThis : await import('vitest');\n" if kind == "vitest" else ""
    )
    name = "calc.test.mjs" if kind == "vitest" else "calc.test.js"
    use = "import calc from './calc.js';\n" if kind == "vitest" else "const calc = require('./calc.js');\n"
    test = use + globals_ + "test('adds', () => { expect(calc.add(1, 2)).toBe(3); });\ntest.skip('later', () => {});\n"
    judged = await empty_project.judge({name: test}, files=("calc.js",))
    assert judged.is_(Verdict.VERIFIED)
    assert (judged.only.passed, judged.only.failed, judged.only.skipped) == (1, 0, 1)
    judged = await empty_project.judge({name: test.replace("toBe(3)", "toBe(4)")}, files=("calc.js",))
    assert judged.is_(Verdict.CHECKS_FAILED)
    assert judged.only.failed == 1
    assert "adds: " in judged.only.output_tail.splitlines()[-1]
    judged = await empty_project.judge({name: test.replace("test('adds'", "test.skip('adds'")}, files=("calc.js",))
    assert judged.is_(Verdict.CHECKS_FAILED)
    blind = test.replace("expect(calc.add(1, 2)).toBe(3)", "expect(calc.add(1, 2)).toBeDefined()")
    judged = await empty_project.judge({name: blind}, files=("calc.js",))
    assert judged.verdict is Verdict.UNVERIFIED
    assert {Reservation.NO_MUTANT_KILLED, Reservation.FEW_MUTANTS_KILLED} & set(judged.said), judged.notes
    stray = empty_project.checkout / "calc.js"
    judged = await empty_project.judge({name: test.replace("./calc.js", str(stray))}, files=("calc.js",))
    assert Reservation.LOADED_CHECKOUT in judged.said
