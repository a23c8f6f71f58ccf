"""The schemas of configuration files, derived from the structures of the contract.

On the wire a field is ``baseUrl``, in a file ``base_url``. It is declared once: ``file_type`` derives
from a structure of ``model`` one with the same fields in snake_case, including
all nested structures, that refuses unknown fields. Maps whose keys the user chooses
(``env``, ``headers``, ``model_properties``, ``extensions``) stay unchanged.
"""

from __future__ import annotations

import functools
import types
import typing
from typing import Any, TypeVar

import msgspec

from understudy.config.validation.config_sections import SECTIONS
from understudy.model.config.delegators import AppliesTo, Delegator, ModelServer, RecipeAction
from understudy.model.evidence.checks import Check
from understudy.model.wire import ready

_Thing = TypeVar("_Thing", bound=msgspec.Struct)


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
    judged_by: typing.Literal["checks", "new_tests"] = "checks"
    """What decides about its result: the project's checks, or the tests that the result adds."""
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

LISTS: dict[str, type[msgspec.Struct]] = {"delegators": Delegator, "model_servers": ModelServer, "checks": Check}
"""Arrays of tables of ``config.toml``."""
