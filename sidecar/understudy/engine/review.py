"""A person's decisions on a result: accept, reject, undo. Each is one call under the delegation's lock.

What a call that is killed leaves is completed or forgotten by ``settling``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.engine import ground, places, settling, standing
from understudy.engine.buffers import Buffers, Documents, Editor, not_saved, unsaved_text
from understudy.git import apply, merge, names
from understudy.git.faults import point
from understudy.git.store import Store
from understudy.journal import store
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.delegations import Delegation, FileDiff, Hunk, HunkState
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

MERGE_TRIES = 3
"""Who saves a file just while it is merged wins; the merge is made anew."""
LISTED = 40
"""Files that are named in a refusal; more are counted."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One decision of a request: without ``path`` on everything pending, without ``hunk`` on the file."""

    path: str | None
    hunk: str | None
    accept: bool
    reason: str | None = None
    by_hand: bool = False
    """Accepted as it is in the person's files already: none of them is changed."""


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
    folder: store.Folder,
    wishes: list[Wish],
    *,
    by: str,
    documents: Documents,
    flagged: bool = False,
    editor: Editor | None = None,
) -> Decided:
    """Record decisions; what is accepted is merged into what the person sees in the same call.

    That is the file on disk, or the text of it that is open in ``editor``. ``documents`` are all that are open.

    Errors: ``conflict`` (somebody else decides, the hunk is settled, a file has unsaved text or deserves a second
    look), ``apply_conflict`` (a file was saved in between, the editor refused), ``invalid_params``,
    ``base_unavailable``.
    """
    with opened(folder) as at:
        refuse_without_result(at)
        files = at.files()
        accept, by_hand, reject = _sort_out(files, wishes, at)
        if not flagged:
            _refuse_flagged(files, accept, folder.id)
        _refuse_unsaved(at.workspace, documents, _paths_of(files, accept), Buffers(at.workspace, editor))
        conflicts, merged, token = _accept(at, accept, by_hand, by, editor) if accept or by_hand else ((), [], None)
        for conflict in conflicts:
            one = settling.Chosen(names.quote(conflict.path), conflict.hunk)
            settling.reopen(at.writer, standing.read(folder), one, by)
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


def undo(token: str, *, by: str, documents: Documents, editor: Editor | None = None) -> None:
    """Take an accept back, three-way: later edits stay. A file that is open in ``editor`` is changed there.

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
        kept = settling.read(settling.undo_file(folder, token), settling.Kept)
        hunks = [
            settling.Chosen(mark.path, hunk)
            for hunk, mark in decisions.marks.items()
            if mark.token == token and mark.state is HunkState.ACCEPTED
        ]
        with settling.workspace_locked(at.workspace, at.folder):
            for attempt in range(1, MERGE_TRIES + 1):
                seen = Buffers(at.workspace, editor)
                _refuse_unsaved(at.workspace, documents, [image.path for image in kept.record.images], seen)
                changes = apply.undo(at.store, kept.record, seen.read)
                intent = settling.Intent("undo", token, by, hunks, [names.quote(change.path) for change in changes])
                try:
                    _carry_out(at, intent, changes, seen)
                except UnderstudyError as error:
                    if error.kind is not ErrorKind.APPLY_CONFLICT or seen.refused or attempt == MERGE_TRIES:
                        raise
                else:
                    return


# -- parts ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened(folder: store.Folder) -> Iterator[Opened]:
    """Hold a finished delegation with its store; ``conflict`` while it runs, ``base_unavailable`` without a tree."""
    with settling.held(folder) as writer:
        if writer.delegation.state is not State.FINISHED:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"{folder.id} is {writer.delegation.state}.",
                hint="Wait for its end: understudy wait " + folder.id,
            )
        record, objects = ground.load(folder)
        settling.give_back(folder, writer, record, objects)
        yield Opened(folder, writer, record, objects, Path(writer.delegation.workspace))


def refuse_without_result(at: Opened) -> None:
    """Raise ``base_unavailable`` where there is nothing to decide on."""
    if at.delegation.head is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{at.folder.id} has no result to decide on; it ended {at.delegation.verdict}.",
            hint="Look at what happened: understudy show " + at.folder.id,
        )


def _accept(
    at: Opened, accept: list[settling.Chosen], by_hand: list[settling.Chosen], by: str, editor: Editor | None
) -> tuple[tuple[merge.HunkConflict, ...], list[settling.Chosen], str | None]:
    """Merge hunks into what the person sees now; return what did not merge, what did, and how to take that back.

    What the person saves in between is merged with, too. ``by_hand`` is in their files already, and only counted.
    """
    with settling.workspace_locked(at.workspace, at.folder):
        for attempt in range(1, MERGE_TRIES + 1):
            chosen = standing.selection([(one.path, one.hunk) for one in accept])
            seen = Buffers(at.workspace, editor)
            plan = merge.plan(at.store, at.record.base_commit, at.head, chosen, seen.read)
            refused = {(names.quote(one.path), one.hunk) for one in plan.conflicts}
            merged = [*(one for one in accept if (one.path, one.hunk) not in refused), *by_hand]
            if not merged:
                return plan.conflicts, [], None
            token = f"{at.folder.id}.{secrets.token_hex(4)}"
            intent = settling.Intent("accept", token, by, merged, [names.quote(change.path) for change in plan.changes])
            try:
                _carry_out(at, intent, plan.changes, seen)
            except UnderstudyError as error:
                if error.kind is not ErrorKind.APPLY_CONFLICT or seen.refused or attempt == MERGE_TRIES:
                    raise
            else:
                return plan.conflicts, merged, token
    raise AssertionError  # pragma: no cover - the loop returns or raises


def _sort_out(
    files: list[FileDiff], wishes: list[Wish], at: Opened
) -> tuple[list[settling.Chosen], list[settling.Chosen], list[tuple[settling.Chosen, HunkState, str | None]]]:
    """Return what to accept, what is merged by hand, and what to reject with its state before and the reason."""
    known = {(file.path, hunk.id): hunk for file in files for hunk in file.hunks}
    by_path = {file.path for file in files}
    accept: dict[settling.Chosen, bool] = {}
    reject: dict[settling.Chosen, tuple[HunkState, str | None]] = {}
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
        if wish.by_hand and not wish.accept:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, "What is merged by hand is not rejected.", hint="`byHand` goes with accept."
            )
        if wish.hunk is None:
            chosen = [
                settling.Chosen(path, identifier)
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
                accept[one] = wish.by_hand
    return (
        [one for one, by_hand in accept.items() if not by_hand],
        [one for one, by_hand in accept.items() if by_hand],
        [(one, was, reason) for one, (was, reason) in reject.items()],
    )


def _named(known: dict[tuple[str, str], Hunk], wish: Wish, at: Opened) -> settling.Chosen:
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
    return settling.Chosen(wish.path or "", hunk.id)


def _refuse_flagged(files: list[FileDiff], accept: list[settling.Chosen], identifier: str) -> None:
    found = merge.flagged(names.unquote(path) for path in _paths_of(files, accept))
    if found:
        # A name may hold line feeds, and words of its own.
        spelled = sorted(f"{names.readable(names.quote(path))} ({reason})" for path, reason in found.items())
        more = f" and {len(spelled) - LISTED} more" if len(spelled) > LISTED else ""
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} changes files that are executed or obeyed: {', '.join(spelled[:LISTED])}{more}.",
            hint="Read these changes; then accept them with `flagged: true`.",
            names=sorted(names.quote(path) for path in found),
        )


def _refuse_unsaved(workspace: Path, documents: Documents, paths: list[str], seen: Buffers) -> None:
    """Refuse to change a file on disk under an editor that holds another text and cannot be asked to change it."""
    wanted = {os.fsdecode(names.unquote(path)): path for path in paths}
    unsaved = []
    for uri in documents:
        if uri in seen.uris:
            continue
        try:
            path = places.inside(workspace, uri)
        except UnderstudyError:
            continue
        if path in wanted and unsaved_text(workspace, path, documents[uri]):
            unsaved.append(wanted[path])
    if unsaved:
        raise not_saved(unsaved)


def _paths_of(files: list[FileDiff], chosen: list[settling.Chosen]) -> list[str]:
    """Return the files that a decision touches; a rename touches two."""
    wanted = {one.path for one in chosen}
    found = [file for file in files if file.path in wanted]
    return [path for file in found for path in (file.path, file.from_) if path is not None]


def _carry_out(at: Opened, intent: settling.Intent, changes: Iterable[merge.Change], seen: Buffers) -> None:
    """Change the files and say so in the journal: both, or neither, whenever this process is killed.

    The editor is asked when the files on disk are new and can still go back. Killed after it said yes, its text holds
    a change that is still pending: accepting that again finds it there.
    """
    todo = list(changes)
    on_disk, edits = seen.parted(todo)
    # Nothing to change: it is there already, and only has to be said.
    intent.final = not todo
    edited = False
    try:
        if intent.kind == "accept":
            _keep(at, intent, todo)
            point("undo kept")
        settling.intend(at.folder, intent)
        with apply.Exchange(at.workspace, settling.exchange_file(at.folder)) as exchange:
            if on_disk:
                exchange.apply(on_disk)
                point("exchanged all")
            if edits:
                seen.edit(edits)
                edited = True
                point("edited")
                came = seen.came_out(todo, edits)
                if intent.kind == "accept" and came != todo:
                    _keep(at, intent, came)
            if on_disk:
                exchange.commit(lambda: settling.say(at.folder, at.writer, intent))
            elif edits:
                intent.final = True
                settling.intend(at.folder, intent)
    except BaseException:
        # With the exchange's journal still there, whoever looks next decides what this came to.
        if not settling.exchange_file(at.folder).exists():
            settling.intent_file(at.folder).unlink(missing_ok=True)
            if intent.kind == "accept":
                settling.undo_file(at.folder, intent.token).unlink(missing_ok=True)
            if edited:
                seen.edit_back(edits)
        raise
    if not on_disk:
        settling.say(at.folder, at.writer, intent)
    point("forgotten")
    settling.intent_file(at.folder).unlink()


def _keep(at: Opened, intent: settling.Intent, changes: list[merge.Change]) -> None:
    """Write down what an undo takes back."""
    kept = settling.Kept(apply.record(at.store, changes))
    settling.write(settling.undo_file(at.folder, intent.token), msgspec.json.encode(kept))
