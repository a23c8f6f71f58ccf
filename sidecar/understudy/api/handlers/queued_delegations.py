"""Requests about the queue: return it, pause it, move a delegation in it."""

from __future__ import annotations

import contextlib

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers import delegations
from understudy.engine.queueing import launcher
from understudy.engine.running import supervision
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.store import store


def get(caller: Caller, params: messages.NoParams) -> messages.QueueResult:
    """Return the delegations that wait for a slot, in the order in which they start.

    Starts what can start.
    """
    _ = caller, params
    root = delegation_folder.state_root()
    launcher.start_waiting(root)
    waiting = []
    for identifier in store.queued(root):
        with contextlib.suppress(UnderstudyError):  # it was removed meanwhile
            delegation = supervision.current(delegations.folder_of(identifier))
            if delegation.state is not State.FINISHED:
                waiting.append(delegation)
    return messages.QueueResult(paused=store.is_paused(root), delegations=waiting)


def pause(caller: Caller, params: messages.QueuePauseParams) -> messages.QueueResult:
    """Let nothing that waits start, or let it start again."""
    store.pause(delegation_folder.state_root(), paused=params.paused)
    return get(caller, messages.NoParams())


def move(caller: Caller, params: messages.QueueMoveParams) -> messages.QueueResult:
    """Let a waiting delegation start earlier or later than others.

    Errors: ``conflict`` if it no longer waits.
    """
    root = delegation_folder.state_root()
    identifier = delegations.folder_of(params.id).id
    if params.position < 1:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`position` is {params.position}, but the first place is 1.",
            hint="Use 1 for the next to start.",
        )
    if not store.move(root, identifier, params.position):
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} does not wait for a slot.",
            hint="`understudy queue` shows what waits.",
        )
    return get(caller, messages.NoParams())
