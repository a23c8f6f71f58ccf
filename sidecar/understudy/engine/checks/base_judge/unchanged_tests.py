"""Take what the earlier tests do out of a result, so that its new tests are judged by what they do themselves.

New names do not make new tests: a file can import earlier tests, inherit them, call them or be a copy of them. Runners
report all of these as further tests, and they notice what the earlier ones notice.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterable, Mapping

from understudy.engine.checks.deciding.deciding_files import is_test_file
from understudy.engine.checks.judged_tree import ResultToJudge
from understudy.engine.checks.outcomes.outcome_comparison import function_of
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.test_code.definitions import DefinedTest, statements_around
from understudy.mutants.test_code.emptied_tests import emptied, find_tests
from understudy.mutants.test_code.test_ids import KnownTests

_MOST_FILES = 2_000
"""Most test files of the base that are read."""
_LAST_NAME = re.compile(r"\w+$")

_WORD = re.compile(rb"[^\W\d]\w*")


def without_unchanged_tests(
    trial: ResultToJudge, *, new: Collection[str], earlier: Iterable[str]
) -> Mapping[str, bytes]:
    """Return the test files of the result in which earlier tests return at once: path → content.

    A test is an earlier one if the base's file has it, or if it and the code around it are copied from a file of the
    base. One that has cases among the ids of ``new`` tests stays as it is; if there are no new tests, one whose text
    was changed, or something in its file that it uses. ``earlier`` are the ids of the base's tests, as far as known.
    """
    functions = {name[0] for test in earlier if (name := _LAST_NAME.search(function_of(test)))}
    before = {path: _TestFile(path, source, functions) for path, source in _read_base(trial).items()}
    if not before:
        return {}
    after = {**before}
    for path, source in _read_changes(trial).items():
        after.pop(path, None)
        if source is not None:
            after[path] = _TestFile(path, source, functions)
    cases = _located(before, after, new)
    found: dict[str, bytes] = {}
    for path, file in after.items():
        if path not in before:
            copied = {text for other in before.values() for text in file.copied_from(other)}
            old = [one for one in file.tests if file.unnamed_text(one) in copied]
        elif new:
            names = {one.names for one in before[path].tests}
            old = [one for one in file.tests if one.names in names and (path, one) not in cases]
        else:
            changed = file.changed_words(before[path])
            same = [one for one in file.tests if file.text(one) in before[path].texts]
            old = [one for one in same if not changed.intersection(_WORD.findall(file.text(one)))]
        if old:
            found[path] = emptied(path, file.source, old)
    return found


class _TestFile:
    def __init__(self, path: str, source: bytes, names: Collection[str]) -> None:
        language = language_of(path)
        self.path = path
        self.source = source
        self.tests = find_tests(path, source, names)
        self._comment = language.comment.partition("%")[0].strip().encode() if language is not None else b""

    @functools.cached_property
    def texts(self) -> frozenset[bytes]:
        return frozenset(map(self.text, self.tests))

    @functools.cached_property
    def _unnamed(self) -> frozenset[bytes]:
        return frozenset(map(self.unnamed_text, self.tests))

    @functools.cached_property
    def _around(self) -> frozenset[bytes]:
        return frozenset(map(self._plain, statements_around(self.path, self.source, self.tests)))

    def text(self, one: DefinedTest) -> bytes:
        """Return a test with its name and the names of its groups; comments and indentation do not count."""
        return os.fsencode(repr(one.names)) + self._plain(self.source[one.start : one.end])

    def unnamed_text(self, one: DefinedTest) -> bytes:
        """Return the same without names."""
        name = one.names[-1].encode("utf-8", "surrogateescape")
        return self._plain(self.source[one.start : one.end].replace(name, b"", 1))

    def copied_from(self, other: _TestFile) -> frozenset[bytes]:
        """Return the tests without their names that another file has, too, if it has all that is around them."""
        both = self._unnamed & other._unnamed
        return both if both and self._around <= other._around else frozenset()

    def changed_words(self, before: _TestFile) -> frozenset[bytes]:
        """Return the words of what is outside of all tests and is not in an earlier version of the file."""
        return frozenset(_WORD.findall(b" ".join(self._around - before._around)))

    def _plain(self, text: bytes) -> bytes:
        lines = (line.strip() for line in text.splitlines())
        return b"\n".join(line for line in lines if line and not (self._comment and line.startswith(self._comment)))


def _read_base(trial: ResultToJudge) -> dict[str, bytes]:
    """Return the test files of the base; without the code under test."""
    paths = [path for path in trial.tree.paths(trial.base) if _is_read(trial, path)]
    return trial.tree.read_many(trial.base, sorted(paths)[:_MOST_FILES])


def _read_changes(trial: ResultToJudge) -> dict[str, bytes | None]:
    """Return what the result makes of test files; None where one is gone."""
    changes = [(letter, path) for letter, path in trial.changes if _is_read(trial, path)]
    return {path: None if letter[:1] == "D" else _read(trial, path) for letter, path in changes}


def _is_read(trial: ResultToJudge, path: str) -> bool:
    return path not in trial.files and language_of(path) is not None and is_test_file(path, trial.test_patterns)


def _read(trial: ResultToJudge, path: str) -> bytes | None:
    try:
        return trial.tree.read(trial.head, path)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.FILE_TOO_LARGE:
            raise
        return None


def _located(
    before: Mapping[str, _TestFile], after: Mapping[str, _TestFile], tests: Iterable[str]
) -> set[tuple[str, DefinedTest]]:
    """Return the definitions of tests in files that the base has, too."""
    known = KnownTests(
        [(path, None) for path in after if path in before],
        lambda path: after[path].source,
        lambda path: before[path].source,
    )
    located = (known.find(test) for test in {function_of(test) if "::" in test else test for test in tests})
    return {(one.path, one.definition) for one in located if one is not None}
