"""Make accepted hunks pending again that the user reverted in an editor, and accept them again if they return.

An editor can revert an accept without a word to us: Ctrl+Z, *Revert File*, closing a document without saving it.
The rule, for each accepted hunk of an accept that changed an open document:

* It is **reverted** if undoing it would change nothing: its text is gone, and its place shows what was there before.
  Lines that the user has edited, formatted or moved are neither; the hunk stays accepted.
* It is **back** if accepting it again would change nothing. A hunk that was reverted is then accepted again, with the
  same undo token: redo, or a document that is reverted to a file that was saved with the hunk.
* Only what an editor did counts. If a hunk was saved and then another program changed the file (a switch of branches,
  a stash, a formatter), its text may be elsewhere: it stays accepted, and the document is no longer watched.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from understudy.engine import workspaces
from understudy.engine.review import (
    confirmation,
    decision_log,
    decision_recovery,
    decisions,
    editor_accepts,
    review_state,
)
from understudy.engine.review.editor_buffers import BufferEdit, Buffers, Documents
from understudy.engine.worktrees.record import load_record
from understudy.git.apply import transaction
from understudy.git.changes import Entry
from understudy.git.diff import Split
from understudy.git.merge import line_edits
from understudy.git.merge import undo as undo_merge
from understudy.git.merge.disjoint_edits import difference
from understudy.git.merge.undo import FileImage, UndoRecord
from understudy.git.objects import read_blobs
from understudy.journal import delegation_folder
from understudy.model import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import HunkState
from understudy.model.text import path_quoting

Occasion = Literal["open", "change", "save", "close", "later"]
"""What happened to a document; ``later``: nothing since the last look at it."""


@dataclass(frozen=True, slots=True)
class Look:
    """A document at one instant."""

    path: Path
    occasion: Occasion
    documents: Documents
    """The open documents at that instant; a file that is not among them is on disk."""
    tokens: Sequence[str]
    """The accepts that changed the document (``EditorAccepts.of``), when it happened."""


def reconcile(look: Look, *, by: str) -> bool:
    """Record what the user reverted in a document, or what returned; return whether to look again in a moment."""
    again = False
    for token in look.tokens:
        try:
            again |= _Accept(token, look).reconcile(by)
        except UnderstudyError as error:
            if error.kind is ErrorKind.CONFLICT:  # another process decides
                again = True
            elif error.kind is ErrorKind.UNKNOWN_DELEGATION:
                editor_accepts.forget(token)
            else:
                raise
    return again


@dataclass(frozen=True, slots=True)
class _Shown:
    """The documents as an editor that is only read."""

    texts: Documents

    def documents(self) -> Documents:
        return self.texts

    def editable(self) -> Collection[str]:
        return set(self.texts)

    def edit(self, edits: list[BufferEdit]) -> bool:  # pragma: no cover - nothing is changed
        _ = edits
        return False


@dataclass(slots=True)
class _Found:
    """The hunks of one document that changed sides."""

    gone: list[decision_log.HunkRef] = field(default_factory=list)
    back: list[decision_log.HunkRef] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    """Ids of the accepted hunks that are not gone."""


class _Accept:
    """One accept and one of its documents."""

    def __init__(self, token: str, look: Look) -> None:
        self._token = token
        self._look = look
        self._folder = delegation_folder.open_folder(token.rpartition(".")[0])

    def reconcile(self, by: str) -> bool:
        accept = editor_accepts.load(self._token)
        if accept is None:
            return False
        workspace = Path(accept.workspace)
        raw = _inside(workspace, self._look.path)
        path = path_quoting.quote(raw)
        if path not in accept.files:
            return False
        shown = Buffers(workspace, _Shown(self._look.documents)).read(raw)
        is_saved = shown == transaction.read_entry(workspace, raw)
        if self._look.occasion != "save" and not self._may_have_changed(path, accept.files[path], shown, is_saved):
            return False
        with decisions.lock_result(self._folder) as at:
            now = review_state.read(self._folder)
            # Under the lock: another process may have decided meanwhile.
            accept = editor_accepts.load(self._token)
            if accept is None or path not in accept.files or self._token not in now.applied:
                editor_accepts.forget(self._token)
                return False
            file = accept.files[path]
            before = msgspec.json.encode(file)
            # A later decision on a hunk counts: it is not accepted again with this token.
            file.reverted = [hunk for hunk in file.reverted if _is_pending(now, path, hunk)]
            found = self._compare(at, now, path, file, shown)
            left_on_disk = [ref.hunk for ref in found.gone if ref.hunk in file.saved] if is_saved else []
            if left_on_disk and self._look.occasion != "save":
                # Another program changed the file, unless the notice of the save is still on its way.
                if self._look.occasion == "later":
                    editor_accepts.forget(self._token, path)
                return self._look.occasion != "later"
            self._record(at, found, by)
            file.reverted = [hunk for hunk in file.reverted if hunk not in {ref.hunk for ref in found.back}]
            file.reverted += [ref.hunk for ref in found.gone if ref.hunk not in file.reverted]
            if is_saved:
                file.saved = [*found.present, *(ref.hunk for ref in found.back)]
            if msgspec.json.encode(file) != before:
                editor_accepts.save(self._token, accept)
        return False

    def _may_have_changed(
        self, path: str, file: editor_accepts.EditorFile, shown: Entry | None, is_saved: bool
    ) -> bool:
        """Return whether there may be something to record; false is certain, and cheap: this runs at each keystroke."""
        if file.reverted or (is_saved and not file.saved):
            return True
        undo_file = decision_log.undo_file(self._folder, self._token)
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
        file: editor_accepts.EditorFile,
        shown: Entry | None,
    ) -> _Found:
        accepted = [ref for ref in now.accepted_by(self._token) if ref.path == path]
        reverted = [decision_log.HunkRef(path, hunk) for hunk in file.reverted]
        found = _Found()
        kept = decision_log.read(decision_log.undo_file(self._folder, self._token), decision_log.UndoFile).record
        image = next((image for image in kept.images if image.path == path), None)
        if image is None or shown is None:
            return found  # the document was closed before it was ever saved, and nothing can be compared
        every = [*accepted, *reverted]
        splits = at.splits() if len(every) > 1 else []
        for ref in every:
            record = UndoRecord(images=[image])
            if len(every) > 1:
                record = self._part(at, record, every, ref, splits)
            changes = [one for one in record.images if one.path == path]
            if not changes:
                continue  # the document had this hunk before the accept
            if ref in accepted:
                if _leaves_unchanged(at, changes, shown):
                    found.gone.append(ref)
                else:
                    found.present.append(ref.hunk)
            elif _leaves_unchanged(at, [_turned(one) for one in changes], shown):
                found.back.append(ref)
        return found

    def _part(
        self,
        at: decisions.LockedResult,
        record: UndoRecord,
        every: list[decision_log.HunkRef],
        ref: decision_log.HunkRef,
        splits: list[Split],
    ) -> UndoRecord:
        """Return the record that undoes one hunk only."""
        chosen = (review_state.selection([(one.path, one.hunk) for one in refs]) for refs in (every, [ref]))
        return undo_merge.part(at.store, (at.record.base_commit, at.head), record, *chosen, found=splits)

    def _record(self, at: decisions.LockedResult, found: _Found, by: str) -> None:
        if not found.gone and not found.back:
            return
        if found.gone:
            intent = decision_log.DecisionIntent("undo", self._token, by, found.gone)
            decision_recovery.append_events(self._folder, at.writer, intent)
        if found.back:
            paths = [ref.path for ref in found.back]
            with at.writer.together():
                for ref in found.back:
                    accepted = events.Decided(path=ref.path, hunk=ref.hunk, decision="accept", by=by)
                    at.writer.append(accepted, attempt=0)
                at.writer.append(
                    events.Applied(paths=list(dict.fromkeys(paths)), undo_token=self._token, by=by), attempt=0
                )
        confirmation.update(at.writer, at.files())
        at.writer.sync()


def _is_pending(now: review_state.ReviewState, path: str, hunk: str) -> bool:
    mark = now.marks.get(hunk)
    return mark is not None and mark.state is HunkState.PENDING and mark.path == path


def _inside(workspace: Path, path: Path) -> bytes:
    return workspaces.inside(workspace, str(path)).encode("utf-8", "surrogateescape")


@functools.lru_cache(64)
def _sides(
    folder: delegation_folder.Folder, undo_file: Path, _written_at: int, path: str
) -> tuple[bytes, list[line_edits.Edit] | None] | None:
    """Return the text after an accept, and the edits that undo it; None if one side is not a file."""
    record = decision_log.read(undo_file, decision_log.UndoFile).record
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
