"""Supervise delegations from other processes: finish those whose worker died, start queued ones, cancel."""

from __future__ import annotations

from understudy.engine.queueing import launcher
from understudy.files import durable
from understudy.journal import change_notifications, delegation_folder, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing import dead_workers
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.verdicts import Verdict
from understudy.store import store

CANCEL_SECONDS = 4.0
"""A worker that has not stopped within this time after a cancel is killed."""


def current(folder: Folder, *, raise_problem: bool = False) -> Delegation:
    """Return the delegation; first end it if its worker died, or start what is next in the queue.

    With ``raise_problem``, raise ``disk_full`` or ``state_unavailable`` if that is why it cannot start now; a later
    call starts it.
    """
    delegation = recover(reader.load(folder), folder)
    if delegation.state in launcher.NOT_STARTED and not worker_files.is_held(folder):
        problems: dict[str, UnderstudyError] = {}
        launcher.start_waiting(delegation_folder.state_root(), problems=problems)
        delegation = reader.load(folder)
        problem = problems.get(folder.id) or problems.get("")
        if raise_problem and problem is not None and delegation.state in launcher.NOT_STARTED:
            raise UnderstudyError(
                problem.kind,
                f"{folder.id} cannot start yet. {problem}",
                hint=f"{problem.hint} The delegation waits, and starts by itself as soon as it can. Follow it: "
                f"understudy watch {folder.id}. Or end it: understudy cancel {folder.id}",
            ) from problem
    return delegation


def recover(delegation: Delegation, folder: Folder | None = None) -> Delegation:
    """Finish a run, decision or follow-up that a dead process interrupted; return the delegation after that.

    Accepted hunks that only an editor showed which has ended are pending again.

    Raises ``disk_full`` and ``state_unavailable``; the next caller then tries again.
    """
    folder = folder or Folder(delegation.id, delegation_folder.delegations_root() / delegation.id)
    with durable.named_failures(folder.path):
        return _recover(delegation, folder)


def _recover(delegation: Delegation, folder: Folder) -> Delegation:
    from understudy.engine.worktrees import worktree_record  # lists start without git's modules

    interrupted = (folder.path / "decision-intent.json").exists() or worktree_record.has_failed_follow_up(delegation)
    if interrupted and not worker_files.is_held(folder):
        from understudy.engine.review import decision_recovery

        if decision_recovery.recover_delegation(folder):
            delegation = reader.load(folder)
    if delegation.review.accepted and not worker_files.is_held(folder):
        from understudy.engine.review import editor_documents

        if documents := editor_documents.abandoned(folder.id):
            from understudy.engine.review import reconciliation

            reconciliation.reconcile_with_disk(documents, by="understudy")
            delegation = reader.load(folder)
    if delegation.state is State.FINISHED or worker_files.is_held(folder):
        return delegation
    root = delegation_folder.state_root()
    if delegation.state is State.QUEUED:
        launcher.ensure_entry(folder)
    elif not (delegation.state is State.PREPARING and store.contains(root, folder.id)) and dead_workers.recover(folder):
        launcher.start_waiting(root)
    return reader.load(folder)


def has_ended(folder: Folder) -> bool:
    """Return whether a delegation has ended and no process uses it: a held lock means that its checks run again.

    Like ``current`` with ``raise_problem``, first start what is next in the queue.
    """
    return current(folder, raise_problem=True).state is State.FINISHED and not worker_files.is_held(folder)


def cancel(folder: Folder, *, by: str, at: str, only_checks: bool = False) -> Delegation:
    """Cancel a delegation, or only the checks of its result, and wait for its end.

    Raises ``timed_out`` when its worker cannot be killed, ``conflict`` if only its checks are meant and none run, and
    ``disk_full``; one that has not started will not start then, either.
    """
    try:
        return _cancel(folder, by=by, at=at, only_checks=only_checks)
    except UnderstudyError as error:
        if error.kind is ErrorKind.DISK_FULL and reader.load(folder).state in launcher.NOT_STARTED:
            launcher.refuse(folder)
        raise


def _cancel(folder: Folder, *, by: str, at: str, only_checks: bool) -> Delegation:
    if _ended(folder):
        return reader.load(folder)
    if only_checks:
        _require_checks(folder)
    worker_files.append_request(folder, worker_files.Cancel(by=by, at=at, only_checks=only_checks))
    with change_notifications.ChangeListener() as listener:
        change_notifications.wait_for(lambda: _ended_or_dequeued(folder), listener, CANCEL_SECONDS)
    if reader.load(folder).state is not State.FINISHED or worker_files.is_held(folder):
        if only_checks:
            _require_checks(folder)
        dead_workers.end_and_finish(folder, Verdict.CANCELLED)
    root = delegation_folder.state_root()
    launcher.leave(root, folder.id)
    launcher.start_waiting(root)
    return reader.load(folder)


def _require_checks(folder: Folder) -> None:
    state = reader.load(folder).state
    if state not in {State.CHECKING, State.FINISHED}:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{folder.id} is {state}: none of its checks runs.",
            hint=f"To stop its agent, too: understudy cancel {folder.id}",
        )


def _ended_or_dequeued(folder: Folder) -> bool:
    """Return whether it has ended; a delegation in the queue has no worker, so end it here."""
    if recover(reader.load(folder), folder).state in launcher.NOT_STARTED and not worker_files.is_held(folder):
        dead_workers.end_and_finish(folder, Verdict.CANCELLED)
        return True
    return _ended(folder)


def _ended(folder: Folder) -> bool:
    # Not current(), which would start a waiting delegation that is being cancelled.
    return recover(reader.load(folder), folder).state is State.FINISHED and not worker_files.is_held(folder)
