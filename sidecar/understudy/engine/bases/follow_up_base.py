"""Create the base of a reply or a retry from its parent's worktree."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from understudy.engine.review import review_state
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.delegation_worktree import FollowUpBase
from understudy.engine.worktrees.worktree_record import WorktreeRecord, load_record
from understudy.git import diff as git_diff
from understudy.git import repository
from understudy.git.merge import carry_over
from understudy.git.worktree import rescue, worktree
from understudy.journal import delegation_folder, reader, worker_lock
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.spec import Origin
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff
from understudy.model.text import path_quoting
from understudy.process.failpoints import failpoint

SUPERSEDE_TRIES = 50


def next_base(
    origin: Origin,
    identifier: str,
    repo: repository.Repository,
    buffers: Mapping[str | bytes, bytes],
    state: Path,
) -> FollowUpBase:
    """Write the base of a reply into the parent's object store; rescue the parent's worktree, then remove it."""
    parent = delegation_folder.open_folder(origin.parent)
    record, objects = load_record(parent)
    _supersede(parent, origin, identifier)
    worktree_record.assign(Path(record.root), identifier)
    head = origin.head or origin.base
    files = git_diff.file_diffs(objects, origin.base, head)
    undecided_hunks = set(origin.undecided)
    undecided = review_state.selection(
        [(f.path, hunk.id) for f in files for hunk in f.hunks if hunk.id in undecided_hunks]
    )
    made = carry_over.follow_up(objects, repo, origin.base, head, undecided, buffers=buffers)
    notes = [events.Note(level="warning", text=text) for text in made.base.notes]
    place = Path(record.tree)
    if worktree_record.has_tree(place):
        opened = worktree.Worktree.open(objects, place)
        reference = rescue.save(state, repo, opened, objects, origin.parent)
        opened.remove(state / "trash")
        failpoint("worktree removed")
        text = "The previous contents of the worktree can be restored, once the new result is discarded: "
        notes.append(events.Note(level="info", text=f"{text}understudy restore {reference}"))
    for conflict in made.conflicts:
        where = f"line {_line(files, conflict.hunk)} of {path_quoting.readable(path_quoting.quote(conflict.path))}"
        text = f"A pending change at {where} conflicts with your current file; "
        notes.append(events.Note(level="warning", text=f"{text}it is still in the result of {origin.parent}."))
    return FollowUpBase(
        record=WorktreeRecord(
            root=record.root,
            tree=record.tree,
            base_commit=made.base.commit,
            start=made.start,
            parent=repo.head_commit,
        ),
        store=objects,
        base=events.Base(commit=made.base.commit, files=made.base.files, left_out=made.base.left_out),
        notes=notes,
    )


def same_base(origin: Origin, claim: Callable[[], Path], tree_name: str) -> FollowUpBase:
    """Copy the parent's object store, which contains its base, into a new worktree folder."""
    parent = delegation_folder.open_folder(origin.parent)
    if not origin.base:
        raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, f"{origin.parent} has no base.", hint="Start it again.")
    record, objects = load_record(parent)
    root = claim()
    base = next((event for event in _events(parent) if isinstance(event, events.Base)), None)
    return FollowUpBase(
        record=WorktreeRecord(
            root=str(root),
            tree=str(root / tree_name),
            base_commit=record.base_commit,
            start=record.start,
            parent=record.parent,
        ),
        store=objects.copy_to(root / "store.git"),
        base=events.Base(
            commit=record.base_commit,
            files=base.files if base is not None else 0,
            left_out=base.left_out if base is not None else [],
        ),
    )


def _supersede(parent: delegation_folder.Folder, origin: Origin, identifier: str) -> None:
    """Record in the parent's journal that the reply took over its pending hunks, unless the caller has done so."""
    if not origin.undecided or review_state.read(parent).superseded_by is not None:
        return
    for _ in range(SUPERSEDE_TRIES):
        if review_state.read(parent).superseded_by is not None:
            return
        lock = worker_lock.try_lock(parent)
        if lock is None:
            time.sleep(0.05)
            continue
        try:
            with Writer(parent, lock) as writer:
                if review_state.read(parent).superseded_by is None:
                    writer.append(events.Superseded(by=identifier), attempt=0)
            return
        finally:
            os.close(lock)


def _events(folder: delegation_folder.Folder):  # type: ignore[no-untyped-def]  # noqa: ANN202 - events in order
    tail = reader.Tail(folder)
    while entries := tail.read():
        yield from entries


def _line(files: list[FileDiff], hunk: str) -> int:
    return next((candidate.old_start for file in files for candidate in file.hunks if candidate.id == hunk), 0)
