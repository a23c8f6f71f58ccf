"""Describe what a tool or backend supports, for forms: labels, types, allowed values and bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from understudy.config.locations import FileKind
from understudy.config.reference import fields
from understudy.config.reference.fields import Schema
from understudy.model.capabilities import MODES, TITLES, USAGE_LIMITS, Capabilities
from understudy.model.config import tool_definitions
from understudy.model.config.config_entries import SupportedOption, SupportedOptions
from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import LaunchOverride
from understudy.model.wire import camel

_REQUIRED = frozenset({"command"})
"""Launch fields without which a tool that supports them cannot work."""
_PLACEHOLDERS = {
    "command": 'my-agent --cd {worktree} --prompt-file "{promptFile}"',
    "max_usd": "0.50",
    "temperature": "0.2",
    "model_reasoning_effort": "high",
    "model_reasoning_summary": "concise",
    "model_verbosity": "low",
    "service_tier": "flex",
}
_NUMBERS: Mapping[str, Literal["integer", "number"]] = {
    "contextWindow": "integer",
    "maxTokens": "integer",
    "temperature": "number",
}
"""Well-known model properties that are not texts."""
_FIRST = ("command", "output", "prompt_delivery", "permission_mode", "yolo", "flags")
"""Launch fields that a form asks for first."""
_PER_DELEGATION = frozenset(LaunchOverride.__struct_fields__)
"""What one delegation can change: fields of a delegator, and all options of a kind (``model_properties``)."""


def describe(declared: Capabilities) -> SupportedOptions:
    """Return what a delegator of ``declared`` may set."""
    delegator = fields.schema_of(FileKind.DELEGATOR)["properties"]
    launch, limits = delegator["launch"]["properties"], delegator["limits"]["properties"]
    names = sorted(declared.launch, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    return SupportedOptions(
        delegator=[
            *([_model(delegator["model"], declared)] if declared.takes_model else []),
            *([_mode(delegator["mode"])] if len(declared.modes) > 1 else []),
        ],
        launch=[_launch(name, launch[name], declared) for name in names],
        limits=[_limit(name, limits[name], declared) for name in Limits.__struct_fields__ if name in declared.limits],
        properties=[_temperature()] if declared.properties else list(_own_properties(declared)),
        modes=list(declared.modes),
        permission_modes=list(declared.permission_modes),
        protocols=list(declared.protocols),
        needs_model_server=declared.needs_model_server,
        sessions=declared.sessions,
        messages=declared.messages,
        returns=[kind for kind in ("text", "file", "tree") if kind in declared.returns],
        only_new_tests=declared.only_new_tests,
    )


def _model(schema: Schema, declared: Capabilities) -> SupportedOption:
    option = _option("model", schema)
    option.description = "The ID of a model of the tool, or of the model server."
    option.required = declared.needs_model_server
    if "prompt_delivery" in declared.launch:  # a custom command, which gets nothing but its arguments
        option.needs_slot = tool_definitions.MODEL
    return option


def _mode(schema: Schema) -> SupportedOption:
    option = _option("mode", schema)
    option.values = list(MODES)
    return option


def _launch(name: str, schema: Schema, declared: Capabilities) -> SupportedOption:
    option = _option(name, schema)
    option.values = list(declared.launch[name]) or None
    option.required = name in _REQUIRED
    option.slots = list(tool_definitions.SLOTS) if name == "command" else None
    return option


def _limit(name: str, schema: Schema, declared: Capabilities) -> SupportedOption:
    option = _option(name, schema)
    if name in USAGE_LIMITS and declared.usage_needs is not None:
        field, value = declared.usage_needs
        option.only_with = {camel(field): value}
    option.per_delegation = "limits" in _PER_DELEGATION
    return option


def _option(name: str, schema: Schema) -> SupportedOption:
    return SupportedOption(
        name=camel(name),
        title=TITLES.get(name, name),
        description=schema.get("description", ""),
        type=_type(name, schema),
        default=schema["default"] if isinstance(schema.get("default"), str) else None,
        placeholder=_PLACEHOLDERS.get(name),
        exclusive_minimum=schema.get("exclusiveMinimum"),
        per_delegation=name in _PER_DELEGATION,
    )


def _type(name: str, schema: Schema) -> Literal["boolean", "integer", "number", "string", "decimal", "list"]:
    if name == "max_usd":
        return "decimal"
    kinds = {part.get("type") for part in (schema, *schema.get("anyOf", ()))}
    if "array" in kinds:
        return "list"
    for kind in ("boolean", "integer", "number"):
        if kind in kinds:
            return kind
    return "string"


def _own_properties(declared: Capabilities) -> Iterator[SupportedOption]:
    for name, description in declared.own_properties.items():
        yield SupportedOption(
            name=name,
            title=TITLES[name],
            description=description,
            type=_NUMBERS.get(name, "string"),
            placeholder=_PLACEHOLDERS.get(name),
            per_delegation="model_properties" in _PER_DELEGATION,
        )


def _temperature() -> SupportedOption:
    return SupportedOption(
        name="temperature",
        title=TITLES["temperature"],
        description="Sent with each request; without it the server uses its own.",
        type="number",
        placeholder=_PLACEHOLDERS["temperature"],
        minimum=0,
        maximum=2,
        per_delegation="model_properties" in _PER_DELEGATION,
    )
