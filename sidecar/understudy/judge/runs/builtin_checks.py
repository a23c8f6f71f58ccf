"""Detect the built-in test checks: which runner runs the test files that a result added or changed."""

from __future__ import annotations

import configparser
import fnmatch
import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from understudy.judge.runs.check_run import PYTHON_SLOT, REPORT_SLOT, TESTS_SLOT, Kind, PreparedCheck
from understudy.judge.runs.judged_tree import Change
from understudy.model.evidence.checks import Check

Read = Callable[[str], bytes | None]
"""Returns the content of a file of the result."""

_PYTEST_DEFAULT_FILES = ("test_*.py", "*_test.py")
_NO_TESTS = frozenset({"conftest.py", "__init__.py"})
_SCRIPT_TEST = re.compile(r"(?:\.(?:test|spec)\.[cm]?[jt]sx?$)|(?:(?:^|/)__tests__/.*\.[cm]?[jt]sx?$)")
_GO_TEST = re.compile(rb"^func (Test\w*|Fuzz\w*|Example\w*)\(", re.MULTILINE)
_GO_METHOD = re.compile(rb"^func \([^)]*\) Test\w*\(", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Detected:
    """The built-in checks for a result, and messages about tests that cannot be run."""

    plans: tuple[PreparedCheck, ...]
    notes: tuple[str, ...] = ()


def detect(
    changes: Sequence[Change],
    tree: Path,
    read: Read,
    read_base: Read,
    *,
    has_python: bool,
    has_pytest: bool,
    has_pytest_cov: bool,
) -> Detected:
    """Return a check for each language in which the result added or changed test files.

    ``read`` and ``read_base`` read files of the result and of its base. ``has_pytest`` and ``has_pytest_cov``: the
    project's interpreter can import it.
    """
    changed = [path for status, path in changes if status[:1] != "D"]
    found = [
        _python(changed, read, read_base, has_python=has_python, has_pytest=has_pytest, has_pytest_cov=has_pytest_cov),
        _scripts(changed, tree, read),
        _go(changed, tree, read),
        _cargo(changed, read),
    ]
    return Detected(
        plans=tuple(plan for plan, _ in found if plan is not None),
        notes=tuple(note for _, note in found if note is not None),
    )


def test_files(changes: Sequence[Change], read: Read) -> list[str]:
    """Return the added or changed test files of every built-in check: the value of ``{tests}``."""
    changed = [path for status, path in changes if status[:1] != "D"]
    patterns = python_patterns(read)
    return [
        path
        for path in changed
        if _is_python_test(path, patterns)
        or _SCRIPT_TEST.search(path)
        or path.endswith("_test.go")
        or _is_cargo_test(path)
    ]


_COVERAGE_OPTIONS_WITH_VALUE = frozenset(
    {"--cov", "--cov-report", "--cov-config", "--cov-fail-under", "--cov-precision", "--cov-context"}
)
"""Options of pytest-cov whose value may be the next word."""

Found = tuple[PreparedCheck | None, str | None]


def _python(
    changed: Sequence[str], read: Read, read_base: Read, *, has_python: bool, has_pytest: bool, has_pytest_cov: bool
) -> Found:
    patterns = python_patterns(read)
    tests = [path for path in changed if _is_python_test(path, patterns)]
    if not tests:
        return None, None
    if not has_python:
        return None, "The new Python tests were not run: no Python interpreter was found for this project."
    if has_pytest:
        configuration = _pytest_configuration(read)
        if not has_pytest_cov and any(
            re.match(r"pytest[-_]cov\b", word) for word in _words(configuration.get("required_plugins", ""))
        ):
            return None, (
                "The new Python tests were not run: the project's options for pytest require pytest-cov, which its "
                "interpreter does not have. Install pytest-cov in the project's environment."
            )
        given = _words(configuration.get("addopts", ""))
        options = _options_without_coverage(given, has_pytest_cov=has_pytest_cov)
        if options[:1] == ["-o"] and given != _words(_pytest_configuration(read_base).get("addopts", "")):
            # Options in the command would hide from the comparison with the base that the result changes them.
            return None, (
                "The new Python tests were not run: the result changes the project's options for pytest, and they need "
                "pytest-cov, which its interpreter does not have. Install pytest-cov in the project's environment."
            )
        argv = [PYTHON_SLOT, "-m", "pytest", *options, TESTS_SLOT]
        return _plan("pytest", argv, tests), None
    if all(b"unittest" in (read(test) or b"") for test in tests):
        return _plan("unittest", [PYTHON_SLOT, "-m", "unittest", TESTS_SLOT], tests), None
    return None, (
        "The new Python tests were not run: the project's interpreter does not have pytest. "
        "Install pytest in the project's environment."
    )


def _scripts(changed: Sequence[str], tree: Path, read: Read) -> Found:
    tests = [path for path in changed if _SCRIPT_TEST.search(path)]
    if not tests or read("package.json") is None:
        return None, None
    for kind, options in (
        ("vitest", ["run", "--reporter=default", "--reporter=json", f"--outputFile.json={REPORT_SLOT}", TESTS_SLOT]),
        ("jest", ["--ci", "--json", f"--outputFile={REPORT_SLOT}", "--coverage=false", "--runTestsByPath", TESTS_SLOT]),
    ):
        program = f"node_modules/.bin/{kind}"
        if os.access(tree / program, os.X_OK) and package_mentions(read, kind):
            return _plan("vitest" if kind == "vitest" else "jest", [program, *options], tests), None
    if not any(package_mentions(read, kind) for kind in ("vitest", "jest")):
        return None, (
            "The new JavaScript tests were not run: package.json names neither vitest nor jest. "
            "Add a check that runs them: understudy checks add."
        )
    return None, (
        "The new JavaScript tests were not run: node_modules of the worktree has neither vitest nor jest. "
        'Set `link = ["node_modules"]` or a setup command in [worktrees] of the configuration.'
    )


def package_mentions(read: Read, kind: str) -> bool:
    """Return whether ``package.json`` names a test runner."""
    try:
        package = json.loads(read("package.json") or b"{}")
    except (ValueError, RecursionError):
        return False
    if not isinstance(package, dict):
        return False
    sections = [package.get(name) for name in ("devDependencies", "dependencies", "scripts", kind)]
    return kind in json.dumps(sections) or isinstance(package.get(kind), dict)


def _go(changed: Sequence[str], tree: Path, read: Read) -> Found:
    tests = [path for path in changed if path.endswith("_test.go")]
    if not tests or read("go.mod") is None:
        return None, None
    if shutil.which("go") is None:
        return None, "The new Go tests were not run: the program go is not installed."
    contents = {test: read(test) or b"" for test in tests}
    packages = sorted({str(PurePosixPath(test).parent) for test in tests})
    whole = sorted({str(PurePosixPath(test).parent) for test in tests if _go_is_run_elsewhere(contents[test])})
    for package in whole:
        beside = (f"{package}/{path.name}".removeprefix("./") for path in sorted((tree / package).glob("*_test.go")))
        contents |= {test: read(test) or b"" for test in beside if test not in contents}
    names = sorted({name.decode() for content in contents.values() for name in _GO_TEST.findall(content)})
    chosen = [] if whole == packages else ["-run", f"^({'|'.join(names)})$"]
    argv = ["go", "test", "-json", "-count=1", *chosen, *(f"./{each}" for each in packages)]
    return _plan("go", argv, list(contents)), None


def _go_is_run_elsewhere(content: bytes) -> bool:
    """Return whether other files of the package run what is in a file: methods of a suite, or functions of tests."""
    return _GO_METHOD.search(content) is not None or _GO_TEST.search(content) is None


def _cargo(changed: Sequence[str], read: Read) -> Found:
    separate = [path for path in changed if _is_cargo_test(path)]
    inline = [path for path in changed if path.endswith(".rs") and b"#[cfg(test)]" in (read(path) or b"")]
    if not (separate or inline) or read("Cargo.toml") is None:
        return None, None
    if shutil.which("cargo") is None:
        return None, "The new Rust tests were not run: the program cargo is not installed."
    argv = ["cargo", "test", "--color", "never"]
    if not inline:
        argv += [argument for path in separate for argument in ("--test", PurePosixPath(path).stem)]
    return _plan("cargo", argv, [*separate, *inline]), None


def _plan(kind: Kind, argv: list[str], tests: Sequence[str]) -> PreparedCheck:
    check = Check(name=f"tests-{kind}", argv=argv)
    return PreparedCheck(check=check, kind=kind, tests=tuple(tests), builtin=True, uses_tests=True)


def _is_cargo_test(path: str) -> bool:
    return path.endswith(".rs") and path.startswith("tests/") and path.count("/") == 1


def _is_python_test(path: str, patterns: Sequence[str]) -> bool:
    name = PurePosixPath(path).name
    if name in _NO_TESTS or not name.endswith(".py"):
        return False
    # pytest matches a pattern with a slash against the whole path.
    return any(fnmatch.fnmatchcase(f"/{path}" if "/" in pattern else name, pattern) for pattern in patterns)


def python_patterns(read: Read) -> Sequence[str]:
    """Return ``python_files`` of the project's pytest configuration."""
    patterns = _pytest_configuration(read).get("python_files")
    if isinstance(patterns, str):
        patterns = _words(patterns)
    return [str(pattern) for pattern in patterns] if isinstance(patterns, list) else _PYTEST_DEFAULT_FILES


def _options_without_coverage(given: Sequence[str], *, has_pytest_cov: bool) -> list[str]:
    """Return what switches pytest-cov off, if the project's options for pytest switch it on.

    A threshold of coverage is for the whole suite, and the new tests are a part of it. Where pytest-cov is not
    installed, pytest would refuse its options, which says nothing about the result: the others are given instead.
    """
    if not any(word.startswith("--cov") for word in given):
        return []
    if has_pytest_cov:
        return ["--no-cov"]
    kept = []
    is_value = False
    for word in given:
        if word.startswith(("--cov", "--no-cov")):
            is_value = word in _COVERAGE_OPTIONS_WITH_VALUE
        elif is_value and not word.startswith("-"):
            is_value = False
        else:
            kept.append(word)
            is_value = False
    return ["-o", f"addopts={shlex.join(kept)}"]


def _pytest_configuration(read: Read) -> Mapping[str, Any]:
    """Return the project's pytest configuration, from the first file that pytest would take."""
    for file, section in (
        *((name, "pytest") for name in ("pytest.ini", ".pytest.ini")),
        ("pyproject.toml", "tool.pytest.ini_options"),
        ("tox.ini", "pytest"),
        ("setup.cfg", "tool:pytest"),
    ):
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


def settings_section(file: str, section: str, text: str) -> dict[str, Any] | None:
    """Return a table of a configuration file; None if the file or the table cannot be read."""
    try:
        if file.endswith(".toml"):
            value: Any = tomllib.loads(text)
            for name in section.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            return value if isinstance(value, dict) else None
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(text)
        return dict(parser[section]) if parser.has_section(section) else None
    except (ValueError, configparser.Error):
        return None
