"""A person's decisions on a result: accept, reject, undo. Each is one call under the delegation's lock.

What becomes of the person's files and what the journal says agree at any instant: an *intent* is on disk before a
file changes, and whoever looks next (``attend``) completes or forgets it, depending on what the exchange of files came
to.

::

    intent {begun} ─► exchange.apply ─► exchange.commit { decided… applied } ─► intent removed

Whether it came to anything, the exchange's own journal says while it is there. An intent that needs no exchange, or
whose exchange is behind it, is ``final`` from the start: whoever looks next carries it out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from understudy.engine import ground, leases, places, removal, standing, texts
from understudy.git import apply, merge, names
from understudy.git.faults import point
from understudy.git.store import Store
from understudy.journal import disk, locks, store, summary
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.delegations import Delegation, FileDiff, Hunk, HunkState
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

LOCK_SECONDS = 3.0
"""A worker that has just finished lets go of the lock within a moment; a decision of somebody else takes one too."""
WORKSPACE_SECONDS = 10.0
MERGE_TRIES = 3
"""Who saves a file just while it is merged wins; the merge is made anew."""
_RECORD_LIMIT = 64 * 1024 * 1024

_Kind = TypeVar("_Kind")

Documents = Mapping[str, str]
"""The caller's open documents that differ, or may differ, from disk: URI → text."""


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


@dataclass(frozen=True, slots=True)
class Wish:
    """One decision of a request: without ``path`` on everything pending, without ``hunk`` on the file."""

    path: str | None
    hunk: str | None
    accept: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """What came of a call: every file with its hunks, what did not merge, and how to take it back."""

    files: list[FileDiff]
    moved: list[str]
    """Ids of the hunks that this call accepted or rejected; what had been decided before is not among them."""
    conflicts: tuple[merge.HunkConflict, ...]
    undo_token: str | None


@dataclass(frozen=True, slots=True)
class Opened:
    """A finished delegation with its lock held."""

    folder: store.Folder
    writer: Writer
    record: ground.Record
    store: Store
    workspace: Path

    @property
    def delegation(self) -> Delegation:
        """Return the delegation after the last event."""
        return self.writer.delegation

    @property
    def head(self) -> str:
        """Return the result."""
        return self.delegation.head or self.record.base_commit

    def files(self) -> list[FileDiff]:
        """Return every changed file with the state of its hunks."""
        return standing.files_of(self.folder, self.store, self.record.base_commit, self.head)


# -- deciding ------------------------------------------------------------------------------------------------------


def decide(
    folder: store.Folder, wishes: list[Wish], *, by: str, documents: Documents, flagged: bool = False
) -> Decided:
    """Record decisions; what is accepted is merged into the person's files in the same call.

    Errors: ``conflict`` (somebody else decides, the hunk is settled, a file has unsaved text or deserves a second
    look), ``apply_conflict`` (a file was saved in between), ``invalid_params``, ``base_unavailable``.
    """
    with opened(folder) as at:
        refuse_without_result(at)
        files = at.files()
        accept, reject = _sort_out(files, wishes, at)
        if not flagged:
            _refuse_flagged(files, accept, folder.id)
        _refuse_unsaved(at.workspace, documents, _paths_of(files, accept))
        conflicts, merged, token = _accept(at, accept, by) if accept else ((), [], None)
        for conflict in conflicts:
            one = Chosen(names.quote(conflict.path), conflict.hunk)
            _reopen(at.writer, standing.read(folder), one, by)
            tried = events.Decided(path=one.path, hunk=one.hunk, decision="pending", conflict=True, by=by)
            at.writer.append(tried, attempt=0)
        for one, was, reason in reject:
            point("rejecting")
            at.writer.append(
                events.Decided(
                    path=one.path, hunk=one.hunk, decision="reject", was=standing.DECISIONS[was], reason=reason, by=by
                ),
                attempt=0,
            )
        at.writer.sync()
        moved = [*merged, *(one for one, was, _ in reject if was is not HunkState.REJECTED)]
        return Decided(at.files(), [one.hunk for one in moved], conflicts, token)


def undo(token: str, *, by: str, documents: Documents) -> None:
    """Take an accept back, three-way: later edits stay.

    Errors: ``invalid_params`` (no such token), ``conflict`` (taken back already), ``apply_conflict`` (a later edit
    overlaps; nothing changes).
    """
    identifier = token.rpartition(".")[0]
    if not store.is_id(identifier):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"{token[:64]!r} is no undo token.", hint="An accept returns one."
        )
    folder = store.open_folder(identifier)
    with opened(folder) as at:
        decisions = standing.read(folder)
        if token not in decisions.applied:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{folder.id} has no accept {token!r}.",
                hint="The `applied` events of the delegation name them.",
            )
        if not decisions.applied[token]:
            raise UnderstudyError(
                ErrorKind.CONFLICT, f"The accept {token} was taken back already.", hint="Accept it again if needed."
            )
        kept = _read(_undo_file(folder, token), Kept)
        _refuse_unsaved(at.workspace, documents, [image.path for image in kept.record.images])
        with workspace_locked(at.workspace):
            changes = apply.undo(at.store, kept.record, reader_of(at.workspace))
            hunks = [
                Chosen(mark.path, hunk)
                for hunk, mark in decisions.marks.items()
                if mark.token == token and mark.state is HunkState.ACCEPTED
            ]
            intent = Intent("undo", token, by, hunks, [names.quote(change.path) for change in changes])
            _carry_out(at, intent, changes)


# -- what a killed process left ------------------------------------------------------------------------------------


def unsettled(folder: store.Folder) -> bool:
    """Tell whether a decision was begun and not completed; one look at the disk."""
    return _intent_file(folder).exists() or _exchange_file(folder).exists()


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
    if not _intent_file(folder).exists():
        apply.recover(_exchange_file(folder))
        return
    intent = _read(_intent_file(folder), Intent)
    if intent.final:
        carry_on(folder, writer, intent)
        return
    apply.recover(_exchange_file(folder), lambda: _say(folder, writer, intent))
    point("recovered")
    if intent.kind == "accept" and intent.token not in standing.read(folder).applied:
        _undo_file(folder, intent.token).unlink(missing_ok=True)
    _intent_file(folder).unlink()


def carry_on(folder: store.Folder, writer: Writer, intent: Intent) -> None:
    """Do what a final intent says, as far as it is not done yet; the lock is held."""
    if intent.kind == "discard":
        removal.take_away(Path(intent.paths[0]).parent, intent.token)
        point("taken away")
    elif intent.kind == "restore":
        leases.mark_removed(Path(intent.paths[0]).parent, None)
        point("back")
    _say(folder, writer, intent)
    point("forgotten")
    _intent_file(folder).unlink()


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
    leases.forget_lapsed(root)


def intend(folder: store.Folder, intent: Intent) -> None:
    """Write down what is begun; durable when this returns."""
    _write(_intent_file(folder), msgspec.json.encode(intent))
    point("intended")


# -- parts ---------------------------------------------------------------------------------------------------------


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
def opened(folder: store.Folder) -> Iterator[Opened]:
    """Hold a finished delegation with its store; ``conflict`` while it runs, ``base_unavailable`` without a tree."""
    with held(folder) as writer:
        if writer.delegation.state is not State.FINISHED:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"{folder.id} is {writer.delegation.state}.",
                hint="Wait for its end: understudy wait " + folder.id,
            )
        record, objects = ground.load(folder)
        give_back(folder, writer, record, objects)
        yield Opened(folder, writer, record, objects, Path(writer.delegation.workspace))


@contextlib.contextmanager
def workspace_locked(workspace: Path) -> Iterator[None]:
    """Let one decision at a time change the files of a workspace."""
    folder = store.state_root() / "deciding"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    with disk.named_failures(path):
        descriptor = disk.open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            disk.flock_within(descriptor, WORKSPACE_SECONDS, path)
            yield
        finally:
            os.close(descriptor)


def reader_of(workspace: Path) -> merge.Reader:
    """Return what reads a file of the workspace as it is on disk now."""
    return lambda path: apply.read_entry(workspace, path)


def refuse_without_result(at: Opened) -> None:
    """Raise ``base_unavailable`` where there is nothing to decide on."""
    if at.delegation.head is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{at.folder.id} has no result to decide on; it ended {at.delegation.verdict}.",
            hint="Look at what happened: understudy show " + at.folder.id,
        )


def _accept(
    at: Opened, accept: list[Chosen], by: str
) -> tuple[tuple[merge.HunkConflict, ...], list[Chosen], str | None]:
    """Merge hunks into what the person sees now; return what did not merge, what did, and how to take that back.

    What the person saves in between is merged with, too.
    """
    with workspace_locked(at.workspace):
        for attempt in range(1, MERGE_TRIES + 1):
            chosen = standing.selection([(one.path, one.hunk) for one in accept])
            plan = merge.plan(at.store, at.record.base_commit, at.head, chosen, reader_of(at.workspace))
            refused = {(names.quote(one.path), one.hunk) for one in plan.conflicts}
            merged = [one for one in accept if (one.path, one.hunk) not in refused]
            if not merged:
                return plan.conflicts, [], None
            token = f"{at.folder.id}.{secrets.token_hex(4)}"
            intent = Intent("accept", token, by, merged, [names.quote(change.path) for change in plan.changes])
            try:
                _carry_out(at, intent, plan.changes)
            except UnderstudyError as error:
                if error.kind is not ErrorKind.APPLY_CONFLICT or attempt == MERGE_TRIES:
                    raise
            else:
                return plan.conflicts, merged, token
    raise AssertionError  # pragma: no cover - the loop returns or raises


def _reopen(writer: Writer, now: standing.Standing, one: Chosen, by: str) -> None:
    """Make a rejected hunk pending, before it is accepted."""
    mark = now.marks.get(one.hunk)
    if mark is not None and mark.state is HunkState.REJECTED:
        back = events.Decided(path=one.path, hunk=one.hunk, decision="pending", was="reject", by=by)
        writer.append(back, attempt=0)


def _sort_out(
    files: list[FileDiff], wishes: list[Wish], at: Opened
) -> tuple[list[Chosen], list[tuple[Chosen, HunkState, str | None]]]:
    """Return what to accept, and what to reject with its state before and the reason."""
    known = {(file.path, hunk.id): hunk for file in files for hunk in file.hunks}
    by_path = {file.path for file in files}
    accept: dict[Chosen, None] = {}
    reject: dict[Chosen, tuple[HunkState, str | None]] = {}
    for wish in wishes:
        if wish.hunk is not None and wish.path is None:
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, "A hunk is named without its file.", hint="Give `path`.")
        if wish.path is not None and wish.path not in by_path:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{wish.path} is not in the result of {at.folder.id}.",
                hint="delegations/diff lists the files, spelled as they must be here.",
                names=sorted(by_path)[:20] or None,
            )
        if wish.hunk is None:
            chosen = [
                Chosen(path, identifier)
                for (path, identifier), hunk in known.items()
                if wish.path in {None, path} and hunk.state is HunkState.PENDING
            ]
        else:
            chosen = [_named(known, wish, at)]
        for one in chosen:
            accept.pop(one, None)
            reject.pop(one, None)
            hunk = known[one.path, one.hunk]
            if not wish.accept:
                reject[one] = (hunk.state, wish.reason)
            elif hunk.state is not HunkState.ACCEPTED:
                accept[one] = None
    return list(accept), [(one, was, reason) for one, (was, reason) in reject.items()]


def _named(known: dict[tuple[str, str], Hunk], wish: Wish, at: Opened) -> Chosen:
    """Return the hunk that a wish names; ``conflict`` when it is settled for good."""
    hunk = known.get((wish.path or "", wish.hunk or ""))
    if hunk is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{wish.path} has no hunk {wish.hunk!r} in the result of {at.folder.id}.",
            hint="Read the diff again: an edit of the result splits it anew.",
        )
    if hunk.state is HunkState.SUPERSEDED:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{hunk.by} took over the hunk {hunk.id} of {wish.path}.",
            hint=f"Decide there: {hunk.by}",
        )
    if hunk.state is HunkState.ACCEPTED and not wish.accept:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The hunk {hunk.id} of {wish.path} is in your files already.",
            hint="Undo that first.",
        )
    return Chosen(wish.path or "", hunk.id)


def _refuse_flagged(files: list[FileDiff], accept: list[Chosen], identifier: str) -> None:
    found = merge.flagged(names.unquote(path) for path in _paths_of(files, accept))
    if found:
        spelled = sorted(f"{names.quote(path)} ({reason})" for path, reason in found.items())
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} changes files that are executed or obeyed: {', '.join(spelled[:10])}.",
            hint="Read these changes; then accept them with `flagged: true`.",
            names=sorted(names.quote(path) for path in found),
        )


def _refuse_unsaved(workspace: Path, documents: Documents, paths: list[str]) -> None:
    """Refuse to change a file on disk under an editor that holds another text of it."""
    wanted = {os.fsdecode(names.unquote(path)): path for path in paths}
    unsaved = []
    for uri, text in documents.items():
        try:
            path = places.inside(workspace, uri)
        except UnderstudyError:
            continue
        if path in wanted:
            now = texts.read_bytes(workspace / path)
            if texts.bytes_like(now, text) != now:
                unsaved.append(wanted[path])
    if unsaved:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{', '.join(sorted(unsaved))} has changes that are not saved.",
            hint="Save it, then decide again.",
            names=sorted(unsaved),
        )


def _paths_of(files: list[FileDiff], chosen: list[Chosen]) -> list[str]:
    """Return the files that a decision touches; a rename touches two."""
    wanted = {one.path for one in chosen}
    found = [file for file in files if file.path in wanted]
    return [path for file in found for path in (file.path, file.from_) if path is not None]


def _carry_out(at: Opened, intent: Intent, changes: Iterable[merge.Change]) -> None:
    """Change the files and say so in the journal: both, or neither, whenever this process is killed."""
    todo = list(changes)
    # Nothing to change: it is there already, and only has to be said.
    intent.final = not todo
    try:
        if intent.kind == "accept":
            kept = Kept(apply.record(at.store, todo))
            _write(_undo_file(at.folder, intent.token), msgspec.json.encode(kept))
            point("undo kept")
        intend(at.folder, intent)
        if todo:
            with apply.Exchange(at.workspace, _exchange_file(at.folder)) as exchange:
                exchange.apply(todo)
                point("exchanged all")
                exchange.commit(lambda: _say(at.folder, at.writer, intent))
    except BaseException:
        # With the exchange's journal still there, whoever looks next decides what this came to.
        if not _exchange_file(at.folder).exists():
            _intent_file(at.folder).unlink(missing_ok=True)
            if intent.kind == "accept":
                _undo_file(at.folder, intent.token).unlink(missing_ok=True)
        raise
    if not todo:
        _say(at.folder, at.writer, intent)
    point("forgotten")
    _intent_file(at.folder).unlink()


def _say(folder: store.Folder, writer: Writer, intent: Intent) -> None:
    """Append what the intent stands for, as far as it is not there yet."""
    now = standing.read(folder)
    if intent.kind == "accept":
        if intent.token in now.applied:
            return
        for one in intent.hunks:
            mark = now.marks.get(one.hunk)
            if mark is None or mark.state is not HunkState.ACCEPTED:
                _reopen(writer, now, one, intent.by)
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


def _write(path: Path, data: bytes) -> None:
    with disk.named_failures(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        disk.replace(path, data, sync=True)


def _read(path: Path, kind: type[_Kind]) -> _Kind:
    with disk.named_failures(path):
        data = disk.read_whole(path, _RECORD_LIMIT)
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"{path} is damaged: {error}.",
            hint="Compare your files with the result by hand, then remove that file.",
        ) from error


def _intent_file(folder: store.Folder) -> Path:
    return folder.path / "decide.json"


def _exchange_file(folder: store.Folder) -> Path:
    return folder.path / "exchange"


def _undo_file(folder: store.Folder, token: str) -> Path:
    return folder.path / "undo" / f"{token.rpartition('.')[2]}.json"
