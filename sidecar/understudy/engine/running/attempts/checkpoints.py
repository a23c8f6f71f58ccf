"""Commit the contents of the worktree between attempts, and while one works."""

from __future__ import annotations

import contextlib

from understudy.engine.running import task
from understudy.engine.running.run_context import RunContext
from understudy.model.delegation import events
from understudy.model.errors import UnderstudyError

SNAPSHOT_SECONDS = 300.0
"""How long git may take to commit a worktree."""


class Checkpoints:
    """The commits of one run."""

    def __init__(self, run: RunContext) -> None:
        """Commit nothing yet."""
        self.commit: str | None = None
        """The last checkpoint; None while the worktree has changes that no checkpoint contains."""
        self._run = run

    @property
    def start_commit(self) -> str | None:
        """What the next attempt starts from; None without a worktree."""
        tree = self._run.tree
        return self.commit or (tree.start_commit if tree is not None else None)

    async def save(
        self, answer: str | None, limit_seconds: float = SNAPSHOT_SECONDS, *, keep_as: str | None = None
    ) -> str | None:
        """Commit the contents of the worktree, unless the last checkpoint has them; return the commit.

        ``answer`` is the text of an agent that finished: recipes that return a file write it there. ``keep_as`` names a
        rescue reference under which the whole worktree is kept, if its files changed.
        """
        run, tree = self._run, self._run.tree
        if tree is None:
            return None
        commit, reference = self.commit, None
        if commit is None:
            await run.in_thread(self._write_target, answer)
            commit = await run.in_thread(tree.checkpoint, run.tell, limit_seconds=limit_seconds)
        try:
            if keep_as is not None:
                reference = await run.in_thread(tree.keep_changed, commit, keep_as, limit_seconds=limit_seconds)
        finally:
            if (self.commit is None or reference is not None) and run.spec.recipe.returns != "text":
                run.emit(events.Checkpoint(commit=commit, rescue_ref=reference))
            self.commit = commit
        return commit

    async def keep(self, name: str) -> None:
        """Keep the worktree under the rescue reference ``name``, if its files changed, without changing the head."""
        run, tree = self._run, self._run.tree
        if tree is None:
            return
        commit = await run.in_thread(tree.checkpoint, run.tell, limit_seconds=SNAPSHOT_SECONDS)
        reference = await run.in_thread(tree.keep_changed, commit, name, limit_seconds=SNAPSHOT_SECONDS)
        if reference is not None:
            run.emit(events.Note(level="info", text=f"The work of this attempt is kept as {reference}."))

    async def save_turn(self) -> None:
        """Record what a running attempt has done so far, for the case that this process is killed."""
        run, tree = self._run, self._run.tree
        if tree is None:
            return
        with contextlib.suppress(UnderstudyError, OSError):  # the last checkpoint reports what is wrong
            commit = await run.in_thread(tree.checkpoint, lambda _: None, limit_seconds=SNAPSHOT_SECONDS)
            run.emit(events.Checkpoint(commit=commit))

    def _write_target(self, answer: str | None) -> None:
        """Write the answer of a recipe that returns a file."""
        target = task.target_of(self._run.spec)
        if self._run.spec.recipe.returns == "file" and answer and target is not None:
            self._run.worktree.write_target(target, answer)
