"""What may stand where in Understudy's own files, with its meaning: for editors, which ask before a file is complete.

Everything comes from the declarations that decode the files (``model.delegators``, ``shapes``): names,
types, docstrings. What types cannot say (whose name a string is, what a number must be above) is in
``_FACTS``. What every runner would refuse is not offered: ``semantics`` refuses the same.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from understudy.config import declared, semantics, shapes
from understudy.config.folders import FileKind
from understudy.config.load import KEEP_BYTES, KEEP_DAYS, SETUP_TIMEOUT_SECONDS
from understudy.config.semantics import ASKS_NOTHING, Abilities
from understudy.model.delegators import (
    NAME_PATTERN,
    Check,
    Delegator,
    Fits,
    KeyReference,
    Launch,
    Limits,
    ModelServer,
)

Kind = Literal["string", "integer", "number", "boolean", "array", "table"]
Names = Literal["tools", "model_servers", "delegators", "recipes", "checks", "models"]

_KINDS: dict[Any, Kind] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True)
class Shape:
    """What may stand in one place of a file; without ``kinds``: anything."""

    doc: str = ""
    kinds: tuple[Kind, ...] = ()
    allowed: tuple[str | bool, ...] = ()
    """The only values there are."""
    usual: tuple[str, ...] = ()
    """Some of the strings that make sense."""
    names: Names | None = None
    """Strings here are names of these."""
    keys: Names | None = None
    """Keys of this table are names of these."""
    fields: Mapping[str, Shape] | None = None
    """The keys that there are; ``None``: keys are the person's own."""
    values: Shape | None = None
    """What stands under a person's own keys."""
    items: Shape | None = None
    required: bool = False
    default: Any = None
    """What its absence means."""
    pattern: str | None = None
    above: float | None = None
    least: int | None = None
    filled: bool = False
    """An array with at least one element."""
    other: str | None = None
    """This is another tool's spelling of the field of this name."""
    idle: bool = False
    """Accepted, and asks for nothing beyond what happens anyway."""

    def at(self, step: str | int) -> Shape | None:
        """Return what may stand under a key or at an index; ``None``: nothing is known of it."""
        if isinstance(step, int):
            return self.items
        if self.fields is not None:
            return self.fields.get(step)
        return self.values


def shape_of(kind: FileKind, abilities: Mapping[str, Abilities], defaults: Mapping[str, Any] | None = None) -> Shape:
    """Return what a file of this kind holds (of a recipe: its front matter).

    ``abilities``: what the runners honour. ``defaults``: limits that hold where nothing is said, and ``slots``.
    """
    maker = _Maker(abilities, defaults or {})
    match kind:
        case FileKind.DELEGATOR:
            return _own_name(maker.table(Delegator))
        case FileKind.MODEL_SERVER:
            return _own_name(maker.table(ModelServer))
        case FileKind.RECIPE:
            return maker.table(shapes.RecipeTable)
        case FileKind.CONFIG:
            sections = {name: maker.section(name) for name in shapes.SECTIONS}
            lists = {
                name: Shape(doc=declared.doc_of(python), kinds=("array",), items=maker.table(python))
                for name, python in shapes.LISTS.items()
            }
            doc = "Understudy's configuration, written by hand."
            return Shape(doc=doc, kinds=("table",), fields={**sections, **lists})


_REFUSED: dict[type, frozenset[str]] = {
    Delegator: frozenset({"agent", "remote_agent"}),
    ModelServer: frozenset({"concurrency", "extra_env"}),
    shapes.RecipeTable: frozenset({"route"}),
}
"""Fields of the contract that nothing honours yet: ``semantics`` and ``recipes`` refuse them, so they are left out."""

_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_NAME: dict[str, Any] = {"pattern": NAME_PATTERN}
_POSITIVE: dict[str, Any] = {"above": 0}

_FACTS: dict[tuple[type, str], dict[str, Any]] = {
    (Delegator, "name"): _NAME,
    (Delegator, "tool"): {"names": "tools"},
    (Delegator, "model_server"): {"names": "model_servers"},
    (Delegator, "model"): {"names": "models"},
    (ModelServer, "name"): _NAME,
    (ModelServer, "kind"): {"allowed": semantics.KINDS},
    (ModelServer, "base_url"): {"pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s]+$"},
    (KeyReference, "from_env"): {"pattern": _VARIABLE},
    (KeyReference, "keyring"): _NAME,
    (KeyReference, "file"): {"pattern": "^/"},
    (Check, "name"): _NAME,
    (Check, "argv"): {"filled": True, "each": {"usual": ("{python}", "{tests}")}},
    (Check, "timeout_seconds"): _POSITIVE,
    (Check, "required"): {"default": True},
    (Launch, "command"): {
        "each": {"usual": ("{model}", "{prompt}", "{promptFile}", "{worktree}", "{sessionId}")},
    },
    (Launch, "output"): {"default": "text"},
    (ModelServer, "protocol"): {"default": "openai"},
    (Limits, "max_usd"): {"pattern": r"^\d{1,9}(\.\d{1,9})?$"},
    **{(Limits, name): _POSITIVE for name in Limits.__struct_fields__ if name != "max_usd"},
    (Fits, "languages"): {
        "each": {"usual": ("python", "javascript", "javascriptreact", "typescript", "typescriptreact", "go", "rust",
                           "java", "kotlin", "csharp", "c", "cpp", "ruby", "php", "swift", "scala", "lua",
                           "shellscript", "markdown")},
    },
    (shapes.DefaultsTable, "delegator"): {"names": "delegators"},
    (shapes.DefaultsTable, "recipes"): {"keys": "recipes", "under": {"names": "delegators"}},
    (shapes.WorktreesTable, "setup_timeout_seconds"): {"default": SETUP_TIMEOUT_SECONDS, "above": 0},
    (shapes.WorktreesTable, "keep_days"): {"default": KEEP_DAYS, "least": 0},
    (shapes.WorktreesTable, "keep_bytes"): {"default": KEEP_BYTES, "least": 0},
    (shapes.RecipeTable, "delegator"): {"names": "delegators"},
    (shapes.RecipeTable, "checks"): {"each": {"names": "checks"}},
}  # fmt: skip
"""What the types do not say; ``each`` is about an array's elements, ``under`` about a table's values."""

_SLOTS_DOC = "Delegations at once; the rest waits in a queue."


class _Maker:
    """Makes shapes from structures, without what no runner honours."""

    def __init__(self, abilities: Mapping[str, Abilities], defaults: Mapping[str, Any]) -> None:
        self.defaults = defaults
        self.launch = frozenset(name for able in abilities.values() for name in able.launch)

    def section(self, name: str) -> Shape:
        """Return one of the tables of ``config.toml`` of which there is one."""
        if name != "limits":
            return self.table(shapes.SECTIONS[name])
        limits = self.table(Limits)
        slots = Shape(doc=_SLOTS_DOC, kinds=("integer",), least=1, default=self.defaults.get("slots"))
        filled = {key: replaced(shape, default=self.defaults.get(key)) for key, shape in (limits.fields or {}).items()}
        doc = "Bounds of every delegation, where its delegator says nothing; times in seconds, money in USD."
        return replaced(limits, doc=doc, fields={"slots": slots, **filled})

    def table(self, python: type[msgspec.Struct]) -> Shape:
        """Return what a table of this structure holds."""
        docs = declared.field_docs(python)
        hints = typing.get_type_hints(python)
        found: dict[str, Shape] = {}
        for one in msgspec.structs.fields(python):
            name = one.name
            if name in _REFUSED.get(python, ()) or (
                python is Launch and name not in self.launch and name not in ASKS_NOTHING
            ):
                continue
            shape = self._typed(hints[name], dict(_FACTS.get((python, name), {})))
            if python is Launch and name not in self.launch:
                shape = replaced(shape, allowed=ASKS_NOTHING[name], idle=True)
            found[name] = replaced(shape, doc=docs.get(name, shape.doc), required=one.required)
        aliases = shapes.ALIASES.get(python, {}) if python is not Launch else shapes.LAUNCH_ALIASES
        for alias, name in aliases.items():
            if name in found:
                doc = f"Another spelling of `{name}`, for files of other tools."
                found[alias] = replaced(found[name], doc=doc, required=False, other=name)
        return Shape(doc=declared.doc_of(python), kinds=("table",), fields=found)

    def _typed(self, annotation: Any, facts: dict[str, Any]) -> Shape:
        each, under = facts.pop("each", {}), facts.pop("under", {})
        shape = Shape()
        for part in _alternatives(annotation):
            origin, arguments = typing.get_origin(part), typing.get_args(part)
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                table = self.table(part)
                shape = replaced(shape, kinds=(*shape.kinds, "table"), fields=table.fields, doc=shape.doc or table.doc)
            elif origin is Literal:
                shape = replaced(shape, kinds=(*shape.kinds, "string"), allowed=arguments)
            elif origin is list:
                shape = replaced(shape, kinds=(*shape.kinds, "array"), items=self._typed(arguments[0], dict(each)))
            elif origin is dict:
                inner = self._typed(arguments[1], dict(under))
                shape = replaced(shape, kinds=(*shape.kinds, "table"), values=inner)
            elif part in _KINDS:
                shape = replaced(shape, kinds=(*shape.kinds, _KINDS[part]))
        return replaced(shape, **facts)


def replaced(shape: Shape, **changes: Any) -> Shape:
    """Return the shape with these attributes."""
    return dataclasses.replace(shape, **changes)


def json_schema(shape: Shape, names: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return the shape as JSON Schema as editors understand it best: draft 7, without references.

    ``names``: the names that are the same for everybody (``tools``).
    """
    parts = [_part(shape, kind, names) for kind in shape.kinds]
    schema: dict[str, Any] = {"description": shape.doc} if shape.doc else {}
    if len(parts) == 1:
        schema |= parts[0]
    elif parts:
        schema["anyOf"] = parts
    if shape.default is not None:
        schema["default"] = shape.default
    if shape.other is not None:
        schema["deprecated"] = True
    return schema


def _part(shape: Shape, kind: Kind, names: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "object" if kind == "table" else kind}
    if kind == "table" and shape.fields is not None:
        part["properties"] = {name: json_schema(inner, names) for name, inner in shape.fields.items()}
        required = [name for name, inner in shape.fields.items() if inner.required]
        aliased = {inner.other: alias for alias, inner in shape.fields.items() if inner.other}
        if required:
            part["required"] = [name for name in required if name not in aliased]
        part["additionalProperties"] = False
    elif kind == "table" and shape.values is not None and shape.values != Shape():
        part["additionalProperties"] = json_schema(shape.values, names)
    elif kind == "array":
        part["items"] = json_schema(shape.items, names) if shape.items is not None else {}
        if shape.filled:
            part["minItems"] = 1
    elif kind == "string" and shape.names is not None and shape.names in names:
        part["enum"] = sorted(names[shape.names])
    elif kind == "string" and shape.pattern is not None:
        part["pattern"] = shape.pattern
    elif kind in {"integer", "number"}:
        if shape.above is not None:
            part["exclusiveMinimum"] = shape.above
        if shape.least is not None:
            part["minimum"] = shape.least
    if shape.allowed:
        part["enum"] = list(shape.allowed)
    return part


def _own_name(shape: Shape) -> Shape:
    """Return the shape of a file with one thing in it, which need not say its name: the file does."""
    given = dict(shape.fields or {})
    given["name"] = replaced(given["name"], required=False, doc="The file's name without its ending; may be left out.")
    return replaced(shape, fields=given)


def _alternatives(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        return [part for part in typing.get_args(annotation) if part is not type(None)]
    return [annotation]
