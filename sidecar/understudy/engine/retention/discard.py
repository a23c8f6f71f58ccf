"""Discard, remove or restore one worktree on request.

A worktree is moved to ``<state>/trash`` and deleted from there in the background; its path stays reserved (see
``worktree_record``). A rescue ref is written first, always.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.engine.retention.inventory import WorktreeInfo, _place, _record, expiry_lock
from understudy.engine.review import decision_log, decision_recovery, decisions
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import WorktreeRecord, read_record
from understudy.git import repository
from understudy.git.object_store import ObjectStore
from understudy.git.worktree import rescue, worktree
from understudy.journal import delegation_folder, state_folder, worker_lock
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.process.failpoints import failpoint

RESTORE_SECONDS = 10.0
"""How long to wait for another process that is removing expired files."""


def discard(folder: delegation_folder.Folder, *, undecided: bool = True) -> str:
    """Remove the worktree of a finished delegation; return the rescue ref that can restore it.

    With ``undecided=False``, a worktree that has hunks to decide on is kept.

    Errors: ``conflict`` (it runs, a follow-up has the worktree, or ``undecided=False`` keeps it),
    ``base_unavailable`` (it has none, or it could not be restored).
    """
    state = state_folder.state_root()
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
        intent = decision_log.DecisionIntent("discard", reference, paths=[at.record.tree], final=True)
        decision_log.record_intent(folder, intent)
        decision_recovery.complete(folder, at.writer, intent)
    return reference


def remove(identifier: str, *, undecided: bool = True) -> str:
    """Remove a worktree by the id that ``places`` gives it; return the rescue ref.

    With ``undecided=False``, a worktree is kept if it has hunks to decide on or its delegation cannot be read.

    Errors: ``unknown_delegation`` (no such worktree), ``conflict``, ``base_unavailable`` (it cannot be rescued).
    """
    state = state_folder.state_root()
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
    lock = worker_lock.try_lock(folder) if folder is not None else None
    if folder is not None and lock is None:
        raise UnderstudyError(
            ErrorKind.CONFLICT, f"Another process is using {place.id}.", hint="Try again in a moment."
        )
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
    state = state_folder.state_root()
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
    with decision_recovery.lock_delegation(folder) as writer:
        if writer.delegation.state is not State.FINISHED:
            raise decision_recovery.unfinished(folder.id, writer.delegation.state)
        path = _bring_back(state, saved, root, owner)
        seconds = round(time.monotonic() - began, 3)
        intent = decision_log.DecisionIntent("restore", rescue_ref, paths=[str(path)], seconds=seconds, final=True)
        decision_log.record_intent(folder, intent)
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
