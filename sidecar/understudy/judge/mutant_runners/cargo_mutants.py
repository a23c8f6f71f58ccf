"""Run ``cargo test`` on mutants: one build for each, in the target folder of the copy."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os

from msgspec.structs import replace

from understudy.judge.mutant_runners.check_mutants import ChangedFile, CheckMutants, SeenRun, limited, seen_run
from understudy.judge.runs import judged_tree
from understudy.judge.runs.check_run import CheckContext, run_once
from understudy.judge.runs.runner_registry import PreparedCheck

_QUIET = frozenset({"-q", "--quiet"})
_LEAST_BUILD_SECONDS = 60.0
_SLOWER_BUILD = 10.0
"""A build may take this many times as long as the first one, which builds the dependencies too."""


class CargoMutants(CheckMutants):
    """Builds first, so that a mutant that does not compile is recognised and the time of a build counts for no test."""

    def __init__(self, plan: PreparedCheck, context: CheckContext, *, keep: bool = False) -> None:
        """Run ``plan`` in ``context``, so that it names its tests."""
        argv = [word for word in plan.check.argv if word not in _QUIET]
        plan = dataclasses.replace(plan, check=replace(plan.check, argv=argv))
        super().__init__(plan, context, keep=keep)
        self._build_seconds = 0.0
        self._changed: str | None = None
        """The file that had another content in the last run."""

    async def mutated_run(self, changed: ChangedFile, seconds: float) -> SeenRun:
        """Build and run the tests with another content of one file; ``seconds`` is for the tests alone."""
        if self._changed not in {None, changed.path}:
            # It is put back with its old time, by which cargo would take the last build for one of this content.
            with contextlib.suppress(OSError):
                await asyncio.to_thread(os.utime, self.context.tree / self._changed)
        self._changed = changed.path
        with judged_tree.file_replaced(self.context.tree, changed.path, changed.content):
            left = self.deadline - asyncio.get_running_loop().time()
            build_seconds = max(_LEAST_BUILD_SECONDS, _SLOWER_BUILD * self._build_seconds)
            return await self._built_run(seconds, max(0.1, min(build_seconds, left)))

    def forget_copy(self) -> None:
        """Forget the file that was changed last."""
        self._changed = None

    async def once(self, seconds: float) -> SeenRun:
        """Build and run the tests."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen = await self._built_run(seconds, seconds)
        self._build_seconds = max(self._build_seconds, loop.time() - began - seen.seconds)
        return seen

    async def _built_run(self, seconds: float, build_seconds: float) -> SeenRun:
        argv = self.plan.check.argv
        end = argv.index("--") if "--" in argv else len(argv)
        build = limited(self.plan, build_seconds, [*argv[:end], "--no-run", *argv[end:]])
        # Without tests, the run is never green: only the exit code shows that it was built.
        built = await run_once(build, self.context)
        if built.code != 0:
            # A build that takes too long says nothing about the tests.
            seen = replace(seen_run(built), outcomes={}, green=False, unbuilt=True, timed_out=False, seconds=0.0)
            return replace(seen, started=seen.started and not built.timed_out)
        return seen_run(await run_once(limited(self.plan, seconds), self.context))
