"""Who may use a tree: ``<root>/lease`` names the chain of delegations, oldest first; the last one has the tree.

Beside it lies ``removed`` once the tree was taken away: the place stays reserved, because a restored tree belongs to
the same path (tools remember paths, and so does the record of every delegation of the chain).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from understudy.journal import disk, store, summary
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_LIMIT = 1024 * 1024


def named(root: Path) -> list[str]:
    """Return every id that the lease names, oldest first; empty when nobody says."""
    with contextlib.suppress(OSError):
        return [line for line in disk.read_whole(root / "lease", _LIMIT).decode("ascii", "replace").split() if line]
    return []


def chain(root: Path) -> list[str]:
    """Return the ids of a tree's chain, oldest first, without follow-ups at its end that never took the tree over."""
    ids = named(root)
    while len(ids) > 1 and came_to_nothing(ids[-1]):
        del ids[-1]
    return ids


def came_to_nothing(identifier: str) -> bool:
    """Tell whether a follow-up ended before it had the tree: then what it was given is its parent's again."""
    folder = folder_of(identifier)
    if folder is None:
        return False
    with contextlib.suppress(UnderstudyError):
        found = summary.load(folder)
        return found.state is State.FINISHED and found.worktree is None and found.head is None
    return False


def lapsed(root: Path, identifier: str) -> bool:
    """Tell whether the tree was handed on from ``identifier`` to a follow-up that came to nothing."""
    ids = named(root)
    return identifier in ids[:-1] and chain(root)[-1] == identifier


def forget_lapsed(root: Path) -> None:
    """Forget the follow-ups that never took the tree over."""
    disk.replace(root / "lease", "".join(f"{one}\n" for one in chain(root)).encode("ascii"))


def add(root: Path, identifier: str) -> None:
    """Hand the tree on to ``identifier``."""
    ids = [one for one in chain(root) if one != identifier]
    disk.replace(root / "lease", "".join(f"{one}\n" for one in [*ids, identifier]).encode("ascii"))


def refuse_other(root: Path, identifier: str) -> None:
    """Raise ``conflict`` when the tree belongs to a later delegation of the chain."""
    ids = chain(root)
    if ids and ids[-1] != identifier:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The tree of {identifier} was handed on to its follow-up {ids[-1]}.",
            hint=f"Use {ids[-1]} instead.",
        )


def roots(state: Path) -> Iterator[Path]:
    """Give the place of every tree, removed ones included."""
    trees = state / "trees"
    for repository in sorted(trees.iterdir()) if trees.is_dir() else []:
        for root in sorted(repository.iterdir()) if repository.is_dir() else []:
            if root.is_dir() and root.name.isdigit():
                yield root


def root_of(state: Path, identifier: str) -> Path | None:
    """Return the place of the tree that ``identifier`` is or was part of."""
    return next((root for root in roots(state) if identifier in chain(root)), None)


def removed(root: Path) -> str | None:
    """Return the rescue reference of a tree that was taken away, None while it is there."""
    with contextlib.suppress(OSError):
        return disk.read_whole(root / "removed", _LIMIT).decode("utf-8", "replace").strip()
    return None


def mark_removed(root: Path, rescue_ref: str | None) -> None:
    """Say that the tree was taken away, or with None that it is back."""
    if rescue_ref is None:
        (root / "removed").unlink(missing_ok=True)
    else:
        disk.replace(root / "removed", rescue_ref.encode())


def folder_of(identifier: str) -> store.Folder | None:
    """Return a delegation's folder if there is one."""
    with contextlib.suppress(UnderstudyError):
        return store.open_folder(identifier)
    return None
