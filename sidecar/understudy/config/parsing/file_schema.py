"""The schemas of configuration files, derived from the structures of the contract, and decoding with them.

On the wire a field is ``baseUrl``, in a file ``base_url``. It is declared once: ``file_type`` derives
from a structure of ``model`` one with the same fields in snake_case, including
all nested structures, that refuses unknown fields. Maps whose keys the user chooses
(``env``, ``headers``, ``model_properties``, ``extensions``) stay unchanged.

Decoding stops at the first error and does not know its place in the file. Only then the value
is validated with the JSON Schema of the same declaration, which finds all errors. A message
never repeats a value: an API key written into the wrong field must not appear in a log.
"""

from __future__ import annotations

import datetime as dt
import functools
import types
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from understudy.config import findings
from understudy.config.findings import LocatedFinding, near
from understudy.config.parsing import file_syntax
from understudy.config.parsing.source_file import Source, unusable_value
from understudy.config.validation.config_sections import SECTIONS
from understudy.model.config.delegators import AppliesTo, Delegator, ModelServer, RecipeAction, Route
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.config.schedules import Schedule
from understudy.model.evidence.checks import Check
from understudy.model.wire import ready

_Thing = TypeVar("_Thing", bound=msgspec.Struct)
_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "a table",
}


@functools.cache
def file_type(structure: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return the structure for files: the same fields in snake_case, unknown ones refused."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(structure):
        annotation = _twin_of(field.type)
        if field.default is not msgspec.NODEFAULT:
            fields.append((field.name, annotation, field.default))
        elif field.default_factory is not msgspec.NODEFAULT:
            fields.append((field.name, annotation, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, annotation))
    return msgspec.defstruct(
        structure.__name__, fields, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, module=__name__
    )


def from_file(value: dict[str, Any], structure: type[_Thing]) -> _Thing:
    """Decode a parsed file as ``structure``; raises ``msgspec.ValidationError`` with the path of the error."""
    return to_wire(msgspec.convert(value, ready(file_type(structure))), structure)


def to_wire(value: msgspec.Struct, structure: type[_Thing]) -> _Thing:
    """Convert a structure of ``file_type`` to the one of the contract."""
    return msgspec.convert(value, ready(structure), from_attributes=True)


def to_file(value: msgspec.Struct) -> dict[str, Any]:
    """Return the mapping to write into a file, without fields that have their default."""
    mapping: dict[str, Any] = msgspec.to_builtins(
        msgspec.convert(value, ready(file_type(type(value))), from_attributes=True)
    )
    return mapping


def _twin_of(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return file_type(annotation)
    origin = typing.get_origin(annotation)
    if origin is None or origin is typing.Literal:
        return annotation
    arguments = tuple(_twin_of(argument) for argument in typing.get_args(annotation))
    if origin in {typing.Union, types.UnionType}:
        return functools.reduce(lambda left, right: left | right, arguments)
    return origin[arguments]


class DefaultsTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[defaults]``: the delegators for requests that name none."""

    delegator: str | None = None
    """The delegator for everything that no other default covers."""
    recipes: dict[str, str] = msgspec.field(default_factory=dict)
    """Recipe → delegator."""


class RouteTable(Route, kw_only=True):
    """``[[routes]]``, and the files of routes."""

    name: str
    """Its name, which no delegator has, and the name of its file."""
    display_name: str | None = None
    """Name to display in lists."""

    @classmethod
    def of(cls, delegator: Delegator) -> RouteTable:
        """Return the table of a route."""
        assert delegator.route is not None  # noqa: S101 - the caller has asked
        return cls(name=delegator.name, display_name=delegator.display_name, **_fields_of(delegator.route))

    def delegator(self) -> Delegator:
        """Return the route as an entry beside delegators."""
        fields = {name: value for name, value in _fields_of(self).items() if name in Route.__struct_fields__}
        return Delegator(name=self.name, display_name=self.display_name, route=Route(**fields))


def _fields_of(value: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


class RecipeTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The front matter of a recipe."""

    title: str
    """The title in menus."""
    returns: typing.Literal["text", "file", "tree"]
    """What it returns: a text, one file, or changes anywhere in the worktree."""
    writes: list[str] | None = None
    """Patterns of the files that it may change; anything else is `outside_scope`."""
    checks: list[str] | None = None
    """Checks to run on the result; absent: all configured checks."""
    delegator: str | None = None
    """The delegator, unless the request names one."""
    rounds: int | None = None
    """How often the agent is asked again for tests that notice small changes of the code, from 0 to 10; absent: 0."""
    applies_to: AppliesTo | None = None
    """Where it is offered."""
    needs: list[typing.Literal["file", "task"]] | None = None
    """What it cannot do without: a `file` to work on, the `task` of a request. Editors ask for the task."""
    judged_by: typing.Literal["checks", "new_tests", "failing_test"] = "checks"
    """What decides about its result: the project's checks, the tests that the result adds, or checks of which a test
    must fail on the code as it was."""
    changes: typing.Literal["code", "documentation", "tests"] = "code"
    """What its result changes. A check that failed before is repaired only if this is `code`."""
    action: RecipeAction | None = None
    """How it reads in an editor's menu of actions; absent: by its title."""
    order: int = 0
    """Its place in lists; smaller ones come first."""


TABLES: dict[str, type[msgspec.Struct]] = {
    "defaults": DefaultsTable,
    **{name: section.table for name, section in SECTIONS.items()},
}
"""Tables that ``config.toml`` has once."""


LISTS: dict[str, type[msgspec.Struct]] = {
    "delegators": Delegator,
    "routes": RouteTable,
    "model_servers": ModelServer,
    "checks": Check,
    "schedules": Schedule,
    "notifications": NotificationReceiver,
}
"""Arrays of tables of ``config.toml``."""


_KEY_HINT = 'Refer to the key instead: api_key = { from_env = "NAME" }, { keyring = "NAME" } or { file = "/PATH" }.'


_KNOWN_STRANGERS = {
    "api_key_env": 'Write api_key = { from_env = "NAME" }.',
    "backend": "Delegators name a `tool` or a `model_server`.",
    "default_model": "Write `model` in the delegator.",
    "extra_headers": "Write `headers`.",
    "launch_config": "Write `launch`.",
    "llm_tool": "Write `tool`.",
    "timeout": "Write limits = { total_seconds = … } in the delegator.",
    "profiles": "Write [[delegators]] and [[model_servers]].",
}
"""Hints for field names of other tools whose values belong elsewhere here."""


def decode(
    value: Any, structure: type[_Thing], source: Source, path: findings.KeyPath, problems: list[LocatedFinding]
) -> _Thing | None:
    """Return ``value`` as ``structure``, or ``None`` after adding all problems to ``problems``."""
    unusable = unusable_value(value)
    if unusable is not None:
        where, why = unusable
        label = ".".join(map(str, where)) or "The value"
        problems.append(source.problem(f"`{label}` {why}.", at=source.where((*path, *where))))
        return None
    try:
        return from_file(value, structure)
    except msgspec.ValidationError as error:
        problems += explain(value, file_type(structure), source, path, str(error))
        return None


def explain(
    value: Any, twin: type[msgspec.Struct], source: Source, path: findings.KeyPath, fault: str
) -> list[LocatedFinding]:
    """Return every problem of ``value``, which is at ``path`` in ``source`` and cannot be decoded as ``twin``.

    ``fault`` is the decoder's own message, used when the schema finds nothing (``1.0`` for a whole number).
    """
    import jsonschema

    schema = _without_null(msgspec.json.schema(twin))
    problems: list[LocatedFinding] = []
    for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
        for leaf in _leaves(error):
            problems += _problems(leaf, source, path)
    if not problems:
        problems = [source.problem(f"{fault.partition(' - at')[0]}.", at=source.where(path), code="wrong_type")]
    unique = {(problem.message, str(problem.location)): problem for problem in problems}
    return sorted(unique.values(), key=_place)


def _place(problem: LocatedFinding) -> tuple[int, int, str]:
    start = problem.location.range.start if problem.location else file_syntax.START.start
    return start.line, start.character, problem.message


def _leaves(error: Any) -> Iterator[Any]:
    """Yield the specific errors: of several alternatives, those of the one that was probably meant."""
    if error.validator != "anyOf":
        yield error
        return
    deeper = [inner for inner in error.context if inner.validator != "type" or inner.relative_path]
    if not deeper:
        yield error
    for inner in deeper:
        yield from _leaves(inner)


def _problems(error: Any, source: Source, prefix: findings.KeyPath) -> Iterator[LocatedFinding]:
    path: findings.KeyPath = (*prefix, *error.absolute_path)
    label = _label(error.absolute_path)
    if error.validator == "additionalProperties":
        names_known = set(error.schema.get("properties", {}))
        for name in error.instance.keys() - names_known:
            hint = _KNOWN_STRANGERS.get(name) or near(name, names_known)
            yield source.unknown_key((*path, name), hint=hint)
    elif error.validator == "required":
        for name in error.validator_value:
            if name not in error.instance:
                message = f"`{name}` is missing{_within(label)}."
                yield source.problem(message, at=source.where(path), code="missing")
    elif error.validator == "enum":
        allowed = [str(item) for item in error.validator_value]
        hint = near(error.instance, allowed) if isinstance(error.instance, str) else None
        message = f"`{label}` must be one of {', '.join(allowed)}."
        yield source.problem(message, hint=hint, at=source.where(path), code="not_allowed")
    elif path and path[-1] == "api_key" and isinstance(error.instance, str):
        message = "A key is never written into a configuration file."
        yield source.problem(message, hint=_KEY_HINT, at=source.where(path), code="secret")
    else:
        kinds = error.schema.get("anyOf", [error.schema])
        names = [_NAMES.get(_type(kind), "something else") for kind in kinds]
        what = " or ".join(dict.fromkeys(names))
        message = f"{f'`{label}`' if label else 'This'} must be {what}, not {_type_name(error.instance)}."
        yield source.problem(message, at=source.where(path), code="wrong_type")


def _label(path: Any) -> str:
    return ".".join(str(step) for step in path)


def _within(label: str) -> str:
    return f" in `{label}`" if label else ""


def _type(schema: dict[str, Any]) -> str:
    # References lead to structures only; an enum's values are strings.
    return str(schema.get("type", "object" if "$ref" in schema else "string"))


def _type_name(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return _NAMES[name]
    return "a date" if isinstance(value, dt.date | dt.time) else "a table"


def _without_null(schema: Any) -> Any:
    """Return the schema without its null alternatives: TOML has no null, and messages need not mention it."""
    if isinstance(schema, list):
        return [_without_null(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = schema.get("anyOf")
    if isinstance(kinds, list):
        kinds = [kind for kind in kinds if kind != {"type": "null"}]
        rest = {key: item for key, item in schema.items() if key != "anyOf"}
        if len(kinds) == 1:
            return _without_null({**rest, **kinds[0]})
        return {**rest, "anyOf": [_without_null(kind) for kind in kinds]}
    return {key: _without_null(item) for key, item in schema.items()}
