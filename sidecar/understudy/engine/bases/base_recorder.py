"""Record the bases of delegations: what the user saw when they asked, or what a reply or a retry starts from.

One process at a time does this, for all that wait: ``understudy worker --record-bases``. Otherwise a thousand starts at
once would be a thousand processes that read the repository. If it dies, the next ``launcher.start_waiting`` starts
another one. The worker of a delegation that gets a slot first records the base itself.

Making the object store of a delegation takes longer than reading the checkout: the last of 200 that were started at
once would get what the user sees 20 seconds later. So the checkout is first captured for all that were started until
then (a *snapshot*), then their stores are made, oldest first, and it is captured again if others were started
meanwhile::

    <state>/queue/snapshots/<n>/store.git, base.pack    what was captured
    <state>/queue/snapshots/<n>/snapshot.json           its commit

The ``store`` has who needs which. Delegations share a snapshot if they have the same workspace, kind of base and
unsaved text. Only the process that holds the recorder's lock creates and removes snapshots, except that a process that
starts many delegations at once captures theirs before it starts the first (``captured``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from understudy.engine.queueing import launcher
from understudy.engine.review import decision_recovery, review_state
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree, FollowUpBase, unsaved_text
from understudy.engine.worktrees.worktree_record import SharedBase, WorktreeRecord, load_record
from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git import command, repository
from understudy.git import diff as git_diff
from understudy.git.base import capture as git_base
from understudy.git.merge import hunk_merge
from understudy.git.object_store import ObjectStore
from understudy.git.worktree import rescue, worktree
from understudy.journal import delegation_folder, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.events import Event
from understudy.model.delegation.spec import Origin, Spec
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff
from understudy.model.text import path_quoting
from understudy.model.wire import ready
from understudy.process import identity
from understudy.process.guardian import marked_processes
from understudy.store import store

MOST_TRIES = 4
"""After this many tries at the same base killed their process, it is left to the delegation's worker. A capture and
making the store are two tries."""
START_SECONDS = 0.5
"""A start holds its delegation for milliseconds after it added the entry."""
SUPERSEDE_SECONDS = 2.5
_LIMIT = 64 * 1024 * 1024
_LOCK = "lock"
"""Held by the process that made a snapshot for delegations that have no entry in the queue yet."""


def is_recorded(delegation: Delegation, worktree: DelegationWorktree) -> bool:
    """Return whether an earlier process recorded the base completely; ``worktree`` then has its record."""
    return delegation.base is not None and worktree.load()


def record_base(
    folder: Folder, spec: Spec, worktree: DelegationWorktree, root: Path, emit: Callable[[Event], None]
) -> None:
    """Record the base of a delegation. Raises the errors of ``git`` and of follow-ups."""
    workspace, origin = Path(spec.workspace), spec.origin
    # An interrupted decision may have left the user's files partly changed.
    decision_recovery.recover_workspace(workspace)
    if origin is None or (origin.kind == "retry" and not origin.base):
        # A retry of what ended before it had a base starts from the files as they are now.
        worktree.make_base(emit, find_snapshot(root, folder.id))
        return
    repo = repository.locate(workspace)
    if origin.kind == "retry":
        base = same_base(origin, lambda: worktree.claim(repo), worktree.name)
    else:
        base = next_base(origin, folder.id, repo, worktree.buffers(), root)
    worktree.adopt(base, emit)


def record_all(root: Path, lock: int) -> None:
    """Record the bases of all that wait, and of those that are added meanwhile; ``lock`` is the recorder's."""
    held: int | None = lock
    looked: set[str] = set()
    left: set[str] = set()
    while held is not None:
        remove_unused_snapshots(root)
        while todo := {one: snapshot for one, snapshot in store.unrecorded(root).items() if one not in left}:
            if new := [one for one, snapshot in todo.items() if snapshot is None and one not in looked]:
                looked.update(new)
                capture(root, new, MOST_TRIES)
                continue
            # Those without a snapshot, such as follow-ups, are first: they may become late.
            identifier = next(iter(todo))
            if not _record(root, identifier):
                left.add(identifier)
            launcher.start_waiting(root)
        remove_unused_snapshots(root)
        os.close(held)
        # An entry that was added just now found this recorder.
        held = launcher.lock_recorder(root) if set(store.unrecorded(root)) - left else None


def tidy(root: Path) -> None:
    """Remove snapshots that workers used after the process that captured them had ended."""
    if has_snapshots(root) and (held := launcher.lock_recorder(root)) is not None:
        try:
            remove_unused_snapshots(root)
        finally:
            os.close(held)
        # An entry that was added just now took this process for a recorder.
        launcher.ensure_recorder(root)


def _record(root: Path, identifier: str) -> bool:
    """Record one base; return False if another process has the delegation: its worker records the base itself."""
    try:
        folder = delegation_folder.open_folder(identifier)
        lock = worker_files.lock_within(
            folder, START_SECONDS, give_up=lambda: identifier in store.launched(delegation_folder.state_root())
        )
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNKNOWN_DELEGATION:
            return False
        store.leave(root, identifier)
        return True
    if lock is None:
        return False
    try:
        if reader.load(folder).state in launcher.NOT_STARTED and store.count_try(root, identifier) < MOST_TRIES:
            worker_files.write_holder(lock, identity.current(), [])
            command.mark_calls(marked_processes.MARK, identifier)
            spec = delegation_folder.read_spec(folder)
            with Writer(folder, lock) as writer:
                worktree = DelegationWorktree(folder, spec, root)
                if not is_recorded(writer.delegation, worktree):
                    record_base(folder, spec, worktree, root, lambda event: _append(writer, event))
    except (UnderstudyError, OSError):
        pass  # The delegation's worker meets the same problem, and reports it.
    finally:
        store.recorded(root, identifier)
        os.close(lock)
    return True


def _append(writer: Writer, event: Event) -> None:
    writer.append(event, attempt=0)


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
    made = hunk_merge.follow_up(objects, repo, origin.base, head, undecided, buffers=buffers)
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


def _supersede(parent: Folder, origin: Origin, identifier: str) -> None:
    """Record in the parent's journal that the reply took over its pending hunks, unless the caller has done so."""
    if not origin.undecided or review_state.read(parent).superseded_by is not None:
        return
    lock = worker_files.lock_within(
        parent, SUPERSEDE_SECONDS, give_up=lambda: review_state.read(parent).superseded_by is not None
    )
    if lock is None:
        return
    try:
        with Writer(parent, lock) as writer:
            if review_state.read(parent).superseded_by is None:
                writer.append(events.Superseded(by=identifier), attempt=0)
    finally:
        os.close(lock)


def _events(folder: Folder):  # type: ignore[no-untyped-def]  # noqa: ANN202 - events in order
    tail = reader.Tail(folder)
    while entries := tail.read():
        yield from entries


def _line(files: list[FileDiff], hunk: str) -> int:
    return next((candidate.old_start for file in files for candidate in file.hunks if candidate.id == hunk), 0)


def capture(root: Path, identifiers: Iterable[str], most_tries: int) -> None:
    """Capture what the user sees now for delegations that wait.

    A problem is left to the delegation: the process that makes its store meets it again, and reports it.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for identifier in identifiers:
        with contextlib.suppress(UnderstudyError, OSError):
            key = _key(identifier)
            if key is not None and store.count_try(root, identifier) < most_tries:
                groups.setdefault(key, []).append(identifier)
    for (workspace, kind, _), members in groups.items():
        with contextlib.suppress(UnderstudyError, OSError):
            folder = delegation_folder.open_folder(members[0])
            buffers = unsaved_text(folder, delegation_folder.read_spec(folder))
            with captured(root, Path(workspace), kind, buffers) as publish:
                publish(members)
    remove_unused_snapshots(root)


def remove_unused_snapshots(root: Path) -> None:
    """Remove the snapshots that no delegation needs, and unfinished ones. The caller holds the recorder's lock."""
    free = [folder for folder in _folders(root) if not durable.is_locked(folder / _LOCK)]
    for name in store.drop_snapshots(root, [folder.name for folder in free]) if free else ():
        shutil.rmtree(_place(root) / name, ignore_errors=True)


@contextlib.contextmanager
def captured(
    root: Path, workspace: Path, kind: str, buffers: Mapping[str | bytes, bytes]
) -> Iterator[Callable[[Sequence[str]], None]]:
    """Capture what the user sees now; yield a function that makes it the base of delegations, by their ids.

    No part of it is left if an error is raised. Raises the errors of ``git_base.write_base``.
    """
    place = _place(root)
    place.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=place))
    try:
        with durable.file_lock(folder / _LOCK):
            # An interrupted decision may have left the user's files partly changed.
            decision_recovery.recover_workspace(workspace)
            shared = worktree_record.capture_shared(folder, repository.locate(workspace), kind=kind, buffers=buffers)
            durable.replace(folder / "snapshot.json", msgspec.json.encode(shared))

            def publish(members: Sequence[str]) -> None:
                store.share_snapshot(root, folder.name, members)

            yield publish
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def current_tree(root: Path, repo: repository.Repository) -> str:
    """Return the id of the tree of what the user sees now, unsaved text aside; the snapshot is not kept.

    Raises the errors of ``git_base.write_base``.
    """
    place = _place(root)
    place.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with durable.file_lock(folder / _LOCK):
            return git_base.write_base(ObjectStore.create(folder / "store.git", repo), repo).tree


def find_snapshot(root: Path, identifier: str) -> tuple[Path, SharedBase] | None:
    """Return the folder and the content of the snapshot for a delegation that is not recorded yet."""
    name = store.snapshot_of(root, identifier)
    if name is None:
        return None
    folder = _place(root) / name
    try:
        data = durable.read_whole(folder / "snapshot.json", _LIMIT)
        return folder, msgspec.json.decode(data, type=ready(SharedBase))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def has_snapshots(root: Path) -> bool:
    """Return whether there is a snapshot."""
    return bool(_folders(root))


def _key(identifier: str) -> tuple[str, str, str] | None:
    """Return what delegations with the same snapshot have in common; None for a follow-up, which has its own base."""
    folder = delegation_folder.open_folder(identifier)
    spec = delegation_folder.read_spec(folder)
    if spec.origin is not None:
        return None
    digest = hashlib.sha256()
    for path, content in sorted(unsaved_text(folder, spec).items(), key=repr):
        digest.update(repr((path, len(content))).encode("utf-8", "surrogateescape") + content)
    return spec.workspace, spec.params.base or "current", digest.hexdigest()


def _folders(root: Path) -> list[Path]:
    try:
        return list(_place(root).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _place(root: Path) -> Path:
    return root / "queue" / "snapshots"
