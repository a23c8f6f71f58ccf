"""Keep a tree so that it can be brought back byte for byte after it was removed.

One bare repository per user's repository, ``<state>/rescue/<key>.git``, one reference per kept tree. Everything needed
lies in it; it borrows no objects. What is kept is data: nothing in it is ever run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from understudy.git.repository import Repository
from understudy.git.store import Store
from understudy.git.tree import Tree


@dataclass(frozen=True, slots=True)
class Rescue:
    """A tree that can be brought back."""

    ref: str
    """``<key>/<name>``: what ``keep`` returned."""
    time: int
    """Seconds since 1970 when it was kept."""
    path: Path
    """Where the tree was."""
    top: Path
    """The user's workspace."""
    notes: list[str] = field(default_factory=list)
    """What could not be kept."""


def keep(state: Path, repository: Repository, tree: Tree, store: Store, name: str) -> str:
    """Keep ``tree`` and its store as they are and return the rescue reference (``<key>/<name>``).

    Kept: every file, link and folder of the tree with its permissions, whatever its name, its private ``.git`` (index,
    HEAD, branches, commits), Understudy's store, and the objects that these borrow. Ignored files within limits.
    Errors: ``already_exists`` (the name), ``base_unavailable``, ``store_full``, ``store_unavailable``.
    """
    raise NotImplementedError


def restore(state: Path, ref: str, path: Path) -> Tree:
    """Bring a kept tree back at ``path`` (missing or empty), with its store at its old place unless that is there.

    Errors: ``unknown_delegation`` (no such reference), ``target_exists``, ``store_full``.
    """
    raise NotImplementedError


def kept(state: Path) -> list[Rescue]:
    """Return everything that can be brought back, the newest first."""
    raise NotImplementedError


def drop(state: Path, ref: str) -> None:
    """Forget a kept tree (retention); its objects go when nothing else needs them. Nothing happens without it."""
    raise NotImplementedError
