"""Render the contract as TypeScript: types only, plus the closed lists as constants."""

from __future__ import annotations

import enum
import json
import typing
from typing import Any

import msgspec

from understudy.api.contract.catalogue import Contract, Structure, alternatives, is_events

_HEADER = """\
// The wire contract, generated from the method table of the sidecar. Do not edit by hand: run `make generate`.
// Parameters are checked strictly; in results and events ignore fields that are not listed here.
"""
_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}


def module(contract: Contract) -> str:
    """Return ``protocol.gen.ts``."""
    parts = [_HEADER, f"export const PROTOCOL_VERSION = {contract.version};\n"]
    for listed in contract.enumerations.values():
        values = "\n".join(f"  /** {member.doc} */\n  {json.dumps(member.value)}," for member in listed.members)
        constant = _constant(listed.name)
        parts.append(f"/** {listed.doc} */\nexport const {constant} = [\n{values}\n] as const;")
        parts.append(f"export type {listed.name} = (typeof {constant})[number];\n")
    parts += [_interface(contract, structure) for structure in contract.structures.values()]
    parts += [_interface(contract, structure) for structure in contract.events.values()]
    union = "\n".join(f"  | {event.name}" for event in contract.events.values())
    parts.append(f"/** Something that happened to a delegation; `type` says what. */\nexport type Event =\n{union};\n")
    parts.append("/** Every request, with what it takes and what it answers. */\nexport interface Requests {")
    for method in contract.methods:
        sides = f"{{ params: {contract.name(method.params)}; result: {contract.name(method.result)} }}"
        parts.append(f"  /** {method.summary} */\n  {json.dumps(method.wire_name)}: {sides};")
    parts.append("}\n")
    parts.append("/** What the server sends unasked. */\nexport interface Notifications {")
    for name, structure in contract.notifications.items():
        parts.append(f"  /** {structure.doc} */\n  {json.dumps(name)}: {structure.name};")
    parts.append("}")
    return "\n".join(parts) + "\n"


def spelled(contract: Contract, annotation: Any) -> str:
    """Return a type as TypeScript spells it."""
    if is_events(annotation):
        return "Event"
    members = alternatives(annotation)
    if len(members) > 1:
        return " | ".join(spelled(contract, member) for member in members)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " | ".join(json.dumps(value) for value in arguments)
    if origin is list:
        inner = spelled(contract, arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<string, {spelled(contract, arguments[1])}>"
    if isinstance(annotation, type) and issubclass(annotation, (msgspec.Struct, enum.Enum)):
        return contract.name(annotation)
    return _PLAIN[annotation]


def _interface(contract: Contract, structure: Structure) -> str:
    lines = [f"/** {structure.doc} */", f"export interface {structure.name} {{"]
    if structure.tag:
        lines.append(f"  type: {json.dumps(structure.tag)};")
    for field in structure.fields:
        if field.doc:
            lines.append(f"  /** {field.doc} */")
        optional = "" if field.required else "?"
        # What we receive may say null for "not given"; what we send leaves it out.
        null = " | null" if field.nullable and structure.strict else ""
        lines.append(f"  {field.name}{optional}: {spelled(contract, field.annotation)}{null};")
    if len(lines) == 2 and structure.strict:  # an empty interface would accept anything
        return f"{lines[0]}\nexport type {structure.name} = Record<string, never>;\n"
    return "\n".join([*lines, "}\n"])


def _constant(name: str) -> str:
    words = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")
    return f"{words}S"
