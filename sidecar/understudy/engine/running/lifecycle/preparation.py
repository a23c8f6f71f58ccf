"""Prepare a run: record the base, create the worktree, and look at the files outside it before an agent runs."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from understudy.config.trust import records
from understudy.engine.bases import base_recorder
from understudy.engine.queueing import launcher
from understudy.engine.running.lifecycle.outside_comparison import OutsideComparison
from understudy.engine.running.run_context import RunContext
from understudy.engine.worktrees import setup_command
from understudy.git import repository
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process import leftovers


class Preparation:
    """Gives the agent a folder to work in: once before the first attempt, and again after one that failed."""

    def __init__(self, run: RunContext, outside: OutsideComparison) -> None:
        """Create nothing on disk."""
        self._run = run
        self._outside = outside

    async def prepare(self) -> None:
        """Prepare the first attempt. Raises ``untrusted_workspace``, and the errors of the base and the worktree."""
        if not launcher.needs_worktree(self._run.spec):
            self._check_trust()
            return
        checkout, bootstrap = self._run.checkout, self._run.spec.bootstrap
        if checkout is not None:
            await self._run.in_thread(checkout.claim_checkout)
        looking: asyncio.Task[None] | None = None
        # A set-up command may change files outside, and what is linked is outside: those are looked at later.
        if not bootstrap.setup and not bootstrap.link:
            looking = asyncio.create_task(self._run.in_thread(self._look_early))
        await self._run.in_thread(self._make_base)
        self._check_trust()
        await self._make_tree(looking)
        if checkout is not None:
            await self._run.in_thread(checkout.enter, self._run.tell)

    async def renew(self) -> None:
        """Replace the worktree of a failed attempt by a fresh one, for the next candidate."""
        # No process of the failed attempt may write to the new one.
        await self._run.in_thread(leftovers.kill_leftovers, self._run.folder.id)
        await self._run.in_thread(self._run.worktree.make_tree, self._run.tell)
        await self._set_up()

    def _make_base(self) -> None:
        """Record the base, unless that was done while it waited; runs in a thread."""
        run = self._run
        if not base_recorder.is_recorded(run.writer.delegation, run.worktree):
            run.tell(events.Phase(text="Recording your files"))
            base_recorder.record_base(run.folder, run.spec, run.worktree, run.state, run.tell)

    def _check_trust(self) -> None:
        """Raise an error if trust was revoked, or the covered files changed, since the request."""
        workspace = Path(self._run.spec.workspace)
        if self._run.spec.trusted and not records.status(workspace, self._run.state).trusted:
            raise UnderstudyError(
                ErrorKind.UNTRUSTED_WORKSPACE,
                f"{workspace} is no longer trusted: trust was revoked, or its configuration changed.",
                hint=repository.trust_hint(workspace),
            )

    def _look_early(self) -> None:
        """Look at the environment while the base is recorded; runs in a thread, and raises nothing."""
        with contextlib.suppress(UnderstudyError):  # reported when the base is recorded
            self._check_trust()  # finding the environment may start tools of the project
            self._outside.look_early()

    async def _make_tree(self, looking: asyncio.Task[None] | None) -> None:
        """Create the worktree, and look at the files outside it before an agent runs."""
        made = self._run.in_thread(self._run.worktree.make_tree, self._run.tell)
        if looking is None:
            await made
            await self._set_up()
            await self._outside.start()
        else:
            await asyncio.gather(made, self._start_after(looking))

    async def _start_after(self, looking: asyncio.Task[None]) -> None:
        await looking
        await self._outside.start()

    async def _set_up(self) -> None:
        argv = self._run.spec.bootstrap.setup
        if not argv:
            return
        self._run.emit(events.Phase(text=f"Setting up the worktree: {argv[0]}"))
        await setup_command.run(
            argv,
            self._run.worktree.tree_path,
            self._run.worktree.environment(),
            mark=self._run.folder.id,
            timeout_seconds=self._run.spec.bootstrap.setup_timeout_seconds,
            limits=self._run.spec.program_limits,
        )
