"""The lifecycle states of a delegation and the legal transitions.

.. code-block:: text

    preparing ─► queued ─► running ⇄ waiting ─► checking ─► finished
        └───────────────────►┘                                  ▲
        any state before the end ───────────────────────────────┘
"""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """The lifecycle state of a delegation."""

    PREPARING = "preparing"
    """Its base and worktree are being created."""
    QUEUED = "queued"
    """It waits in the queue; no process runs it."""
    RUNNING = "running"
    """An attempt is running."""
    WAITING = "waiting"
    """An attempt asked the user for permission and waits for the answer."""
    CHECKING = "checking"
    """No agent process is running; the result is being checked."""
    FINISHED = "finished"
    """It has a verdict. Nothing runs; decisions may still be recorded."""


TRANSITIONS: dict[State, frozenset[State]] = {
    State.PREPARING: frozenset({State.QUEUED, State.RUNNING, State.FINISHED}),
    State.QUEUED: frozenset({State.PREPARING, State.RUNNING, State.FINISHED}),
    State.RUNNING: frozenset({State.RUNNING, State.WAITING, State.CHECKING, State.FINISHED}),
    State.WAITING: frozenset({State.RUNNING, State.CHECKING, State.FINISHED}),
    State.CHECKING: frozenset({State.CHECKING, State.RUNNING, State.FINISHED}),
    State.FINISHED: frozenset({State.FINISHED, State.CHECKING}),
}
"""The allowed transitions. ``finished → checking → finished``: ``delegations/check`` runs the checks again."""

STATES_WITH_WORKER: frozenset[State] = frozenset({State.PREPARING, State.RUNNING, State.WAITING, State.CHECKING})
"""States in which a live process must hold the folder's lock; a free lock there means that its worker died.

A delegation that prepares may have an entry in the queue instead, and is then started again.
"""
