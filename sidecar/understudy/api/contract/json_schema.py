"""Render the contract as JSON Schema 2020-12, one document per structure, and as one OpenRPC document."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from understudy.api import error_answers
from understudy.api.contract.catalogue import Contract, Structure

OPENRPC = "1.3.2"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def documents(contract: Contract) -> dict[str, str]:
    """Return one schema document per structure, event and enumeration, by name; they refer to each other's files."""
    return {
        name: dump({"$schema": DIALECT, "title": name, **schema})
        for name, schema in sorted(components(contract, "{name}.json").items())
    }


def openrpc(contract: Contract) -> str:
    """Return the OpenRPC document of all requests, with the notifications under ``x-notifications``."""
    schemas = components(contract, "#/components/schemas/{name}")
    methods = [
        {
            "name": method.wire_name,
            "summary": method.summary,
            "tags": [{"name": method.name.partition("/")[0] if "/" in method.name else "installation"}],
            "x-effect": method.effect,
            "paramStructure": "by-name",
            "params": _params(schemas[contract.name(method.params)]),
            "result": {
                "name": contract.name(method.result),
                "schema": {"$ref": f"#/components/schemas/{contract.name(method.result)}"},
            },
            "errors": [
                {"$ref": f"#/components/errors/{name}"} for name in ("InvalidParams", "Understudy", "Cancelled")
            ],
            **({"x-needs-notifications": True} if method.needs_notifications else {}),
        }
        for method in contract.methods
    ]
    notifications = [
        {
            "name": name,
            "summary": structure.doc,
            "paramStructure": "by-name",
            "params": _params(schemas[structure.name]),
        }
        for name, structure in contract.notifications.items()
    ]
    info = {"$ref": "#/components/schemas/ErrorInfo"}
    errors = {
        "Understudy": {
            "code": error_answers.UNDERSTUDY_ERROR,
            "message": "What failed and why; `data` is the machine-readable form.",
            "data": info,
        },
        "InvalidParams": {
            "code": error_answers.INVALID_PARAMS,
            "message": "Which parameter is invalid and why.",
            "data": info,
        },
        "Cancelled": {
            "code": error_answers.REQUEST_CANCELLED,
            "message": "The client cancelled the request.",
            "data": info,
        },
    }
    return dump(
        {
            "openrpc": OPENRPC,
            "info": {
                "title": "Understudy",
                "version": f"{contract.version}.0.0",
                "description": "Hand work to coding agents, and get it back verified and reviewable.",
                "license": {"name": "MIT"},
            },
            "methods": methods,
            "x-notifications": notifications,
            "components": {"schemas": dict(sorted(schemas.items())), "errors": errors},
        },
        indent=1,  # by far the largest file of the contract
    )


def components(contract: Contract, reference: str) -> dict[str, dict[str, Any]]:
    """Return every schema by its published name; ``reference`` is the template of a ``$ref``."""
    pythons = [*contract.structures, *contract.events, *contract.enumerations]
    _, raw = msgspec.json.schema_components(pythons, ref_template="#{name}")
    published = {python.__name__: contract.name(python) for python in pythons}
    schemas: dict[str, dict[str, Any]] = {}
    for structure in [*contract.structures.values(), *contract.events.values()]:
        schemas[structure.name] = _described(
            structure, _referring(raw[structure.python.__name__], published, reference)
        )
    for listed in contract.enumerations.values():
        described = "\n".join(f"- `{member.value}`: {member.doc}" for member in listed.members)
        schemas[listed.name] = {
            "description": f"{listed.doc}\n\n{described}",
            "enum": [member.value for member in listed.members],
        }
    schemas["Event"] = {
        "description": "An event of a delegation; `type` is its kind.",
        "anyOf": [{"$ref": reference.format(name=event.name)} for event in contract.events.values()],
    }
    return schemas


def dump(value: Any, indent: int = 2) -> str:
    """Return ``value`` as JSON in the committed format: indented, unsorted, with a final newline."""
    return json.dumps(value, indent=indent, ensure_ascii=False) + "\n"


def _params(schema: dict[str, Any]) -> list[dict[str, Any]]:
    needed = schema.get("required", [])
    params = []
    for name, described in schema["properties"].items():
        inner = {key: part for key, part in described.items() if key != "description"}
        entry = {"name": name, "required": name in needed, "schema": inner}
        if "description" in described:
            entry["description"] = described["description"]
        params.append(entry)
    return params


def _described(structure: Structure, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with descriptions from docstrings, and with fields that are always present as required."""
    properties = dict(schema["properties"])
    required = ["type"] if structure.tag else []
    for field in structure.fields:
        described = dict(properties.pop(field.name))
        if field.required:
            required.append(field.name)
            described.pop("default", None)
        elif field.nullable and not structure.strict:
            described = _never_null(described)
        if field.doc:
            described["description"] = field.doc
        properties[field.name] = described  # at the end: this restores the order of declaration
    result: dict[str, Any] = {"description": structure.doc, "type": "object", "properties": properties}
    if required:
        result["required"] = required
    if structure.strict:
        result["additionalProperties"] = False
    return result


def _never_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional field without null: Understudy omits such fields and never sends null."""
    kept = [part for part in schema["anyOf"] if part != {"type": "null"}]
    return kept[0] if len(kept) == 1 else {"anyOf": kept}


def _referring(value: Any, published: dict[str, str], reference: str) -> Any:
    """Return the schema with references to published names; the union of all events becomes one reference."""
    if isinstance(value, list):
        return [_referring(item, published, reference) for item in value]
    if not isinstance(value, dict):
        return value
    if "discriminator" in value:  # the union of events is the only tagged one
        return {"$ref": reference.format(name="Event")}
    rest = {key: _referring(part, published, reference) for key, part in value.items() if key != "$ref"}
    if "$ref" in value:
        rest["$ref"] = reference.format(name=published[value["$ref"].removeprefix("#")])
    return rest
