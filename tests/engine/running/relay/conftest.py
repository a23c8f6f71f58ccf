"""Agents with relay tools: real workers, real MCP servers, scripted agents."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import relay_agent

AGENT = (sys.executable, relay_agent.__file__)


@pytest.fixture
def relayed(project) -> Callable[..., str]:
    """Make a delegator with relay tools that plays a scenario: a name, or calls."""

    def make(name: str, scenario: str | list[dict[str, Any]], extra: str = "") -> str:
        if not isinstance(scenario, str):
            file = project.config / f"{name}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(scenario))
            scenario = str(file)
        project.delegator(name, *AGENT, scenario, "{mcpConfig}", extra=extra)
        file = project.config / "delegators" / f"{name}.toml"
        file.write_text(file.read_text() + "relay = true\n")
        return name

    return make


@pytest.fixture
def said(project) -> Callable[[str], list[dict[str, Any]]]:
    """Return the calls that an agent made, with their answers."""

    def read(identifier: str) -> list[dict[str, Any]]:
        text = "".join(event.text for event in project.events(identifier) if type(event).__name__ == "Text")
        return [json.loads(line) for line in text.splitlines() if line.startswith('{"call"')]

    return read
