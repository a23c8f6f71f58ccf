"""What a field or a name under the cursor means."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.config.fields import Names, Shape
from understudy.config.folders import FileKind
from understudy.config.sources import MAX_BYTES
from understudy.faces.lsp.own_files import meaning
from understudy.faces.lsp.own_files.cursor import Cursor, find
from understudy.faces.lsp.own_files.known import Known, shape_of
from understudy.faces.lsp.own_files.scan import Path, scan
from understudy.faces.lsp.own_files.text import Span, Text

_WHOLE: dict[FileKind, Names] = {FileKind.DELEGATOR: "delegators", FileKind.MODEL_SERVER: "model_servers"}
_LISTED: dict[str | int, Names] = {
    "delegators": "delegators",
    "model_servers": "model_servers",
    "checks": "checks",
}


@dataclass(frozen=True)
class Hover:
    """An explanation, and of what."""

    span: Span
    markdown: str


def hover(kind: FileKind, text: str, line: int, character: int, known: Known) -> Hover | None:
    """Return what stands at a place of ``text``; ``None`` where there is nothing to explain."""
    if len(text) > MAX_BYTES:
        return None
    content = Text(text)
    region = content.toml(kind)
    if region is None:
        return None
    cursor = find(content, scan(content.text, *region), content.offset(line, character))
    if cursor is None:
        return None
    root = shape_of(kind)
    if cursor.part is not None:
        markdown = _of_key(root, cursor, known)
        start, end = cursor.part.start, cursor.part.end
    elif cursor.value is not None:
        markdown = _of_value(kind, root, cursor, known)
        start, end = cursor.value.start, cursor.value.end
    else:
        return None
    return Hover(content.span(start, end), markdown) if markdown else None


def _of_key(root: Shape, cursor: Cursor, known: Known) -> str:
    path = cursor.part.path if cursor.part is not None else ()
    shape = meaning.at(root, path)
    above = meaning.at(root, path[:-1])
    if above is not None and above.keys is not None:
        told = meaning.of_name(above.keys, str(path[-1]), known)
        if told:
            return told
    if shape is None:
        return ""
    if shape.items is not None and shape.items.fields is not None and not shape.doc:
        shape = shape.items
    return meaning.of_field(str(path[-1]), shape, path)


def _of_value(kind: FileKind, root: Shape, cursor: Cursor, known: Known) -> str:
    path = cursor.path
    shape = meaning.at(root, path)
    said = cursor.value.text if cursor.value is not None else ""
    own = _own_name(kind, path)
    if own is not None:
        return meaning.of_name(own, said, known)
    if shape is not None and shape.names is not None:
        told = meaning.of_name(shape.names, said, known)
        if told:
            return told
    while path and (shape is None or isinstance(path[-1], int)):
        path = path[:-1]  # an element says what its array says
        shape = meaning.at(root, path)
    return meaning.of_field(str(path[-1]), shape, path) if shape is not None and path else ""


def _own_name(kind: FileKind, path: Path) -> Names | None:
    """Return of what a value is the own name."""
    if path == ("name",):
        return _WHOLE.get(kind)
    if kind is FileKind.CONFIG and len(path) == 3 and path[2] == "name":
        return _LISTED.get(path[0])
    return None
