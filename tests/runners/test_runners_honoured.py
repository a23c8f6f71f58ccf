"""What faces are told that a tool honours is what a delegator of it may set, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.model.delegators import Delegator, Launch, Limits
from understudy.model.errors import UnderstudyError
from understudy.model.wire import camel
from understudy.runners import registry

_LAUNCH: dict[str, Any] = {"permission_mode": "plan", "flags": ["-v"], "yolo": True, "prompt_prefix": "p"}
_LIMITS: dict[str, Any] = {"total_seconds": 9.0, "idle_seconds": 9.0, "max_turns": 2, "max_tokens": 9, "max_usd": "1"}


@pytest.mark.parametrize("tool", [None, "claude", "ghostwriter"])
@pytest.mark.parametrize("field", [*(f"launch.{name}" for name in _LAUNCH), *_LIMITS])
def test_honoured_is_what_is_not_refused(tool: str | None, field: str) -> None:
    told = registry.honoured(registry.ABILITIES[tool or registry.BACKEND])
    where, _, name = field.rpartition(".")
    launch = Launch(**{name: _LAUNCH[name]}) if where else None
    limits = None if where else Limits(**{name: _LIMITS[name]})
    own: dict[str, Any] = {"tool": tool} if tool else {"model_server": "s", "model": "m"}
    delegator = Delegator(name="x", launch=launch, limits=limits, **own)
    if camel(name) in (told.launch if where else told.limits):
        registry.check(delegator)
    else:
        with pytest.raises(UnderstudyError, match=camel(name)):
            registry.check(delegator)
