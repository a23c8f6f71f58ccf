"""List which files are tests and which configure a known runner, as globs of ``.gitignore``."""

from __future__ import annotations

_SCRIPTS = ("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts")

TESTS = (
    *("test_*.py", "*_test.py", "test.py", "tests.py", "doctest_*.txt", "test_*.txt"),
    *(f"*.{word}.{suffix}" for word in ("test", "spec", "cy", "e2e") for suffix in _SCRIPTS),
    *(f"{name}.{suffix}" for name in ("test", "test-*", "*-test", "*_test") for suffix in _SCRIPTS),
    *("*.snap", "*.ambr", "*_test.go", "*Test.java", "*Tests.java", "*IT.java", "*Test.kt", "*Tests.cs", "*Test.php"),
    *("*_spec.rb", "*_test.rb", "test_*.rb", "*_test.exs", "*_test.dart", "*_test.c", "*_test.cc", "*_test.cpp"),
    *("*.golden", "*.approved.*", "test.rs", "tests.rs", "*_test.rs", "*_tests.rs", "*.bats", "*.feature"),
)
"""Names of test files, and of snapshots that tests compare with."""

TEST_FOLDERS = (
    *("test/", "tests/", "__tests__/", "__mocks__/", "__snapshots__/", "spec/", "specs/", "testdata/", "fixtures/"),
    *("__fixtures__/", "__testfixtures__/", "golden/", "goldens/", "__golden__/", "snapshots/", "cassettes/"),
    *("test-data/", "test_data/", "e2e/", "cypress/", "/testing/", "/benches/"),
)
"""Folders in which every file belongs to the tests: cases, helpers and data."""

CONFIGURATION = (
    # Python, whatever runs it
    *("conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "pyvenv.cfg", "*.egg-info", "*.dist-info"),
    *("understudy_*.py", "pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt", "constraints*.txt"),
    *("Pipfile", "environment.yml", "environment.yaml", "pixi.toml", "uv.toml", "pdm.toml", "poetry.toml"),
    *("hatch.toml", ".python-version", ".env", ".env.*", ".venv/", "venv/"),
    # pytest, unittest, tox, nox, coverage, and other Python runners and analysers
    *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "load_tests.py", "unittest.cfg", "nose2.cfg"),
    *("tox.ini", "tox.toml", "noxfile.py", ".coveragerc", ".coveragerc.toml", "behave.ini", ".behaverc"),
    *("mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", ".flake8", "pylintrc", ".pylintrc", "pyrightconfig.json"),
    *(".isort.cfg", ".bandit", "pytype.cfg"),
    # npm, pnpm, yarn, node
    *("package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/", ".pnp.*", ".pnpmfile.*", "pnpm-workspace.yaml"),
    *("lerna.json", "nx.json", "project.json", "turbo.json", "bunfig.toml", "deno.json", "deno.jsonc"),
    *("node.config.json", ".nvmrc", ".node-version", ".tool-versions", "mise.toml", ".mise.toml", "node_modules/"),
    # vitest, jest, mocha, and other JavaScript runners, their compilers and analysers
    *("vitest.config.*", "vitest.workspace.*", "vitest.setup.*", "vite.config.*", "jest.config.*", "jest.setup.*"),
    *("jest-preset.*", "setupTests.*", "setup-tests.*", ".mocharc*", "mocha.opts", ".taprc", ".nycrc*", ".c8rc*"),
    *("ava.config.*", "karma.conf.*", "playwright.config.*", "cypress.config.*", "cypress.json", "wdio.conf.*"),
    *("tsconfig*.json", "jsconfig*.json", "babel.config.*", ".babelrc*", ".swcrc", "webpack.config.*"),
    *("rollup.config.*", "eslint.config.*", ".eslintrc*", ".eslintignore", "biome.json*", ".prettierrc*"),
    # go
    *("go.mod", "go.work", "/vendor/", ".golangci.*"),
    # cargo
    *("Cargo.toml", "build.rs", ".cargo/", "rust-toolchain", "rust-toolchain.toml", "nextest.toml", "clippy.toml"),
    *(".clippy.toml", "rustfmt.toml", ".rustfmt.toml"),
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
    "package-lock.json": "package.json",
    "npm-shrinkwrap.json": "package.json",
    "yarn.lock": "package.json",
    "pnpm-lock.yaml": "package.json",
    "bun.lock": "package.json",
    "bun.lockb": "package.json",
    "deno.lock": "deno.json",
    "uv.lock": "pyproject.toml",
    "poetry.lock": "pyproject.toml",
    "pdm.lock": "pyproject.toml",
    "pylock.toml": "pyproject.toml",
    "pixi.lock": "pixi.toml",
    "Pipfile.lock": "Pipfile",
    "Cargo.lock": "Cargo.toml",
    "go.sum": "go.mod",
    "go.work.sum": "go.work",
    "Gemfile.lock": "Gemfile",
    "composer.lock": "composer.json",
}
"""Lock file → the file beside it that declares the dependencies. A lock follows an honest change of that file."""
