"""Accept, reject and undo hunks of a result. Each call holds the delegation's lock.

``decision_recovery`` finishes or rolls back a call that is killed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.engine.review import decision_recovery, editor_documents, review_state, shared_hunks
from understudy.engine.review.editor_documents import Buffers, Documents, Editor, not_saved, unsaved_text
from understudy.engine.worktrees.worktree_record import WorktreeRecord, load_record
from understudy.files.durable import failpoint
from understudy.git import diff as git_diff
from understudy.git import repository
from understudy.git.apply import transaction
from understudy.git.changes import Change
from understudy.git.merge import hunk_merge
from understudy.git.merge import undo as undo_merge
from understudy.git.object_store import ObjectStore
from understudy.journal import delegation_folder, editor_saves
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.text import path_quoting

MERGE_TRIES = 3
"""Merge attempts: a file that the user saves during a merge is merged again."""
LISTED = 40
"""Most files that an error message lists; the others are counted."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """One decision: on a hunk, on a file (no ``hunk``), or on every pending hunk (no ``path``)."""

    path: str | None
    hunk: str | None
    decision: review_state.Decision
    """``pending`` takes a rejection back."""
    reason: str | None = None
    merged_manually: bool = False
    """Whether the user's files already contain the change, so that it is accepted without changing them."""


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """The result of a call: every file with its hunks, the conflicts, and the token to undo it."""

    files: list[FileDiff]
    decided: list[str]
    """Ids of the hunks that this call accepted or rejected, without those that had this state before."""
    conflicts: tuple[hunk_merge.HunkConflict, ...]
    undo_token: str | None


@dataclass(frozen=True, slots=True)
class LockedResult:
    """A finished delegation with its lock held."""

    folder: delegation_folder.Folder
    writer: Writer
    record: WorktreeRecord
    store: ObjectStore
    workspace: Path

    @property
    def delegation(self) -> Delegation:
        """Return the delegation after the last event."""
        return self.writer.delegation

    @property
    def head(self) -> str:
        """Return the result commit."""
        return self.delegation.head or self.record.base_commit

    def files(self, diff: list[FileDiff] | None = None) -> list[FileDiff]:
        """Return every changed file with the state of its hunks; ``diff``: the files, if they are known."""
        if diff is None:
            diff = git_diff.files_of(self.splits())
        return review_state.read(self.folder).on(diff)

    def splits(self) -> list[git_diff.Split]:
        """Return the difference of the result from its base."""
        return git_diff.splits(self.store, self.record.base_commit, self.head)


# -- deciding ------------------------------------------------------------------------------------------------------


def decide(
    folder: delegation_folder.Folder,
    requests: list[DecisionRequest],
    *,
    by: str,
    documents: Documents,
    flagged: bool = False,
    editor: Editor | None = None,
) -> DecisionOutcome:
    """Record decisions, and merge accepted hunks into the user's files.

    A hunk is merged into the file on disk, or into its text if the file is open in ``editor``. ``documents`` are all
    open documents. ``flagged`` accepts flagged files too.

    Errors: ``conflict`` (another process is deciding, the hunk can no longer be decided, a file is unsaved or flagged),
    ``merge_conflict`` (a file was saved during the merge, the editor refused), ``invalid_params``,
    ``base_unavailable``.
    """
    with lock_result(folder) as at:
        refuse_without_result(at)
        splits = at.splits()
        diff = git_diff.files_of(splits)
        files = at.files(diff)
        accept, merged_manually, record = _sort_out(files, requests, at)
        if not flagged:
            _refuse_flagged(files, accept, folder.id)
        refuse_unsaved(at.workspace, documents, _paths_of(files, accept), Buffers(at.workspace, editor).uris)
        # What was merged by hand must not be lost when the document is closed: only its file is evidence of it.
        refuse_unsaved(at.workspace, documents, _paths_of(files, merged_manually), ())
        conflicts, merged, token = (
            _accept(at, accept, merged_manually, by, editor, splits=splits)
            if accept or merged_manually
            else ((), [], None)
        )
        with at.writer.together():
            decisions = review_state.read(folder) if conflicts else review_state.ReviewState()
            for conflict in conflicts:
                ref = review_state.HunkRef(path_quoting.quote(conflict.path), conflict.hunk)
                decision_recovery.reopen(at.writer, decisions, ref, by)
                tried = events.Decided(path=ref.path, hunk=ref.hunk, decision="pending", conflict=True, by=by)
                at.writer.append(tried, attempt=0)
            for ref, request, was in record:
                failpoint("rejecting")
                at.writer.append(
                    events.Decided(
                        path=ref.path,
                        hunk=ref.hunk,
                        decision=request.decision,
                        was=review_state.DECISIONS[was],
                        reason=request.reason,
                        by=by,
                    ),
                    attempt=0,
                )
        files = at.files(diff)
        review_state.update(at.writer, files)
        at.writer.sync()
        changed = [ref for ref, request, was in record if request.decision != review_state.DECISIONS[was]]
        decided = [*merged, *changed]
        return DecisionOutcome(files, [ref.hunk for ref in decided], conflicts, token)


def undo(
    token: str, *, by: str, documents: Documents, only: list[str] | None = None, editor: Editor | None = None
) -> None:
    """Undo an accept with a three-way merge, which keeps later edits. Files open in ``editor`` are changed there.

    Accepted hunks of other results that found their text there, and lose it now, are pending again.

    ``only``: ids of hunks of the accept; the others stay accepted. Errors: ``invalid_params`` (no such token or hunk),
    ``conflict`` (undone already), ``merge_conflict`` (a later edit overlaps; nothing changes).
    """
    identifier = token.rpartition(".")[0]
    if not delegation_folder.is_id(identifier):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{token[:64]!r} is not an undo token.",
            hint="Use the undo token that the accept returned.",
        )
    folder = delegation_folder.open_folder(identifier)
    with lock_result(folder) as at:
        decisions = review_state.read(folder)
        if token not in decisions.applied:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{folder.id} has no accept {token!r}.",
                hint="Use the token that the accept printed; the delegation's `applied` events contain it too.",
            )
        if not decisions.applied[token]:
            raise UnderstudyError(
                ErrorKind.CONFLICT, f"The accept {token} is already undone.", hint="Accept the hunks again if needed."
            )
        kept = review_state.read_record(review_state.undo_file(folder, token), review_state.UndoFile)
        accepted = decisions.accepted_by(token)
        requested = {ref.hunk for ref in accepted} if only is None else set(only)
        hunks = [ref for ref in accepted if ref.hunk in requested]
        if len(hunks) < len(requested):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The accept {token} did not accept all of these hunks, or some are undone.",
                hint="Read the diff again: hunk IDs change when the result is edited.",
            )
        undo_record = kept.record
        if len(hunks) < len(accepted) or token in decisions.partly_undone:
            undo_record = undo_merge.part(
                at.store,
                (at.record.base_commit, at.head),
                kept.record,
                *(review_state.selection([(ref.path, ref.hunk) for ref in chosen]) for chosen in (accepted, hunks)),
            )
        with decision_recovery.lock_workspace(at.workspace, at.folder):
            for attempt in range(1, MERGE_TRIES + 1):
                seen = Buffers(at.workspace, editor)
                refuse_unsaved(at.workspace, documents, [image.path for image in undo_record.images], seen.uris)
                changes = undo_merge.undo(at.store, undo_record, seen.read)
                # First: if this process is killed in between, they are only pending although their text is there.
                shared_hunks.reopen(folder.id, at.workspace, {c.path: (c.before, c.after) for c in changes}, by=by)
                intent = review_state.DecisionIntent(
                    "undo", token, by, hunks, [path_quoting.quote(change.path) for change in changes]
                )
                try:
                    _carry_out(at, intent, changes, seen)
                except UnderstudyError as error:
                    if error.kind is not ErrorKind.MERGE_CONFLICT or seen.refused or attempt == MERGE_TRIES:
                        raise
                else:
                    review_state.update(at.writer, at.files())
                    at.writer.sync()
                    return


# -- parts ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def lock_result(folder: delegation_folder.Folder) -> Iterator[LockedResult]:
    """Lock a finished delegation and open its object store.

    Errors: ``conflict`` while the delegation runs, ``base_unavailable`` if it has no worktree.
    """
    with decision_recovery.lock_finished(folder) as writer:
        record, objects = load_record(folder)
        decision_recovery.return_hunks(folder, writer, record, objects)
        yield LockedResult(folder, writer, record, objects, Path(writer.delegation.workspace))


def refuse_without_result(at: LockedResult) -> None:
    """Raise ``base_unavailable`` if the delegation has no result."""
    if at.delegation.head is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{at.folder.id} has no result to decide on; its verdict is {at.delegation.verdict}.",
            hint=f"See what happened: understudy show {at.folder.id}",
        )


def _accept(
    at: LockedResult,
    accept: list[review_state.HunkRef],
    merged_manually: list[review_state.HunkRef],
    by: str,
    editor: Editor | None,
    *,
    splits: list[git_diff.Split],
) -> tuple[tuple[hunk_merge.HunkConflict, ...], list[review_state.HunkRef], str | None]:
    """Merge hunks into the user's current files; return the conflicts, the merged hunks, and the undo token.

    A file that is saved during the merge is merged again. Hunks in ``merged_manually`` are only recorded.
    """
    verified = {split.change.new_blob for split in splits}
    with decision_recovery.lock_workspace(at.workspace, at.folder):
        for attempt in range(1, MERGE_TRIES + 1):
            chosen = review_state.selection([(ref.path, ref.hunk) for ref in accept])
            seen = Buffers(at.workspace, editor)
            plan = hunk_merge.plan(at.store, at.record.base_commit, at.head, chosen, seen.read, difference=splits)
            refused = {(path_quoting.quote(conflict.path), conflict.hunk) for conflict in plan.conflicts}
            merged = [*(ref for ref in accept if (ref.path, ref.hunk) not in refused), *merged_manually]
            if not merged:
                return plan.conflicts, [], None
            token = f"{at.folder.id}.{secrets.token_hex(4)}"
            intent = review_state.DecisionIntent(
                "accept", token, by, merged, [path_quoting.quote(change.path) for change in plan.changes]
            )
            try:
                _carry_out(at, intent, plan.changes, seen, verified=verified)
            except UnderstudyError as error:
                if error.kind is not ErrorKind.MERGE_CONFLICT or seen.refused or attempt == MERGE_TRIES:
                    raise
            else:
                return plan.conflicts, merged, token
    raise AssertionError  # pragma: no cover - the loop returns or raises


def _sort_out(
    files: list[FileDiff], requests: list[DecisionRequest], at: LockedResult
) -> tuple[
    list[review_state.HunkRef],
    list[review_state.HunkRef],
    list[tuple[review_state.HunkRef, DecisionRequest, HunkState]],
]:
    """Return the hunks to accept, those merged manually, and those to reject or reopen with their old state."""
    hunks = {(file.path, hunk.id): hunk for file in files for hunk in file.hunks}
    by_path = {file.path: file for file in files}
    accept: dict[review_state.HunkRef, bool] = {}
    record: dict[review_state.HunkRef, tuple[DecisionRequest, HunkState]] = {}
    for request in requests:
        if request.hunk is not None and request.path is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, "A decision names a hunk but not its file.", hint="Add `path`."
            )
        if request.path is not None and request.path not in by_path:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{request.path} is not in the result of {at.folder.id}.",
                hint=f"Use a path from `understudy diff {at.folder.id}`.",
                names=sorted(by_path)[:20] or None,
            )
        if request.merged_manually and request.decision != "accept":
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                "A decision marks a hunk as merged manually but does not accept it.",
                hint="Use `mergedManually` only with accept.",
            )
        if request.hunk is None:
            from_state = HunkState.REJECTED if request.decision == "pending" else HunkState.PENDING
            asked = files if request.path is None else [by_path[request.path]]
            chosen = [
                review_state.HunkRef(file.path, hunk.id)
                for file in asked
                for hunk in file.hunks
                if hunk.state is from_state
            ]
        else:
            chosen = [_requested_hunk(hunks, request, at)]
        for ref in chosen:
            accept.pop(ref, None)
            record.pop(ref, None)
            hunk = hunks[ref.path, ref.hunk]
            if request.decision != "accept":
                record[ref] = (request, hunk.state)
            elif hunk.state is not HunkState.ACCEPTED:
                accept[ref] = request.merged_manually
    return (
        [ref for ref, merged_manually in accept.items() if not merged_manually],
        [ref for ref, merged_manually in accept.items() if merged_manually],
        [(ref, request, was) for ref, (request, was) in record.items()],
    )


def _requested_hunk(
    hunks: dict[tuple[str, str], Hunk], request: DecisionRequest, at: LockedResult
) -> review_state.HunkRef:
    """Return the hunk that a request names; raise ``conflict`` if it can no longer be decided that way."""
    hunk = hunks.get((request.path or "", request.hunk or ""))
    if hunk is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{request.path} has no hunk {request.hunk!r} in the result of {at.folder.id}.",
            hint="Read the diff again: hunk IDs change when the result is edited.",
        )
    if hunk.state is HunkState.SUPERSEDED:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{hunk.by} took over the hunk {hunk.id} of {request.path}.",
            hint=f"Decide on the result of {hunk.by} instead.",
        )
    if hunk.state is HunkState.ACCEPTED and request.decision != "accept":
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The hunk {hunk.id} of {request.path} is already in your files.",
            hint="Undo the accept first.",
        )
    return review_state.HunkRef(request.path or "", hunk.id)


def _refuse_flagged(files: list[FileDiff], accept: list[review_state.HunkRef], identifier: str) -> None:
    chosen = {hunk.path for hunk in accept}
    flags = {file.path: file.flag_reason for file in files if file.flag_reason is not None and file.path in chosen}
    if flags:
        # A file name can contain line feeds, or text that looks like part of the message.
        listed = sorted(f"{path_quoting.readable(path)} ({reason})" for path, reason in flags.items())
        more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} changes files that need a look first: {', '.join(listed[:LISTED])}{more}.",
            hint="Read these changes, then accept them with `includeFlagged: true`.",
            names=sorted(flags),
        )


def refuse_unsaved(workspace: Path, documents: Documents, paths: list[str], editable: Container[str]) -> None:
    """Raise ``conflict`` if a file has unsaved text in a document that is not ``editable``."""
    wire_paths = {os.fsdecode(path_quoting.unquote(path)): path for path in paths}
    unsaved = []
    for uri in documents:
        if uri in editable:
            continue
        try:
            path = repository.inside(workspace, uri)
        except UnderstudyError:
            continue
        if path in wire_paths and unsaved_text(workspace, path, documents[uri]):
            unsaved.append(wire_paths[path])
    if unsaved:
        raise not_saved(unsaved)


def _paths_of(files: list[FileDiff], chosen: list[review_state.HunkRef]) -> list[str]:
    """Return the paths that a decision changes; a rename changes two."""
    names = {ref.path for ref in chosen}
    changed = [file for file in files if file.path in names]
    return [path for file in changed for path in (file.path, file.from_) if path is not None]


def _carry_out(
    at: LockedResult,
    intent: review_state.DecisionIntent,
    changes: Iterable[Change],
    seen: Buffers,
    *,
    verified: Container[str] = (),
) -> None:
    """Change the files and record it in the journal: both or neither, even if this process is killed.

    ``verified``: blobs of the result, which are in its store undamaged.

    The editor is asked after the files on disk were replaced but before the transaction is committed. If the process
    is killed after the editor agreed, the hunk is still pending, and accepting it again finds its change in the text.
    """
    todo = [transaction.with_attributes(at.workspace, change) for change in changes]
    on_disk, edits = seen.split(todo)
    # The files contain the change already; only the journal needs it.
    intent.final = not todo
    edited = False
    try:
        if intent.kind == "accept":
            _write_undo_file(at, intent, todo, verified)
            failpoint("undo file written")
        review_state.record_intent(at.folder, intent)
        if intent.kind == "accept" and todo:
            saved: dict[str, list[str]] = {path_quoting.quote(change.path): [] for change in on_disk if change.after}
            for ref in intent.hunks:
                saved.get(ref.path, []).append(ref.hunk)
            editor_documents.remember_accept(at.workspace, intent.token, seen.paths(edits), saved)
        with transaction.FileTransaction(at.workspace, review_state.exchange_file(at.folder)) as files:
            if on_disk:
                files.apply(on_disk)
                failpoint("files replaced")
                editor_saves.record(
                    [at.workspace / os.fsdecode(change.path) for change in on_disk[-editor_saves.MOST_FILES :]]
                )
            if edits:
                seen.edit(edits)
                edited = True
                failpoint("edited")
                actual = seen.actual_changes(todo, edits)
                if intent.kind == "accept" and actual != todo:
                    _write_undo_file(at, intent, actual, verified)
            if on_disk:
                files.commit(lambda: decision_recovery.append_events(at.folder, at.writer, intent))
            elif edits:
                intent.final = True
                review_state.record_intent(at.folder, intent)
    except BaseException:
        # If the transaction's journal still exists, recovery decides whether this took place.
        if not review_state.exchange_file(at.folder).exists():
            review_state.intent_file(at.folder).unlink(missing_ok=True)
            if intent.kind == "accept":
                review_state.undo_file(at.folder, intent.token).unlink(missing_ok=True)
                editor_documents.forget_accept(intent.token)
            if edited:
                seen.revert(edits)
        raise
    if not on_disk:
        decision_recovery.append_events(at.folder, at.writer, intent)
    failpoint("before removing intent")
    review_state.intent_file(at.folder).unlink()


def _write_undo_file(
    at: LockedResult, intent: review_state.DecisionIntent, changes: list[Change], verified: Container[str]
) -> None:
    """Record how to undo these changes."""
    kept = review_state.UndoFile(undo_merge.record(at.store, changes, verified=verified))
    review_state.write_record(review_state.undo_file(at.folder, intent.token), msgspec.json.encode(kept))
