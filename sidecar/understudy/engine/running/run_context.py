"""What all parts of a run share: the delegation's folder, its journal, its worktree and its threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from understudy.engine.running.emitter import Emitter
from understudy.engine.running.worker_threads import WorkerThreads
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.spec import Spec

if TYPE_CHECKING:  # imported only for an agent that works in the checkout
    from understudy.engine.checkout_runs.checkout_worktree import CheckoutWorktree

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run of a delegation in this process."""

    folder: Folder
    spec: Spec
    state: Path
    """The folder of all state."""
    writer: Writer
    emit: Emitter
    tell: Callable[[events.Event], None]
    """Emits from another thread."""
    threads: WorkerThreads
    worktree: DelegationWorktree
    """See ``tree``."""
    checkout: CheckoutWorktree | None
    """The worktree again, if the agent works in the checkout."""

    @property
    def tree(self) -> DelegationWorktree | None:
        """The worktree, once it is on disk; None for work that needs none."""
        return self.worktree if self.worktree.has_tree else None

    async def in_thread(self, call: Callable[..., _T], *args: object, limit_seconds: float | None = None) -> _T:
        """Run blocking git work in a thread; see ``WorkerThreads.run``."""
        return await self.threads.run(call, *args, limit_seconds=limit_seconds)
