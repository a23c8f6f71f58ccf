"""Describe the fields of configuration files: types and meaning, for JSON Schemas and forms.

Everything comes from the declarations that decode the files (``model.config.delegators``,
``parsing.file_schema``): names, types, docstrings. ``_FACTS`` adds what types cannot express (the pattern of a
string, the minimum of a number). Launch fields that no tool and no backend supports are left out: ``validation``
refuses them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from understudy.config.discovery import declarations
from understudy.config.discovery.server_presets import kinds
from understudy.config.locations import FileKind
from understudy.config.parsing import file_schema
from understudy.config.validation.config_sections import SECTIONS, Bound
from understudy.model.config.delegators import NAME_PATTERN, Delegator, KeyReference, Launch, Limits, ModelServer, Price
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.config.schedules import Schedule
from understudy.model.config.tool_definitions import FailureRule, ToolDefinition
from understudy.model.evidence.checks import Check

Schema = dict[str, Any]
"""A JSON Schema in the form that editors support best: draft 7, without references."""
Facts = Mapping[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The latest dialect that schema-driven TOML editors support completely."""

_TITLES = {
    FileKind.WORKTREES: "Understudy: worktrees.toml",
    FileKind.DEFAULTS: "Understudy: defaults.toml",
    FileKind.CONFIG: "Understudy: config.toml",
    FileKind.DELEGATOR: "Understudy: delegators/<name>.toml",
    FileKind.ROUTE: "Understudy: routes/<name>.toml",
    FileKind.MODEL_SERVER: "Understudy: model-servers/<name>.toml",
    FileKind.CHECK: "Understudy: checks/<name>.toml",
    FileKind.SCHEDULE: "Understudy: schedules/<name>.toml",
    FileKind.NOTIFICATION: "Understudy: notifications/<name>.toml",
    FileKind.RECIPE: "Understudy: the front matter of recipes/<name>.md",
    FileKind.TOOL: "Understudy: tools/<name>.toml",
}


def schema_of(kind: FileKind) -> Schema:
    """Return the schema of a file of this kind (of a recipe: of its front matter)."""
    maker = _Maker()
    match kind:
        case FileKind.DELEGATOR:
            return _with_own_name(maker.table(Delegator))
        case FileKind.ROUTE:
            return _with_own_name(maker.table(file_schema.RouteTable))
        case FileKind.MODEL_SERVER:
            return _with_own_name(maker.table(ModelServer))
        case FileKind.CHECK:
            return _with_own_name(maker.table(Check))
        case FileKind.SCHEDULE:
            return _with_own_name(maker.table(Schedule))
        case FileKind.NOTIFICATION:
            return _with_own_name(maker.table(NotificationReceiver))
        case FileKind.TOOL:
            return _with_own_name(maker.table(ToolDefinition))
        case FileKind.RECIPE:
            return maker.table(file_schema.RecipeTable)
        case FileKind.DEFAULTS | FileKind.WORKTREES:
            return maker.section(kind)
        case FileKind.CONFIG:
            sections = {name: maker.section(name) for name in file_schema.TABLES}
            lists = {
                name: {"description": doc_of(python), "type": "array", "items": maker.table(python)}
                for name, python in file_schema.LISTS.items()
            }
            return _table("Understudy's configuration, written by hand.", {**sections, **lists})


_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_NAME: dict[str, Any] = {"pattern": NAME_PATTERN}
_POSITIVE: dict[str, Any] = {"exclusiveMinimum": 0}
_FILLED: dict[str, Any] = {"minItems": 1}

_FACTS: dict[tuple[type, str], dict[str, Any]] = {
    (Delegator, "name"): _NAME,
    # Files may define more of them.
    (Delegator, "tool"): {"anyOf": [{"enum": sorted(declarations.runnable_tools())}, {"pattern": NAME_PATTERN}]},
    (Delegator, "fallback"): _FILLED,
    (ModelServer, "name"): _NAME,
    (ModelServer, "kind"): {"enum": list(kinds())},
    (ModelServer, "base_url"): {"pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s]+$"},
    (ModelServer, "protocols"): {"items": {"enum": list(declarations.protocols())}},
    (ModelServer, "max_concurrent"): _POSITIVE,
    **{(Price, name): {"pattern": r"^\d{1,6}(\.\d{1,9})?$"} for name in Price.__struct_fields__},
    (KeyReference, "from_env"): {"pattern": _VARIABLE},
    (KeyReference, "keyring"): _NAME,
    (KeyReference, "file"): {"pattern": "^/"},
    (Check, "name"): _NAME,
    (Check, "argv"): _FILLED,
    (Check, "timeout_seconds"): _POSITIVE,
    (Check, "required"): {"default": True},
    (Launch, "output"): {"default": "text"},
    (Limits, "max_usd"): {"pattern": r"^\d{1,9}(\.\d{1,9})?$"},
    **{(Limits, name): _POSITIVE for name in Limits.__struct_fields__ if name != "max_usd"},
    (file_schema.RecipeTable, "rounds"): {"default": 0, "minimum": 0},
    (ToolDefinition, "name"): _NAME,
    (ToolDefinition, "command"): _FILLED,
    (FailureRule, "exit_codes"): {**_FILLED, "items": {"minimum": 1}},
    (FailureRule, "contains"): _FILLED,
}  # fmt: skip
"""What the types do not express, in the words of JSON Schema."""


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_CONCERNS: Mapping[str, tuple[str, ...]] = {
    "pattern": ("string",),
    "anyOf": ("string",),
    "enum": ("string",),
    "minItems": ("array",),
    **dict.fromkeys(("exclusiveMinimum", "minimum", "maximum"), ("integer", "number")),
}
"""Fact → the types of the values that it is about."""


class _Maker:
    """Makes schemas from structures, without launch fields that nothing supports."""

    def __init__(self) -> None:
        declared = [*declarations.tools().values(), *declarations.backends().values()]
        self.launch = frozenset(
            name for capabilities in declared for mode in capabilities.in_each_mode() for name in mode.launch
        )

    def section(self, name: str) -> Schema:
        """Return the schema of a table that ``config.toml`` has once."""
        if name not in SECTIONS:
            return self.table(file_schema.TABLES[name])
        section = SECTIONS[name]
        facts: dict[str, Facts] = {}
        for field in section.fields:
            bound, unset = section.bounds.get(field.name, Bound()), field.default in {None, msgspec.NODEFAULT}
            facts[field.name] = {
                "exclusiveMinimum": bound.above,
                "minimum": bound.least,
                "maximum": bound.most,
                "default": section.defaults.get(field.name) if unset else field.default,
            }
        return self.table(section.structure, section.doc, facts)

    def table(self, python: type[msgspec.Struct], doc: str = "", facts: Mapping[str, Facts] | None = None) -> Schema:
        """Return the schema of a table of this structure; ``facts`` name its fields, and override the others."""
        docs, hints = field_docs(python), typing.get_type_hints(python)
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for field in msgspec.structs.fields(python):
            name = field.name
            if (python is Launch and name not in self.launch) or (facts is not None and name not in facts):
                continue
            more = {key: fact for key, fact in (facts or {}).get(name, {}).items() if fact is not None}
            properties[name] = self._field(hints[name], docs.get(name, ""), {**_facts(python, name), **more})
            if field.required:
                required.append(name)
        return _table(doc or doc_of(python), properties, required)

    def _field(self, annotation: Any, doc: str, facts: Facts) -> Schema:
        parts = [part for alternative in _alternatives(annotation) if (part := self._part(alternative, facts))]
        docs = [doc, *(part.pop("description", "") for part in parts)]
        schema = {"description": text} if (text := next(filter(None, docs), "")) else {}
        schema |= {"anyOf": parts} if len(parts) > 1 else dict(*parts)
        return schema | ({"default": facts["default"]} if facts.get("default") is not None else {})

    def _part(self, annotation: Any, facts: Facts) -> Schema:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        part: Schema = {}
        if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
            return self.table(annotation)
        if origin is Literal:
            part = {"type": "string", "enum": list(arguments)}
        elif origin is list:
            part = {"type": "array", "items": self._field(arguments[0], "", facts.get("items", {}))}
        elif origin is dict:
            inner = self._field(arguments[1], "", {})
            part = {"type": "object"} | ({"additionalProperties": inner} if inner else {})
        elif annotation in _TYPES:
            part = {"type": _TYPES[annotation]}
        return part | {key: facts[key] for key in _CONCERNS if key in facts and part.get("type") in _CONCERNS[key]}


def _table(doc: str, properties: dict[str, Schema], required: list[str] | None = None) -> Schema:
    schema = {"description": doc, "type": "object", "properties": properties}
    return schema | ({"required": required} if required else {}) | {"additionalProperties": False}


def _facts(python: type, name: str) -> dict[str, Any]:
    return {key: fact for base in python.__mro__ for key, fact in _FACTS.get((base, name), {}).items()}


def _with_own_name(schema: Schema) -> Schema:
    """Return the schema of a file with one entry, which may omit its name: the file's name is the default."""
    schema["properties"]["name"]["description"] = "The file's name without its ending; may be left out."
    required = [name for name in schema.pop("required", ()) if name != "name"]
    closed = schema.pop("additionalProperties")
    return schema | ({"required": required} if required else {}) | {"additionalProperties": closed}


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
    schema = {"$schema": DIALECT, "title": _TITLES[kind], **schema_of(kind)}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
