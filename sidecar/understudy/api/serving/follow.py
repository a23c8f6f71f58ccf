"""Follow one delegation, or a group, in the calling thread: events as they are written, members as they change."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator

from understudy.api import messages
from understudy.api.caller import TerminalCaller
from understudy.api.handlers import delegations, groups
from understudy.engine.running import supervision
from understudy.journal.change_notifications import ChangeListener
from understudy.journal.delegation_folder import open_folder
from understudy.journal.reader import Tail
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.events import Event
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

WORKER_CHECK_SECONDS = 2.0
"""How long a delegation may be silent before its state is read, which ends it if its worker died."""

PAUSE_SECONDS = 0.2
"""How long a group is left alone between two looks: agents that write much notify all the time."""

MOST_FOLLOWED = 500
"""The most delegations in progress that are followed together, the newest ones."""


def follow(
    identifier: str, after: int = 0, *, idle_seconds: float, over: Callable[[], bool] | None = None
) -> Iterator[Event | None]:
    """Yield the events of a delegation after sequence number ``after`` up to its end, and None while it is silent.

    ``idle_seconds``: how long to wait for an event before yielding None. ``over`` returns whether the end is reached;
    without it, the end is the first ``finished`` event. Errors: ``unknown_delegation``; ``disk_full`` and
    ``state_unavailable`` if that is why it cannot start now.
    """
    folder = open_folder(identifier)
    tail = Tail(folder, after)
    checked = time.monotonic()
    with ChangeListener() as changes:
        while True:
            is_over = over() if over else tail.has_finished
            batch = tail.read()
            if batch:
                yield from batch
                continue
            if is_over:
                return
            if over is None and time.monotonic() - checked > WORKER_CHECK_SECONDS:
                checked = time.monotonic()
                current = supervision.current(folder, raise_problem=True)
                if current.state is State.FINISHED and current.last_seq <= tail.last:
                    return
            changes.wait(idle_seconds)
            yield None


def follow_group(group: str, *, idle_seconds: float) -> Iterator[list[Delegation]]:
    """Yield the members of a group in the order in which they joined, after changes and every ``idle_seconds``.

    The last list has only finished members. Errors: ``unknown_group``.
    """
    latest: dict[str, Delegation] = {}
    caller = TerminalCaller()
    with contextlib.closing(_looks(idle_seconds)) as looks:
        for _ in looks:
            members = groups.get(caller, messages.IdParams(id=group)).delegations
            for member in members:
                if member in latest and latest[member].state is State.FINISHED:
                    continue
                try:
                    latest[member] = delegations.get(caller, messages.IdParams(id=member))
                except UnderstudyError as error:
                    if error.kind is not ErrorKind.UNKNOWN_DELEGATION:
                        raise
                    latest.pop(member, None)  # its journal has expired
            present = [latest[member] for member in members if member in latest]
            yield present
            if all(delegation.state is State.FINISHED for delegation in present):
                return


def follow_all(*, idle_seconds: float, newest: int) -> Generator[list[Delegation], None, None]:
    """Yield what is in progress in all workspaces, and the ``newest`` that have finished, oldest first, without end."""
    caller = TerminalCaller()
    live: list[State] = [state for state in State if state is not State.FINISHED]
    with contextlib.closing(_looks(idle_seconds)) as looks:
        for _ in looks:
            working = delegations.list_page(caller, messages.ListParams(states=live, limit=MOST_FOLLOWED)).delegations
            ended = []
            if newest:
                page = delegations.list_page(caller, messages.ListParams(states=[State.FINISHED], limit=newest))
                ended = page.delegations
            yield sorted([*working, *ended], key=lambda delegation: delegation.started_at)


def _looks(idle_seconds: float) -> Generator[None, None, None]:
    """Yield at once, and again after changes and every ``idle_seconds``, without end."""
    with ChangeListener() as changes:
        while True:
            began = time.monotonic()
            yield
            changes.wait(idle_seconds)
            time.sleep(max(0.0, PAUSE_SECONDS - (time.monotonic() - began)))
