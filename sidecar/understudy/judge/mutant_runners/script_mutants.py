"""Run JavaScript tests on mutants, also when ``npm test`` starts them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import tempfile
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from understudy.judge.mutant_runners.check_mutants import (
    ChangedFile,
    CheckMutants,
    KeptProcess,
    Lines,
    SeenRun,
    limited,
    seen_run,
)
from understudy.judge.mutant_runners.mutant_runs import PlannedRun
from understudy.judge.outcomes.executed_lines import inline_map, lines_by_istanbul, lines_by_v8, source_map
from understudy.judge.outcomes.observations import FAILED, read_json
from understudy.judge.project.interpreter import PROBE_FOLDER
from understudy.judge.runs import judged_tree
from understudy.judge.runs.check_run import CheckContext, environment_of, expanded, run_once, working_folder
from understudy.judge.runs.runner_registry import BY_NAME, RUNNERS, PreparedCheck
from understudy.judge.test_runners.shared.node_packages import jest_counts, reported_outcomes, reported_tests
from understudy.judge.test_runners.shared.test_runner import TESTS_SLOT, ScriptCommand, TestRunner
from understudy.process.program_spec import Role

_SEPARATOR = ": "
"""Between the file and the name of a test."""
_START_SECONDS = 60.0
"""Time limit of the first run of a kept process."""
_MOST_MESSAGE = 64 * 1024


_MOST_REPORTS = 2000
_MOST_CHARACTERS = 16 * 1024 * 1024

ByTestFile = Mapping[str, Mapping[str, frozenset[int]]]
"""Test file → file (relative to the tree) → executed lines."""


def script_runner(plan: PreparedCheck, tree: Path) -> ScriptCommand | None:
    """Return how a check starts its JavaScript test runner; None if it starts another one, or several programs."""
    folder = working_folder(plan.check, tree)
    commands = (runner.script(plan.check.argv, folder) for runner in RUNNERS)
    return next((command for command in commands if command is not None), None)


class ScriptMutants(CheckMutants):
    """Knows the lines that each test file executes, and can keep a runner from ``node_modules`` between mutants."""

    def __init__(self, plan: PreparedCheck, context: CheckContext, *, keep: bool = False) -> None:
        """Run ``plan`` in ``context``; ``keep`` allows one process for many mutants."""
        command = script_runner(plan, context.tree)
        self._is_known = command is not None
        runner = BY_NAME[command.kind] if command is not None else None
        self._keeper = runner if runner is not None and runner.kept_by else None
        self.can_keep = keep and not plan.check.hidden and self._keeper is not None
        self._kept: KeptProcess | None = None
        self._report = Path()
        self._by_test: ByTestFile = {}
        self._stops = False
        if command is not None and self._keeper is not None:
            check = replace(plan.check, argv=[command.program, *command.arguments])
            plan = dataclasses.replace(plan, kind=command.kind, check=check)
        super().__init__(plan, context, keep=keep)

    async def recorded_run(self, files: Sequence[str], seconds: float) -> tuple[SeenRun, Lines]:
        """Run the tests with coverage, and without where that could change what they do."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self.context.scratch))
        absolute = {str((self.context.tree / file).resolve()): file for file in files}
        job = json.dumps({"folder": str(folder), "files": list(absolute)})
        if self._keeper is not None:
            root = working_folder(self.plan.check, self.context.tree)
            options = self._keeper.record_lines(folder, list(absolute), root.resolve())
            argv = _with_options(self.plan.check.argv, options)
            plan = limited(self.plan, seconds, argv, UNDERSTUDY_PROBE_LINES=job)
        else:
            plan = limited(self.plan, seconds, NODE_V8_COVERAGE=str(folder))
        outcome = await run_once(plan, self.context)
        seen = self._seen(seen_run(outcome), outcome.counts)
        recorded = await asyncio.to_thread(recorded_lines, folder, absolute, complete=self._is_known)
        if not seen.green and self._keeper is not None:
            seen = await self.once(seconds)  # the coverage itself may fail, for instance when its module is missing
        self._stops = seen.green  # a test that fails anyway would keep those after it from running
        self._by_test = self._by_own_test(recorded.by_test, seen)
        return seen, recorded.lines

    def _by_own_test(self, lines_of: ByTestFile, seen: SeenRun) -> ByTestFile:
        """Return the lines by test file, relative to the tree; nothing if a test belongs to none of these files."""
        tree = self.context.tree.resolve()
        by_test = {
            str(Path(test).relative_to(tree)): lines
            for test, lines in lines_of.items()
            if Path(test).is_relative_to(tree)
        }
        return by_test if all(_file_of(test, by_test) for test in seen.passing) else {}

    def by_test(self, file: str, lines: frozenset[int] | None, tests: Sequence[str]) -> dict[str, frozenset[int]]:
        """Return the lines of ``file`` that each test executed: those of its test file, if these are known."""
        if lines is None or not self._by_test:
            return super().by_test(file, lines, tests)
        nothing: frozenset[int] = frozenset()
        return {test: self._by_test[_file_of(test, self._by_test) or ""].get(file, nothing) for test in tests}

    async def once(self, seconds: float) -> SeenRun:
        """Run the tests in a new process."""
        return await self._in_new_process(seconds, (), stop=False)

    async def _in_new_process(self, seconds: float, files: Sequence[str], *, stop: bool) -> SeenRun:
        """Run the tests of some files, or all; more than these where the check itself names files."""
        plan = self.plan
        if files and any(TESTS_SLOT in argument for argument in plan.check.argv):
            plan = dataclasses.replace(plan, tests=tuple(files))
        argv = _with_options(plan.check.argv, self._keeper.stop_early if stop and self._keeper is not None else ())
        outcome = await run_once(limited(plan, seconds, argv), self.context)
        return self._seen(seen_run(outcome), outcome.counts)

    async def clean_run(self, planned: Sequence[PlannedRun], seconds: float, *, keep: bool) -> SeenRun | None:
        """Run the tests on the unchanged code; ``keep`` does that in a process for many mutants, or not at all."""
        if not keep:
            await self.close()
        elif self._kept is None and self._keeper is not None:
            self._kept = await self._process(self._keeper)
        clean = await super().clean_run(planned, seconds, keep=keep)
        return clean if self._kept is None or self._kept.running else None

    async def warm_up(self, path: str, seconds: float, *, keep: bool) -> bool:
        """Start what is kept, and let it run all tests once."""
        if not keep or self._keeper is None:
            return True
        self._kept = await self._process(self._keeper)
        return await self._loaded(self._kept, path, seconds)

    async def _loaded(self, kept: KeptProcess, path: str, seconds: float) -> bool:
        """Let a kept process run all tests.

        The first run loads everything: its time is not that of the next ones, and says nothing about a mutant.
        """
        left = max(seconds, min(_START_SECONDS, self.deadline - asyncio.get_running_loop().time()))
        return await self._asked(kept, {"changed": str(self.context.tree.resolve() / path)}, left) is not None

    async def _process(self, keeper: TestRunner) -> KeptProcess:
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self.context.scratch))
        self._report = folder / "runner.json"
        context = self.context
        program = context.program(
            ["node", str(PROBE_FOLDER / keeper.kept_by)],
            working_folder(self.plan.check, context.tree),
            environment_of(self.plan.check, context),
            Role.MUTANT,
        )
        arguments = expanded(self.plan, context, folder)[1:]
        return KeptProcess(program, first={"arguments": arguments, "report": str(self._report)})

    @property
    def keeps(self) -> bool:
        """Return whether one process serves many mutants now."""
        return self._kept is not None

    async def mutated_run(self, changed: ChangedFile, seconds: float) -> SeenRun:
        """Run the files of the tests with another content of one file."""
        loop = asyncio.get_running_loop()
        files = sorted({_file_of(test, self._by_test) or "" for test in changed.tests})
        if "" in files or len(files) == len(self._by_test):
            files = []
        kept, stop = self._kept, changed.stop and self._stops
        request = {
            "changed": str(self.context.tree.resolve() / changed.path),
            "tests": [str(self.context.tree.resolve() / file) for file in files] or None,
            "stop": stop,
        }
        if kept is not None and not kept.running:
            kept = kept if await self._loaded(kept, changed.path, seconds) else None
        with judged_tree.file_replaced(self.context.tree, changed.path, changed.content):
            if kept is None:
                return await self._in_new_process(seconds, files, stop=stop)
            began = loop.time()
            report = await self._asked(kept, request, seconds)
            spent = loop.time() - began
            if report is None and spent < seconds:
                # The tests ended the process. What a process of their own shows does not depend on earlier runs.
                return await self._in_new_process(seconds, files, stop=stop)
        if report is None:
            return SeenRun(outcomes={}, green=False, seconds=spent, timed_out=True)
        outcomes = reported_outcomes(report, self.context.tree)
        counts = jest_counts(report)
        failing = sum(outcome == FAILED for outcome in outcomes.values())
        unbuilt = counts is not None and counts.failed > failing
        passed = counts is not None and counts.passed > 0 and counts.failed == 0
        return SeenRun(
            outcomes=outcomes,
            green=passed and report.get("success") is True,
            seconds=spent,
            unbuilt=unbuilt,
            output=_messages(report),
        )

    async def _asked(self, kept: KeptProcess, request: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the report of the kept process; None if there is none."""
        await asyncio.to_thread(self._report.unlink, missing_ok=True)
        if not await kept.ask(request, seconds):
            return None
        return await asyncio.to_thread(read_json, self._report) or None

    def forget_copy(self) -> None:
        """Forget the kept process."""
        self._kept = None

    async def close(self) -> None:
        """End the kept process."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.close()

    def _seen(self, seen: SeenRun, counts: Any) -> SeenRun:
        """Add what a report says about files that could not be loaded."""
        if self._keeper is None or counts is None:
            return seen
        return replace(seen, unbuilt=seen.unbuilt or counts.failed > len(seen.failing))


def _messages(report: Mapping[str, Any]) -> str:
    """Return the messages of the tests that failed, without the end of very long ones."""
    texts = []
    for _, test in reported_tests(report):
        messages = test.get("failureMessages")
        texts += [str(message)[:_MOST_MESSAGE] for message in messages] if isinstance(messages, list) else []
    return "\n".join(texts)[:_MOST_MESSAGE]


def _with_options(argv: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the arguments with options before those that are files."""
    end = next((index for index, argument in enumerate(argv) if argument == "--"), len(argv))
    files = next((index for index, argument in enumerate(argv) if TESTS_SLOT in argument), end)
    at = min(end, files)
    if at and argv[at - 1] == "--runTestsByPath":
        at -= 1
    return [*argv[:at], *options, *argv[at:]]


def _file_of(test: str, files: Container[str]) -> str | None:
    """Return which of the test files an id begins with."""
    end = test.find(_SEPARATOR)
    while end >= 0:
        if test[:end] in files:
            return test[:end]
        end = test.find(_SEPARATOR, end + 1)
    return None


@dataclass(frozen=True, kw_only=True)
class RecordedLines:
    """What one run executed."""

    lines: Mapping[str, frozenset[int]]
    """File (relative to the tree) → executed lines; a file that is not here is unknown."""
    by_test: ByTestFile = field(default_factory=dict)
    """By the absolute path of each test file; empty if that is unknown of any."""


def recorded_lines(folder: Path, files: Mapping[str, str], *, complete: bool) -> RecordedLines:
    """Return the executed lines of ``files``: absolute path → path in the tree.

    ``complete``: a file about which no process reports was not loaded; otherwise its lines are unknown.
    """
    lines_of: dict[str, set[int]] = {}
    groups: dict[str, tuple[set[str], dict[str, set[int]]]] = {}
    reports = sorted(folder.glob("*.json"))
    whole = len(reports) <= _MOST_REPORTS
    for path in reports[:_MOST_REPORTS]:
        report = read_json(path)
        if path.name == "coverage-final.json":
            for name, lines in lines_by_istanbul(report).items():
                if name in files:
                    lines_of.setdefault(files[name], set()).update(lines)
            continue
        test = report.get("test")
        # Modules may be loaded once for all test files of a worker.
        tests, of_group = groups.setdefault(str(report.get("worker", test)), (set(), {}))
        if isinstance(test, str):
            tests.add(test)
        else:
            whole = False
        for name, ran in _executed(report, files):
            if name in files:
                of_group.setdefault(files[name], set()).update(ran)
                lines_of.setdefault(files[name], set()).update(ran)
    by_test: dict[str, dict[str, set[int]]] = {}
    for tests, of_group in groups.values():
        for test in tests:
            of_test = by_test.setdefault(test, {})
            for file, ran in of_group.items():
                of_test.setdefault(file, set()).update(ran)
    recorded = files.values() if complete and reports else lines_of.keys()
    return RecordedLines(
        lines={file: frozenset(lines_of.get(file, ())) for file in recorded},
        by_test={test: {file: frozenset(ran) for file, ran in of.items()} for test, of in by_test.items()}
        if whole
        else {},
    )


def _executed(report: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[tuple[str, set[int]]]:
    coverage = report.get("coverage")
    if isinstance(coverage, dict):
        for name, lines in lines_by_istanbul(coverage).items():
            yield name, set(lines)
    elif "scripts" in report:
        yield from _of_vitest(report)
    else:
        yield from _of_node(report, files)


def _of_vitest(report: Mapping[str, Any]) -> Iterator[tuple[str, set[int]]]:
    scripts = report["scripts"]
    for script in scripts if isinstance(scripts, list) else []:
        if not isinstance(script, dict):
            continue
        file, text, functions = script.get("file"), script.get("source"), script.get("functions")
        if isinstance(file, str) and isinstance(text, str) and isinstance(functions, list):
            mapped = inline_map(text)
            if mapped is not None:
                yield file, lines_by_v8(functions, text, file=file, mapped=mapped)


def _of_node(report: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[tuple[str, set[int]]]:
    """Yield the lines of a report of ``NODE_V8_COVERAGE``, which has source maps but no sources."""
    maps = report.get("source-map-cache")
    scripts = report.get("result")
    for script in scripts if isinstance(scripts, list) else []:
        url = script.get("url") if isinstance(script, dict) else None
        if not isinstance(url, str) or not isinstance(script.get("functions"), list):
            continue
        file = unquote(urlsplit(url).path) if url.startswith("file:") else url
        if file not in files:
            continue
        entry = maps.get(url) if isinstance(maps, dict) else None
        mapped = source_map(entry.get("data")) if isinstance(entry, dict) else None
        if mapped is None:
            text = Path(file).read_bytes().decode("utf-8", "replace").removeprefix("\ufeff")
        else:
            lengths = entry.get("lineLengths") if isinstance(entry, dict) else None
            sizes = [max(0, size) for size in lengths if isinstance(size, int)] if isinstance(lengths, list) else []
            if sum(sizes) > _MOST_CHARACTERS:
                continue
            text = "\n".join("x" * size for size in sizes)
        yield file, lines_by_v8(script["functions"], text, file=file, mapped=mapped)
