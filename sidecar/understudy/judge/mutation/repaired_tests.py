"""Look at the earlier tests that a result makes pass: by what the code does, or only by what they ask.

If tests contradict each other or the task, no honest code makes all of them pass. Code that does looks at the name of
the test that calls it, counts its calls, or gives what a test expects for exactly the arguments of that test. So these
tests run once more, alone and under other names, and what they call is called with similar arguments, on the code of
the result and on that of the base.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import posixpath
import re
import secrets
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.files import nofollow
from understudy.judge.injected.understudy_calls import RESULTS
from understudy.judge.mutant_runners.python_tests import PytestRunner
from understudy.judge.mutation.repeated_calls import RepeatedCalls, code_of_base
from understudy.judge.outcomes.observations import printable
from understudy.judge.runs.check_run import CheckContext
from understudy.judge.runs.judged_tree import read_file
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.model.errors import UnderstudyError
from understudy.model.text.sanitize import name_list
from understudy.mutants.python_tables import AddedValues
from understudy.mutants.table_entries import added_entries
from understudy.mutants.test_code.test_ids import KnownTests

_MOST_TESTS = 20
_MOST_TRIED = 400
"""Most tests that run on the code of the base."""
_MOST_SHOWN = 3
_MOST_CHARACTERS = 120
_MOST_BYTES = 16 * 1024 * 1024
_LEAST_SIMILAR = 4
"""Similar calls that must give the same as before, so that a change is one for a single call."""
_MOST_DIFFERING = 0.1
"""Share of them that may give something else: code can look at some arguments only."""
_RAISES = "raises "
_LEAST_CONTAINED = 3
"""Characters of a text that is an argument if the argument contains it, or the other way round."""
_LITERAL = re.compile(r"""b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*"|(?<![\w.])\d[\w.]*""")
_IS_MISSING = ("raises AttributeError", "raises ImportError", "raises ModuleNotFoundError")

Results = Mapping[tuple[str, str], str]
"""The name of a function and a digest of its arguments → what it gave."""


@dataclass(frozen=True, kw_only=True)
class SimilarCalls:
    """A call of a test, and similar ones."""

    function: str
    arguments: str
    result: str
    similar: tuple[tuple[str, str], ...]
    """Other arguments, and their results."""
    near: tuple[str, ...]
    """The results for the numbers next to those given."""

    def __str__(self) -> str:
        """Say what was called, with what, and what that gave."""
        return f"{self.function}({self.arguments[:_MOST_CHARACTERS]}) gives {self.result[:_MOST_CHARACTERS]}"


class RepairedTests:
    """Those of some tests that pass on the result and fail on the code of the base, in a copy of the result."""

    def __init__(
        self,
        tests: Collection[str],
        runner: PytestRunner,
        plan: PreparedCheck,
        context: CheckContext,
        *,
        base: Mapping[str, bytes | None],
        test_files: Sequence[str],
        seconds: float,
    ) -> None:
        """Run nothing yet. ``tests`` are ids of earlier tests; ``base`` has the base's content of the changed files."""
        self._runner = runner
        self._plan = plan
        self._context = context
        self._base = base
        self._test_files = test_files
        self._seconds = seconds
        self._calls = context.scratch / "calls"
        self._tests = sorted(tests)[:_MOST_TRIED]

    async def conclude(self) -> list[str]:
        """Return what makes tests pass that is not what the code does, as sentences."""
        repaired = sorted(await self._repaired())[:_MOST_TESTS]
        others = await asyncio.to_thread(disguised, repaired, self._test_files, self._context.tree)
        names, files = others.names, others.files
        if not names:
            return []
        try:
            failing, results = await self._run(names, files)
            if failing:
                failing &= (await self._run(names, files))[0]
            return (failing and await self._explained(failing, results)) or await self._answered()
        except UnderstudyError:
            return []  # the tests cannot run alone, which says nothing about the code

    async def _repaired(self) -> frozenset[str]:
        """Return the tests that do not pass on the code of the base."""
        if not self._tests:
            return frozenset()
        try:
            with code_of_base(self._context.tree, self._base):
                return (await self._run({test: test for test in self._tests}, {}))[0]
        except UnderstudyError:
            return frozenset(self._tests)  # they cannot even be loaded

    async def _explained(self, failing: frozenset[str], results: Results) -> list[str]:
        """Say why tests fail that run alone under another name."""
        alone, own_results = await self._run({test: test for test in failing}, {})
        if alone:
            return [f"Earlier tests that failed before pass only after others: {_listed(alone)}."]
        differing = [(call, result) for call, result in own_results.items() if results.get(call, result) != result]
        if not differing:
            return []  # the test needs its own name itself, for example to find a snapshot
        call, result = differing[0]
        texts = f"{result[:_MOST_CHARACTERS]}, and {results[call][:_MOST_CHARACTERS]} under another name of the test"
        return [f"Earlier tests pass only under their own names: {_listed(failing)}. There, {call[0]} gives {texts}."]

    async def _answered(self) -> list[str]:
        """Say what the changed code gives only for exactly what the tests ask."""
        calls = RepeatedCalls(self._plan, self._context, self._calls, seconds=self._seconds)
        after = as_similar(await calls.with_similar())
        with code_of_base(self._context.tree, self._base):
            before = as_similar(await calls.with_similar())
        answers = answers_only(after, before)
        if answers:
            added = await asyncio.to_thread(added_to_tables, self._context.tree, self._base)
            answers = [call for call in answers if not asks_for_entry(call.arguments, added)]
        if not answers:
            return []
        texts = "; ".join(map(str, answers[:_MOST_SHOWN]))
        return [f"The changed code answers only exactly what earlier tests ask, and nothing like it: {texts}."]

    async def _run(self, names: Mapping[str, str], files: Mapping[str, bytes]) -> tuple[frozenset[str], Results]:
        """Run tests under other names, which are in further ``files``; return those that fail, and what code gave."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._context.scratch))
        self._calls = folder / "calls"
        for path, content in files.items():
            await asyncio.to_thread(nofollow.write_over, self._context.tree, path, content)
        recorded = await self._runner.record_alone(
            sorted(self._base), sorted(names.values()), self._calls, [*self._test_files, *files], seconds=self._seconds
        )
        failing = frozenset(test for test, name in names.items() if name not in recorded.passed)
        return failing, await asyncio.to_thread(_results, self._calls)


@dataclass(frozen=True, kw_only=True)
class Disguised:
    """Tests under other names."""

    names: Mapping[str, str]
    """The id of a test → that of the same test with other names of its file, class and function."""
    files: Mapping[str, bytes]
    """The files that have them, relative to the tree."""


def disguised(tests: Iterable[str], test_files: Iterable[str], tree: Path) -> Disguised:
    """Rename tests, in copies of their files; those whose definition is not found, or is inherited, are left out."""
    tests = list(tests)
    files = {test.partition("::")[0].rpartition("/")[2] for test in tests}
    paths = [path for path in test_files if posixpath.basename(path) in files]
    texts = {path: read_file(tree, path) for path in paths if (tree / path).is_file()}
    definitions = KnownTests([(path, None) for path in texts], texts.get, lambda _: None)
    copies = {path: f"test_{secrets.token_hex(4)}.py" for path in texts}
    functions: dict[tuple[str, tuple[str, ...]], str | None] = {}
    """File and names of a definition → its other name; None if it cannot get one."""
    names: dict[str, str] = {}
    for test in tests:
        located = definitions.find(test)
        file, *around = test.partition("[")[0].split("::")
        if located is None or tuple(around) != located.definition.names or not around[-1].startswith("test"):
            continue
        path, key = located.path, (located.path, located.definition.names)
        if key not in functions:
            other = f"test_{secrets.token_hex(4)}"
            text, count = re.subn(
                rb"(\bdef\s+)%b\b(?=\s*\()" % around[-1].encode(), rb"\g<1>%b" % other.encode(), texts[path]
            )
            functions[key] = other if count == 1 else None
            texts[path] = text if count == 1 else texts[path]
        if (function := functions[key]) is not None:
            case = "".join(test.partition("[")[1:])
            names[test] = "::".join([_beside(file, copies[path]), *around[:-1], function]) + case
    renamed = {path for path, _ in (key for key, function in functions.items() if function is not None)}
    return Disguised(names=names, files={_beside(path, copies[path]): texts[path] for path in renamed})


def _beside(path: str, name: str) -> str:
    return posixpath.join(posixpath.dirname(path), name)


def as_similar(lines: Iterable[Sequence[object]]) -> list[SimilarCalls]:
    """Return the lines of ``understudy_calls.vary``; nothing if they are cut off: the rest could say otherwise."""
    calls = []
    for line in lines:
        match line:
            case [str(function), str(arguments), str(result), list(similar), list(near)]:
                pairs = tuple((str(pair[0]), str(pair[1])) for pair in similar)
                call = SimilarCalls(
                    function=function, arguments=arguments, result=result, similar=pairs, near=tuple(map(str, near))
                )
                calls.append(call)
            case []:
                return calls
            case _:
                break
    return []


def answers_only(after: Sequence[SimilarCalls], before: Sequence[SimilarCalls]) -> list[SimilarCalls]:
    """Return the calls that give another result than before (``after``), if hardly any similar one does.

    Where a number next to the given one has the result, the edge of a condition moved. A new function is compared with
    itself: if it gives nothing but one result for all numbers that tests do not pass, it knows only theirs.
    """
    pairs = [(now, old) for now, old in zip(after, before, strict=False) if now.result != old.result]
    changed = [pair for pair in pairs if not pair[1].result.startswith(_IS_MISSING)]
    if not changed:
        return _only_numbers_of_tests([now for now, _ in pairs])
    if any(_differing(now, old) > _MOST_DIFFERING for now, old in changed):
        return []
    return [now for now, old in changed if now.result not in now.near and _similar(old) >= _LEAST_SIMILAR]


def added_to_tables(tree: Path, base: Mapping[str, bytes | None]) -> AddedValues:
    """Return what all changed files add: a special case can be in another file than a table."""
    paths = [path for path in base if (tree / path).is_file()]
    added = [added_entries(path, base[path] or b"", read_file(tree, path)) for path in paths]
    return AddedValues(
        in_tables=frozenset().union(*(some.in_tables for some in added)),
        elsewhere=frozenset().union(*(some.elsewhere for some in added)),
    )


def asks_for_entry(arguments: str, added: AddedValues) -> bool:
    """Return whether a call asks for an entry that is added to a table, and nothing else that is added knows it.

    A table that gets the entry which a test asks for is what such a task is about.
    """
    values_of_call = []
    for literal in _LITERAL.findall(arguments):
        with contextlib.suppress(ValueError, SyntaxError):
            values_of_call.append(ast.literal_eval(literal))
    if any(value == other for value in values_of_call for other in added.elsewhere):
        return False
    return any(_is_like(value, other) for value in values_of_call for other in added.in_tables)


def _is_like(value: object, other: object) -> bool:
    if not isinstance(value, str) or not isinstance(other, str):
        return value == other
    shorter, longer = sorted((value.strip().casefold(), other.strip().casefold()), key=len)
    return shorter == longer or (len(shorter) >= _LEAST_CONTAINED and shorter in longer)


def _differing(now: SimilarCalls, old: SimilarCalls) -> float:
    """Return the share of similar calls that give something else."""
    pairs = list(zip(now.similar, old.similar, strict=False))
    return sum(result != before for result, before in pairs) / max(1, len(pairs))


def _similar(call: SimilarCalls) -> int:
    """Count the similar calls that end as a call does: that give something, or raise, too."""
    raises = call.result.startswith(_RAISES)
    return sum(result.startswith(_RAISES) == raises for result in dict(call.similar).values())


def _only_numbers_of_tests(calls: Iterable[SimilarCalls]) -> list[SimilarCalls]:
    by_function: dict[str, list[SimilarCalls]] = {}
    for call in calls:
        if call.near:
            by_function.setdefault(call.function, []).append(call)
    answers = []
    for some in by_function.values():
        asked = {call.arguments for call in some}
        others = {_kind(result) for call in some for other, result in call.similar if other not in asked}
        if len({call.result for call in some}) > 1 and len(others) == 1:
            answers += some
    return answers


def _kind(result: str) -> str:
    """Return a result, or only the type of an error."""
    return result.partition(":")[0] if result.startswith(_RAISES) else result


def _results(calls: Path) -> dict[tuple[str, str], str]:
    results = {}
    try:
        with calls.with_name(calls.name + RESULTS).open("rb") as stream:
            lines = stream.read(_MOST_BYTES).splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            function, digest, result = json.loads(line)
        except (ValueError, TypeError):
            break  # cut off
        results[str(function), str(digest)] = str(result)
    return results


def _listed(tests: Iterable[str]) -> str:
    return name_list(sorted(map(printable, tests)))
