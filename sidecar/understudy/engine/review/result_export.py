"""A result taken out, without what was rejected: as a commit, a branch, or a patch."""

from __future__ import annotations

from pathlib import Path

from understudy.engine import ground, standing
from understudy.git import export, merge, repository
from understudy.git.store import Store
from understudy.journal import store, summary
from understudy.model.delegations import HunkState
from understudy.model.errors import ErrorKind, UnderstudyError

PATCH_BYTES = 16 * 1024 * 1024
"""A patch travels in one answer."""


def commit(folder: store.Folder, message: str | None, branch: str | None) -> export.Exported:
    """Commit the result on what the person's HEAD was when its base was written."""
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


def patch(folder: store.Folder) -> str:
    """Return the result as a patch for `git apply`; bytes that are not UTF-8 are refused, they would not survive."""
    record, objects, head, chosen = _chosen(folder)
    content = export.patch(objects, record.base_commit, head, chosen)
    if len(content) > PATCH_BYTES:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE,
            f"The patch has {len(content)} bytes; at most {PATCH_BYTES} travel in one answer.",
            hint="Export a branch instead.",
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "The patch holds lines that are not UTF-8, which an answer cannot carry.",
            hint="Export a branch or a commit instead.",
        ) from None


def _chosen(folder: store.Folder) -> tuple[ground.Record, Store, str, merge.Selection | None]:
    record, objects = ground.load(folder)
    head = summary.load(folder).head
    if head is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE, f"{folder.id} has no result to export.", hint="See `understudy show`."
        )
    files = standing.files_of(folder, objects, record.base_commit, head)
    if not standing.in_state(files, HunkState.REJECTED):
        return record, objects, head, None
    wanted = standing.in_state(files, HunkState.PENDING, HunkState.ACCEPTED, HunkState.SUPERSEDED)
    return record, objects, head, standing.selection(wanted)
