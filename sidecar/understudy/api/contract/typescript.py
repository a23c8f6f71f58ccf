"""Render the contract as TypeScript types, with enumerations and tables as constants."""

from __future__ import annotations

import enum
import json
import typing
from typing import Any

import msgspec

from understudy.api.contract.catalogue import Contract, Structure, alternatives, is_events
from understudy.config.discovery.declarations import DEFAULT_PROTOCOL
from understudy.model.verdicts import RESERVATIONS, VERDICTS

_HEADER = """\
// The wire contract, generated from the method table of the sidecar. Do not edit by hand: run `make generate`.
// Unknown fields in parameters are an error; in results and events, ignore fields that are not listed here.
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
    parts += _constants(contract)
    parts += [_interface(contract, structure) for structure in contract.structures.values()]
    parts += [_interface(contract, structure) for structure in contract.events.values()]
    union = "\n".join(f"  | {event.name}" for event in contract.events.values())
    parts.append(f"/** An event of a delegation; `type` is its kind. */\nexport type Event =\n{union};\n")
    parts.append("/** Every request with its parameters and its result. */\nexport interface Requests {")
    for method in contract.methods:
        sides = f"{{ params: {contract.name(method.params)}; result: {contract.name(method.result)} }}"
        parts.append(f"  /** {method.summary} */\n  {json.dumps(method.wire_name)}: {sides};")
    parts.append("}\n")
    parts.append("/** Every notification of the server with its parameters. */\nexport interface Notifications {")
    for name, structure in contract.notifications.items():
        parts.append(f"  /** {structure.doc} */\n  {json.dumps(name)}: {structure.name};")
    parts.append("}")
    return "\n".join(parts) + "\n"


def _constants(contract: Contract) -> list[str]:
    """Return the sentences of verdicts and reservations, the tables of states, and defaults."""
    meanings = {str(verdict): sentence for verdict, sentence in VERDICTS.items()}
    reasons = {
        str(reservation): {"reason": why, "advice": advice} for reservation, (why, advice) in RESERVATIONS.items()
    }
    return [
        _constant_of("VERDICT_MEANINGS", "Record<Verdict, string>", meanings, "What a verdict means."),
        _constant_of(
            "RESERVATION_REASONS",
            "Record<Reservation, { readonly reason: string; readonly advice: string }>",
            reasons,
            "Why a result is not verified, and what to do about it on the command line.",
        ),
        _constant_of(
            "STATE_TRANSITIONS",
            "Record<State, readonly State[]>",
            dict(contract.transitions),
            "The state transitions of a delegation: state → the states that may follow.",
        ),
        _constant_of(
            "STATE_AFTER_EVENT",
            "Partial<Record<string, State>>",
            dict(contract.state_after),
            "The state after an event, by the event's `type`; other events do not change the state.",
        ),
        _constant_of(
            "DEFAULT_PROTOCOL", "string", DEFAULT_PROTOCOL, "The protocol of a model server that declares none."
        ),
    ]


def _constant_of(name: str, kind: str, value: Any, doc: str) -> str:
    return f"/** {doc} */\nexport const {name}: {kind} = {json.dumps(value, indent=2, ensure_ascii=False)};\n"


def spelled(contract: Contract, annotation: Any) -> str:
    """Return a type in TypeScript syntax."""
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
        # Parameters may use null for "absent"; results omit the field.
        null = " | null" if field.nullable and structure.strict else ""
        lines.append(f"  {field.name}{optional}: {spelled(contract, field.annotation)}{null};")
    if len(lines) == 2 and structure.strict:  # an empty interface would accept anything
        return f"{lines[0]}\nexport type {structure.name} = Record<string, never>;\n"
    return "\n".join([*lines, "}\n"])


def _constant(name: str) -> str:
    words = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")
    return f"{words}S"
