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

from understudy.config.fallback import FallbackTable
from understudy.config.retention import RetentionTable
from understudy.model.config.delegators import Delegator, InputLimits, Limits, ModelServer
from understudy.model.config.evidence_bounds import Evidence
from understudy.model.config.recipes import AppliesTo, RecipeAction
from understudy.model.evidence.checks import Check
from understudy.model.wire import ready

_Thing = TypeVar("_Thing", bound=msgspec.Struct)

ALIASES: dict[type, dict[str, str]] = {Delegator: {"llm_tool": "tool", "launch_config": "launch"}}
"""Field names of other delegation tools, accepted at the top level of a structure."""

SPELLINGS: dict[str, str] = {
    "tool": "llm_tool",
    "launch": "launch_config",
}
"""Our name → the alias that a file may use instead (to find its position)."""


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


def rename_aliases(value: Any, structure: type[msgspec.Struct]) -> tuple[Any, list[str]]:
    """Return ``value`` with aliases replaced, and the names that occur with and without an alias."""
    aliases = ALIASES.get(structure)
    if aliases is None or not isinstance(value, dict):
        return value, []
    return _rename(value, aliases)


def _rename(value: dict[str, Any], aliases: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    twice = [alias for alias, name in aliases.items() if alias in value and name in value]
    return {aliases.get(key, key): item for key, item in value.items() if key not in twice}, twice


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


class LaunchTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[launch]``: launch options of every delegator that does not set them, as far as its tool has them."""

    yolo: bool | None = None
    """Let tools do everything without asking, except in a workspace's own delegators."""
    permission_mode: str | None = None
    """What tools may do without asking, for those that have a mode of this name."""
    unanswered: typing.Literal["reject", "allow", "stop"] | None = None
    """What happens to a permission request that no one answers in time."""
    prompt_prefix: str | None = None
    """Text that every prompt begins with."""
    prompt_suffix: str | None = None
    """Text that every prompt ends with."""
    branch: str | None = None
    """New branch on which a verified result is kept, too, with `{id} {recipe} {delegator}`."""
    use_worktree: bool | None = None
    """`false`: agents that change files work in your own checkout, except a workspace's own delegators."""
    relay: bool | None = None
    """Give agents tools with which they ask you, delegate further and talk to each other, as far as they take any."""
    without_tmux: typing.Literal["fail", "headless"] | None = None
    """What happens to an agent for tmux where tmux is not installed; `headless` runs it without a terminal."""


class WorktreesTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[worktrees]``: what a new worktree gets besides tracked files, and how long worktrees are kept."""

    copy: list[str] | None = None
    """Patterns of ignored or untracked files that are copied from the checkout into each new worktree."""
    link: list[str] | None = None
    """Paths that each new worktree gets as links into the checkout; agents can write through them."""
    setup: list[str] | None = None
    """Argument vector of a command that runs once in each new worktree."""
    setup_timeout_seconds: float | None = None
    """How long the set-up command may take."""
    keep_days: float | None = None
    """Days to keep a worktree after its last event; only in a user's own configuration, like the next one."""
    keep_bytes: int | None = None
    """Bytes that all worktrees may take together; fully decided ones are removed first, the oldest of them first."""


class EnvironmentTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[environment]``: the project's own tools."""

    python: str | None = None
    """Path of the interpreter for checks; in the configuration of a workspace it may be relative to the workspace."""


class McpTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[mcp]``: what other agents may do through `understudy mcp`; in a user's own configuration only."""

    decide: bool | None = None
    """Whether they may accept results into your files, and reject them."""


class RelayTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`[relay]`: how far agents with `launch.relay` may delegate further; in a user's own configuration only."""

    max_depth: int | None = None
    """How many delegations may be below one that you started; `0`: agents delegate nothing. Absent: 2."""
    max_delegations: int | None = None
    """How many delegations the agents of one group start, all together. Absent: 8."""
    max_tokens: int | None = None
    """The most tokens that these read and write, all together. Absent: as many as the first delegation may."""
    max_usd: str | None = None
    """What these cost, all together, in USD: `"0.50"`. Absent: as much as the first delegation may."""


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
    "launch": LaunchTable,
    "worktrees": WorktreesTable,
    "retention": RetentionTable,
    "fallback": FallbackTable,
    "relay": RelayTable,
    "evidence": file_type(Evidence),
    "input": file_type(InputLimits),
    "environment": EnvironmentTable,
    "mcp": McpTable,
}
"""Tables that ``config.toml`` has once."""

LISTS: dict[str, type[msgspec.Struct]] = {"delegators": Delegator, "model_servers": ModelServer, "checks": Check}
"""Arrays of tables of ``config.toml``."""

FOLDERS: dict[str, type[msgspec.Struct]] = {"delegators": Delegator, "model-servers": ModelServer, "checks": Check}
"""Folders with one entry per file."""
