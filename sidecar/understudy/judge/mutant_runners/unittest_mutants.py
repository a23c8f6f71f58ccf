"""Run unittest on mutants: only the tests that execute the mutated line, up to the first that fails."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from understudy.judge.mutant_runners.check_mutants import ChangedFile, CheckMutants, Lines, SeenRun, limited, seen_run
from understudy.judge.mutant_runners.mutant_runs import PlannedRun
from understudy.judge.outcomes.observations import FAILED, FIXTURE, read_json
from understudy.judge.runs import judged_tree
from understudy.judge.runs.check_run import CheckContext, run_once
from understudy.judge.runs.runner_registry import PreparedCheck


class UnittestMutants(CheckMutants):
    """Runs the built-in check for unittest, whose runner (``understudy_unittest``) records lines and chooses tests."""

    def __init__(self, plan: PreparedCheck, context: CheckContext, *, keep: bool = False) -> None:
        """Run ``plan`` in ``context``."""
        super().__init__(plan, context, keep=keep)
        self._lines: dict[str, dict[str, frozenset[int]]] = {}

    async def recorded_run(self, files: Sequence[str], seconds: float) -> tuple[SeenRun, Lines]:
        """Run all tests once and record the lines of each."""
        absolute = {str((self.context.tree / file).resolve()): file for file in files}
        folder = await self._folder()
        out = folder / "lines.json"
        await self._write(folder / "job.json", {"files": list(absolute), "out": str(out)})
        seen = seen_run(await run_once(limited(self.plan, seconds), self.context, lines=folder / "job.json"))
        recorded = await asyncio.to_thread(read_json, out)
        self._lines = {
            absolute[path]: {test: frozenset(lines) for test, lines in by_test.items()}
            for path, by_test in recorded.items()
            if path in absolute
        }
        return seen, {file: frozenset[int]().union(*tests.values()) for file, tests in self._lines.items()}

    async def clean_run(self, planned: Sequence[PlannedRun], seconds: float, *, keep: bool) -> SeenRun | None:  # noqa: ARG002
        """Run the tests that any mutant needs."""
        path = next(run.path for run in planned if run.tests)
        source = await asyncio.to_thread(judged_tree.read_file, self.context.tree, path)
        tests = sorted({test for run in planned for test in run.tests})
        return await self.mutated_run(ChangedFile(path=path, content=source, tests=tests), seconds)

    async def mutated_run(self, changed: ChangedFile, seconds: float) -> SeenRun:
        """Run the tests with another content of one file."""
        folder = await self._folder()
        await self._write(folder / "job.json", {"tests": list(changed.tests), "stop": changed.stop})
        plan = limited(self.plan, seconds)
        with judged_tree.file_replaced(self.context.tree, changed.path, changed.content):
            seen = seen_run(await run_once(plan, self.context, only=folder / "job.json"))
        fixtures = [match[1] for match in map(FIXTURE.match, sorted(seen.failing)) if match is not None]
        failed = {test: FAILED for test in changed.tests if any(test.startswith(f"{place}.") for place in fixtures)}
        return replace(seen, outcomes={**seen.outcomes, **failed})

    def by_test(self, file: str, lines: frozenset[int] | None, tests: Sequence[str]) -> dict[str, frozenset[int]]:
        """Return the lines that each test executed, and those that run when the file is loaded."""
        if file in self._lines:
            return self._lines[file]
        return super().by_test(file, lines, tests)

    async def _folder(self) -> Path:
        return Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self.context.scratch))

    @staticmethod
    async def _write(path: Path, content: Any) -> None:
        await asyncio.to_thread(path.write_text, json.dumps(content), encoding="utf-8")
