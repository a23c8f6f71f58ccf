"""Run the earlier tests that a result repairs with other inputs, on its code and on that of the base.

Code that gives what a test expects for exactly its input behaves like the base for every other one. This needs only
the tests themselves, so it works with any runner whose language has a dialect in ``varied_tests``.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.files import nofollow
from understudy.judge.mutant_runners.check_mutants import ChangedFile, CheckMutants, SeenRun
from understudy.judge.mutant_runners.script_mutants import script_runner
from understudy.judge.mutation.repaired_tests import added_to_tables, asks_for_entry
from understudy.judge.mutation.repeated_calls import code_of_base
from understudy.judge.mutation.wrong_expectations import MOST_PARSED, may_have
from understudy.judge.outcomes.observations import printable
from understudy.judge.runs.check_run import environment_of, working_folder
from understudy.judge.runs.judged_tree import read_file
from understudy.judge.runs.runner_registry import BY_NAME
from understudy.judge.varied_tests.copies import Copy, VariedFile, varied_file
from understudy.judge.varied_tests.plain_scripts import plain_script
from understudy.model.errors import UnderstudyError
from understudy.model.text.sanitize import name_list
from understudy.mutants.python_tables import AddedValues
from understudy.mutants.test_code.definitions import DefinedTest
from understudy.mutants.test_code.test_ids import KnownTests
from understudy.process.program_spec import Role
from understudy.process.programs.children import run as run_process

_MOST_TESTS = 20
_MOST_BYTES = 16 * 1024 * 1024
_LEAST_SAME = 4
"""Other inputs for which the code must behave like that of the base, so that it answers only those of the test."""
_MOST_DIFFERING = 0.1
"""Share of them for which it may do something else: code can look at some inputs only."""
_LEAST_ANSWERS = 2
"""Answers of new code to numbers of tests that it gives to no other number, so that it knows only these."""
_TRIVIAL = re.compile(r"(?:^|[ (])(?:-?[01](?:\.0)?|\"\"|true|false|null|nil|undefined|None|NaN|\[\]|\{\})\)?$")
"""Matches answers that code often gives whatever else it gets."""
_OUTPUT_BYTES = 64 * 1024
_RAISES = "raises "
_IS_MISSING = re.compile(
    r"raises (?:AttributeError|ImportError|ModuleNotFoundError|NameError|ReferenceError|TypeError: .* is not a \w+$)"
)
"""Matches what is raised where the base does not have what a test calls."""
_DIGITS = re.compile(r"-?\d+(?:\.\d+)?")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")

Seen = Mapping[tuple[int, int], str]
"""Place in a copy and how often it was there before → what was seen."""


@dataclass(frozen=True, kw_only=True)
class SeenCopy:
    """What one copy of a test saw with the code of the result, and with that of the base."""

    copy: Copy
    after: Seen
    before: Seen


class VariedTests:
    """Those of some tests that fail on the code of the base, in a copy of the result."""

    def __init__(
        self,
        tests: Collection[str],
        runner: CheckMutants,
        *,
        base: Mapping[str, bytes | None],
        test_files: Sequence[str],
        seconds: float,
    ) -> None:
        """Run nothing yet. ``tests`` are ids of earlier tests; ``base`` has the base's content of the changed files.

        ``runner`` keeps no process between runs.
        """
        self._runner = runner
        self._tree = runner.context.tree
        self._out = runner.context.scratch / "seen"
        self._base = base
        self._seconds = seconds
        self._wanted = sorted(tests)
        self._files = [path for path in test_files if may_have(path, tests)][:MOST_PARSED]
        self._sources: dict[str, bytes] = {}
        self.untried: list[str] = []
        """What could not be found out, as parts of a sentence."""
        self._tests: dict[str, dict[str, DefinedTest]] = {}
        """File → id → definition."""

    async def conclude(self, most_seconds: float) -> list[str]:
        """Return what makes tests pass that is not what the code does, as sentences; see ``untried``."""
        sentences: list[str] = []
        await asyncio.to_thread(self._find_tests)
        if not self._tests:
            return sentences
        try:
            async with asyncio.timeout(most_seconds):
                await self._conclude(sentences)
        except TimeoutError:
            self.untried.append("whether repaired tests pass for other inputs: the time for evidence was over")
        except UnderstudyError as error:
            self.untried.append(f"whether repaired tests pass for other inputs: {error.message.rstrip('.')}")
        return sentences

    def _find_tests(self) -> None:
        self._sources = {path: read_file(self._tree, path) for path in self._files if (self._tree / path).is_file()}
        definitions = KnownTests([(path, None) for path in self._sources], self._sources.get, lambda _: None)
        for test in self._wanted:
            located = definitions.find(test)
            if located is not None and not located.definition.group:
                self._tests.setdefault(located.path, {})[test] = located.definition

    async def _conclude(self, sentences: list[str]) -> None:
        path, every = next(iter(self._tests)), [test for tests in self._tests.values() for test in tests]
        with code_of_base(self._tree, self._base):
            on_base = await self._run(path, self._sources[path], every)
        left = _MOST_TESTS
        for path, tests in list(self._tests.items()):
            repaired = {test: tests[test] for test in list(tests) if test not in on_base.passing}
            tried = dict(list(repaired.items())[:left])
            left -= len(tried)
            if len(tried) < len(repaired):
                self.untried.append(f"whether all repaired tests of {path} pass for other inputs: there are too many")
            if tried:
                sentences += await self._in_file(path, tried)

    async def _in_file(self, path: str, tests: Mapping[str, DefinedTest]) -> list[str]:
        varied = varied_file(path, self._sources[path], _once(tests), str(self._out))
        after = await self._seen(path, varied) if varied is not None else {}
        if varied is None or not after:
            self.untried.append(f"whether repaired tests of {path} pass for other inputs: they could not be copied")
            return []
        with code_of_base(self._tree, self._base):
            before = await self._seen(path, varied)
        added = await asyncio.to_thread(added_to_tables, self._tree, self._base)
        answered, unchanged, others = [], [], {}
        for test in tests:
            copies = [
                SeenCopy(copy=copy, after=after.get(number, {}), before=before.get(number, {}))
                for number, copy in enumerate(varied.copies)
                if copy.test == test
            ]
            if copies and only_for_its_inputs(copies, added):
                answered.append(test)
            elif copies and not differing_places(copies[0]):
                unchanged.append(test)
            elif copies:
                others[test] = copies[0]
        sentences = []
        if answered:
            text = "The changed code answers only exactly what earlier tests ask, and nothing like it"
            sentences.append(f"{text}: {_listed(answered)}.")
        if failing := await self._failing_alone(path, {test: tests[test] for test in unchanged}):
            sentences.append(f"Earlier tests pass only under their own names, or after others: {_listed(failing)}.")
        if failing := await self._failing_elsewhere(path, _once(tests), others):
            text = (
                "Earlier tests pass only where their runner runs them, and elsewhere the code gives what it gave before"
            )
            sentences.append(f"{text}: {_listed(failing)}.")
        return sentences

    async def _failing_elsewhere(
        self, path: str, tests: Mapping[str, DefinedTest], in_runner: Mapping[str, SeenCopy]
    ) -> list[str]:
        """Return the tests for which the code gives what that of the base gave, in a program without the runner."""
        command = script_runner(self._runner.plan, self._tree) if in_runner else None
        loader = BY_NAME[command.kind].plain_loader if command is not None else None
        written = plain_script(path, self._sources[path], tests, str(self._out)) if loader is not None else None
        if loader is None or written is None:
            return []
        await asyncio.to_thread(self._out.unlink, missing_ok=True)
        await asyncio.to_thread(nofollow.write_over, self._tree, written.path, written.content)
        try:
            await self._run_plain(loader, self._tree / written.path)
        finally:
            await asyncio.to_thread(shutil.rmtree, (self._tree / written.path).parent, ignore_errors=True)
        seen = await asyncio.to_thread(_read, self._out, written.name)
        return [
            copy.test
            for number, copy in enumerate(written.copies)
            if copy.test in in_runner and gives_what_it_gave(seen.get(number, {}), in_runner[copy.test])
        ]

    async def _run_plain(self, loader: str, file: Path) -> None:
        plan, context = self._runner.plan, self._runner.context
        folder = working_folder(plan.check, context.tree)
        argv = ["node", *(["--input-type=module", "-e", loader] if loader else []), str(file)]
        program = context.program(argv, folder, environment_of(plan.check, context), Role.MUTANT)
        await run_process(program, timeout_seconds=self._seconds, output_limit=_OUTPUT_BYTES)

    async def _failing_alone(self, path: str, tests: Mapping[str, DefinedTest]) -> list[str]:
        """Return the tests that fail under other names, and without the others of their file."""
        renamed = varied_file(path, self._sources[path], tests, None) if tests else None
        if renamed is None:
            return []
        seen = await self._run(path, renamed.content, tests)
        names = {copy.test: f"{renamed.name}_{number}" for number, copy in enumerate(renamed.copies)}
        return [test for test, name in names.items() if any(re.search(rf"{name}\b", failed) for failed in seen.failing)]

    async def _seen(self, path: str, varied: VariedFile) -> Mapping[int, Seen]:
        await asyncio.to_thread(self._out.unlink, missing_ok=True)
        await self._run(path, varied.content, ())
        return await asyncio.to_thread(_read, self._out, varied.name)

    async def _run(self, path: str, content: bytes, tests: Iterable[str]) -> SeenRun:
        tests = list(tests) or list(self._tests[path])
        self._runner.deadline = asyncio.get_running_loop().time() + self._seconds
        return await self._runner.mutated_run(ChangedFile(path=path, content=content, tests=tests), self._seconds)


def differing_places(seen: SeenCopy) -> frozenset[tuple[int, int]]:
    """Return where a copy sees something else than with the code of the base."""
    places = seen.after.keys() | seen.before.keys()
    return frozenset(place for place in places if seen.after.get(place) != seen.before.get(place))


def gives_what_it_gave(seen: Seen, in_runner: SeenCopy) -> bool:
    """Return whether all that a result changes in a test is as with the code of the base, where that is ``seen``."""
    places = differing_places(in_runner)
    return all(
        place in seen and seen[place] == in_runner.before.get(place) and not seen[place].startswith(_RAISES)
        for place in places
    )


def only_for_its_inputs(copies: Sequence[SeenCopy], added: AddedValues) -> bool:
    """Return whether code does something else than that of the base for hardly any input but those of a test.

    The first and the last of the ``copies`` are exact. Where a number next to one in the test gives the same, the edge
    of a condition moved.
    """
    exact, *varied, again = copies
    places = differing_places(exact)
    if not places or not exact.after:
        return False
    if all(place not in exact.before or _IS_MISSING.match(exact.before[place]) for place in places):
        return _only_numbers_of_test(exact, varied)
    if _stops_answering(exact, again, places):
        return True
    of_literals = [
        _OfLiteral.of([some for some in varied if some.copy.literal == literal], exact, places)
        for literal in dict.fromkeys(some.copy.literal for some in varied)
    ]
    with_effect = [some for some in of_literals if some.has_effect]
    if any(some.is_edge for some in with_effect):
        return False
    deciding = [some for some in with_effect if not some.is_ignored]
    same, differing = sum(some.same for some in deciding), sum(some.differing for some in deciding)
    if same < _LEAST_SAME or differing > _MOST_DIFFERING * (same + differing):
        return False
    return not any(asks_for_entry(repr(some.value), added) for some in deciding)


@dataclass(frozen=True, kw_only=True)
class _OfLiteral:
    """What copies saw in which one literal has other values."""

    value: float | str | None
    has_effect: bool
    """It changes what is seen where the code does something else than that of the base."""
    is_edge: bool
    """It gives what the numbers beside it give, on one side: the edge of a condition moved."""
    is_ignored: bool
    """The code gives the same for all its values, although that of the base does not."""
    same: int
    """Values for which the code does the same as that of the base."""
    differing: int

    @classmethod
    def of(cls, copies: Sequence[SeenCopy], exact: SeenCopy, places: Collection[tuple[int, int]]) -> _OfLiteral:
        """Compare the copies of a literal with the exact one."""
        similar = [some for some in copies if some.copy.is_similar]
        as_exact = [some for some in copies if _sees(some.after, exact.after, places)]
        answer = {exact.after.get(place, "") for place in places}
        return cls(
            value=copies[0].copy.value,
            has_effect=any(_has_effect(some, exact, places) for some in copies),
            is_edge=_is_edge(copies, exact, places),
            is_ignored=len(as_exact) == len(copies) and not any(map(_TRIVIAL.search, answer)),
            same=sum(some.after == some.before and _ends_like(some.after, exact.after, places) for some in similar),
            differing=sum(some.after != some.before for some in similar),
        )


def _is_edge(copies: Sequence[SeenCopy], exact: SeenCopy, places: Collection[tuple[int, int]]) -> bool:
    """Return whether a number gives what those on one side of it give on the base, too, or is in line with them."""
    value = copies[0].copy.value
    if not isinstance(value, int | float):
        return False
    by_distance = {_number(some.copy.other) - value: some for some in copies if some.after == some.before}
    for step in (1, -1):
        beside = [by_distance[step * far] for far in (1, 2) if step * far in by_distance]
        if beside and all(_sees(some.after, exact.after, places) for some in beside):
            return True
        if len(beside) > 1 and all(
            _in_line(*(some.after.get(place, "") for some in (exact, *beside))) for place in places
        ):
            return True
    return False


def _in_line(first: str, second: str, third: str) -> bool:
    try:
        nearest, middle, farthest = (float(text.rpartition(" ")[2]) for text in (first, second, third))
    except ValueError:
        return False
    return nearest - middle == middle - farthest


def _number(text: str) -> float:
    """Return the number that a literal is; NaN if it is not a plain one."""
    digits = _DIGITS.match(text.strip("()"))
    return float(digits[0]) if digits is not None else float("nan")


def _has_effect(some: SeenCopy, exact: SeenCopy, places: Iterable[tuple[int, int]]) -> bool:
    return not (_sees(some.after, exact.after, places) and _sees(some.before, exact.before, places))


def _sees(some: Seen, other: Seen, places: Iterable[tuple[int, int]]) -> bool:
    """Return whether the same is seen at these places."""
    return all(some.get(place) == other.get(place) for place in places)


def _ends_like(some: Seen, exact: Seen, places: Iterable[tuple[int, int]]) -> bool:
    """Return whether the code gives something at all places where it does so for the exact input, and raises, too."""
    return all(
        place in some and some[place].startswith(_RAISES) == exact[place].startswith(_RAISES)
        for place in places
        if place in exact
    )


def _stops_answering(exact: SeenCopy, again: SeenCopy, places: Iterable[tuple[int, int]]) -> bool:
    """Return whether the same input gives what it gives on the base, once it was asked for some times."""
    constant = _sees(again.before, exact.before, places) and _ends_like(again.after, exact.after, places)
    return constant and _sees(again.after, again.before, places)


def _only_numbers_of_test(exact: SeenCopy, varied: Iterable[SeenCopy]) -> bool:
    """Return whether new code gives one result for all numbers but those of a test."""
    asked = {str(some.copy.value) for some in varied}
    numbers = [some for some in varied if isinstance(some.copy.value, int | float) and some.copy.is_similar]
    others = [some for some in numbers if some.copy.other not in asked]
    answers, rest = set(), set()
    for literal, count in Counter(some.copy.literal for some in others).items():
        of_literal = [some for some in others if some.copy.literal == literal]
        places = {place for some in of_literal for place, text in exact.after.items() if some.after.get(place) != text}
        if count >= _LEAST_SAME:
            answers |= {exact.after[place] for place in places}
            rest |= {some.after.get(place, "") for some in of_literal for place in places}
    return len(rest) == 1 and len(answers - rest) >= _LEAST_ANSWERS


def _once(tests: Mapping[str, DefinedTest]) -> dict[str, DefinedTest]:
    """Return one test of each definition: cases of a table are one test."""
    by_definition = {definition: test for test, definition in reversed(list(tests.items()))}
    return {test: definition for definition, test in by_definition.items()}


def _read(path: Path, name: str) -> Mapping[int, Seen]:
    """Return what the copies wrote down, by their numbers."""
    own_name = re.compile(rf"_?{name}_\d+")
    seen: dict[int, dict[tuple[int, int], str]] = {}
    counts: Counter[tuple[int, int]] = Counter()
    try:
        with path.open("rb") as stream:
            lines = stream.read(_MOST_BYTES).splitlines()
    except OSError:
        return {}
    for line in lines:
        with contextlib.suppress(ValueError):
            copy, site, code = line.split(b" ")
            text = bytes.fromhex(code.decode()).decode("utf-8", "replace")
            place = int(site), counts[int(copy), int(site)]
            counts[int(copy), int(site)] += 1
            seen.setdefault(int(copy), {})[place] = _ADDRESS.sub("0x", own_name.sub("", text))
    return seen


def _listed(tests: Iterable[str]) -> str:
    return name_list(sorted(map(printable, tests)))
