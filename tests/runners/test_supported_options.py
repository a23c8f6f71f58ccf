"""Test that the options reported as supported by a tool are exactly those that validation accepts."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.config.discovery import declarations
from understudy.config.reference import supported_options
from understudy.config.validation.delegator_rules import Surroundings, check_delegator
from understudy.model.config.config_entries import SupportedOption
from understudy.model.config.delegators import Delegator, Launch, Limits, ModelServer
from understudy.model.wire import camel

_LAUNCH: dict[str, Any] = {"permission_mode": "plan", "flags": ["-v"], "yolo": True, "prompt_prefix": "p"}
_LIMITS: dict[str, Any] = {"total_seconds": 9.0, "idle_seconds": 9.0, "max_turns": 2, "max_tokens": 9, "max_usd": "1"}
_SERVER = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:1/v1")
DECLARED = [one for one in (*declarations.tools().values(), *declarations.backends().values()) if one.runner]


@pytest.mark.parametrize("tool", [None, "claude", "ghostwriter"])
@pytest.mark.parametrize("field", [*(f"launch.{name}" for name in _LAUNCH), *_LIMITS])
def test_supported_is_what_is_not_refused(tool: str | None, field: str) -> None:
    declared = declarations.tools()[tool] if tool else declarations.backends()["openai"]
    supported = supported_options.describe(declared)
    where, _, name = field.rpartition(".")
    launch = Launch(**{name: _LAUNCH[name]}) if where else None
    limits = None if where else Limits(**{name: _LIMITS[name]})
    own: dict[str, Any] = {"tool": tool} if tool else {"model_server": "s", "model": "m"}
    delegator = Delegator(name="x", launch=launch, limits=limits, **own)
    found = [finding.message for finding in check_delegator(delegator, Surroundings({"s": _SERVER}))]
    if camel(name) in {option.name for option in (supported.launch if where else supported.limits)}:
        assert found == []
    else:
        assert len(found) == 1
        assert name in found[0]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.name)
def test_every_option_can_be_drawn(declared: Any) -> None:
    supported = supported_options.describe(declared)
    options: list[SupportedOption] = [*supported.launch, *supported.limits, *supported.properties]
    for option in options:
        assert option.title != option.name, f"give {option.name} a title in model.capabilities.TITLES"
        assert option.description.endswith(".")
        for value in option.values or []:
            assert value.title
            assert value.description


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.name)
def test_a_declaration_names_fields_that_exist(declared: Any) -> None:
    assert set(declared.launch) <= set(Launch.__struct_fields__)
    assert declared.limits <= set(Limits.__struct_fields__)


def test_every_launch_and_limit_field_is_supported_somewhere() -> None:
    assert {name for one in DECLARED for name in one.launch} == set(Launch.__struct_fields__)
    assert {name for one in DECLARED for name in one.limits} == set(Limits.__struct_fields__)
