"""Read YAML front matter within limits: strings and lists of strings, with the place of every field."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from understudy.config.findings import LocatedFinding
from understudy.config.parsing.source_file import Source
from understudy.config.parsing.yaml_syntax import NULL, Refused, compose
from understudy.model.errors import Position, Range

MAX_HEADER_BYTES = 32 * 1024
"""The largest front matter; a long description has a few kilobytes."""
MAX_NODES = 1000
MAX_NESTING = 12

_HEADER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_OPENING = re.compile(r"\A\ufeff?---[ \t]*\r?\n")
_FIELD = re.compile(r"^([A-Za-z][A-Za-z0-9_-]*):[ \t]+([^\s\"'\[{|>&*!#].*?)[ \t]*\r?$", re.MULTILINE)


@dataclass
class Header:
    """The fields of a front matter, and the text below it."""

    values: dict[str, str | list[str] | None] = field(default_factory=dict)
    """Field → its text, its list of texts, or None for any other value."""
    places: dict[str, Range] = field(default_factory=dict)
    body: str = ""


def read_header(source: Source) -> tuple[Header | None, list[LocatedFinding]]:
    """Return the front matter of a file, or ``None`` and the problem that prevents it; never raises."""
    try:
        text = source.data.decode()
    except UnicodeDecodeError as error:
        at = _range(source.data.count(b"\n", 0, error.start), 0)
        return None, [
            source.problem("The file is not UTF-8 text.", hint="Save it as UTF-8.", at=at, code="syntax"),
        ]
    match = _HEADER.match(text)
    if match is None:
        message = "It has no front matter."
        if _OPENING.match(text):
            message = "The front matter has no closing ---."
        hint = "An agent begins with YAML between two lines of ---."
        return None, [source.problem(message, hint=hint, code="syntax")]
    header, remarks = Header(body=text[match.end() :].replace("\r\n", "\n").strip()), []
    try:
        try:
            _fill(header, match[1])
        except Refused as refused:
            # Claude Code reads such lines, and most published agents have one: `description: Use it for: this`.
            quoted = _FIELD.sub(lambda line: f"{line[1]}: {json.dumps(line[2])}", match[1])
            try:
                _fill(header, quoted)
            except Refused:
                raise refused from None
            message = f"{refused.message} The rest of the line is taken as the value."
            at = _range(refused.line + 1, refused.column)
            hint = "Put the value in quotation marks."
            remarks.append(source.problem(message, hint=hint, at=at, severity="warning", code="syntax"))
    except Refused as refused:
        at = _range(refused.line + 1, refused.column)
        hint = "Correct the YAML between the lines of ---; put text with `: ` or ` #` in quotation marks."
        return None, [source.problem(refused.message, hint=hint, at=at, code="syntax")]
    return header, remarks


def _fill(header: Header, text: str) -> None:
    """Read the fields; raise ``Refused`` with a place, counted from the first line of the YAML."""
    import yaml  # here, because few requests need it

    header.values.clear()
    header.places.clear()
    if len(text.encode()) > MAX_HEADER_BYTES:
        raise Refused(f"The front matter is larger than {MAX_HEADER_BYTES // 1024} KiB.")
    root = compose(text, most_nodes=MAX_NODES, most_levels=MAX_NESTING)
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise Refused("The front matter is not a list of `field: value`.", root.start_mark.line)
    for key, value in root.value:
        line, column = key.start_mark.line, key.start_mark.column
        if not isinstance(key, yaml.ScalarNode):
            raise Refused("The name of a field is not a text.", line, column)
        if key.value in header.values:
            raise Refused(f"The field `{key.value[:64]}` occurs twice.", line, column)
        header.values[key.value] = _plain(yaml, value)
        header.places[key.value] = _range(line + 1, column)


def _plain(yaml: Any, node: Any) -> str | list[str] | None:
    if isinstance(node, yaml.ScalarNode):
        return None if node.tag == NULL else str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return [str(item.value) for item in node.value]
    return None


def _range(line: int, column: int) -> Range:
    at = Position(line=line, character=column)
    return Range(start=at, end=at)
