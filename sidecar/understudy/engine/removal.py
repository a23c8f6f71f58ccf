"""Taking a tree away for good or until it is restored: marked first, then moved to the trash; may be repeated.

From the mark on (``leases.removed``) nobody works on what is left at the place, so whoever finds a mark beside a tree
may carry on where a killed process stopped. What is taken away is in a rescue ref by then.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

from understudy.engine import ground, leases
from understudy.git import base as git_base
from understudy.git import repository
from understudy.git.faults import point
from understudy.git.store import Store
from understudy.journal import store, summary
from understudy.model.errors import UnderstudyError

RESERVED = frozenset({"lease", "removed"})
"""What stays of a place, so that nobody else gets its path."""


def take_away(root: Path, reference: str) -> None:
    """Move what lies at ``root`` to the trash; the place and the names of its chain stay."""
    leases.mark_removed(root, reference)
    point("marked")
    # What the base needs of the user's history is in the rescue ref.
    for identifier in leases.named(root):
        unpin(identifier, root)
        point("unpinned")
    trash = store.state_root() / "trash"
    trash.mkdir(mode=0o700, exist_ok=True)
    for entry in leftovers(root):
        entry.rename(trash / f"{root.parent.name}-{root.name}-{secrets.token_hex(6)}")
        point("trashed")


def unpin(identifier: str, root: Path) -> None:
    """Let go what a delegation keeps of the person's history; nothing happens when that cannot be reached."""
    folder = leases.folder_of(identifier)
    with contextlib.suppress(UnderstudyError, OSError):
        # Of a delegation whose folder is gone, the store at its place still knows the workspace.
        top = Path(summary.peek(folder).workspace) if folder is not None else Store.open(root / "store.git").top
        git_base.unpin(repository.locate(top), identifier)


def leftovers(root: Path) -> list[Path]:
    """Return what lies at a place beside its names: a tree and its store, or what is left of them."""
    with contextlib.suppress(FileNotFoundError):
        return [entry for entry in root.iterdir() if entry.name not in RESERVED]
    return []


def pin(root: Path) -> None:
    """Keep the person's commits that the tree stands on again: they were let go when the tree was taken away."""
    for identifier in leases.chain(root):
        folder = leases.folder_of(identifier)
        if folder is None:
            continue
        # A commit may be gone from the person's repository for good: the rescue ref has what the tree needs of it.
        with contextlib.suppress(UnderstudyError):
            record = ground.read_record(folder)
            if record.parent:
                git_base.pin(repository.locate(Path(summary.peek(folder).workspace)), identifier, record.parent)
