"""The files that are open in the asking editor: read as the person sees them, changed through the editor.

What can be said as an edit of a text goes to the editor; a creation, deletion, rename, mode, link or binary content of
an open file goes to disk, like every file that is not open, and is refused while the editor holds text that is not
saved. Merging stays on bytes: a text counts as the bytes that it would have on disk (``texts``).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from understudy.engine import places, texts
from understudy.git import apply, names
from understudy.git.merge import Change, Entry
from understudy.model.errors import ErrorKind, UnderstudyError

Documents = Mapping[str, str]
"""The caller's open documents that differ, or may differ, from disk: URI → text."""

_PLAIN = "100644"
_FILES = frozenset({_PLAIN, "100755"})
_RETRY = "If the change is in the editor all the same, accept it again: what is there already is only noted."


@dataclass(frozen=True, slots=True)
class BufferEdit:
    """One open document that is to hold another text."""

    uri: str
    """As ``Editor.documents`` spells it."""
    before: str
    """The text that the edit was computed from; nothing is to be changed when the document holds another one."""
    after: str


class Editor(Protocol):
    """A caller that can change its open documents."""

    def documents(self) -> Documents:
        """Return the open documents as they are now; asked again before each try."""
        ...

    def editable(self) -> Collection[str]:
        """Return the URIs of those documents that ``edit`` can change."""
        ...

    def edit(self, edits: list[BufferEdit]) -> bool:
        """Change all the documents or none, each only if it still holds ``before``; return when ``documents`` shows it.

        False: the person or the editor refused. ``apply_conflict``: a document holds another text by now, and nothing
        was changed; the merge is made anew with it. Any other error, such as no answer in time: what became of it is
        not known, and nothing is recorded. An editor may spell the ends of new lines as it does in the whole document.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Seen:
    """An open file as it was read."""

    disk: Entry | None
    """None: the file is new in the editor, and was never saved."""
    content: bytes
    codec: str
    mark: bytes


class Buffers:
    """What one editor has open of one workspace, for one try of a merge."""

    def __init__(self, workspace: Path, editor: Editor | None) -> None:
        """Look at what is open now; no text is read yet."""
        self.refused = False
        """The editor was asked and did not do it: another try would ask the person again."""
        self._workspace = workspace
        self._editor = editor
        self._seen: dict[bytes, _Seen] = {}
        self._documents: Documents = {} if editor is None else editor.documents()
        self._open = {} if editor is None else _by_path(workspace, self._documents, editor.editable())

    @property
    def uris(self) -> frozenset[str]:
        """The documents that this object answers for."""
        return frozenset(self._open.values())

    def read(self, path: bytes) -> Entry | None:
        """Return what the person sees of a file (a ``merge.Reader``): its mode is the disk's."""
        disk = apply.read_entry(self._workspace, path)
        uri = self._open.get(path)
        if uri is None or (disk is not None and disk.mode not in _FILES):
            return disk
        text = self._documents[uri]
        if disk is None and not unsaved_text(self._workspace, os.fsdecode(path), text):
            return None
        found = texts.encoding_like(None if disk is None else disk.content, text)
        if found is None:
            return disk  # it stays on disk, and ``parted`` sees that there is other text in the editor
        codec, mark = found
        content = texts.encode(text, codec, mark)
        self._seen[path] = _Seen(disk, content, codec, mark)
        return Entry(_PLAIN if disk is None else disk.mode, content)

    def parted(self, changes: Iterable[Change]) -> tuple[list[Change], list[BufferEdit]]:
        """Return what is to change on disk, and what in the editor; ``changes`` were made from ``read``.

        ``conflict`` when a file must change on disk whose text in the editor is not saved.
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
                unsaved.append(names.quote(change.path))
            else:
                disk.append(change)
        if unsaved:
            raise not_saved(unsaved)
        return disk, edits

    def edit(self, edits: list[BufferEdit]) -> None:
        """Let the editor do it; ``apply_conflict`` when it did not."""
        if self._editor is None or not edits:
            return
        spelled = ", ".join(sorted({each.uri.rpartition("/")[2] for each in edits})[:10])
        try:
            done = self._editor.edit(edits)
        except UnderstudyError as error:
            if error.kind is ErrorKind.APPLY_CONFLICT:
                raise
            self.refused = True
            raise UnderstudyError(
                ErrorKind.APPLY_CONFLICT, f"The editor was to change {spelled}: {error.message}", hint=_RETRY
            ) from error
        if not done:
            self.refused = True
            raise UnderstudyError(
                ErrorKind.APPLY_CONFLICT,
                f"The editor did not change {spelled}, so nothing was changed.",
                hint="Decide again; if it refuses again, save and close these files first.",
            )

    def edit_back(self, edits: list[BufferEdit]) -> None:
        """Let the editor take edits back that it made; nothing more can be done when it does not."""
        if self._editor is None or not edits:
            return
        now = self._editor.documents()
        held = [(each, now.get(each.uri, each.after)) for each in edits]
        # What was typed since is not ours to touch; the ends of lines may be the editor's.
        back = [
            BufferEdit(each.uri, text, each.before) for each, text in held if _unended(text) == _unended(each.after)
        ]
        try:
            done = len(back) == len(edits) and self._editor.edit(back)
        except UnderstudyError:
            done = False
        # Where it is still there, another try would take it for the person's own.
        self.refused = self.refused or not done

    def came_out(self, changes: Iterable[Change], edits: list[BufferEdit]) -> list[Change]:
        """Return the changes as the editor made them: line ends may be its own. Nothing else is looked at."""
        if self._editor is None or not edits:
            return list(changes)
        now = self._editor.documents()
        others = {each.uri: now.get(each.uri, each.after) for each in edits}
        others = {
            each.uri: others[each.uri]
            for each in edits
            if others[each.uri] != each.after and _unended(others[each.uri]) == _unended(each.after)
        }
        found = []
        for change in changes:
            uri, seen, after = self._open.get(change.path), self._seen.get(change.path), change.after
            if uri in others and seen is not None and after is not None:
                content = texts.encode(others[uri], seen.codec, seen.mark)
                found.append(Change(change.path, change.before, Entry(after.mode, content)))
            else:
                found.append(change)
        return found


def unsaved_text(workspace: Path, path: str, text: str) -> bool:
    """Tell whether a document holds what would be lost if its file (surrogate-escaped path) changed on disk."""
    now = texts.read_bytes(workspace / path)
    if now is None and not text.strip("\r\n"):
        return False  # an editor's empty window for a file that is not there
    return texts.bytes_like(now, text) != now


def not_saved(paths: list[str]) -> UnderstudyError:
    """Return the error for files (wire paths) whose text in the editor is not on disk."""
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"{', '.join(sorted(paths))} has changes that are not saved.",
        hint="Save it, then decide again.",
        names=sorted(paths),
    )


def _unended(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _text_of(text: str, seen: _Seen, after: Entry) -> str | None:
    """Return new contents as the editor would hold them instead of ``text``; None where they are no such text."""
    if after.mode not in _FILES or not after.content.startswith(seen.mark):
        return None
    if seen.disk is None and after.mode != _PLAIN:
        return None  # there is no file yet that could be made executable
    if b"\0" in after.content and not seen.codec.startswith("utf-16"):
        return None
    try:
        decoded = after.content[len(seen.mark) :].decode(seen.codec)
    except UnicodeError:
        return None
    return "\ufeff" + decoded if text.startswith("\ufeff") else decoded


def _by_path(workspace: Path, documents: Documents, editable: Collection[str]) -> dict[bytes, str]:
    """Return path → URI of the files of the workspace that can be edited."""
    found: dict[bytes, str] = {}
    for uri in documents:
        if uri not in editable:
            continue
        try:
            path = os.fsencode(places.inside(workspace, uri))
        except UnderstudyError:
            continue
        found[path] = uri
    return found
