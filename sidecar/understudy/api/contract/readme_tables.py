"""Render the contract as Markdown: the parts of ``protocol/README.md`` between its markers."""

from __future__ import annotations

import enum
import json
import re
import typing
from typing import Any

import msgspec

from understudy.api.contract.catalogue import STAMPS, Contract, Enumeration, Field, Structure, alternatives, is_events
from understudy.model.errors import ErrorKind
from understudy.model.states import State

SPELLED_OUT = 8
"""Structures with more fields than this are linked instead of listed inline."""
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any"}
_SECTION = re.compile(r"(<!-- generated: ([a-z-]+) -->\n)(.*?)(<!-- end of \2 -->)", re.DOTALL)


def fill(page: str, contract: Contract) -> str:
    """Return the page with everything between its markers replaced; raise ``ValueError`` if a marker is missing."""
    sections = {
        "version": f"`protocolVersion = {contract.version}`\n",
        "methods": _methods(contract),
        "notifications": _notifications(contract),
        "structures": _structures(contract),
        "events": _events(contract),
        "states": _states(contract),
        "lists": _lists(contract),
        "errors": _errors(contract),
    }
    markers = {match[2] for match in _SECTION.finditer(page)}
    if markers != set(sections):
        odd = ", ".join(sorted(markers ^ set(sections)))
        raise ValueError(f"the markers of protocol/README.md and the generated sections differ: {odd}")
    return _SECTION.sub(lambda match: f"{match[1]}\n{sections[match[2]]}\n{match[4]}", page)


def spelled(contract: Contract, annotation: Any, *, linked: bool) -> str:
    """Return a type as text; ``linked``: names are links to their section."""
    if is_events(annotation):
        return "[Event](#events)" if linked else "Event"
    members = alternatives(annotation)
    if len(members) > 1:
        return " or ".join(spelled(contract, member, linked=linked) for member in members)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin is list:
        inner = spelled(contract, arguments[0], linked=linked)
        return f"list of ({inner})" if " or " in inner else f"list of {inner}"
    if origin is dict:
        return f"map to {spelled(contract, arguments[1], linked=linked)}"
    if isinstance(annotation, type) and issubclass(annotation, (msgspec.Struct, enum.Enum)):
        name = contract.name(annotation)
        return f"[{name}](#{name.lower()})" if linked else name
    return _PLAIN[annotation]


def _methods(contract: Contract) -> str:
    groups: dict[str, list[str]] = {}
    for method in contract.methods:
        collection = method.name.partition("/")[0] if "/" in method.name else "installation"
        params = contract.structures[method.params]
        result = contract.structures[method.result]
        lines = [f"#### `{method.wire_name}`", "", method.summary]
        if method.needs_notifications:
            lines += ["", "Available only if the server can send notifications."]
        if method.effect in {"delegates", "decides"}:
            unless = f" unless {method.only_looks.text}" if method.only_looks is not None else ""
            lines += ["", f"Refused inside a run{unless}."]
        lines += ["", f"*Parameters* {_link(contract, params)}", f"*Result* {_link(contract, result)}"]
        lines[-2] += "<br>"
        groups.setdefault(collection, []).append("\n".join(lines))
    return "\n\n".join(f"### {name}\n\n" + "\n\n".join(methods) for name, methods in groups.items()) + "\n"


def _notifications(contract: Contract) -> str:
    parts = [
        f"#### `{name}`\n\n{structure.doc}\n\n{_table(contract, structure)}"
        for name, structure in contract.notifications.items()
    ]
    return "\n\n".join(parts) + "\n"


def _structures(contract: Contract) -> str:
    notified = {structure.name for structure in contract.notifications.values()}
    chosen = [structure for structure in contract.structures.values() if structure.name not in notified]
    parts = [
        f"#### {structure.name}\n\n{structure.doc}\n\n{_table(contract, structure)}"
        for structure in sorted(chosen, key=lambda structure: structure.name)
        if structure.fields
    ]
    return "\n\n".join(parts) + "\n"


def _events(contract: Contract) -> str:
    first = next(iter(contract.events.values()))
    stamps = [field for field in first.fields if field.name in STAMPS]
    lines = [
        "Every event has " + ", ".join(f"`{field.name}`" for field in stamps) + " and `type`.",
        "",
        "| `type` | meaning | fields |",
        "|---|---|---|",
    ]
    for event in contract.events.values():
        fields = [field for field in event.fields if field.name not in STAMPS]
        shown = "<br>".join(
            f"`{field.name}{'' if field.required else '?'}` {spelled(contract, field.annotation, linked=True)}"
            for field in fields
        )
        lines.append(f"| `{event.tag}` | {_cell(event.doc)} | {shown} |")
    return "\n".join(lines) + "\n"


def _states(contract: Contract) -> str:
    docs = {member.value: member.doc for member in contract.enumerations[State].members}
    lines = ["#### State", "", "| state | meaning | may be followed by |", "|---|---|---|"]
    for state, following in contract.transitions:
        lines.append(f"| `{state}` | {_cell(docs[state])} | {', '.join(f'`{after}`' for after in following)} |")
    lines += ["", "| after the event | the state is |", "|---|---|"]
    lines += [f"| `{tag}` | `{state}` |" for tag, state in contract.state_after]
    return "\n".join(lines) + "\n"


def _lists(contract: Contract) -> str:
    chosen = [listed for listed in contract.enumerations.values() if listed.name not in {"State", "ErrorKind"}]
    parts = [
        f"#### {listed.name}\n\n{listed.doc}\n\n{_values(listed)}"
        for listed in sorted(chosen, key=lambda listed: listed.name)
    ]
    return "\n\n".join(parts) + "\n"


def _errors(contract: Contract) -> str:
    return f"#### ErrorKind\n\n{_values(contract.enumerations[ErrorKind])}\n"


def _values(listed: Enumeration) -> str:
    lines = ["| value | meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{member.value}` | {_cell(member.doc)} |" for member in listed.members)])


def _table(contract: Contract, structure: Structure) -> str:
    lines = ["| field | type | |", "|---|---|---|"]
    for field in structure.fields:
        shown = f"`{field.name}{'' if field.required else '?'}`"
        lines.append(f"| {shown} | {spelled(contract, field.annotation, linked=True)} | {_cell(_meaning(field))} |")
    return "\n".join(lines)


def _meaning(field: Field) -> str:
    if field.required or field.default is None:
        return field.doc
    default = f"Default: `{json.dumps(field.default)}`."
    return f"{field.doc} {default}".strip() if field.default != "" else field.doc


def _link(contract: Contract, structure: Structure) -> str:
    """Return a structure in one line: as a link, with the fields of small parameters and results inline."""
    is_inline = structure.name.endswith(("Params", "Result")) or not structure.fields
    if not is_inline or len(structure.fields) > SPELLED_OUT:
        return f"[{structure.name}](#{structure.name.lower()})"
    fields = ", ".join(
        f"{field.name}{'' if field.required else '?'}: {spelled(contract, field.annotation, linked=False)}"
        for field in structure.fields
    )
    shown = f"`{{{fields.replace('`', '')}}}`"
    return f"{shown} ([{structure.name}](#{structure.name.lower()}))" if structure.fields else shown


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
