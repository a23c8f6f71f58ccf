"""Describe the fields of configuration files: types and meaning, for JSON Schemas and forms.

Everything comes from the declarations that decode the files (``model.config.delegators``,
``parsing.file_schema``): names, types, docstrings. ``_FACTS`` adds what types cannot express (the pattern of a
string, the minimum of a number). Launch fields that no tool and no backend supports are left out: ``validation``
refuses them.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import json
import textwrap
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from understudy.config.discovery import declarations
from understudy.config.discovery.server_presets import KINDS
from understudy.config.locations import FileKind
from understudy.config.parsing import file_schema
from understudy.config.validation.config_sections import SECTIONS, Bound
from understudy.model.config.delegators import NAME_PATTERN, Delegator, KeyReference, Launch, Limits, ModelServer, Price
from understudy.model.config.tool_definitions import FailureRule, ToolDefinition
from understudy.model.evidence.checks import Check

Kind = Literal["string", "integer", "number", "boolean", "array", "table"]

_KINDS: dict[Any, Kind] = {str: "string", int: "integer", float: "number", bool: "boolean"}


DIALECT = "http://json-schema.org/draft-07/schema#"
"""The latest dialect that schema-driven TOML editors support completely."""

_TITLES = {
    FileKind.DEFAULTS: "Understudy: defaults.toml",
    FileKind.CONFIG: "Understudy: config.toml",
    FileKind.DELEGATOR: "Understudy: delegators/<name>.toml",
    FileKind.MODEL_SERVER: "Understudy: model-servers/<name>.toml",
    FileKind.CHECK: "Understudy: checks/<name>.toml",
    FileKind.RECIPE: "Understudy: the front matter of recipes/<name>.md",
    FileKind.TOOL: "Understudy: tools/<name>.toml",
}


@dataclass(frozen=True)
class FieldShape:
    """What a file accepts in one place; without ``kinds``: anything."""

    doc: str = ""
    kinds: tuple[Kind, ...] = ()
    allowed: tuple[str | bool, ...] = ()
    """The only valid values."""
    tool: bool = False
    """A string here is the name of a tool."""
    fields: Mapping[str, FieldShape] | None = None
    """The valid keys; ``None``: the user chooses the keys."""
    values: FieldShape | None = None
    """The shape of the values under keys that the user chooses."""
    items: FieldShape | None = None
    required: bool = False
    default: Any = None
    """The default."""
    pattern: str | None = None
    above: float | None = None
    least: float | None = None
    most: float | None = None
    filled: bool = False
    """An array with at least one element."""


def shape_of(kind: FileKind) -> FieldShape:
    """Return the shape of a file of this kind (of a recipe: of its front matter)."""
    maker = _Maker()
    match kind:
        case FileKind.DELEGATOR:
            return _own_name(maker.table(Delegator))
        case FileKind.MODEL_SERVER:
            return _own_name(maker.table(ModelServer))
        case FileKind.CHECK:
            return _own_name(maker.table(Check))
        case FileKind.TOOL:
            return _own_name(maker.table(ToolDefinition))
        case FileKind.RECIPE:
            return maker.table(file_schema.RecipeTable)
        case FileKind.DEFAULTS:
            return maker.section("defaults")
        case FileKind.CONFIG:
            sections = {name: maker.section(name) for name in file_schema.TABLES}
            lists = {
                name: FieldShape(doc=doc_of(python), kinds=("array",), items=maker.table(python))
                for name, python in file_schema.LISTS.items()
            }
            doc = "Understudy's configuration, written by hand."
            return FieldShape(doc=doc, kinds=("table",), fields={**sections, **lists})


_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_NAME: dict[str, Any] = {"pattern": NAME_PATTERN}
_POSITIVE: dict[str, Any] = {"above": 0}

_FACTS: dict[tuple[type, str], dict[str, Any]] = {
    (Delegator, "name"): _NAME,
    (Delegator, "tool"): {"tool": True},
    (Delegator, "fallback"): {"filled": True},
    (ModelServer, "name"): _NAME,
    (ModelServer, "kind"): {"allowed": tuple(KINDS)},
    (ModelServer, "base_url"): {"pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s]+$"},
    (ModelServer, "max_concurrent"): _POSITIVE,
    **{(Price, name): {"pattern": r"^\d{1,6}(\.\d{1,9})?$"} for name in Price.__struct_fields__},
    (KeyReference, "from_env"): {"pattern": _VARIABLE},
    (KeyReference, "keyring"): _NAME,
    (KeyReference, "file"): {"pattern": "^/"},
    (Check, "name"): _NAME,
    (Check, "argv"): {"filled": True},
    (Check, "timeout_seconds"): _POSITIVE,
    (Check, "required"): {"default": True},
    (Launch, "output"): {"default": "text"},
    (Limits, "max_usd"): {"pattern": r"^\d{1,9}(\.\d{1,9})?$"},
    **{(Limits, name): _POSITIVE for name in Limits.__struct_fields__ if name != "max_usd"},
    (file_schema.RecipeTable, "rounds"): {"default": 0, "least": 0},
    (ToolDefinition, "name"): _NAME,
    (ToolDefinition, "command"): {"filled": True},
    (FailureRule, "exit_codes"): {"filled": True, "each": {"least": 1}},
    (FailureRule, "contains"): {"filled": True},
}  # fmt: skip
"""What the types do not express; ``each`` is for an array's elements."""


class _Maker:
    """Makes shapes from structures, without launch fields that nothing supports."""

    def __init__(self) -> None:
        declared = [*declarations.tools().values(), *declarations.backends().values()]
        self.launch = frozenset(
            name for capabilities in declared for mode in capabilities.in_each_mode() for name in mode.launch
        )

    def section(self, name: str) -> FieldShape:
        """Return the shape of a table that ``config.toml`` has once."""
        if name not in SECTIONS:
            return self.table(file_schema.TABLES[name])
        section = SECTIONS[name]
        table = self.table(section.structure)
        shapes: dict[str, FieldShape] = {}
        for field in section.fields:
            if (shape := (table.fields or {}).get(field.name)) is not None:
                default = (
                    section.defaults.get(field.name) if field.default in {None, msgspec.NODEFAULT} else field.default
                )
                bound = section.bounds.get(field.name, Bound())
                facts = {"least": bound.least, "above": bound.above, "most": bound.most, "default": default}
                shapes[field.name] = replaced(
                    shape, **{key: value for key, value in facts.items() if value is not None}
                )
        return replaced(table, doc=section.doc or table.doc, fields=shapes)

    def table(self, python: type[msgspec.Struct]) -> FieldShape:
        """Return the shape of a table of this structure."""
        docs = field_docs(python)
        hints = typing.get_type_hints(python)
        shapes: dict[str, FieldShape] = {}
        for field in msgspec.structs.fields(python):
            name = field.name
            if python is Launch and name not in self.launch:
                continue
            shape = self._typed(hints[name], _facts(python, name))
            if (python, name) == (ModelServer, "protocols") and shape.items is not None:
                shape = replaced(shape, items=replaced(shape.items, allowed=tuple(declarations.protocols())))
            shapes[name] = replaced(shape, doc=docs.get(name, shape.doc), required=field.required)
        return FieldShape(doc=doc_of(python), kinds=("table",), fields=shapes)

    def _typed(self, annotation: Any, facts: dict[str, Any]) -> FieldShape:
        facts_of_items = facts.pop("each", {})
        shape = FieldShape()
        for part in _alternatives(annotation):
            origin, arguments = typing.get_origin(part), typing.get_args(part)
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                table = self.table(part)
                shape = replaced(shape, kinds=(*shape.kinds, "table"), fields=table.fields, doc=shape.doc or table.doc)
            elif origin is Literal:
                shape = replaced(shape, kinds=(*shape.kinds, "string"), allowed=arguments)
            elif origin is list:
                shape = replaced(
                    shape, kinds=(*shape.kinds, "array"), items=self._typed(arguments[0], dict(facts_of_items))
                )
            elif origin is dict:
                inner = self._typed(arguments[1], {})
                shape = replaced(shape, kinds=(*shape.kinds, "table"), values=inner)
            elif part in _KINDS:
                shape = replaced(shape, kinds=(*shape.kinds, _KINDS[part]))
        return replaced(shape, **facts)


def _facts(python: type, name: str) -> dict[str, Any]:
    return {key: fact for base in python.__mro__ for key, fact in _FACTS.get((base, name), {}).items()}


def replaced(shape: FieldShape, **changes: Any) -> FieldShape:
    """Return the shape with these attributes changed."""
    return dataclasses.replace(shape, **changes)


def json_schema(shape: FieldShape) -> dict[str, Any]:
    """Return the shape as JSON Schema in the form that editors support best: draft 7, without references."""
    parts = [_part(shape, kind) for kind in shape.kinds]
    schema: dict[str, Any] = {"description": shape.doc} if shape.doc else {}
    if len(parts) == 1:
        schema |= parts[0]
    elif parts:
        schema["anyOf"] = parts
    if shape.default is not None:
        schema["default"] = shape.default
    return schema


def _part(shape: FieldShape, kind: Kind) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "object" if kind == "table" else kind}
    if kind == "table" and shape.fields is not None:
        part["properties"] = {name: json_schema(inner) for name, inner in shape.fields.items()}
        required = [name for name, inner in shape.fields.items() if inner.required]
        if required:
            part["required"] = required
        part["additionalProperties"] = False
    elif kind == "table" and shape.values is not None and shape.values != FieldShape():
        part["additionalProperties"] = json_schema(shape.values)
    elif kind == "array":
        part["items"] = json_schema(shape.items) if shape.items is not None else {}
        if shape.filled:
            part["minItems"] = 1
    elif kind == "string" and shape.tool:
        # Files may define more of them.
        part["anyOf"] = [{"enum": sorted(declarations.runnable_tools())}, {"pattern": NAME_PATTERN}]
    elif kind == "string" and shape.pattern is not None:
        part["pattern"] = shape.pattern
    elif kind in {"integer", "number"}:
        if shape.above is not None:
            part["exclusiveMinimum"] = shape.above
        if shape.least is not None:
            part["minimum"] = shape.least
        if shape.most is not None:
            part["maximum"] = shape.most
    if shape.allowed:
        part["enum"] = list(shape.allowed)
    return part


def _own_name(shape: FieldShape) -> FieldShape:
    """Return the shape of a file with one entry, which may omit its name: the file's name is the default."""
    fields = dict(shape.fields or {})
    fields["name"] = replaced(
        fields["name"], required=False, doc="The file's name without its ending; may be left out."
    )
    return replaced(shape, fields=fields)


def _alternatives(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        return [part for part in typing.get_args(annotation) if part is not type(None)]
    return [annotation]


def doc_of(python: type) -> str:
    """Return the class's own docstring as one line of Markdown (reStructuredText's double ticks become single)."""
    docstring = python.__dict__.get("__doc__")
    return _prose(docstring) if isinstance(docstring, str) else ""


def field_docs(python: type) -> dict[str, str]:
    """Return the documentation of the fields of a structure and its bases, by name, as far as there is any."""
    docs: dict[str, str] = {}
    for base in reversed(python.__mro__):
        if base is not msgspec.Struct and issubclass(base, msgspec.Struct):
            docs |= docs_below(base)
    return docs


@functools.cache
def docs_below(python: type) -> dict[str, str]:
    """Return the string that follows each assignment of a class body, by the name assigned."""
    (declaration,) = ast.parse(textwrap.dedent(inspect.getsource(python))).body
    docs: dict[str, str] = {}
    name: str | None = None
    for statement in typing.cast("ast.ClassDef", declaration).body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=assigned)) | ast.Assign(targets=[ast.Name(id=assigned)]):
                name = assigned
            case ast.Expr(value=ast.Constant(value=str(text))) if name is not None:
                docs[name] = _prose(text)
                name = None
            case _:
                name = None
    return docs


def _prose(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split()).replace("``", "`")


@functools.cache
def schema_document(kind: FileKind) -> str:
    """Return the schema of files of this kind; it depends only on the declarations."""
    schema = {"$schema": DIALECT, "title": _TITLES[kind], **json_schema(shape_of(kind))}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
