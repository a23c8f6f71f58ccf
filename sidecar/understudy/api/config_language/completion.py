"""What can be written at a cursor: keys that the table does not have yet, values, headers, names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from understudy.config.fields import Names, Shape
from understudy.config.folders import FileKind
from understudy.config.sources import MAX_BYTES
from understudy.faces.lsp.own_files import meaning
from understudy.faces.lsp.own_files.cursor import Cursor, find
from understudy.faces.lsp.own_files.known import Known, shape_of
from understudy.faces.lsp.own_files.scan import Document, Header, Path, scan
from understudy.faces.lsp.own_files.spelling import key, string
from understudy.faces.lsp.own_files.text import Span, Text
from understudy.model.delegators import NAME_PATTERN

_LISTS: dict[Names, str] = {"delegators": "delegators", "model_servers": "model_servers", "checks": "checks"}


@dataclass(frozen=True)
class Completion:
    """Something that can be written."""

    label: str
    kind: Literal["key", "value", "name", "table", "file"]
    span: Span
    """What it takes the place of: often a word, sometimes nothing."""
    text: str
    """What to write, for every client."""
    snippet: str | None = None
    """The same with places to fill in, in LSP's snippet syntax, for clients that have it."""
    filter: str = ""
    """What a client compares with what stands in ``span``."""
    detail: str = ""
    documentation: str = ""
    """Markdown."""
    deprecated: bool = False
    rank: int = 1
    """Smaller ones first; then by label."""


def complete(kind: FileKind, text: str, line: int, character: int, known: Known) -> list[Completion]:
    """Return what can be written at a place of ``text``, the most useful first; spans lie on the line of the place."""
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
    """Offer the beginning of a recipe on the first line, where there is nothing but blanks."""
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
        """Yield what fits."""
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
            if name in present or name in taken or field.other is not None or not self._is_honoured(name, field):
                continue
            yield self._key(name, field, shape)

    def _free_keys(self, shape: Shape, present: set[str]) -> Iterator[Completion]:
        if shape.keys is None or shape.values is None:
            return
        for name in self._names(shape.keys):
            if name not in present:
                yield self._key(name, shape.values, shape, doc=meaning.of_name(shape.keys, name, self.known))

    def _key(self, name: str, field: Shape, table: Shape, doc: str = "") -> Completion:
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
            detail=meaning.of_kinds(field) + (", required" if field.required else ""),
            documentation=doc or meaning.of_field(name, field, self._path_of(table, name)),
            rank=0 if field.required else 1,
        )

    def _path_of(self, table: Shape, name: str) -> Path:
        return (*self.cursor.path, name) if table.fields is not None else self.cursor.path

    def _is_honoured(self, name: str, field: Shape) -> bool:
        """Tell whether a field has an effect on the delegator that the table is of."""
        if field.idle:
            return False
        path = self.cursor.path
        if not path or path[-1] not in {"launch", "launch_config", "limits"} or path == ("limits",):
            return True
        return meaning.is_honoured(str(path[-1]), name, self._tool(path[:-1]))

    def _tool(self, delegator: Path) -> str | None:
        for spelled in ("tool", "llm_tool"):
            said = self.document.string((*delegator, spelled))
            if said is not None:
                return said
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
        doc = shape.doc and meaning.of_field(field, shape, cursor.path)
        if shape.names is not None:
            for name in self._names(shape.names):
                if name not in present:
                    told = meaning.of_name(shape.names, name, self.known)
                    yield self._value(name, string(name, quote), told or doc, kind="name")
        usual = [*shape.allowed, *shape.usual, *self._own_words(field)]
        for number, said in enumerate(usual):
            if isinstance(said, bool):
                yield self._value(str(said).lower(), str(said).lower(), doc, rank=number)
            elif said not in present:
                yield self._value(said, string(said, quote), doc, rank=number)
        if not shape.allowed and "boolean" in shape.kinds:
            for said in ("true", "false"):
                yield self._value(said, said, doc)
        if cursor.value is None and "table" in shape.kinds and shape.fields is not None:
            for name, inner in shape.fields.items():
                if inner.other is None and not inner.idle and len(shape.fields) <= 3:
                    value, filled = _template(inner, [])
                    written = f"{{ {name} = {value} }}"
                    snippet = f"{{ {name} = {filled} \\}}"
                    told = meaning.of_field(name, inner, (*cursor.path, name))
                    yield self._value(written, written, told, snippet=snippet)

    def _own_words(self, field: str) -> Iterable[str]:
        if field != "permission_mode":
            return ()
        if self._tool(self.cursor.path[:-2]) not in {None, "claude"}:
            return ()
        from understudy.runners.clis.claude import MODES  # noqa: PLC0415 - brings what it takes to run it

        return MODES

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
        """Tell whether no statement of the cursor's table follows: a header here would take it over."""
        header = self.document.header_before(self.cursor.start)
        entries = header.entries if header is not None else self.document.root
        return not any(entry.start > self.cursor.end for entry in entries)

    def _headers(self, edited: Header | None) -> Iterator[Completion]:
        others = [header for header in self.document.headers if header is not edited]
        if edited is not None and edited.parts and any(_is_below(other.path, edited.path) for other in others):
            return  # its own tables would lose it
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

    def _sub_headers(self, base: Path, shape: Shape, others: list[Header]) -> Iterator[Completion]:
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

    def _header(self, written: str, shape: Shape) -> Completion:
        return Completion(
            label=written,
            kind="table",
            span=self.span,
            text=written,
            filter=written if self.cursor.header is not None else written.strip("[]"),
            detail="table" if written.count("[") == 1 else "one more in a list of tables",
            documentation=shape.doc or (shape.items.doc if shape.items else ""),
            rank=2,
        )

    # What there is

    def _shape(self, path: Path) -> Shape | None:
        return meaning.at(self.root, path)

    def _names(self, kind: Names) -> list[str]:
        """Return the names of a kind, those that only this text gives included."""
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


def _template(field: Shape, names: list[str]) -> tuple[str, str]:
    """Return a value that the field can have, and the same as a snippet."""
    kind = field.kinds[0] if field.kinds else "string"
    if field.allowed:
        values = [str(said).lower() if isinstance(said, bool) else string(said) for said in field.allowed]
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
