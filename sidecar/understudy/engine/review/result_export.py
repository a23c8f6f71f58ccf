"""Export a result as a commit, a branch or a patch, without rejected hunks; keep a verified one as a branch."""

from __future__ import annotations

from pathlib import Path

from understudy.engine.review import review_state
from understudy.engine.worktrees.worktree_record import WorktreeRecord, load_record
from understudy.files import durable
from understudy.git import changes, repository
from understudy.git.merge import export
from understudy.git.object_store import ObjectStore
from understudy.journal import delegation_folder
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries import summary
from understudy.model.config import result_branch
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import HunkState

PATCH_BYTES = 16 * 1024 * 1024
"""Largest patch that is returned; a patch is one response."""
SECONDS = 60.0
"""Time limit: the delegation's end waits for the branch. An export of 30,000 files takes 14 s."""


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


def name_for(spec: Spec, identifier: str, delegator: str) -> str | None:
    """Return the name of the branch for a result of ``delegator``; None if it is configured without one."""
    launch = next(
        (candidate.delegator.launch for candidate in spec.candidates if candidate.delegator.name == delegator), None
    )
    if launch is None or launch.branch is None or spec.recipe.returns == "text":
        return None
    return result_branch.filled(launch.branch, identifier, spec.recipe.name, delegator)


def keep(folder: Folder, name: str) -> str:
    """Commit the result on the new branch ``name`` and return a sentence for the user; raise as ``export`` does.

    Once a branch was made, none is made again: the user may have changed, renamed or deleted it.
    """
    made = _record_file(folder)
    if made.exists():
        return "A branch was made when this was verified before; it is not changed or made again."
    exported = commit(folder, None, name)
    durable.replace(made, f"{exported.commit} {name}\n".encode())
    return " ".join([f"The result is also on the branch {name}.", *exported.notes])


def failure_text(identifier: str, name: str, error: UnderstudyError) -> str:
    """Return why the branch was not made, and what the user can do."""
    if error.kind is ErrorKind.TIMED_OUT:
        return (
            f"The result is not on the branch {name}: git took longer than {SECONDS:g} s. "
            f"To make a branch later: understudy export {identifier} --to branch --branch NAME"
        )
    return " ".join([f"The result is not on the branch {name}: {error.message}", *([error.hint] if error.hint else [])])


def _record_file(folder: Folder) -> Path:
    return folder.path / "branch"
