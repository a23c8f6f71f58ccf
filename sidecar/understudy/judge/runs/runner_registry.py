"""Find the declarations of test runners, and ask all of them: about new tests, outputs, and the files that they know.

The modules of ``understudy.judge.test_runners`` declare what belongs to one runner; here is what is common to several,
or has no declaration. Names of files are globs of ``.gitignore``. Outputs are not trusted, and their formats differ
between versions: what is not recognised is left out.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.judge import test_runners
from understudy.judge.outcomes.observations import Counts
from understudy.judge.project.command_lines import Read
from understudy.judge.runs.judged_tree import Change
from understudy.judge.test_runners.shared.test_runner import (
    WORDS,
    NewTests,
    NewTestsCheck,
    TestRunner,
    add_outcome,
)
from understudy.model.evidence.checks import Check

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


def _declared() -> tuple[TestRunner, ...]:
    modules = [module.name for module in pkgutil.iter_modules(test_runners.__path__) if not module.ispkg]
    declared = [importlib.import_module(f"{test_runners.__name__}.{name}").RUNNER for name in modules]
    return tuple(sorted(declared, key=lambda runner: runner.order))


RUNNERS = _declared()
"""Every runner, the more specific ones first."""
BY_NAME = {runner.name: runner for runner in RUNNERS}
ANY_COMMAND = RUNNERS[-1].name
"""The least specific one accepts every command."""

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_MOST_BYTES = 16 * 1024 * 1024
_PASSED = ("passed", "pass", "passing")
_FAILED = ("failed", "fail", "failing", "error", "errors", "cancelled")
_SKIPPED = ("skipped", "pending", "todo", "xfailed", "xpassed")
_IN_SUMMARIES = frozenset({*WORDS, "passing", "failing", "cancelled"})
"""Without one of these words, a line that looks like a summary is another one."""
_UNBUILT = re.compile("|".join(pattern for runner in RUNNERS for pattern in runner.unbuilt))
_TOTALS = tuple(dict.fromkeys(runner.totals for runner in RUNNERS))

TESTS = (
    *(glob for runner in RUNNERS for glob in runner.tests),
    *("*Test.java", "*Tests.java", "*IT.java", "*Test.kt", "*Tests.cs", "*Test.php", "*_spec.rb", "*_test.rb"),
    *("test_*.rb", "*_test.exs", "*_test.dart", "*_test.c", "*_test.cc", "*_test.cpp"),
    *("*.golden", "*.approved.*", "*.bats", "*.feature"),
)
"""Names of test files, and of snapshots that tests compare with."""

TEST_FOLDERS = (
    *("test/", "tests/", "__tests__/", "__mocks__/", "__snapshots__/", "spec/", "specs/", "testdata/", "fixtures/"),
    *("__fixtures__/", "__testfixtures__/", "golden/", "goldens/", "__golden__/", "snapshots/", "cassettes/"),
    *("test-data/", "test_data/", "e2e/", "cypress/", "/testing/", "/benches/"),
)
"""Folders in which every file belongs to the tests: cases, helpers and data."""

CONFIGURATION = (
    *(glob for runner in RUNNERS for glob in runner.configuration),
    # Python, whatever runs it
    *("sitecustomize.py", "usercustomize.py", "*.pth", "pyvenv.cfg", "*.egg-info", "*.dist-info"),
    *("understudy_*.py", "pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt", "constraints*.txt"),
    *("Pipfile", "environment.yml", "environment.yaml", "pixi.toml", "uv.toml", "pdm.toml", "poetry.toml"),
    *("hatch.toml", ".python-version", ".env", ".env.*", ".venv/", "venv/"),
    # tox, nox, coverage, and other Python runners and analysers
    *("nose2.cfg", "tox.ini", "tox.toml", "noxfile.py", ".coveragerc", ".coveragerc.toml", "behave.ini", ".behaverc"),
    *("mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", ".flake8", "pylintrc", ".pylintrc", "pyrightconfig.json"),
    *(".isort.cfg", ".bandit", "pytype.cfg"),
    # JavaScript, whatever runs it, and its compilers and analysers
    *("lerna.json", "nx.json", "project.json", "turbo.json", "bunfig.toml", "deno.json", "deno.jsonc"),
    *(".tool-versions", "mise.toml", ".mise.toml", ".nycrc*", ".c8rc*", "karma.conf.*", "playwright.config.*"),
    *("cypress.config.*", "cypress.json", "wdio.conf.*"),
    *("tsconfig*.json", "jsconfig*.json", "babel.config.*", ".babelrc*", ".swcrc", "webpack.config.*"),
    *("rollup.config.*", "eslint.config.*", ".eslintrc*", ".eslintignore", "biome.json*", ".prettierrc*"),
    # make and other builders
    *("Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "Justfile", ".justfile", "Taskfile.y*ml"),
    *("CMakeLists.txt", "meson.build", "build.ninja", "Rakefile", "Gemfile", ".rspec", "phpunit.xml*"),
    *("pom.xml", "build.gradle*", "settings.gradle*", "gradle.properties", "gradlew", "BUILD", "BUILD.bazel"),
    # git
    *(".gitattributes", ".gitmodules"),
)
"""Files and folders that configure a runner, or what a runner starts."""

_TEXTS = ("md", "markdown", "rst", "adoc")
_ABOUT = (
    *("README", "CHANGELOG", "CHANGES", "HISTORY", "NEWS", "LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS"),
    *("CONTRIBUTORS", "CONTRIBUTING", "CODE_OF_CONDUCT", "SECURITY", "MAINTAINERS", "SUPPORT", "TODO"),
)

DOCUMENTATION = (
    *(f"/*.{suffix}" for suffix in _TEXTS),
    *(f"/{folder}/**/*.{suffix}" for folder in ("doc", "docs") for suffix in (*_TEXTS, "txt", "png", "svg", "jpg")),
    *(f"{name}{end}" for name in _ABOUT for end in ("", ".txt", *(f".{suffix}" for suffix in _TEXTS))),
)
"""Files for people. Texts in other folders may be data of a program."""

LOCKS = {
    **{lock: manifest for runner in RUNNERS for lock, manifest in runner.locks.items()},
    "deno.lock": "deno.json",
    "pixi.lock": "pixi.toml",
    "Pipfile.lock": "Pipfile",
    "Gemfile.lock": "Gemfile",
    "composer.lock": "composer.json",
}
"""Lock file → the file beside it that declares the dependencies. A lock follows an honest change of that file."""

RUNNER_MODULES = frozenset(sys.stdlib_module_names) | {
    *(module for runner in RUNNERS for module in runner.modules),
    *("nose", "nose2", "tox", "nox", "colorama", "sitecustomize", "usercustomize", "pkg_resources", "setuptools"),
}
"""Top-level Python modules that test runners import, for interpreters that cannot be asked."""


@dataclass(frozen=True, kw_only=True)
class PreparedCheck:
    """A check with the test files of one result."""

    check: Check
    kind: str = ANY_COMMAND
    """The name of the test runner that the built-in check starts."""
    tests: tuple[str, ...] = ()
    """The test files that the result added or changed, relative to the tree."""
    builtin: bool = False
    uses_tests: bool = False
    """The check runs only those files, so a run on the base would show nothing."""

    @property
    def runner(self) -> TestRunner:
        """Return the test runner of a built-in check, for others the one that stands for any command."""
        return BY_NAME[self.kind]


# -- outputs --------------------------------------------------------------------------------------------------------


def printed_outcomes(stdout: bytes, stderr: bytes) -> dict[str, str]:
    """Return test id → ``passed``, ``failed`` or ``skipped`` for runners that print a line for each test."""
    outcomes: dict[str, str] = {}
    for text in (_text(stdout), _text(stderr)):
        for runner in RUNNERS:
            for test, word in runner.printed(text):
                add_outcome(outcomes, test, word)
    return outcomes


def printed_counts(stdout: bytes, stderr: bytes) -> Counts | None:
    """Return the sum of all summaries of test runs in the output; None if there is none."""
    text = f"{_text(stdout)}\n{_text(stderr)}"
    numbers = [total for totals in _TOTALS for total in totals(text)]
    if not any(word in _IN_SUMMARIES for word, _ in numbers):
        return None
    passed, failed, skipped = (
        sum(number for word, number in numbers if word in words) for words in (_PASSED, _FAILED, _SKIPPED)
    )
    return Counts(passed=passed, failed=failed, skipped=skipped)


def build_failed(stdout: bytes, stderr: bytes) -> bool:
    """Return whether a failed run says that tests could not be compiled or loaded."""
    return bool(_UNBUILT.search(_text(stdout)) or _UNBUILT.search(_text(stderr)))


def _text(data: bytes) -> str:
    text = data[-_MOST_BYTES:].decode("utf-8", "replace").replace("\r\n", "\n")
    return _ANSI.sub("", text)


# -- new tests ------------------------------------------------------------------------------------------------------


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
    project: str = "",
    has_python: bool,
    has_pytest: bool,
    has_pytest_cov: bool,
) -> Detected:
    """Return a check for each language in which the result added or changed test files.

    ``read`` and ``read_base`` read files of the result and of its base. ``project`` is the folder of the Python project
    that the result is about. ``has_pytest`` and ``has_pytest_cov``: the
    project's interpreter can import it.
    """
    new = NewTests(
        changed=_present(changes),
        tree=tree,
        read=read,
        read_base=read_base,
        project=project,
        has_python=has_python,
        has_pytest=has_pytest,
        has_pytest_cov=has_pytest_cov,
    )
    plans: dict[str, PreparedCheck] = {}
    notes: dict[str, str] = {}
    for runner in RUNNERS:
        if runner.language in plans:
            continue
        answer = runner.check_new(new)
        if isinstance(answer, NewTestsCheck):
            check = Check(name=f"tests-{runner.name}", argv=answer.argv, cwd=answer.folder or None)
            plans[runner.language] = PreparedCheck(
                check=check, kind=runner.name, tests=tuple(answer.tests), builtin=True, uses_tests=True
            )
        elif answer is not None:
            notes.setdefault(runner.language, answer)
    return Detected(
        plans=tuple(plans.values()),
        notes=tuple(note for language, note in notes.items() if language not in plans),
    )


def test_files(changes: Sequence[Change], read: Read) -> list[str]:
    """Return the added or changed test files of every built-in check: the value of ``{tests}``."""
    changed = _present(changes)
    tests = {path for runner in RUNNERS for path in runner.test_files(changed, read)}
    return [path for path in changed if path in tests]


def test_globs(read: Read) -> list[str]:
    """Return the names of test files that the project configures."""
    return [glob for runner in RUNNERS for glob in runner.test_globs(read)]


def _present(changes: Sequence[Change]) -> list[str]:
    return [path for status, path in changes if status[:1] != "D"]


# -- files ----------------------------------------------------------------------------------------------------------


def matching(paths: Iterable[str], globs: Sequence[str]) -> list[str]:
    """Return the paths that one of ``globs`` matches."""
    spec = _spec(tuple(globs))
    return [path for path in paths if spec.match_file(path)]


@functools.lru_cache(maxsize=16)
def _spec(globs: tuple[str, ...]) -> GitIgnoreSpec:
    # Compiling the two hundred globs that name tests takes longer than matching thousands of paths.
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines(globs)
