"""Find which changed files decide a check, and the content with which the base judges a result."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from understudy.judge.deciding import inline_tests, known_files, sections, test_support
from understudy.judge.deciding.started_files import Read, started_files
from understudy.judge.deciding.test_support import ReadMany
from understudy.judge.runs.change_scope import matching
from understudy.judge.runs.judged_tree import Change

_LISTS_FILES = re.compile(rb"glob|iterdir|listdir|scandir|readdir|ReadDir|read_dir|walk|\\bls\\b|find ")
_TEXTS = frozenset({".md", ".rst", ".txt"})
"""Suffixes of texts whose examples a check may run."""


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
        if reason is Reason.CONFIGURATION and letters[path] != "T" and (sums or sections.splits(path)):
            base, result = trees.read_base(path), trees.read_result(path)
            if result is not None and base != result:
                # A new manifest loses its deciding sections only: without it, the code may not build.
                empty = b"{}" if path.endswith(".json") else b""
                restore = (lambda _, old, new: sections.merged_sums(old, new)) if sums else sections.restored
                content = restore(path, empty if base is None else base, result)
                if content == result:
                    continue
        restored.append(Restored(path=path, reason=reason, content=content))
    whole = {file.path for file in restored}
    for path in letters.keys() - whole:
        base, result = trees.read_base(path), trees.read_result(path)
        if base is not None and result is not None and inline_tests.may_have(path, base):
            content = inline_tests.restored(path, base, result)
            if content != result:
                restored.append(Restored(path=path, reason=Reason.TEST, content=content))
    return sorted(restored, key=lambda file: file.path)


def supports(trees: Trees, check: CheckFacts) -> list[Restored]:
    """Return the changed files that only tests, or scripts that the check starts, use (``test_support``).

    ``decides`` does not return them, because some may be code: a run with the base's version of them is made besides.
    """
    decided = {file.path for file in decides(trees, check)}
    started = started_files(check.argv, check.folder, trees.base_paths, trees.read_base)
    supporting = test_support.test_support(
        (path for letter, path in trees.changes if letter[:1] != "A" and path not in decided),
        base_paths=trees.base_paths,
        is_test=lambda paths: set(paths).difference(without_test_support(paths, check.test_patterns)),
        started=started,
        read_many=trees.read_many,
        read_result=trees.read_result,
    )
    return [Restored(path=path, reason=Reason.SUPPORT) for path in supporting]


def is_test(path: str, patterns: Sequence[str] = ()) -> bool:
    """Return whether a file is a test or is in a folder of tests."""
    return bool(matching([path], [*known_files.TESTS, *known_files.TEST_FOLDERS, *patterns]))


def is_test_file(path: str, patterns: Sequence[str] = ()) -> bool:
    """Return whether the name of a file is that of a test."""
    return bool(matching([path], [*known_files.TESTS, *patterns]))


def without_test_support(paths: Iterable[str], patterns: Sequence[str] = ()) -> list[str]:
    """Return the files that are not tests, are not in a folder of tests, and do not configure a runner."""
    every = list(paths)
    globs = [*known_files.TESTS, *known_files.TEST_FOLDERS, *known_files.CONFIGURATION, *patterns]
    support = set(matching(every, globs))
    return [path for path in every if path not in support]


def documentation(
    paths: Iterable[str], patterns: Sequence[str], program: Callable[[], Mapping[str, bytes]]
) -> list[str]:
    """Return the files that are for people: texts by name and folder, which neither belong to tests nor to a program.

    ``program`` returns its files. A text may be data if one of them has its name, or that of its folder and a call that
    lists files.
    """
    texts = without_test_support(matching(paths, known_files.DOCUMENTATION), patterns)
    if not texts:
        return []
    users = list(program().values())
    lists = [text for text in users if _LISTS_FILES.search(text)]

    def is_data(path: PurePosixPath) -> bool:
        folder = os.fsencode(path.parent.name)
        return any(os.fsencode(path.name) in text for text in users) or (
            folder != b"" and any(re.search(rb"[\"'/`]%b[\"'/`]" % re.escape(folder), text) for text in lists)
        )

    return [path for path in texts if not is_data(PurePosixPath(path))]


def without_documentation(paths: Iterable[str]) -> list[str]:
    """Return the files that are not texts for people by their names."""
    every = list(paths)
    texts = set(matching(every, known_files.DOCUMENTATION))
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
    tests = set(matching(changed, [*known_files.TESTS, *known_files.TEST_FOLDERS, *check.test_patterns]))
    split = [path for path in changed if sections.splits(path)]
    reasons.update(dict.fromkeys(split, Reason.CONFIGURATION))
    reasons.update(dict.fromkeys(tests.intersection(split), Reason.TEST))
    add(Reason.CONFIGURATION, matching(changed, known_files.CONFIGURATION))
    add(Reason.CONFIGURATION, _locks(changed, trees))
    add(Reason.SHADOWS, _shadows(changed, trees, check))
    add(Reason.TEST, tests)
    add(Reason.TEST, _test_packages(changed, trees, check))
    texts = (path for path in changed if PurePosixPath(path).suffix in _TEXTS)
    add(Reason.TEST, (path for path in texts if inline_tests.EXAMPLE in (trees.read_base(path) or b"")))
    for paths, read in ((trees.base_paths, trees.read_base), (trees.result_paths, trees.read_result)):
        names = started_files(check.argv, check.folder, paths, read)
        add(Reason.STARTED, (path for path in changed if path in names))
    return reasons


def _locks(changed: Sequence[str], trees: Trees) -> list[str]:
    locks = []
    for path in changed:
        manifest = known_files.LOCKS.get(PurePosixPath(path).name)
        if manifest is None:
            continue
        beside = str(PurePosixPath(path).with_name(manifest))
        merged = path.endswith((".sum",))
        if merged or not sections.dependencies_changed(beside, trees.read_base(beside), trees.read_result(beside)):
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
        tests = set(matching(beside, [*known_files.TESTS, "conftest.py", *check.test_patterns]))
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
    for path in matching(changed, known_files.TEST_FOLDERS):
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
