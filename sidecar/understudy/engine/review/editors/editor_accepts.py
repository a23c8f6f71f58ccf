"""Remember the accepts that changed documents which are open in an editor, because the user can revert them there.

One file for each accept, ``<state>/editor-accepts/<undo token>.json``. It is written while the lock of the delegation
is held. Losing it loses nothing but the notice: ``undo`` does not need it.

Several editors can show one file. Only the server of the editor that an accept changed reports what happens to it; when
that server has ended, or has closed the document, any other one may.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.git import repository
from understudy.journal.delegation_folder import state_root
from understudy.model.text import path_quoting
from understudy.process import identity

MOST_ACCEPTS = 200
"""How many accepts are remembered, the newest."""
_MOST_BYTES = 4 * 1024 * 1024
_COARSE_NANOSECONDS = 50_000_000
_SUFFIX = ".json"


class EditorFile(msgspec.Struct):
    """One document that an accept changed; the hunks by id."""

    saved: list[str] = []
    """Hunks that have been in the file on disk."""
    reverted: list[str] = []
    """Hunks that are pending because the user reverted them in the editor."""
    server: identity.Identity | None = None
    """The process whose editor shows the document; None after it was closed, or after that process ended."""


class EditorAccept(msgspec.Struct):
    """One accept: the workspace, and its documents by wire path."""

    workspace: str
    files: dict[str, EditorFile]


def remember(workspace: Path, token: str, paths: Iterable[bytes]) -> None:
    """Remember an accept that is about to change these documents."""
    server = this_process()
    accept = EditorAccept(str(workspace), {path_quoting.quote(path): EditorFile(server=server) for path in paths})
    folder = _folder()
    with durable.named_failures(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    old = sorted(_tokens(folder), key=lambda name: _written_at(folder, name) or 0)
    for expired in old[: len(old) + 1 - MOST_ACCEPTS]:
        forget(expired)
    save(token, accept)


def save(token: str, accept: EditorAccept) -> None:
    """Replace what is remembered of an accept."""
    durable.replace(_folder() / (token + _SUFFIX), msgspec.json.encode(accept))


def load(token: str) -> EditorAccept | None:
    """Return what is remembered of an accept, None if there is nothing."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(durable.read_whole(_folder() / (token + _SUFFIX), _MOST_BYTES), type=EditorAccept)
    return None


def forget(token: str, path: str | None = None) -> None:
    """Forget an accept, or one of its documents by wire path."""
    accept = load(token) if path is not None else None
    if accept is not None and set(accept.files) - {path}:
        accept.files.pop(path or "", None)
        save(token, accept)
    else:
        with contextlib.suppress(OSError):
            (_folder() / (token + _SUFFIX)).unlink(missing_ok=True)


def shown_by(server: identity.Identity) -> list[tuple[str, str]]:
    """Return the documents that a server's editor shows, each as undo token and wire path."""
    return [(token, path) for token, path, other in _shown(_tokens(_folder())) if other == server]


def abandoned(delegation: str | None = None) -> list[tuple[str, str]]:
    """Return the documents whose server has ended, each as undo token and wire path; of all or of one delegation."""
    tokens = [token for token in _tokens(_folder()) if delegation in {None, token.rpartition(".")[0]}]
    return [(token, path) for token, path, server in _shown(tokens) if not _is_running(server)]


def is_shown_by_another(file: EditorFile) -> bool:
    """Return whether the editor of another process, which still runs, shows the document."""
    return file.server is not None and file.server != this_process() and identity.alive(file.server)


def _is_running(server: identity.Identity) -> bool:
    return server == this_process() or identity.alive(server)


@functools.cache
def this_process() -> identity.Identity:
    """Return the identity of this process; without ``/proc``, it needs several programs."""
    return identity.current()


def _shown(tokens: Iterable[str]) -> Iterator[tuple[str, str, identity.Identity]]:
    for token in tokens:
        accept = load(token)
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
            elif written_at is not None and (accept := load(token)) is not None:
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


@functools.lru_cache(1000)
def _real(path: Path) -> Path:
    return repository.real(path)


def _folder() -> Path:
    return state_root() / "editor-accepts"
