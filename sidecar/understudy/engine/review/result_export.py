"""Export a result as a commit, a branch or a patch, without rejected hunks."""

from __future__ import annotations

from pathlib import Path

from understudy.engine.review import review_state
from understudy.engine.worktrees.worktree_record import WorktreeRecord, load_record
from understudy.git import changes, repository
from understudy.git.merge import export
from understudy.git.object_store import ObjectStore
from understudy.journal import delegation_folder
from understudy.journal.summaries import summary
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import HunkState

PATCH_BYTES = 16 * 1024 * 1024
"""Largest patch that is returned; a patch is one response."""


def commit(folder: delegation_folder.Folder, message: str | None, branch: str | None) -> export.Exported:
    """Commit the result on top of the commit that was the user's HEAD when the base was written."""
    record, objects, head, chosen = _chosen(folder)
    delegation = summary.load(folder)
    return export.export(
        objects,
        repository.locate(Path(delegation.workspace)),
        record.base_commit,
        head,
        parent=record.parent,
        message=message or f"{delegation.title}\n\nDelegation: {delegation.id}\n",
        branch=branch,
        selection=chosen,
    )


def patch(folder: delegation_folder.Folder) -> str:
    """Return the result as a patch for ``git apply``; raise ``invalid_params`` if it is not UTF-8."""
    record, objects, head, chosen = _chosen(folder)
    content = export.patch(objects, record.base_commit, head, chosen)
    if len(content) > PATCH_BYTES:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE,
            f"The patch is too large: {len(content)} bytes (limit {PATCH_BYTES}).",
            hint="Export a branch instead.",
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "The patch contains text that is not UTF-8, which a JSON response cannot contain.",
            hint="Export a branch or a commit instead.",
        ) from None


def _chosen(
    folder: delegation_folder.Folder,
) -> tuple[WorktreeRecord, ObjectStore, str, changes.Selection | None]:
    record, objects = load_record(folder)
    head = summary.load(folder).head
    if head is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{folder.id} has no result to export.",
            hint=f"See what happened: understudy show {folder.id}",
        )
    files = review_state.files_of(folder, objects, record.base_commit, head)
    if not review_state.in_state(files, HunkState.REJECTED):
        return record, objects, head, None
    kept = review_state.in_state(files, HunkState.PENDING, HunkState.ACCEPTED, HunkState.SUPERSEDED)
    return record, objects, head, review_state.selection(kept)
