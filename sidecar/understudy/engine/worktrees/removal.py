"""Remove a worktree: mark it as removed, then move it to the trash.

No process uses a worktree after it is marked (``ownership.removed``). So after a crash, any process that finds the
mark next to a worktree can complete the removal. A rescue ref has the contents before the mark is written.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

from understudy.engine.worktrees import ownership
from understudy.engine.worktrees.record import read_record
from understudy.git import repository
from understudy.git.base import pins
from understudy.git.object_store import ObjectStore
from understudy.journal import state_folder
from understudy.journal.summaries import summary
from understudy.model.errors import UnderstudyError
from understudy.process.failpoints import failpoint

RESERVED = frozenset({"owners", "removed"})
"""Files that stay in the folder of a removed worktree, so that no other worktree gets its path."""


def move_to_trash(root: Path, reference: str) -> None:
    """Mark the worktree at ``root`` as removed and move it to the trash; the ``RESERVED`` files stay."""
    ownership.mark_removed(root, reference)
    failpoint("marked")
    # The rescue ref contains the commits of the user's history that the base needs.
    for identifier in ownership.listed_owners(root):
        unpin(identifier, root)
        failpoint("unpinned")
    trash = state_folder.state_root() / "trash"
    trash.mkdir(mode=0o700, exist_ok=True)
    for entry in leftovers(root):
        entry.rename(trash / f"{root.parent.name}-{root.name}-{secrets.token_hex(6)}")
        failpoint("trashed")


def has_tree(tree: Path) -> bool:
    """Return whether a worktree's folder exists.

    Anything else with its name, such as a link that an agent made instead, is renamed, never followed: like the other
    entries beside it, it is removed with the worktree.
    """
    if not tree.is_symlink() and (tree.is_dir() or not tree.exists()):
        return tree.is_dir()
    tree.rename(tree.with_name(f".replaced-{secrets.token_hex(6)}"))
    return False


def unpin(identifier: str, root: Path) -> None:
    """Remove a delegation's pin from the user's repository; do nothing if the repository cannot be opened."""
    folder = ownership.folder_of(identifier)
    with contextlib.suppress(UnderstudyError, OSError):
        # If the delegation's folder is gone, its object store still knows the workspace.
        top = Path(summary.peek(folder).workspace) if folder is not None else ObjectStore.open(root / "store.git").top
        pins.unpin(repository.locate(top), identifier)


def leftovers(root: Path) -> list[Path]:
    """Return the existing entries at ``root`` that removal moves: the worktree and its store."""
    with contextlib.suppress(FileNotFoundError):
        return [entry for entry in root.iterdir() if entry.name not in RESERVED]
    return []


def pin(root: Path) -> None:
    """Pin the user's commits again that a restored worktree is based on."""
    for identifier in ownership.chain(root):
        folder = ownership.folder_of(identifier)
        if folder is None:
            continue
        # The user's repository may have lost the commit; the rescue ref contains what the worktree needs of it.
        with contextlib.suppress(UnderstudyError):
            record = read_record(folder)
            if record.parent:
                pins.pin(repository.locate(Path(summary.peek(folder).workspace)), identifier, record.parent)
