"""Run JavaScript tests on mutants: ``node --test``, jest and vitest, also when ``npm test`` starts them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from understudy.engine.checks.check_run import (
    TESTS_SLOT,
    CheckContext,
    PreparedCheck,
    run_once,
    working_folder,
)
from understudy.engine.checks.interpreter import PROBE_FOLDER
from understudy.engine.checks.mutation.runners import mutated_file
from understudy.engine.checks.mutation.runners.check_mutants import CheckMutants, Lines, limited
from understudy.engine.checks.mutation.runners.executed_lines import (
    inline_map,
    lines_by_istanbul,
    lines_by_v8,
    source_map,
)
from understudy.engine.checks.mutation.runners.kept_process import KeptProcess
from understudy.engine.checks.mutation.runners.run_status import SeenRun, seen_run
from understudy.engine.checks.mutation.runners.script_commands import ScriptRunner
from understudy.engine.checks.mutation.runs import PlannedRun
from understudy.engine.checks.outcomes.console_reports import reported_outcomes
from understudy.engine.checks.outcomes.outcome_comparison import FAILED
from understudy.engine.checks.runner_reports import jest_counts, read_json

_GLOB = re.compile(r"[\[\](){}*!+@|\\]")
_MOST_REPORTS = 500
_START_SECONDS = 60.0
"""Time limit of the first run of a kept process."""
_MOST_MESSAGE = 64 * 1024
_MOST_CHARACTERS = 16 * 1024 * 1024


class ScriptMutants(CheckMutants):
    """Knows the executed lines of the whole run, and can keep jest and vitest running between mutants."""

    def __init__(
        self, plan: PreparedCheck, context: CheckContext, runner: ScriptRunner | None, *, keep: bool = True
    ) -> None:
        """Run ``plan`` in ``context``; ``keep`` allows one process for many mutants. No ``runner``: an unknown one."""
        self._runner = runner
        self._keep = keep and not plan.check.hidden
        self._kept: KeptProcess | None = None
        if runner is not None and runner.kind != "node":
            check = msgspec.structs.replace(plan.check, argv=[runner.program, *runner.arguments])
            plan = dataclasses.replace(plan, kind=runner.kind, check=check)
        super().__init__(plan, context)

    async def recorded_run(self, files: Sequence[str], seconds: float) -> tuple[SeenRun, Lines]:
        """Run the tests with coverage, and without where that could change what they do."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self.context.scratch))
        kind = self._runner.kind if self._runner is not None else None
        absolute = {str((self.context.tree / file).resolve()): file for file in files}
        if kind == "jest":
            root = working_folder(self.plan.check, self.context.tree)
            globs = [_GLOB.sub("?", str(Path(path).relative_to(root.resolve()))) for path in absolute]
            options = ["--coverage", "--coverageReporters=json", f"--coverageDirectory={folder}"]
            options += ["--coverageThreshold={}", *(f"--collectCoverageFrom={glob}" for glob in globs)]
            plan = limited(self.plan, seconds, _with_options(self.plan.check.argv, options))
        elif kind == "vitest":
            options = ["--coverage.enabled", "--coverage.provider=custom"]
            options.append(f"--coverage.customProviderModule={PROBE_FOLDER / 'vitest_lines.mjs'}")
            job = json.dumps({"folder": str(folder), "files": list(absolute)})
            argv = _with_options(self.plan.check.argv, options)
            plan = limited(self.plan, seconds, argv, UNDERSTUDY_PROBE_LINES=job)
        else:
            plan = limited(self.plan, seconds, NODE_V8_COVERAGE=str(folder))
        outcome = await run_once(plan, self.context)
        seen = self._seen(seen_run(outcome), outcome.counts)
        lines = await asyncio.to_thread(_recorded_lines, folder, absolute, complete=kind is not None)
        if not seen.green and kind in {"jest", "vitest"}:
            seen = await self.once(seconds)  # the coverage itself may fail, for instance when its module is missing
        if seen.green and kind == "vitest":
            # Not for jest, which writes no report then; and not if a test fails anyway.
            check = msgspec.structs.replace(self.plan.check, argv=_with_options(self.plan.check.argv, ["--bail=1"]))
            self.plan = dataclasses.replace(self.plan, check=check)
        return seen, lines

    async def once(self, seconds: float) -> SeenRun:
        """Run the tests in a new process."""
        outcome = await run_once(limited(self.plan, seconds), self.context)
        return self._seen(seen_run(outcome), outcome.counts)

    async def clean_run(self, planned: Sequence[PlannedRun], seconds: float) -> SeenRun | None:
        """Run the tests on the unchanged code; without a kept process if the tests do not pass in one."""
        wanted = {test for run in planned for test in run.tests}
        if self._keep and self._runner is not None and self._runner.kind != "node":
            self._kept = KeptProcess(self._runner.kind, self.plan, self.context)
            clean = await super().clean_run(planned, seconds)
            if clean is not None and self._kept.running and wanted <= clean.passing:
                self.keeps_process = True
                return clean
            await self.close()
            self._kept = None
        return await super().clean_run(planned, seconds)

    async def mutated_run(self, path: str, content: bytes, tests: Sequence[str], seconds: float) -> SeenRun:
        """Run all tests with another content of one file."""
        if self._kept is None:
            return await super().mutated_run(path, content, tests, seconds)
        loop = asyncio.get_running_loop()
        changed = self.context.tree.resolve() / path
        if not self._kept.running:
            # The first run loads everything: its time is not that of the next ones, and says nothing about a mutant.
            left = max(seconds, min(_START_SECONDS, self.deadline - loop.time()))
            if await self._kept.run(changed, left) is None:
                return await super().mutated_run(path, content, tests, seconds)
        with mutated_file.in_place(self.context.tree, path, content):
            began = loop.time()
            report = await self._kept.run(changed, seconds)
            spent = loop.time() - began
        if report is None and spent < seconds:
            # The tests ended the process. What a process of their own shows does not depend on earlier runs.
            return await super().mutated_run(path, content, tests, seconds)
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

    async def close(self) -> None:
        """End the kept process."""
        if self._kept is not None:
            await self._kept.close()

    def _seen(self, seen: SeenRun, counts: Any) -> SeenRun:
        """Add what the report of jest and vitest says about files that could not be loaded."""
        if self.plan.kind not in {"jest", "vitest"} or counts is None:
            return seen
        return replace(seen, unbuilt=seen.unbuilt or counts.failed > len(seen.failing))


def _messages(report: Mapping[str, Any]) -> str:
    """Return the messages of the tests that failed, without the end of very long ones."""
    found = []
    files = report.get("testResults")
    for file in files if isinstance(files, list) else []:
        tests = file.get("assertionResults") if isinstance(file, dict) else None
        for test in tests if isinstance(tests, list) else []:
            messages = test.get("failureMessages") if isinstance(test, dict) else None
            found += [str(message)[:_MOST_MESSAGE] for message in messages] if isinstance(messages, list) else []
    return "\n".join(found)[:_MOST_MESSAGE]


def _with_options(argv: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the arguments with options before those that are files."""
    end = next((index for index, argument in enumerate(argv) if argument == "--"), len(argv))
    files = next((index for index, argument in enumerate(argv) if TESTS_SLOT in argument), end)
    at = min(end, files)
    if at and argv[at - 1] == "--runTestsByPath":
        at -= 1
    return [*argv[:at], *options, *argv[at:]]


def _recorded_lines(folder: Path, files: Mapping[str, str], *, complete: bool) -> dict[str, frozenset[int]]:
    """Return the executed lines of ``files``: absolute path → path in the tree.

    ``complete``: a file about which no process reports was not loaded; otherwise its lines are unknown.
    """
    found: dict[str, set[int]] = {}
    reports = sorted(folder.glob("*.json"))[:_MOST_REPORTS]
    for path in reports:
        report = read_json(path)
        if path.name == "coverage-final.json":
            for name, lines in lines_by_istanbul(report).items():
                if name in files:
                    found.setdefault(files[name], set()).update(lines)
            continue
        for name, ran in _of_vitest(report) if "scripts" in report else _of_node(report, files):
            if name in files:
                found.setdefault(files[name], set()).update(ran)
    known = files.values() if complete and reports else found.keys()
    return {file: frozenset(found.get(file, ())) for file in known}


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
