"""Test what is said where a module, or what the tests need, is not installed."""

import shlex
import subprocess

import pytest
from project_python import project_python

from understudy.judge.project.missing_modules import why_no_tests, why_not_imported
from understudy.model.remedies import Remedy, RemedyKind

NO_NUMPY = "ModuleNotFoundError: No module named 'numpy'"
PYTHON = "/project/.venv/bin/python"
INSTALL = f"{PYTHON} -m pip install"


def written(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_generated_module_that_is_missing_is_named(tmp_path):
    written(tmp_path, {".gitignore": "_version.py\n"})
    missing = "ModuleNotFoundError: No module named 'shop._version'"
    reason, hint, remedy = why_not_imported(tmp_path, missing, PYTHON)
    assert remedy == Remedy(kind=RemedyKind.COPY_FILES, paths=["shop/_version.py"])
    assert reason == "`shop/_version.py` is generated and ignored by git"
    assert hint == 'Add `worktrees.copy = ["shop/_version.py"]` to .understudy/config.toml.'
    (tmp_path / "src/shop").mkdir(parents=True)
    reason, *_ = why_not_imported(tmp_path, missing, PYTHON)
    assert reason.startswith("`src/shop/_version.py`")
    written(tmp_path, {"pyproject.toml": '[tool.hatch.build.hooks.vcs]\nversion-file = "src/shop/_version.py"\n'})
    _, hint, remedy = why_not_imported(tmp_path, missing, PYTHON)
    assert hint == f"Build the project once in your checkout, then try again: {INSTALL} -e ."
    assert remedy == Remedy(kind=RemedyKind.INSTALL_PACKAGES, commands=[[PYTHON, "-m", "pip", "install", "-e", "."]])
    # Worktrees get only modules whose name says that they have the version.
    written(tmp_path, {".gitignore": "built.py\n", "pyproject.toml": 'write_to = "src/shop/built.py"\n'})
    _, hint, remedy = why_not_imported(tmp_path, missing.replace("_version", "built"), PYTHON)
    assert hint.startswith('Add `worktrees.copy = ["src/shop/built.py"]`')


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ({}, f"Install what provides it: {INSTALL} numpy"),
        ({"src/numpy/__init__.py": ""}, f"Install the project itself: {INSTALL} -e ."),
        (
            {"pyproject.toml": '[project.optional-dependencies]\ndocs = ["sphinx"]\ntests = ["pytest", "NumPy>=2"]\n'},
            f"Install what the project declares: {INSTALL} -e '.[tests]'",
        ),
        (
            {"pyproject.toml": '[dependency-groups]\ndev = [{include-group = "x"}, "pytest", "pynumpy>2"]\n'},
            f"Install what the project declares: {INSTALL} pytest 'pynumpy>2'",
        ),
        (
            {"pyproject.toml": '[dependency-groups]\ndev = ["numpy", " -r https://example.invalid"]\n'},
            f"Install what provides it: {INSTALL} numpy",
        ),
        (
            {"setup.cfg": "[options.extras_require]\ntest =\n    pytest\n    numpy[all]\n"},
            f"Install what the project declares: {INSTALL} -e '.[test]'",
        ),
        (
            {"requirements/dev.txt": "-r base.txt\nnumpy==2.0 # a comment\n"},
            f"Install what the project declares: {INSTALL} -r requirements/dev.txt",
        ),
        (
            {"pyproject.toml": "[project.optional-dependencies]\ndev = 5\n\"x]'; id; '\" = ['numpy']\n"},
            f"Install what the project declares: {INSTALL} -e '.[x]'\"'\"'; id; '\"'\"']'",
        ),
        ({"pyproject.toml": "not TOML [", "setup.cfg": "= no"}, f"Install what provides it: {INSTALL} numpy"),
    ],
    ids=[
        "nothing",
        "the project",
        "an extra",
        "a group",
        "options of pip",
        "setup.cfg",
        "a file",
        "a hostile name",
        "broken settings",
    ],
)
def test_the_hint_is_the_command_that_the_project_declares(tmp_path, files, hint):
    written(tmp_path, files)
    why, said, remedy = why_not_imported(tmp_path, NO_NUMPY, PYTHON)
    assert (why, said) == ("numpy is not installed in the project's environment", hint)
    assert remedy.kind is RemedyKind.INSTALL_PACKAGES
    assert said.endswith(f": {shlex.join(remedy.commands[0])}")


def test_requirements_are_those_of_the_users_checkout(tmp_path):
    group = '[dependency-groups]\ndev = ["numpy{}"]\n'
    written(tmp_path, {"tree/pyproject.toml": group.format("==9")})
    written(tmp_path, {"checkout/pyproject.toml": group.format("==2")})
    _, hint, _ = why_not_imported(tmp_path / "tree", NO_NUMPY, PYTHON, checkout=tmp_path / "checkout")
    assert hint == f"Install what the project declares: {INSTALL} numpy==2"


def test_what_the_tests_of_a_project_need_is_named_with_the_line_that_needs_it(tmp_path):
    files = {"tests/conftest.py": "from helpers import base\n", "helpers/__init__.py": ""}
    written(tmp_path, files | {"helpers/base.py": "import json\nimport numerics_x\n", "tests/test_a.py": ""})
    collect = [project_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "tests/test_a.py"]
    printed = subprocess.run(collect, cwd=tmp_path, check=False, capture_output=True, text=True)
    why, hint, _ = why_no_tests(tmp_path, printed.stdout + printed.stderr, PYTHON)
    assert why == "helpers/base.py:2 cannot be loaded: numerics_x is not installed in the project's environment"
    assert hint.endswith("pip install numerics_x")
    (tmp_path / "helpers/base.py").write_text("raise ValueError('No module named 'x'')\n")
    printed = subprocess.run(collect, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert "ValueError" in printed.stdout + printed.stderr
    assert why_no_tests(tmp_path, printed.stdout + printed.stderr, PYTHON) is None


def test_a_package_inside_of_a_missing_namespace_is_found_in_what_the_project_declares(tmp_path):
    written(tmp_path, {"pyproject.toml": '[project.optional-dependencies]\nyaml = ["ruamel.yaml>=0.19"]\n'})
    printed = (
        "tests/test_box.py:2: in <module>\n    from ruamel.yaml import YAML\n"
        "E   ModuleNotFoundError: No module named 'ruamel'\n"
    )
    why, hint, _ = why_no_tests(tmp_path, printed, PYTHON)
    assert why == "tests/test_box.py:2 cannot be loaded: ruamel is not installed in the project's environment"
    assert hint == f"Install what the project declares: {INSTALL} -e '.[yaml]'"
