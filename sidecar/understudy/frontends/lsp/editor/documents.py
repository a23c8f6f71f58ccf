r"""The open documents of an editor, kept as a text and a list of changes until the current text is needed.

Handling a keystroke costs as much as it changes. The changes are applied to the text (*folded*) when it is read, or
when there are too many of them. Only the loop's thread changes documents; any thread may read them, and a ``Snapshot``
never changes. Positions are those of LSP 3.17: lines end with ``\n``, ``\r\n`` or ``\r``, characters are counted in the
negotiated encoding, and a position outside of the text is moved to the nearest one inside.

A document is *out of sync* from the first invalid change until the client sends the whole text again: it stays open,
but has neither text nor version, and reading it from a ``Snapshot`` raises ``base_unavailable``.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from understudy.frontends.lsp.editor.line_alignment import align
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.wire import ready

_log = logging.getLogger(__name__)

MOST_CHANGES = 2000
"""Limit of pending changes: folding this many takes some milliseconds, and they use less than a megabyte."""
MOST_CHARACTERS = 1 << 20
"""Limit of characters in pending changes."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)")
_END = re.compile(r"\r\n|\r|\n")
_ENCODINGS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}

Change = tuple[tuple[int, int, int, int] | None, str]
"""A range as start line and character, end line and character, from zero (None: the whole document), and its text."""


_Number = Annotated[int, msgspec.Meta(ge=0)]


class _Position(msgspec.Struct):
    line: _Number
    character: _Number


class _Range(msgspec.Struct):
    start: _Position
    end: _Position


class _ContentChange(msgspec.Struct):
    """A ``TextDocumentContentChangeEvent``."""

    text: str
    range: _Range | None = None

    def change(self) -> Change:
        if self.range is None:
            return None, self.text
        start, end = self.range.start, self.range.end
        return (start.line, start.character, end.line, end.character), self.text


_CONTENT_CHANGES = list[_ContentChange]


@dataclass(slots=True)
class _Document:
    uri: str
    """The URI that the client uses."""
    version: int
    text: str
    changes: list[Change] = field(default_factory=list)
    """Changes after ``text``. Folding creates another list, and this one is only appended to: its prefixes never
    change."""
    waiting: int = 0
    """Characters in ``changes``."""
    out_of_sync: bool = False
    """``text`` and ``changes`` are not the text in the editor."""
    reported: bool = False
    """The user got the message that the document is out of sync."""

    def replace(self, text: str) -> None:
        """Set the whole text; the document is in sync again."""
        self.text, self.changes, self.waiting, self.out_of_sync = text, [], 0, False


class Documents:
    """The open documents of one client, only those with ``file:`` URIs; URIs of the same path are equal."""

    def __init__(self, encoding: str = "utf-16") -> None:
        """Start without documents; ``encoding``: the negotiated one, ``utf-8``, ``utf-16`` or ``utf-32``."""
        self.encoding = encoding
        self._lock = threading.Lock()
        self._open: dict[str, _Document] = {}

    def open(self, uri: str, version: int, text: str) -> None:
        """Add a document, replacing an open one with the same path."""
        key = key_of(uri)
        if key is None:
            return
        with self._lock:
            if key in self._open:
                _log.warning("%s was opened while it is open", uri)
            self._open[key] = _Document(uri, version, text)

    def change(self, uri: str, version: int | None, changes: Any) -> bool:
        """Apply a list of changes, as LSP 3.17 declares them, in order; return whether the document is in sync.

        An invalid list puts the document out of sync, and so does an outdated version, unless the list contains a whole
        text. Changes of a document that is not open are logged and ignored.
        """
        key = key_of(uri)
        if key is None:
            return True
        try:
            understood = [sent.change() for sent in msgspec.convert(changes, ready(_CONTENT_CHANGES))]
        except msgspec.ValidationError:
            return self.lose(uri, "a change is invalid")
        whole = any(place is None for place, _ in understood)
        with self._lock:
            document = self._open.get(key)
            if document is None:
                _log.warning("%s was changed but is not open", uri)
                return True
            if version is not None and version <= document.version and not whole:
                _log.warning("%s: version %d came after %d; out of sync", uri, version, document.version)
                document.out_of_sync = True
            if version is not None:
                document.version = version
            for change in understood:
                if change[0] is None:
                    document.replace(change[1])
                elif not document.out_of_sync:
                    document.changes.append(change)
                    document.waiting += len(change[1])
            in_sync = not document.out_of_sync
            full = len(document.changes) > MOST_CHANGES or document.waiting > MOST_CHARACTERS
            state = _State(document)
        if full:
            self._text(document, state)
        return in_sync

    def lose(self, uri: str, why: str, *, opens: bool = False) -> bool:
        """Put a document out of sync, opening it first if ``opens``; return false, or true if it is not open."""
        key = key_of(uri)
        if key is None:
            return True
        with self._lock:
            if opens:
                self._open[key] = _Document(uri, 0, "")
            document = self._open.get(key)
            if document is None:
                return True
            document.out_of_sync = True
            # The text is unknown from here on, so do not keep the old one.
            document.text, document.changes, document.waiting = "", [], 0
        _log.warning("%s is out of sync: %s", uri, why)
        return False

    def first_report(self, uri: str) -> bool:
        """Return true on the first call for a document since it was opened."""
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            if document is None or document.reported:
                return False
            document.reported = True
            return True

    def out_of_sync(self, uri: str) -> bool:
        """Return whether a document is open and its text is unknown."""
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            return document is not None and document.out_of_sync

    def save(self, uri: str, text: str | None) -> None:
        """Replace the text with the one that the client sent when it saved, if any."""
        if text is None:
            return
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            if document is not None:
                document.replace(text)

    def close(self, uri: str) -> None:
        """Remove a document: from now on, its text is the file on disk."""
        with self._lock:
            if self._open.pop(key_of(uri) or "", None) is None and key_of(uri) is not None:
                _log.warning("%s was closed but is not open", uri)

    def text(self, uri: str) -> str | None:
        """Return the current text; None if the document is not open or out of sync."""
        current = self.look(uri)
        return None if current is None else current[1]

    def look(self, uri: str) -> tuple[int, str] | None:
        """Return the current version with its text; None if the document is not open or out of sync."""
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            if document is None or document.out_of_sync:
                return None
            version, state = document.version, _State(document)
        return version, self._text(document, state)

    def version(self, uri: str) -> int | None:
        """Return the current version; None if the document is not open or out of sync."""
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            return None if document is None or document.out_of_sync else document.version

    def open_uris(self) -> list[str]:
        """Return the URIs that the client uses, in the order in which they were opened."""
        with self._lock:
            return [document.uri for document in self._open.values()]

    def snapshot(self) -> Snapshot:
        """Return the current documents; their texts are folded when they are read, in the reader's thread."""
        with self._lock:
            return Snapshot(self, {key: (document, _State(document)) for key, document in self._open.items()})

    def _text(self, document: _Document, state: _State) -> str:
        """Return the text of ``state``; keep it in the document unless another thread folded meanwhile."""
        if not state.count:
            return state.text
        text = fold(state.text, state.changes[: state.count], self.encoding)
        with self._lock:
            if document.changes is state.changes:
                # Later changes apply to this text.
                document.text, document.changes = text, state.changes[state.count :]
                document.waiting = sum(len(change[1]) for change in document.changes)
        return text


class _State:
    """The state of a document at one instant, not folded."""

    __slots__ = ("changes", "count", "out_of_sync", "text")

    def __init__(self, document: _Document) -> None:
        self.text = document.text
        self.changes = document.changes
        self.count = len(document.changes)
        self.out_of_sync = document.out_of_sync


class Snapshot(Mapping[str, str]):
    """URI → text of the documents that were open at one instant; lookups accept any URI of the same path."""

    def __init__(self, documents: Documents, states: dict[str, tuple[_Document, _State]]) -> None:
        """Take the states; ``Documents.snapshot`` calls this."""
        self._documents = documents
        self._states = states
        self._texts: dict[str, str] = {}

    def __getitem__(self, uri: str) -> str:
        """Return a text, folding it on the first call.

        Errors: ``KeyError`` if the document was not open; ``base_unavailable`` if it was out of sync.
        """
        key = key_of(uri) or ""
        if key not in self._texts:
            document, state = self._states[key]
            if state.out_of_sync:
                raise UnderstudyError(
                    ErrorKind.BASE_UNAVAILABLE,
                    f"The text of {document.uri.rpartition('/')[2]} in the editor is unknown: the editor sent an "
                    "invalid change.",
                    hint="Close the file and open it again, then repeat the request.",
                )
            self._texts[key] = self._documents._text(document, state)  # noqa: SLF001 - the two classes belong together
        return self._texts[key]

    def get(self, uri: str, default: Any = None) -> Any:
        """Return a text; ``default`` if the document was not open or out of sync."""
        try:
            return self[uri]
        except (KeyError, UnderstudyError):
            return default

    def __iter__(self) -> Iterator[str]:
        """Iterate over the URIs that the client uses."""
        return iter([document.uri for document, _ in self._states.values()])

    def __len__(self) -> int:
        """Return how many documents were open."""
        return len(self._states)

    def __contains__(self, uri: object) -> bool:
        """Return whether a document was open, without folding it."""
        return isinstance(uri, str) and (key_of(uri) or "") in self._states


def key_of(uri: str) -> str | None:
    """Return the normalised path of a ``file:`` URI, which identifies its document; None for other URIs."""
    path = path_quoting.path_of(uri)
    return None if path is None else os.path.normpath(path)


# -- texts and positions -------------------------------------------------------------------------------------------


def split_lines(text: str) -> list[str]:
    """Return the lines with their line breaks, so that joining them gives the text; the last one may be empty."""
    if "\r" not in text:
        parts = text.split("\n")
        last = parts.pop()
        return [*(part + "\n" for part in parts), last]
    lines = _LINE.findall(text)
    return [*lines, text[sum(map(len, lines)) :]]


def fold(text: str, changes: Sequence[Change], encoding: str) -> str:
    """Return the text after all changes, in time proportional to the text plus the lines that the changes touch."""
    lines: list[str] | None = None
    for place, new in changes:
        if place is None:
            text, lines = new, None
            continue
        if lines is None:
            lines = split_lines(text)
        _splice(lines, place, new, encoding)
    return text if lines is None else "".join(lines)


def offset_of(text: str, position: tuple[int, int], encoding: str) -> int:
    """Return the index into ``text`` of a position, which is ``(line, character)``.

    A line after the last one gives the end of the text, a character after the end of its line the end of that line
    (before the line break), and one inside an encoded character the beginning of that character.
    """
    line, character = position
    start = 0
    for _ in range(line):
        line_end = _END.search(text, start)
        if line_end is None:
            return len(text)
        start = line_end.end()
    end = _END.search(text, start)
    return start + _index(text[start : len(text) if end is None else end.start()], character, encoding)


def position_of(text: str, offset: int, encoding: str) -> tuple[int, int]:
    r"""Return line and character of an index into ``text``; an index inside ``\r\n`` gives the end of that line."""
    offset = max(0, min(offset, len(text)))
    line = start = 0
    for line_end in _END.finditer(text):
        if line_end.end() > offset:
            offset = min(offset, line_end.start())
            break
        line, start = line + 1, line_end.end()
    return line, _units(text[start:offset], encoding)


def text_edits(before: str, after: str, encoding: str) -> list[dict[str, Any]]:
    """Return LSP ``TextEdit``s that turn ``before`` into ``after``, only of changed lines, so that cursors stay."""
    old, new = split_lines(before), split_lines(after)
    edits = []
    line = place = 0
    for number, same in [*enumerate(align(old, new)), (len(old), len(new))]:
        if same is not None:
            if number > line or same > place:
                edits.append(_edit(old, line, number, "".join(new[place:same]), encoding))
            line, place = number + 1, same + 1
    return edits


def _edit(old: list[str], start: int, end: int, new: str, encoding: str) -> dict[str, Any]:
    """Return the edit that replaces the lines from ``start`` to ``end``, which is excluded."""
    # After the last line there is no next line, so the range is at the end of the last one.
    first = (start, 0) if start < len(old) else (len(old) - 1, _units(old[-1], encoding))
    last = (end, 0) if end < len(old) else (len(old) - 1, _units(old[-1], encoding))
    return {
        "range": {
            "start": {"line": first[0], "character": first[1]},
            "end": {"line": last[0], "character": last[1]},
        },
        "newText": new,
    }


def _splice(lines: list[str], place: tuple[int, int, int, int], new: str, encoding: str) -> None:
    """Apply one change to the lines in place; the result is what ``split_lines`` would return."""
    first, before = _cut(lines, place[0], place[1], encoding)
    last, after = _cut(lines, place[2], place[3], encoding)
    if (last, after) < (first, before):  # LSP forbids it; swap start and end
        first, before, last, after = last, after, first, before
    piece = lines[first][:before] + new + lines[last][after:]
    # A `\r` followed by a `\n` is one line break. This can happen only before the piece, not after it: the piece ends
    # with the rest of a whole line.
    if first and lines[first - 1].endswith("\r") and piece.startswith("\n"):
        first -= 1
        piece = lines[first] + piece
    parts = split_lines(piece)
    if last + 1 < len(lines):
        parts.pop()  # empty: the piece ends with a line break
    lines[first : last + 1] = parts


def _cut(lines: list[str], line: int, character: int, encoding: str) -> tuple[int, int]:
    """Return a position as the number of a line and an index into the line, both inside the text."""
    if line >= len(lines):
        return len(lines) - 1, len(lines[-1])
    return line, _index(lines[line].rstrip("\r\n"), character, encoding)


def _index(line: str, character: int, encoding: str) -> int:
    """Return the index into a line, without its line break, of a number of code units."""
    if encoding == "utf-32" or line.isascii():
        return min(character, len(line))
    codec, width = _ENCODINGS[encoding]
    try:
        # "ignore" drops a character that is cut in two.
        return len(line.encode(codec)[: character * width].decode(codec, "ignore"))
    except UnicodeEncodeError:  # a lone surrogate
        return _slow_index(line, character, encoding)


def _slow_index(line: str, character: int, encoding: str) -> int:
    index = 0
    for letter in line:
        character -= _units(letter, encoding)
        if character < 0:
            break
        index += 1
    return index


def _units(text: str, encoding: str) -> int:
    if text.isascii():
        return len(text)
    codec, width = _ENCODINGS[encoding]
    return len(text.encode(codec, "surrogatepass")) // width
