"""Find which changed files decide a check, and the content with which the base judges a result.

Some files belong to the tests of the base although neither name nor folder says so: a module that only tests import and
that makes assertions, what a script that the check starts imports, and data that only tests name. They can make tests
pass like the tests themselves. What code imports or names as well is left out: it may be the code under change.
"""

from __future__ import annotations

import ast
import enum
import functools
import os
import posixpath
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from understudy.judge.deciding import restored_parts
from understudy.judge.project.command_lines import Read, started_files
from understudy.judge.runs import runner_registry
from understudy.judge.runs.judged_tree import Change
from understudy.judge.runs.runner_registry import matching

_LISTS_FILES = re.compile(rb"glob|iterdir|listdir|scandir|readdir|ReadDir|read_dir|walk|\\bls\\b|find ")
_TEXTS = frozenset({".md", ".rst", ".txt"})
"""Suffixes of texts whose examples a check may run."""
ReadMany = Callable[[Iterable[str]], Mapping[str, bytes]]

_MOST_READ = 2000
"""Most files whose imports are read; further ones are left out."""
_MOST_BYTES = 512 * 1024
_SCRIPTS = frozenset({".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"})
CODE_SUFFIXES = _SCRIPTS.union(
    (".py", ".go", ".rs", ".java", ".kt", ".c", ".h", ".cc", ".cpp", ".hpp", ".rb", ".php", ".cs")
)
_SUFFIXES_OF_DATA = frozenset(
    {
        *(".json", ".jsonl", ".csv", ".tsv", ".txt", ".xml", ".html", ".yaml", ".yml", ".snap", ".golden", ".expected"),
        *(".out", ".dat", ".bin", ".pickle", ".pkl", ".npy", ".npz", ".parquet", ".db", ".sqlite"),
    }
)
_HAS_CODE = re.compile(r"\b(?:def|lambda|function|async)\b|=>")
"""Matches a module that has more than values."""
_NAMES_CASES = re.compile(
    r"(?:^|_|-)(?:cases?|expect\w*|fixtures?|golden|oracles?|reference|samples?)(?:_|-|$)", re.IGNORECASE
)
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
_IMPORTS_RUNNER = re.compile(
    rb"^[ \t]*(?:import|from)[ \t]+(?:_?pytest|unittest|hypothesis|nose2?|testtools|behave)\b|^def pytest_\w+\(",
    re.MULTILINE,
)
_TEST_MODULE = r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+%s\s*;"


class Reason(enum.StrEnum):
    """Why a changed file decides a check."""

    TEST = "it belongs to the tests"
    SUPPORT = "only tests or their scripts use it"
    DECLARED = "configured_by names it"
    CONFIGURATION = "it configures a test runner"
    STARTED = "the check names or starts it"
    SHADOWS = "it hides a module that the test runner imports"
    PLUGIN = "it is a plugin of the test runner"


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A file that differs between the result and what the base judges."""

    path: str
    reason: Reason
    content: bytes | None = None
    """The content if only sections are restored; None for the base's file, or no file if the base has none."""


@dataclass(frozen=True, kw_only=True)
class Trees:
    """What deciding needs to know about the two trees; paths are POSIX and relative to the top."""

    changes: Sequence[Change]
    base_paths: Collection[str]
    result_paths: Collection[str]
    read_base: Read
    read_result: Read
    read_many: ReadMany
    """Returns the contents of files of the base, without those that are large."""


@dataclass(frozen=True, kw_only=True)
class CheckFacts:
    """What deciding needs to know about a check."""

    argv: Sequence[str]
    folder: str = ""
    """Where it runs, relative to the top."""
    configured_by: Sequence[str] = ()
    test_patterns: Sequence[str] = ()
    """Further names of test files, as globs of ``.gitignore``."""
    modules: Collection[str] = ()
    """Top-level modules that its interpreter provides."""
    import_roots: Sequence[str] = ("",)
    """Folders of the tree on the import path, relative to the top."""
    plugins: Collection[str] = field(default_factory=frozenset)
    """Files of the tree that were loaded as plugins of the runner."""


def decides(trees: Trees, check: CheckFacts) -> list[Restored]:
    """Return the changed files that decide the check, each with the first reason that applies, sorted by path.

    A file whose deciding sections are unchanged is left out, and so is a lock file that follows a changed manifest.
    Of files with code and tests, only the tests are restored.
    """
    letters = {path: letter for letter, path in trees.changes}
    restored = []
    for path, reason in sorted(_reasons(trees, check).items()):
        name = PurePosixPath(path).name
        content: bytes | None = None
        sums = name in {"go.sum", "go.work.sum"}
        if reason is Reason.CONFIGURATION and letters[path] != "T" and (sums or restored_parts.splits(path)):
            base, result = trees.read_base(path), trees.read_result(path)
            if result is not None and base != result:
                # A new manifest loses its deciding sections only: without it, the code may not build.
                empty = b"{}" if path.endswith(".json") else b""
                restore = (
                    (lambda _, old, new: restored_parts.merged_sums(old, new))
                    if sums
                    else restored_parts.restored_sections
                )
                content = restore(path, empty if base is None else base, result)
                if content == result:
                    continue
        restored.append(Restored(path=path, reason=reason, content=content))
    whole = {file.path for file in restored}
    for path in letters.keys() - whole:
        base, result = trees.read_base(path), trees.read_result(path)
        if base is not None and result is not None and restored_parts.may_have_tests(path, base):
            content = restored_parts.restored_tests(path, base, result)
            if content != result:
                restored.append(Restored(path=path, reason=Reason.TEST, content=content))
    return sorted(restored, key=lambda file: file.path)


def supports(trees: Trees, check: CheckFacts) -> list[Restored]:
    """Return the changed files that only tests, or scripts that the check starts, use .

    ``decides`` does not return them, because some may be code: a run with the base's version of them is made besides.
    """
    decided = {file.path for file in decides(trees, check)}
    changed = [path for letter, path in trees.changes if letter[:1] != "A" and path not in decided]
    present = [path for path in changed if path in trees.base_paths]
    if not present:
        return []
    search = _search(trees, check)
    return [
        Restored(path=path, reason=Reason.SUPPORT)
        for path in sorted(present)
        if search.supports(path, trees.read_result)
    ]


def _search(trees: Trees, check: CheckFacts) -> _Search:
    started = started_files(check.argv, check.folder, trees.base_paths, trees.read_base)
    tests = set(trees.base_paths).difference(without_test_support(trees.base_paths, check.test_patterns))
    return _Search(trees.base_paths, frozenset(tests), frozenset(started), trees.read_many)


def may_support(trees: Trees, check: CheckFacts) -> list[Restored]:
    """Return further changed files that may hold what tests expect, if the result changes other code as well.

    They are modules without functions, or with a name like cases, that only tests import, of the base and of the
    result; and data that no code names. Any of them may be code.
    """
    decided = {file.path for file in (*decides(trees, check), *supports(trees, check))}
    changed = [path for letter, path in trees.changes if letter[:1] != "A" and path not in decided]
    present = [path for path in changed if path in trees.base_paths]
    if not present:
        return []
    search = _search(trees, check)
    possible = [path for path in present if search.may_support(path, trees)]
    left = {path for letter, path in trees.changes if letter[:1] != "D"}.difference(decided, possible)
    has_code = any(PurePosixPath(path).suffix in CODE_SUFFIXES for path in left)
    return [Restored(path=path, reason=Reason.SUPPORT) for path in sorted(possible)] if has_code else []


def is_test(path: str, patterns: Sequence[str] = ()) -> bool:
    """Return whether a file is a test or is in a folder of tests."""
    return bool(tests_among([path], patterns))


def tests_among(paths: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the files that are tests or in a folder of tests."""
    return matching(paths, [*runner_registry.TESTS, *runner_registry.TEST_FOLDERS, *patterns])


def is_test_file(path: str, patterns: Sequence[str] = ()) -> bool:
    """Return whether the name of a file is that of a test."""
    return bool(matching([path], [*runner_registry.TESTS, *patterns]))


def without_test_support(paths: Iterable[str], patterns: Sequence[str] = ()) -> list[str]:
    """Return the files that are not tests, are not in a folder of tests, and do not configure a runner."""
    every = list(paths)
    globs = [*runner_registry.TESTS, *runner_registry.TEST_FOLDERS, *runner_registry.CONFIGURATION, *patterns]
    support = set(matching(every, globs))
    return [path for path in every if path not in support]


def documentation(
    paths: Iterable[str], patterns: Sequence[str], program: Callable[[], Mapping[str, bytes]]
) -> list[str]:
    """Return the files that are for people: texts by name and folder, which neither belong to tests nor to a program.

    ``program`` returns its files. A text may be data if one of them has its name, or that of its folder and a call that
    lists files.
    """
    texts = without_test_support(matching(paths, runner_registry.DOCUMENTATION), patterns)
    if not texts:
        return []
    names = [os.fsencode(PurePosixPath(path).name) for path in texts]
    users = [
        _without_docstrings(source) if path.endswith(".py") and any(name in source for name in names) else source
        for path, source in program().items()
    ]
    lists = [text for text in users if _LISTS_FILES.search(text)]

    def is_data(path: PurePosixPath) -> bool:
        folder = os.fsencode(path.parent.name)
        return any(os.fsencode(path.name) in text for text in users) or (
            folder != b"" and any(re.search(rb"[\"'/`]%b[\"'/`]" % re.escape(folder), text) for text in lists)
        )

    return [path for path in texts if not is_data(PurePosixPath(path))]


def _without_docstrings(source: bytes) -> bytes:
    """Return the texts of a Python file without docstrings, which mention files for people."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_constant(statement)]
    return ast.unparse(tree).encode("utf-8", "surrogatepass")


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def without_documentation(paths: Iterable[str]) -> list[str]:
    """Return the files that are not texts for people by their names."""
    every = list(paths)
    texts = set(matching(every, runner_registry.DOCUMENTATION))
    return [path for path in every if path not in texts]


def _reasons(trees: Trees, check: CheckFacts) -> dict[str, Reason]:
    changed = [path for _, path in trees.changes]
    reasons: dict[str, Reason] = {}

    def add(reason: Reason, paths: Iterable[str]) -> None:
        for path in paths:
            reasons.setdefault(path, reason)

    add(Reason.PLUGIN, (path for path in changed if path in check.plugins))
    add(Reason.DECLARED, matching(changed, check.configured_by) if check.configured_by else ())
    # A file with sections is split even if `configured_by` names it, but not if it is data of a test.
    tests = set(matching(changed, [*runner_registry.TESTS, *runner_registry.TEST_FOLDERS, *check.test_patterns]))
    split = [path for path in changed if restored_parts.splits(path)]
    reasons.update(dict.fromkeys(split, Reason.CONFIGURATION))
    reasons.update(dict.fromkeys(tests.intersection(split), Reason.TEST))
    add(Reason.CONFIGURATION, matching(changed, runner_registry.CONFIGURATION))
    add(Reason.CONFIGURATION, _locks(changed, trees))
    add(Reason.SHADOWS, _shadows(changed, trees, check))
    add(Reason.TEST, tests)
    add(Reason.TEST, _test_packages(changed, trees, check))
    texts = (path for path in changed if PurePosixPath(path).suffix in _TEXTS)
    add(Reason.TEST, (path for path in texts if restored_parts.EXAMPLE in (trees.read_base(path) or b"")))
    for paths, read in ((trees.base_paths, trees.read_base), (trees.result_paths, trees.read_result)):
        names = started_files(check.argv, check.folder, paths, read)
        add(Reason.STARTED, (path for path in changed if path in names))
    return reasons


def _locks(changed: Sequence[str], trees: Trees) -> list[str]:
    locks = []
    for path in changed:
        manifest = runner_registry.LOCKS.get(PurePosixPath(path).name)
        if manifest is None:
            continue
        beside = str(PurePosixPath(path).with_name(manifest))
        merged = path.endswith((".sum",))
        if merged or not restored_parts.dependencies_changed(
            beside, trees.read_base(beside), trees.read_result(beside)
        ):
            locks.append(path)
    return locks


def _test_packages(changed: Sequence[str], trees: Trees, check: CheckFacts) -> list[str]:
    """Return the changed ``__init__.py`` of folders that contain tests and no code."""
    packages = []
    for path in changed:
        if PurePosixPath(path).name != "__init__.py":
            continue
        folder = str(PurePosixPath(path).parent)
        beside = {
            other
            for other in {*trees.base_paths, *trees.result_paths}
            if other.endswith(".py") and str(PurePosixPath(other).parent) == folder and other != path
        }
        tests = set(matching(beside, [*runner_registry.TESTS, "conftest.py", *check.test_patterns]))
        if beside and tests == beside:
            packages.append(path)
    return packages


def _shadows(changed: Sequence[str], trees: Trees, check: CheckFacts) -> list[str]:
    """Return the changed modules that hide one of the interpreter's, unless the base has a module of that name.

    In a folder of tests, which comes first on the import path, a module can hide the code under test as well.
    """
    shadows = []
    roots = list(dict.fromkeys(["", check.folder, *check.import_roots]))
    project_modules = {_top(_below(path, root)) for path in trees.base_paths for root in roots if _is_below(path, root)}
    packages = {path.rpartition("/")[0] for path in trees.result_paths if path.endswith("/__init__.py")}
    for path in matching(changed, runner_registry.TEST_FOLDERS):
        folder, _, last = path.removesuffix("/__init__.py").rpartition("/")
        module = last if path.endswith("/__init__.py") else _top(last)
        if module is None or folder in packages or module not in project_modules | set(check.modules):
            continue
        if module not in {_top(_below(other, folder)) for other in trees.base_paths if _is_below(other, folder)}:
            shadows.append(path)
    for root in roots:
        before = {_top(_below(path, root)) for path in trees.base_paths if _is_below(path, root)}
        for path in changed:
            if _is_below(path, root):
                name = _top(_below(path, root))
                if name is not None and name in check.modules and name not in before:
                    shadows.append(path)
    return shadows


def _is_below(path: str, root: str) -> bool:
    return not root or path.startswith(f"{root}/")


def _below(path: str, root: str) -> str:
    return path[len(root) + 1 :] if root else path


def _top(path: str) -> str | None:
    """Return the top-level module that a file is or belongs to, or None for a file that cannot be imported."""
    first, _, rest = path.partition("/")
    if rest:
        return first if rest.endswith((".py", ".pyc", ".so", ".pyd")) else None
    name, _, suffix = first.partition(".")
    return name if suffix.endswith(("py", "pyc", "so", "pyd")) else None


def contents(restored: Iterable[Restored]) -> Mapping[str, bytes | None]:
    """Return path → content for ``JudgedTree.compose``; None stands for the base's file."""
    return {file.path: file.content for file in restored}


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
            if self._is_tested_itself(path) and not users & self._started:
                return any(_IMPORTS_RUNNER.search(read(path) or b"") for read in (self._read, read_result))
            return bool(users & self._started) or any(self._asserts(path, read) for read in (self._read, read_result))
        return suffix not in CODE_SUFFIXES and suffix not in _DOCUMENTS and self._is_test_data(path)

    def may_support(self, path: str, trees: Trees) -> bool:
        """Return whether a file may hold what tests expect; see the function of this name."""
        where = PurePosixPath(path)
        if where.suffix in _SUFFIXES_OF_DATA:
            hidden = any(part.startswith(".") for part in where.parts)
            return not hidden and self._users(where) <= self._tests | self._started | self._helpers
        if where.suffix != ".py" and where.suffix not in _SCRIPTS:
            return False
        users = {other for other in self._importers if path in self._importers[other]}
        if not users or not users <= self._tests | self._started | self._helpers:
            return False
        if _HAS_CODE.search(self._texts.get(path, "")) and not _NAMES_CASES.search(where.stem):
            return False
        return not any(path in imported for imported in self._imports_of_code(trees))

    def _imports_of_code(self, trees: Trees) -> Iterable[Iterable[str]]:
        """Yield what each changed file of code imports in the result."""
        for letter, path in trees.changes:
            is_code = path.endswith(".py") or PurePosixPath(path).suffix in _SCRIPTS
            if is_code and letter[:1] != "D" and not is_test(path) and path not in self._tests | self._helpers:
                text = (trees.read_result(path) or b"").decode("utf-8", "replace")
                yield self._imports(path, text)

    def _is_tested_itself(self, path: str) -> bool:
        """Return whether a test is named after a module of Python: it is code under test, which may assert as well."""
        stem = PurePosixPath(path).stem
        return any(PurePosixPath(test).name in {f"test_{stem}.py", f"{stem}_test.py"} for test in self._tests)

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
        users = self._users(PurePosixPath(path))
        return bool(users) and users <= self._tests | self._started

    def _users(self, where: PurePosixPath) -> set[str]:
        """Return the files that name a file, or a folder that it is in."""
        names = re.escape(where.name)
        for folder in where.parts[:-1]:
            names += rf"|(?<=[\"'/]){re.escape(folder)}(?=[\"'/])"
        pattern = re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])")
        return {other for other, text in self._texts.items() if pattern.search(text)}

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
        sources = (path for path in self._texts if path.endswith(".py") or PurePosixPath(path).suffix in _SCRIPTS)
        return {path: frozenset(self._imports(path, self._texts[path])) for path in sources}

    def _imports(self, path: str, text: str) -> set[str]:
        imported = (
            _python_imports(path, text, self._modules) if path.endswith(".py") else self._script_imports(path, text)
        )
        return set(imported) - {path}

    @functools.cached_property
    def _modules(self) -> dict[str, list[str]]:
        """Name of a module, as any folder of the import path makes it → its files."""
        modules: dict[str, list[str]] = {}
        for path in self._paths:
            if path.endswith(".py"):
                parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
                for start in range(len(parts)):  # any folder may be on the import path
                    modules.setdefault(".".join(parts[start:]), []).append(path)
        return modules

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
