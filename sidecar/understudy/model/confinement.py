"""How far the processes of an agent or a check are isolated from the rest of the machine."""

from __future__ import annotations

import enum

from understudy.model.wire import Wire


class Confinement(enum.StrEnum):
    """Isolation of a process tree, weakest first."""

    NONE = "none"
    """The processes have the user's permissions, and may outlive the run if owner and guardian are killed together."""

    NAMESPACE = "namespace"
    """A PID namespace: no process outlives the run, but all of them have the user's permissions."""

    LANDLOCK = "landlock"
    """The kernel limits which files and network addresses the processes can use."""

    BUBBLEWRAP = "bubblewrap"
    """The processes see only the files and the network that were given to them."""

    CONTAINER = "container"
    """The processes run in a container with a file system of its own."""

    @property
    def restricts_access(self) -> bool:
        """Whether the processes have fewer permissions than the user."""
        return self not in {Confinement.NONE, Confinement.NAMESPACE}

    def weaker(self, other: Confinement) -> Confinement:
        """Return the weaker of the two."""
        order = list(Confinement)
        return min(self, other, key=order.index)


class Sandbox(Wire):
    """The isolation of a process tree: the requested level, and the level that this machine could provide."""

    asked: Confinement
    reached: Confinement
