"""Find the check that runs all earlier tests, and take what these do out of a result, to judge its new tests alone.

New names do not make new tests: a file can import earlier tests, inherit them, call them or be a copy of them. Runners
report all of these as further tests, and they notice what the earlier ones notice.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import keyword
import os
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from understudy.judge.deciding.deciding_files import is_test, is_test_file
from understudy.judge.outcomes.observations import function_of
from understudy.judge.runs.check_run import CheckOutcome, ResultToJudge
from understudy.judge.runs.judged_tree import read_unless_large
from understudy.judge.runs.runner_registry import RUNNERS, PreparedCheck
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.test_code.definitions import DefinedTest, definitions_of, statements_around
from understudy.mutants.test_code.removed_tests import emptied, usual_tests
from understudy.mutants.test_code.test_ids import KnownTests, Read

_RUNNER = re.compile("|".join(pattern for runner in RUNNERS for pattern in runner.command_lines))
LEAST_SECONDS = 60.0
TIMES = 5.0
_LONGER = 3.0
_MOST_FILES = 2_000
"""Most test files of the base that are read."""
_MOST_STEPS = 20
"""From a test to what it uses, to what that uses, and so on."""
_MOST_OF_HEAD = 400
"""Bytes of a statement in which the names are that it defines."""
_FILE_OF_TEST = re.compile(r"(.+?\.\w+)(?:::|: )")
_CASE = re.compile(r"^((?:.+?\.)??(?:Test|Example|Fuzz)\w*)/.*$|::case_?\w*$", re.DOTALL)
"""Matches a subtest of Go, and what ``rstest`` and ``test_case`` add in Rust."""
_WORD = re.compile(rb"[^\W\d]\w*")
_KEYWORDS = frozenset(
    word.encode() for word in (*keyword.kwlist, "const", "let", "var", "function", "func", "type", "use", "fn", "self")
)
_IMPORT = re.compile(rb"\s*(?:from|import|use)\b")
_IMPORTED = re.compile(rb"[\w./:@-]+")
_RELATIVE_IMPORT = re.compile(rb"\bfrom\s+\.|[\"'](?:\.{1,2}|[@~#])/")
_DEFINES = re.compile(
    rb"\s*(?:@.*\n\s*)*(?:export\s+|async\s+|pub\s+)*(?:(?:def|class|function|func|type|fn)\s+(\w+)|"
    rb"(?:const\s+|let\s+|var\s+|static\s+)?(\w+(?:, *\w+)*)\s*(?::[^=\n]*)?=(?!=))"
)
_ALWAYS_USED = re.compile(rb"\A\s*[(@]|\b[sS]et_?[uU]p|[tT]ear_?[dD]own|\b(?:before|after)\w*\(|autouse|pytestmark")
"""Matches what acts on tests that do not name it, and the base classes and decorators of their class."""
_ACTS = re.compile(
    rb"\A\s*(?!from\b|import\b|use\b|package\b|if\s+__name__\b|[\"'])(?!%b)|"
    rb"\b(?:setattr|patch|exec|eval|vars|globals|update)\(|sys\.modules|__dict__|\bfunc\s+(?:init|TestMain)\("
    % _DEFINES.pattern
)
"""Matches code outside of tests that does more than bind a name when its file is loaded."""
_EXPECTED_TO_FAIL = re.compile(rb"^[ \t]*@.*(?:xfail|expectedFailure)", re.MULTILINE)
_DOCSTRING = re.compile(
    rb"^[ \t]*[rRuU]?(?:\"\"\"(?:(?!\"\"\")[^\\])*\"\"\"|'''(?:(?!''')[^\\])*'''|\"[^\"\\\n]*\"|'[^'\\\n]*')[ \t]*$",
    re.MULTILINE,
)


def suite_of(plan: PreparedCheck, green: CheckOutcome, base_paths: Collection[str]) -> PreparedCheck | None:
    """Return the check for the whole suite; None if it is not known how to run it, or the base has no tests."""
    tests = [path for path in sorted(base_paths) if is_test_file(path)]
    if not tests and not any(path.endswith(".rs") for path in base_paths):
        return None
    if not plan.uses_tests:
        return plan
    runner = plan.runner
    if not runner.reports and not green.report.started:
        return None
    named = tuple(path for path in tests if path.endswith(runner.suite_files))
    check = msgspec.structs.replace(
        plan.check, name=f"{plan.check.name} (whole suite)", argv=runner.whole_suite(plan.check.argv)
    )
    return PreparedCheck(check=check, kind=plan.kind, tests=named, builtin=plan.builtin, uses_tests=bool(named))


def with_time_limit(plan: PreparedCheck, seconds: float) -> PreparedCheck:
    """Return the check with a time limit of 60 s or 5 times ``seconds``, whichever is more."""
    return _limited(plan, max(LEAST_SECONDS, TIMES * seconds))


def with_longer_limit(plan: PreparedCheck) -> PreparedCheck:
    """Return the check with three times its time limit, for a run that another one of the same tests was faster than.

    A suite that needs about as long as the limit ends within it or not by chance.
    """
    return _limited(plan, _LONGER * (plan.check.timeout_seconds or LEAST_SECONDS))


def _limited(plan: PreparedCheck, seconds: float) -> PreparedCheck:
    return dataclasses.replace(plan, check=msgspec.structs.replace(plan.check, timeout_seconds=seconds))


def runs_tests(argv: Sequence[str]) -> bool:
    """Return whether a command looks as if it runs tests, so that its output should show some."""
    return bool(_RUNNER.search(" ".join(argv)))


def without_unchanged_tests(
    trial: ResultToJudge, *, new: Collection[str], earlier: Iterable[str]
) -> Mapping[str, bytes]:
    """Return the test files of the result in which earlier tests return at once: path → content.

    A test is an earlier one if the base's file has it, or if it and what it uses in its file are copied from a file of
    the base. One that has cases among the ids of ``new`` tests stays as it is; if there are no new tests, one whose
    text was changed, or something in its file that it uses. ``earlier`` are the ids of the base's tests, as far as
    known; without them, the runner's usual rules decide what is a test.
    """
    ids = _functions(earlier)
    sources = _read_base(trial, ids)
    if not sources:
        return {}
    tests = _tests(trial, sources, ids)
    before = {path: _TestFile(path, source, tests[path]) for path, source in sources.items()}
    changed = {
        path: _TestFile(path, source, _tests_now(path, source, before.get(path)))
        for path, source in _read_changes(trial, before).items()
    }
    gone = {path for _, path in trial.changes if path not in changed}
    after = {**{path: file for path, file in before.items() if path not in gone}, **changed}
    read = _reader(trial, trial.head, {path: file.source for path, file in after.items()})
    parts = ([path for path in before if path in changed], [path for path in before if path not in gone | set(changed)])
    searched = [KnownTests([(path, None) for path in paths], read, lambda _: None) for paths in parts]
    cases = _with_new_cases(searched, new, ids)
    helpers = {os.fsencode(posixpath.splitext(posixpath.basename(path))[0]) for path in gone}
    alike: dict[bytes, list[_TestFile]] = {}
    for file in before.values():
        for text in set(map(file.unnamed, file.tests)):
            alike.setdefault(text, []).append(file)
    contents: dict[str, bytes] = {}
    for path, file in after.items():
        earlier_file = before.get(path)
        names = {test.names for test in earlier_file.tests} if earlier_file is not None else frozenset()
        same_names = [test for test in file.tests if test.names in names]
        old = {test for test in same_names if (path, test) not in cases and not file.may_fail(test)}
        if not new and earlier_file is not None:
            old = {test for test in old if not file.is_changed(test, earlier_file, helpers)}
        if path in changed:
            others = [test for test in file.tests if test.names not in names]
            old.update(test for test in others if file.is_copied(test, alike.get(file.unnamed(test), ())))
        if old := _without_new_inside(old, definitions_of(path, file.source) if path in changed else file.tests):
            contents[path] = emptied(path, file.source, old)
    return contents


def may_notice_less(path: str, before: bytes | None, after: bytes | None) -> bool:
    """Return whether earlier tests may notice less because a test file was added, changed or removed.

    They cannot if it only gets more tests, and what these use.
    """
    if after is None:
        return True
    old, new = (_TestFile(path, source, usual_tests(path, source)) for source in (before or b"", after))
    names = {test.names for test in old.tests}
    if before is not None and not (names and names <= {test.names for test in new.tests}):
        return True
    if any(new.is_changed(test, old, ()) for test in new.tests if test.names in names):
        return True
    return any(_ACTS.search(statement) and not old.has(statement) for statement, _, _ in new.statements)


def _without_new_inside(old: set[DefinedTest], every: Sequence[DefinedTest]) -> set[DefinedTest]:
    """Leave out what has something else inside: Node's tests can have tests of their own."""
    every = sorted(every, key=lambda test: (test.start, -test.end))
    starts = [test.start for test in every]

    def has_new(test: DefinedTest) -> bool:
        inside = every[bisect.bisect_left(starts, test.start) : bisect.bisect_left(starts, test.end)]
        return any(test.contains(other) and other not in old for other in inside)

    return {test for test in old if not has_new(test)}


_Statement = tuple[bytes, frozenset[bytes], frozenset[bytes]]
"""Code outside of all tests: its text, the names that it defines, and its words."""


class _TestFile:
    def __init__(self, path: str, source: bytes, tests: Sequence[DefinedTest]) -> None:
        self.path = path
        self.source = source
        self.tests = tests

    def text(self, test: DefinedTest) -> bytes:
        """Return a test without comments and without what only looks different."""
        return self._plain(self.source[test.start : test.end])

    def is_changed(self, test: DefinedTest, before: _TestFile, modules: Collection[bytes]) -> bool:
        """Return whether the text of a test is not in an earlier version, or that of something that it uses.

        ``modules`` are the names of changed files without tests.
        """
        if self.text(test) not in before._texts or b"conftest" in modules:
            return True
        used = self._used_by(test)
        return any(not before.has(statement) or not _words(statement).isdisjoint(modules) for statement in used)

    def may_fail(self, test: DefinedTest) -> bool:
        """Return whether a test is expected to fail, so that it would be wrong to let it pass."""
        return _EXPECTED_TO_FAIL.search(self.source[test.start : test.end]) is not None

    def is_copied(self, test: DefinedTest, others: Collection[_TestFile]) -> bool:
        """Return whether one of the other files, which have this test, has all that it uses, too."""
        used = self._used_by(test) if others else []
        placed = self.path.endswith((".go", ".rs")) or any(_RELATIVE_IMPORT.search(statement) for statement in used)
        for other in others:
            elsewhere = posixpath.dirname(self.path) != posixpath.dirname(other.path)
            # In another folder, the same text may name other code.
            if not (placed and elsewhere) and all(map(other.has, used)):
                return True
        return False

    @functools.cached_property
    def _texts(self) -> frozenset[bytes]:
        return frozenset(map(self.text, self.tests))

    @functools.cached_property
    def statements(self) -> list[_Statement]:
        """Return the code outside of all tests."""
        around = statements_around(self.path, self.source, self.tests)
        return [(statement, frozenset(_defined(statement)), _words(statement)) for statement in around]

    @functools.cached_property
    def _around(self) -> frozenset[bytes]:
        return frozenset(self._plain(statement) for statement, _, _ in self.statements)

    def has(self, statement: bytes) -> bool:
        """Return whether a statement is outside of all tests; for an import, whether one of fewer names is."""
        if _IMPORT.match(statement):
            words = set(_IMPORTED.findall(statement))
            imports = (set(_IMPORTED.findall(other)) for other, _, _ in self.statements if _IMPORT.match(other))
            return any(names <= words for names in imports)
        return self._plain(statement) in self._around

    def _used_by(self, test: DefinedTest) -> list[bytes]:
        """Return the statements outside of all tests that a test uses, directly or through others."""
        words, used = _words(self.source[test.start : test.end]), list[bytes]()
        left = self.statements
        for _ in range(_MOST_STEPS):
            direct: list[_Statement] = []
            rest: list[_Statement] = []
            for statement in left:
                (direct if statement[1] & words or _ALWAYS_USED.search(statement[0]) else rest).append(statement)
            if not direct:
                break
            left = rest
            words = words.union(*(more for _, _, more in direct))
            used += [statement for statement, _, _ in direct]
        return used

    def unnamed(self, test: DefinedTest) -> bytes:
        """Return the same without its name."""
        name = test.names[-1].encode("utf-8", "surrogateescape")
        return self._plain(self.source[test.start : test.end].replace(name, b"", 1))

    def _plain(self, text: bytes) -> bytes:
        # Where this is too much, as in a text with a comment's mark, it is the same on both sides.
        if self.path.endswith(".py"):
            text, mark = _DOCSTRING.sub(b"", text), b"#"
        else:
            text, mark = _without_block_comments(text), b"//"
        lines = (re.split(rb"(?:^|\s)" + mark, line, maxsplit=1)[0].strip() for line in text.splitlines())
        joined = b"".join(b"".join(line.split()) for line in lines if line != b"pass")
        return re.sub(rb",(?=[)\]}])", b"", joined)


def _without_block_comments(text: bytes) -> bytes:
    before, *others = text.split(b"/*")
    return b"".join([before, *(part.partition(b"*/")[2] for part in others)])


def _words(text: bytes) -> frozenset[bytes]:
    return frozenset(_WORD.findall(text)) - _KEYWORDS


def _defined(statement: bytes) -> Iterable[bytes]:
    match = _DEFINES.match(statement[:_MOST_OF_HEAD])
    if match is None or _IMPORT.match(statement):
        return _words(statement)
    return _words(match[1] or match[2])


# -- which tests ---------------------------------------------------------------------------------------------------


def _functions(tests: Iterable[str]) -> frozenset[str]:
    """Return ids without the cases of one test."""
    return frozenset(function_of(test) if ".py::" in test else test for test in tests)


def _tests(trial: ResultToJudge, sources: Mapping[str, bytes], ids: Iterable[str]) -> dict[str, Sequence[DefinedTest]]:
    """Return the tests of the base's files: those that its run named, in languages of which it named any."""
    definitions = KnownTests([(path, None) for path in sources], _reader(trial, trial.base, sources), lambda _: None)
    named: dict[str, dict[DefinedTest, None]] = {}
    for test in sorted(ids):
        for definition in definitions.fitting(test):
            named.setdefault(definition.path, {})[definition.definition] = None
    languages = {_language(path) for path in named}
    return {
        path: list(named.get(path, ())) if _language(path) in languages else usual_tests(path, source)
        for path, source in sources.items()
    }


def _language(path: str) -> str:
    language = language_of(path)
    return language.name if language is not None else ""


def _tests_now(path: str, source: bytes, before: _TestFile | None) -> Sequence[DefinedTest]:
    names = {test.names for test in before.tests} if before is not None else frozenset()
    usual = set(usual_tests(path, source))
    return [test for test in definitions_of(path, source) if test in usual or (test.names in names and not test.group)]


def _with_new_cases(
    searched: Sequence[KnownTests], new: Collection[str], earlier: Collection[str]
) -> set[tuple[str, DefinedTest]]:
    """Return the definitions of which there are new cases; if one is not clear, all that can be meant."""
    earlier_tests = set(map(_without_case, earlier))
    indents = (len(test) - len(test.lstrip(" ")) for test in (*earlier, *new))
    step = min((indent for indent in indents if indent), default=4)
    endings = {ending for test in earlier for ending in _endings(test)}
    cases: set[tuple[str, DefinedTest]] = set()
    # A new method of a suite in Go is called by the function that runs the suite.
    for test in _functions(new) | set(map(_without_case, new)):
        for fit in next((fitting for files in searched if (fitting := files.fitting(test))), []):
            if fit.path.endswith(".go") and len(fit.definition.names) > 1:
                # A suite that is run again gives its subtests the same names below other ones.
                after = f"/{test}/".rpartition(f"/{fit.definition.names[-1]}/")[2].rstrip("/")
                is_case = after != "" and f"{fit.definition.names[-1]}/{after}" not in endings
            elif posixpath.splitext(fit.path)[1] in {".py", ".go", ".rs"}:
                # Under another name, it is the same test, loaded elsewhere.
                is_case = not earlier_tests or _without_case(test) in earlier_tests
            else:
                is_case = (len(test) - len(test.lstrip(" "))) // step < len(fit.definition.names)
            if is_case:
                cases.add((fit.path, fit.definition))
    return cases


def _endings(test: str) -> Iterable[str]:
    """Return how the id of a Go subtest ends: its last name, its last two names, and so on, without the function."""
    names = test.split("/", _MOST_STEPS)
    return ("/".join(names[at:]) for at in range(1, len(names)))


def _without_case(test: str) -> str:
    return function_of(test) if ".py::" in test else _CASE.sub(r"\1", test)


# -- files ---------------------------------------------------------------------------------------------------------


def _read_base(trial: ResultToJudge, ids: Iterable[str]) -> dict[str, bytes]:
    """Return the test files of the base without the code under test, the changed ones first."""
    named = {match[1] for test in ids if (match := _FILE_OF_TEST.match(test)) is not None}
    paths = [path for path in trial.tree.paths(trial.base) if _is_read(trial, path) or _is_named(trial, path, named)]
    changed = {path for _, path in trial.changes}
    first = {path: read_unless_large(trial.tree, trial.base, path) for path in paths if path in changed}
    others = [path for path in sorted(paths) if path not in changed][:_MOST_FILES]
    return {
        **{path: source for path, source in first.items() if source is not None},
        **trial.tree.read_many(trial.base, others),
    }


def _read_changes(trial: ResultToJudge, before: Collection[str]) -> dict[str, bytes]:
    """Return the test files that the result has added or changed."""
    paths = [path for letter, path in trial.changes if letter[:1] != "D" and (path in before or _is_read(trial, path))]
    sources = {path: read_unless_large(trial.tree, trial.head, path) for path in paths}
    return {path: source for path, source in sources.items() if source is not None}


def _is_read(trial: ResultToJudge, path: str) -> bool:
    if language_of(path) is None:
        return False
    if is_test_file(path, trial.test_patterns):
        return True
    # In Python, any function of a helper could look like a test.
    return path not in trial.files and not path.endswith(".py") and is_test(path)


def _is_named(trial: ResultToJudge, path: str, named: Collection[str]) -> bool:
    return path in named and path not in trial.files and language_of(path) is not None


def _reader(trial: ResultToJudge, commit: str, sources: Mapping[str, bytes]) -> Read:
    return lambda path: sources[path] if path in sources else read_unless_large(trial.tree, commit, path)
