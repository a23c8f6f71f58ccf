"""What a decision that was killed has left is completed or forgotten, by whoever looks next.

What becomes of the person's files and what the journal says agree at any instant: an *intent* is on disk before a
file changes, and whoever looks next (``attend``) carries on from it, depending on what the exchange of files came to.

::

    intent {begun} ─► exchange.apply ─► exchange.commit { decided… applied } ─► intent removed

Whether it came to anything, the exchange's own journal says while it is there. An intent that needs no exchange, or
whose exchange is behind it, is ``final`` from the start: whoever looks next carries it out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from understudy.engine import ground, leases, removal, standing
from understudy.git import apply
from understudy.git.faults import point
from understudy.git.store import Store
from understudy.journal import disk, locks, store, summary
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.delegations import Delegation, HunkState
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.wire import ready

LOCK_SECONDS = 3.0
"""A worker that has just finished lets go of the lock within a moment; a decision of somebody else takes one too."""
WORKSPACE_SECONDS = 10.0
_RECORD_LIMIT = 64 * 1024 * 1024

_Kind = TypeVar("_Kind")


class Chosen(msgspec.Struct, frozen=True):
    """A hunk by its file and id."""

    path: str
    hunk: str


class Intent(msgspec.Struct):
    """``decide.json`` in the delegation's folder: what to do and to append, should this process die in the middle."""

    kind: Literal["accept", "undo", "discard", "restore"]
    token: str = ""
    """The undo token, or the rescue ref of a tree that goes or comes back."""
    by: str = ""
    hunks: list[Chosen] = []
    paths: list[str] = []
    """What ``applied`` names; of a tree that goes or comes back, its folder."""
    seconds: float = 0.0
    final: bool = False
    """Nothing can stop it any more; without this, the exchange of files tells whether it took place."""


class Kept(msgspec.Struct):
    """``undo/<token>.json`` in the delegation's folder."""

    record: apply.UndoRecord


# -- looking -------------------------------------------------------------------------------------------------------


def unsettled(folder: store.Folder) -> bool:
    """Tell whether a decision was begun and not completed; one look at the disk."""
    return intent_file(folder).exists() or exchange_file(folder).exists()


def waits_in_vain(found: Delegation) -> bool:
    """Tell whether the follow-up that was to have this tree, and what is undecided in it, came to nothing."""
    if found.state is not State.FINISHED or found.worktree is None or found.review.pending:
        return False
    return leases.lapsed(Path(found.worktree).parent, found.id)


def attend(folder: store.Folder) -> bool:
    """Complete, or forget, a decision or a handing on whose process died; return whether this call did."""
    vain = waits_in_vain(summary.load(folder))
    if not vain and not unsettled(folder):
        return False
    lock = locks.try_lock(folder)
    if lock is None:
        return False
    try:
        with Writer(folder, lock) as writer:
            settle(folder, writer)
            if vain:
                with contextlib.suppress(UnderstudyError):  # its tree may have been taken away since
                    give_back(folder, writer, *ground.load(folder))
    finally:
        os.close(lock)
    return True


def settle(folder: store.Folder, writer: Writer) -> None:
    """Make files and journal agree; the lock is held."""
    if not unsettled(folder):
        return
    if not intent_file(folder).exists():
        apply.recover(exchange_file(folder))
        return
    intent = read(intent_file(folder), Intent)
    if intent.final:
        carry_on(folder, writer, intent)
        return
    apply.recover(exchange_file(folder), lambda: say(folder, writer, intent))
    point("recovered")
    if intent.kind == "accept" and intent.token not in standing.read(folder).applied:
        undo_file(folder, intent.token).unlink(missing_ok=True)
    intent_file(folder).unlink()


def carry_on(folder: store.Folder, writer: Writer, intent: Intent) -> None:
    """Do what a final intent says, as far as it is not done yet; the lock is held."""
    if intent.kind == "discard":
        removal.take_away(Path(intent.paths[0]).parent, intent.token)
        point("taken away")
    elif intent.kind == "restore":
        leases.mark_removed(Path(intent.paths[0]).parent, None)
        point("back")
    say(folder, writer, intent)
    point("forgotten")
    intent_file(folder).unlink()


def give_back(folder: store.Folder, writer: Writer, record: ground.Record, objects: Store) -> None:
    """Count hunks as undecided again whose follow-up never took them over; the lock is held."""
    root = Path(record.root)
    if not leases.lapsed(root, folder.id):
        return
    now = standing.read(folder)
    head = writer.delegation.head or record.base_commit
    files = standing.files_of(folder, objects, record.base_commit, head) if now.lapsed else []
    for path, hunk in standing.in_state(files, HunkState.PENDING):
        if hunk not in now.marks:
            back = events.Decided(path=path, hunk=hunk, decision="pending", was="superseded", by="understudy")
            writer.append(back, attempt=0)
            point("given back")
    for identifier in leases.named(root)[len(leases.chain(root)) :]:
        removal.unpin(identifier, root)
    leases.forget_lapsed(root)


def intend(folder: store.Folder, intent: Intent) -> None:
    """Write down what is begun; durable when this returns."""
    write(intent_file(folder), msgspec.json.encode(intent))
    point("intended")


# -- taking locks -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def held(folder: store.Folder) -> Iterator[Writer]:
    """Hold the lock of a delegation for one decision; ``conflict`` while somebody else does."""
    deadline = time.monotonic() + LOCK_SECONDS
    while (lock := locks.try_lock(folder)) is None:
        if time.monotonic() > deadline:
            raise UnderstudyError(
                ErrorKind.CONFLICT, f"Somebody else is at work on {folder.id}.", hint="Try again in a moment."
            )
        time.sleep(0.01)
    try:
        with Writer(folder, lock) as writer:
            settle(folder, writer)
            yield writer
    finally:
        os.close(lock)


@contextlib.contextmanager
def workspace_locked(workspace: Path, folder: store.Folder) -> Iterator[None]:
    """Let one decision at a time change the files of a workspace; one that was killed there is settled first.

    The lock's file names the delegation whose decision is under way, so that the next one finds what it left.
    """
    path = _workspace_file(workspace)
    with disk.named_failures(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = disk.open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        with disk.named_failures(path):
            disk.flock_within(descriptor, WORKSPACE_SECONDS, path)
        _settle_other(path, folder)
        with disk.named_failures(path):
            os.ftruncate(descriptor, 0)
            disk.write_at(descriptor, folder.id.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def settle_workspace(workspace: Path) -> None:
    """Settle what a killed decision left half done in the files of a workspace, before they are read as a whole."""
    other = _last_there(_workspace_file(workspace))
    if other is not None:
        attend(other)


def _settle_other(path: Path, folder: store.Folder) -> None:
    other = _last_there(path)
    if other is None or other.id == folder.id:
        return
    deadline = time.monotonic() + WORKSPACE_SECONDS
    while unsettled(other) and not attend(other):
        if time.monotonic() > deadline:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"A decision on {other.id} in the same files is not completed, and another process is at work on it.",
                hint="Try again in a moment.",
            )
        time.sleep(0.01)


def _last_there(path: Path) -> store.Folder | None:
    with contextlib.suppress(OSError, UnderstudyError):
        name = disk.read_whole(path, 256).decode("ascii", "replace")
        return leases.folder_of(name) if store.is_id(name) else None
    return None


def _workspace_file(workspace: Path) -> Path:
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    return store.state_root() / "deciding" / name


# -- writing it down --------------------------------------------------------------------------------------------------


def reopen(writer: Writer, now: standing.Standing, one: Chosen, by: str) -> None:
    """Make a rejected hunk pending, before it is accepted."""
    mark = now.marks.get(one.hunk)
    if mark is not None and mark.state is HunkState.REJECTED:
        back = events.Decided(path=one.path, hunk=one.hunk, decision="pending", was="reject", by=by)
        writer.append(back, attempt=0)


def say(folder: store.Folder, writer: Writer, intent: Intent) -> None:
    """Append what the intent stands for, as far as it is not there yet."""
    now = standing.read(folder)
    if intent.kind == "accept":
        if intent.token in now.applied:
            return
        for one in intent.hunks:
            mark = now.marks.get(one.hunk)
            if mark is None or mark.state is not HunkState.ACCEPTED:
                reopen(writer, now, one, intent.by)
                point("saying")
                decided = events.Decided(path=one.path, hunk=one.hunk, decision="accept", by=intent.by)
                writer.append(decided, attempt=0)
        point("saying")
        writer.append(events.Applied(paths=intent.paths, undo_token=intent.token, by=intent.by), attempt=0)
    elif intent.kind == "undo":
        if not now.applied.get(intent.token):
            return
        for one in intent.hunks:
            if now.marks[one.hunk].state is HunkState.ACCEPTED:
                decided = events.Decided(path=one.path, hunk=one.hunk, decision="pending", was="accept", by=intent.by)
                writer.append(decided, attempt=0)
                point("saying")
        writer.append(events.Undone(undo_token=intent.token), attempt=0)
    elif intent.kind == "discard":
        if now.discarded == intent.token:
            return
        writer.append(events.Discarded(rescue_ref=intent.token), attempt=0)
    else:
        if writer.delegation.worktree == intent.paths[0]:
            return
        writer.append(events.Worktree(path=intent.paths[0], seconds=intent.seconds), attempt=0)
    point("said")
    writer.sync()


def write(path: Path, data: bytes) -> None:
    """Replace a file in a delegation's folder, durably; its folder is made."""
    with disk.named_failures(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        disk.replace(path, data, sync=True)


def read(path: Path, kind: type[_Kind]) -> _Kind:
    """Return what ``write`` wrote; ``store_unavailable`` when it is damaged or gone."""
    with disk.named_failures(path):
        data = disk.read_whole(path, _RECORD_LIMIT)
    try:
        return msgspec.json.decode(data, type=ready(kind))
    except msgspec.DecodeError as error:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"{path} is damaged: {error}.",
            hint="Compare your files with the result by hand, then remove that file.",
        ) from error


def intent_file(folder: store.Folder) -> Path:
    """Return where the intent of a delegation is while there is one."""
    return folder.path / "decide.json"


def exchange_file(folder: store.Folder) -> Path:
    """Return where the journal of its exchange of files is while there is one."""
    return folder.path / "exchange"


def undo_file(folder: store.Folder, token: str) -> Path:
    """Return where it is kept how to take an accept back."""
    return folder.path / "undo" / f"{token.rpartition('.')[2]}.json"
