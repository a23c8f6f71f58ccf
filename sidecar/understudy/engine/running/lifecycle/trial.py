"""A further result of a run, on trial: its events and reports are held back until it is known which one is kept."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from understudy.engine.running.attempts.run_attempts import SNAPSHOT_SECONDS
from understudy.engine.running.run_context import RunContext
from understudy.model.delegation import events
from understudy.model.errors import UnderstudyError
from understudy.model.text import path_quoting
from understudy.policy.next_step import NextCandidate, Step

if TYPE_CHECKING:  # what judges a result is imported when there is one
    from understudy.engine.running.lifecycle.results import Judging
    from understudy.judge.judge import Judgement
    from understudy.judge.mutation.planning import MutantSample

_RESTORE_SECONDS = 3.0
"""A cancel must finish within five seconds."""


class Trial:
    """One further result."""

    def __init__(self, run: RunContext, before: str | None, purpose: Step) -> None:
        """Commit nothing yet; ``before`` is the commit of the result so far, which ``purpose`` should make better."""
        self.head: str | None = None
        self.judgement: Judgement | None = None
        self.objection: str | None = None
        """Why it is not kept, as far as that is known."""
        self._run = run
        self.before = before
        self.purpose = purpose
        self._held: list[events.Event] = []
        self._reports = run.folder.path / "round"

    @contextlib.contextmanager
    def objecting(self) -> Iterator[None]:
        """Let an error be the objection."""
        try:
            yield
        except UnderstudyError as error:
            self.objection = error.message.rstrip(".")

    async def collect(self) -> None:
        """Commit the contents of the worktree, which are not the result yet."""
        run = self._run
        self.head = await run.in_thread(run.worktree.checkpoint, run.tell, limit_seconds=SNAPSHOT_SECONDS)
        if self.before is not None and await run.in_thread(self._same_tree, self.head, self.before):
            self.objection = "the agent changed nothing"

    async def judge(self, judging: Judging, sample: MutantSample | None) -> None:
        """Judge what was collected."""
        if self.head is None or self.objection is not None:
            return
        if isinstance(self.purpose, NextCandidate) and await self._run.in_thread(
            self._same_tree, self.head, self._run.worktree.base_commit
        ):
            return  # as a first result without a change
        await self._run.in_thread(self._new_folder)
        self.judgement = await judging.judge_commit(self.head, self._hold, sample, self._reports)

    async def changed(self) -> list[str]:
        """Return the paths in which it differs from the result so far, as mutants name them."""
        return await self._run.in_thread(self._changed)

    def release(self) -> None:
        """Emit what was held back: it is kept."""
        for event in self._held:
            self._run.emit(event)

    async def keep_reports(self) -> None:
        """Replace the reports of the result so far."""
        await self._run.in_thread(self._keep_reports)

    async def restore(self) -> None:
        """Reset the worktree to the result so far."""
        if self.before is not None:
            with contextlib.suppress(UnderstudyError):  # the next check resets it, too
                await self._run.in_thread(self._reset, self.before, limit_seconds=_RESTORE_SECONDS)

    def _hold(self, event: events.Event) -> None:
        if isinstance(event, events.CheckStarted):
            self._run.emit(event)
        else:
            self._held.append(event)

    def _same_tree(self, commit: str, other: str) -> bool:
        return self._run.worktree.tree_of(commit) == self._run.worktree.tree_of(other)

    def _changed(self) -> list[str]:
        if self.before is None or self.head is None:
            return []
        changes = self._run.worktree.judged().changed_paths(self.before, self.head)
        return [path_quoting.quote(os.fsencode(path)) for _, path in changes]

    def _new_folder(self) -> None:
        shutil.rmtree(self._reports, ignore_errors=True)
        self._reports.mkdir(mode=0o700)

    def _reset(self, head: str) -> None:
        shutil.rmtree(self._reports, ignore_errors=True)
        self._run.worktree.judged().materialise(head)

    def _keep_reports(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for file in self._reports.iterdir():
                file.replace(self._run.folder.path / file.name)
            self._reports.rmdir()
