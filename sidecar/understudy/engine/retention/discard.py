"""Discard, remove or restore a worktree on request; remove expired ones.

A worktree is moved to ``<state>/trash`` and deleted from there in the background; its path stays reserved (see
``worktree_record``). A rescue ref is written first, always.

Each worker does this at its end, after its delegation has finished. A worktree is moved to ``<state>/trash`` after its
rescue ref is written; one with pending hunks never expires.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.config.configuration import Retention
from understudy.engine.check_setup import check_trial
from understudy.engine.retention.retained_files import (
    WorktreeInfo,
    _place,
    _record,
    expire_files,
    expiry_lock,
    list_worktrees,
    size_of,
    trash,
)
from understudy.engine.review import decision_recovery, decisions, review_state
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import WorktreeRecord, read_record
from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git import repository
from understudy.git.object_store import ObjectStore
from understudy.git.worktree import cleanup, rescue, worktree
from understudy.journal import delegation_folder, reader, worker_files
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

RESTORE_SECONDS = 10.0
"""How long to wait for another process that is removing expired files."""
TIDY_SECONDS = 60.0
"""About how long one worker cleans up; the next one continues."""


def discard(folder: delegation_folder.Folder, *, undecided: bool = True) -> str:
    """Remove the worktree of a finished delegation; return the rescue ref that can restore it.

    With ``undecided=False``, a worktree that has hunks to decide on is kept.

    Errors: ``conflict`` (it runs, a follow-up has the worktree, or ``undecided=False`` keeps it),
    ``base_unavailable`` (it has none, or it could not be restored).
    """
    state = delegation_folder.state_root()
    with decisions.lock_result(folder) as at:
        root = Path(at.record.root)
        worktree_record.require_owner(root, folder.id)
        if not undecided:
            _require_decided(root)
        if not worktree_record.has_tree(Path(at.record.tree)):
            # The agent, the user, or a follow-up that died early, removed it: the result is in the store.
            worktree.create_worktree(at.store, at.head, Path(at.record.tree))
        reference = _keep(state, at.record, at.store, folder.id)
        failpoint("rescued")
        # Mark the path after this, so that no process uses a worktree that is being removed.
        intent = review_state.DecisionIntent("discard", reference, paths=[at.record.tree], final=True)
        review_state.record_intent(folder, intent)
        decision_recovery.complete(folder, at.writer, intent)
    return reference


def remove(identifier: str, *, undecided: bool = True) -> str:
    """Remove a worktree by the id that ``places`` gives it; return the rescue ref.

    With ``undecided=False``, a worktree is kept if it has hunks to decide on or its delegation cannot be read.

    Errors: ``unknown_delegation`` (no such worktree), ``conflict``, ``base_unavailable`` (it cannot be rescued).
    """
    state = delegation_folder.state_root()
    if "/" in identifier:
        root = next(
            (root for root in worktree_record.roots(state) if f"{root.parent.name}/{root.name}" == identifier), None
        )
    else:
        identifier = (
            delegation_folder.resolve_id(identifier)
            if worktree_record.root_of(state, identifier) is None
            else identifier
        )
        root = worktree_record.root_of(state, identifier)
    if root is None or worktree_record.removed(root) is not None:
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"There is no worktree {identifier!r}.",
            hint="See `understudy worktrees list`.",
        )
    place = _place(root, keep_days=0)
    if place.state == "working":
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{place.id} works in that worktree.",
            hint=f"Cancel it first: understudy cancel {place.id}",
        )
    folder = worktree_record.folder_of(place.id)
    if folder is not None and (folder.path / "worktree.json").exists():
        return discard(folder, undecided=undecided)
    lock = worker_files.try_lock(folder) if folder is not None else None
    if folder is not None and lock is None:
        raise worker_files.in_use(place.id)
    try:
        if not undecided:
            _require_decided(root)
        return _remove_orphan(state, place)
    finally:
        if lock is not None:
            os.close(lock)


def restore(rescue_ref: str) -> Path:
    """Restore a worktree at its path; return the path. ``rescue_ref`` may also be the id of its delegation.

    Errors: ``unknown_delegation`` (no such ref), ``target_exists`` (the path exists).
    """
    state = delegation_folder.state_root()
    rescues = rescue.list_rescues(state)
    of_delegation = [entry for entry in rescues if f"{entry.ref.rpartition('/')[2]}-".startswith(f"{rescue_ref}-")]
    newest = max(of_delegation, key=lambda entry: entry.time, default=None)
    saved = next((entry for entry in rescues if entry.ref == rescue_ref), newest)
    if saved is None:
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"No removed worktree is named {rescue_ref!r}.",
            hint="`understudy worktrees list` lists them.",
            names=[entry.ref for entry in of_delegation or rescues][:10] or None,
        )
    began = time.monotonic()
    root = saved.path.parent
    owner = next(
        (identifier for identifier in reversed(worktree_record.chain(root)) if worktree_record.folder_of(identifier)),
        None,
    )
    folder = worktree_record.folder_of(owner) if owner is not None else None
    if folder is None:
        with expiry_lock(state, RESTORE_SECONDS) as mine:
            if not mine:
                raise UnderstudyError(
                    ErrorKind.CONFLICT, "Another process is removing worktrees.", hint="Try again in a moment."
                )
            path = _bring_back(state, saved, root)
            worktree_record.mark_removed(root, None)
        return path
    with decision_recovery.lock_finished(folder) as writer:
        path = _bring_back(state, saved, root, owner)
        seconds = round(time.monotonic() - began, 3)
        intent = review_state.DecisionIntent("restore", rescue_ref, paths=[str(path)], seconds=seconds, final=True)
        review_state.record_intent(folder, intent)
        decision_recovery.complete(folder, writer, intent)
    return path


def _require_decided(root: Path) -> None:
    place = _place(root, keep_days=0)
    if place.state == "orphaned":
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The delegation of {place.id} cannot be read, so its changes may not be decided on.",
            hint="See `understudy worktrees list`.",
        )
    if place.state != "decided":
        raise UnderstudyError(
            ErrorKind.CONFLICT, f"{place.id} has changes to decide on.", hint=f"understudy review {place.id}"
        )


def _keep(state: Path, record: WorktreeRecord, objects: ObjectStore, name: str) -> str:
    opened = worktree.Worktree.open(objects, Path(record.tree))
    repo = repository.locate(objects.top)
    also = set(_earlier_bases(Path(record.root)))
    return rescue.save(state, repo, opened, objects, name, also=also)


def _earlier_bases(root: Path) -> Iterator[str]:
    """Return the bases of a worktree's chain, so that results can be shown and accepts undone after a restore."""
    for identifier in worktree_record.chain(root):
        folder = worktree_record.folder_of(identifier)
        if folder is not None:
            with contextlib.suppress(UnderstudyError):
                record = read_record(folder)
                yield record.base_commit
                if record.parent:
                    yield record.parent


def _bring_back(state: Path, saved: rescue.Rescue, root: Path, owner: str | None = None) -> Path:
    """Write the worktree to its path, which stays marked as removed, so that an interrupted restore is cleaned up."""
    reference = worktree_record.removed(root)
    if reference is not None:
        worktree_record.move_to_trash(root, reference)
    elif saved.path.is_dir() and any(saved.path.iterdir()):
        if owner is None:
            raise UnderstudyError(ErrorKind.TARGET_EXISTS, f"{saved.path} exists.", hint="Move that folder away first.")
        if f"{saved.ref.rpartition('/')[2]}-".startswith(f"{owner}-"):
            raise UnderstudyError(
                ErrorKind.TARGET_EXISTS,
                f"The worktree of {owner} is not removed: it is at {saved.path}.",
                hint=f"To restore the earlier copy, discard this one first: understudy discard {owner}",
            )
        # Removed by hand, the result of the owner would be lost; discarded, it can be restored in its turn.
        raise UnderstudyError(
            ErrorKind.TARGET_EXISTS,
            f"{saved.path} holds the result of {owner}.",
            hint=f"Discard that result first, which can be undone: understudy discard {owner}",
        )
    # Pin first, so that no `git gc` removes objects that the worktree will borrow.
    worktree_record.pin(root)
    failpoint("pinned")
    path = rescue.restore(state, saved.ref, saved.path).path
    failpoint("written back")
    return path


def _remove_orphan(state: Path, place: WorktreeInfo) -> str:
    record = _record(place.chain)
    objects = ObjectStore.open(place.root / "store.git")
    folder = Path(record.tree) if record is not None else _only_tree(place.root)
    opened = worktree.Worktree.open(objects, folder)
    reference = rescue.save(state, repository.locate(objects.top), opened, objects, place.id.replace("/", "-"))
    worktree_record.move_to_trash(place.root, reference)
    return reference


def _only_tree(root: Path) -> Path:
    # A name that begins with a dot is the partial work of a restoration that was killed.
    trees = [entry for entry in worktree_record.leftovers(root) if entry.is_dir() and entry.name[:1] != "."]
    trees = [entry for entry in trees if entry.name != "store.git"]
    if len(trees) != 1:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{root} does not contain a worktree that can be rescued.",
            hint="Check the folder, and move it away if you do not need it.",
        )
    return trees[0]


def expire(state: Path, *, keep_days: float, keep_bytes: int, files: Retention | None = None) -> list[str]:
    """Remove expired files; return the rescue refs that were written.

    One process does this at a time; the others return at once.
    """
    with expiry_lock(state) as mine:
        if not mine:
            return []
        deadline = time.monotonic() + TIDY_SECONDS
        _complete_removals(state)
        _clear_unused(state)
        check_trial.remove_abandoned(state)
        empty_trash(state)
        refs = []
        for place in _due(state, keep_days, keep_bytes):
            if time.monotonic() > deadline:
                break
            if not _is_in_use(place):
                with contextlib.suppress(UnderstudyError, OSError):
                    # Measuring all worktrees takes time, and an undo meanwhile can make hunks pending.
                    refs.append(remove(place.id, undecided=False))
        expire_files(state, files or Retention(), deadline)
        empty_trash(state)
        return refs


def _is_in_use(place: WorktreeInfo) -> bool:
    """Return whether a process has the delegation now: its worker, which is about to exit, or a decision or check."""
    folder = worktree_record.folder_of(place.id)
    return folder is not None and worker_files.is_held(folder)


def empty_trash(state: Path) -> None:
    """Delete what is in the trash."""
    for entry in trash(state):
        with contextlib.suppress(OSError):
            cleanup.delete_folder(entry)


def _due(state: Path, keep_days: float, keep_bytes: int) -> list[WorktreeInfo]:
    """Return the expired worktrees and, while all together are too large, the oldest ones without pending hunks."""
    every = list_worktrees(state, keep_days)
    due = [place for place in every if place.state == "expired"]
    rest = sorted((place for place in every if place.state == "decided"), key=lambda place: place.last)
    if rest:
        sizes = {place.root: size_of(place.root) for place in every}
        total = sum(sizes.values()) - sum(sizes[place.root] for place in due)
        for place in rest:
            if total <= keep_bytes:
                break
            due.append(place)
            total -= sizes[place.root]
    return due


def _complete_removals(state: Path) -> None:
    """Finish the removals and restorations whose process died."""
    for root in worktree_record.roots(state):
        with contextlib.suppress(UnderstudyError, OSError):
            folder = worktree_record.folder_of(next(reversed(worktree_record.chain(root)), ""))
            if folder is None:
                _complete_removal(root)
            elif (
                not decision_recovery.recover_delegation(folder) and (lock := worker_files.try_lock(folder)) is not None
            ):
                try:
                    _complete_removal(root)
                finally:
                    os.close(lock)


def _complete_removal(root: Path) -> None:
    reference = worktree_record.removed(root)
    if reference is not None and worktree_record.leftovers(root):
        worktree_record.move_to_trash(root, reference)


def _clear_unused(state: Path) -> None:
    """Free paths that were claimed by processes that died before they wrote a base."""
    for root in worktree_record.roots(state):
        names = worktree_record.listed_owners(root)
        with contextlib.suppress(UnderstudyError, OSError):
            if worktree_record.removed(root) is not None or len(names) > 1:
                continue
            if not names:
                with durable.try_file_lock(root.with_name(f"{root.name}.lock")) as mine:  # paths are claimed under it
                    if mine and not worktree_record.listed_owners(root) and not worktree_record.leftovers(root):
                        _free(state, root)
                continue
            folder = worktree_record.folder_of(names[0])
            if folder is None or (lock := worker_files.try_lock(folder)) is None:
                continue
            try:
                if not (folder.path / "worktree.json").exists():
                    if reader.load(folder).state is State.FINISHED:
                        _free(state, root, folder)
                elif Path(read_record(folder).root) != root:
                    _free(state, root)  # the next process that prepared the delegation claimed another path
            finally:
                os.close(lock)


def _free(state: Path, root: Path, folder: delegation_folder.Folder | None = None) -> None:
    if folder is not None:
        worktree_record.unpin(folder.id, root)
    aside = state / "trash"
    aside.mkdir(mode=0o700, exist_ok=True)
    root.rename(aside / f"{root.parent.name}-{root.name}-{secrets.token_hex(6)}")
