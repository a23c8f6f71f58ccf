"""Test which checks the files of a project suggest."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.config.validation import delegator_rules
from understudy.engine.check_setup.known_runners import PROPOSALS, propose
from understudy.model.evidence.checks import Check

FUNCTION = "def test_add():\n    assert 1 + 1 == 2\n"
CLASS = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass\n"
VITEST = json.dumps({"devDependencies": {"vitest": "^3"}, "scripts": {"test": "vitest run"}})

PROJECTS: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "a table of pytest": ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, [("pytest", "pyproject.toml")]),
    "tox.ini": ({"tox.ini": "[pytest]\naddopts = -q\n"}, [("pytest", "tox.ini")]),
    "pytest as a requirement": ({"requirements-dev.txt": "pytest>=8\n"}, [("pytest", "requirements-dev.txt")]),
    "a plug-in is not pytest": ({"requirements.txt": "pytest-cov\nrequests\n"}, []),
    "plain functions": ({"tests/test_calc.py": FUNCTION}, [("pytest", "tests/test_calc.py")]),
    "conftest": ({"tests/conftest.py": "", "tests/test_a.py": CLASS}, [("pytest", "tests/conftest.py")]),
    "unittest in a folder": ({"tests/test_calc.py": CLASS}, [("unittest", "tests/test_calc.py")]),
    "unittest in a package": (
        {"tests/test_calc.py": CLASS, "tests/__init__.py": ""},
        [("unittest", "tests/test_calc.py")],
    ),
    "vitest, not its script": ({"package.json": VITEST, "package-lock.json": "{}"}, [("vitest", "package.json")]),
    "jest by its file": ({"package.json": "{}", "jest.config.js": ""}, [("jest", "jest.config.js")]),
    "npm test": ({"package.json": '{"scripts": {"test": "mocha"}}'}, [("npm", "package.json")]),
    "pnpm test": ({"package.json": '{"scripts": {"test": "x"}}', "pnpm-lock.yaml": ""}, [("pnpm", "package.json")]),
    "yarn test": ({"package.json": '{"scripts": {"test": "x"}}', "yarn.lock": ""}, [("yarn", "package.json")]),
    "what npm init writes": ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'}, []),
    "go, not make": ({"go.mod": "module x\n", "Makefile": "test:\n\tgo test\n"}, [("go", "go.mod")]),
    "cargo": ({"Cargo.toml": "[package]\n"}, [("cargo", "Cargo.toml")]),
    "gradle": ({"gradlew": "", "build.gradle": ""}, [("gradle", "gradlew")]),
    "maven": ({"pom.xml": "<project/>"}, [("maven", "pom.xml")]),
    "rspec": ({".rspec": ""}, [("rspec", ".rspec")]),
    "make": ({"Makefile": "test: all\n\t./run\n"}, [("make", "Makefile")]),
    "a variable named test": ({"Makefile": "test := 1\nall:\n"}, []),
    "two languages": ({"go.mod": "", "pytest.ini": ""}, [("pytest", "pytest.ini"), ("go", "go.mod")]),
    "a folder": ({"web/package.json": VITEST, "README.md": ""}, [("vitest-web", "web/package.json")]),
    "dependencies are not projects": ({"node_modules/pytest.ini": "", ".hidden/go.mod": ""}, []),
    "pytest only in the environment": (
        {".venv/lib/python3.12/site-packages/pytest/__init__.py": "", "calc.py": ""},
        [("pytest", ".venv/lib/python3.12/site-packages/pytest")],
    ),
    "pytest in the environment, unittest in the tests": (
        {"venv/lib/python3.12/site-packages/pytest/__init__.py": "", "tests/test_calc.py": CLASS},
        [("unittest", "tests/test_calc.py")],
    ),
    "pytest in the environment, and make": (
        {"venv/lib/python3.12/site-packages/pytest/__init__.py": "", "Makefile": "test:\n\t./run\n"},
        [("make", "Makefile"), ("pytest", "venv/lib/python3.12/site-packages/pytest")],
    ),
    "pytest in the environment, a project in a folder": (
        {".venv/lib/python3.12/site-packages/pytest/__init__.py": "", "side/pytest.ini": ""},
        [("pytest-side", "side/pytest.ini")],
    ),
    "broken files": ({"package.json": "{", "pyproject.toml": "[[[", "tox.ini": "\0"}, []),
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize("name", PROJECTS)
def test_files_suggest_checks(tmp_path, name):
    files, expected = PROJECTS[name]
    found = propose(write(tmp_path, files), [], [], set_up=False)
    assert [(one.check.name, one.shown_by) for one in found] == expected
    for one in found:
        assert not list(delegator_rules.check_check(one.check))


def test_every_runner_is_suggested_by_some_project(tmp_path):
    found = set()
    for number, (files, _) in enumerate(PROJECTS.values()):
        found |= {tuple(one.check.argv) for one in propose(write(tmp_path / str(number), files), [], [], set_up=False)}
    assert {runner.argv for runner in PROPOSALS} <= found


def test_a_check_of_a_folder_runs_in_it(tmp_path):
    (found,) = propose(write(tmp_path, {"web/package.json": VITEST}), [], [], set_up=False)
    assert (found.check.cwd, found.check.argv[0]) == ("web", "node_modules/.bin/vitest")


def test_what_is_configured_is_marked_and_names_are_free(tmp_path):
    write(tmp_path, {"pytest.ini": ""})
    same = Check(name="mine", argv=["{python}", "-m", "pytest"])
    assert [one.configured for one in propose(tmp_path, [same], [], set_up=False)] == [True]
    (other,) = propose(tmp_path, [Check(name="pytest", argv=["x"])], [], set_up=False)
    assert (other.check.name, other.configured) == ("pytest-2", False)


def test_missing_dependencies_are_named(tmp_path, monkeypatch):
    write(tmp_path, {"package.json": VITEST, "node_modules/x/y": "", "go.mod": ""})
    monkeypatch.setenv("PATH", str(tmp_path))
    vitest, go = propose(tmp_path, [], [], set_up=False)
    assert 'link = ["node_modules"]' in (vitest.problem or "")
    assert "go is not installed" in (go.problem or "")
    assert propose(tmp_path, [], ["node_modules"], set_up=False)[0].problem is None
    assert propose(tmp_path, [], [], set_up=True)[0].problem is None


@pytest.mark.parametrize(
    ("package", "needed"),
    [
        ({"scripts": {"test": "node --test"}}, False),
        ({"scripts": {"test": "node --test"}, "devDependencies": {}}, False),
        ({"scripts": {"test": "tap"}, "devDependencies": {"tap": "*"}}, True),
        ({"scripts": {"test": "node --test"}, "dependencies": {"left-pad": "*"}}, True),
    ],
)
def test_a_script_of_a_package_without_dependencies_needs_none(tmp_path, package, needed):
    write(tmp_path, {"package.json": json.dumps(package)})
    (npm,) = propose(tmp_path, [], [], set_up=False)
    assert ("node_modules is missing" in (npm.problem or "")) == needed


def test_links_and_special_files_are_not_read(tmp_path):
    outside = write(tmp_path / "outside", {"pytest.ini": "", "tests/conftest.py": ""})
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "pytest.ini").symlink_to(outside / "pytest.ini")
    (inside / "tests").symlink_to(outside / "tests")
    os.mkfifo(inside / "pyproject.toml")
    assert propose(inside, [], [], set_up=False) == []


NAMES = st.sampled_from(["package.json", "pyproject.toml", "tox.ini", "Makefile", "test_a.py", "requirements.txt"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(NAMES, st.binary(max_size=60) | st.sampled_from([b"[]", b"{}", b'{"scripts": 1}'])))
def test_any_content_gives_valid_proposals(tmp_path_factory, files):
    root = tmp_path_factory.mktemp("project")
    for name, content in files.items():
        (root / name).write_bytes(content)
    for one in propose(root, [], [], set_up=False):
        assert (root / one.shown_by).exists()
        assert not list(delegator_rules.check_check(one.check))
