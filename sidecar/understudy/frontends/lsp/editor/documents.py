r"""What the person sees: the open documents, kept as their changes until somebody needs the text.

A keystroke costs as much as it changes; a text is put together (*folded*) when it is asked for, or when what waits
grows large. The loop's thread changes; any thread may read, and a ``Snapshot`` stays what it was when it was taken.
Positions are those of LSP 3.17: lines end with ``\n``, ``\r\n`` or ``\r``, characters are counted in the encoding
that was negotiated, and whatever lies outside is moved to the nearest place inside.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.faces.lsp import places
from understudy.faces.lsp.hunks import align

_log = logging.getLogger(__name__)

MOST_CHANGES = 2000
"""Changes that wait at most: folding so many takes some milliseconds, and they take less than a megabyte."""
MOST_CHARACTERS = 1 << 20
"""Characters in the changes that wait."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)")
_END = re.compile(r"\r\n|\r|\n")
_ENCODINGS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}

Change = tuple[tuple[int, int, int, int] | None, str]
"""Start line and character, end line and character, from zero (None: the whole document), and the new text."""


@dataclass(slots=True)
class _Document:
    uri: str
    """As the client spells it."""
    language: str
    version: int
    text: str
    changes: list[Change] = field(default_factory=list)
    """Only ever appended to; folding begins another list. So a prefix of it never changes."""
    waiting: int = 0
    """Characters in ``changes``."""


class Documents:
    """The open documents of one client; only ``file:`` URIs are kept, and differently spelled ones are one."""

    def __init__(self, encoding: str = "utf-16") -> None:
        """Keep nothing yet; ``encoding`` is ``utf-8``, ``utf-16`` or ``utf-32``, as negotiated."""
        self.encoding = encoding
        self._lock = threading.Lock()
        self._open: dict[str, _Document] = {}

    def open(self, uri: str, language_id: str, version: int, text: str) -> None:
        """Keep a document from now on; what was open under this name is replaced."""
        key = key_of(uri)
        if key is None:
            return
        with self._lock:
            if key in self._open:
                _log.warning("%s was opened while it is open", uri)
            self._open[key] = _Document(uri, language_id, version, text)

    def change(self, uri: str, version: int | None, changes: Sequence[Any]) -> None:
        """Keep changes, each made on the text after the one before.

        A change is a ``TextDocumentContentChangeEvent`` as a mapping, or ``(range, text)`` with a range as a mapping,
        as ``((line, character), (line, character))``, or None for the whole document. For a document that is not open,
        with a version that is not later, or not understood: nothing is changed and a line is logged.
        """
        key = key_of(uri)
        if key is None:
            return
        try:
            understood = [_change(one) for one in changes]
        except (TypeError, ValueError, LookupError, AttributeError):
            _log.warning("A change of %s is not understood and left out", uri)
            return
        with self._lock:
            document = self._open.get(key)
            if document is None:
                _log.warning("%s was changed but is not open", uri)
                return
            if version is not None:
                if version <= document.version:
                    _log.warning("%s: version %d came after %d; the change is left out", uri, version, document.version)
                    return
                document.version = version
            for one in understood:
                if one[0] is None:
                    document.text, document.changes, document.waiting = one[1], [], 0
                else:
                    document.changes.append(one)
                    document.waiting += len(one[1])
            full = len(document.changes) > MOST_CHANGES or document.waiting > MOST_CHARACTERS
            held = _Held(document)
        if full:
            self._text(document, held)

    def save(self, uri: str, text: str | None) -> None:
        """Note a save; a text that came with it is what the document holds."""
        if text is None:
            return
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            if document is not None:
                document.text, document.changes, document.waiting = text, [], 0

    def close(self, uri: str) -> None:
        """Forget a document: what is on disk is what the person sees."""
        with self._lock:
            if self._open.pop(key_of(uri) or "", None) is None and key_of(uri) is not None:
                _log.warning("%s was closed but is not open", uri)

    def text(self, uri: str) -> str | None:
        """Return the text now, None when it is not open."""
        found = self.look(uri)
        return None if found is None else found[1]

    def look(self, uri: str) -> tuple[int, str] | None:
        """Return version and text of the same instant, None when it is not open."""
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            if document is None:
                return None
            version, held = document.version, _Held(document)
        return version, self._text(document, held)

    def version(self, uri: str) -> int | None:
        """Return the version now, None when it is not open."""
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            return None if document is None else document.version

    def language(self, uri: str) -> str | None:
        """Return the language id it was opened with, None when it is not open."""
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            return None if document is None else document.language

    def spelling(self, uri: str) -> str | None:
        """Return the URI as the client spells it, None when it is not open."""
        with self._lock:
            document = self._open.get(key_of(uri) or "")
            return None if document is None else document.uri

    def open_uris(self) -> list[str]:
        """Return the URIs as the client spells them, in the order in which they were opened."""
        with self._lock:
            return [document.uri for document in self._open.values()]

    def snapshot(self) -> Snapshot:
        """Return what is open at this instant; texts are folded when they are read, in the reader's thread."""
        with self._lock:
            return Snapshot(self, {key: (document, _Held(document)) for key, document in self._open.items()})

    def _text(self, document: _Document, held: _Held) -> str:
        """Return the text as it was when ``held`` was taken; keep it when it is still the text."""
        if not held.count:
            return held.text
        text = fold(held.text, held.changes[: held.count], self.encoding)
        with self._lock:
            if document.changes is held.changes:
                # What came since is made on this text.
                document.text, document.changes = text, held.changes[held.count :]
                document.waiting = sum(len(one[1]) for one in document.changes)
        return text


class _Held:
    """A document's text at one instant, not folded."""

    __slots__ = ("changes", "count", "text", "version")

    def __init__(self, document: _Document) -> None:
        self.text = document.text
        self.changes = document.changes
        self.count = len(document.changes)
        self.version = document.version


class Snapshot(Mapping[str, str]):
    """URI → text of the documents that were open at one instant; lookups take any spelling of a URI."""

    def __init__(self, documents: Documents, held: dict[str, tuple[_Document, _Held]]) -> None:
        """``Documents.snapshot`` makes it."""
        self._documents = documents
        self._held = held
        self._texts: dict[str, str] = {}

    def __getitem__(self, uri: str) -> str:
        """Return a text, folded now; ``KeyError`` when it was not open."""
        key = key_of(uri) or ""
        if key not in self._texts:
            document, held = self._held[key]
            self._texts[key] = self._documents._text(document, held)  # noqa: SLF001 - two halves of one thing
        return self._texts[key]

    def __iter__(self) -> Iterator[str]:
        """Go through the URIs as the client spelled them."""
        return iter([document.uri for document, _ in self._held.values()])

    def __len__(self) -> int:
        """Return how many were open."""
        return len(self._held)

    def __contains__(self, uri: object) -> bool:
        """Tell whether it was open, without folding it."""
        return isinstance(uri, str) and (key_of(uri) or "") in self._held

    def version(self, uri: str) -> int | None:
        """Return the version that the text has, None when it was not open."""
        found = self._held.get(key_of(uri) or "")
        return None if found is None else found[1].version


def key_of(uri: str) -> str | None:
    """Return what all spellings of a ``file:`` URI have in common, its path; None for other URIs."""
    path = places.path_of(uri)
    return None if path is None else os.path.normpath(path)


# -- texts and positions -------------------------------------------------------------------------------------------


def split_lines(text: str) -> list[str]:
    """Return the lines with their ends; the last one has none and may be empty. Their concatenation is the text."""
    if "\r" not in text:
        parts = text.split("\n")
        last = parts.pop()
        return [*(part + "\n" for part in parts), last]
    lines = _LINE.findall(text)
    return [*lines, text[sum(map(len, lines)) :]]


def fold(text: str, changes: Sequence[Change], encoding: str) -> str:
    """Return the text after all changes; costs the text once, and each change what it touches."""
    lines: list[str] | None = None
    for place, new in changes:
        if place is None:
            text, lines = new, None
            continue
        if lines is None:
            lines = split_lines(text)
        _splice(lines, place, new, encoding)
    return text if lines is None else "".join(lines)


def offset_of(text: str, position: Any, encoding: str) -> int:
    """Return the index into ``text`` of a position (a mapping, an object, or ``(line, character)``).

    A line beyond the end is the end of the text, a character beyond the line's end is the line's end (before its line
    break), one inside an encoded character is before that character.
    """
    line, character = _pair(position)
    start = 0
    for _ in range(line):
        found = _END.search(text, start)
        if found is None:
            return len(text)
        start = found.end()
    end = _END.search(text, start)
    return start + _index(text[start : len(text) if end is None else end.start()], character, encoding)


def position_of(text: str, offset: int, encoding: str) -> tuple[int, int]:
    r"""Return line and character of an index into ``text``; inside a ``\r\n`` it is the end of that line."""
    offset = max(0, min(offset, len(text)))
    line = start = 0
    for found in _END.finditer(text):
        if found.end() > offset:
            offset = min(offset, found.start())
            break
        line, start = line + 1, found.end()
    return line, _units(text[start:offset], encoding)


def range_to_client(text: str, start: int, end: int, encoding: str) -> dict[str, dict[str, int]]:
    """Return the part of ``text`` from index ``start`` to ``end`` as an LSP range."""
    first, last = position_of(text, start, encoding), position_of(text, end, encoding)
    return {
        "start": {"line": first[0], "character": first[1]},
        "end": {"line": last[0], "character": last[1]},
    }


def text_edits(before: str, after: str, encoding: str) -> list[dict[str, Any]]:
    """Return LSP ``TextEdit``s, whole lines, that make ``before`` into ``after``; cursors elsewhere stay."""
    old, new = split_lines(before), split_lines(after)
    found = []
    line = place = 0
    for number, same in [*enumerate(align(old, new)), (len(old), len(new))]:
        if same is not None:
            if number > line or same > place:
                found.append(_edit(old, line, number, "".join(new[place:same]), encoding))
            line, place = number + 1, same + 1
    return found


def _edit(old: list[str], start: int, end: int, new: str, encoding: str) -> dict[str, Any]:
    """Replace the lines ``start`` up to ``end``; after the last one there is no line to name."""
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
    """Make one change in the lines, which stay as ``split_lines`` would give them."""
    first, before = _cut(lines, place[0], place[1], encoding)
    last, after = _cut(lines, place[2], place[3], encoding)
    if (last, after) < (first, before):  # LSP forbids it; the same two places are meant
        first, before, last, after = last, after, first, before
    piece = lines[first][:before] + new + lines[last][after:]
    # A `\r` and a `\n` that meet become one line's end. Behind the piece they cannot: it ends as its last line.
    if first and lines[first - 1].endswith("\r") and piece.startswith("\n"):
        first -= 1
        piece = lines[first] + piece
    parts = split_lines(piece)
    if last + 1 < len(lines):
        parts.pop()  # the rest of a line that ends: empty
    lines[first : last + 1] = parts


def _cut(lines: list[str], line: int, character: int, encoding: str) -> tuple[int, int]:
    """Return the number of a line and an index into it."""
    if line >= len(lines):
        return len(lines) - 1, len(lines[-1])
    return line, _index(lines[line].rstrip("\r\n"), character, encoding)


def _index(line: str, character: int, encoding: str) -> int:
    """Return the index into a line, without its end, of so many units."""
    if encoding == "utf-32" or line.isascii():
        return min(character, len(line))
    codec, width = _ENCODINGS[encoding]
    try:
        # What is left of a character that is cut is not decoded.
        return len(line.encode(codec)[: character * width].decode(codec, "ignore"))
    except UnicodeEncodeError:  # half a surrogate pair by itself
        return _slow_index(line, character, encoding)


def _slow_index(line: str, character: int, encoding: str) -> int:
    index = 0
    for one in line:
        character -= _units(one, encoding)
        if character < 0:
            break
        index += 1
    return index


def _units(text: str, encoding: str) -> int:
    if text.isascii():
        return len(text)
    codec, width = _ENCODINGS[encoding]
    return len(text.encode(codec, "surrogatepass")) // width


def _change(given: Any) -> Change:
    place, text = (given.get("range"), given["text"]) if isinstance(given, Mapping) else given
    if not isinstance(text, str):
        raise TypeError
    if place is None:
        return None, text
    if isinstance(place, Mapping):
        start, end = place["start"], place["end"]
    elif isinstance(place, Sequence):
        start, end = place
    else:
        start, end = place.start, place.end
    return (*_pair(start), *_pair(end)), text


def _pair(position: Any) -> tuple[int, int]:
    if isinstance(position, Mapping):
        line, character = position["line"], position["character"]
    elif isinstance(position, Sequence):
        line, character = position
    else:
        line, character = position.line, position.character
    return max(0, int(line)), max(0, int(character))
