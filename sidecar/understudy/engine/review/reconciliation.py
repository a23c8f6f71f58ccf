"""Make accepted hunks pending again that the user reverted in an editor, and accept them again if they return.

An editor can revert an accept without a word to us: Ctrl+Z, *Revert File*, closing a document without saving it.
The rule, for each accepted hunk of an accept that changed an open document, or a file that an editor shows since:

* It is **reverted** if undoing it would change nothing: its text is gone, and its place shows what was there before.
  Lines that the user has edited, formatted or moved are neither; the hunk stays accepted.
* It is **restored** if accepting it again would change nothing. A hunk that was reverted is then accepted again, with
  the same undo token: redo, or a document that is reverted to a file that was saved with the hunk.
* What is reverted is reverted for every result that had brought the same text (``shared_hunks``).
* Only what an editor did counts. If a hunk was saved and then another program changed the file (a switch of branches,
  a stash, a formatter), its text may be elsewhere: it stays accepted, and the document is no longer watched.
* An editor that ends shows nothing: its documents are compared with the files on disk.

Inside a run nothing is recorded, because an agent must not decide by what its editor shows.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from understudy.engine.review import decision_recovery, decisions, editor_documents, review_state, shared_hunks
from understudy.engine.review.editor_documents import BufferEdit, Buffers, Documents
from understudy.engine.worktrees.worktree_record import load_record
from understudy.git import repository
from understudy.git.apply import transaction
from understudy.git.changes import Entry
from understudy.git.diff import Split
from understudy.git.merge import line_edits
from understudy.git.merge import undo as undo_merge
from understudy.git.merge.line_edits import difference
from understudy.git.merge.undo import FileImage, UndoRecord
from understudy.git.objects import read_blobs
from understudy.journal import delegation_folder
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import HunkState
from understudy.model.text import path_quoting
from understudy.process.guardian import marked_processes

DocumentEvent = Literal["open", "change", "save", "close", "later", "ended"]
"""What happened to a document.

``later``: nothing since the last event; ``ended``: the server of the editor that showed it has ended.
"""


@dataclass(frozen=True, slots=True)
class DocumentState:
    """A document after an event."""

    path: Path
    event: DocumentEvent
    documents: Documents
    """The documents that were open then; a file that is not among them is on disk."""
    tokens: Sequence[str]
    """The accepts that changed the document (``EditorAccepts.of``), when it happened."""


def reconcile(state: DocumentState, *, by: str) -> bool:
    """Record what the user reverted in a document, or what was restored; return whether to repeat it in a moment."""
    if marked_processes.surrounding_run() is not None:
        return False
    again = False
    for token in state.tokens:
        try:
            again |= _Accept(token, state).reconcile(by)
        except UnderstudyError as error:
            if error.kind is ErrorKind.CONFLICT:  # another process decides
                again = True
            elif error.kind in {ErrorKind.UNKNOWN_DELEGATION, ErrorKind.BASE_UNAVAILABLE}:
                editor_documents.forget_accept(token)
            else:
                raise
    return again


def reconcile_with_disk(documents: list[tuple[str, str]], *, by: str) -> None:
    """Compare documents that an ended editor showed, each as undo token and wire path, with the files on disk."""
    for token, path in documents:
        # What cannot be read, written or locked now is tried again by the next reader.
        with contextlib.suppress(UnderstudyError, OSError):
            accept = editor_documents.load_accept(token)
            if accept is not None:
                file = Path(accept.workspace) / os.fsdecode(path_quoting.unquote(path))
                reconcile(DocumentState(file, "ended", {}, [token]), by=by)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The documents as an editor that is only read."""

    texts: Documents

    def documents(self) -> Documents:
        return self.texts

    def editable(self) -> Collection[str]:
        return set(self.texts)

    def edit(self, _: list[BufferEdit]) -> bool:  # pragma: no cover - nothing is changed
        return False


@dataclass(slots=True)
class _Comparison:
    """The hunks of one document, compared with its text."""

    reverted: list[review_state.HunkRef] = field(default_factory=list)
    restored: list[review_state.HunkRef] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    """Ids of the accepted hunks that are not reverted."""


class _Accept:
    """One accept and one of its documents."""

    def __init__(self, token: str, state: DocumentState) -> None:
        self._token = token
        self._state = state
        self._folder = delegation_folder.open_folder(token.rpartition(".")[0])

    def reconcile(self, by: str) -> bool:
        accept = editor_documents.load_accept(self._token)
        if accept is None:
            return False
        workspace, event = Path(accept.workspace), self._state.event
        raw = _inside(workspace, self._state.path)
        path = path_quoting.quote(raw)
        if path not in accept.files:
            return False
        file = accept.files[path]
        if file.elsewhere and event == "open":
            editor_documents.forget_accept(self._token, path)  # it was not open then: Ctrl+Z has nothing to revert
            return False
        if editor_documents.is_shown_by_another(file):
            return event == "open"  # the other server may be about to end: an editor that restarts its server
        buffers = Buffers(workspace, _Shown(self._state.documents))
        shown = buffers.read(raw)
        is_saved = shown == transaction.read_entry(workspace, raw)
        server = editor_documents.this_process() if buffers.is_open(raw) else None
        if event != "save" and file.server == server and not self._may_have_changed(path, file, shown, is_saved):
            return False
        with decisions.lock_result(self._folder) as at:
            now = review_state.read(self._folder)
            # Under the lock: another process may have decided meanwhile.
            accept = editor_documents.load_accept(self._token)
            if accept is None or path not in accept.files or self._token not in now.applied:
                editor_documents.forget_accept(self._token)
                return False
            file = accept.files[path]
            if editor_documents.is_shown_by_another(file):
                return False
            before = msgspec.json.encode(file)
            file.server = server
            file.elsewhere = file.elsewhere and server is None
            # A later decision on a hunk counts: it is not accepted again with this token.
            file.reverted = [hunk for hunk in file.reverted if _is_pending(now, path, hunk)]
            compared = self._compare(at, now, path, file, shown)
            left_on_disk = [ref.hunk for ref in compared.reverted if ref.hunk in file.saved] if is_saved else []
            if left_on_disk and event != "save":
                # Another program changed the file, unless the notice of the save is still on its way.
                if event in {"later", "ended"}:
                    editor_documents.forget_accept(self._token, path)
                return event not in {"later", "ended"}
            self._record(at, compared, by)
            if compared.reverted:
                self._reopen_shared(at, raw, shown, by)
            file.reverted = [hunk for hunk in file.reverted if hunk not in {ref.hunk for ref in compared.restored}]
            file.reverted += [ref.hunk for ref in compared.reverted if ref.hunk not in file.reverted]
            if is_saved:
                file.saved = [*compared.present, *(ref.hunk for ref in compared.restored)]
            if msgspec.json.encode(file) != before:
                editor_documents.save_accept(self._token, accept)
        return False

    def _may_have_changed(
        self, path: str, file: editor_documents.EditorFile, shown: Entry | None, is_saved: bool
    ) -> bool:
        """Return whether there may be something to record; false is certain, and cheap: this runs at each keystroke."""
        if file.reverted or (is_saved and not file.saved):
            return True
        undo_file = review_state.undo_file(self._folder, self._token)
        try:
            sides = _sides(self._folder, undo_file, undo_file.stat().st_mtime_ns, path)
        except OSError:
            return True  # the accept is not complete
        if sides is None or shown is None:
            return True
        after, undoing = sides
        if undoing is None:
            return shown.content != after
        return shown.content != after and _contains_any(line_edits.split_lines(after), undoing, shown.content)

    def _compare(
        self,
        at: decisions.LockedResult,
        now: review_state.ReviewState,
        path: str,
        file: editor_documents.EditorFile,
        shown: Entry | None,
    ) -> _Comparison:
        accepted = [ref for ref in now.accepted_by(self._token) if ref.path == path]
        reverted = [review_state.HunkRef(path, hunk) for hunk in file.reverted]
        compared = _Comparison()
        kept = review_state.read_record(review_state.undo_file(self._folder, self._token), review_state.UndoFile).record
        image = next((image for image in kept.images if image.path == path), None)
        if image is None or shown is None:
            return compared  # the document was closed before it was ever saved, and nothing can be compared
        every = [*accepted, *reverted]
        splits = at.splits() if len(every) > 1 else []
        for ref in every:
            record = UndoRecord(images=[image])
            if len(every) > 1:
                record = self._part(at, record, every, ref, splits)
            changes = [entry for entry in record.images if entry.path == path]
            if not changes:
                continue  # the document had this hunk before the accept
            if ref in accepted:
                if _leaves_unchanged(at, changes, shown):
                    compared.reverted.append(ref)
                else:
                    compared.present.append(ref.hunk)
            elif _leaves_unchanged(at, [_turned(entry) for entry in changes], shown):
                compared.restored.append(ref)
        return compared

    def _part(
        self,
        at: decisions.LockedResult,
        record: UndoRecord,
        every: list[review_state.HunkRef],
        ref: review_state.HunkRef,
        splits: list[Split],
    ) -> UndoRecord:
        """Return the record that undoes one hunk only."""
        chosen = (
            review_state.selection([(hunk_ref.path, hunk_ref.hunk) for hunk_ref in refs]) for refs in (every, [ref])
        )
        return undo_merge.part(at.store, (at.record.base_commit, at.head), record, *chosen, difference=splits)

    def _reopen_shared(self, at: decisions.LockedResult, path: bytes, shown: Entry | None, by: str) -> None:
        """Make accepted hunks of other results pending that found their text in what this accept had brought."""
        kept = review_state.read_record(review_state.undo_file(self._folder, self._token), review_state.UndoFile).record
        images = [_turned(image) for image in kept.images if image.path == path_quoting.quote(path)]
        with contextlib.suppress(UnderstudyError):  # the user's edits overlap: then nothing shows what was there
            for change in undo_merge.undo(at.store, UndoRecord(images=images), lambda _: shown):
                shared_hunks.reopen(self._folder.id, at.workspace, {path: (change.after, shown)}, by=by)

    def _record(self, at: decisions.LockedResult, compared: _Comparison, by: str) -> None:
        if not compared.reverted and not compared.restored:
            return
        if compared.reverted:
            intent = review_state.DecisionIntent("undo", self._token, by, compared.reverted)
            decision_recovery.append_events(self._folder, at.writer, intent)
        if compared.restored:
            paths = [ref.path for ref in compared.restored]
            with at.writer.together():
                for ref in compared.restored:
                    accepted = events.Decided(path=ref.path, hunk=ref.hunk, decision="accept", by=by)
                    at.writer.append(accepted, attempt=0)
                at.writer.append(
                    events.Applied(paths=list(dict.fromkeys(paths)), undo_token=self._token, by=by), attempt=0
                )
        review_state.update(at.writer, at.files())
        at.writer.sync()


def _is_pending(now: review_state.ReviewState, path: str, hunk: str) -> bool:
    mark = now.marks.get(hunk)
    return mark is not None and mark.state is HunkState.PENDING and mark.path == path


def _inside(workspace: Path, path: Path) -> bytes:
    return repository.inside(workspace, str(path)).encode("utf-8", "surrogateescape")


@functools.lru_cache(64)
def _sides(
    folder: delegation_folder.Folder, undo_file: Path, _written_at: int, path: str
) -> tuple[bytes, list[line_edits.Edit] | None] | None:
    """Return the text after an accept, and the edits that undo it; None if one side is not a file."""
    record = review_state.read_record(undo_file, review_state.UndoFile).record
    image = next((image for image in record.images if image.path == path), None)
    if image is None or image.before is None or image.after is None:
        return None
    contents = read_blobs(load_record(folder)[1], [image.before, image.after])
    before, after = contents[image.before], contents[image.after]
    return after, difference(line_edits.split_lines(after), line_edits.split_lines(before))


def _contains_any(lines: list[bytes], edits: list[line_edits.Edit], content: bytes) -> bool:
    """Return whether a text that was made from these lines contains at least one of the edits."""
    user = difference(lines, line_edits.split_lines(content))
    if user is None:
        return True
    return any(line_edits.merge_edits(lines, [edit], user) == (content, {}) for edit in edits)


def _leaves_unchanged(at: decisions.LockedResult, images: list[FileImage], shown: Entry) -> bool:
    """Return whether undoing these changes in the text would change nothing."""
    try:
        return not undo_merge.undo(at.store, UndoRecord(images=images), lambda _: shown)
    except UnderstudyError as error:
        if error.kind is ErrorKind.MERGE_CONFLICT:
            return False
        raise


def _turned(image: FileImage) -> FileImage:
    """Return the change in the other direction."""
    return FileImage(
        path=image.path,
        before_mode=image.after_mode,
        before=image.after,
        after_mode=image.before_mode,
        after=image.before,
    )
