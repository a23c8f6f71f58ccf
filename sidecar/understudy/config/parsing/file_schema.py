"""The shapes of configuration files, derived from the structures of the contract.

On the wire a field is ``baseUrl``, in a file ``base_url``. Nobody declares it twice: ``twin`` makes,
of a structure of ``model``, one with the same fields under their snake_case names, down through
every nested structure, strict about fields it does not know. Maps whose keys are the person's own
(``env``, ``headers``, ``model_properties``, ``extensions``) are carried as they are.
"""

from __future__ import annotations

import functools
import types
import typing
from typing import Any, TypeVar

import msgspec

from understudy.model.delegators import Check, Delegator, Fits, Limits, ModelServer
from understudy.model.wire import ready

_Thing = TypeVar("_Thing", bound=msgspec.Struct)

ALIASES: dict[type, dict[str, str]] = {Delegator: {"llm_tool": "tool", "launch_config": "launch"}}
"""Spellings that files of other delegation tools use, accepted at the top of a structure."""

LAUNCH_ALIASES = {"use_worktrees": "use_worktree", "operator_relay": "relay"}
"""The same inside ``launch``."""

SPELLINGS: dict[str, str] = {
    "tool": "llm_tool",
    "launch": "launch_config",
    "use_worktree": "use_worktrees",
    "relay": "operator_relay",
}
"""Our name → the other spelling under which it may stand in a file (to find its position)."""


@functools.cache
def twin(structure: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return the structure as files spell it: the same fields, snake_case, unknown ones refused."""
    hints = typing.get_type_hints(structure)
    fields: list[Any] = []
    for field in msgspec.structs.fields(structure):
        annotation = _twin_of(hints[field.name])
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
    """Return the structure that a parsed file says; raises ``msgspec.ValidationError`` with a path in it."""
    return to_wire(msgspec.convert(value, ready(twin(structure))), structure)


def to_wire(value: msgspec.Struct, structure: type[_Thing]) -> _Thing:
    """Return the structure of the contract for its twin."""
    return msgspec.convert(value, ready(structure), from_attributes=True)


def to_file(value: msgspec.Struct) -> dict[str, Any]:
    """Return the mapping to write into a file; fields with their default are left out."""
    mapping: dict[str, Any] = msgspec.to_builtins(
        msgspec.convert(value, ready(twin(type(value))), from_attributes=True)
    )
    return mapping


def rename_aliases(value: Any, structure: type[msgspec.Struct]) -> tuple[Any, list[str]]:
    """Return ``value`` with other tools' spellings replaced, and the names given in both spellings."""
    aliases = ALIASES.get(structure)
    if aliases is None or not isinstance(value, dict):
        return value, []
    renamed, twice = _rename(value, aliases)
    if isinstance(renamed.get("launch"), dict):
        renamed["launch"], more = _rename(renamed["launch"], LAUNCH_ALIASES)
        twice += more
    return renamed, twice


def _rename(value: dict[str, Any], aliases: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    twice = [alias for alias, name in aliases.items() if alias in value and name in value]
    return {aliases.get(key, key): item for key, item in value.items() if key not in twice}, twice


def _twin_of(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return twin(annotation)
    origin = typing.get_origin(annotation)
    if origin is None or origin is typing.Literal:
        return annotation
    arguments = tuple(_twin_of(argument) for argument in typing.get_args(annotation))
    if origin in {typing.Union, types.UnionType}:
        return functools.reduce(lambda left, right: left | right, arguments)
    return origin[arguments]


class DefaultsTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[defaults]``: which delegator does what nobody was named for."""

    delegator: str | None = None
    """Who does what no other default names."""
    recipes: dict[str, str] = msgspec.field(default_factory=dict)
    """Recipe → delegator."""


class WorktreesTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[worktrees]``: what a new tree gets besides tracked files, and how long trees are kept."""

    copy: list[str] | None = None
    """Patterns of ignored or untracked files that are copied from the checkout into each new tree."""
    link: list[str] | None = None
    """Paths that each new tree gets as links into the checkout; agents can write through them."""
    setup: list[str] | None = None
    """Argument vector that is run once in each new tree."""
    setup_timeout_seconds: float | None = None
    """How long that may take."""
    keep_days: float | None = None
    """Days after its last event that a tree stays on disk; in a person's own configuration only, as is the next."""
    keep_bytes: int | None = None
    """Bytes that all trees may take together; decided ones go first, the oldest of them first."""


class EnvironmentTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[environment]``: the project's own tools."""

    python: str | None = None
    """Path of the interpreter that checks use; in a workspace it may be relative to it."""


class RecipeTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The front matter of a recipe."""

    title: str
    """What people read in menus."""
    returns: typing.Literal["text", "file", "tree"]
    """What comes back: an answer in words, one file, or changes anywhere in the tree."""
    writes: list[str] | None = None
    """Patterns of the files that it may change; anything else is `outside_scope`."""
    checks: list[str] | None = None
    """Checks that are run on the result; absent: all that are configured."""
    delegator: str | None = None
    """Who does it, unless the request names somebody."""
    route: str | None = None
    """An ordered list of delegators."""
    fits: Fits | None = None
    """Where it is offered."""


SECTIONS: dict[str, type[msgspec.Struct]] = {
    "defaults": DefaultsTable,
    "limits": msgspec.defstruct(
        "LimitsTable",
        [
            *((field.name, field.type, field.default) for field in msgspec.structs.fields(Limits)),
            ("slots", int | None, None),
        ],
        kw_only=True,
        forbid_unknown_fields=True,
    ),
    "worktrees": WorktreesTable,
    "environment": EnvironmentTable,
}
"""Tables of ``config.toml`` of which there is one."""

LISTS: dict[str, type[msgspec.Struct]] = {"delegators": Delegator, "model_servers": ModelServer, "checks": Check}
"""Arrays of tables of ``config.toml``."""

FOLDERS: dict[str, type[msgspec.Struct]] = {"delegators": Delegator, "model-servers": ModelServer}
"""Folders with one thing a file."""
