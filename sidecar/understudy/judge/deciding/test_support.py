"""Find changed files that belong to the tests of the base although neither name nor folder says so.

A module that only tests import and that makes assertions, what a script that the check starts imports, and data that
only tests name can make tests pass like the tests themselves. What code imports or names as well is left out: it may be
the code under change.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

Read = Callable[[str], bytes | None]
ReadMany = Callable[[Iterable[str]], Mapping[str, bytes]]

_MOST_READ = 2000
"""Most files whose imports are read; further ones are left out."""
_MOST_BYTES = 512 * 1024
_SCRIPTS = frozenset({".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"})
CODE_SUFFIXES = _SCRIPTS | {
    ".py",
    ".go",
    ".rs",
    ".java",
    ".kt",
    ".c",
    ".h",
    ".cc",
    ".cpp",
    ".hpp",
    ".rb",
    ".php",
    ".cs",
}
_DOCUMENTS = frozenset({".md", ".rst", ".adoc"})

_PYTHON_FROM = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)", re.MULTILINE)
_PYTHON_IMPORT = re.compile(r"^[ \t]*import[ \t]+([^\n#;]+)", re.MULTILINE)
_SCRIPT_IMPORT = re.compile(r"""(?:\bfrom|\brequire\(|\bimport\(?|\bmock\()\s*["'](\.{1,2}/[^"'\n]*)["']""")
_ASSERTS = {
    ".py": re.compile(
        rb"^[ \t]*(?:import|from)[ \t]+(?:_?pytest|unittest|hypothesis|nose2?|testtools|behave)\b|^def pytest_\w+\(|"
        rb"^[ \t]+(?:assert|raise AssertionError)\b",
        re.MULTILINE,
    ),
    ".go": re.compile(rb"""^\s*(?:import\s+)?(?:\w+\s+)?"testing"\s*$""", re.MULTILINE),
    ".js": re.compile(
        rb"""["'](?:node:test|(?:node:)?assert(?:/strict)?|vitest|@jest/globals|chai|expect|@testing-library/[\w-]+|"""
        rb"""supertest|sinon)["']|\bexpect\("""
    ),
}
"""Suffix → what shows that a file has assertions, fixtures or hooks."""
_TEST_MODULE = r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+%s\s*;"


def test_support(
    changed: Iterable[str],
    *,
    base_paths: Collection[str],
    is_test: Callable[[Iterable[str]], Collection[str]],
    started: Collection[str],
    read_many: ReadMany,
    read_result: Read,
) -> list[str]:
    """Return the paths among ``changed`` that support the tests or the ``started`` scripts of the base, sorted.

    ``is_test`` returns which of some paths belong to tests or configure them.
    """
    present = [path for path in changed if path in base_paths]
    if not present:
        return []
    search = _Search(base_paths, frozenset(is_test(base_paths)), frozenset(started), read_many)
    return sorted(path for path in present if search.supports(path, read_result))


class _Search:
    def __init__(self, paths: Collection[str], tests: frozenset[str], started: frozenset[str], read: ReadMany) -> None:
        self._tests = tests
        self._started = started
        self._paths = frozenset(paths)
        self._read_many = read

    def supports(self, path: str, read_result: Read) -> bool:
        suffix = PurePosixPath(path).suffix
        if suffix == ".rs":
            return self._is_test_module(path)
        if suffix == ".go":
            return self._asserts(path, self._read)
        if suffix == ".py" or suffix in _SCRIPTS:
            users = {other for other in self._importers if path in self._importers[other]}
            helpers = {helper for helper in self._helpers if helper != path and PurePosixPath(helper).suffix == suffix}
            if not users or not users <= self._tests | self._started | helpers:
                return False
            return bool(users & self._started) or any(self._asserts(path, read) for read in (self._read, read_result))
        return suffix not in CODE_SUFFIXES and suffix not in _DOCUMENTS and self._is_test_data(path)

    @functools.cached_property
    def _helpers(self) -> frozenset[str]:
        """Modules with assertions that tests import: a helper may use another one."""
        imported = {other for test in self._tests for other in self._importers.get(test, ())}
        code = (other for other in imported if PurePosixPath(other).suffix in {".py", *_SCRIPTS})
        return frozenset(other for other in code if self._asserts(other, self._read))

    def _asserts(self, path: str, read: Read) -> bool:
        suffix = PurePosixPath(path).suffix
        pattern = _ASSERTS[".js" if suffix in _SCRIPTS else suffix]
        return pattern.search((read(path) or b"")[:_MOST_BYTES]) is not None

    def _is_test_module(self, path: str) -> bool:
        """Return whether a file of Rust declares this one as a module that only tests have."""
        where = PurePosixPath(path)
        name = where.parent.name if where.name == "mod.rs" else where.stem
        folder = where.parent.parent if where.name == "mod.rs" else where.parent
        above = [folder / "lib.rs", folder / "main.rs", folder / "mod.rs", folder.parent / f"{folder.name}.rs"]
        pattern = re.compile(_TEST_MODULE % re.escape(name))
        return any(pattern.search(self._texts.get(str(declaring), "")) for declaring in above)

    def _is_test_data(self, path: str) -> bool:
        """Return whether tests or started scripts name this file or its folder, and no code does."""
        where = PurePosixPath(path)
        names = re.escape(where.name)
        if len(where.parts) > 1:
            names += rf"|(?<=[\"'/]){re.escape(where.parent.name)}(?=[\"'/])"
        pattern = re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])")
        users = {other for other, text in self._texts.items() if pattern.search(text)}
        return bool(users) and users <= self._tests | self._started

    @functools.cached_property
    def _texts(self) -> dict[str, str]:
        """Every file of the base in a known language, and every started script."""
        files = [path for path in self._paths if PurePosixPath(path).suffix in CODE_SUFFIXES or path in self._started]
        tests_first = sorted(files, key=lambda path: (path not in self._tests, path))[:_MOST_READ]
        return {path: data.decode("utf-8", "replace") for path, data in self._read_many(tests_first).items()}

    def _read(self, path: str) -> bytes:
        return self._texts.get(path, "").encode()

    @functools.cached_property
    def _importers(self) -> dict[str, frozenset[str]]:
        """File → the files of the base that it imports."""
        modules: dict[str, list[str]] = {}
        for path in self._paths:
            if path.endswith(".py"):
                parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
                for start in range(len(parts)):  # any folder may be on the import path
                    modules.setdefault(".".join(parts[start:]), []).append(path)
        return {
            path: frozenset(
                _python_imports(path, text, modules) if path.endswith(".py") else self._script_imports(path, text)
            )
            - {path}
            for path, text in self._texts.items()
            if path.endswith(".py") or PurePosixPath(path).suffix in _SCRIPTS
        }

    def _script_imports(self, path: str, text: str) -> Iterable[str]:
        for name in _SCRIPT_IMPORT.findall(text):
            at = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            stem = re.sub(r"\.[cm]?jsx?$", "", at)
            for candidate in (at, *(f"{base}{end}" for base in (stem, f"{at}/index") for end in _SCRIPTS)):
                if candidate in self._paths:
                    yield candidate


def _python_imports(path: str, text: str, modules: dict[str, list[str]]) -> Iterable[str]:
    names: list[str] = []
    package = path.split("/")[:-1]
    for module, imported in _PYTHON_FROM.findall(text):
        dots = len(module) - len(module.lstrip("."))
        above = package[: len(package) - dots + 1] if dots else []
        whole = ".".join([*above, *filter(None, [module.lstrip(".")])])
        names += [whole, *(f"{whole}.{name.split()[0]}" for name in _listed(imported))]
    for imported in _PYTHON_IMPORT.findall(text):
        names += [name.split()[0] for name in _listed(imported)]
    for name in names:
        yield from modules.get(name, ())


def _listed(names: str) -> Sequence[str]:
    return [name for name in names.strip("() \t\n").replace("\\", " ").split(",") if name.strip()]
