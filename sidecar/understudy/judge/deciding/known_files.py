"""List which files are tests and which configure a runner, as globs of ``.gitignore``.

What belongs to one test runner is in its declaration; here is what is common to several, or has no declaration.
"""

from __future__ import annotations

import sys

from understudy.judge.runs.runner_registry import RUNNERS

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
