"""Describe the field or name under the cursor."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.api.config_language import descriptions
from understudy.api.config_language.known_names import Known, shape_of
from understudy.api.config_language.syntax_at import Cursor, find
from understudy.api.config_language.text_positions import Span, Text
from understudy.api.config_language.toml_scanner import Path, scan
from understudy.config.locations import FileKind
from understudy.config.parsing.source_file import MAX_BYTES
from understudy.config.reference.fields import FieldShape, Names

_WHOLE: dict[FileKind, Names] = {
    FileKind.DELEGATOR: "delegators",
    FileKind.MODEL_SERVER: "model_servers",
    FileKind.TOOL: "tools",
}
_LISTED: dict[str | int, Names] = {
    "delegators": "delegators",
    "model_servers": "model_servers",
    "checks": "checks",
}


@dataclass(frozen=True)
class Hover:
    """A description, and the range that it is about."""

    span: Span
    markdown: str


def hover(kind: FileKind, text: str, line: int, character: int, known: Known) -> Hover | None:
    """Return the description of the field or name at a position; None if there is nothing to describe."""
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


def _of_key(root: FieldShape, cursor: Cursor, known: Known) -> str:
    path = cursor.part.path if cursor.part is not None else ()
    shape = descriptions.at(root, path)
    above = descriptions.at(root, path[:-1])
    if above is not None and above.keys is not None:
        about = descriptions.of_name(above.keys, str(path[-1]), known)
        if about:
            return about
    if shape is None:
        return ""
    if shape.items is not None and shape.items.fields is not None and not shape.doc:
        shape = shape.items
    return descriptions.of_field(str(path[-1]), shape, path)


def _of_value(kind: FileKind, root: FieldShape, cursor: Cursor, known: Known) -> str:
    path = cursor.path
    shape = descriptions.at(root, path)
    text = cursor.value.text if cursor.value is not None else ""
    defines = _defined_kind(kind, path)
    if defines is not None:
        return descriptions.of_name(defines, text, known)
    if shape is not None and shape.names is not None:
        about = descriptions.of_name(shape.names, text, known)
        if about:
            return about
    while path and (shape is None or isinstance(path[-1], int)):
        path = path[:-1]  # an element has the description of its array
        shape = descriptions.at(root, path)
    return descriptions.of_field(str(path[-1]), shape, path) if shape is not None and path else ""


def _defined_kind(kind: FileKind, path: Path) -> Names | None:
    """Return the kind of item that a value gives its name to; None for other values."""
    if path == ("name",):
        return _WHOLE.get(kind)
    if kind is FileKind.CONFIG and len(path) == 3 and path[2] == "name":
        return _LISTED.get(path[0])
    return None
