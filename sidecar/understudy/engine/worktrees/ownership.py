"""Track which delegation owns a worktree.

``<root>/owners`` lists a delegation and its follow-ups (the *chain*), oldest first; the last one owns the worktree.
When the worktree was removed, ``<root>/removed`` contains its rescue ref. The path stays reserved, because a worktree
is always restored to the same path: tools remember it, and so does the record of every delegation in the chain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.journal.summaries import summary
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_LIMIT = 1024 * 1024


def listed_owners(root: Path) -> list[str]:
    """Return the ids in ``owners``, oldest first; empty if the file is missing."""
    with contextlib.suppress(OSError):
        return [line for line in durable.read_whole(root / "owners", _LIMIT).decode("ascii", "replace").split() if line]
    return []


def chain(root: Path) -> list[str]:
    """Return the ids in ``owners``, oldest first, without the last follow-ups if they never took the worktree over."""
    ids = listed_owners(root)
    while len(ids) > 1 and never_took_over(ids[-1]):
        del ids[-1]
    return ids


def never_took_over(identifier: str) -> bool:
    """Return whether a follow-up finished before it got the worktree; then its parent still owns it."""
    folder = folder_of(identifier)
    if folder is None:
        return False
    with contextlib.suppress(UnderstudyError):
        follow_up = summary.load(folder)
        return follow_up.state is State.FINISHED and follow_up.worktree is None and follow_up.head is None
    return False


def follow_up_failed(root: Path, identifier: str) -> bool:
    """Return whether ``identifier`` owns the worktree again because its follow-up failed to take it over."""
    ids = listed_owners(root)
    return identifier in ids[:-1] and chain(root)[-1] == identifier


def forget_failed_follow_ups(root: Path) -> None:
    """Remove follow-ups from ``owners`` that never took the worktree over."""
    durable.replace(root / "owners", "".join(f"{owner}\n" for owner in chain(root)).encode("ascii"))


def assign(root: Path, identifier: str) -> None:
    """Make ``identifier`` the owner of the worktree."""
    ids = [owner for owner in chain(root) if owner != identifier]
    durable.replace(root / "owners", "".join(f"{owner}\n" for owner in [*ids, identifier]).encode("ascii"))


def require_owner(root: Path, identifier: str) -> None:
    """Raise ``conflict`` if a later delegation of the chain owns the worktree."""
    ids = chain(root)
    if ids and ids[-1] != identifier:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The worktree of {identifier} now belongs to its follow-up {ids[-1]}.",
            hint=f"Use {ids[-1]} instead.",
        )


def roots(state: Path) -> Iterator[Path]:
    """Yield the folder of every worktree, including removed ones."""
    trees = state / "worktrees"
    for repository in sorted(trees.iterdir()) if trees.is_dir() else []:
        for root in sorted(repository.iterdir()) if repository.is_dir() else []:
            if root.is_dir() and root.name.isdigit():
                yield root


def root_of(state: Path, identifier: str) -> Path | None:
    """Return the folder of the worktree whose chain contains ``identifier``."""
    return next((root for root in roots(state) if identifier in chain(root)), None)


def removed(root: Path) -> str | None:
    """Return the rescue ref of a removed worktree, None if the worktree exists."""
    with contextlib.suppress(OSError):
        return durable.read_whole(root / "removed", _LIMIT).decode("utf-8", "replace").strip()
    return None


def mark_removed(root: Path, rescue_ref: str | None) -> None:
    """Mark the worktree as removed, or with None as restored."""
    if rescue_ref is None:
        (root / "removed").unlink(missing_ok=True)
    else:
        durable.replace(root / "removed", rescue_ref.encode())


def folder_of(identifier: str) -> delegation_folder.Folder | None:
    """Return a delegation's folder, None if it does not exist."""
    with contextlib.suppress(UnderstudyError):
        return delegation_folder.open_folder(identifier)
    return None


def has_failed_follow_up(delegation: Delegation) -> bool:
    """Return whether a follow-up of this delegation finished before it took over the worktree."""
    if delegation.state is not State.FINISHED or delegation.worktree is None or delegation.review.pending:
        return False
    return follow_up_failed(Path(delegation.worktree).parent, delegation.id)
