"""What all parts of a run share: the delegation's folder, its journal, its worktree, and threads for git."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.engine.running.emitter import Emitter
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.git import command
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
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


class WorkerThreads(ThreadPoolExecutor):
    """A thread pool that knows which calls are running."""

    def __init__(self) -> None:
        """Create the pool; no thread starts yet."""
        super().__init__(max_workers=4, thread_name_prefix="understudy")
        self._futures: set[Future[Any]] = set()

    def submit(self, call: Callable[..., _T], /, *args: Any, **keywords: Any) -> Future[_T]:
        """Run ``call`` in a thread."""
        future = super().submit(call, *args, **keywords)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    async def run(self, call: Callable[..., _T], *args: object, limit_seconds: float | None = None) -> _T:
        """Run blocking git work and wait for it; raise ``timed_out`` after ``limit_seconds``.

        A cancel aborts the git process, so the thread ends at once.
        """
        future = asyncio.get_running_loop().run_in_executor(self, functools.partial(call, *args))
        # The caller may have stopped waiting for this thread; then its exception is never retrieved.
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            async with asyncio.timeout(limit_seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            command.abort()
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"Git was still using the worktree after {limit_seconds} s.",
                hint="The work is still in the worktree; check for a slow or full disk.",
            ) from None

    async def wait_until_idle(self, limit_seconds: float) -> None:
        """Wait for threads whose work was stopped; git may be called again only after that."""
        busy = [asyncio.wrap_future(future) for future in list(self._futures)]
        if busy:
            await asyncio.wait(busy, timeout=limit_seconds)
