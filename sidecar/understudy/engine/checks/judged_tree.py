"""What this room needs of an isolated tree."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

Change = tuple[str, str]
"""A letter of ``git diff --name-status`` (``A M D R T``) and a POSIX path; ``R`` stands for the new path, and the old
path is in the list as ``D`` where the implementation follows renames."""


class JudgedTree(Protocol):
    """A working tree that can be made exactly a commit. Calls block; they are made from a thread, one at a time."""

    @property
    def path(self) -> Path:
        """The working tree, an absolute path outside the user's checkout."""
        ...

    def materialise(self, commit: str) -> None:
        """Make the tree exactly ``commit``: keep bootstrap items, remove everything else, ignored files included."""
        ...

    def tree_of(self, commit: str) -> str:
        """Return the object id of the tree of ``commit``."""
        ...

    def changed_paths(self, base: str, head: str) -> list[Change]:
        """Return what changed from ``base`` to ``head``."""
        ...

    def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in ``commit``; ``None`` where there is no such file."""
        ...
