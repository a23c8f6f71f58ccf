"""pytest, and what every runner of Python tests shares."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from understudy.judge.outcomes.observations import ESCAPES
from understudy.judge.project.command_lines import Read
from understudy.judge.project.missing_modules import NAME_PYTHON
from understudy.judge.test_runners.shared.test_runner import (
    PYTHON_SLOT,
    TESTS_SLOT,
    NewTests,
    NewTestsCheck,
    Output,
    Project,
    ProposedCheck,
    TestRunner,
    program_named,
    settings_section,
)

_INI_FILES = ("pytest.ini", ".pytest.ini")
_TOML_FILES = ("pytest.toml", ".pytest.toml")
_SECTIONS = (("pyproject.toml", "tool.pytest.ini_options"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest"))
_DEFAULT_FILES = ("test_*.py", "*_test.py")
_NO_TESTS = frozenset({"conftest.py", "__init__.py"})
_TEST_FOLDERS = ("tests", "test")
_ENVIRONMENTS = (".venv", "venv")
_MOST_TESTS = 20
"""Test files whose text is read."""
_OWN_TEST = re.compile(r"^(?:\s*(?:import|from) pytest\b|(?:async )?def test)", re.MULTILINE)
"""A test that only pytest runs: it imports pytest, or is a plain function."""
_REQUIRED = re.compile(r"""(?:^|["'\s])pytest(?![\w-])""", re.MULTILINE)
"""A requirement, in a list of strings or one per line."""
_COVERAGE_OPTIONS_WITH_VALUE = frozenset(
    {"--cov", "--cov-report", "--cov-config", "--cov-fail-under", "--cov-precision", "--cov-context"}
)
"""Options of pytest-cov whose value may be the next word."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
"""A line of the summary; ids may contain spaces."""
_SUMMARY = re.compile(r"^=*\s*((?:\d+ [a-z]+, )*\d+ [a-z]+) in [\d.:]+s?[^\n]*$", re.MULTILINE)
_TOX_KEPT = ("deps", "extras", "requires", "minversion", "min_version", "dependency_groups")


def _shown_by(project: Project) -> str | None:
    for file, section in (("pyproject.toml", "tool.pytest"), *_SECTIONS):
        if project.section(file, section) is not None:
            return file
    tests = list(project.named(r"test_.*\.py|.*_test\.py", *_TEST_FOLDERS, ""))[:_MOST_TESTS]
    places = (
        *(name for name in (*_INI_FILES, *_TOML_FILES) if name in project.files),
        *project.named(r"conftest\.py", "", *_TEST_FOLDERS),
        *(name for name in tests if _OWN_TEST.search(project.text(name))),
        *(
            name
            for name in (*project.named(r"requirements.*\.(?:txt|in)", ""), "pyproject.toml")
            if _REQUIRED.search(project.text(name))
        ),
    )
    return next(iter(places), None)


def _installed(project: Project) -> str | None:
    """Return the folder of pytest in the environment inside the project."""
    for environment in _ENVIRONMENTS:
        if environment in project.folders:
            folders = (project.root / environment).glob("lib/python3*/site-packages/pytest")
            if (place := next(folders, None)) is not None:
                return place.relative_to(project.root).as_posix()
    return None


def python_tests(paths: Sequence[str], read: Read) -> list[str]:
    """Return the Python test files among paths."""
    patterns = python_patterns(read)
    return [path for path in paths if _is_test(path, patterns)]


def _is_test(path: str, patterns: Sequence[str]) -> bool:
    name = PurePosixPath(path).name
    if name in _NO_TESTS or not name.endswith(".py"):
        return False
    # pytest matches a pattern with a slash against the whole path.
    return any(fnmatch.fnmatchcase(f"/{path}" if "/" in pattern else name, pattern) for pattern in patterns)


def python_patterns(read: Read) -> Sequence[str]:
    """Return ``python_files`` of the project's pytest configuration."""
    patterns = _configuration(read).get("python_files")
    if isinstance(patterns, str):
        patterns = _words(patterns)
    return [str(pattern) for pattern in patterns] if isinstance(patterns, list) else _DEFAULT_FILES


def _check_new(new: NewTests) -> NewTestsCheck | str | None:
    tests = python_tests(new.changed, new.read)
    if not tests:
        return None
    if not new.has_python:
        return "The new Python tests were not run: no Python interpreter was found for this project."
    if not new.has_pytest:
        return (
            "The new Python tests were not run: the project's interpreter does not have pytest. "
            f"Install pytest in the project's environment, or {NAME_PYTHON}."
        )
    folder = new.project if all(path.startswith(f"{new.project}/") for path in tests) else ""
    below = f"{folder}/" if folder else ""
    configuration = _configuration(lambda name: new.read(below + name))
    if not new.has_pytest_cov and any(
        re.match(r"pytest[-_]cov\b", word) for word in _words(configuration.get("required_plugins", ""))
    ):
        return (
            "The new Python tests were not run: the project's options for pytest require pytest-cov, which its "
            "interpreter does not have. Install pytest-cov in the project's environment."
        )
    options_of_project = _words(configuration.get("addopts", ""))
    options = _options_without_coverage(options_of_project, has_pytest_cov=new.has_pytest_cov)
    before = _configuration(lambda name: new.read_base(below + name)).get("addopts", "")
    if options[:1] == ["-o"] and options_of_project != _words(before):
        # Options in the command would hide from the comparison with the base that the result changes them.
        return (
            "The new Python tests were not run: the result changes the project's options for pytest, and they need "
            "pytest-cov, which its interpreter does not have. Install pytest-cov in the project's environment."
        )
    return NewTestsCheck(argv=[PYTHON_SLOT, "-m", "pytest", *options, TESTS_SLOT], tests=tests, folder=folder)


def _options_without_coverage(words: Sequence[str], *, has_pytest_cov: bool) -> list[str]:
    """Return what switches pytest-cov off, if the project's options for pytest switch it on.

    A threshold of coverage is for the whole suite, and the new tests are a part of it. Where pytest-cov is not
    installed, pytest would refuse its options, which says nothing about the result: the others are given instead.
    """
    if not any(word.startswith("--cov") for word in words):
        return []
    if has_pytest_cov:
        return ["--no-cov"]
    kept = []
    is_value = False
    for word in words:
        if word.startswith(("--cov", "--no-cov")):
            is_value = word in _COVERAGE_OPTIONS_WITH_VALUE
        elif is_value and not word.startswith("-"):
            is_value = False
        else:
            kept.append(word)
            is_value = False
    return ["-o", f"addopts={shlex.join(kept)}"]


def _configuration(read: Read) -> Mapping[str, Any]:
    """Return the project's pytest configuration, from the first file that pytest would take."""
    for file, section in (*((name, "pytest") for name in _INI_FILES), *_SECTIONS):
        content = read(file)
        if content is None:
            continue
        values = settings_section(file, section, content.decode("utf-8", "replace"))
        if values is not None:
            return values
    return {}


def _words(value: Any) -> list[str]:
    """Return the options of a setting, which is a text or, in TOML, a list."""
    text = value if isinstance(value, str) else shlex.join(map(str, value)) if isinstance(value, list) else ""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def failed_in_summary(output: Output) -> list[str]:
    """Return the tests that failed, as the summary of pytest names them."""
    return _FAILED.findall(ESCAPES.sub("", output.text))


def _totals(text: str) -> Iterator[tuple[str, int]]:
    for summary in _SUMMARY.findall(text):
        yield from ((word, int(number)) for number, word in re.findall(r"(\d+) (\w+)", summary))


_ARGV = (PYTHON_SLOT, "-m", "pytest")

RUNNER = TestRunner(
    name="pytest",
    order=10,
    proposals=(
        ProposedCheck("pytest", "pytest", _ARGV, _shown_by, instead_of=("unittest", "make")),
        ProposedCheck("pytest", "pytest", _ARGV, _installed, only_without=("pytest", "unittest")),
    ),
    command_lines=(program_named("pytest", r"py\.test"),),
    language="Python",
    test_files=python_tests,
    test_globs=python_patterns,
    check_new=_check_new,
    caches={"HYPOTHESIS_STORAGE_DIRECTORY": "hypothesis"},
    failed=failed_in_summary,
    totals=_totals,
    unbuilt=(r"\bSyntaxError\b", "ModuleNotFoundError", "ImportError", "errors? during collection"),
    tests=("test_*.py", "*_test.py", "test.py", "tests.py", "doctest_*.txt", "test_*.txt", "*.ambr"),
    configuration=("conftest.py", *_INI_FILES, *_TOML_FILES),
    kept_sections={
        "pyproject.toml": (
            *("project", "!project.entry-points", "build-system", "dependency-groups", "tool.poetry"),
            *("!tool.poetry.plugins", "tool.uv", "tool.pdm.dev-dependencies", "tool.hatch.version"),
            *("tool.hatch.metadata", "tool.hatch.build", "tool.setuptools", "tool.setuptools_scm", "tool.flit"),
            *("tool.maturin", "tool.bumpversion", "tool.bumpver", "tool.commitizen", "tool.towncrier"),
            "tool.semantic_release",
        ),
        "setup.cfg": (
            *("metadata", "options", "!options.entry_points", "options.extras_require", "options.packages.find"),
            *("options.package_data", "options.data_files", "options.exclude_package_data", "bdist_wheel"),
            *("egg_info", "bumpversion", "build_ext", "sdist"),
        ),
        "tox.ini": tuple(f"{section}|{key}" for section in ("tox", "testenv", "testenv:*") for key in _TOX_KEPT),
    },
    dependencies={
        "pyproject.toml": (
            *("project.dependencies", "project.optional-dependencies", "project.version", "dependency-groups"),
            *("project.requires-python", "build-system", "tool.poetry", "tool.uv", "tool.pdm"),
        )
    },
    locks=dict.fromkeys(("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml"), "pyproject.toml"),
    completes=("uv.lock",),
    modules=(
        *("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli"),
        *("typing_extensions", "coverage", "pytest_cov", "hypothesis", "_hypothesis_pytestplugin", "xdist", "execnet"),
        *("attr", "attrs", "pytest_asyncio", "pytest_timeout", "pytest_mock"),
    ),
)


def is_only_pytest(argv: Sequence[str]) -> bool:
    """Return whether a command runs pytest and nothing else: not a script or a tool that runs it among others."""
    program = PurePosixPath(argv[0]).name if argv else ""
    is_python = program.startswith("python") or list(argv[:1]) == [PYTHON_SLOT]
    return program in {"pytest", "py.test"} or (is_python and list(argv[1:3]) == ["-m", "pytest"])
