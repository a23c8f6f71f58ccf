"""Keep a JavaScript test runner running and let it run its tests after each change of a file."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from pathlib import Path
from typing import Any, Literal

from understudy.engine.checks.check_run import CheckContext, PreparedCheck, expanded, working_folder
from understudy.engine.checks.interpreter import PROBE_FOLDER, check_environment
from understudy.engine.checks.runner_reports import read_json
from understudy.model.errors import UnderstudyError
from understudy.process.children import Child, start

_PROGRAMS = {"jest": "kept_jest.cjs", "vitest": "kept_vitest.mjs"}
_MOST_LINE_BYTES = 16 * 1024 * 1024


class KeptProcess:
    """One process of ``injected/kept_jest`` or ``injected/kept_vitest``; it is started when it is first needed."""

    def __init__(self, kind: Literal["jest", "vitest"], plan: PreparedCheck, context: CheckContext) -> None:
        """Start nothing yet. ``plan`` starts the test runner ``kind`` itself, which writes its report to the slot."""
        self._kind = kind
        self._plan = plan
        self._context = context
        self._child: Child | None = None
        self._report = Path()

    async def run(self, changed: Path, seconds: float) -> dict[str, Any] | None:
        """Run the tests after ``changed`` has changed; return the report, None if there is none within ``seconds``.

        Without a report, the process is ended; the next run starts another one.
        """
        word = secrets.token_hex(12)
        try:
            async with asyncio.timeout(seconds):
                child = self._child or await self._start()
                await asyncio.to_thread(self._report.unlink, missing_ok=True)
                await self._send(child, {"changed": str(changed), "word": word})
                async for line in child.stdout_lines(_MOST_LINE_BYTES):
                    if line.strip() == word.encode():
                        report = await asyncio.to_thread(read_json, self._report)
                        return report or None
        except (TimeoutError, UnderstudyError):
            pass
        except BaseException:
            await self.close()
            raise
        await self.close()
        return None

    @property
    def running(self) -> bool:
        """Return whether the process is there for the next run."""
        return self._child is not None

    async def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            try:
                await child.end(0)
            finally:
                child.close()

    async def _start(self) -> Child:
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._context.scratch))
        self._report = folder / "runner.json"
        environment = check_environment(
            facts=self._context.facts,
            plan=self._context.plan,
            shadows=self._context.shadows,
            scratch=self._context.scratch,
            tree=self._context.tree,
            extra=self._plan.check.env or {},
        )
        self._child = await start(
            ["node", str(PROBE_FOLDER / _PROGRAMS[self._kind])],
            cwd=working_folder(self._plan.check, self._context.tree),
            env=environment,
            mark=self._context.mark,
            keep_stdin=True,
        )
        arguments = expanded(self._plan, self._context, folder)[1:]
        await self._send(self._child, {"arguments": arguments, "report": str(self._report)})
        return self._child

    @staticmethod
    async def _send(child: Child, message: dict[str, Any]) -> None:
        assert child.stdin is not None  # noqa: S101 - started with keep_stdin
        await child.stdin.write(json.dumps(message).encode() + b"\n")
