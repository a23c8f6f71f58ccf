"""Run the checks of a finished result again, in a worker of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from understudy.config.trust import records
from understudy.engine.queueing import launcher
from understudy.engine.running import supervision
from understudy.engine.worktrees.worktree_record import load_record
from understudy.git import repository
from understudy.journal import change_notifications, delegation_folder, worker_lock
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State


def run(folder: Folder, cancelled: Callable[[], bool], *, limit_seconds: float) -> Delegation:
    """Start the worker and wait for its end; return the delegation with its new verdict.

    Errors: ``conflict`` (it has not finished, or is in use), ``base_unavailable`` (its worktree was removed),
    ``untrusted_workspace``, ``interrupted`` (the worker died before the checks began); ``timed_out`` and ``cancelled``
    end only the wait.
    """
    before = supervision.current(folder)
    if before.state is not State.FINISHED:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{folder.id} is {before.state}; its checks run when the agent has finished.",
            hint=f"Wait for it: understudy wait {folder.id}",
        )
    load_record(folder)
    workspace = Path(before.workspace)
    if not workspace.is_dir():
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The workspace {workspace} does not exist.",
            hint="Restore the folder, then run the checks again.",
        )
    if not records.status(workspace, delegation_folder.state_root()).trusted:
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{workspace} is not trusted, so checks cannot run.",
            hint=repository.trust_hint(workspace),
        )
    lock = supervision.lock_within(folder)
    if lock is None:
        raise UnderstudyError(
            ErrorKind.CONFLICT, f"Another process is using {folder.id}.", hint="Try again when it has finished."
        )
    try:
        launcher.spawn_worker(folder, lock, only_check=True)
    finally:
        os.close(lock)

    def ended() -> bool:
        # The lock was passed to the worker, so a free lock means that the worker has ended.
        return cancelled() or not worker_lock.is_held(folder)

    with change_notifications.ChangeListener() as listener:
        has_ended = change_notifications.wait_for(ended, listener, limit_seconds)
    if cancelled():
        raise UnderstudyError(
            ErrorKind.CANCELLED,
            f"Stopped waiting; {folder.id} is still running.",
            hint=f"Watch it: understudy watch {folder.id}",
        )
    if not has_ended:
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"The checks of {folder.id} are still running.",
            hint=f"Watch them: understudy watch {folder.id}",
        )
    after = supervision.current(folder)
    if after.last_seq == before.last_seq:
        raise UnderstudyError(
            ErrorKind.INTERRUPTED,
            f"The worker for the checks of {folder.id} ended before it started them.",
            hint="Run them again. If it happens again, its log says why.",
            log_paths=[str(folder.path / "worker.log")],
        )
    return after
