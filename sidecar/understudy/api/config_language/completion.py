"""Complete keys that the table does not have yet, values, names and table headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from understudy.api.config_language import descriptions
from understudy.api.config_language.known_names import Known, shape_of
from understudy.api.config_language.syntax_at import Cursor, find
from understudy.api.config_language.text_positions import Span, Text
from understudy.api.config_language.toml_literals import key, string
from understudy.api.config_language.toml_scanner import Document, Header, Path, scan
from understudy.config.discovery import declarations
from understudy.config.locations import FileKind
from understudy.config.parsing.source_file import MAX_BYTES
from understudy.config.reference.fields import FieldShape, Names
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import NAME_PATTERN, Delegator

_LISTS: dict[Names, str] = {"delegators": "delegators", "model_servers": "model_servers", "checks": "checks"}


@dataclass(frozen=True)
class Completion:
    """One completion."""

    label: str
    kind: Literal["key", "value", "name", "table", "file"]
    span: Span
    """The text to replace: often a word, sometimes empty."""
    text: str
    """The text to insert."""
    snippet: str | None = None
    """The same text with placeholders in LSP's snippet syntax, for clients that support it."""
    filter: str = ""
    """The text that a client compares with the text in ``span``."""
    detail: str = ""
    documentation: str = ""
    """Markdown."""
    deprecated: bool = False
    rank: int = 1
    """Completions are sorted by rank, then by label."""


def complete(kind: FileKind, text: str, line: int, character: int, known: Known) -> list[Completion]:
    """Return the completions at a position, the most useful first; each span is on the line of the position."""
    if len(text) > MAX_BYTES:
        return []
    content = Text(text)
    offset = content.offset(line, character)
    region = content.toml(kind)
    if region is None:
        return _skeleton(content, offset)
    document = scan(content.text, *region)
    cursor = find(content, document, offset)
    if cursor is None or content.line_start(cursor.start) != content.line_start(cursor.end):
        return []
    found = _Finder(kind, content, document, cursor, known).run()
    return sorted(found, key=lambda one: (one.rank, one.label))


def _skeleton(content: Text, offset: int) -> list[Completion]:
    """Offer the skeleton of a recipe on the first line of an empty file."""
    end = content.line_end(0)
    if offset > end or content.text[:end].strip("\ufeff \t+") or content.text[end:].strip():
        return []
    start = 1 if content.text.startswith("\ufeff") and offset else 0
    body = '+++\ntitle = "{}"\nreturns = "{}"\n+++\n\n{}\n'
    return [
        Completion(
            label="+++ recipe +++",
            kind="file",
            span=content.span(start, end),
            text=body.format("What it does", "text", "Write the instructions here."),
            snippet=body.format("${1:What it does}", "${2|text,file,tree|}", "${0:Write the instructions here.}"),
            filter="+++",
            detail="front matter and instructions",
            documentation="A recipe begins with TOML between two lines of `+++`; the instructions follow.",
        )
    ]


class _Finder:
    def __init__(self, kind: FileKind, content: Text, document: Document, cursor: Cursor, known: Known) -> None:
        self.kind = kind
        self.content = content
        self.document = document
        self.cursor = cursor
        self.known = known
        self.root = shape_of(kind)
        self.span = content.span(cursor.start, cursor.end)

    def run(self) -> Iterator[Completion]:
        """Yield the completions."""
        cursor = self.cursor
        if cursor.kind == "header" and cursor.header is not None:
            yield from self._headers(cursor.header)
        elif cursor.kind == "value":
            yield from self._values()
        else:
            yield from self._keys()
            if cursor.kind == "statement" and self._ends_its_table():
                yield from self._headers(None)

    # Keys

    def _keys(self) -> Iterator[Completion]:
        cursor = self.cursor
        shape = self._shape(cursor.path)
        if shape is None or (self.kind is FileKind.CONFIG and not cursor.path and cursor.bare):
            return  # the tables of config.toml are written as headers
        present = self.document.names_in(cursor.path)
        if cursor.part is not None:
            present -= {cursor.part.name}
        if shape.fields is None:
            yield from self._free_keys(shape, present)
            return
        taken = {shape.fields[name].other for name in present if name in shape.fields}
        for name, field in shape.fields.items():
            if name in present or name in taken or field.other is not None or not self._is_supported(name):
                continue
            yield self._key(name, field, shape)

    def _free_keys(self, shape: FieldShape, present: set[str]) -> Iterator[Completion]:
        if shape.keys is None or shape.values is None:
            return
        for name in self._names(shape.keys):
            if name not in present:
                yield self._key(name, shape.values, shape, doc=descriptions.of_name(shape.keys, name, self.known))

    def _key(self, name: str, field: FieldShape, table: FieldShape, doc: str = "") -> Completion:
        cursor = self.cursor
        written = key(name)
        plain, snippet = written, None
        if cursor.bare:
            value, filled = _template(field, self._names(field.names) if field.names else [])
            plain = f"{written} = {value}{cursor.after}"
            snippet = f"{_escaped(written)} = {filled}{cursor.after}"
        return Completion(
            label=name,
            kind="key",
            span=self.span,
            text=plain,
            snippet=snippet,
            filter=written,
            detail=descriptions.of_kinds(field) + (", required" if field.required else ""),
            documentation=doc or descriptions.of_field(name, field, self._path_of(table, name)),
            rank=0 if field.required else 1,
        )

    def _path_of(self, table: FieldShape, name: str) -> Path:
        return (*self.cursor.path, name) if table.fields is not None else self.cursor.path

    def _is_supported(self, name: str) -> bool:
        """Return whether a field has an effect on the delegator to which the table belongs."""
        path = self.cursor.path
        if not path or path[-1] not in {"launch", "launch_config", "limits"} or path == ("limits",):
            return True
        supported = self._supported(path[:-1])
        return supported is None or name in (supported.limits if path[-1] == "limits" else supported.launch)

    def _supported(self, delegator: Path) -> Capabilities | None:
        """Return the capabilities of the delegator whose table is at a path; None if it has no tool or server yet."""
        tool = self._tool(delegator)
        if tool is None:
            return None
        server = self.known.configuration.model_servers.get(self.document.string((*delegator, "model_server")) or "")
        mode: Any = self.document.string((*delegator, "mode"))
        named = Delegator(name="", tool=tool or None, mode=mode)
        defined = self.known.configuration.definition_of(named)
        return declarations.capabilities_of(named, server.model_server if server is not None else None, defined)

    def _tool(self, delegator: Path) -> str | None:
        for spelled in ("tool", "llm_tool"):
            name = self.document.string((*delegator, spelled))
            if name is not None:
                return name
        return "" if self.document.string((*delegator, "model_server")) else None

    # Values

    def _values(self) -> Iterator[Completion]:
        cursor = self.cursor
        shape = self._shape(cursor.path)
        if shape is None or (cursor.value is not None and "\n" in cursor.value.text):
            return
        field = str(cursor.path[-1]) if cursor.path and isinstance(cursor.path[-1], str) else ""
        present = {item.text for item in cursor.array.items if item is not cursor.value} if cursor.array else set()
        quote = "'" if self.content.text.startswith("'", cursor.start) and cursor.value is not None else '"'
        doc = shape.doc and descriptions.of_field(field, shape, cursor.path)
        if shape.names is not None:
            for name in self._names(shape.names):
                if name not in present:
                    about = descriptions.of_name(shape.names, name, self.known)
                    yield self._value(name, string(name, quote), about or doc, kind="name")
        choices = self._choices(field)
        usual = [*(choices or shape.allowed), *shape.usual]
        for number, value in enumerate(usual):
            if isinstance(value, bool):
                yield self._value(str(value).lower(), str(value).lower(), doc, rank=number)
            elif value not in present:
                yield self._value(value, string(value, quote), choices.get(value, "") or doc, rank=number)
        if not shape.allowed and "boolean" in shape.kinds:
            for literal in ("true", "false"):
                yield self._value(literal, literal, doc)
        if cursor.value is None and "table" in shape.kinds and shape.fields is not None:
            for name, inner in shape.fields.items():
                if inner.other is None and len(shape.fields) <= 3:
                    plain, filled = _template(inner, [])
                    written = f"{{ {name} = {plain} }}"
                    snippet = f"{{ {name} = {filled} \\}}"
                    about = descriptions.of_field(name, inner, (*cursor.path, name))
                    yield self._value(written, written, about, snippet=snippet)

    def _choices(self, field: str) -> dict[str, str]:
        """Return the values that a launch field may have for the cursor's delegator, each with its description."""
        path = self.cursor.path
        if len(path) < 2 or path[-2] not in {"launch", "launch_config"}:
            return {}
        supported = self._supported(path[:-2])
        declared = (
            [supported]
            if supported is not None
            else [one for tool in declarations.tools().values() for one in tool.in_each_mode()]
        )
        return {
            one.value: f"**{one.title}**: {one.description}" if one.description else one.title
            for tool in declared
            for one in tool.launch.get(field, ())
        }

    def _value(
        self,
        label: str,
        written: str,
        doc: str,
        *,
        kind: Literal["value", "name"] = "value",
        snippet: str | None = None,
        rank: int = 1,
    ) -> Completion:
        after = self.cursor.after
        return Completion(
            label=label,
            kind=kind,
            span=self.span,
            text=written + after,
            snippet=snippet + after if snippet is not None else None,
            filter=written,
            documentation=doc,
            rank=rank,
        )

    # Headers

    def _ends_its_table(self) -> bool:
        """Return whether no statement of the cursor's table follows, which a header here would move to its table."""
        header = self.document.header_before(self.cursor.start)
        entries = header.entries if header is not None else self.document.root
        return not any(entry.start > self.cursor.end for entry in entries)

    def _headers(self, edited: Header | None) -> Iterator[Completion]:
        others = [header for header in self.document.headers if header is not edited]
        if edited is not None and edited.parts and any(_is_below(other.path, edited.path) for other in others):
            return  # renaming it would detach its sub-tables
        before = [header for header in others if header.start < self.cursor.start]
        current = before[-1] if before else None
        if self.kind is FileKind.CONFIG:
            yield from self._top_headers(others)
        else:
            yield from self._sub_headers((), self.root, others)
        if current is None or not current.parts:
            return
        depth = 2 if current.path[1:2] and isinstance(current.path[1], int) else 1
        base = current.path[:depth]
        shape = self._shape(base)
        made_by_header = any(header.path == base for header in before)
        if self.kind is FileKind.CONFIG and shape is not None and made_by_header:
            yield from self._sub_headers(base, shape, others)

    def _top_headers(self, others: list[Header]) -> Iterator[Completion]:
        dotted = {entry.parts[0].name for entry in self.document.root}
        for name, shape in (self.root.fields or {}).items():
            given = [header for header in others if header.parts and header.parts[0].name == name]
            if name in dotted:
                continue
            if shape.items is None and not given:
                yield self._header(f"[{name}]", shape)
            elif shape.items is not None and (not given or (given[0].array and all(map(_in_array, given)))):
                yield self._header(f"[[{name}]]", shape)

    def _sub_headers(self, base: Path, shape: FieldShape, others: list[Header]) -> Iterator[Completion]:
        known = shape.fields or {}
        words = [key(str(step)) for step in base if isinstance(step, str)]
        entries = [entry.parts[0].name for entry in self.document.entries if entry.table == base]
        deeper = [header.path[len(base)] for header in others if _is_below(header.path, base)]
        present = {str(name) for name in (*entries, *deeper)}
        taken = {known[name].other for name in present if name in known}
        for name, field in known.items():
            inner = field.fields is not None or field.values is not None
            if field.other is not None or "table" not in field.kinds or not inner or name in present | taken:
                continue
            yield self._header("[" + ".".join([*words, key(name)]) + "]", field)

    def _header(self, written: str, shape: FieldShape) -> Completion:
        return Completion(
            label=written,
            kind="table",
            span=self.span,
            text=written,
            filter=written if self.cursor.header is not None else written.strip("[]"),
            detail="table" if written.count("[") == 1 else "new table in an array",
            documentation=shape.doc or (shape.items.doc if shape.items else ""),
            rank=2,
        )

    # Shapes and names

    def _shape(self, path: Path) -> FieldShape | None:
        return descriptions.at(self.root, path)

    def _names(self, kind: Names) -> list[str]:
        """Return the names of a kind, including those that only this text defines."""
        if kind == "models":
            above = self.cursor.path[:-1]
            server = self.document.string((*above, "model_server"))
            return self.known.names(kind, of=server or self._tool(above) or None)
        names = self.known.names(kind)
        if self.kind is FileKind.CONFIG and kind in _LISTS:
            for path, value in self.document.values.items():
                own = len(path) == 3 and path[0] == _LISTS[kind] and path[2] == "name"
                if own and value.kind == "string" and re.fullmatch(NAME_PATTERN, value.text):
                    names.append(value.text)
        return sorted(set(names))


def _in_array(header: Header) -> bool:
    return header.array or len(header.parts) > 1


def _is_below(path: Path, base: Path) -> bool:
    return len(path) > len(base) and path[: len(base)] == base


def _template(field: FieldShape, names: list[str]) -> tuple[str, str]:
    """Return a value for a field, as plain text and as a snippet."""
    kind = field.kinds[0] if field.kinds else "string"
    if field.allowed:
        values = [str(value).lower() if isinstance(value, bool) else string(value) for value in field.allowed]
        return values[0], _choice(values)
    if kind == "string":
        written = [string(name) for name in names[:50]]
        return '""', _choice(written) if written else '"$1"'
    if kind == "boolean":
        return ("false", _choice(["false", "true"])) if field.default is True else ("true", _choice(["true", "false"]))
    if kind in {"integer", "number"}:
        number = str(field.default if field.default is not None else 1)
        return number, f"${{1:{number}}}"
    return ("[]", "[$1]") if kind == "array" else ("{}", "{ $1 \\}")


def _choice(values: list[str]) -> str:
    return "${1|" + ",".join(re.sub(r"([\\,|$}])", r"\\\1", value) for value in values) + "|}"


def _escaped(text: str) -> str:
    return re.sub(r"([\\$}])", r"\\\1", text)
