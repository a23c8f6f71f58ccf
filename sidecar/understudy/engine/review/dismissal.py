"""Record that a finished run no longer needs the user's attention."""

from __future__ import annotations

from understudy.engine.review import decision_recovery
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State


def dismiss(folder: Folder, by: str) -> None:
    """Dismiss a finished delegation, until its checks run again. Dismissing it twice changes nothing.

    Errors: ``conflict`` (it has not finished, or another process uses it).
    """
    with decision_recovery.lock_delegation(folder) as writer:
        if writer.delegation.state is not State.FINISHED:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"{folder.id} is {writer.delegation.state}.",
                hint=f"Wait until it is finished: understudy wait {folder.id}",
            )
        if not writer.delegation.dismissed:
            writer.append(events.Dismissed(by=by), attempt=0)
            writer.sync()
