"""Make accepted hunks pending whose text another result had brought, when that text goes.

Two results can contain the same change. The second accept finds it in the user's file and changes nothing, so it has
nothing to undo. When the first accept is undone, or reverted in an editor, the second hunk is in no file either.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from understudy.engine.review import decision_recovery, review_state
from understudy.engine.worktrees.worktree_record import load_record
from understudy.git.changes import Entry
from understudy.git.merge import hunk_merge
from understudy.journal import delegation_folder, reader
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.errors import UnderstudyError
from understudy.model.hunks import HunkState
from understudy.model.states import State
from understudy.model.text import path_quoting

Texts = Mapping[bytes, tuple[Entry | None, Entry | None]]
"""Path → its file with the text that goes, and without it."""


def reopen(identifier: str, workspace: Path, texts: Texts, *, by: str) -> None:
    """Make the accepted hunks of results other than ``identifier`` pending that are in the first texts only.

    A result that another process decides on at the same time is left as it is.
    """
    for folder in _others(identifier, workspace):
        with contextlib.suppress(UnderstudyError, OSError), decision_recovery.lock_finished(folder) as writer:
            _reopen(folder, writer, texts, by)


def _others(identifier: str, workspace: Path) -> Iterator[Folder]:
    """Yield the other results of the workspace with accepted hunks."""
    cursor = None
    while True:
        page, cursor = reader.page(
            states=[State.FINISHED], workspace=str(workspace), limit=reader.LARGEST_PAGE, cursor=cursor
        )
        for delegation in page:
            if delegation.review.accepted and delegation.id != identifier and delegation.rescue_ref is None:
                yield delegation_folder.open_folder(delegation.id)
        if cursor is None:
            return


def _reopen(folder: Folder, writer: Writer, texts: Texts, by: str) -> None:
    now = review_state.read(folder)
    marks = now.marks.values()
    if not any(mark.state is HunkState.ACCEPTED and path_quoting.unquote(mark.path) in texts for mark in marks):
        return  # without a diff
    record, objects = load_record(folder)
    head = writer.delegation.head or record.base_commit
    files = review_state.files_of(folder, objects, record.base_commit, head)
    accepted = [
        (path_quoting.unquote(file.path), file.path, hunk.id)
        for file in files
        if file.status in {"added", "deleted", "modified"}
        for hunk in file.hunks
        if hunk.state is HunkState.ACCEPTED
    ]
    gone: dict[str, list[review_state.HunkRef]] = {}
    for raw, path, hunk in accepted:
        if raw in texts and (token := now.marks[hunk].token) is not None:
            before, after = (
                hunk_merge.plan(objects, record.base_commit, head, {raw: {hunk}}, {raw: side}.get)
                for side in texts[raw]
            )
            if not (before.changes or before.conflicts) and (after.changes or after.conflicts):
                gone.setdefault(token, []).append(review_state.HunkRef(path, hunk))
    for token, refs in gone.items():
        intent = review_state.DecisionIntent("undo", token, by, refs)
        decision_recovery.append_events(folder, writer, intent)
    if gone:
        review_state.update(writer, review_state.files_of(folder, objects, record.base_commit, head))
        writer.sync()
