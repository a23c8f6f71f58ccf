"""Read and change the files that are open in the calling editor.

The editor changes the text of an open file. Everything else is changed on disk: files that are not open, and the
creation, deletion, rename, mode, link target or binary content of an open file, which is refused while the editor has
unsaved text for it. Merging works on bytes: a text is merged as the bytes it would have on disk (``text_encoding``).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from understudy.files import text_encoding
from understudy.git import repository
from understudy.git.apply import transaction
from understudy.git.changes import Change, Entry
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

Documents = Mapping[str, str]
"""The caller's open documents that may differ from disk: URI → text."""

_PLAIN = "100644"
_FILES = frozenset({_PLAIN, "100755"})
_RETRY = "If the editor shows the change anyway, accept it again: it is then only recorded."


@dataclass(frozen=True, slots=True)
class BufferEdit:
    """Replace the text of one open document."""

    uri: str
    """A key of ``Editor.documents``."""
    before: str
    """The text that the edit was computed from; the edit applies only if the document still has it."""
    after: str


class Editor(Protocol):
    """A caller that can change its open documents."""

    def documents(self) -> Documents:
        """Return the open documents with their current text; called before each try."""
        ...

    def editable(self) -> Collection[str]:
        """Return the URIs of those documents that ``edit`` can change."""
        ...

    def edit(self, edits: list[BufferEdit]) -> bool:
        """Change all the documents or none, each only if it still has ``before``; return once ``documents`` shows it.

        Return false if the user or the editor refused. Raise ``merge_conflict`` if a document has changed since:
        nothing was changed, and the caller merges again. After any other error, such as a timeout, it is unknown
        whether the editor made the change, and nothing is recorded. New lines may get the document's line endings.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Seen:
    """An open file when it was read."""

    disk: Entry | None
    """None if the file is new in the editor and was never saved."""
    content: bytes
    codec: str
    mark: bytes


class Buffers:
    """The documents of one workspace that are open in one editor, for one merge attempt."""

    def __init__(self, workspace: Path, editor: Editor | None) -> None:
        """List the open documents; no file is read yet."""
        self.refused = False
        """The editor did not make the change; another try would ask the user again."""
        self._workspace = workspace
        self._editor = editor
        self._seen: dict[bytes, _Seen] = {}
        self._documents: Documents = {} if editor is None else editor.documents()
        self._open = {} if editor is None else _by_path(workspace, self._documents, editor.editable())

    @property
    def uris(self) -> frozenset[str]:
        """Return the documents that the editor can change."""
        return frozenset(self._open.values())

    def is_open(self, path: bytes) -> bool:
        """Return whether the editor shows a file as a document that it can change."""
        return path in self._open

    def paths(self, edits: Iterable[BufferEdit]) -> list[bytes]:
        """Return the paths of the documents that these edits change."""
        changed = {edit.uri for edit in edits}
        return [path for path, uri in self._open.items() if uri in changed]

    def read(self, path: bytes) -> Entry | None:
        """Return a file with the text that the editor shows and the mode on disk (a ``merge.Reader``)."""
        disk = transaction.read_entry(self._workspace, path)
        uri = self._open.get(path)
        if uri is None or (disk is not None and disk.mode not in _FILES):
            return disk
        text = self._documents[uri]
        if disk is None and not unsaved_text(self._workspace, os.fsdecode(path), text):
            return None
        encoding = text_encoding.encoding_like(None if disk is None else disk.content, text)
        if encoding is None:
            return disk  # changed on disk; ``split`` refuses that if the editor has unsaved text
        codec, mark = encoding
        content = text_encoding.encode(text, codec, mark)
        self._seen[path] = _Seen(disk, content, codec, mark)
        return Entry(_PLAIN if disk is None else disk.mode, content)

    def split(self, changes: Iterable[Change]) -> tuple[list[Change], list[BufferEdit]]:
        """Split changes computed from ``read`` into changes on disk and edits in the editor.

        Raise ``conflict`` if a file must change on disk and has unsaved text in the editor.
        """
        disk: list[Change] = []
        edits: list[BufferEdit] = []
        unsaved = []
        for change in changes:
            uri = self._open.get(change.path)
            seen = self._seen.get(change.path)
            if uri is None:
                disk.append(change)
                continue
            after = change.after
            text = None if seen is None or after is None else _text_of(self._documents[uri], seen, after)
            if seen is not None and after is not None and text is not None:
                if text != self._documents[uri]:
                    edits.append(BufferEdit(uri, self._documents[uri], text))
                if seen.disk is not None and after.mode != seen.disk.mode:
                    disk.append(Change(change.path, seen.disk, Entry(after.mode, seen.disk.content)))
            elif unsaved_text(self._workspace, os.fsdecode(change.path), self._documents[uri]):
                unsaved.append(path_quoting.quote(change.path))
            else:
                disk.append(change)
        if unsaved:
            raise not_saved(unsaved)
        return disk, edits

    def edit(self, edits: list[BufferEdit]) -> None:
        """Ask the editor to make the edits; raise ``merge_conflict`` if it did not."""
        if self._editor is None or not edits:
            return
        names = ", ".join(sorted({edit.uri.rpartition("/")[2] for edit in edits})[:10])
        try:
            made = self._editor.edit(edits)
        except UnderstudyError as error:
            if error.kind is ErrorKind.MERGE_CONFLICT:
                raise
            self.refused = True
            raise UnderstudyError(
                ErrorKind.MERGE_CONFLICT, f"The editor could not change {names}: {error.message}", hint=_RETRY
            ) from error
        if not made:
            self.refused = True
            raise UnderstudyError(
                ErrorKind.MERGE_CONFLICT,
                f"The editor did not change {names}. No file was changed.",
                hint="Try again. If the editor refuses again, save and close these files first.",
            )

    def revert(self, edits: list[BufferEdit]) -> None:
        """Ask the editor to revert edits that it made, on a best-effort basis."""
        if self._editor is None or not edits:
            return
        now = self._editor.documents()
        held = [(edit, now.get(edit.uri, edit.after)) for edit in edits]
        # Leave documents alone that the user has edited since. Line endings may be the editor's own.
        back = [
            BufferEdit(edit.uri, text, edit.before)
            for edit, text in held
            if _with_newlines(text) == _with_newlines(edit.after)
        ]
        try:
            reverted = len(back) == len(edits) and self._editor.edit(back)
        except UnderstudyError:
            reverted = False
        # If the change is still there, another try would treat it as the user's own.
        self.refused = self.refused or not reverted

    def actual_changes(self, changes: Iterable[Change], edits: list[BufferEdit]) -> list[Change]:
        """Return the changes with the line endings that the editor used; other differences are ignored."""
        if self._editor is None or not edits:
            return list(changes)
        now = self._editor.documents()
        others = {edit.uri: now.get(edit.uri, edit.after) for edit in edits}
        others = {
            edit.uri: others[edit.uri]
            for edit in edits
            if others[edit.uri] != edit.after and _with_newlines(others[edit.uri]) == _with_newlines(edit.after)
        }
        actual = []
        for change in changes:
            uri, seen, after = self._open.get(change.path), self._seen.get(change.path), change.after
            if uri in others and seen is not None and after is not None:
                content = text_encoding.encode(others[uri], seen.codec, seen.mark)
                actual.append(replace(change, after=Entry(after.mode, content)))
            else:
                actual.append(change)
        return actual


def unsaved_text(workspace: Path, path: str, text: str) -> bool:
    """Return whether a document has text that is not in its file (``path`` is surrogate-escaped)."""
    now = text_encoding.read_bytes(workspace / path)
    if now is None and not text.strip("\r\n"):
        return False  # an empty editor window for a missing file
    return text_encoding.bytes_like(now, text) != now


def not_saved(paths: list[str]) -> UnderstudyError:
    """Return the error for files (wire paths) with unsaved text in the editor."""
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"Unsaved changes in {', '.join(sorted(paths))}.",
        hint="Save, then try again.",
        names=sorted(paths),
    )


def _with_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _text_of(text: str, seen: _Seen, after: Entry) -> str | None:
    """Decode new contents to replace ``text`` in the editor; return None if they cannot be text in this encoding."""
    if after.mode not in _FILES or not after.content.startswith(seen.mark):
        return None
    if seen.disk is None and after.mode != _PLAIN:
        return None  # an editor cannot create an executable file
    if b"\0" in after.content and not seen.codec.startswith("utf-16"):
        return None
    try:
        decoded = after.content[len(seen.mark) :].decode(seen.codec)
    except UnicodeError:
        return None
    return "\ufeff" + decoded if text.startswith("\ufeff") else decoded


def _by_path(workspace: Path, documents: Documents, editable: Collection[str]) -> dict[bytes, str]:
    """Map the path of each editable file of the workspace to its URI."""
    by_path: dict[bytes, str] = {}
    for uri in documents:
        if uri not in editable:
            continue
        try:
            path = os.fsencode(repository.inside(workspace, uri))
        except UnderstudyError:
            continue
        by_path[path] = uri
    return by_path
