"""Describe what a tool or backend supports, for forms: labels, types, allowed values and bounds."""

from __future__ import annotations

from typing import Literal

from understudy.config.locations import FileKind
from understudy.config.reference import fields
from understudy.config.reference.fields import FieldShape
from understudy.model.capabilities import TITLES, USAGE_LIMITS, Capabilities
from understudy.model.config import command_slots
from understudy.model.config.config_entries import SupportedOption, SupportedOptions
from understudy.model.config.delegators import Limits
from understudy.model.wire import camel

_REQUIRED = frozenset({"command"})
"""Launch fields without which a tool that supports them cannot work."""
_PLACEHOLDERS = {
    "command": 'my-agent --cd {worktree} --prompt-file "{promptFile}"',
    "max_usd": "0.50",
    "temperature": "0.2",
}
_FIRST = ("command", "output", "prompt_delivery", "permission_mode", "yolo", "flags")
"""Launch fields that a form asks for first."""


def describe(declared: Capabilities) -> SupportedOptions:
    """Return what a delegator of ``declared`` may set."""
    delegator = fields.shape_of(FileKind.DELEGATOR).fields or {}
    launch, limits = delegator["launch"].fields or {}, delegator["limits"].fields or {}
    names = sorted(declared.launch, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    return SupportedOptions(
        launch=[_launch(name, launch[name], declared) for name in names],
        limits=[_limit(name, limits[name], declared) for name in Limits.__struct_fields__ if name in declared.limits],
        properties=[_temperature()] if declared.properties else [],
        modes=list(declared.modes),
        permission_modes=list(declared.permission_modes),
        protocols=list(declared.protocols),
        needs_model_server=declared.needs_model_server,
        sessions=declared.sessions,
        returns=[kind for kind in ("text", "file", "tree") if kind in declared.returns],
        recipes=sorted(declared.recipes) if declared.recipes is not None else None,
        tree_recipes=sorted(declared.tree_recipes) if declared.tree_recipes is not None else None,
    )


def _launch(name: str, shape: FieldShape, declared: Capabilities) -> SupportedOption:
    option = _option(name, shape)
    option.values = list(declared.launch[name]) or None
    option.required = name in _REQUIRED
    option.slots = list(command_slots.SLOTS) if name == "command" else None
    return option


def _limit(name: str, shape: FieldShape, declared: Capabilities) -> SupportedOption:
    option = _option(name, shape)
    if name in USAGE_LIMITS and declared.usage_needs is not None:
        field, value = declared.usage_needs
        option.only_with = {camel(field): value}
    return option


def _option(name: str, shape: FieldShape) -> SupportedOption:
    return SupportedOption(
        name=camel(name),
        title=TITLES.get(name, name),
        description=shape.doc,
        type=_type(name, shape),
        default=shape.default if isinstance(shape.default, str) else None,
        placeholder=_PLACEHOLDERS.get(name),
        exclusive_minimum=shape.above,
    )


def _type(name: str, shape: FieldShape) -> Literal["boolean", "integer", "number", "string", "decimal", "list"]:
    if name == "max_usd":
        return "decimal"
    if "array" in shape.kinds:
        return "list"
    for kind in ("boolean", "integer", "number"):
        if kind in shape.kinds:
            return kind
    return "string"


def _temperature() -> SupportedOption:
    return SupportedOption(
        name="temperature",
        title=TITLES["temperature"],
        description="Sent with each request; without it the server uses its own.",
        type="number",
        placeholder=_PLACEHOLDERS["temperature"],
        minimum=0,
        maximum=2,
    )
