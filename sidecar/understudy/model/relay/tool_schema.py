"""The JSON Schema of a tool's parameters, as short as a model needs it."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec


@cache
def parameters_of(params: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a schema without what a model does not need: titles, docstrings, null alternatives and defaults."""
    whole = msgspec.json.schema(params)
    root: dict[str, Any] = _inlined(whole, whole.get("$defs", {}))
    return root


def _inlined(value: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inlined(one, definitions) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        referred = _inlined(definitions[value["$ref"].rpartition("/")[2]], definitions)
        return {key: part for key, part in referred.items() if key != "description"}
    if "anyOf" in value:
        kinds = [one for one in value["anyOf"] if one != {"type": "null"}]
        rest = {key: part for key, part in value.items() if key not in {"anyOf", "default"}}
        return _inlined({**kinds[0], **rest} if len(kinds) == 1 else {"anyOf": kinds, **rest}, definitions)
    found = {key: part for key, part in value.items() if key not in {"title", "default", "$defs"}}
    if "properties" in found:
        found["properties"] = {key: _inlined(part, definitions) for key, part in found["properties"].items()}
        found.pop("description", None)
        return found
    return {key: _inlined(part, definitions) for key, part in found.items()}
