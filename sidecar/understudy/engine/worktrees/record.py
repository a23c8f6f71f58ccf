"""Read the record of a delegation's worktree, from which a later process finds its base and its object store."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from understudy.engine.worktrees import ownership
from understudy.files import durable
from understudy.git.object_store import ObjectStore
from understudy.git.worktree import extra_files
from understudy.journal import delegation_folder as journal_store
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready


class WorktreeRecord(msgspec.Struct):
    """``worktree.json`` in the delegation's folder."""

    root: str
    tree: str
    base_commit: str
    items: extra_files.ExtraFiles | None = None
    start: str | None = None
    """The commit that is checked out first, if it is not the base (a follow-up)."""
    parent: str | None = None
    """The parent of an exported commit: HEAD when the base was written, or the requested revision."""


BASE_COPY, START_COPY, RESULT_COPY = "base.pack", "start.pack", "result.pack"
"""Files in a delegation's folder; the second only if its agent worked in the checkout."""

_RECORD_BYTES = 16 * 1024 * 1024


def read_record(folder: journal_store.Folder) -> WorktreeRecord:
    """Return a delegation's record; raise ``base_unavailable`` if there is none."""
    try:
        data = durable.read_whole(folder.path / "worktree.json", _RECORD_BYTES)
        return msgspec.json.decode(data, type=ready(WorktreeRecord), dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.DecodeError):
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{folder.id} has no worktree.",
            hint="Recipes that return text need none. For other recipes, `understudy show` shows what happened.",
        ) from None


def load_record(folder: journal_store.Folder) -> tuple[WorktreeRecord, ObjectStore]:
    """Return a delegation's record and object store; raise ``base_unavailable`` if the worktree was removed."""
    record = read_record(folder)
    root = Path(record.root) / "store.git"
    reference = ownership.removed(Path(record.root))
    if reference is not None or not root.is_dir():
        restore = f"Restore it with `understudy restore {reference}`. " if reference else ""
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The worktree of {folder.id} was removed.",
            hint=f"{restore}The changes are in {folder.review}.",
        )
    return record, dataclasses.replace(ObjectStore.open(root), copies=copies_in(folder))


def copies_in(folder: journal_store.Folder) -> tuple[Path, ...]:
    """Return the packs with a delegation's own base and result, outside the store that agents and checks can write."""
    return tuple(folder.path / name for name in (BASE_COPY, START_COPY, RESULT_COPY))
