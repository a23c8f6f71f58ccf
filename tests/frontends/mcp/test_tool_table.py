"""What a client's model pays for the tools, and that the declarations fit together."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import msgspec
import pytest

from understudy.frontends.mcp import first_answer
from understudy.frontends.mcp.tools import tool_table


def tokens(text: str) -> int:
    """Estimate the tokens of English text, at or above what common tokenizers give.

    A word counts one token for each six letters begun, and every digit and other character counts one.
    """
    found = re.findall(r"[A-Za-z]+|[^\sA-Za-z]", text)
    return sum(-(-len(one) // 6) if one[0].isalpha() else 1 for one in found)


def descriptions(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in descriptions(one)]
    if not isinstance(value, dict):
        return []
    own = [value["description"]] if isinstance(value.get("description"), str) else []
    return own + [text for one in value.values() for text in descriptions(one)]


def test_the_descriptions_of_the_default_set_fit_400_tokens(own_home) -> None:
    texts = [first_answer.INSTRUCTIONS]
    for tool in tool_table.listed(()):
        texts += [tool.description, *descriptions(tool.schema)]
    used = sum(map(tokens, texts))
    print(used, "tokens of descriptions")
    assert used <= 400


def test_the_default_set_is_our_own(own_home) -> None:
    names = [tool.name for tool in tool_table.listed(())]
    assert names == [
        "start",
        "batch",
        "wait",
        "show",
        "diff",
        "evidence",
        "reply",
        "answer",
        "say",
        "cancel",
        "list_delegators",
        "ask",
    ]
    assert [tool.name for tool in tool_table.listed(("delegate-local",))] == [
        *names,
        "delegate_to_local_agent",
        "delegate_batch",
        "delegate_to_provider",
        "list_local_agents",
        "local_backend_status",
    ]


@pytest.mark.parametrize("tool", tool_table.TOOLS.values(), ids=lambda tool: tool.name)
def test_a_schema_says_what_is_accepted(tool: tool_table.Tool) -> None:
    schema = tool.schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert "$ref" not in json.dumps(schema)
    assert list(schema["properties"]) == list(tool.params.__struct_fields__)
    required = [field.name for field in msgspec.structs.fields(tool.params) if field.required]
    assert schema.get("required", []) == required
    assert len(tool.name) <= 64
