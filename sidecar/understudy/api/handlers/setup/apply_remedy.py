"""The request that does what a button of a frontend offers, where that is a change of the configuration."""

from __future__ import annotations

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers import configuration
from understudy.journal import change_notifications
from understudy.model.config.delegators import Scope
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.remedies import RemedyKind


def apply(caller: Caller, params: messages.RemedyParams) -> messages.EmptyResult:
    """Let new worktrees of a workspace link to folders, get copies of files, or run a command that sets them up."""
    remedy = params.remedy
    editor = configuration.editor(caller, params.workspace)
    match remedy.kind:
        case RemedyKind.LINK_FOLDERS:
            editor.add_to_worktrees(Scope.WORKSPACE, link=remedy.paths)
        case RemedyKind.COPY_FILES:
            editor.add_to_worktrees(Scope.WORKSPACE, copy=remedy.paths)
        case RemedyKind.SET_UP_WORKTREES if len(remedy.commands) == 1:
            editor.add_to_worktrees(Scope.WORKSPACE, setup=remedy.commands[0])
        case _:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"A frontend does this itself: {remedy.kind}.",
                hint="Show the user how, or run it in a terminal.",
                parameter="remedy",
            )
    change_notifications.notify(configuration.CHANGED)
    return messages.EmptyResult()
