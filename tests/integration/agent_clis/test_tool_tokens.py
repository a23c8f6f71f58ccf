"""Count with a real tokenizer what the tools cost a client's model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_programs import install_tokenizer
from count_tokens import count_tokens

from understudy.frontends.mcp.tools import tool_table

pytestmark = pytest.mark.heavy


def descriptions(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in descriptions(one)]
    if not isinstance(value, dict):
        return []
    own = [value["description"]] if isinstance(value.get("description"), str) else []
    return own + [text for one in value.values() for text in descriptions(one)]


def names(schema: Any) -> list[str]:
    found = dict(schema.get("properties", {}))
    return [name for key, value in found.items() for name in (key, *names(value.get("items", value)))]


def test_the_tools_of_the_default_set_are_described_in_400_tokens(own_home):
    modules = install_tokenizer()
    if isinstance(modules, str):
        pytest.skip(modules)
    tools = tool_table.listed(())
    texts = [tool_table.INSTRUCTIONS, *(tool.description for tool in tools)]
    texts += [text for tool in tools for text in descriptions(tool.schema)]
    named = [" ".join([tool.name, *names(tool.schema)]) for tool in tools]
    whole = [
        json.dumps(
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}, separators=(",", ":")
        )
        for tool in tools
    ]
    described, with_names, everything = count_tokens(
        ["\n".join(one) for one in (texts, [*texts, *named], whole)], modules
    )
    print(f"descriptions {described}, with all names {with_names}, with schemas {everything}")
    assert described <= 400
    assert everything <= 1100, "what a client sends to its model"
