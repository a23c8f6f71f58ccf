"""The documents that are open in an editor: read and change them, and remember the accepts that changed them.

The editor changes the text of an open file. Everything else is changed on disk: files that are not open, and the
creation, deletion, rename, mode, link target or binary content of an open file, which is refused while the editor has
unsaved text for it. Merging works on bytes: a text is merged as the bytes it would have on disk (``bytes_like``).

A user can revert an accept in the editor, also one of another frontend. So each is remembered in
``<state>/editor-accepts/<undo token>.json``, which is written while the lock of the delegation is held. Losing it
loses nothing but the notice: ``undo`` does not need it.
Several editors can show one file. Only the server of the editor that an accept changed reports what happens to it; when
that server has ended, or has closed the document, any other one may.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from understudy.files import durable, user_file
from understudy.git import repository
from understudy.git.apply import transaction
from understudy.git.changes import Change, Entry
from understudy.journal.delegation_folder import state_root
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.wire import ready
from understudy.process import identity

Documents = Mapping[str, str]
"""The caller's open documents that may differ from disk: URI → text."""
_PLAIN = "100644"
_FILES = frozenset({_PLAIN, "100755"})
_RETRY = "If the editor shows the change anyway, accept it again: it is then only recorded."
MOST_ACCEPTS = 200
"""How many accepts are remembered, the newest; and how many of the files of one that no editor shows."""
_MOST_BYTES = 4 * 1024 * 1024
_COARSE_NANOSECONDS = 50_000_000
_SUFFIX = ".json"
_real = functools.lru_cache(1000)(repository.real)


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
        encoding = user_file.encoding_like(None if disk is None else disk.content, text)
        if encoding is None:
            return disk  # changed on disk; ``split`` refuses that if the editor has unsaved text
        codec, mark = encoding
        content = user_file.encode(text, codec, mark)
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
                content = user_file.encode(others[uri], seen.codec, seen.mark)
                actual.append(replace(change, after=Entry(after.mode, content)))
            else:
                actual.append(change)
        return actual


def unsaved_text(workspace: Path, path: str, text: str) -> bool:
    """Return whether a document has text that is not in its file (``path`` is surrogate-escaped)."""
    now = user_file.read_bytes(workspace / path)
    if now is None and not text.strip("\r\n"):
        return False  # an empty editor window for a missing file
    return user_file.bytes_like(now, text) != now


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


class EditorFile(msgspec.Struct):
    """One document that an accept changed; the hunks by id."""

    saved: list[str] = []
    """Hunks that have been in the file on disk."""
    reverted: list[str] = []
    """Hunks that are pending because the user reverted them in the editor."""
    server: identity.Identity | None = None
    """The process whose editor shows the document; None after it was closed, or after that process ended."""
    elsewhere: bool = False
    """The file was changed on disk, and no editor has reported it since: one that showed it then can revert that."""


class EditorAccept(msgspec.Struct):
    """One accept: the workspace, and its documents by wire path."""

    workspace: str
    files: dict[str, EditorFile]


def remember_accept(workspace: Path, token: str, shown: Iterable[bytes], on_disk: Mapping[str, list[str]]) -> None:
    """Remember an accept that is about to change these documents, and these files with these hunks.

    An editor may show such a file, too: it reads it again, and Ctrl+Z reverts what it has read.
    """
    server = this_process()
    files = {
        path: EditorFile(saved=hunks, elsewhere=True) for path, hunks in itertools.islice(on_disk.items(), MOST_ACCEPTS)
    }
    accept = EditorAccept(str(workspace), files | {path_quoting.quote(p): EditorFile(server=server) for p in shown})
    folder = _folder()
    with durable.named_failures(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    old = sorted(_tokens(folder), key=lambda name: _written_at(folder, name) or 0)
    for expired in old[: len(old) + 1 - MOST_ACCEPTS]:
        forget_accept(expired)
    save_accept(token, accept)


def save_accept(token: str, accept: EditorAccept) -> None:
    """Replace what is remembered of an accept."""
    durable.replace(_folder() / (token + _SUFFIX), msgspec.json.encode(accept))


def load_accept(token: str) -> EditorAccept | None:
    """Return what is remembered of an accept, None if there is nothing."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(
            durable.read_whole(_folder() / (token + _SUFFIX), _MOST_BYTES), type=ready(EditorAccept)
        )
    return None


def forget_accept(token: str, path: str | None = None) -> None:
    """Forget an accept, or one of its documents by wire path."""
    accept = load_accept(token) if path is not None else None
    if accept is not None and set(accept.files) - {path}:
        accept.files.pop(path or "", None)
        save_accept(token, accept)
    else:
        with contextlib.suppress(OSError):
            (_folder() / (token + _SUFFIX)).unlink(missing_ok=True)


def shown_by(server: identity.Identity) -> list[tuple[str, str]]:
    """Return the documents that a server's editor shows, each as undo token and wire path."""
    return [(token, path) for token, path, other in _shown(_tokens(_folder())) if other == server]


def abandoned(delegation: str | None = None) -> list[tuple[str, str]]:
    """Return the documents whose server has ended, each as undo token and wire path; of all or of one delegation."""
    tokens = [token for token in _tokens(_folder()) if delegation in {None, token.rpartition(".")[0]}]
    here = this_process()
    return [(token, path) for token, path, server in _shown(tokens) if server != here and not identity.alive(server)]


def is_shown_by_another(file: EditorFile) -> bool:
    """Return whether the editor of another process, which still runs, shows the document."""
    return file.server is not None and file.server != this_process() and identity.alive(file.server)


@functools.cache
def this_process() -> identity.Identity:
    """Return the identity of this process; without ``/proc``, it needs several programs."""
    return identity.current()


def _shown(tokens: Iterable[str]) -> Iterator[tuple[str, str, identity.Identity]]:
    for token in tokens:
        accept = load_accept(token)
        for path, file in accept.files.items() if accept is not None else ():
            if file.server is not None:
                yield token, path, file.server


class EditorAccepts:
    """The remembered accepts by document; reads only what changed since the last call."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._path = _folder()
        self._changed_at = 0
        self._accepts: dict[str, tuple[int, frozenset[Path]]] = {}
        """Undo token → when its file was written, and its documents."""

    def of(self, path: Path) -> list[str]:
        """Return the undo tokens of the accepts that changed a document, the oldest first."""
        try:
            changed_at = self._path.stat().st_mtime_ns
        except OSError:
            return []
        if changed_at != self._changed_at:
            self._read()
            # Times are coarse: after a change just now, there may be another one at the same time.
            self._changed_at = changed_at if time.time_ns() - changed_at > _COARSE_NANOSECONDS else 0
        if not self._accepts:
            return []
        document = _real(path)
        tokens = [token for token, (_, documents) in self._accepts.items() if document in documents]
        return sorted(tokens, key=lambda token: self._accepts[token][0])

    def _read(self) -> None:
        accepts: dict[str, tuple[int, frozenset[Path]]] = {}
        for token in _tokens(self._path):
            written_at = _written_at(self._path, token)
            if written_at is not None and token in self._accepts and self._accepts[token][0] == written_at:
                accepts[token] = self._accepts[token]
            elif written_at is not None and (accept := load_accept(token)) is not None:
                documents = [os.fsdecode(path_quoting.unquote(path)) for path in accept.files]
                accepts[token] = written_at, frozenset(Path(accept.workspace) / path for path in documents)
        self._accepts = accepts


def _tokens(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        names = os.listdir(folder)  # noqa: PTH208 - the names are enough
        return [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX) and not name.startswith(".")]
    return []


def _written_at(folder: Path, token: str) -> int | None:
    """Return when an accept was remembered; None if another process has forgotten it meanwhile."""
    with contextlib.suppress(OSError):
        return (folder / (token + _SUFFIX)).stat().st_mtime_ns
    return None


def _folder() -> Path:
    return state_root() / "editor-accepts"
